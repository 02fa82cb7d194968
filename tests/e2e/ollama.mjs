// Ollama's API over the fake engine: what becomes of a request, the lines of an answer, and what is told about the model.
import { ask, equal, ok, runAll, serve, test } from './lib.mjs';

const user = (content, more = {}) => [{ role: 'user', content, ...more }];
const post = (s, path, body) => ask(s, { model: 'm', ...body }, `/api/${path}`);
const lines = (r) => r.text.split('\n').filter(Boolean).map((l) => JSON.parse(l));
const tool = { type: 'function', function: { name: 'weather', description: 'd', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };

test('chat: a stream of lines by default, with thoughts and figures', async () => {
  const s = await serve();
  const r = await post(s, 'chat', { messages: user('think tokens=5') });
  equal([r.status, r.headers.get('content-type')], [200, 'application/x-ndjson']);
  const all = lines(r);
  equal(all.map((l) => [l.message.thinking ?? null, l.message.content, l.done]), [['think0 ', '', false], ['think1 ', '', false], ['think2 ', '', false], [null, 'token3 ', false], [null, 'token4 ', false], [null, '', true]]);
  const last = all.at(-1);
  equal([last.model, last.done_reason, last.prompt_eval_count, last.eval_count], ['m', 'stop', 5, 5]);
  for (const key of ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration']) equal(typeof last[key], 'number', key);
  ok(!Number.isNaN(Date.parse(last.created_at)), last.created_at);
  equal(lines(await post(s, 'chat', { messages: user('tokens=9'), options: { num_predict: 2 } })).at(-1).done_reason, 'length');
});

test('chat: whole, with tools, and what came of them', async () => {
  const s = await serve();
  const r = await post(s, 'chat', { messages: user('hi'), tools: [tool], stream: false });
  equal(r.json.message.tool_calls[0].function, { index: 0, name: 'weather', arguments: { city: 'Paris' } });
  const streamed = lines(await post(s, 'chat', { messages: user('hi'), tools: [tool] }));
  equal(streamed[0].message.tool_calls[0].function.arguments, { city: 'Paris' });
  const sent = JSON.parse((await post(s, 'chat', { stream: false, messages: [...user('hi'), r.json.message, { role: 'tool', tool_name: 'weather', content: 'dump' }], tools: [tool] })).json.message.content);
  equal(sent.messages, [{ role: 'user', content: 'hi' }, { role: 'assistant', content: '', tool_calls: [{ id: 'call_0', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } }] }, { role: 'tool', content: 'dump', tool_call_id: 'call_0' }]);
});

test('chat: options, format, think, images; what belongs to loading is named', async () => {
  const s = await serve();
  const r = await post(s, 'chat', { model: 'm:latest', stream: false, messages: user('dump', { images: ['/9j/AAAA', 'iVBORw0'] }), options: { num_predict: 7, temperature: 0.5, seed: 3, stop: ['x'], num_ctx: 8192, num_gpu: 1 }, think: 'high', keep_alive: '5m' });
  equal(r.headers.get('x-ignored'), 'options.num_ctx, options.num_gpu');
  const sent = JSON.parse(r.json.message.content);
  equal([sent.max_tokens, sent.temperature, sent.seed, sent.stop, sent.reasoning_effort], [7, 0.5, 3, ['x'], 'high']);
  equal(sent.messages[0].content.map((p) => p.image_url?.url ?? p.text), ['dump', 'data:image/jpeg;base64,/9j/AAAA', 'data:image/png;base64,iVBORw0']);
  equal(JSON.parse((await post(s, 'chat', { stream: false, messages: user('x'), format: { type: 'object', properties: { n: { type: 'integer' } } } })).json.message.content), { n: 7 });
  await post(s, 'chat', { messages: user('tokens=1'), format: 'json', think: false, stream: false });
  const last = JSON.parse(s.seen().filter((e) => e.kind === 'REQUEST').at(-1).json);
  equal([last.response_format, last.chat_template_kwargs], [{ type: 'json_object' }, { enable_thinking: false }]);
});

test('what the assistant has begun is continued', async () => {
  const s = await serve();
  for (const message of [{ role: 'assistant', content: 'The answer is' }, { role: 'user', content: 'y' }]) await post(s, 'chat', { stream: false, messages: [...user('x'), message] });
  equal(s.seen().filter((e) => e.kind === 'REQUEST').map((e) => JSON.parse(e.json).continue_final_message), [true, undefined]);
});

test('generate: as a user speaks, raw, and only to load', async () => {
  const s = await serve();
  equal(lines(await post(s, 'generate', { prompt: 'tokens=2' })).map((l) => l.response).join(''), 'token0 token1 ');
  const sent = JSON.parse((await post(s, 'generate', { prompt: 'dump', system: 'be', stream: false })).json.response);
  equal([sent.kind, sent.messages], ['chat', [{ role: 'system', content: 'be' }, { role: 'user', content: 'dump' }]]);
  const raw = JSON.parse((await post(s, 'generate', { prompt: 'dump', raw: true, stream: false })).json.response);
  equal([raw.kind, raw.prompt], ['completion', 'dump']);
  equal((await post(s, 'generate', { prompt: 'x', raw: true, stream: false, system: 'be', think: true })).headers.get('x-ignored'), 'system, think');
  const load = await post(s, 'generate', { keep_alive: -1 });
  equal([load.json.done, load.json.done_reason, load.json.response], [true, 'load', '']);
  equal((await post(s, 'chat', { messages: [] })).json.done_reason, 'load');
});

test('embed and embeddings', async () => {
  const s = await serve();
  const r = await post(s, 'embed', { input: ['a', 'b'], truncate: true });
  equal([r.json.embeddings.length, r.json.embeddings[0].length, r.json.model, r.json.prompt_eval_count], [2, 8, 'm', 5]);
  equal((await post(s, 'embeddings', { prompt: 'a' })).json.embedding, r.json.embeddings[0]);
});

test('what there is: tags, ps, show, version', async () => {
  const s = await serve();
  const { json } = await s.get('/api/tags');
  equal([json.models[0].name, json.models[0].details.format, json.models[0].digest.length], ['m', 'gguf', 64]);
  equal((await s.get('/api/ps')).json.models[0].model, 'm');
  ok(/^\d+\.\d+\.\d+$/.test((await s.get('/api/version')).json.version), 'version');
  const show = (await post(s, 'show', {})).json;
  equal([show.capabilities, show.model_info['general.architecture'], show.model_info['fake.context_length']], [['completion', 'tools', 'embedding'], 'fake', 4096]);
  equal((await fetch(s.url, { method: 'HEAD' })).status, 200);
});

test('pull is honest, and the rest is refused', async () => {
  const s = await serve();
  equal(lines(await post(s, 'pull', {})), [{ status: 'success' }]);
  const no = await post(s, 'pull', { model: 'llama3' });
  ok(no.status === 404 && /llama3/.test(no.json.error), no.text);
  for (const path of ['create', 'copy', 'push']) ok((await post(s, path, {})).status === 400, path);
  equal((await fetch(`${s.url}/api/delete`, { method: 'DELETE', body: '{}' })).status, 400);
});

test('errors are one sentence, in a stream, too', async () => {
  const s = await serve();
  for (const [path, body, status, word] of [['chat', { model: 'llama3', messages: user('x') }, 404, /llama3/], ['chat', { messages: user('x'), optons: {} }, 400, /options/], ['chat', { messages: user('x'), options: { temprature: 1 } }, 400, /temperature/],
    ['chat', { messages: [{ role: 'user' }, 7] }, 400, /messages\[1\]/], ['generate', { prompt: 'x', suffix: 5 }, 400, /suffix/], ['generate', { prompt: 'x', context: [1] }, 400, /context/], ['chat', { messages: user('error=400') }, 400, /too long/]]) {
    const r = await post(s, path, body);
    ok(r.status === status && typeof r.json.error === 'string' && word.test(r.json.error), `${JSON.stringify(body)}: ${r.text}`);
  }
  equal(lines(await post(s, 'chat', { messages: user('tokens=5 error_after=2') })).at(-1), { error: 'the engine lost its way' });
});

runAll('ollama');

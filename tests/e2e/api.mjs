// The API: shapes of answers, streams, errors, and every field that is taken or refused.
import { ask, chat, connect, equal, events, eventually, ok, post, runAll, serve, test } from './lib.mjs';

const user = (content) => [{ role: 'user', content }];

test('a chat: its shape, its usage, its headers', async () => {
  const s = await serve();
  const from = Math.floor(Date.now() / 1000);
  const r = await ask(s, { model: 'm', messages: user('tokens=3 cached=2') }, undefined, { 'x-request-id': 'mine-1' });
  equal(r.status, 200);
  equal([r.headers.get('content-type'), r.headers.get('x-request-id')], ['application/json', 'mine-1']);
  const { id, created, system_fingerprint, timings, ...rest } = r.json;
  ok(id === 'chatcmpl-mine-1' && created >= from && created <= Date.now() / 1000 && /^b.*-vr_/.test(system_fingerprint), 'head');
  equal([timings.cache_n, timings.prompt_n, timings.predicted_n], [2, 3, 3]);
  equal(rest, {
    object: 'chat.completion', model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'token0 token1 token2 ', refusal: null }, logprobs: null, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8, prompt_tokens_details: { cached_tokens: 2 }, completion_tokens_details: { reasoning_tokens: 0 } },
  });
});

test('a stream: role first, text, finish, usage when asked, [DONE]', async () => {
  const s = await serve();
  const r = await ask(s, { model: 'm', messages: user('tokens=3'), stream: true, stream_options: { include_usage: true } });
  ok(/^text\/event-stream/.test(r.headers.get('content-type')), 'type');
  const e = events(r.text);
  equal(e.map((x) => x === '[DONE]' ? x : x.choices[0] ? [x.choices[0].delta, x.choices[0].finish_reason, x.usage] : x.usage.total_tokens), [
    [{ role: 'assistant', content: null }, null, null], [{ content: 'token0 ' }, null, null], [{ content: 'token1 ' }, null, null],
    [{ content: 'token2 ' }, null, null], [{}, 'stop', null], 8, '[DONE]']);
  equal(new Set(e.slice(0, -1).map((x) => x.id)).size, 1, 'one id');
  equal(e[0].object, 'chat.completion.chunk');
  const plain = events((await ask(s, { model: 'm', messages: user('tokens=1'), stream: true })).text);
  ok(plain.every((x) => x === '[DONE]' || !('usage' in x)), 'no usage unless asked');
});

test('text of every kind survives: quotes, controls, emoji, large pieces', async () => {
  const s = await serve();
  const odd = 'dump "\\ \n\t\u0001\u007f grüße 😀 \u2028 </script>';
  for (const stream of [false, true]) {
    const r = await ask(s, { model: 'm', messages: user(odd), stream });
    const text = stream ? events(r.text).filter((x) => x.choices).map((x) => x.choices[0].delta.content ?? '').join('') : r.json.choices[0].message.content;
    equal(JSON.parse(text).messages[0].content, odd, `stream ${stream}`);
  }
  const big = await ask(s, { model: 'm', messages: user('tokens=20 size=100000') });
  equal(big.json.choices[0].message.content.length, 2000000);
});

test('n choices, also streamed, also of several prompts', async () => {
  const s = await serve();
  const whole = await ask(s, { model: 'm', messages: user('tokens=2'), n: 3 });
  equal(whole.json.choices.map((c) => [c.index, c.message.content]), [0, 1, 2].map((i) => [i, 'token0 token1 ']));
  equal(whole.json.usage.completion_tokens, 6);
  const e = events((await ask(s, { model: 'm', messages: user('tokens=2'), n: 3, stream: true })).text);
  for (const i of [0, 1, 2]) {
    const own = e.filter((x) => x.choices?.[0]?.index === i).map((x) => x.choices[0]);
    equal([own[0].delta.role, own.map((c) => c.delta.content ?? '').join(''), own.at(-1).finish_reason], ['assistant', 'token0 token1 ', 'stop']);
  }
  const c = await ask(s, { model: 'm', prompt: ['tokens=1', 'b'], n: 2 }, '/v1/completions');
  equal(c.json.choices.map((x) => [x.index, x.text]), [0, 1, 2, 3].map((i) => [i, 'token0 ']));
  equal([c.json.object, /^cmpl-/.test(c.json.id)], ['text_completion', true]);
  const cs = events((await ask(s, { model: 'm', prompt: 'tokens=2', stream: true }, '/v1/completions')).text);
  equal(cs.map((x) => x === '[DONE]' ? x : [x.choices[0].text, x.choices[0].finish_reason]), [['token0 ', null], ['token1 ', null], ['', 'stop'], '[DONE]']);
});

test('reasoning, tools, lengths', async () => {
  const s = await serve();
  const r = await ask(s, { model: 'm', messages: user('think tokens=5') });
  equal([r.json.choices[0].message.reasoning_content, r.json.choices[0].message.content], ['think0 think1 think2 ', 'token3 token4 ']);
  equal(r.json.usage.completion_tokens_details.reasoning_tokens, 3);
  const e = events((await ask(s, { model: 'm', messages: user('think tokens=4'), stream: true })).text);
  equal(e.filter((x) => x.choices?.[0].delta.reasoning_content).length, 3);
  const tools = [{ type: 'function', function: { name: 'weather', description: 'x', parameters: { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city'] } } }];
  const t = await ask(s, { model: 'm', messages: user('hi'), tools });
  const call = t.json.choices[0].message.tool_calls[0];
  equal([t.json.choices[0].finish_reason, t.json.choices[0].message.content, call.type, call.function.name, JSON.parse(call.function.arguments)],
    ['tool_calls', null, 'function', 'weather', { city: 'Paris', days: 7 }]);
  ok(call.id, 'id');
  const ts = events((await ask(s, { model: 'm', messages: user('hi'), tools, stream: true })).text).filter((x) => x.choices?.[0].delta.tool_calls);
  equal(JSON.parse(ts.map((x) => x.choices[0].delta.tool_calls[0].function.arguments).join('')), { city: 'Paris', days: 7 });
  const back = await ask(s, { model: 'm', tools, messages: [...user('hi'), t.json.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'tokens=2' }] });
  equal(back.json.choices[0].message.content, 'token0 token1 ');
  const l = await ask(s, { model: 'm', messages: user('tokens=9'), max_completion_tokens: 4 });
  equal([l.json.choices[0].finish_reason, l.json.usage.completion_tokens], ['length', 4]);
});

test('logprobs in both forms', async () => {
  const s = await serve();
  const r = await ask(s, { model: 'm', messages: user('tokens=2'), logprobs: true, top_logprobs: 1 });
  const lp = r.json.choices[0].logprobs.content;
  equal([lp.length, lp[0].token, lp[0].logprob, lp[0].top_logprobs.length], [2, 'token0 ', -0.25, 1]);
  const e = events((await ask(s, { model: 'm', messages: user('tokens=2'), logprobs: true, stream: true })).text);
  const own = e.filter((x) => x.choices?.[0].logprobs);
  equal(own.map((x) => [x.choices[0].delta.content, x.choices[0].logprobs.content[0].token]), [['token0 ', 'token0 '], ['token1 ', 'token1 ']]);
  equal(e.filter((x) => x.choices?.[0].delta.content).length, 2, 'no text twice');
  const c = await ask(s, { model: 'm', prompt: 'tokens=2 unicode', logprobs: 1 }, '/v1/completions');
  equal(c.json.choices[0].logprobs.text_offset, [0, 10]);
  equal(Object.keys(c.json.choices[0].logprobs), ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset']);
});

test('embeddings as floats and as base64', async () => {
  const s = await serve();
  const r = await ask(s, { model: 'm', input: ['a', 'b'] }, '/v1/embeddings');
  equal([r.json.object, r.json.data.length, r.json.data[1].index, r.json.data[0].object, r.json.model], ['list', 2, 1, 'embedding', 'm']);
  const b = await ask(s, { model: 'm', input: ['a', 'b'], encoding_format: 'base64' }, '/v1/embeddings');
  const bytes = Buffer.from(b.json.data[1].embedding, 'base64');
  const floats = Array.from({ length: 8 }, (_, i) => bytes.readFloatLE(i * 4));
  equal(floats, r.json.data[1].embedding.map(Math.fround), 'the same numbers');
  equal((await ask(s, { model: 'm', input: [[1, 2], [3]], dimensions: 8 }, '/v1/embeddings')).status, 200);
});

test('models: the list, one, none; names that work', async () => {
  const s = await serve();
  const list = (await s.get('/v1/models')).json;
  equal([list.object, list.data.map((m) => [m.id, m.object, m.owned_by])], ['list', [['m', 'model', 'vram-llm']]]);
  equal((await s.get('/v1/models/m')).json.id, 'm');
  equal((await s.get('/v1/models/%6d')).json.id, 'm');
  for (const id of ['x', '%', '%zz', '%00', 'm/x']) {
    const r = await s.get('/v1/models/' + id);
    equal([r.status, r.json.error.code], [404, 'model_not_found'], id);
  }
  for (const model of ['m', 'Devstral-Small-2505-Q5_K_M', 'Devstral-Small-2505-Q5_K_M.gguf', null, undefined])
    equal((await ask(s, { model, messages: user('tokens=1') })).status, 200, String(model));
  const r = await ask(s, { model: 'gpt-4o', messages: user('hi') });
  equal([r.status, r.json.error.param, r.json.error.code], [404, 'model', 'model_not_found']);
});

test('fields: a row each, refused by name or taken', async () => {
  const s = await serve();
  const schema = (x) => ({ type: 'json_schema', json_schema: { name: 'x', strict: true, schema: x } });
  const tool = (f) => [{ type: 'function', function: f }];
  const nested = (n) => { let x = { type: 'string' }; for (let i = 0; i < n; i++) x = { type: 'object', properties: { a: x } }; return x; };
  const rows = [
    // body, null (taken) or [param, code]
    [{}, null],
    [{ temperature: 0 }, null], [{ temperature: 2 }, null],
    [{ temperature: 2.1 }, ['temperature', 'invalid_value']],
    [{ temperature: '1' }, ['temperature', 'invalid_type']],
    [{ top_p: -0.1 }, ['top_p', 'invalid_value']],
    [{ n: 0 }, ['n', 'invalid_value']], [{ n: 17 }, ['n', 'invalid_value']], [{ n: 1.5 }, ['n', 'invalid_type']],
    [{ max_tokens: -2 }, ['max_tokens', 'invalid_value']],
    [{ max_tokens: 5, max_completion_tokens: 6 }, ['max_tokens', 'invalid_value']], [{ max_tokens: 5, max_completion_tokens: 5 }, null], [{ max_tokens: -1 }, null], [{ top_k: 40.0 }, null],
    [{ seed: 12345678901234 }, null], [{ seed: 'x' }, ['seed', 'invalid_type']],
    [{ stop: 'a' }, null], [{ stop: ['a', 'b'] }, null], [{ stop: [] }, null],
    [{ stop: [''] }, ['stop', 'invalid_value']], [{ stop: [1] }, ['stop', 'invalid_value']],
    [{ stop: Array(17).fill('a') }, ['stop', 'too_many']], [{ stop: 'x'.repeat(257) }, ['stop', 'invalid_value']],
    [{ stream: 'yes' }, ['stream', 'invalid_type']],
    [{ stream_options: { include_usage: true } }, null],
    [{ stream: true, stream_options: { x: 1 } }, ['stream_options.x', 'unknown_parameter']],
    [{ logit_bias: { 15: -100 } }, null], [{ logit_bias: { x: 1 } }, ['logit_bias', 'invalid_value']],
    [{ logit_bias: { 15: 101 } }, ['logit_bias', 'invalid_value']],
    [{ top_logprobs: 2 }, ['top_logprobs', 'invalid_value']], [{ logprobs: true, top_logprobs: 21 }, ['top_logprobs', 'invalid_value']],
    [{ logprobs: 3 }, ['logprobs', 'invalid_type']],
    [{ max_token: 3 }, ['max_token', 'unknown_parameter']],
    [{ anything: 1 }, ['anything', 'unknown_parameter']],
    [{ anything: null }, null],
    [{ prompt: 'x' }, ['prompt', 'unknown_parameter']],
    [{ kind: 'chat' }, ['kind', 'unknown_parameter']],
    [{ user: 'u', metadata: { a: 'b' }, service_tier: 'auto', store: false, prompt_cache_key: 'k', safety_identifier: 's' }, null],
    [{ store: true, verbosity: 'low' }, null],
    [{ modalities: ['text'] }, null], [{ modalities: ['text', 'audio'] }, ['modalities', 'unsupported_parameter']],
    [{ audio: { voice: 'x' } }, ['audio', 'unsupported_parameter']], [{ prediction: {} }, ['prediction', 'unsupported_parameter']],
    [{ functions: [] }, ['functions', 'unsupported_parameter']], [{ function_call: 'auto' }, ['function_call', 'unsupported_parameter']],
    [{ web_search_options: {} }, ['web_search_options', 'unsupported_parameter']],
    [{ top_k: 40, min_p: 0.1, repeat_penalty: 1.1, repeat_last_n: 64, ignore_eos: false, cache_prompt: true }, null],
    [{ reasoning_effort: 'low' }, null], [{ reasoning_effort: 'lots' }, ['reasoning_effort', 'invalid_value']],
    [{ reasoning_format: 'none' }, null],
    [{ chat_template_kwargs: { enable_thinking: false } }, null], [{ chat_template_kwargs: { a: [{}] } }, null],
    [{ chat_template_kwargs: { enable_thinking: 'yes' } }, ['chat_template_kwargs', 'invalid_type']], [{ chat_template_kwargs: { a: 'x'.repeat(70000) } }, ['chat_template_kwargs', 'too_large']],
    // messages
    [{ messages: undefined }, ['messages', 'missing_required_parameter']], [{ messages: [] }, ['messages', 'invalid_type']],
    [{ messages: 'hi' }, ['messages', 'invalid_type']], [{ messages: [1] }, ['messages[0]', 'invalid_type']],
    [{ messages: [{ role: 'king', content: 'x' }] }, ['messages[0]', 'invalid_value']],
    [{ messages: [{ role: 'user' }] }, ['messages[0].content', 'invalid_type']],
    [{ messages: [{ role: 'user', content: null }] }, ['messages[0].content', 'invalid_type']],
    [{ messages: [{ role: 'user', content: 'a', refusal: null, annotations: [] }] }, null],
    [{ messages: [{ role: 'developer', content: 'a' }, { role: 'user', content: [{ type: 'text', text: 'b' }] }] }, null],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }] }, null], // the engine says whether it can see
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://x/y.png' } }] }] }, ['messages[0].content[0]', 'invalid_value']],
    [{ messages: [{ role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] }, ...user('tokens=1')] }, null],
    [{ messages: [{ role: 'user', content: [{ type: 'refusal', refusal: 'no' }] }] }, ['messages[0].content[0]', 'invalid_value']],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: 'x' }] }] }, ['messages[0].content[0]', 'invalid_type']],
    [{ messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }] }, ['messages[0].content[0]', 'invalid_type']],
    [{ messages: [{ role: 'user', content: [{ type: 'file', file: {} }] }] }, ['messages[0].content[0]', 'unsupported_content']],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, ['messages[0].content[0].text', 'invalid_type']],
    [{ messages: [{ role: 'user', content: ['x'] }] }, ['messages[0].content[0]', 'invalid_type']],
    [{ messages: [{ role: 'tool', content: 'x' }] }, ['messages[0].tool_call_id', 'invalid_type']],
    [{ messages: [{ role: 'user', content: 'x', tool_calls: [] }] }, ['messages[0].tool_calls', 'invalid_value']],
    [{ messages: [{ role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: {} } }] }] }, ['messages[0].tool_calls[0].function.arguments', 'invalid_type']],
    [{ messages: Array(8193).fill({ role: 'user', content: 'x' }) }, ['messages', 'too_many']],
    // tools
    [{ tools: [] }, null], [{ tools: {} }, ['tools', 'invalid_type']], [{ tools: [{ type: 'web_search' }] }, ['tools[0]', 'unsupported_content']],
    [{ tools: tool({ name: 'a b' }) }, ['tools[0]', 'invalid_value']], [{ tools: tool({ name: 'a' }) }, null],
    [{ tools: tool({ name: 'a', parameters: [] }) }, ['tools[0].function.parameters', 'invalid_type']],
    [{ tools: tool({ name: 'a', parameters: { type: 'object', properties: { x: { type: 'number', minimum: 0 } } } }) }, null],
    [{ tools: tool({ name: 'a', strict: true, parameters: { type: 'object', properties: { x: { not: {} } } } }) }, ['tools[0].function.parameters', 'invalid_schema']],
    [{ tool_choice: 'maybe' }, ['tool_choice', 'invalid_value']], [{ tool_choice: { type: 'function', function: { name: 'a' } } }, ['tool_choice', 'invalid_value']],
    [{ tools: tool({ name: 'a' }), tool_choice: { type: 'function', function: { name: 'a' } }, parallel_tool_calls: false }, null],
    [{ tools: tool({ name: 'a' }), tool_choice: { type: 'function', function: { name: 'b' } } }, ['tool_choice', 'invalid_value']],
    [{ tools: [], tool_choice: 'required' }, ['tool_choice', 'invalid_value']],
    [{ tools: tool({ name: 'a' }), grammar: 'root ::= "a"' }, ['grammar', 'invalid_value']],
    [{ tools: tool({ name: 'a' }), response_format: { type: 'json_object' } }, ['response_format', 'invalid_value']],
    // the form of the answer
    [{ response_format: { type: 'text' } }, null], [{ response_format: { type: 'json_object' } }, null],
    [{ response_format: { type: 'xml' } }, ['response_format', 'invalid_value']], [{ response_format: { type: 'json_schema' } }, ['response_format', 'missing_required_parameter']],
    [{ response_format: schema({ type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }) }, null],
    [{ response_format: schema({ type: 'object', properties: { a: { type: 'string', uniqueItems: true } } }) }, ['response_format.json_schema.schema', 'invalid_schema']],
    [{ response_format: schema({ not: {} }) }, ['response_format.json_schema.schema', 'invalid_schema']],
    [{ response_format: schema({ $ref: 'https://evil.example/x' }) }, ['response_format.json_schema.schema', 'invalid_schema']],
    [{ response_format: schema(nested(25)) }, null],
    [{ response_format: schema({ type: 'string', maxLength: 100000000 }) }, ['response_format.json_schema.schema', 'invalid_schema']],
    [{ response_format: schema({ type: 'string', enum: Array(40000).fill('xxxxxxxxxx') }) }, ['response_format.json_schema.schema', 'schema_too_large']],
    [{ grammar: 'root ::= "a"' }, null], [{ grammar: '' }, ['grammar', 'invalid_value']],
    [{ grammar: 'root ::= ' + '('.repeat(60000) }, ['grammar', 'invalid_grammar']],
    [{ grammar: 'root ::= "a"{10000000}' }, ['grammar', 'invalid_grammar']],
    [{ grammar: 'x'.repeat(70000) }, ['grammar', 'invalid_value']],
    [{ grammar: 'root ::= "a"', response_format: { type: 'json_object' } }, ['grammar', 'invalid_value']],
  ];
  const wrong = [];
  for (const [fields, want] of rows) {
    if (process.env.SHOW) console.log(JSON.stringify(fields).slice(0, 100));
    const r = await ask(s, { model: 'm', messages: user('tokens=1'), ...fields });
    const got = r.status === 200 ? null : [r.json?.error.param, r.json?.error.code];
    if (JSON.stringify(got) !== JSON.stringify(want) || (want && r.status !== 400))
      wrong.push(`${JSON.stringify(fields).slice(0, 100)}: ${r.status} ${JSON.stringify(got)} ${r.json?.error?.message}`);
  }
  equal(wrong, [], 'wrong');
  const others = [
    ['/v1/completions', { prompt: 'a', suffix: '' }, null], ['/v1/completions', { prompt: 'a', suffix: 'x' }, null], ['/v1/completions', { prompt: ['a', 'b'], suffix: 'x' }, 'suffix'],
    ['/v1/completions', { prompt: 'a', best_of: 1 }, null], ['/v1/completions', { prompt: 'a', best_of: 2 }, 'best_of'],
    ['/v1/completions', { prompt: [] }, 'prompt'], ['/v1/completions', { prompt: [1, 'a'] }, null], ['/v1/completions', { prompt: [1, ['a']] }, 'prompt'], ['/v1/completions', { prompt: [1, 2] }, null],
    ['/v1/completions', { prompt: [[1, 2], 'a'] }, null], ['/v1/completions', { prompt: [[-1]] }, 'prompt'], ['/v1/completions', {}, 'prompt'],
    ['/v1/completions', { prompt: Array(20).fill('a'), n: 16 }, 'n'], ['/v1/completions', { prompt: 'a', messages: [] }, 'messages'],
    ['/v1/completions', { prompt: 'a', echo: true, logprobs: 2 }, 'echo'],
    ['/v1/embeddings', {}, 'input'], ['/v1/embeddings', { input: '' }, 'input'], ['/v1/embeddings', { input: ['a', ''] }, 'input'], ['/v1/embeddings', { input: 'a', temperature: 1 }, 'temperature'],
    ['/v1/embeddings', { input: 'a', encoding_format: 'hex' }, 'encoding_format'], ['/v1/embeddings', { input: 'a', user: 'u' }, null],
  ];
  for (const [path, body, param] of others) {
    const r = await ask(s, { model: 'm', ...body }, path);
    equal([r.status, r.json.error?.param ?? null], [param ? 400 : 200, param], path + JSON.stringify(body).slice(0, 60));
  }
});

test('what the engine gets: the fields that are its own, and nothing else', async () => {
  const s = await serve();
  const r = await ask(s, { model: 'm', user: 'u', temperature: 0.5, top_p: null, metadata: {}, stop: ['x'],
    messages: [{ role: 'user', content: 'dump', cache_control: {}, name: 'n' }] });
  equal(JSON.parse(r.json.choices[0].message.content), { temperature: 0.5, stop: ['x'], messages: [{ role: 'user', content: 'dump', name: 'n' }], kind: 'chat', client: 1, tenant: 0 });
  for (const mine of [{ tenant: 7 }, { client: 7 }]) equal((await ask(s, { model: 'm', ...mine, messages: user('dump') })).status, 400, 'whose it is, is not for clients to say');
});

test('errors of the engine: before the answer a status, within a stream an event', async () => {
  const s = await serve();
  for (const stream of [false, true]) {
    const r = await ask(s, { model: 'm', messages: user('error=400'), stream });
    equal([r.status, r.json.error.code, r.json.error.param, /too long by 12/.test(r.json.error.message)], [400, 'context_length_exceeded', 'messages', true]);
  }
  const e = events((await ask(s, { model: 'm', messages: user('error_after=2 tokens=5'), stream: true })).text);
  equal([e.at(-1).error.type, e.at(-1).error.message, e.includes('[DONE]')], ['server_error', 'the engine lost its way', false]);
  const w = await ask(s, { model: 'm', messages: user('error_after=2 tokens=5') });
  equal([w.status, w.json.error.message], [500, 'the engine lost its way']);
});

test('loading: listens at once, says how far, refuses with Retry-After', async () => {
  const s = await serve({ engine: { held: true }, ready: false });
  equal((await s.get('/health')).status, 503, 'before anything is loaded');
  s.tell('load 40');
  const h = await eventually('40 percent', async () => { const now = await s.get('/health'); return now.json.percent === 40 && now; });
  equal([h.status, h.json.status], [503, 'loading']);
  const r = await ask(s, { model: 'm', messages: user('hi') });
  equal([r.status, r.json.error.code], [503, 'model_loading']);
  ok(Number(r.headers.get('retry-after')) > 0, 'Retry-After');
  equal((await s.get('/v1/models')).json.data[0].id, 'm');
  equal((await s.get('/api/status')).json.engine.state, 'loading');
  s.tell('load 100');
  await s.until('ok');
  equal((await s.get('/api/status')).json.engine.ready.arch, 'fake');
});

test('a full queue gets 429 with Retry-After, and room comes back', async () => {
  const s = await serve({ args: ['--max-queue', '4'], engine: { n_seq: 2 } });
  const open = Array.from({ length: 6 }, () => { const c = connect(s.port); c.send(post('/v1/chat/completions', chat('hang', { stream: true }))); return c; });
  await eventually('six in flight', async () => await s.metric('requests_in_flight') === 6);
  const r = await ask(s, { model: 'm', messages: user('hi') });
  equal([r.status, r.json.error.code, r.json.error.type], [429, 'queue_full', 'rate_limit_error']);
  ok(Number(r.headers.get('retry-after')) >= 1, 'Retry-After');
  equal((await ask(s, { model: 'm', prompt: 'a', n: 7 }, '/v1/completions')).status, 429, 'choices count');
  await eventually('the engine has a request for each slot and one ahead', () => s.count('REQUEST') === 3);
  equal(await s.metric('requests_waiting'), 3);
  open.slice(0, 4).forEach((c) => c.close());
  await eventually('room', async () => await s.metric('requests_in_flight') === 2);
  equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
  open.forEach((c) => c.close());
});

test('silent streams get comments, queued ones begin', async () => {
  const s = await serve();
  const c = connect(s.port);
  c.send(post('/v1/chat/completions', chat('hang', { stream: true })));
  await c.until(() => c.text().includes(': still here'));
  ok(c.text().includes('text/event-stream'), 'begun');
  c.close();
});

test('metrics are valid Prometheus text', async () => {
  const s = await serve();
  await ask(s, { model: 'm', messages: user('tokens=3') });
  const r = await fetch(s.url + '/metrics');
  ok(/^text\/plain; version=0\.0\.4/.test(r.headers.get('content-type')), 'type');
  const text = await r.text();
  for (const line of text.trim().split('\n'))
    ok(/^# (HELP|TYPE) vram_llm_\w+ .+$/.test(line) || /^vram_llm_\w+(\{[^}]*\})? -?[0-9.e+]+$/.test(line), line);
  equal(await s.metric('text_tokens_total'), 3);
  ok(/vram_llm_http_requests_total\{family="chat",status="200"\} 1\n/.test(text), 'requests');
  ok(/vram_llm_first_token_seconds_count 1\n/.test(text), 'first token');
  // HTTP requests are all that came; requests are those to the model, and the page is told the same number of them
  const status = (await s.get('/api/status')).json;
  ok(status.http_requests >= 3, 'HTTP requests');
  equal([status.requests.answered, status.requests.in_flight, status.requests.cancelled], [1, 0, 0]);
  equal(await s.metric('request_seconds_count'), 1);
});

runAll('e2e api');

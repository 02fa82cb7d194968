// POST /v1/responses over the fake engine: what becomes of a request, the items and events of an answer, and what is stored of it.
import fs from 'node:fs';
import { ask, equal, ok, runAll, scratchFile, serve, test } from './lib.mjs';

const where = '/v1/responses';
const create = (s, body, headers) => ask(s, body, where, headers);
// What the engine was asked, of a request whose last text has the word dump in it.
const dumped = (r) => JSON.parse(r.json.output.find((i) => i.type === 'message').content[0].text);
const named = (text) => text.split('\n\n').filter(Boolean).map((e) => {
  const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(e);
  const json = JSON.parse(data);
  equal(json.type, name, 'type');
  return json;
});
const weather = { type: 'function', name: 'weather', description: 'd', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false }, strict: true };

test('a whole response', async () => {
  const s = await serve();
  const r = await create(s, { model: 'm', input: 'think tokens=5', temperature: 0.5, metadata: { a: 'b' }, instructions: 'short' });
  equal(r.status, 200, r.text);
  ok(/^resp_[0-9a-f]{24}$/.test(r.json.id), r.json.id);
  equal(r.json.output.map((i) => [i.type, i.status]), [['reasoning', 'completed'], ['message', 'completed']]);
  equal(r.json.output[0].content, [{ type: 'reasoning_text', text: 'think0 think1 think2 ' }]);
  equal(r.json.output[1].content[0].text, 'token3 token4 ');
  equal([r.json.status, r.json.metadata, r.json.temperature, r.json.instructions, r.json.store], ['completed', { a: 'b' }, 0.5, 'short', true]);
  equal(r.json.usage, { input_tokens: 5, input_tokens_details: { cached_tokens: 0 }, output_tokens: 5, output_tokens_details: { reasoning_tokens: 3 }, total_tokens: 10 });
  const cut = await create(s, { input: 'tokens=50', max_output_tokens: 2 });
  equal([cut.json.status, cut.json.incomplete_details, cut.json.output[0].status], ['incomplete', { reason: 'max_output_tokens' }, 'incomplete']);
});

test('a stream: every event in its place, numbered, and the whole at its end', async () => {
  const s = await serve();
  const e = named((await create(s, { input: 'think tokens=5', stream: true })).text);
  equal(e.map((x) => x.type), [
    'response.created', 'response.in_progress',
    'response.output_item.added', 'response.content_part.added', ...Array(3).fill('response.reasoning_text.delta'), 'response.reasoning_text.done', 'response.content_part.done', 'response.output_item.done',
    'response.output_item.added', 'response.content_part.added', ...Array(2).fill('response.output_text.delta'), 'response.output_text.done', 'response.content_part.done', 'response.output_item.done',
    'response.completed']);
  equal(e.map((x) => x.sequence_number), e.map((_, i) => i));
  const whole = e.at(-1).response;
  equal(whole.output, e.filter((x) => x.type === 'response.output_item.done').map((x) => x.item));
  equal(e.filter((x) => x.type === 'response.output_text.delta').map((x) => x.delta).join(''), whole.output[1].content[0].text);
  for (const x of e.filter((y) => y.item_id)) equal(x.item_id, whole.output[x.output_index].id);
  const cut = named((await create(s, { input: 'tokens=9', max_output_tokens: 2, stream: true })).text);
  equal([cut.at(-1).type, cut.at(-1).response.incomplete_details], ['response.incomplete', { reason: 'max_output_tokens' }]);
  const summary = named((await create(s, { input: 'think tokens=4', stream: true, reasoning: { summary: 'auto', effort: 'low' } })).text);
  ok(summary.some((x) => x.type === 'response.reasoning_summary_text.delta') && summary.some((x) => x.type === 'response.reasoning_summary_part.done'), 'summary');
  equal(summary.at(-1).response.output[0].summary, [{ type: 'summary_text', text: 'think0 think1 think2 ' }]);
});

test('tools: whole, streamed, sent back; of those that OpenAI runs the reply says that they are left out', async () => {
  const s = await serve();
  const r = await create(s, { input: 'hi', tools: [weather, { type: 'web_search' }] });
  equal([r.json.output[0].type, r.json.output[0].name, r.json.output[0].arguments, r.headers.get('x-ignored')], ['function_call', 'weather', '{"city":"Paris"}', 'tools[1] (web_search)']);
  const e = named((await create(s, { input: 'hi', tools: [weather], tool_choice: { type: 'function', name: 'weather' }, stream: true })).text);
  equal(e.map((x) => x.type).slice(2), ['response.output_item.added', 'response.function_call_arguments.delta', 'response.function_call_arguments.delta', 'response.function_call_arguments.done', 'response.output_item.done', 'response.completed']);
  equal(e[3].delta + e[4].delta, e[5].arguments);
  const back = await create(s, { input: [{ role: 'user', content: 'hi' }, ...r.json.output, { type: 'function_call_output', call_id: r.json.output[0].call_id, output: 'dump' }], tools: [weather] });
  const sent = dumped(back);
  equal(sent.messages, [{ role: 'user', content: 'hi' },
    { role: 'assistant', content: null, tool_calls: [{ id: r.json.output[0].call_id, type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } }] },
    { role: 'tool', tool_call_id: r.json.output[0].call_id, content: 'dump' }]);
  equal(sent.tools, [{ type: 'function', function: { name: 'weather', description: 'd', parameters: weather.parameters, strict: true } }]);
  const some = dumped(await create(s, { input: 'dump', tools: [weather, { ...weather, name: 'other' }], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'other' }] } }));
  equal([some.tools.map((t) => t.function.name), some.tool_choice], [['other'], 'auto']);
  equal((await create(s, { input: 'x', tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } })).json.error.param, 'tool_choice');
});

test('tools that take text', async () => {
  const s = await serve();
  const tools = [{ type: 'custom', name: 'run', description: 'runs it' }];
  const r = await create(s, { input: 'hi', tools });
  equal([r.json.output[0].type, r.json.output[0].input], ['custom_tool_call', 'Paris']);
  const e = named((await create(s, { input: 'hi', tools, stream: true })).text);
  equal(e.map((x) => x.type).slice(2), ['response.output_item.added', 'response.custom_tool_call_input.delta', 'response.custom_tool_call_input.done', 'response.output_item.done', 'response.completed']);
  const sent = dumped(await create(s, { input: [...r.json.output, { type: 'custom_tool_call_output', call_id: r.json.output[0].call_id, output: [{ type: 'input_text', text: 'dump' }] }], tools }));
  equal(JSON.parse(sent.messages[0].tool_calls[0].function.arguments), { input: 'Paris' });
  equal((await create(s, { input: 'x', tools: [{ ...tools[0], format: { type: 'grammar', syntax: 'lark', definition: 'x' } }] })).json.error.param, 'tools');
});

test('what the engine is asked', async () => {
  const s = await serve();
  const r = dumped(await create(s, {
    input: [{ role: 'developer', content: 'rules' }, { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'one' }, { type: 'input_image', image_url: 'data:image/png;base64,AAAA' }] },
      { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] }, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'two', annotations: [] }] },
      { role: 'user', content: 'dump' }],
    instructions: 'be brief', text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object' }, strict: true }, verbosity: 'low' }, reasoning: { effort: 'high' }, max_output_tokens: 9, top_k: 5,
    include: ['reasoning.encrypted_content'], stream_options: null, truncation: 'disabled', service_tier: 'auto', prompt_cache_key: 'k',
  }));
  equal(r.messages, [{ role: 'system', content: 'be brief\n\nrules' }, { role: 'user', content: [{ type: 'text', text: 'one' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
    { role: 'assistant', content: 'two', reasoning_content: 'hm' }, { role: 'user', content: 'dump' }]);
  equal([r.response_format, r.reasoning_effort, r.max_tokens, r.top_k], [{ type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } }, 'high', 9, 5]);
});

test('what the developer says in between is told as the user\'s', async () => {
  const s = await serve();
  const r = dumped(await create(s, { input: [{ role: 'user', content: 'dump' }, { role: 'developer', content: 'note' }] }));
  equal(r.messages, [{ role: 'user', content: 'dump\n\n<system-reminder>\nnote\n</system-reminder>' }]);
});

test('what was stored goes on: previous_response_id, item references, GET and DELETE', async () => {
  const s = await serve();
  const a = await create(s, { input: 'tokens=2', instructions: 'one' });
  const b = await create(s, { input: 'tokens=3', previous_response_id: a.json.id });
  const c = await create(s, { input: [{ type: 'item_reference', id: b.json.output[0].id }, { role: 'user', content: 'dump' }], instructions: 'two', previous_response_id: a.json.id, stream: true });
  const sent = JSON.parse(named(c.text).at(-1).response.output[0].content[0].text);
  equal(sent.messages.map((m) => [m.role, m.content]), [['system', 'two'], ['user', 'tokens=2'], ['assistant', 'token0 token1 \n\ntoken0 token1 token2 '], ['user', 'dump']]);
  equal((await s.get(`${where}/${a.json.id}`)).json, a.json);
  equal((await (await fetch(`${s.url}${where}/${a.json.id}`, { method: 'DELETE' })).json()).deleted, true);
  equal((await s.get(`${where}/${a.json.id}`)).status, 404);
  equal((await create(s, { input: 'x', previous_response_id: a.json.id })).json.error.code, 'previous_response_not_found');
  const no = await create(s, { input: 'x', store: false });
  equal([no.json.store, (await s.get(`${where}/${no.json.id}`)).status], [false, 404]);
  equal((await create(s, { input: [{ type: 'item_reference', id: no.json.output[0].id }] })).json.error.code, 'item_not_found');
  // a few bytes for each would otherwise stand for gigabytes
  const twice = await create(s, { input: Array.from({ length: 2 }, () => ({ type: 'item_reference', id: b.json.output[0].id })) });
  equal([twice.status, twice.json.error.code], [400, 'duplicate_item'], twice.text);
});

test('what is said in pieces is joined: one turn of the assistant, notices of the system', async () => {
  const s = await serve();
  const say = (role, content) => ({ type: 'message', role, content });
  const r = await create(s, { instructions: 'zero', input: [say('system', 'one'), say('developer', 'two'), say('user', 'hi'), say('assistant', [{ type: 'output_text', text: 'a' }, { type: 'output_text', text: 'b' }]),
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] }, say('assistant', 'c'), { type: 'reasoning', summary: [{ type: 'summary_text', text: 'well' }] }, say('assistant', 'd'),
    say('user', [{ type: 'input_text', text: 'go on' }, { type: 'input_text', text: 'dump' }]), say('system', 'three'), say('system', 'four'), say('user', 'dump'), say('system', 'five'), say('system', 'six')] });
  const note = (text) => `<system-reminder>\n${text}\n</system-reminder>`, part = (text) => ({ type: 'text', text });
  equal(dumped(r).messages, [{ role: 'system', content: 'zero\n\none\n\ntwo' }, { role: 'user', content: 'hi' }, { role: 'assistant', content: 'a\n\nb\n\nc\n\nd', reasoning_content: 'hm\n\nwell' },
    { role: 'user', content: [part('go on'), part('dump'), part(note('three')), part(note('four'))] }, { role: 'user', content: `dump\n\n${note('five')}\n\n${note('six')}` }]);
});

test('a response belongs to the key that made it', async () => {
  const keys = scratchFile('keys');
  fs.writeFileSync(keys, 'first-key\nother-key\n');
  const s = await serve({ args: ['--api-key-file', keys], ready: false });
  const as = (key) => ({ authorization: `Bearer ${key}` });
  await s.until('ok');
  const a = await create(s, { input: 'tokens=2' }, as('first-key'));
  equal((await create(s, { input: 'x', previous_response_id: a.json.id }, as('other-key'))).status, 404);
  equal((await create(s, { input: 'x', previous_response_id: a.json.id }, as('first-key'))).status, 200);
});

test('input_tokens counts without an answer', async () => {
  const s = await serve();
  const r = await ask(s, { input: 'tokens=3', stream: true }, `${where}/input_tokens`);
  equal(r.json, { object: 'response.input_tokens', input_tokens: 5 });
  equal(JSON.parse(s.seen().find((e) => e.kind === 'REQUEST').json).look, 'count');
});

test('what cannot be done is refused by its name', async () => {
  const s = await serve();
  for (const [body, param, status] of [
    [{ input: 'x', background: true }, 'background'], [{ input: 'x', conversation: 'c' }, 'conversation'], [{ input: 'x', truncation: 'auto' }, 'truncation'], [{ input: 'x', nonsense: 1 }, 'nonsense'],
    [{ input: 'x', reasoning: { efort: 'low' } }, 'reasoning.efort'], [{ input: 'x', include: ['all'] }, 'include'], [{ input: 'x', text: { format: { type: 'json_schema' } } }, 'text.format.schema'],
    [{}, 'input'], [{ input: [{ type: 'web_search_call', id: 'w' }] }, 'input[0]'], [{ input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] }, 'input[0]'],
    [{ input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] }, 'input[0]'], [{ input: [7] }, 'input[0]'], [{ input: 'x', model: 'gpt-0' }, 'model', 404], [{ input: 'x', store: 3 }, 'store'], [{ input: 'x', temperature: 3 }, 'temperature'],
  ]) {
    const r = await create(s, body);
    equal([r.status, r.json.error.param, typeof r.json.error.code], [status ?? 400, param, 'string'], JSON.stringify(body));
  }
});

test('errors: of the engine before and within a stream', async () => {
  const s = await serve();
  const r = await create(s, { input: 'error=400' });
  equal([r.status, r.json.error.code], [400, 'context_length_exceeded']);
  const e = named((await create(s, { input: 'tokens=9 error_after=3', stream: true })).text);
  equal(e.slice(-2).map((x) => x.type), ['error', 'response.failed']);
  equal([e.at(-1).response.status, e.at(-1).response.error.code, e.at(-2).message], ['failed', 'engine_error', 'the engine lost its way']);
});

test('logprobs', async () => {
  const s = await serve();
  const r = await create(s, { input: 'tokens=2', include: ['message.output_text.logprobs'], top_logprobs: 2 });
  equal(r.json.output[0].content[0].logprobs.map((x) => x.token), ['token0 ', 'token1 ']);
  const e = named((await create(s, { input: 'tokens=2', include: ['message.output_text.logprobs'], stream: true })).text).filter((x) => x.type === 'response.output_text.delta');
  equal(e.map((x) => [x.delta, x.logprobs[0].token]), [['token0 ', 'token0 '], ['token1 ', 'token1 ']]);
});

test('a large body is read beside the loop', async () => {
  const s = await serve();
  const r = await create(s, { input: [{ role: 'user', content: 'x'.repeat(200000) }, { role: 'user', content: 'tokens=1' }] });
  equal(r.json.output[0].content[0].text, 'token0 ');
  equal(await s.metric('body_bytes'), 0);
});

runAll('responses');

// POST /v1/messages over the fake engine: what becomes of a request, and the blocks and events of an answer.
import { ask, equal, ok, runAll, serve, test } from './lib.mjs';

const where = '/v1/messages';
const create = (s, body, headers) => ask(s, { model: 'm', max_tokens: 100, ...body }, where, { 'anthropic-version': '2023-06-01', ...headers });
const user = (content) => [{ role: 'user', content }];
const dumped = (r) => JSON.parse(r.json.content.find((b) => b.type === 'text').text);
const named = (text) => text.split('\n\n').filter(Boolean).map((e) => {
  const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(e);
  const json = JSON.parse(data);
  equal(json.type, name, 'type');
  return json;
});
const weather = { name: 'weather', description: 'd', input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } };

test('a whole message, its usage and why it ended', async () => {
  const s = await serve();
  const r = await create(s, { messages: user('think tokens=5 cached=2') });
  equal(r.status, 200, r.text);
  equal([r.json.type, r.json.role, r.json.model, r.json.stop_reason, r.json.stop_sequence], ['message', 'assistant', 'm', 'end_turn', null]);
  equal(r.json.content, [{ type: 'thinking', thinking: 'think0 think1 think2 ', signature: '' }, { type: 'text', text: 'token3 token4 ' }]);
  equal(r.json.usage, { input_tokens: 3, cache_creation_input_tokens: 0, cache_read_input_tokens: 2, output_tokens: 5 });
  equal((await create(s, { messages: user('tokens=9'), max_tokens: 2 })).json.stop_reason, 'max_tokens');
});

test('a stream: every event in its place', async () => {
  const s = await serve();
  const e = named((await create(s, { messages: user('think tokens=4'), stream: true })).text);
  equal(e.map((x) => x.type), ['message_start', 'content_block_start', ...Array(4).fill('content_block_delta'), 'content_block_stop', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
  equal(e.filter((x) => x.delta?.type).map((x) => x.delta.type), ['thinking_delta', 'thinking_delta', 'thinking_delta', 'signature_delta', 'text_delta']);
  equal(e.filter((x) => 'index' in x).map((x) => x.index), [0, 0, 0, 0, 0, 0, 1, 1, 1]);
  equal([e[0].message.usage.input_tokens, e.at(-2).delta, e.at(-2).usage.output_tokens], [5, { stop_reason: 'end_turn', stop_sequence: null }, 4]);
  const t = named((await create(s, { messages: user('hi'), tools: [weather], stream: true })).text);
  equal(t[1].content_block, { type: 'tool_use', id: t[1].content_block.id, name: 'weather', input: {} });
  equal(JSON.parse(t.filter((x) => x.delta?.type === 'input_json_delta').map((x) => x.delta.partial_json).join('')), { city: 'Paris' });
  equal(t.at(-2).delta.stop_reason, 'tool_use');
});

test('tools: called, and what came of it', async () => {
  const s = await serve();
  const r = await create(s, { messages: user('hi'), tools: [{ ...weather, cache_control: { type: 'ephemeral' } }], tool_choice: { type: 'any', disable_parallel_tool_use: true } });
  equal([r.json.stop_reason, r.json.content[0].type, r.json.content[0].name, r.json.content[0].input], ['tool_use', 'tool_use', 'weather', { city: 'Paris' }]);
  const id = r.json.content[0].id;
  const back = dumped(await create(s, {
    messages: [...user('hi'), { role: 'assistant', content: r.json.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: [{ type: 'text', text: 'rain' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] },
        { type: 'tool_result', tool_use_id: 'other', is_error: true, content: 'broken' }, { type: 'text', text: 'dump' }] }],
    tools: [weather], tool_choice: { type: 'tool', name: 'weather' },
  }));
  equal(back.messages, [{ role: 'user', content: 'hi' }, { role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } }] },
    { role: 'tool', tool_call_id: id, content: 'rain' }, { role: 'tool', tool_call_id: 'other', content: 'Error: broken' },
    { role: 'user', content: [{ type: 'text', text: 'dump' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }]);
  equal([back.tools, back.tool_choice], [[{ type: 'function', function: { name: 'weather', description: 'd', parameters: weather.input_schema } }], { type: 'function', function: { name: 'weather' } }]);
  const none = dumped(await create(s, { messages: user('dump'), tools: [weather], tool_choice: { type: 'none' } }));
  equal(none.tool_choice, 'none');
});

test('what the engine is asked', async () => {
  const s = await serve();
  const r = dumped(await create(s, {
    system: [{ type: 'text', text: 'x-anthropic-billing-header: cc_version=2; cch=a5145;' }, { type: 'text', text: 'be brief', cache_control: { type: 'ephemeral' } }],
    messages: [...user([{ type: 'text', text: 'one' }, { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' } }]),
      { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm', signature: 's' }, { type: 'text', text: 'two' }] }, ...user([{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'dump' } }])],
    stop_sequences: ['END'], temperature: 0.5, top_k: 4, metadata: { user_id: 'u' }, output_config: { effort: 'max', format: { type: 'json_schema', schema: { type: 'object' } } }, thinking: { type: 'adaptive' },
  }));
  equal(r.messages, [{ role: 'system', content: 'x-anthropic-billing-header: cc_version=2; cch=a5145;\n\nbe brief' },
    { role: 'user', content: [{ type: 'text', text: 'one' }, { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,AAAA' } }] }, { role: 'assistant', content: 'two', reasoning_content: 'hm' }, { role: 'user', content: 'dump' }]);
  equal([r.stop, r.max_tokens, r.top_k, r.reasoning_effort, r.chat_template_kwargs, r.response_format.json_schema.schema], [['END'], 100, 4, 'xhigh', { enable_thinking: true }, { type: 'object' }]);
  const plain = dumped(await create(s, { messages: user('dump') }));
  equal(plain.chat_template_kwargs, { enable_thinking: false });
  const noted = await create(s, { messages: user('x'), thinking: { type: 'enabled', budget_tokens: 2000 }, context_management: { edits: [] } });
  equal(noted.headers.get('x-ignored'), 'context_management, thinking.budget_tokens');
  const choice = await create(s, { messages: user('x'), thinking: { type: 'adaptive', display: 'omitted' }, tools: [{ name: 'f', input_schema: { type: 'object' } }], tool_choice: { type: 'auto', mood: 1 } });
  equal(choice.headers.get('x-ignored'), 'tool_choice.mood, thinking.display');
});

test('the system says text, wherever it speaks', async () => {
  const s = await serve();
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  for (const [more, at] of [[{ system: [image] }, 'system[0]'], [{ messages: [...user('x'), { role: 'system', content: [{ type: 'text', text: 'a' }, image] }] }, 'messages[1].content[1]'],
    [{ messages: [...user('x'), { role: 'system', content: 7 }] }, 'messages[1].content'], [{ output_config: 7 }, 'output_config'],
    [{ output_config: { format: { type: 'json_schema', schema: {} } }, output_format: { type: 'json_schema', schema: {} } }, 'output_format']]) {
    const r = await create(s, { messages: user('x'), ...more });
    ok(r.status === 400 && r.json.error.message.includes(`'${at}'`), JSON.stringify(r.json));
  }
});

test('what the system says in between, as Claude Code does, is told as the user\'s', async () => {
  const s = await serve();
  const r = dumped(await create(s, { system: 'be', messages: [...user([{ type: 'text', text: 'dump' }, { type: 'text', text: 'b' }]), { role: 'system', content: 'note' }] }));
  equal(r.messages, [{ role: 'system', content: 'be' }, { role: 'user', content: [{ type: 'text', text: 'dump' }, { type: 'text', text: 'b' }, { type: 'text', text: '<system-reminder>\nnote\n</system-reminder>' }] }]);
});

test('what the assistant has begun is continued', async () => {
  const s = await serve();
  await create(s, { messages: [...user('x'), { role: 'assistant', content: 'The answer is' }] });
  equal(JSON.parse(s.seen().find((e) => e.kind === 'REQUEST').json).continue_final_message, true);
});

test('count_tokens, also with ?beta=true', async () => {
  const s = await serve();
  equal((await ask(s, { model: 'm', messages: user('x'), stream: true }, `${where}/count_tokens?beta=true`)).json, { input_tokens: 5 });
  equal((await ask(s, { model: 'm', max_tokens: 3, messages: user('tokens=1') }, `${where}?beta=true`)).status, 200);
});

test('errors have their form, with and without a key, in a stream, too', async () => {
  const s = await serve({ args: ['--api-key', 'key-number-one'], ready: false });
  await s.until('ok');
  const no = await create(s, { messages: user('x') });
  equal([no.status, no.json.type, no.json.error.type], [401, 'error', 'authentication_error']);
  const key = { 'x-api-key': 'key-number-one' };
  for (const [body, status, type, word] of [
    [{ messages: user('x'), max_tokens: null }, 400, 'invalid_request_error', /max_tokens/], [{ messages: user('x'), model: 'claude' }, 404, 'not_found_error', /claude/], [{ messages: [] }, 400, 'invalid_request_error', /messages/],
    [{ messages: user('x'), mcp_servers: [] }, 400, 'invalid_request_error', /mcp_servers/], [{ messages: user('x'), tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 400, 'invalid_request_error', /tools\[0\]/],
    [{ messages: user('x'), topk: 3 }, 400, 'invalid_request_error', /top_k/], [{ messages: user([{ type: 'text', text: 'x', colour: 1 }]) }, 400, 'invalid_request_error', /colour/],
    [{ messages: user([{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: '' } }]) }, 400, 'invalid_request_error', /document/], [{ messages: [{ role: 'robot', content: '' }] }, 400, 'invalid_request_error', /role/],
    [{ messages: user('x'), thinking: { type: 'deep' } }, 400, 'invalid_request_error', /thinking/], [{ messages: user('error=400') }, 400, 'invalid_request_error', /too long/],
  ]) {
    const r = await create(s, body, key);
    ok(r.status === status && r.json.type === 'error' && r.json.error.type === type && word.test(r.json.error.message) && r.json.request_id, `${JSON.stringify(body)}: ${r.text}`);
  }
  const e = named((await create(s, { messages: user('tokens=9 error_after=2'), stream: true }, key)).text);
  equal([e.at(-1).type, e.at(-1).error.type], ['error', 'api_error']);
});

runAll('messages');

// Hugging Face's client against the server over the fake engine: the chats, which are all that it asks of an endpoint that speaks OpenAI's API.
import { InferenceClient } from '@huggingface/inference';
import { equal, ok, runAll, serve, test } from './lib.mjs';

const model = 'm';
let server;
async function client() {
  if (!server || server.exit) server = await serve();
  return new InferenceClient('none', { endpointUrl: server.url + '/v1', retry_on_error: false });
}
const fails = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it did not fail'); };
const user = (content) => [{ role: 'user', content }];
const weather = { type: 'function', function: { name: 'weather', description: 'd', parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } }, required: ['city'] } } };

test('huggingface: a chat, whole and streamed', async () => {
  const c = await client();
  const r = await c.chatCompletion({ model, messages: user('tokens=3'), max_tokens: 100, temperature: 0.5, seed: 1, stop: ['x'], top_p: 0.9, frequency_penalty: 0.1 });
  equal([r.choices[0].message.content, r.choices[0].finish_reason, r.usage.completion_tokens], ['token0 token1 token2 ', 'stop', 3]);
  let text = '';
  for await (const e of c.chatCompletionStream({ model, messages: user('tokens=3'), max_tokens: 2 })) text += e.choices[0]?.delta?.content ?? '';
  equal(text, 'token0 token1 ');
});

test('huggingface: log-probabilities, usage in a stream, parts of content', async () => {
  const c = await client();
  const r = await c.chatCompletion({ model, messages: [{ role: 'user', content: [{ type: 'text', text: 'tokens=1' }] }], logprobs: true, top_logprobs: 1 });
  equal(r.choices[0].logprobs.content.map((e) => e.token), ['token0 ']);
  let usage;
  for await (const e of c.chatCompletionStream({ model, messages: user('tokens=2'), stream_options: { include_usage: true } })) usage = e.usage ?? usage;
  equal(usage.completion_tokens, 2);
});

test('huggingface: tools, and their results', async () => {
  const c = await client();
  const a = await c.chatCompletion({ model, messages: user('weather?'), tools: [weather], tool_choice: 'auto' });
  const call = a.choices[0].message.tool_calls[0];
  equal([a.choices[0].finish_reason, call.function.name, JSON.parse(call.function.arguments)], ['tool_calls', 'weather', { city: 'Paris' }]);
  const b = await c.chatCompletion({ model, tools: [weather], messages: [...user('weather?'), a.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'tokens=2' }] });
  equal(b.choices[0].message.content, 'token0 token1 ');
});

test('huggingface: a schema', async () => {
  const c = await client();
  const r = await c.chatCompletion({ model, messages: user('x'), response_format: { type: 'json_schema', json_schema: { name: 'city', schema: weather.function.parameters, strict: true } } });
  equal(JSON.parse(r.choices[0].message.content), { city: 'Paris' });
});

test('huggingface: errors say what is wrong', async () => {
  const c = await client();
  const e = await fails(c.chatCompletion({ model: 'other', messages: user('x') }));
  ok(/not found/.test(e.message + JSON.stringify(e.httpResponse?.body ?? '')), String(e));
});

await runAll('huggingface');

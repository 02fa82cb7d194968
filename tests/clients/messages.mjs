// Clients of /v1/messages against the server over the fake engine: Anthropic's own, the AI SDK, LangChain.
import Anthropic from '@anthropic-ai/sdk';
import { generateText, streamText, Output, tool as aiTool, stepCountIs } from 'ai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { ChatAnthropic } from '@langchain/anthropic';
import { z } from 'zod';
import { equal, ok, runAll, serve, test } from './lib.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const model = 'm';
let server;
async function up() {
  if (!server || server.exit) server = await serve();
  return server;
}
const anthropic = async (more = {}) => new Anthropic({ baseURL: (await up()).url, apiKey: 'none', maxRetries: 0, ...more });
const fails = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it did not fail'); };
const user = (content) => [{ role: 'user', content }];
const City = z.object({ city: z.enum(['Paris', 'Rome']) });
const weather = { name: 'weather', description: 'd', input_schema: { type: 'object', properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } }, required: ['city'] } };

test('anthropic: a message, a count, the models', async () => {
  const c = await anthropic();
  const r = await c.messages.create({ model, max_tokens: 100, messages: user('tokens=3'), system: 'short' });
  equal([r.content[0].text, r.stop_reason, r.usage.output_tokens], ['token0 token1 token2 ', 'end_turn', 3]);
  equal((await c.messages.countTokens({ model, messages: user('x') })).input_tokens, 5);
  const all = [];
  for await (const m of c.models.list()) all.push([m.id, m.type, typeof m.display_name, typeof m.created_at]);
  equal(all, [['m', 'model', 'string', 'string']]);
});

test('anthropic: streams, raw and with the helper', async () => {
  const c = await anthropic();
  let text = '';
  for await (const e of await c.messages.create({ model, max_tokens: 100, messages: user('tokens=3'), stream: true })) if (e.delta?.type === 'text_delta') text += e.delta.text;
  equal(text, 'token0 token1 token2 ');
  const s = c.messages.stream({ model, max_tokens: 3000, messages: user('think tokens=5'), thinking: { type: 'enabled', budget_tokens: 1024 } });
  const m = await s.finalMessage();
  equal(m.content.map((b) => [b.type, b.thinking ?? b.text]), [['thinking', 'think0 think1 think2 '], ['text', 'token3 token4 ']]);
});

test('anthropic: tools, whole, streamed, run by the client', async () => {
  const c = await anthropic();
  const messages = user('weather?');
  const a = await c.messages.create({ model, max_tokens: 100, messages, tools: [weather], tool_choice: { type: 'any' } });
  equal([a.stop_reason, a.content[0].name, a.content[0].input], ['tool_use', 'weather', { city: 'Paris' }]);
  const b = await c.messages.create({ model, max_tokens: 100, tools: [weather], messages: [...messages, { role: 'assistant', content: a.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: a.content[0].id, content: 'tokens=2' }] }] });
  equal(b.content, [{ type: 'text', text: 'token0 token1 ' }]);
  const s = await c.messages.stream({ model, max_tokens: 100, messages, tools: [weather] }).finalMessage();
  equal([s.stop_reason, s.content[0].input], ['tool_use', { city: 'Paris' }]);
});

test('anthropic: errors have their classes', async () => {
  const c = await anthropic();
  const e = await fails(c.messages.create({ model: 'claude-0', max_tokens: 5, messages: user('x') }));
  ok(e instanceof Anthropic.NotFoundError && e.error.error.type === 'not_found_error', String(e));
  const bad = await fails(c.messages.create({ model, max_tokens: 5, messages: user('x'), temperature: 3 }));
  ok(bad instanceof Anthropic.BadRequestError && /temperature/.test(bad.message), String(bad));
  const middle = await fails(c.messages.stream({ model, max_tokens: 99, messages: user('tokens=9 error_after=3') }).finalMessage());
  ok(/lost its way/.test(middle.message), String(middle));
});

test('anthropic: beta', async () => {
  const c = await anthropic();
  const r = await c.beta.messages.create({ model, max_tokens: 100, messages: user('tokens=1'), betas: ['interleaved-thinking-2025-05-14'] });
  equal(r.content[0].text, 'token0 ');
});

const ai = async () => createAnthropic({ baseURL: (await up()).url + '/v1', apiKey: 'none' });

test('ai: text, reasoning, tools over several steps, objects', async () => {
  const p = await ai();
  equal((await generateText({ model: p(model), prompt: 'tokens=3', maxRetries: 0 })).text, 'token0 token1 token2 ');
  const s = streamText({ model: p(model), prompt: 'think tokens=5', maxRetries: 0, providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } } });
  let text = '', thought = '';
  for await (const x of s.fullStream) { if (x.type === 'text-delta') text += x.text; if (x.type === 'reasoning-delta') thought += x.text; if (x.type === 'error') throw x.error; }
  equal([text, thought], ['token3 token4 ', 'think0 think1 think2 ']);
  const tools = { weather: aiTool({ description: 'd', inputSchema: City, execute: async () => 'tokens=2' }) };
  const r = await generateText({ model: p(model), prompt: 'weather?', tools, stopWhen: stepCountIs(3), maxRetries: 0 });
  equal([r.text, r.steps[0].toolCalls[0].input], ['token0 token1 ', { city: 'Paris' }]);
  const o = await generateText({ model: p(model), prompt: 'x', output: Output.object({ schema: City }), maxRetries: 0 });
  equal(o.output, { city: 'Paris' });
});

test('langchain: text, a stream, tools, structured output', async () => {
  const c = new ChatAnthropic({ model, apiKey: 'none', maxRetries: 0, maxTokens: 100, anthropicApiUrl: (await up()).url });
  equal((await c.invoke('tokens=2')).text, 'token0 token1 ');
  let all = '';
  for await (const x of await c.stream('tokens=3')) all += x.text;
  equal(all, 'token0 token1 token2 ');
  const called = await c.bindTools([weather]).invoke('weather?');
  equal([called.tool_calls[0].name, called.tool_calls[0].args], ['weather', { city: 'Paris' }]);
  equal(await c.withStructuredOutput(City).invoke('x'), { city: 'Paris' });
});

runAll('clients messages');

// Clients of /v1/responses against the server over the fake engine: openai, the AI SDK's default, the Agents SDK, LangChain.
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { generateText, streamText, Output, tool as aiTool, stepCountIs, embedMany, experimental_transcribe as transcribe } from 'ai';
import { createOpenAI } from '@ai-sdk/openai';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIProvider, Runner, tool as agentTool } from '@openai/agents';
import { z } from 'zod';
import { equal, ok, runAll, serve, test } from './lib.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const model = 'm';
let server;
async function up() {
  if (!server || server.exit) server = await serve();
  return server;
}
const openai = async () => new OpenAI({ baseURL: (await up()).url + '/v1', apiKey: 'none', maxRetries: 0 });
const fails = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it did not fail'); };
const City = z.object({ city: z.enum(['Paris', 'Rome']) });
const weather = { type: 'function', name: 'weather', strict: true, parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } }, required: ['city'], additionalProperties: false } };

test('openai: create, output_text, retrieve, delete', async () => {
  const c = await openai();
  const r = await c.responses.create({ model, input: 'tokens=3', instructions: 'short' });
  equal([r.output_text, r.status, r.usage.total_tokens], ['token0 token1 token2 ', 'completed', 8]);
  equal((await c.responses.retrieve(r.id)).output_text, r.output_text);
  await c.responses.delete(r.id);
  ok(await fails(c.responses.retrieve(r.id)) instanceof OpenAI.NotFoundError, 'gone');
  equal((await c.responses.inputTokens.count({ model, input: 'x' })).input_tokens, 5);
});

test('openai: a stream, with its helper', async () => {
  const c = await openai();
  let all = '';
  for await (const e of await c.responses.create({ model, input: 'think tokens=5', stream: true })) if (e.type === 'response.output_text.delta') all += e.delta;
  equal(all, 'token3 token4 ');
  const s = c.responses.stream({ model, input: 'think tokens=5' });
  const seen = [];
  s.on('response.output_text.delta', (e) => seen.push(e.delta));
  const final = await s.finalResponse();
  equal([seen.join(''), final.output_text, final.output.map((i) => i.type)], [all, all, ['reasoning', 'message']]);
});

test('openai: tools, and on with previous_response_id', async () => {
  const c = await openai();
  const a = await c.responses.create({ model, input: 'weather?', tools: [weather], tool_choice: 'required' });
  const call = a.output[0];
  equal([call.type, call.name, JSON.parse(call.arguments)], ['function_call', 'weather', { city: 'Paris' }]);
  const b = await c.responses.create({ model, previous_response_id: a.id, tools: [weather], input: [{ type: 'function_call_output', call_id: call.call_id, output: 'tokens=2' }] });
  equal(b.output_text, 'token0 token1 ');
});

test('openai: structured output, parsed', async () => {
  const c = await openai();
  equal((await c.responses.parse({ model, input: 'x', text: { format: zodTextFormat(City, 'city') } })).output_parsed, { city: 'Paris' });
});

test('openai: errors', async () => {
  const c = await openai();
  const e = await fails(c.responses.create({ model: 'gpt-0', input: 'x' }));
  ok(e instanceof OpenAI.NotFoundError && e.code === 'model_not_found', String(e));
  const bad = await fails(c.responses.create({ model, input: 'x', background: true }));
  ok(bad instanceof OpenAI.BadRequestError && bad.param === 'background', String(bad));
  const kinds = [];
  for await (const x of await c.responses.create({ model, input: 'tokens=9 error_after=3', stream: true })) kinds.push(x.type);
  equal(kinds.at(-1), 'response.failed');
});

const ai = async () => createOpenAI({ baseURL: (await up()).url + '/v1', apiKey: 'none' });

test('ai: text, whole and streamed, with reasoning', async () => {
  const p = await ai();
  const r = await generateText({ model: p(model), prompt: 'tokens=3', maxRetries: 0 });
  equal([r.text, r.finishReason, r.usage.outputTokens], ['token0 token1 token2 ', 'stop', 3]);
  const s = streamText({ model: p(model), prompt: 'think tokens=5', maxRetries: 0, providerOptions: { openai: { reasoningSummary: 'auto', forceReasoning: true } } });
  let text = '', thought = '';
  for await (const x of s.fullStream) { if (x.type === 'text-delta') text += x.text; if (x.type === 'reasoning-delta') thought += x.text; if (x.type === 'error') throw x.error; }
  equal([text, thought], ['token3 token4 ', 'think0 think1 think2 ']);
});

test('ai: tools over several steps, whose items it only refers to', async () => {
  const p = await ai();
  const tools = { weather: aiTool({ description: 'd', inputSchema: City, execute: async () => 'tokens=2' }) };
  const r = await generateText({ model: p(model), prompt: 'weather?', tools, stopWhen: stepCountIs(3), maxRetries: 0 });
  equal([r.steps.length, r.steps[0].toolCalls[0].input], [2, { city: 'Paris' }]);
  const s = streamText({ model: p(model), prompt: 'weather?', tools, stopWhen: stepCountIs(3), maxRetries: 0, providerOptions: { openai: { store: false } } });
  for await (const x of s.fullStream) if (x.type === 'error') throw x.error;
  equal((await s.steps).length, 2);
});

test('ai: objects', async () => {
  const p = await ai();
  const r = await generateText({ model: p(model), prompt: 'x', output: Output.object({ schema: City }), maxRetries: 0 });
  equal(r.output, { city: 'Paris' });
});

test('ai: embeddings, a transcription', async () => {
  const ai = createOpenAI({ baseURL: (await up()).url + '/v1', apiKey: 'none' });
  equal((await embedMany({ model: ai.embedding(model), values: ['a', 'b', 'c'] })).embeddings.length, 3);
  const wav = Buffer.alloc(60);
  wav.write('RIFF', 0); wav.writeUInt32LE(52, 4); wav.write('WAVE', 8);
  const r = await transcribe({ model: ai.transcription(model), audio: wav, maxRetries: 0 });
  ok(r.text.length > 0, JSON.stringify(r));
});

test('langchain: responses, tools, structured output, a stream', async () => {
  const c = new ChatOpenAI({ model, apiKey: 'none', maxRetries: 0, useResponsesApi: true, configuration: { baseURL: (await up()).url + '/v1' } });
  equal((await c.invoke('tokens=2')).text, 'token0 token1 ');
  let all = '';
  for await (const x of await c.stream('tokens=3')) all += x.text;
  equal(all, 'token0 token1 token2 ');
  const called = await c.bindTools([{ type: 'function', function: { name: 'weather', parameters: weather.parameters } }]).invoke('weather?');
  equal([called.tool_calls[0].name, called.tool_calls[0].args], ['weather', { city: 'Paris' }]);
  equal(await c.withStructuredOutput(City, { method: 'jsonSchema', name: 'city' }).invoke('x'), { city: 'Paris' });
});

for (const useResponses of [true, false]) test(`agents: a run with a tool, whole and streamed, an answer by a schema, another turn (${useResponses ? 'responses' : 'chats'})`, async () => {
  const provider = new OpenAIProvider({ baseURL: (await up()).url + '/v1', apiKey: 'none', useResponses });
  const runner = new Runner({ modelProvider: provider, tracingDisabled: true });
  const asked = [];
  const tools = [agentTool({ name: 'weather', description: 'd', parameters: City, execute: async (a) => { asked.push(a); return 'tokens=2'; } })];
  const agent = new Agent({ name: 'a', instructions: 'be brief', model, tools });
  const r = await runner.run(agent, 'weather?');
  equal([r.finalOutput, asked], ['token0 token1 ', [{ city: 'Paris' }]]);
  const s = await runner.run(agent, 'weather?', { stream: true });
  for await (const _ of s);
  await s.completed;
  equal(s.finalOutput, 'token0 token1 ');
  const typed = await runner.run(new Agent({ name: 'b', instructions: 'x', model, outputType: City }), 'x');
  equal(typed.finalOutput, { city: 'Paris' });
  const first = 'token0 token1 '; // what the tool said in the first turn comes before the new question
  equal((await runner.run(agent, [...r.history, { role: 'user', content: 'tokens=3' }])).finalOutput, first, 'what it said before goes along');
  if (useResponses) equal((await runner.run(agent, 'tokens=3', { previousResponseId: r.lastResponseId })).finalOutput, first, 'what is stored');
});

runAll('clients responses');

// Real clients against the server: openai, the AI SDK, LangChain. Over the fake engine by default; with VR_CLIENT_URL
// against a server that is up, where the text is the model's own business: VR_CLIENT_MODEL names its model,
// VR_CLIENT_EMBEDDINGS=1 says that it embeds, VR_CLIENT_TOOLS=1 that it is good enough to call tools.
import fs from 'node:fs';
import path from 'node:path';
import OpenAI, { toFile } from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { generateText, streamText, generateObject, embed, embedMany, tool as aiTool, stepCountIs, APICallError } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI, OpenAIEmbeddings, OpenAI as LangCompletions } from '@langchain/openai';
import { tool as langTool } from '@langchain/core/tools';
import { z } from 'zod';
import { equal, eventually, ok, runAll, scratchFile, serve, skip, test } from './lib.mjs';

const real = process.env.VR_CLIENT_URL;
const model = process.env.VR_CLIENT_MODEL ?? 'm';
const embeds = !real || process.env.VR_CLIENT_EMBEDDINGS === '1';
const calls = !real || process.env.VR_CLIENT_TOOLS === '1';
const few = real ? { max_tokens: 24, temperature: 0 } : {};

let server;
async function up(options) {
  if (real) return { url: real };
  if (options) return serve(options);
  if (!server || server.exit) server = await serve({ args: ['--max-queue', '64'] });
  return server;
}
const openai = async (more = {}, options) => {
  const s = await up(options);
  return [new OpenAI({ baseURL: s.url + '/v1', apiKey: 'none', maxRetries: 0, ...more }), s];
};
const user = (content) => [{ role: 'user', content }];
const fails = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it did not fail'); };

// --- the shapes that the openai package types, key by key ---
const text = (v) => typeof v === 'string', number = (v) => typeof v === 'number', nul = (v) => v === null;
const or = (...all) => (v, at) => all.some((f) => { try { return f(v, at) !== false; } catch { return false; } });
const one = (...words) => (v) => words.includes(v);
const list = (f) => (v, at) => Array.isArray(v) && v.forEach((x, i) => must(f, x, `${at}[${i}]`));
const maybe = (f) => Object.assign((v, at) => v === undefined || f(v, at), { optional: true });
const object = (shape) => (v, at) => {
  ok(v && typeof v === 'object' && !Array.isArray(v), `${at} is no object: ${JSON.stringify(v)}`);
  for (const [key, f] of Object.entries(shape)) { ok(f.optional || key in v, `${at}.${key} is missing`); must(f, v[key], `${at}.${key}`); }
};
function must(f, v, at) { ok(f(v, at) !== false, `${at} is ${JSON.stringify(v)}`); }

const usage = object({ prompt_tokens: number, completion_tokens: number, total_tokens: number,
  prompt_tokens_details: object({ cached_tokens: number }), completion_tokens_details: object({ reasoning_tokens: number }) });
const entry = object({ token: text, logprob: number, bytes: or(nul, list(number)), top_logprobs: list(object({ token: text, logprob: number, bytes: or(nul, list(number)) })) });
const logprobs = or(nul, object({ content: or(nul, list(entry)), refusal: or(nul, list(entry)) }));
const finish = one('stop', 'length', 'tool_calls', 'content_filter', 'function_call');
const toolCall = object({ id: text, type: one('function'), function: object({ name: text, arguments: text }) });
const completion = object({ id: text, object: one('chat.completion'), created: number, model: text, system_fingerprint: text, usage,
  choices: list(object({ index: number, finish_reason: finish, logprobs,
    message: object({ role: one('assistant'), content: or(nul, text), refusal: or(nul, text), tool_calls: maybe(list(toolCall)) }) })) });
const chunk = object({ id: text, object: one('chat.completion.chunk'), created: number, model: text, usage: maybe(or(nul, usage)),
  choices: list(object({ index: number, finish_reason: or(nul, finish), logprobs, delta: object({ role: maybe(one('assistant')), content: maybe(or(nul, text)),
    tool_calls: maybe(list(object({ index: number, id: maybe(text), type: maybe(one('function')), function: maybe(object({ name: maybe(text), arguments: maybe(text) })) }))) }) })) });
const oldLogprobs = or(nul, object({ tokens: list(text), token_logprobs: list(number), top_logprobs: list(object({})), text_offset: list(number) }));
const oldCompletion = object({ id: text, object: one('text_completion'), created: number, model: text, usage: maybe(or(nul, usage)),
  choices: list(object({ index: number, text, finish_reason: or(nul, finish), logprobs: oldLogprobs })) });

const weather = { type: 'function', function: { name: 'weather', description: 'the weather in a city', parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } }, required: ['city'], additionalProperties: false } } };
// Bounded, so that a model which rambles comes to an end.
const City = z.enum(['Paris', 'Rome']);
const Person = z.object({ name: z.string().max(8), age: z.number().int().min(0).max(99), tags: z.array(z.string().max(8)).max(2),
  kind: z.enum(['human', 'robot']), boss: z.enum(['Ann', 'Bob']).nullable() });

// --- openai ---

test('openai: models', async () => {
  const [c] = await openai();
  const all = [];
  for await (const m of await c.models.list()) { must(object({ id: text, object: one('model'), created: number, owned_by: text }), m, 'model'); all.push(m.id); }
  ok(all.includes(model), `${all}`);
  equal((await c.models.retrieve(model)).id, model);
  const e = await fails(c.models.retrieve('nothing/here'));
  ok(e instanceof OpenAI.NotFoundError && e.code === 'model_not_found', String(e));
});

test('openai: chat, its shape and headers', async () => {
  const [c] = await openai();
  const { data, response, request_id } = await c.chat.completions.create({ model, messages: [{ role: 'system', content: 'short' }, ...user('tokens=4')], ...few }).withResponse();
  must(completion, data, 'completion');
  ok(request_id && response.status === 200 && data._request_id === request_id, 'request id');
  if (!real) equal([data.choices[0].message.content, data.usage.total_tokens], ['token0 token1 token2 token3 ', 9]);
});

test('openai: streaming, with usage, with its helpers', async () => {
  const [c] = await openai();
  const s = await c.chat.completions.create({ model, messages: user('tokens=5'), stream: true, stream_options: { include_usage: true }, ...few });
  let all = '', last;
  for await (const x of s) { must(chunk, x, 'chunk'); all += x.choices[0]?.delta.content ?? ''; last = x; }
  ok(last.usage.completion_tokens > 0 && last.choices.length === 0, 'usage comes last');
  if (!real) equal(all, 'token0 token1 token2 token3 token4 ');
  const helper = c.chat.completions.stream({ model, messages: user('tokens=5'), ...few });
  const seen = [];
  helper.on('content', (d) => seen.push(d));
  const final = await helper.finalChatCompletion();
  must(completion, { ...final, usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, prompt_tokens_details: { cached_tokens: 0 }, completion_tokens_details: { reasoning_tokens: 0 } } }, 'final');
  equal(seen.join(''), final.choices[0].message.content);
});

test('openai: tools, whole, streamed and run by the client', async () => {
  if (!calls) return skip;
  const [c] = await openai();
  const messages = user('What is the weather in Paris? Use the tool.');
  const first = await c.chat.completions.create({ model, messages, tools: [weather], tool_choice: 'required', ...few, max_tokens: 200 });
  must(completion, first, 'completion');
  const call = first.choices[0].message.tool_calls[0];
  equal([first.choices[0].finish_reason, call.function.name, typeof JSON.parse(call.function.arguments).city], ['tool_calls', 'weather', 'string']);
  const second = await c.chat.completions.create({ model, tools: [weather], messages: [...messages, first.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'rain tokens=3' }], ...few });
  ok(second.choices[0].message.content.length > 0, 'an answer');
  const s = c.chat.completions.stream({ model, messages, tools: [weather], tool_choice: 'required', ...few, max_tokens: 200 });
  for await (const x of s) must(chunk, x, 'chunk');
  const streamed = (await s.finalChatCompletion()).choices[0];
  equal([streamed.finish_reason, typeof JSON.parse(streamed.message.tool_calls[0].function.arguments).city], ['tool_calls', 'string']);
  if (real) return;
  const asked = [];
  const runner = c.chat.completions.runTools({ model, messages, stream: true, tools: [{ type: 'function', function: { ...weather.function, parse: JSON.parse, function: (a) => { asked.push(a); return 'tokens=2'; } } }] });
  equal([await runner.finalContent(), asked], ['token0 token1 ', [{ city: 'Paris' }]]);
});

test('openai: json_schema, parsed and checked', async () => {
  const [c] = await openai();
  const r = await c.chat.completions.parse({ model, messages: user('Invent a person.'), response_format: zodResponseFormat(Person, 'person'), ...few, max_tokens: 300 });
  Person.parse(r.choices[0].message.parsed);
  const e = await fails(c.chat.completions.create({ model, messages: user('x'), response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { a: { type: 'array', items: {}, uniqueItems: true } } } } } }));
  ok(e instanceof OpenAI.BadRequestError && /uniqueItems/.test(e.message), String(e));
});

test('openai: logprobs', async () => {
  const [c] = await openai();
  const r = await c.chat.completions.create({ model, messages: user('tokens=3'), logprobs: true, top_logprobs: 2, ...few });
  must(completion, r, 'completion');
  ok(r.choices[0].logprobs.content.length > 0, 'entries');
  const s = await c.chat.completions.create({ model, messages: user('tokens=3'), logprobs: true, top_logprobs: 2, stream: true, ...few });
  let n = 0;
  for await (const x of s) { must(chunk, x, 'chunk'); n += x.choices[0]?.logprobs?.content.length ?? 0; }
  ok(n > 0, 'streamed entries');
  const old = await c.completions.create({ model, prompt: 'tokens=3', logprobs: 2, ...few });
  must(oldCompletion, old, 'completion');
});

test('openai: completions, whole and streamed, several prompts', async () => {
  const [c] = await openai();
  const r = await c.completions.create({ model, prompt: ['tokens=2', 'tokens=2 b'], ...few });
  must(oldCompletion, r, 'completion');
  equal(r.choices.map((x) => x.index).sort(), [0, 1]);
  const s = await c.completions.create({ model, prompt: 'tokens=3', stream: true, stream_options: { include_usage: true }, ...few });
  let all = '', n = 0;
  for await (const x of s) { must(oldCompletion, x, 'chunk'); all += x.choices[0]?.text ?? ''; n += x.usage ? 1 : 0; }
  equal([all.length > 0, n], [true, 1]);
});

test('openai: embeddings, as the client asks for them and as floats', async () => {
  if (!embeds) return skip;
  const [c] = await openai();
  const a = await c.embeddings.create({ model, input: ['one', 'two'] }); // base64 on the wire
  const b = await c.embeddings.create({ model, input: ['one', 'two'], encoding_format: 'float' });
  must(object({ object: one('list'), model: text, usage: object({ prompt_tokens: number, total_tokens: number }), data: list(object({ object: one('embedding'), index: number, embedding: list(number) })) }), b, 'embeddings');
  ok(a.data[1].embedding.length === b.data[1].embedding.length && a.data[1].embedding.length > 0, 'length');
  a.data[1].embedding.forEach((x, i) => ok(Math.abs(x - b.data[1].embedding[i]) < 1e-6, 'the same'));
});

// A WAV file of silence.
function wav(n) {
  const b = Buffer.alloc(44 + 2 * n);
  b.write('RIFF', 0); b.writeUInt32LE(36 + 2 * n, 4); b.write('WAVEfmt ', 8); b.writeUInt32LE(16, 16); b.writeUInt16LE(1, 20); b.writeUInt16LE(1, 22);
  b.writeUInt32LE(16000, 24); b.writeUInt32LE(32000, 28); b.writeUInt16LE(2, 32); b.writeUInt16LE(16, 34); b.write('data', 36); b.writeUInt32LE(2 * n, 40);
  return b;
}

test('openai: transcriptions, whole, as text, streamed, and translations', async () => {
  if (real) return skip; // it need not have ears
  const [client] = await openai(), file = () => toFile(wav(100), 'speech.wav');
  const r = await client.audio.transcriptions.create({ file: await file(), model, prompt: 'say:hello there', temperature: 0.2, include: ['logprobs'] });
  equal([r.text, r.usage.type, r.usage.total_tokens], ['hello there', 'tokens', r.usage.input_tokens + r.usage.output_tokens]);
  equal(await client.audio.transcriptions.create({ file: await file(), model, prompt: 'say:hello there', response_format: 'text' }), 'hello there\n');
  const all = [];
  for await (const e of await client.audio.transcriptions.create({ file: await file(), model, prompt: 'say:a somewhat longer sentence', stream: true })) all.push(e);
  const last = all.pop();
  equal([last.type, last.text], ['transcript.text.done', 'a somewhat longer sentence']);
  equal(all.map((e) => e.delta).join(''), last.text);
  equal((await client.audio.translations.create({ file: await file(), model, prompt: 'say:in English' })).text, 'in English');
  const large = await client.audio.transcriptions.create({ file: await toFile(wav(500000), 'long.wav'), model, prompt: 'say:a megabyte' });
  equal(large.text, 'a megabyte');
  const e = await fails(client.audio.transcriptions.create({ file: await file(), model, response_format: 'verbose_json' }));
  ok(e instanceof OpenAI.BadRequestError && e.param === 'response_format' && /no times/.test(e.message), String(e));
});

test('openai: n', async () => {
  const [c] = await openai();
  const r = await c.chat.completions.create({ model, messages: user('tokens=3'), n: 3, ...few, temperature: 1 });
  must(completion, r, 'completion');
  equal(r.choices.map((x) => x.index), [0, 1, 2]);
  const s = await c.chat.completions.create({ model, messages: user('tokens=3'), n: 2, stream: true, ...few });
  const ends = [];
  for await (const x of s) if (x.choices[0]?.finish_reason) ends.push(x.choices[0].index);
  equal(ends.sort(), [0, 1]);
});

test('openai: reasoning_content', async () => {
  if (real) return skip;
  const [c] = await openai();
  const r = await c.chat.completions.create({ model, messages: user('think tokens=5') });
  equal([r.choices[0].message.reasoning_content, r.usage.completion_tokens_details.reasoning_tokens], ['think0 think1 think2 ', 3]);
});

test('openai: errors have their classes', async () => {
  const [c] = await openai();
  const unknown = await fails(c.chat.completions.create({ model: 'gpt-0', messages: user('x') }));
  ok(unknown instanceof OpenAI.NotFoundError && unknown.param === 'model' && unknown.type === 'not_found_error', String(unknown));
  const bad = await fails(c.chat.completions.create({ model, messages: user('x'), temperature: 3 }));
  ok(bad instanceof OpenAI.BadRequestError && bad.param === 'temperature' && bad.code === 'invalid_value' && bad.requestID, String(bad));
  const sound = await fails(c.chat.completions.create({ model, messages: user([{ type: 'file', file: { file_id: 'x' } }]) }));
  ok(sound instanceof OpenAI.BadRequestError && /text, images and sound only/.test(sound.message), String(sound));
  if (real) {
    const long = await fails(c.chat.completions.create({ model, messages: user('word '.repeat(100000)) }));
    ok(long instanceof OpenAI.BadRequestError, String(long));
    return;
  }
  const long = await fails(c.chat.completions.create({ model, messages: user('error=400') }));
  ok(long instanceof OpenAI.BadRequestError && long.code === 'context_length_exceeded', String(long));
  const s = await c.chat.completions.create({ model, messages: user('tokens=9 error_after=3'), stream: true });
  const middle = await fails((async () => { for await (const x of s) must(chunk, x, 'chunk'); })());
  ok(middle instanceof OpenAI.APIError && /lost its way/.test(middle.message), String(middle));
  const [, keyed] = await openai({}, { args: ['--api-key', 'secret-key'], ready: false });
  await keyed.until('ok');
  const wrong = await fails(new OpenAI({ baseURL: keyed.url + '/v1', apiKey: 'wrong-key', maxRetries: 0 }).models.list());
  ok(wrong instanceof OpenAI.AuthenticationError && wrong.code === 'invalid_api_key', String(wrong));
  ok((await new OpenAI({ baseURL: keyed.url + '/v1', apiKey: 'secret-key' }).models.list()).data.length === 1, 'the right key');
  const [full, busy] = await openai({}, { args: ['--max-queue', '0'], engine: { n_seq: 1 } });
  const held = await full.chat.completions.create({ model, messages: user('stall'), stream: true });
  const limit = await fails(full.chat.completions.create({ model, messages: user('x') }));
  ok(limit instanceof OpenAI.RateLimitError && limit.headers.get('retry-after'), String(limit));
  held.controller.abort();
  await busy.stop();
});

test('openai: a client with retries does not notice that the engine died', async () => {
  if (real) return skip;
  const [c, s] = await openai({ maxRetries: 5 }, {});
  const pid = (await s.get('/api/status')).json.engine.pid;
  const answer = c.chat.completions.create({ model, messages: user('tokens=3 held') });
  await eventually('it is being answered', () => s.count('BEGIN') === 1);
  process.kill(pid, 'SIGKILL');
  s.tell('tokens'); // for the next engine: this one is no more
  equal((await answer).choices[0].message.content, 'token0 token1 token2 ');
});

test('openai: abort reaches the engine', async () => {
  const [c, s] = await openai();
  const stream = await c.chat.completions.create({ model, messages: user('tokens=100000 delay=5 count to a million'), stream: true });
  const cancels = real ? 0 : s.count('CANCEL');
  let n = 0;
  for await (const x of stream) if (x.choices[0].delta.content && ++n === 3) stream.controller.abort();
  if (!real) await eventually('cancelled', () => s.count('CANCEL') === cancels + 1);
  const gone = new AbortController();
  const whole = c.chat.completions.create({ model, messages: user('tokens=100000 delay=5') }, { signal: gone.signal });
  setTimeout(() => gone.abort(), 100);
  ok(await fails(whole) instanceof OpenAI.APIUserAbortError, 'aborted');
  await eventually('nothing in flight', async () => (await (await fetch(s.url + '/api/status')).json()).requests.in_flight === 0);
});

// --- the AI SDK ---

const sdk = async () => {
  const s = await up();
  return [createOpenAICompatible({ name: 'vram-llm', baseURL: s.url + '/v1', apiKey: 'none', supportsStructuredOutputs: true, includeUsage: true }), s];
};
const short = real ? { maxOutputTokens: 24, temperature: 0 } : {};

test('ai: generateText and streamText', async () => {
  const [p] = await sdk();
  const r = await generateText({ model: p(model), prompt: 'tokens=4', ...short });
  ok(r.text.length > 0 && r.usage.inputTokens > 0 && r.usage.outputTokens > 0, JSON.stringify(r.usage));
  if (!real) equal([r.text, r.finishReason], ['token0 token1 token2 token3 ', 'stop']);
  const s = streamText({ model: p(model), system: 'short', prompt: 'tokens=4', ...short });
  let all = '';
  for await (const d of s.textStream) all += d;
  ok(all.length > 0 && (await s.usage).outputTokens > 0, 'usage of a stream');
  if (!real) equal(all, 'token0 token1 token2 token3 ');
});

test('ai: reasoning', async () => {
  if (real) return skip;
  const [p] = await sdk();
  equal((await generateText({ model: p(model), prompt: 'think tokens=5' })).reasoningText, 'think0 think1 think2 ');
  const s = streamText({ model: p(model), prompt: 'think tokens=5' });
  await s.consumeStream();
  equal([await s.reasoningText, await s.text], ['think0 think1 think2 ', 'token3 token4 ']);
});

test('ai: tools that the client runs', async () => {
  if (!calls) return skip;
  const [p] = await sdk();
  const asked = [];
  const tools = { weather: aiTool({ description: 'the weather in a city', inputSchema: z.object({ city: City }), execute: async (x) => { asked.push(x); return 'tokens=2'; } }) };
  const r = await generateText({ model: p(model), prompt: 'Weather in Paris? Use the tool.', tools, stopWhen: stepCountIs(2), ...(real ? { maxOutputTokens: 200, toolChoice: 'required' } : {}) });
  ok(asked.length >= 1 && typeof asked[0].city === 'string', 'called');
  if (!real) equal(r.text, 'token0 token1 ');
  const s = streamText({ model: p(model), prompt: 'Weather in Paris? Use the tool.', tools, stopWhen: stepCountIs(2), ...(real ? { maxOutputTokens: 200, toolChoice: 'required' } : {}) });
  await s.consumeStream();
  ok((await s.steps)[0].toolCalls[0].input.city, 'called in a stream');
});

test('ai: objects by schema', async () => {
  const [p] = await sdk();
  const r = await generateObject({ model: p(model), schema: Person, prompt: 'Invent a person.', ...(real ? { maxOutputTokens: 300 } : {}) });
  Person.parse(r.object);
});

test('ai: embeddings', async () => {
  if (!embeds) return skip;
  const [p] = await sdk();
  const a = await embed({ model: p.textEmbeddingModel(model), value: 'one' });
  const b = await embedMany({ model: p.textEmbeddingModel(model), values: ['one', 'two', 'three'] });
  ok(a.embedding.length > 0 && b.embeddings.length === 3 && b.embeddings[0].length === a.embedding.length, 'embeddings');
});

test('ai: errors and abort', async () => {
  const [p, s] = await sdk();
  const e = await fails(generateText({ model: p('gpt-0'), prompt: 'x', maxRetries: 0 }));
  ok(APICallError.isInstance(e) && e.statusCode === 404 && /model 'gpt-0' not found/.test(e.message), String(e));
  const gone = new AbortController();
  const r = streamText({ model: p(model), prompt: 'tokens=100000 delay=5 count to a million', abortSignal: gone.signal, onError: () => { } });
  let n = 0;
  await (async () => { for await (const d of r.textStream) if (d && ++n === 3) gone.abort(); })().catch(() => { });
  await eventually('nothing in flight', async () => (await (await fetch(s.url + '/api/status')).json()).requests.in_flight === 0);
  if (real) return;
  const seen = [];
  const bad = streamText({ model: p(model), prompt: 'tokens=9 error_after=3', maxRetries: 0, onError: (x) => seen.push(x.error) });
  await bad.consumeStream({ onError: () => { } });
  ok(/lost its way/.test(JSON.stringify(seen) + String(seen[0])), `${seen[0]}`);
});

// --- LangChain ---

const chain = async (more = {}) => {
  const s = await up();
  return [new ChatOpenAI({ model, apiKey: 'none', maxRetries: 0, configuration: { baseURL: s.url + '/v1' }, ...(real ? { maxTokens: 24, temperature: 0 } : {}), ...more }), s];
};

test('langchain: invoke, stream, batch, usage', async () => {
  const [c] = await chain();
  const r = await c.invoke([['system', 'short'], ['human', 'tokens=4']]);
  ok(r.content.length > 0 && r.usage_metadata.output_tokens > 0 && r.response_metadata.finish_reason, JSON.stringify(r.usage_metadata));
  let all = '', total = 0;
  for await (const x of await c.stream('tokens=4')) { all += x.content; total += x.usage_metadata?.output_tokens ?? 0; }
  ok(all.length > 0 && total > 0, 'streamed');
  if (!real) equal([r.content, all, total], ['token0 token1 token2 token3 ', 'token0 token1 token2 token3 ', 4]);
  equal((await c.batch(['tokens=1', 'tokens=2', 'tokens=3'])).length, 3);
});

test('langchain: tools', async () => {
  if (!calls) return skip;
  const [c] = await chain(real ? { maxTokens: 300 } : {});
  const bound = c.bindTools([langTool(async ({ city }) => `rain in ${city}`, { name: 'weather', description: 'the weather', schema: z.object({ city: City }) })], { tool_choice: 'required' });
  const r = await bound.invoke('Weather in Paris?');
  equal([r.tool_calls[0].name, typeof r.tool_calls[0].args.city], ['weather', 'string']);
  let streamed;
  for await (const x of await bound.stream('Weather in Paris?')) streamed = streamed ? streamed.concat(x) : x;
  equal(typeof streamed.tool_calls[0].args.city, 'string');
  Person.parse(await c.withStructuredOutput(Person, { method: 'functionCalling', name: 'person' }).invoke('Invent a person.'));
});

test('langchain: structured output', async () => {
  const [c] = await chain(real ? { maxTokens: 300 } : {});
  Person.parse(await c.withStructuredOutput(Person, { method: 'jsonSchema', name: 'person' }).invoke('Invent a person.'));
});

test('langchain: n, logprobs, completions, embeddings', async () => {
  const [c, s] = await chain({ n: 2, logprobs: true, topLogprobs: 1, ...(real ? { temperature: 1 } : {}) });
  const r = await c.generate([[['human', 'tokens=2']].map(([, t]) => ({ role: 'user', content: t }))]);
  equal(r.generations[0].length, 2);
  ok(r.generations[0][0].message.response_metadata.logprobs.content.length > 0, 'logprobs');
  const old = new LangCompletions({ model, apiKey: 'none', maxRetries: 0, configuration: { baseURL: s.url + '/v1' }, maxTokens: 8 });
  ok((await old.invoke('tokens=3')).length > 0, 'completions');
  if (!embeds) return;
  const e = new OpenAIEmbeddings({ model, apiKey: 'none', configuration: { baseURL: s.url + '/v1' } });
  const v = await e.embedDocuments(['one', 'two']);
  ok(v.length === 2 && v[0].length > 0 && (await e.embedQuery('one')).length === v[0].length, 'embeddings');
});

test('langchain: errors and abort', async () => {
  const [c, s] = await chain();
  const [bad] = await chain({ model: 'gpt-0' });
  const e = await fails(bad.invoke('x'));
  ok(e.status === 404 && /not found/.test(e.message), String(e));
  const gone = new AbortController();
  await (async () => {
    let n = 0;
    for await (const x of await c.stream('tokens=100000 delay=5 count to a million', { signal: gone.signal })) if (x.content && ++n === 3) gone.abort();
  })().catch(() => { });
  await eventually('nothing in flight', async () => (await (await fetch(s.url + '/api/status')).json()).requests.in_flight === 0);
});

test('several models: each client picks one by its name', async () => {
  if (real) return skip('one model is up');
  const folder = scratchFile('models');
  fs.mkdirSync(folder);
  const files = ['first', 'second'].map((name) => path.join(folder, name + '.gguf'));
  for (const file of files) fs.symlinkSync(process.env.VR_MODEL, file);
  const [c, s] = await openai({}, { models: files, ready: false });
  equal((await c.models.list()).data.map((m) => m.id), ['first', 'second']);
  for (const name of ['second', 'first']) {
    equal((await c.chat.completions.create({ model: name, messages: user('tokens=2') })).model, name, 'openai');
    const { text: said, response } = await generateText({ model: createOpenAICompatible({ name: 'local', baseURL: s.url + '/v1' })(name), prompt: 'tokens=2', maxRetries: 0 });
    ok(said.length > 0 && response.modelId === name, `the AI SDK got ${response.modelId}`);
    const lang = new ChatOpenAI({ model: name, apiKey: 'none', maxRetries: 0, configuration: { baseURL: s.url + '/v1' } });
    equal((await lang.invoke('tokens=2')).response_metadata.model_name, name, 'LangChain');
  }
  const e = await fails(c.chat.completions.create({ model: 'secnd', messages: user('x') }));
  ok(e.status === 404 && /second/.test(e.message), String(e));
});

runAll('clients');

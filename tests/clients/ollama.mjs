// Clients of Ollama's API against the server over the fake engine: its own, and LangChain.
import { Ollama } from 'ollama';
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama';
import { z } from 'zod';
import { equal, ok, runAll, serve, test } from './lib.mjs';

const model = 'm';
let server;
async function up() {
  if (!server || server.exit) server = await serve();
  return server;
}
const client = async () => new Ollama({ host: (await up()).url });
const fails = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it did not fail'); };
const user = (content) => [{ role: 'user', content }];
const weather = { type: 'function', function: { name: 'weather', description: 'd', parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } }, required: ['city'] } } };
const City = z.object({ city: z.enum(['Paris', 'Rome']) });

test('ollama: what there is', async () => {
  const c = await client();
  equal((await c.list()).models.map((m) => m.model), ['m']);
  equal((await c.ps()).models.map((m) => m.name), ['m']);
  ok((await c.show({ model })).capabilities.includes('completion'), 'show');
  ok((await c.version()).version, 'version');
  equal((await c.pull({ model })).status, 'success');
  ok(/llama3/.test((await fails(c.pull({ model: 'llama3' }))).message), 'an honest answer');
});

test('ollama: chat, whole and streamed, thinking, format', async () => {
  const c = await client();
  const r = await c.chat({ model, messages: user('think tokens=5'), think: true, keep_alive: '10m', options: { num_ctx: 4096, temperature: 0 } });
  equal([r.message.content, r.message.thinking, r.eval_count], ['token3 token4 ', 'think0 think1 think2 ', 5]);
  let all = '';
  for await (const x of await c.chat({ model, messages: user('tokens=3'), stream: true })) all += x.message.content;
  equal(all, 'token0 token1 token2 ');
  equal(JSON.parse((await c.chat({ model, messages: user('x'), format: z.toJSONSchema(City) })).message.content), { city: 'Paris' });
});

test('ollama: tools', async () => {
  const c = await client();
  const messages = user('weather?');
  const r = await c.chat({ model, messages, tools: [weather] });
  equal(r.message.tool_calls[0].function.arguments, { city: 'Paris' });
  const again = await c.chat({ model, tools: [weather], messages: [...messages, r.message, { role: 'tool', tool_name: 'weather', content: 'tokens=2' }] });
  equal(again.message.content, 'token0 token1 ');
});

test('ollama: generate, embed, errors, abort', async () => {
  const c = await client();
  equal((await c.generate({ model, prompt: 'tokens=2' })).response, 'token0 token1 ');
  equal((await c.embed({ model, input: ['a', 'b'] })).embeddings.length, 2);
  equal((await c.embeddings({ model, prompt: 'a' })).embedding.length, 8);
  ok(/gpt-0/.test((await fails(c.chat({ model: 'gpt-0', messages: user('x') }))).message), 'not found');
  const s = await c.chat({ model, messages: user('tokens=9 error_after=2'), stream: true });
  ok(/lost its way/.test((await fails((async () => { for await (const _ of s); })())).message), 'within a stream');
});

test('langchain: chat, a stream, tools, structured output, embeddings', async () => {
  const baseUrl = (await up()).url;
  const c = new ChatOllama({ model, baseUrl, maxRetries: 0 });
  equal((await c.invoke('tokens=2')).text, 'token0 token1 ');
  let all = '';
  for await (const x of await c.stream('tokens=3')) all += x.text;
  equal(all, 'token0 token1 token2 ');
  equal((await c.bindTools([weather]).invoke('weather?')).tool_calls[0].args, { city: 'Paris' });
  equal(await c.withStructuredOutput(City).invoke('x'), { city: 'Paris' });
  equal((await new OllamaEmbeddings({ model, baseUrl, maxRetries: 0 }).embedDocuments(['a', 'b'])).length, 2);
});

runAll('clients ollama');

// The attacks by name. What was found in the audit comes first; `short` ones are in the test list.
//   {name, short, load, send(a) -> [results of bench/client]}     a: who attacks, bench/attack_sender; load: as in attack_kinds
import net from 'node:net';
import { sleep } from './client.mjs';
import { kinds, grammar, optional, schema, texts, tools } from './attack_kinds.mjs';

const MB = 1 << 20;
const all = (n, make) => Promise.all(Array.from({ length: n }, (_, i) => make(i)));
const twice = (make, leave_ms) => (a) => { const { path, body } = make(), bytes = JSON.stringify(body); return all(2, () => a.post(path, bytes, { leave_ms })); };
const from = (kind, numbers) => () => kinds[kind].make(numbers);
// two of a kind whose cost is tokens
function tokens(kind, numbers) { const [requests, each] = kinds[kind].load(numbers); return { load: [2 * requests, each], send: twice(from(kind, numbers)) }; }
const head = (length, path = '/v1/chat/completions') => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
const chat = (content, more = {}) => JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: 8, ...more });
const ok = { status: 0, ms: 0, cut: 'client' };

// A connection that takes what comes; say(bytes) sends, status() is that of the answer so far.
function open(a) {
  const c = { text: '', closed: false };
  c.socket = net.connect({ port: a.port, host: '127.0.0.1', localAddress: a.from }).on('error', () => { c.closed = true; }).on('close', () => { c.closed = true; });
  c.socket.on('data', (d) => { if (c.text.length < 4096) c.text += d.toString('latin1'); });
  c.say = (bytes) => new Promise((done) => { if (c.closed) done(); else c.socket.write(bytes, done); });
  c.result = (ms) => ({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(c.text)?.[1] ?? 0), code: /"code":"([a-z_]+)"/.exec(c.text)?.[1], message: /"message":"([^"]*)/.exec(c.text)?.[1], ms, cut: c.closed ? 'server' : 'client' });
  return c;
}
async function hold(a, n, ms, use) {
  const began = performance.now(), some = await all(n, async () => { const c = open(a); await use(c); return c; });
  await sleep(ms);
  const results = some.map((c) => c.result(performance.now() - began));
  for (const c of some) c.socket.destroy();
  return results;
}

// Leaves after each part of what a request does: parts of its head, its body, its answer.
async function leave(a, rounds) {
  const body = chat('tell me', { max_tokens: 64, stream: true, ignore_eos: true }), whole = head(body.length) + body;
  for (let i = 0; i < rounds; i++) {
    const c = open(a), part = i % 6;
    await c.say(part < 3 ? whole.slice(0, [10, whole.length - body.length, whole.length - 5][part]) : whole);
    if (part > 3) for (let k = 0; k < 200 && !c.closed && !(part === 4 ? c.text : c.text.includes('data: {')); k++) await sleep(5);
    c.socket.destroy();
  }
  return [ok];
}

async function idle(a, n) {
  const some = [];
  for (let i = 0; i < n; i++) { some.push(open(a)); if (i % 200 === 199) await sleep(20); }
  await sleep(2500);
  const refused = some.find((c) => c.text), r = refused ? refused.result(0) : ok;
  for (const c of some) c.socket.destroy();
  return [r];
}

export const bombs = [
  // the table
  { name: 'schema, 2,000 optional properties, leaves after 0.5 s', short: true, send: twice(() => schema(optional(2000, 8)), 500) },
  { name: 'schema, 8,000 optional properties', send: twice(() => schema(optional(8000))) },
  { name: 'tools, 4 with 1,000 optional properties', short: true, send: twice(() => tools(4, optional(1000))) },
  { name: 'grammar, [a]? x 500', short: true, send: twice(() => grammar(`root ::= ${'[a]?'.repeat(500)}`)) },
  { name: 'grammar, [a]? x 12,000', short: true, send: twice(() => grammar(`root ::= ${'[a]?'.repeat(12000)}`)) },
  { name: 'grammar, [a-z]?{2000}', send: twice(() => grammar('root ::= [a-z]?{2000}')) },
  { name: 'schema, enum of 20,000 values', short: true, send: twice(() => schema({ enum: Array.from({ length: 20000 }, (_, i) => `v${i}`) })) },
  { name: 'template, nested ranges of 30,000', short: true, send: twice(from('template: nested ranges', { rounds: 30000 })) },
  { name: 'bodies, 16 of 16 MiB - 1, then silence', short: true, send: (a) => hold(a, 16, 3000, async (c) => { await c.say(head(16 * MB)); await c.say(Buffer.alloc(16 * MB - 1, ' ')); }) },
  { name: 'body, 11 MB of JSON, 900,000 values', short: true, send: (a) => a.post('/v1/chat/completions', chat('hi', { metadata: { a: Array.from({ length: 900000 }, (_, i) => 1e11 + i) } })).then((r) => [r]) },
  { name: 'connections, 8,270 idle ones', send: (a) => idle(a, 8270) },
  // bodies and connections
  { name: 'bodies, 200 with a byte per second', send: (a) => hold(a, 200, 0, async (c) => { await c.say(head(1000)); for (let i = 0; i < 4; i++) { await c.say('{'); await sleep(1000); } }) },
  { name: 'heads, 200 with a byte per second', send: (a) => hold(a, 200, 0, async (c) => { for (let i = 0; i < 4; i++) { await c.say('G'); await sleep(1000); } }) },
  { name: 'bodies, 100 of 10 MB at once', send: (a) => { const body = chat(texts.letter(10 * MB)); return all(100, () => a.post('/v1/chat/completions', body)); } },
  { name: 'body, a million values', send: (a) => a.post('/v1/completions', JSON.stringify({ prompt: Array.from({ length: 999980 }, () => 1) })).then((r) => [r]) },
  { name: 'body, 16 MiB of escapes', send: (a) => a.post('/v1/chat/completions', `{"messages":[{"role":"user","content":"${'\\u00e9'.repeat(2700000)}"}]}`).then((r) => [r]) },
  { name: 'body, 980,000 keys', send: (a) => a.post('/v1/chat/completions', `{"metadata":{${Array.from({ length: 980000 }, (_, i) => `"${i.toString(36)}":1`).join()}},"messages":[]}`).then((r) => [r]) },
  { name: 'body, 62 deep, many times', send: (a) => all(20, () => a.post('/v1/chat/completions', chat('hi', { metadata: { a: Array.from({ length: 5000 }, () => JSON.parse('['.repeat(60) + ']'.repeat(60))) } }))) },
  { name: 'body, a number of 8 MB', send: (a) => a.post('/v1/chat/completions', `{"temperature":1.${'7'.repeat(8 * MB)},"messages":[]}`).then((r) => [r]) },
  { name: 'body, chunks of one byte', send: (a) => hold(a, 4, 1000, async (c) => { await c.say('POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n'); await c.say('1\r\n \r\n'.repeat(1000000)); }) },
  { name: 'clients that leave at every stage', short: true, send: (a) => all(4, () => leave(a, 48)).then((r) => r.flat()) },
  { name: 'clients that never read', load: [128, 512], send: (a) => hold(a, 16, 3000, async (c) => { c.socket.pause(); const b = chat('x', { n: 8, max_tokens: 512, stream: true, ignore_eos: true }); await c.say(head(b.length) + b); }) },
  { name: 'answers, 500 pipelined requests', send: (a) => hold(a, 8, 1000, (c) => c.say('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(500))) },
  // what the model is asked
  { name: 'messages, 8,192 tiny ones', short: true, send: twice(from('messages: many', { n: 8192 })) },
  { name: 'message of 10 MB', send: twice(from('text: letter', { n: 10 * MB })) },
  { name: 'message of 10 MB without spaces', short: true, send: twice(from('text: joined', { n: 10 * MB })) },
  { name: 'message of 10 MB of spaces', send: twice(from('text: spaces', { n: 10 * MB })) },
  { name: 'message of 10 MB of emoji', send: twice(from('text: emoji', { n: 10 * MB })) },
  { name: 'message of 10 MB of combining marks', send: twice(from('text: marks', { n: 10 * MB })) },
  { name: 'messages, 100 of 1,024 parts', send: twice(from('messages: many parts', { n: 100, m: 1024 })) },
  { name: 'tools, 256 that are strict', send: twice(from('tools: many and wide, strict', { n: 256, m: 30 })) },
  { name: 'grammar, 9,000 alike alternatives', send: twice(from('grammar: alike alternatives', { n: 9000 })) },
  { name: 'grammar, 25 nullable pairs of pairs', short: true, send: twice(from('grammar: nullable pairs', { n: 25 })) },
  // the search's own
  { name: 'grammar, 12 ambiguous lists of 17', short: true, send: twice(from('grammar: ambiguous lists', { n: 12, m: 17 })) },
  { name: 'grammar, 65 alike alternatives', send: twice(from('grammar: alike alternatives', { n: 65 })) },
  { name: 'schema, 7,912 properties, half of them required', send: twice(from('schema: half of them required', { n: 7912 })) },
  { name: 'grammar, 6 levels of {0,30}', send: twice(from('grammar: nested repetition', { n: 30, depth: 6 })) },
  { name: 'schema, pattern with 8 levels of {0,50}', send: twice(from('schema: pattern, repeated', { n: 50, depth: 8 })) },
  { name: 'choices, 16 x 512 tokens', ...tokens('choices: 16 long ones', { n: 16, max_tokens: 512 }) },
  { name: 'prompts, 8 x 16 choices', ...tokens('choices: many prompts', { n: 8, m: 16 }) },
  { name: 'logprobs of 20 for 8 choices', ...tokens('sampling: logprobs', { n: 8, max_tokens: 256 }) },
  { name: 'logit_bias, 1,024 entries', ...tokens('sampling: logit_bias', { n: 1024, max_tokens: 256 }) },
  { name: 'stop, 16 strings of 256 bytes', ...tokens('sampling: stop strings', { n: 16, long: 256 }) },
  { name: 'embeddings, 2,048 inputs', short: true, send: twice(from('embeddings: many inputs', { n: 2048, long: 20 })) },
  { name: 'pictures, 16 of 33 million pixels', short: true, send: twice(from('pictures: black and large', { n: 16, w: 16384, h: 2048 })) },
  // other APIs
  { name: 'plans, 40 at once', short: true, send: (a) => all(40, (i) => a.post('/api/plan', JSON.stringify({ gpus: `${1 + i % 8}x RTX 3090`, n_ctx: 4096 + 64 * i }))) },
  { name: 'loads that are only tried, 60 at once', send: (a) => all(60, () => a.post('/api/models/load', JSON.stringify({ model: 'm', dry: true }))) },
  { name: 'body, 16 MiB to a path that is not the model\'s', send: (a) => all(4, (i) => a.post(['/lora-adapters', '/api/show', '/api/plan', '/api/models/load'][i], `{"model":"${'x'.repeat(15 * MB)}"}`)) },
  { name: 'body, 64 kB of values to each path beside the model\'s', send: (a) => all(40, (i) => a.post(['/lora-adapters', '/api/show', '/api/plan', '/api/models/pin'][i % 4], `{"a":[${'1,'.repeat(32000)}1]}`)) },
  { name: 'answers, all lists 100 times', send: (a) => hold(a, 8, 1000, (c) => c.say(['/api/models', '/api/gpus', '/api/status', '/props', '/slots', '/api/tags', '/v1/models', '/api/plan'].map((p) => `GET ${p} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join('').repeat(100))) },
  { name: 'live feeds, 200', send: (a) => hold(a, 200, 3000, (c) => c.say('GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n')) },
  { name: 'responses, 64 stored ones of 500 kB', load: [64, 8], send: (a) => all(64, () => a.post('/v1/responses', JSON.stringify({ input: [{ role: 'user', content: 'hi' }], instructions: '', metadata: {}, tools: [{ type: 'function', name: 'f', description: 'x'.repeat(500000), parameters: {} }], store: true, max_output_tokens: 8 }))) },
  { name: 'responses, a turn of 8,000 items of 500 bytes', short: true, send: twice(from('responses: one turn in many items', { n: 8000, long: 500 })) },
  { name: 'responses, 4,000 notices behind 4,000 parts', send: twice(from('responses: notices', { n: 4000, m: 4000, long: 100 })) },
  { name: 'anthropic, 8,000 notices of 500 bytes', send: twice(from('anthropic: notices', { n: 8000, long: 500 })) },
  { name: 'tools, 8 and an answer that is one of them', send: twice(() => { const t = tools(8, optional(1)); return { ...t, body: { ...t.body, tool_choice: 'required', max_tokens: 200, stream: true } }; }) },
  { name: 'infill, 256 files of 30 kB', send: twice(from('infill: files', { n: 256, long: 30000 })) },
  { name: 'detokenize, 900,000 tokens', send: twice(from('detokenize', { n: 900000 })) },
  { name: 'tokenize, 8 MB with pieces', send: twice(from('tokenize: text', { n: 8000000 })) },
  { name: 'logit_bias, 1,024 texts of 400 bytes', send: twice(from('native: biases of texts', { n: 1024, long: 400 })) },
  { name: 'lora, 16 choices with scales of their own', ...tokens('lora: scales of its own', { n: 16, max: 128 }) },
  { name: 'guesses under an ambiguous grammar', short: true, send: twice(from('guesses: a grammar and text that repeats', { n: 12, m: 17 })) },
  { name: 'ollama, format with 8,000 properties', send: twice(from('ollama: format', { n: 8000 })) },
  { name: 'anthropic, 256 tools of 1,000 properties', send: twice(from('anthropic: tools', { n: 256, m: 1000 })) },
  // for ears
  { name: 'sound, silence of 22 hours in 300 kB', ears: true, short: true, send: twice(from('sound: silence in little', { frames: 20000 })) },
  { name: 'sound, 600 s', ears: true, send: twice(from('sound: long', { seconds: 599, rate: 4000 })) },
  { name: 'sound, a sample a second', ears: true, short: true, send: twice(from('sound: slower than a sample a second', { samples: 100000 })) },
  { name: 'sound, 16 of 37 s', ears: true, send: twice(from('sound: many', { n: 16, seconds: 37 })) },
];

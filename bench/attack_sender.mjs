// The attacker: a thread of its own, so that making a body of 10 MB is no pause of the clients that are measured.
//   sender().send(port, attack) -> {results, bytes}      attack: {bomb: name}, {kind, numbers} or ordinary requests: {seconds} of two
// at a time, or {load: [requests, tokens of each]} all at once. {leave_ms} may be added.
import { Worker, isMainThread, parentPort } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { now, request } from './client.mjs';
import { bombs } from './attack_bombs.mjs';
import { kinds } from './attack_kinds.mjs';

const LEAVE_MS = 6000; // patience, where nothing else is said
const FROM = '127.0.0.2';

export function sender() {
  const worker = new Worker(fileURLToPath(import.meta.url));
  let serial = 0;
  const waiting = new Map();
  worker.on('message', (m) => { waiting.get(m.id)(m); waiting.delete(m.id); });
  return {
    send: (port, attack) => new Promise((done, fail) => { const id = serial++; waiting.set(id, (m) => (m.error ? fail(new Error(m.error)) : done(m))); worker.postMessage({ id, port, attack }); }),
    close: () => worker.terminate(),
  };
}

async function run(port, attack) {
  let bytes = 0;
  const a = {
    port, from: FROM,
    post: (path, body, { leave_ms = attack.leave_ms ?? LEAVE_MS } = {}) => {
      bytes = Math.max(bytes, Buffer.byteLength(body));
      return request({ port, from: FROM, path, body, leave_ms }).then(({ text, ...r }) => r);
    },
  };
  if (attack.bomb) return { results: await bombs.find((b) => b.name === attack.bomb).send(a), bytes };
  if (attack.kind) { const { path, body } = kinds[attack.kind].make(attack.numbers); return { results: [await a.post(path, JSON.stringify(body))], bytes }; }
  const ask = (content, max_tokens) => a.post('/v1/chat/completions', JSON.stringify({ messages: [{ role: 'user', content }], max_tokens, ignore_eos: true }));
  if (attack.load) return { results: await Promise.all(Array.from({ length: attack.load[0] }, (_, i) => ask(`${i} what is new?`, attack.load[1]))), bytes };
  const end = now() + attack.seconds * 1000, results = [];
  await Promise.all([0, 1].map(async (k) => {
    for (let i = 0; now() < end; i++) results.push(await ask(`${k} ${i} what is new?`, 32));
  }));
  return { results, bytes };
}

if (!isMainThread) parentPort.on('message', async ({ id, port, attack }) => {
  try { parentPort.postMessage({ id, ...await run(port, attack) }); } catch (e) { parentPort.postMessage({ id, error: String(e.stack ?? e) }); }
});

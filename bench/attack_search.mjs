// The search for cost: requests are drawn from the kinds, each is sent to a server that has nothing else to do, and what made it work
// longest for each byte is changed a little and tried again. CPU time of all its processes counts, not how long an answer took.
import { kinds } from './attack_kinds.mjs';
import { random, request } from './client.mjs';
import { cpu_ms } from './procs.mjs';

let names;
// Only kinds that the server has an organ for: `ears` or none.
export function choose(ears) { names = Object.keys(kinds).filter((name) => Boolean(kinds[name].ears) === ears); }
// A number of a range; small ones are as likely as large ones.
const draw = (r, [from, to]) => Math.round(from * (to / from) ** r.next());
const numbersOf = (r, kind) => Object.fromEntries(Object.entries(kinds[kind].range).map(([name, range]) => [name, draw(r, range)]));

function change(r, { kind, numbers }) {
  const name = r.pick(Object.keys(numbers)), [from, to] = kinds[kind].range[name];
  const value = Math.round(numbers[name] * r.pick([0.25, 0.5, 0.8, 1.25, 2, 4]));
  return { kind, numbers: { ...numbers, [name]: Math.min(to, Math.max(from, value)) } };
}

// n attacks without a search: each kind in turn, with its numbers drawn.
export function sample(seed, n) {
  const r = random(seed), first = r.below(names.length);
  return Array.from({ length: n }, (_, i) => { const kind = names[(first + i * 17) % names.length]; return { kind, numbers: numbersOf(r, kind) }; });
}

const key = (a) => JSON.stringify([a.kind, a.numbers]);
// Seconds of CPU count for themselves as well: a request of 10 bytes and 1 ms is none to fear.
const badness = (a) => a.cpu_ms * Math.sqrt(a.cpu_ms / (a.bytes + 200));

// An ordinary request goes the same way behind it: when that is answered, nothing of the one before it is left. False: something is.
const over = async (port) => (await request({ port, path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'hi' }], max_tokens: 1 }, leave_ms: 5000 })).status === 200;

// Tries `tries` requests; server() gives a server that is up and quiet, again(s) one instead of s. Returns the n worst, at most a few of each kind.
export async function search({ seed, tries, n, server, again, attacker, say }) {
  const r = random(seed), known = new Map();
  let s = await server();
  for (let i = 0; i < tries; i++) {
    const worst = [...known.values()].sort((a, b) => badness(b) - badness(a));
    const tried = i < names.length ? { kind: names[i], numbers: numbersOf(r, names[i]) } : r.next() < 0.3 ? sample(r.below(1 << 30), 1)[0] : change(r, worst[r.below(Math.min(20, worst.length))]);
    if (known.has(key(tried))) continue;
    const before = cpu_ms(s.pid), { results, bytes } = await attacker.send(s.port, tried);
    tried.lasting = !await over(s.port);
    tried.cpu_ms = cpu_ms(s.pid) - before;
    Object.assign(tried, { bytes, status: results[0].status });
    known.set(key(tried), tried);
    say(i + 1, tried);
    if (tried.lasting || s.child.exitCode !== null) s = await again(s);
  }
  const taken = new Map();
  return [...known.values()].sort((a, b) => badness(b) - badness(a)).filter((a) => { const k = (taken.get(a.kind) ?? 0) + 1; taken.set(a.kind, k); return k <= 4; }).slice(0, n);
}

// A long run of everything at once: several models that do not fit together and are swapped, mixed requests in every API, clients that leave, engines that are
// killed while they serve and while they load, plans that are killed, models that are unloaded under load, keys that are reloaded, pauses. In the end the front
// holds what it held in the beginning, every request was answered or told why, and its own counts are those of its clients.
//   node bench/soak.mjs [--minutes 60 | --short] [--seed 1] [--json]
//
// Time is cut into rounds: load, in the midst of it one event, then silence until nothing is in flight. Each model must answer then; all are unloaded, and the front
// is looked at: memory, descriptors, children. The first third of the rounds warms up.
import fs from 'node:fs';
import path from 'node:path';
import { dir, machineWith, makeModel, up } from '../tests/e2e/real.mjs';
import { median, now, random, request, sleep } from './client.mjs';
import { fds, tree } from './procs.mjs';
import { auth, requests } from './soak_requests.mjs';

const value = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const json = process.argv.includes('--json'), minutes = Number(value('minutes', process.argv.includes('--short') ? 0.2 : 60)), r = random(Number(value('seed', 1)));
const say = (text) => { if (!json) console.log(text); };
const CLIENTS = 8, ROUND_MS = Math.min(12000, minutes * 6000), GROWTH = 1.5e6, PATIENCE_MS = 300000;

// --- the server, its models and its keys ---

// About 17, 33 and 51 MiB, 101 together, of cards that have 60 and 38, of which all three would need more, however they are cut; the host has no room.
const names = ['s4', 's8', 's12'];
const files = names.map((name) => makeModel(name, '--layers', name.slice(1), '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4'));
const file = path.join(dir, 'keys'), keys = ['first-key-0123456789'];
const writeKeys = () => fs.writeFileSync(file, keys.join('\n') + '\n', { mode: 0o600 });
writeKeys();
const s = await up(files, ['--machine', machineWith(8, 60, 38), '--reserve-mib', '1', '--n-seq', '4', '--n-ctx', '2048', '--n-ubatch', '64', '--cache-ram', '0', '--load-wait', '600', '--embeddings', '--manage',
  '--api-key-file', file, '--log-format', 'json']);
const get = (where) => request({ port: s.port, method: 'GET', path: where, headers: auth(keys[0]) });
const models = async () => JSON.parse((await get('/api/models')).text).served;
const total = (served, field) => served.reduce((n, x) => n + x[field], 0);
async function metrics() {
  const { text } = await get('/metrics'), by_status = {}, number = (name) => Number(new RegExp(`^vram_llm_${name} (\\d+)`, 'm').exec(text)?.[1]);
  for (const [, family, status, n] of text.matchAll(/^vram_llm_http_requests_total\{family="(\w+)",status="(\d+)"\} (\d+)$/gm))
    if (!/^(none|models|other)$/.test(family)) by_status[status] = (by_status[status] ?? 0) + Number(n);
  return { by_status, in_flight: number('requests_in_flight'), connections: number('connections'), starts: number('engine_starts_total'), crashes: number('engine_crashes_total') };
}

// --- the clients ---

const counted = {}, unexplained = [], next = requests(r, keys);
let left_unheard = 0, sent = 0, on = false, hot = 0;

async function one({ leave_at = Infinity, ends, ...what }) {
  let pieces = 0, asked = false;
  sent++;
  const a = await request({ port: s.port, headers: auth(keys[0]), ...what, piece: (n, leave) => { pieces += n; if (pieces >= leave_at) { asked = true; leave(); } } });
  const gone = a.cut === 'client' || asked, stream = a.status === 200 && what.body.stream;
  const key = gone ? 'left' : String(a.status);
  counted[key] = (counted[key] ?? 0) + 1;
  if (gone) left_unheard += a.status === 0;
  else if (a.status === 0 || a.cut || (a.status >= 400 && !a.code) || (stream && !ends.test(a.text) && !a.code)) unexplained.push({ sent: what, status: a.status, cut: a.cut, code: a.code, end: a.text.slice(-200) });
  if (a.status === 503) await sleep(200);
  return a;
}
// Most of a round is for one model, which is another one each time.
const some = () => next(r.next() < 0.7 ? names[hot % names.length] : r.pick(names));
async function load(ms) {
  on = true;
  hot++;
  const all = Promise.all(Array.from({ length: CLIENTS }, async () => { while (on) await one(some()); }));
  return { stop: () => { on = false; return all; }, until: sleep(ms) };
}

// --- what happens meanwhile ---

// Its children by what they do; one that is forked and not yet executed has the front's words.
const word = (pid) => { try { return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1]; } catch { return ''; } };
const below = (what) => tree(s.pid).filter((p) => p.parent === s.pid && p.state !== 'Z' && word(p.pid) === what).map((p) => p.pid);
const engines = () => below('engine-process'), plans = () => below('load-plan');
let reloads = 0, kills = 0;
function kill(pid, signal, what) {
  try { process.kill(pid, signal); } catch { return `${what}: gone already`; }
  kills++;
  return what;
}
// The first that there is within the time of an event.
async function soon(find) {
  for (const end = now() + ROUND_MS / 3; now() < end; await sleep(5)) { const x = await find(); if (x) return x; }
}
const unload = () => Promise.all(names.map((model) => request({ port: s.port, path: '/api/models/unload', headers: auth(keys[0]), body: { model } })));
const events = [
  async () => kill(await soon(() => engines()[0]), 'SIGKILL', 'engine killed'),
  async () => { // the youngest engine, while some model loads
    const pid = await soon(async () => ((await models()).some((m) => m.state === 'loading') ? engines().at(-1) : null));
    return pid ? kill(pid, 'SIGKILL', 'killed at load') : 'nobody loads';
  },
  () => { keys.push(`key-${++reloads}-0123456789`); writeKeys(); process.kill(s.pid, 'SIGHUP'); return 'keys reloaded'; },
  async () => { const pid = await soon(() => plans()[0]); if (pid) try { process.kill(pid, 'SIGKILL'); } catch { } return pid ? 'plan killed' : 'nobody plans'; },
  async () => { await unload(); return 'all unloaded'; },
  async () => kill(await soon(() => engines().at(-1)), 'SIGSEGV', 'engine faults'),
  async () => { on = false; await sleep(1500); return 'silence'; },
];

// --- the run ---

const dumb = []; // models that did not answer once all was quiet
async function until(what, truth) {
  for (const end = now() + PATIENCE_MS; ; await sleep(50)) {
    if (await truth()) return true;
    if (now() > end) { unexplained.push({ never: what, models: await models() }); return false; }
  }
}
async function quiet() {
  await until('nothing in flight', async () => { const m = await metrics(); return m.in_flight === 0 && m.connections === 1; }); // its own connection is one
  for (const model of names) {
    const chat = { path: '/v1/chat/completions', body: { model, messages: [{ role: 'user', content: 'still there?' }], max_tokens: 2 } };
    if (!await until(`${model} answers`, async () => (await one(chat)).status === 200)) dumb.push(model);
  }
  await until('all unloaded', async () => { await unload(); return (await models()).every((m) => m.state === 'unloaded'); });
  await until('no child', () => tree(s.pid).length <= 1); // dead ones are waited for, too
}

const looks = [], from = now(), end = from + minutes * 60000, n_events = {};
say(`soak: ${minutes} minutes, rounds of ${ROUND_MS / 1000} s`);
for (let round = 0; now() < end || looks.length < events.length; round++) {
  const l = await load(ROUND_MS);
  await sleep(ROUND_MS / 2);
  const what = await events[round % events.length]();
  n_events[what] = (n_events[what] ?? 0) + 1;
  await l.until;
  await l.stop();
  await quiet();
  const front = tree(s.pid)[0];
  if (!front) throw new Error(`the server has ended: ${s.text().split('\n').slice(-5).join('\n')}`);
  const least = Math.min(...looks.map((l) => l.fds)); // the connections of the questions above may be on their way out
  let n_fds = fds(s.pid);
  for (let k = 0; k < (looks.length ? 200 : 10) && (!looks.length || n_fds > least); k++) { await sleep(50); n_fds = Math.min(n_fds, fds(s.pid)); }
  const look = { s: (now() - from) / 1000, rss: front.rss, fds: n_fds, n_children: tree(s.pid).length - 1, n_left: total(await models(), 'evictions') };
  looks.push(look);
  say(`  ${look.s.toFixed(0).padStart(5)} s  ${what.padEnd(14)} front ${(look.rss / 1e6).toFixed(2)} MB, ${look.fds} descriptors, ${look.n_children} processes below it, ${sent} requests, ${look.n_left} models left for another`);
}

// The middle of the slopes between all pairs of looks (Theil and Sen): one odd look does not bend it.
const steady = looks.slice(Math.floor(looks.length / 3)), slopes = [];
for (const [i, a] of steady.entries()) for (const b of steady.slice(i + 1)) slopes.push((b.rss - a.rss) / (b.s - a.s));
const growth = median(slopes) * (steady.at(-1).s - steady[0].s), m = await metrics(), served = await models();
// A client that leaves may have been answered all the same, with any status, or not have been heard at all.
const sum = (by) => Object.values(by).reduce((n, x) => n + x, 0), { left = 0, ...clients } = counted;
const refusals = Object.keys({ ...clients, ...m.by_status }).filter((k) => k !== '200' && k !== '499');
const checks = [
  ['the front did not grow', growth <= GROWTH, `${(growth / 1e3).toFixed(0)} kB in ${(steady.at(-1).s - steady[0].s).toFixed(0)} s after warming up, ${(looks.at(-1).rss / 1e6).toFixed(1)} MB in the end`],
  ['descriptors are no more than they were', looks.every((l) => l.fds <= looks[0].fds), `${[...new Set(looks.map((l) => l.fds))].join(', ')}`],
  ['no child is left, dead or alive', looks.every((l) => l.n_children === 0), `${Math.max(...looks.map((l) => l.n_children))} at most`],
  ['every request was answered or told why', unexplained.length === 0, `${sent} sent, ${JSON.stringify(counted)}${unexplained.length ? `, ${unexplained.length} not: ${JSON.stringify(unexplained.slice(0, 3))}` : ''}`],
  ['the server counted what its clients did', refusals.every((k) => (m.by_status[k] ?? 0) >= (clients[k] ?? 0)) && sum(m.by_status) <= sent && sum(m.by_status) >= sent - left_unheard,
    `${JSON.stringify(m.by_status)} and ${JSON.stringify(clients)} with ${left} that left, ${left_unheard} of them before a word came`],
  ['each model was there again after each event', dumb.length === 0, `${looks.length} times ${names.length} models: ${JSON.stringify(n_events)}`],
  ['models were swapped', looks.at(-1).n_left >= looks.length, `${total(served, 'loads')} loads, ${looks.at(-1).n_left} models left for another`],
  ['no engine died but those that were killed', m.crashes <= kills, `${kills} kills, ${m.crashes} crashes, ${m.starts} starts`],
];
const failed = checks.filter(([, ok]) => !ok).length;
if (json) console.log(JSON.stringify({ looks, counted, metrics: m, checks, unexplained: unexplained.slice(0, 20) }, null, 1));
for (const [name, ok, text] of checks) say(`  ${ok ? 'ok  ' : 'FAIL'}  ${name}: ${text}`);
await s.stop();
console.log(`soak: ${checks.length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

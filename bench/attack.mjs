// Nobody stops the others: eight honest streams, short requests and /health run all the time against the real server with a small model,
// while attacks come one after the other: those of attack_bombs.mjs, and the worst that a search of its own finds (attack_search.mjs).
//   node bench/attack.mjs [--short] [--json] [--seed N] [--tries N] [--found N] [--only 'TEXT|TEXT' | --generated] [--ears]
//
// Each attack shows how long an honest stream paused beyond its normal pace, how much longer an honest request waited than without an attack, how
// fast /health was, and whether the engine restarted. Processors are shared with the attack and with whatever else runs here: a control, the
// same attacker sending ordinary requests, is measured in the same run, and what it costs others is added to each limit. An attack that costs nothing but
// tokens (16 choices) has a control of its own: as many ordinary requests for as many tokens, all at once. What is not far over a limit
// is tried again beside a control of that moment: a machine that was busy elsewhere is so once, a request that costs too much does so each time.
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { binary, build } from '../tests/e2e/lib.mjs';
import { dir, makeMmproj, makeModel, up } from '../tests/e2e/real.mjs';
import { honest } from './attack_honest.mjs';
import { bombs } from './attack_bombs.mjs';
import { kinds } from './attack_kinds.mjs';
import { choose, sample, search } from './attack_search.mjs';
import { sender } from './attack_sender.mjs';
import { now, sleep } from './client.mjs';
import { cpu_ms, memory, tree } from './procs.mjs';

const word = (name) => process.argv.includes(`--${name}`);
const value = (name, otherwise) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? otherwise : process.argv[i + 1]; };
const short = word('short'), ears = word('ears'), seed = Number(value('seed', 1)), only = value('only', '');
const found = Number(value('found', short ? 4 : 100)), tries = Number(value('tries', short ? 0 : 260));
const LIMITS = { pause_ms: 1000, wait_ms: 1000, health_ms: 50 };
const PATIENCE_MS = 20000; // for the honest clients to be served again; then the server is started anew
const PHASE_MS = 1200;     // the least that is watched: some 100 answers of /health
const AGAIN = 2, NEAR = 20; // so many times more, where nothing was over so many times its limit
const say = (text) => { if (!word('json')) console.log(text); };
const seconds = (ms) => (ms >= 9950 ? `${(ms / 1000).toFixed(0)} s` : ms >= 995 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`);
const mb = (bytes) => (bytes / 1e6).toFixed(0);

// --- the server ---

const WIDTH = 256;
const shape = ['--layers', 4, '--embd', WIDTH, '--heads', 8, '--kv', 2, '--ff', 512, '--vocab', 32000, '--ctx', 4096, '--type', 'q8_0'];
const model = makeModel('attack', ...shape), lora = makeModel('attack-lora', ...shape.slice(0, -1), 'f32', '--lora', 4);
// --ears: a projector that hears, and nothing but sounds; else one that sees, an adapter, and guesses from the text itself.
const mmproj = ears ? makeMmproj('attack-ears', '--width', WIDTH, '--ears', 1, '--layers', 1, '--embd', 32, '--heads', 2, '--ff', 64) : makeMmproj('attack-mmproj', '--width', WIDTH);
choose(ears);
// The model's own template, with a loop that requests can make long: many real templates count with what a request brings.
const template = path.join(dir, 'template.jinja');
fs.writeFileSync(template, `{%- if rounds %}{% for i in range(rounds) %}{% for j in range(rounds) %}{% endfor %}{% endfor %}{% endif -%}
{%- if tools %}<|im_start|>system\n# Tools\n<tools>{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools>\nFor each call return <tool_call>{"name": <name>, "arguments": <args>}</tool_call><|im_end|>\n{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}\n{% if message.content is string %}{{ message.content }}{% endif %}{% for call in message.tool_calls or [] %}\n<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>\n{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif -%}`);
const start = () => up(model, ['--n-seq', '16', '--n-ctx', String(16 * 2048), '--chat-template', template, '--mmproj', mmproj, '--embeddings', ...(ears ? [] : ['--lora', lora, '--spec', 'ngram']), '--log-format', 'json']);
function kill(s) {
  for (const p of tree(s.pid).reverse()) try { process.kill(p.pid, 'SIGKILL'); } catch { }
  return s.gone;
}

// --- one attack ---

async function watch(s, run, patience) {
  const peak = memory(s.pid), starts = await s.metric('engine_starts_total');
  const eye = setInterval(() => { const m = memory(s.pid); for (const k in m) peak[k] = Math.max(peak[k], m[k]); }, 200);
  s.honest.mark();
  const from = now(), { results, bytes } = await run();
  await sleep(Math.max(0, PHASE_MS - (now() - from)));
  const during = s.honest.report();
  s.honest.mark();
  const served = await s.honest.settle(patience), after = s.honest.report();
  clearInterval(eye);
  const starts_now = served ? await s.metric('engine_starts_total') : starts;
  return {
    results, bytes, served, peak, restarts: starts_now - starts, s: (now() - from) / 1000,
    pause_ms: Math.max(during.pause_ms, after.pause_ms), wait_ms: Math.max(during.wait_ms, after.wait_ms),
    health: during.health, refused: [...during.refused, ...after.refused],
  };
}

function judge(row, control) {
  const over = [], much = (name, v, limit, add) => { if (v > limit + add) over.push(name); };
  much('a stream paused', row.pause_ms, LIMITS.pause_ms, control.pause_ms);
  much('a request waited', row.wait_ms, LIMITS.wait_ms, control.wait_ms);
  much('/health was slow', row.health.p99, LIMITS.health_ms, control.health.p99);
  if (row.restarts) over.push(`${row.restarts} restarts`);
  if (row.refused.length) over.push(`${row.refused.length} honest requests refused`);
  if (!row.served) over.push(`others not served within ${PATIENCE_MS / 1000} s`);
  row.over = over;
  row.score = Math.max(row.pause_ms / LIMITS.pause_ms, row.wait_ms / LIMITS.wait_ms, row.health.p99 / LIMITS.health_ms, row.refused.length ? 2 : 0) + (row.restarts || !row.served ? 1000 : 0);
  return row;
}

const got = ({ results }) => { // the worst that became of the attacker's requests
  const r = [...results].sort((a, b) => b.ms - a.ms)[0];
  if (!r) return '';
  return (r.status ? `${r.status}${r.code ? ` ${r.code}` : ''}` : r.cut === 'client' ? 'left' : `no answer${r.code ? ` (${r.code})` : ''}`) + `, ${seconds(r.ms)}`;
};

// --- the template of a file that never ends: nothing but a word about it within the budget will do ---

async function endless() {
  const file = path.join(dir, 'endless.jinja');
  fs.writeFileSync(file, '{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}');
  const log = path.join(dir, 'endless.log'), fd = fs.openSync(log, 'w'), from = now();
  const child = spawn(binary, ['serve', model, '--port', '0', '--threads', '1', '--chat-template', file], { stdio: ['ignore', fd, fd], env: { ...process.env, XDG_STATE_HOME: dir } });
  fs.closeSync(fd);
  const gone = new Promise((done) => child.on('exit', done));
  let peak = 0, told = false;
  const text = () => fs.readFileSync(log, 'utf8');
  while (child.exitCode === null && cpu_ms(child.pid) < 25000 && now() - from < 300000 && peak < 3e9 && !(told = /template/i.test(text()) && !/loading/.test(text().split('\n').at(-2)))) {
    peak = Math.max(peak, ...tree(child.pid).map((p) => p.rss));
    await sleep(100);
  }
  told ||= child.exitCode !== null && /template/i.test(text());
  const r = { told, s: (now() - from) / 1000, peak, last: text().trim().split('\n').at(-1) ?? '' };
  if (child.exitCode === null) await kill({ pid: child.pid, gone });
  return r;
}

// --- the run ---

const attacker = sender();
async function busy() {
  const s = await start();
  s.honest = honest(s.port);
  await s.honest.settle(60000);
  return s;
}
const restart = async (s) => { s.honest?.stop(); await kill(s); };

let attacks = bombs.filter((b) => (!short || b.short) && Boolean(b.ears) === ears && only.split('|').some((part) => b.name.includes(part)) && !word('generated')).map((b) => ({ name: b.name, attack: { bomb: b.name }, load: b.load }));
const named = (a) => `${a.kind} (${Object.entries(a.numbers).map(([k, v]) => `${k} ${v}`).join(', ')})`;
const loadOf = (a) => kinds[a.kind].load?.(a.numbers);
if (tries && !only) {
  say(`looking for cost: ${tries} requests to a server that has nothing else to do`);
  let worst = 0, last = null;
  const dearer = (i, a) => { if (a.cpu_ms > worst) { worst = a.cpu_ms; say(`  ${String(i).padStart(4)}  ${seconds(a.cpu_ms).padStart(7)} of CPU time for ${a.bytes} bytes: ${named(a)}${a.lasting ? ', and on' : ''}`); } };
  const found_ones = await search({ seed, tries, n: found, attacker, say: dearer, server: async () => (last = await start()), again: async (s) => { await kill(s); return (last = await start()); } });
  await kill(last);
  for (const a of found_ones.slice(0, 10)) say(`  kept  ${seconds(a.cpu_ms).padStart(7)} of CPU time for ${a.bytes} bytes: ${named(a)}`);
  attacks.push(...found_ones.map((a) => ({ name: named(a), attack: a, cpu_ms: a.cpu_ms, load: loadOf(a) })));
} else if (!only) attacks.push(...sample(seed, found).map((a) => ({ name: named(a), attack: a, load: loadOf(a) })));

let s = await busy();
const normal = await s.honest.learn(short ? 2000 : 4000), rows = [];
const leave_ms = short ? 3000 : 6000; // an attacker's patience
const control = await watch(s, () => attacker.send(s.port, { seconds: short ? 3 : 6 }), PATIENCE_MS);
say(`\nnormal: a token every ${normal.gap.toFixed(1)} ms for each of 8 streams; chat ${seconds(normal.chat)}, schema ${seconds(normal.schema)}, tools ${seconds(normal.tools)}, first token ${seconds(normal.stream)}`);
say(`control (the same attacker, ${control.results.length} ordinary requests): pause ${seconds(control.pause_ms)}, extra wait ${seconds(control.wait_ms)}, /health p99 ${seconds(control.health.p99)}\n`);
const worse = (a, b) => ({ pause_ms: Math.max(a.pause_ms, b.pause_ms), wait_ms: Math.max(a.wait_ms, b.wait_ms), health: { p99: Math.max(a.health.p99, b.health.p99) } });
const loads = new Map(); // what ordinary requests for as many tokens cost others
async function ordinary(load) {
  const key = String(load);
  if (!loads.has(key)) loads.set(key, await watch(s, () => attacker.send(s.port, { load, leave_ms }), PATIENCE_MS));
  return loads.get(key);
}
for (const [i, { name, attack, cpu_ms, load }] of attacks.entries()) {
  let beside = load ? await ordinary(load) : control;
  let row;
  for (let k = 0; k <= AGAIN; k++) {
    const tried = judge({ name, cpu_ms, ordinary_wait_ms: load && beside.wait_ms, ...await watch(s, () => attacker.send(s.port, { ...attack, leave_ms }), PATIENCE_MS) }, beside);
    if (!row || tried.score < row.score) row = tried;
    if (!row.over.length || tried.score > NEAR || k === AGAIN) break;
    beside = worse(beside, await watch(s, () => attacker.send(s.port, { seconds: 2 }), PATIENCE_MS));
  }
  rows.push(row);
  say(`  ${String(i + 1).padStart(3)}/${attacks.length}  ${row.over.length ? 'FAIL' : 'ok  '}  ${name}${row.over.length ? `: ${row.over.join(', ')}` : ''}`);
  if (!row.served || row.restarts || s.child.exitCode !== null) {
    await restart(s);
    s = await busy();
    Object.assign(s.honest, { normal });
  }
}
await restart(s);
attacker.close();
const loop = !only && await endless();

rows.sort((a, b) => (b.over.length > 0) - (a.over.length > 0) || b.score - a.score);
const failed = rows.filter((r) => r.over.length).length + (loop && !loop.told ? 1 : 0), passed = rows.length + (loop ? 1 : 0) - failed;
if (word('json')) console.log(JSON.stringify({ limits: LIMITS, normal, control, rows, endless_template: loop, passed, failed }, null, 1));
else {
  const many = word('all') ? rows.length : 40, line = (...c) => say(`  ${c[0].slice(0, 62).padEnd(62)} ${c[1].padStart(7)} ${c[2].slice(0, 32).padEnd(32)} ${c[3].padStart(8)} ${c[4].padStart(8)} ${c[5].padStart(7)} ${c[6].padStart(7)} ${c[7].padStart(7)} ${c[8].padStart(14)}  ${c[9]}`);
  say('');
  line('attack, worst first', 'kB', 'what the attacker got', 'pause', 'wait', 'p50', 'p99', 'max', 'MB f/e/others', '');
  for (const r of rows.slice(0, many))
    line(r.name, (r.bytes / 1000).toFixed(1), got(r), (r.served ? '' : '>') + seconds(r.pause_ms), (r.served ? '' : '>') + seconds(r.wait_ms), `${r.health.p50.toFixed(1)}`, `${r.health.p99.toFixed(0)} ms`, `${r.health.max.toFixed(0)} ms`,
      `${mb(r.peak.front)}/${mb(r.peak.engine)}/${mb(r.peak.others)}`, r.over.length ? `FAIL ${r.over.join(', ')}` : r.ordinary_wait_ms > LIMITS.wait_ms ? `ok, as ordinary requests for as many tokens (${seconds(r.ordinary_wait_ms)})` : 'ok');
  if (rows.length > many) say(`  and ${rows.length - many} more, none worse (--all shows them)`);
  if (loop) say(`  a chat template of a file that never ends, at load: ${loop.told ? `told after ${loop.s.toFixed(1)} s` : `FAIL: nothing was said of it in ${loop.s.toFixed(0)} s`}, ${mb(loop.peak)} MB: ${loop.last.slice(0, 160)}`);
  say(`limits: pause ${seconds(LIMITS.pause_ms)}, extra wait ${seconds(LIMITS.wait_ms)}, /health p99 ${LIMITS.health_ms} ms, each beyond the control's; no restart, nobody refused`);
}
console.log(`attack: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

// Swap storm: five models that do not fit together, on two and on three virtual cards, asked for in random order by clients of which some leave.
// Real engine, real plans. Counted: failures (a request that was neither answered nor left), loads, waiting time, and what every card holds at any
// moment. Loads and times stand beside the best that anybody could do who knew all requests before (best()). Beside it, with --beside, llama-server's
// router with --models-max, the same requests in the same order. In the end the same server has its processes killed at random moments: whose request
// that costs must be told so, and everything must be there again afterwards.
//   bench/storm BUILD [--short | --requests N] [--kills N] [--beside] [--seed N] [--log]
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [build, ...flags] = process.argv.slice(2);
const flag = (name, otherwise) => (flags.includes(name) ? Number(flags[flags.indexOf(name) + 1]) : otherwise);
const short = flags.includes('--short'), n_requests = flag('--requests', short ? 12 : 500), n_kills = flag('--kills', short ? 2 : 40), n_clients = 8, patience = 120000;
let seed = flag('--seed', 19);
const random = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-storm-'));
const children = new Set();
process.on('exit', () => {
  for (const c of children) c.kill('SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});

// Five sizes, from 13 to 62 MiB on a card.
const names = ['s4', 's6', 's8', 's12', 's20'];
for (const name of names)
  execFileSync(path.join(build, 'tests', 'tiny-model'), [path.join(dir, name + '.gguf'), '--layers', name.slice(1), '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4']);

// The requests: which model, how many tokens, and when its client leaves (ms; 0: it does not).
const requests = Array.from({ length: n_requests }, () => ({
  model: names[Math.floor(random() * names.length)], tokens: 1 + Math.floor(random() * 6), leaves: random() < 0.1 ? 1 + Math.floor(random() * 400) : 0,
}));

async function start(program, args, ready, env = {}) {
  const log = path.join(dir, 'log-' + fs.readdirSync(dir).length), fd = fs.openSync(log, 'w');
  const child = spawn(program, args, { stdio: ['ignore', fd, fd], env: { ...process.env, XDG_STATE_HOME: path.join(dir, 'state'), ...env } });
  fs.closeSync(fd);
  children.add(child);
  const s = { text: () => fs.readFileSync(log, 'utf8'), child, gone: new Promise((done) => child.on('exit', (code) => { children.delete(child); done(code); })) };
  for (const end = Date.now() + patience; ; await sleep(50)) {
    s.url ??= ready(s.text());
    if (s.url && await fetch(s.url + '/health').then((r) => r.ok).catch(() => false)) return s;
    if (Date.now() > end || child.exitCode !== null) throw new Error('not up: ' + s.text());
  }
}

// Seconds until another try is worth while, where it failed; else nothing.
async function one(s, r, counts) {
  const leave = new AbortController(), from = performance.now();
  const timer = r.leaves ? setTimeout(() => leave.abort(), r.leaves) : null;
  try {
    const body = { model: r.model, prompt: 'once upon a time', max_tokens: r.tokens, temperature: 0, ignore_eos: true };
    const answer = await fetch(s.url + '/v1/completions', { method: 'POST', body: JSON.stringify(body), signal: leave.signal, headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    if (answer.ok) {
      counts.times.push(performance.now() - from);
      counts.answered.add(r);
    } else {
      counts.failures.push(`${r.model}: ${answer.status} ${text.slice(0, 300)}`);
      if (answer.status !== 503 || !/"message":"[^"]{10}.*"code":"(engine_died|engine_restarting|model_load_failed)"/.test(text)) counts.untold.push(counts.failures.at(-1));
      return Number(answer.headers.get('retry-after') ?? 1);
    }
  } catch (e) {
    if (e.name === 'AbortError') counts.left++;
    else counts.failures.push(`${r.model}: ${e.cause?.message ?? e.message}`), counts.untold.push(counts.failures.at(-1));
  } finally {
    clearTimeout(timer);
  }
}

// Clients that take the next request of the list as soon as they have an answer; after a failure they wait as long as they are told, two seconds at most.
async function storm(s) {
  const counts = { times: [], answered: new Set(), failures: [], untold: [], left: 0 }, from = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: n_clients }, async () => {
    while (next < requests.length) {
      const again_s = await one(s, requests[next++], counts);
      if (again_s) await sleep(Math.min(again_s, 2) * 1000);
    }
  }));
  counts.seconds = (performance.now() - from) / 1e3;
  counts.times.sort((x, y) => x - y);
  return counts;
}

// --- the best that can be done ---

// The same clients and requests, all known before, where computing takes no time: the least that loads cost, over every order of loads and every choice of
// who leaves. A load of model m costs cost(m, n) while n clients wait. A state is who is loaded, which request is next, and for which models clients wait;
// every load ends a wait, so states are taken by how many requests are left. Who is not asked for need not be loaded, and who need not leave stays: neither
// ever makes it cheaper. A server that computes, plans, or learns of requests as they come cannot do better with loads that take as long, one at a time.
function best(list, fits, cost) {
  const full = (1 << names.length) - 1, all = Array.from({ length: full + 1 }, (_, set) => set);
  const keeps = all.map((set) => names.map((_, m) => { // the largest parts of a set that a model can be loaded beside
    const parts = all.filter((part) => (part & ~set) === 0 && fits(part | 1 << m));
    return parts.filter((part) => !parts.some((more) => more !== part && (more & part) === part));
  }));
  // Everybody is answered whose model is loaded, and asks for the next one.
  function settle(set, next, waits, idle) {
    const after = waits.slice();
    for (const [m, n] of waits.entries()) if (set >> m & 1) { idle += n; after[m] = 0; }
    for (; idle && next < list.length; next++) if (!(set >> list[next] & 1)) { after[list[next]]++; idle--; }
    return [next, after];
  }
  const left = Array.from({ length: list.length + 1 }, () => new Map());
  const put = (set, [next, waits], total) => {
    const waiting = waits.reduce((x, y) => x + y, 0), to = left[list.length - next + waiting], key = `${set} ${next} ${waits}`, old = to.get(key);
    if (!old || total < old.total) to.set(key, { set, next, waits, waiting, total });
  };
  put(0, settle(0, 0, names.map(() => 0), n_clients), 0);
  for (let n = list.length; n > 0; n--) {
    for (const s of left[n].values())
      for (const [m, waits] of s.waits.entries())
        if (waits) for (const part of keeps[s.set][m]) put(part | 1 << m, settle(part | 1 << m, s.next, s.waits, 0), s.total + cost(m, s.waiting));
    left[n].clear();
  }
  return Math.min(...[...left[0].values()].map((s) => s.total));
}

// That it is the best: nobody finds fewer loads by trying every load beside every part of who is loaded, asked for or not, on short lists.
function check_best() {
  const sizes = [13, 19, 25, 37, 62], wrong = [];
  for (let k = 0; k < 30; k++) {
    const list = Array.from({ length: 3 + Math.floor(random() * 14) }, () => Math.floor(random() * names.length)), room = 62 + random() * 50;
    const fits = (set) => sizes.reduce((sum, size, m) => sum + (set >> m & 1 ? size : 0), 0) <= room, told = best(list, fits, () => 1);
    let least = told + 1;
    (function go(set, next, waits, n) {
      waits = waits.slice();
      for (let i = 0; i < waits.length;) if (waits[i] >= 0 && set >> waits[i] & 1) waits[i] = next < list.length ? list[next++] : -1; else i++;
      if (waits.every((m) => m < 0)) least = Math.min(least, n);
      for (let m = 0; m < names.length && n + 1 < least; m++)
        for (let part = 0; part <= set; part++) if (!(set >> m & 1) && !(part & ~set) && fits(part | 1 << m)) go(part | 1 << m, next, waits, n + 1);
    })(0, n_clients, Array.from({ length: n_clients }, (_, i) => list[i] ?? -1), 0);
    if (least !== told) wrong.push(`best() tells of ${told} loads for ${list}, and ${least} do`);
  }
  return wrong;
}

// What was done against that: loads, and all requests' time together. `at_once`: loads that may go on side by side.
function compare(counts, loads, fits, load_s, at_once = 1) {
  const list = requests.filter((r) => counts.answered.has(r)).map((r) => names.indexOf(r.model)); // those who left cost nothing
  if (!list.length) return;
  const fewest = best(list, fits, () => 1), least = best(list, fits, (m, n) => load_s[m] * n) / at_once, took = counts.times.reduce((x, y) => x + y, 0) / 1e3;
  console.log(`    known before, ${fewest} loads would do: ${(loads / fewest).toFixed(2)} times as many; requests took ${took.toFixed(1)} s together, and no order of loads ${at_once > 1 ? `(${at_once} at once) ` : ''}takes less than ${least.toFixed(1)} s: ` +
    `${(took / least).toFixed(2)} times as long`);
}

const at = (times, part) => (times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0) / 1e3;
const report = (what, c, loads) => console.log(`  ${what}: ${c.times.length} answered, ${c.left} left, ${c.failures.length} failed, ${loads} loads, ${c.seconds.toFixed(1)} s; ` +
  `a request took ${at(c.times, 0.5).toFixed(2)} s at the median, ${at(c.times, 0.95).toFixed(2)} s at the 95th percentile`);

// --- this server ---

let cpu; // the library that computes, for the other one as well

function machine(...mib) {
  const file = path.join(dir, mib.join('-') + '.json');
  fs.writeFileSync(file, JSON.stringify({
    host: { ram_total_mib: 8, bandwidth_gbs: 20, cores: 2 },
    devices: mib.map((total_mib, i) => ({ name: 'card ' + i, backend: 'CUDA', total_mib, bandwidth_gbs: 100 + 50 * i, compute_capability: '8.6', pcie_gen: 4, pcie_lanes: 8 })),
  }));
  return file;
}

async function ours(...mib) {
  const wrong = [];
  const s = await start(path.join(build, 'vram-llm'), ['serve', ...names.map((n) => path.join(dir, n + '.gguf')), '--port', '0', '--threads', '1', '--machine', machine(...mib), '--reserve-mib', '1',
    '--n-ctx', '512', '--n-ubatch', '64', '--cache-ram', '0', '--load-wait', '600', '--log-format', 'json'], (text) => /listening on (http:[^\s"]+)/.exec(text)?.[1]);
  let over = false;
  const least = new Map(); // bytes on cards, of every model
  const watch = (async () => { // what every card holds, as the server tells it
    for (; !over; await sleep(20)) {
      const held = {};
      for (const m of (await (await fetch(s.url + '/api/models')).json()).served) {
        if (!['ready', 'loading', 'unloading'].includes(m.state)) continue;
        for (const d of m.devices) held[d.id] = (held[d.id] ?? 0) + d.bytes;
        least.set(m.id, Math.min(least.get(m.id) ?? Infinity, m.devices.reduce((sum, d) => sum + d.bytes, 0)));
      }
      for (const [id, bytes] of Object.entries(held)) if (!(bytes <= mib[/\d+$/.exec(id)[0]] * 1048576)) wrong.push(`${id} holds ${bytes} bytes`);
    }
  })();
  const counts = await storm(s);
  const look = async () => (await (await fetch(s.url + '/api/models')).json()).served;
  const models = await look(), text = s.text();
  cpu = (await (await fetch(s.url + '/api/status')).json()).engine.ready?.cpu ?? cpu;
  if (/out of memory|engine_died|ended unexpectedly/.test(text)) wrong.push(...text.split('\n').filter((l) => /out of memory|died|unexpectedly/.test(l)).slice(0, 3));
  const loads = models.reduce((sum, m) => sum + m.loads, 0), loading = models.reduce((sum, m) => sum + m.loads * (m.load_s ?? 0), 0);
  report(`${mib.length} cards of ${mib.join(', ')} MiB`, counts, loads);
  console.log(`    ${(100 * loading / counts.seconds).toFixed(0)} % of that time a model was being loaded, for ${(loading / loads).toFixed(2)} s`);
  const sizes = names.map((n) => least.get(n) ?? 0), room = mib.reduce((x, y) => x + y - 1, 0) * 1048576; // as if cards were one, less the reserve: nobody needs less
  compare(counts, loads, (set) => names.every((_, i) => !(set >> i & 1) || set === 1 << i || sizes.reduce((x, y, k) => x + (set >> k & 1 ? y : 0), 0) <= room), names.map((n) => average(text, n)));
  if (n_kills) wrong.push(...await kill(s));
  over = true;
  await watch;
  s.child.kill('SIGTERM');
  await s.gone;
  if (flags.includes('--log')) console.log(s.text().split('\n').filter((l) => !/POST/.test(l)).join('\n'), models.map((m) => [m.id, m.loads, m.load_s, m.plan_s]));
  return [...wrong, ...counts.failures];
}

// Seconds that loads of a model took, by the log.
function average(text, name) {
  const all = [...text.matchAll(new RegExp(`^.*"${name} is ready".*$`, 'gm'))].map((m) => Number(JSON.parse(m[0]).ms) / 1e3);
  return all.reduce((x, y) => x + y, 0) / all.length || 0;
}

// --- killed at any moment ---

const children_of = (pid) => fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p)).flatMap((p) => {
  try {
    if (fs.readFileSync(`/proc/${p}/stat`, 'utf8').split(') ').at(-1).split(' ')[1] !== String(pid)) return [];
    const what = /engine-process|load-plan/.exec(fs.readFileSync(`/proc/${p}/cmdline`, 'utf8'))?.[0];
    return what ? [{ pid: Number(p), what }] : [];
  } catch { return []; }
});

async function kill(s) {
  const wrong = [], killed = {}, states = {};
  let over = false, n = 0;
  const killer = (async () => {
    for (; !over && n < n_kills; await sleep(20 + random() * 400)) {
      const what = random() < 0.7 ? 'engine-process' : 'load-plan', all = children_of(s.child.pid).filter((c) => c.what === what), victim = all[Math.floor(random() * all.length)];
      if (!victim) continue;
      for (const m of (await (await fetch(s.url + '/api/models')).json()).served) if (m.state !== 'unloaded') states[m.state] = (states[m.state] ?? 0) + 1;
      try { process.kill(victim.pid, 'SIGKILL'); } catch { continue; }
      killed[victim.what] = (killed[victim.what] ?? 0) + 1;
      n++;
    }
  })();
  const counts = await storm(s);
  over = true;
  await killer;
  wrong.push(...counts.untold);
  for (const model of names) { // all of them can be had again
    const end = Date.now() + patience;
    for (const again = { times: [], answered: new Set(), failures: [], untold: [], left: 0 }; !again.times.length; await sleep(100)) {
      await one(s, { model, tokens: 1 }, again);
      if (Date.now() > end) { wrong.push(`${model} does not come back: ${again.failures.at(-1)}`); break; }
    }
  }
  console.log(`    ${n} processes killed (${Object.entries(killed).map(([k, v]) => `${v} ${k}`).join(', ')}), with models ${Object.keys(states).join(', ')}: ${counts.times.length} answered, ${counts.left} left, ` +
    `${counts.failures.length} told that their engine died or could not be loaded, ${counts.untold.length} not told; then all ${names.length} came back`);
  return wrong;
}

// --- llama-server's router ---

async function theirs(most) {
  const port = 18000 + Math.floor(Math.random() * 2000), ini = path.join(dir, 'router.ini');
  fs.writeFileSync(ini, 'version = 1\n[*]\nc = 512\nn-gpu-layers = 0\nthreads = 1\n' + names.map((n) => `[${n}]\nmodel = ${path.join(dir, n + '.gguf')}\n`).join(''));
  const s = await start(path.join(build, 'bench', 'llama-server'), ['--models-preset', ini, '--models-max', String(most), '--port', String(port)], () => `http://127.0.0.1:${port}`, { GGML_BACKEND_PATH: path.join(fs.realpathSync('build/engine/lib'), cpu) });
  const load_s = [];
  for (const model of names) { // one after the other: a load, and an answer that takes next to nothing
    const first = { times: [], answered: new Set(), failures: [], untold: [], left: 0 }, second = { ...first, times: [] };
    for (const counts of [first, second]) await one(s, { model, tokens: 1 }, counts);
    load_s.push(Math.max(0, (first.times[0] ?? 0) - (second.times[0] ?? 0)) / 1e3);
  }
  const before = (s.text().match(/spawning server instance/g) ?? []).length, counts = await storm(s);
  s.child.kill('SIGTERM');
  await s.gone;
  const loads = (s.text().match(/spawning server instance/g) ?? []).length - before;
  report(`llama-server's router, --models-max ${most}`, counts, loads);
  for (const f of counts.failures.slice(0, 3)) console.log(`    ${f}`);
  const bits = (set) => set.toString(2).replaceAll('0', '').length;
  compare(counts, loads, (set) => bits(set) <= most, load_s, most);
}

console.log(`${n_requests} requests for ${names.length} models in random order, ${n_clients} clients:`);
const wrong = [...short ? check_best() : [], ...await ours(60, 45), ...short ? [] : await ours(60, 45, 30)];
if (flags.includes('--beside')) for (const most of [2, 3]) await theirs(most);
for (const w of wrong.slice(0, 10)) console.log(`  WRONG ${w}`);
console.log(wrong.length ? `storm: ${wrong.length} wrong` : 'storm: ok');
process.exit(wrong.length ? 1 : 0);

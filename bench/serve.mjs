// Two servers take turns: vram-llm and llama-server, one at a time busy, each on its cores, this client on others. A round measures
// both, in an order that alternates, so that what else the machine does falls on both; medians of the rounds are compared.
//
// CPU of HTTP: of vram-llm it is all that the front's process uses. llama-server is one process: there it is all threads but the main
// one, which decodes and samples (compute threads are off: one thread computes), so parsing, JSON and sockets. On a machine that does
// other things as well, rows of CPU time are the ones to trust.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const [build, model, rounds] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const cores = process.env.SERVER_CORES ?? '0';
const phases = (process.env.PHASES ?? 'one,many,first,idle').split(',');
const N_SEQ = 32, CTX_SEQ = 512;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const median = (v) => { const s = [...v].sort((a, b) => a - b), m = s.length >> 1; return s.length % 2 ? s[m] : (s[m - 1] + s[m]) / 2; };
const freePort = () => new Promise((done) => { const l = net.createServer().listen(0, '127.0.0.1', () => { const { port } = l.address(); l.close(() => done(port)); }); });

// --- the servers ---

const running = [];
process.on('exit', () => running.forEach((c) => { try { process.kill(c.pid, 'SIGKILL'); } catch { } }));

async function start(name, argv, env, cwd) {
  const port = await freePort();
  const log = path.join(build, 'bench', name + '.log');
  const fd = fs.openSync(log, 'w');
  // a session of its own: on a busy machine the scheduler shares time between sessions, and whoever had more threads in ours got more
  const child = spawn('taskset', ['-c', cores, ...argv(port)], { stdio: ['ignore', fd, fd], env: { ...process.env, ...env }, cwd, detached: true });
  fs.closeSync(fd);
  running.push(child);
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; ; i++) {
    const r = await fetch(url + '/health').catch(() => null);
    if (r?.status === 200) break;
    if (i > 600 || child.exitCode !== null) throw new Error(`${name} did not come up: ${fs.readFileSync(log, 'utf8').slice(-2000)}`);
    await sleep(100);
  }
  return { name, port, url, pid: child.pid };
}

const ours = await start('vram-llm', (port) => [path.join(build, 'vram-llm'), 'serve', model, '--port', port, '--threads', '1', '--n-seq', N_SEQ,
  '--n-ctx', N_SEQ * CTX_SEQ, '--n-batch', '512', '--n-ubatch', '512', '--max-queue', '4000', '--log-format', 'json'], {});
const { ready } = (await (await fetch(ours.url + '/api/status')).json()).engine;
const lib = fs.realpathSync('build/engine/lib');
const theirs = await start('llama-server', (port) => [path.join(build, 'bench', 'llama-server'), '-m', model, '--port', port, '-t', '1', '-tb', '1', '-np', N_SEQ,
  '-c', N_SEQ * CTX_SEQ, '-b', '512', '-ub', '512', '--no-kv-unified', '--cache-ram', '0'], { GGML_BACKEND_PATH: path.join(lib, ready.cpu) }, path.join(build, 'bench'));
const servers = [ours, theirs];

const ticks = (file) => { const w = fs.readFileSync(file, 'utf8').split(') ')[1].split(' '); return (Number(w[11]) + Number(w[12])) * 10; };
const childrenOf = (pid) => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
const ran_ms = (pid, tid) => Number(fs.readFileSync(`/proc/${pid}/task/${tid}/schedstat`, 'utf8').split(' ')[0]) / 1e6; // one thread
function cpu(s) {
  const own = ticks(`/proc/${s.pid}/stat`); // of all threads that it ever had
  if (s === ours) return { http: own, all: own + childrenOf(s.pid).reduce((n, p) => n + ticks(`/proc/${p}/stat`), 0) };
  return { http: own - ran_ms(s.pid, s.pid), all: own };
}
const rss_mb = (pid) => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`))[1]) / 1000;

// --- the client ---

let serial = 0;
// A streamed completion: when it began, when its first and last piece of text came.
function complete(s, prompt, max_tokens) {
  const body = JSON.stringify({ prompt, max_tokens, temperature: 0, ignore_eos: true, stream: true });
  return new Promise((done, fail) => {
    const c = net.connect(s.port, '127.0.0.1');
    const t = { from: performance.now(), pieces: 0 };
    let tail = '';
    c.setNoDelay(true);
    c.on('error', fail);
    c.on('data', (d) => {
      const now = performance.now(), text = tail + d.toString('latin1');
      const n = text.split('data: {').length - 1;
      if (n) { t.first ??= now; t.last = now; t.pieces += n; }
      if (text.includes('[DONE]')) { t.end = now; c.destroy(); done(t); }
      tail = text.slice(-16).replace('data: {', ''); // a mark cut in two is found with the next block
      if (/HTTP\/1\.1 [45]/.test(text)) { c.destroy(); fail(new Error(`${s.name}: ${text.slice(0, 400)}`)); }
    });
    c.write(`POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  });
}

const words = ['rain', 'stone', 'river', 'glass', 'north', 'copper', 'early', 'seven'];
const prompt = (n) => `${serial++} ` + Array.from({ length: n }, (_, i) => words[(i * 7 + serial) % words.length]).join(' '); // never the same

async function together(s, n, tokens) {
  const from = performance.now(), before = cpu(s);
  const all = await Promise.all(Array.from({ length: n }, () => complete(s, prompt(8), tokens)));
  const ms = performance.now() - from, after = cpu(s);
  return {
    tok_s: n * tokens / ms * 1e3, pieces: Math.min(...all.map((t) => t.pieces)),
    http: (after.http - before.http) / (n * tokens), all: (after.all - before.all) / (n * tokens),
  };
}

// --- what is measured: a row each, higher or lower is better ---

const table = [];
const row = (name, unit, higher) => { const r = { name, unit, higher, values: new Map(servers.map((s) => [s, []])) }; table.push(r); return (s, v) => r.values.get(s).push(v); };
const single = row('one stream', 'tok/s', true), eight = row('8 streams', 'tok/s', true), many = row('32 streams', 'tok/s', true);
const first = row('first token, 20-token prompt', 'ms', false), first_long = row('first token, 400-token prompt', 'ms', false);
const http32 = row('CPU of HTTP, 32 streams', 'ms / 1000 tokens', false);
const all8 = row('CPU of everything, 8 streams', 'ms / 1000 tokens', false), all32 = row('CPU of everything, 32 streams', 'ms / 1000 tokens', false);
const all1 = row('CPU of everything, one stream', 'ms / 1000 tokens', false), all_first = row('CPU of everything, 400-token prompt', 'ms', false);
const health = row('/health with 1,000 open streams, p99', 'ms', false), memory = row('memory of the front', 'MB', false);

async function round(s) {
  if (phases.includes('one')) {
    const before = cpu(s).all, t = await complete(s, prompt(8), 128);
    single(s, 127 / (t.last - t.first) * 1e3);
    all1(s, (cpu(s).all - before) / 128 * 1e3);
  }
  if (phases.includes('first'))
    for (const [n, put] of [[4, first], [90, first_long]]) { // a word is several of this model's tokens
      const times = [], before = cpu(s).all;
      for (let i = 0; i < 5; i++) { const t = await complete(s, prompt(n), 2); times.push(t.first - t.from); }
      put(s, median(times));
      if (put === first_long) all_first(s, (cpu(s).all - before) / 5);
    }
  if (phases.includes('many')) {
    const few = await together(s, 8, 96), r = await together(s, 32, 96);
    eight(s, few.tok_s);
    many(s, r.tok_s);
    http32(s, r.http * 1e3);
    all8(s, few.all * 1e3);
    all32(s, r.all * 1e3);
  }
}

// 1,000 streams that run or wait, and somebody who asks how it is, every 10 ms for 3 s; no answer after 2 s counts as 2 s.
async function idle(s) {
  const open = Array.from({ length: 1000 }, () => {
    const body = JSON.stringify({ prompt: prompt(8), max_tokens: 400, ignore_eos: true, stream: true });
    const c = net.connect(s.port, '127.0.0.1').on('error', () => { }).on('data', () => { });
    c.write(`POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    return c;
  });
  await sleep(2000);
  const times = [], end = performance.now() + 3000;
  while (performance.now() < end) {
    const from = performance.now();
    await fetch(s.url + '/health', { signal: AbortSignal.timeout(2000) }).then((r) => r.text()).catch(() => { });
    times.push(performance.now() - from);
    await sleep(10);
  }
  health(s, times.sort((a, b) => a - b)[Math.floor(0.99 * (times.length - 1))]);
  memory(s, rss_mb(s.pid));
  open.forEach((c) => c.destroy());
  for (let i = 0; i < 600; i++) { // quiet again
    const r = await fetch(s.url + '/health', { signal: AbortSignal.timeout(5000) }).catch(() => null);
    if (r?.ok) break;
    await sleep(100);
  }
  await sleep(1000);
}

for (const s of servers) await complete(s, prompt(8), 16); // warm
for (let i = 0; i < rounds; i++)
  for (const s of i % 2 ? [...servers].reverse() : servers) await round(s);
if (phases.includes('idle')) for (const s of servers) await idle(s);

const show = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));
console.log(`\nserving ${path.basename(model)} (${(fs.statSync(model).size / 1e6).toFixed(0)} MB), ${ready.cpu}, one thread, servers on core ${cores}, medians of ${rounds} rounds`);
console.log(`  ${''.padEnd(38)} ${'vram-llm'.padStart(10)} ${'llama-server'.padStart(13)}   ratio`);
for (const r of table) {
  const [a, b] = servers.map((s) => (r.values.get(s).length ? median(r.values.get(s)) : NaN));
  if (Number.isNaN(a)) continue;
  const ratio = a / b, good = r.higher ? ratio >= 1 : ratio <= 1;
  console.log(`  ${r.name.padEnd(38)} ${show(a).padStart(10)} ${show(b).padStart(13)}   ${ratio.toFixed(3)}x ${good ? '' : r.higher ? '(lower)' : '(higher)'} ${r.unit}`);
}
process.exit(0);

// Nodes on loopback, each process on a core, one thread each; a link is a process that holds bytes back (bench/slow-link.c). Three parts:
//   plain    what the tunnel costs: llama.cpp's own server and client over plain RPC, and the same two with our tunnel between; interleaved
//   versus   beside llama-server with --rpc and its own fit, on the same links: two lent processors; two cards that the model exceeds
//   links    two and three nodes: tokens/s as the plan predicted them, from a calibration and the links that it measured, and as they were
//   make bench-nodes     PARTS=plain,versus,links   LATENCIES=0.2,1,5 (milliseconds, there and back)   RATE=117 (MB/s)   ROUNDS=7   TOKENS=48
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const build = path.resolve(process.env.VR_BUILD ?? 'build'), binary = path.join(build, 'vram-llm'), tool = (name) => path.join(build, 'bench', name);
const parts = (process.env.PARTS || 'plain,versus,links').split(','), latencies = (process.env.LATENCIES || '0.2,1,5').split(',').map(Number);
const rate = Number(process.env.RATE || 117), rounds = Number(process.env.ROUNDS || 7), tokens = Number(process.env.TOKENS || 48);
const [near, far] = (process.env.CORES || '0,1').split(','); // of the server; of the nodes, of which one computes at a time
const dir = fs.mkdtempSync(path.join(process.env.TMPDIR || os.tmpdir(), 'vram-llm-nodes-')), rpcLibrary = tool('rpc/libggml-rpc.so');
const running = new Set();
const killAll = () => { for (const c of running) try { process.kill(-c.pid, 'SIGKILL'); } catch { } running.clear(); };
process.on('exit', () => { killAll(); fs.rmSync(dir, { recursive: true, force: true }); });
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => process.exit(1));
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const env = (who) => ({ ...process.env, XDG_CONFIG_HOME: path.join(dir, who), XDG_STATE_HOME: path.join(dir, who), XDG_CACHE_HOME: path.join(dir, who), XDG_DATA_HOME: path.join(dir, 'data') });

// --- processes ---
let count = 0;
function start(core, argv, more = {}) {
  const log = path.join(dir, `log-${count++}`), fd = fs.openSync(log, 'w');
  const child = spawn(...(core === null ? [argv[0], argv.slice(1)] : ['taskset', ['-c', core, ...argv]]), { stdio: ['ignore', fd, fd], detached: true, ...more });
  running.add(child);
  return { child, text: () => fs.readFileSync(log, 'utf8'), gone: () => child.exitCode !== null || child.signalCode !== null };
}
async function find(s, what) {
  for (; ; await sleep(20)) {
    const r = what.exec(s.text())?.[1];
    if (r) return r;
    if (s.gone()) throw new Error(s.text().trim().split('\n').slice(-3).join(' '));
  }
}
async function ready(s, url) {
  while (!s.gone() && (await fetch(url + '/health').then((r) => r.json()).catch(() => ({}))).status !== 'ok') await sleep(50);
  if (s.gone()) throw new Error(s.text().trim().split('\n').filter((l) => /error|fail|abort/i.test(l)).slice(-2).join(' ') || 'it ended');
  return { ...s, url };
}
let nextPort = 20000 + process.pid % 20000;
const link = async (port, ms) => (ms === null ? port : Number(await find(start(null, [tool('slow-link'), port, ms * 500, rate].map(String)), /port (\d+)/)));
async function plainRpc(spec) { // over TCP, as llama.cpp has it
  const port = nextPort++;
  const s = start(far, [tool('plain-rpc'), rpcLibrary, String(port), '1', ...(spec ? [spec] : [])]);
  await find(s, /(Starting RPC server|endpoint)/i);
  return port;
}
async function node(name, spec, ms, as = 'desk') { // ours, paired with `as`, behind a link
  const token = /vram-node-[0-9a-f-]+/.exec(execFileSync(binary, ['node', '--init', '--name', name], { env: env(name), encoding: 'utf8' }))[0];
  const s = start(far, [binary, 'node', '--name', name, '--listen', '127.0.0.1:0', ...(spec ? ['--gpus', spec] : ['--lend-cpu']), '--threads', '1', '--tensor-cache-gib', '0'], { env: env(name) });
  const port = await link(Number(await find(s, /port (\d+)/)), ms);
  execFileSync(binary, ['node', '--nodes', `127.0.0.1:${port}`, '--join', token], { env: env(as) });
}
async function ours(model, nodes, ...args) {
  const s = start(near, [binary, 'serve', model, '--nodes', nodes, '--port', '0', '--reserve-mib', '1', '--n-ctx', '1024', '--threads', '1', '--n-seq', '1', ...args], { env: env('desk') });
  const up = await ready(s, await find(s, /listening on (http:\S+)/));
  up.plan = await (await fetch(up.url + '/api/plan')).json();
  up.cpu = (await (await fetch(up.url + '/api/status')).json()).engine.ready.cpu;
  return up;
}
async function theirs(model, ports, ...args) {
  const port = nextPort++;
  const s = start(near, [tool('llama-server'), '-m', model, '--port', String(port), '--rpc', ports.map((p) => `127.0.0.1:${p}`).join(), '-c', '1024', '-np', '1', '-t', '1', '-tb', '1', '--cache-ram', '0', '-lv', '4', ...args], { cwd: path.dirname(rpcLibrary) });
  return ready(s, `http://127.0.0.1:${port}`);
}
// Milliseconds per token: the median distance of two.
async function gap(s) {
  const times = [], body = { prompt: 'once upon a time', max_tokens: tokens, temperature: 0, ignore_eos: true, stream: true };
  for await (const chunk of (await fetch(s.url + '/v1/completions', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).body)
    for (const _ of Buffer.from(chunk).toString().matchAll(/data: \{/g)) times.push(performance.now());
  return median(times.slice(1).map((t, i) => t - times[i]));
}
// In turn; each one's median round, and the median of each round's ratio to the first.
async function inTurn(servers) {
  const rows = [];
  for (let i = -1; i < rounds; i++) {
    const row = [];
    for (const s of servers) row.push(await gap(s));
    if (i >= 0) rows.push(row);
  }
  return servers.map((_, k) => ({ ms: median(rows.map((r) => r[k])), ratio: median(rows.map((r) => r[0] / r[k])) }));
}
const speed = (ms) => `${(1000 / ms).toFixed(1)} tok/s`.padStart(12);
const placed = (s) => [...s.text().matchAll(/load_tensors:\s+(\S+) model buffer size =\s+([\d.]+) MiB/g)].map((m) => `${m[1].replace(/\[.*/, '')} ${Math.round(m[2])}`).join(', ');
const planned = (s) => [...s.plan.devices.map((d) => `${d.id} ${Math.round(d.model_bytes / 1048576)}`), `host ${Math.round((s.plan.host?.model_bytes ?? 0) / 1048576)}`].join(', ');

// --- parts ---
const make = (name, shape) => { if (!fs.existsSync(tool(name))) execFileSync(path.join(build, 'tests', 'tiny-model'), [tool(name), ...shape.split(' ')]); return tool(name); };
const served = () => make('serve.gguf', '--layers 8 --embd 768 --heads 12 --kv 4 --ff 3072 --vocab 32000 --type q8_0'); // bench/serve's
const cpuVariant = (name) => { const to = path.join(path.dirname(rpcLibrary), name); if (!fs.existsSync(to)) fs.symlinkSync(path.join(fs.realpathSync(path.join(build, 'engine/lib')), name), to); };

async function plain() {
  const model = served();
  console.log('The tunnel against plain RPC, one lent processor, no link between:');
  await node('behind', null, null, 'desk');
  await node('own', null, null, 'desk');
  const own = await ours(model, 'own', '--tensor-split', '1');
  cpuVariant(own.cpu);
  const bare = await theirs(model, [await plainRpc()], '-ngl', '99', '-fit', 'off');
  const tunnel = Number(await find(start(near, [tool('tunnel-port'), 'behind', 'CPU0'], { env: env('desk') }), /port (\d+)/));
  const through = await theirs(model, [tunnel], '-ngl', '99', '-fit', 'off');
  const [a, b, c] = await inTurn([bare, through, own]);
  console.log(`  llama-server, plain RPC       ${speed(a.ms)}\n  llama-server through a tunnel ${speed(b.ms)}   ${b.ratio.toFixed(3)} of plain\n  vram-llm, its own tunnel      ${speed(c.ms)}   ${c.ratio.toFixed(3)} of plain`);
  killAll();
}

async function versus() {
  for (const [what, specs] of [['two lent processors', [null, null]], ['two cards of 300 and 256 MiB, which the model exceeds', ['card:300:200', 'card:256:200']]])
    for (const ms of latencies) {
      const model = specs[0] ? make('nodes.gguf', '--layers 32 --embd 1024 --heads 16 --kv 4 --ff 4096 --vocab 8192 --type q8_0') : served();
      const name = (i) => `v${i}-${String(ms).replace('.', '')}${specs[0] ? 'c' : 'p'}`;
      for (const [i, spec] of specs.entries()) await node(name(i), spec, ms);
      const own = await ours(model, specs.map((_, i) => name(i)).join());
      cpuVariant(own.cpu);
      const ports = [];
      for (const spec of specs) ports.push(await link(await plainRpc(spec), ms));
      console.log(`${what}, ${ms} ms:\n  vram-llm      ${planned(own)} (MiB)`);
      try {
        const other = await theirs(model, ports, '-fitt', '1');
        console.log(`  llama-server  ${placed(other)}`);
        const [a, b] = await inTurn([other, own]);
        console.log(`  vram-llm ${speed(b.ms)}, llama-server ${speed(a.ms)}: ${b.ratio.toFixed(2)} times`);
      } catch (e) {
        console.log(`  vram-llm ${speed((await inTurn([own]))[0].ms)}, llama-server did not start: ${e.message}`);
      }
      killAll();
    }
}

async function links() {
  const model = served();
  console.log('Predicted and measured, all layers on the nodes:');
  execFileSync('taskset', ['-c', far, binary, 'bench', '--types', 'q8_0'], { env: env('desk'), stdio: ['ignore', 'ignore', 'ignore'] });
  for (const n of [2, 3])
    for (const ms of latencies) {
      const names = [...Array(n).keys()].map((i) => `l${n}${i}-${String(ms).replace('.', '')}`);
      for (const name of names) await node(name, null, ms);
      execFileSync('taskset', ['-c', near, binary, 'bench', '--nodes', names.join()], { env: env('desk'), stdio: 'ignore' });
      const s = await ours(model, names.join(), '--tensor-split', names.map(() => 1).join());
      const [m] = await inTurn([s]), predicted = s.plan.predicted.decode_empty_tok_s;
      console.log(`  ${n} nodes, ${String(ms).padStart(3)} ms (${s.plan.devices[0].link}): predicted ${speed(1000 / predicted)}, measured ${speed(m.ms)}: ${(predicted * m.ms / 1000).toFixed(2)}`);
      killAll();
    }
}
for (const part of parts) await { plain, versus, links }[part]();
process.exit(0);

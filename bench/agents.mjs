// Agents (agent_trace.mjs) beside llama-server: both get the same turn one after the other, in an order that alternates.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Agent, TEMPLATE, newTokens } from './agent_trace.mjs';
import { median, sleep } from './client.mjs';
import { cpu_ms } from './procs.mjs';

const [build, ...wanted] = process.argv.slice(2);
const TURNS = Number(process.env.TURNS ?? 30), TOKENS = Number(process.env.TOKENS ?? 40000), SAY = 8;
// architecture and layers: few, so that 40,000 tokens take a minute; but a window's pattern has six, and a hybrid's three
const KINDS = { attention: ['llama', 2], window: ['gemma3', 6], hybrid: ['qwen35', 3], recurrent: ['mamba', 6], mla: ['deepseek2', 2] };
const CTX = Math.ceil((TOKENS * 1.25 + 2048) / 1024) * 1024;

// --- servers ---

const running = [];
process.on('exit', () => running.forEach((c) => { try { process.kill(-c.pid, 'SIGKILL'); } catch { } }));
const freePort = () => new Promise((done) => { const l = net.createServer().listen(0, '127.0.0.1', () => { const { port } = l.address(); l.close(() => done(port)); }); });

async function start(name, argv, env = {}, cwd = undefined) {
  const port = await freePort(), log = path.join(build, 'bench', `agents-${name}.log`), fd = fs.openSync(log, 'w');
  const child = spawn(argv(port)[0], argv(port).slice(1).map(String), { stdio: ['ignore', fd, fd], env: { ...process.env, ...env }, cwd, detached: true });
  fs.closeSync(fd);
  running.push(child);
  const s = { name, url: `http://127.0.0.1:${port}`, pid: child.pid };
  for (let i = 0; (await fetch(s.url + '/health').catch(() => null))?.status !== 200; i++) {
    if (i > 1200 || child.exitCode !== null) throw new Error(`${name} did not come up: ${fs.readFileSync(log, 'utf8').slice(-2000)}`);
    await sleep(100);
  }
  s.stop = () => new Promise((done) => { child.on('exit', done); process.kill(-child.pid, 'SIGKILL'); });
  return s;
}

const post = async (s, where, body) => {
  const r = await fetch(s.url + where, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });
  if (!r.ok) throw new Error(`${s.name} ${where}: ${r.status} ${await r.text()}`);
  return r.json();
};

// One turn, streamed: time and CPU time to the first token, and what was computed for it.
async function turn(s, body) {
  const from = performance.now(), cpu = cpu_ms(s.pid);
  const r = await fetch(s.url + '/v1/chat/completions', {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, max_tokens: SAY, temperature: 0, ignore_eos: true, stream: true, stream_options: { include_usage: true } }),
  });
  if (!r.ok) throw new Error(`${s.name}: ${r.status} ${await r.text()}`);
  let text = '', first = null, first_cpu = null;
  for await (const piece of r.body) {
    text += Buffer.from(piece).toString('utf8');
    if (first === null && /"(content|reasoning_content)":"[^"]/.test(text)) { first = performance.now() - from; first_cpu = cpu_ms(s.pid) - cpu; }
  }
  const usage = JSON.parse(/^data: (\{.*"usage":\{.*)$/m.exec(text)[1]).usage;
  const { prompt_tokens: n, prompt_tokens_details: { cached_tokens: cached } } = usage;
  return { first: first ?? performance.now() - from, cpu: first_cpu ?? cpu_ms(s.pid) - cpu, n, computed: n - cached };
}

// --- one kind of memory, so many agents ---

async function measure(kind, n_agents) {
  const model = path.join(build, 'bench', `agents-${kind}.gguf`), slots = Number(process.env.SLOTS ?? n_agents);
  const [arch, layers] = KINDS[kind];
  execFileSync(path.join(build, 'tests', 'tiny-model'),
    [model, '--arch', arch, '--layers', `${layers}`, '--embd', '64', '--heads', '2', '--kv', '1', '--ff', '128', '--window', '512', '--ctx', '262144', '--type', 'f32', '--template', TEMPLATE]);
  const ours = await start('vram-llm', (port) => [path.join(build, 'vram-llm'), 'serve', model, '--port', port, '--threads', 1, '--gpus', 'none', '--n-seq', slots, '--n-ctx', CTX * slots]);
  const { cpu } = (await (await fetch(ours.url + '/api/status')).json()).engine.ready;
  const theirs = await start('llama-server', (port) => [path.join(build, 'bench', 'llama-server'), '-m', model, '--port', port, '-t', 1, '-tb', 1, '-np', slots, '-c', CTX * slots, '--jinja'],
    { GGML_BACKEND_PATH: path.join(fs.realpathSync('build/engine/lib'), cpu) }, path.join(build, 'bench'));
  const agents = Array.from({ length: n_agents }, (_, i) => new Agent(i, TOKENS, TURNS)), sum = { fresh: 0, tokens: 0 };
  const got = new Map([ours, theirs].map((s) => [s, { computed: 0, first: [], cpu: 0 }])), began = performance.now();
  let worst = 0;
  for (let t = 0; t < TURNS; t++)
    for (const agent of agents) {
      agent.next();
      const fresh = await newTokens((where, body) => post(theirs, where, body), agent);
      for (const s of (t + agents.indexOf(agent)) % 2 ? [ours, theirs] : [theirs, ours]) {
        const r = await turn(s, agent.body()), g = got.get(s);
        g.computed += r.computed;
        g.cpu += r.cpu;
        g.first.push(r.first);
        if (s === ours) sum.fresh += fresh, sum.tokens += r.n, worst = Math.max(worst, r.computed / fresh);
        if (process.env.VERBOSE) console.log(kind, t, s.name, `new ${fresh}`, `computed ${r.computed} of ${r.n}`, `${r.first.toFixed(0)} ms, CPU ${r.cpu.toFixed(0)} ms`);
      }
    }
  await Promise.all([ours.stop(), theirs.stop()]);
  const [a, b] = [got.get(ours), got.get(theirs)], ratio = (x, y) => (x / y).toFixed(2).padStart(7), total = (all) => all.reduce((x, y) => x + y, 0);
  const ratios = a.first.map((x, i) => x / b.first[i]);
  console.log(`${kind.padEnd(10)} ${String(n_agents).padStart(6)} ${String(slots).padStart(5)} ${String(sum.tokens).padStart(9)} ${String(sum.fresh).padStart(7)} `
    + `${ratio(a.computed, sum.fresh)} ${ratio(worst, 1)} ${ratio(b.computed, sum.fresh)}   ${ratio(median(ratios), 1)} ${ratio(total(a.first), total(b.first))} ${ratio(a.cpu, b.cpu)}`
    + `${String(Math.round((performance.now() - began) / 1000)).padStart(9)}`);
}

console.log('                            tokens             computed / new      first token, ours / theirs');
console.log('kind       agents slots      sent     new    ours   worst  theirs    median     sum     CPU  seconds');
for (const n of (process.env.AGENTS ?? '1,4').split(',').map(Number))
  for (const kind of Object.keys(KINDS)) if (wanted.length === 0 || wanted.includes(kind)) await measure(kind, n);

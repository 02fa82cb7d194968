// A server over the real engine with a small model: what the tests without a stub share.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { binary, build, patience, sleep } from './lib.mjs';

export const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-real-'));
const children = new Set();
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(1)); // what follows is done then, too
process.on('exit', () => {
  for (const c of children) c.kill('SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});

function tool(program, name, args) {
  const file = path.join(dir, name + '.gguf');
  execFileSync(path.join(build, 'tests', program), [file, ...args.map(String)]);
  return file;
}
export const makeModel = (name, ...args) => tool('tiny-model', name, args);
export const makeMmproj = (name, ...args) => tool('tiny-mmproj', name, args);

// Cards of so many MiB; bandwidths differ, so that their order matters.
export function machine(...mib) { return machineWith(16000, ...mib); }
export function machineWith(ram_mib, ...mib) {
  const file = path.join(dir, [ram_mib, ...mib].join('-') + '.json');
  fs.writeFileSync(file, JSON.stringify({
    host: { ram_total_mib: ram_mib, bandwidth_gbs: 20, cores: 2 },
    devices: mib.map((total_mib, i) => ({
      name: 'card ' + i, backend: 'CUDA', total_mib, bandwidth_gbs: 100 + 100 * ((i + 1) % mib.length), compute_capability: '8.6', pcie_gen: 4, pcie_lanes: 8,
    })),
  }));
  return file;
}

let n_servers = 0;
// `model`: a file, which is called m, or several words that `serve` is given.
export async function up(model, args = [], env = {}) {
  const log = path.join(dir, 'log-' + n_servers);
  const fd = fs.openSync(log, 'w');
  const child = spawn(binary, ['serve', ...(Array.isArray(model) ? model : [model, '--alias', 'm']), '--port', '0', '--threads', '1', ...args], {
    stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: path.join(dir, 'state-' + n_servers++), ...env },
  });
  fs.closeSync(fd);
  children.add(child);
  const gone = new Promise((done) => child.on('exit', (code) => { children.delete(child); done(code); }));
  const s = { text: () => fs.readFileSync(log, 'utf8'), gone, child, pid: child.pid };
  for (const end = Date.now() + 5 * patience; ;) {
    s.url ??= /https?:\/\/127\.0\.0\.1:\d+/.exec(s.text())?.[0];
    const health = s.url ? await fetch(s.url + '/health').then((r) => r.json()).catch(() => ({})) : {};
    if (health.status === 'ok') break;
    if (Date.now() > end || child.exitCode !== null) throw new Error('not up: ' + s.text());
    await sleep(50);
  }
  s.port = Number(new URL(s.url).port);
  s.get = (where) => fetch(s.url + where).then((r) => r.json());
  s.post = async (where, body) => {
    const r = await fetch(s.url + where, { method: 'POST', body: JSON.stringify(body) });
    const json = await r.json();
    if (!r.ok) throw Object.assign(new Error(`${r.status} ${json.error?.message}`), { status: r.status, error: json.error });
    return json;
  };
  // the events of a stream, parsed; `until` may end it early
  s.stream = async (where, body, until = () => false) => {
    const events = [];
    const r = await fetch(s.url + where, { method: 'POST', body: JSON.stringify({ ...body, stream: true }) });
    if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
    let rest = '';
    const decoder = new TextDecoder();
    for await (const chunk of r.body) {
      rest += decoder.decode(chunk, { stream: true });
      const lines = rest.split('\n\n');
      rest = lines.pop();
      for (const line of lines) {
        const data = /^(?:event: .*\n)?data: (.*)$/.exec(line)?.[1];
        if (data && data !== '[DONE]') events.push(JSON.parse(data));
      }
      if (until(events)) break;
    }
    return events;
  };
  s.metric = async (name) => Number(new RegExp(`^vram_llm_${name} (.*)$`, 'm').exec(await (await fetch(s.url + '/metrics')).text())?.[1]);
  s.stop = async () => { child.kill('SIGTERM'); return gone; };
  return s;
}

// Starts it and expects that it ends by itself: its exit status and what it said.
export async function refused(model, args) {
  const child = spawn(binary, ['serve', model, '--port', '0', ...args], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, XDG_STATE_HOME: dir } });
  let text = '';
  child.stderr.on('data', (d) => { text += d; });
  const timer = setTimeout(() => child.kill('SIGKILL'), patience);
  const code = await new Promise((done) => child.on('exit', done));
  clearTimeout(timer);
  return { code, text };
}

let passed = 0, failed = 0;
export async function test(name, run) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) return;
  const t0 = Date.now();
  try {
    await run();
    passed++;
    console.log(`  ok    ${name} (${Date.now() - t0} ms)`);
  } catch (e) {
    failed++;
    console.log(`  FAIL  ${name}: ${e.stack ?? e}`);
  }
}
export const must = (truth, what) => { if (!truth) throw new Error(what); };
export const same = (a, b, what = 'differ') => must(JSON.stringify(a) === JSON.stringify(b), `${what}: ${JSON.stringify(a)} !== ${JSON.stringify(b)}`);
export function done(name) {
  console.log(`e2e ${name}: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

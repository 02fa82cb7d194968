// What the end-to-end tests share: a server over the fake engine, raw sockets, server-sent events, and a test table.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

export const build = process.env.VR_BUILD ?? 'build';
export const binary = path.join(build, 'vram-llm');
export const fakeEngine = path.join(build, 'tests', 'fake-engine');
export const model = process.env.VR_MODEL;
export const sanitized = /asan/.test(process.env.VR_BUILD ?? ''); // slower and larger: behaviour counts, figures do not
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const now_us = () => Number(process.hrtime.bigint() / 1000n);

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-e2e-'));
process.on('exit', () => {
  for (const s of running) try { process.kill(s.pid, 'SIGKILL'); } catch { }
  fs.rmSync(scratch, { recursive: true, force: true });
});
let n_scratch = 0;
export const scratchFile = (name) => path.join(scratch, `${n_scratch++}-${name}`);

const running = new Set();

// Starts `serve`. engine: FAKE_ENGINE; stderr: a file; ready: wait until /health says ok; detached: a process group of its own
export async function serve({ args = [], engine = {}, env = {}, stderr, ready = true, limit_fds, detached = false } = {}) {
  const log = stderr ?? scratchFile('log');
  const events = scratchFile('events');
  const state = scratchFile('state');
  const fd = fs.openSync(log, stderr ? 'w' : 'a');
  const words = ['serve', model, '--alias', 'm', '--port', '0', '--engine-program', fakeEngine, ...args];
  const [command, all] = limit_fds
    ? ['bash', ['-c', `ulimit -n ${limit_fds}; exec "$0" "$@"`, binary, ...words]]
    : [binary, words];
  const child = spawn(command, all, {
    stdio: ['ignore', 'ignore', fd], detached,
    env: { ...process.env, XDG_STATE_HOME: state, FAKE_ENGINE: JSON.stringify({ log: events, ...engine }), ...env },
  });
  fs.closeSync(fd);
  const s = {
    pid: child.pid, log, events, state, exit: null,
    text: () => fs.readFileSync(log, 'utf8'),
    // what the fake engine saw: [{us, kind, id, json}]
    seen: () => (fs.existsSync(events) ? fs.readFileSync(events, 'utf8') : '').split('\n').filter(Boolean).map((line) => {
      const [us, kind, id] = line.split(' ', 3);
      return { us: Number(us), kind, id: Number(id), json: line.split(' ').slice(3).join(' ') };
    }),
    kill: (signal) => process.kill(child.pid, signal),
    ended: new Promise((done) => child.on('exit', (code, signal) => {
      running.delete(s);
      done(s.exit = { code, signal });
    })),
    async stop() {
      if (s.exit) return s.exit;
      s.kill('SIGTERM');
      const timer = setTimeout(() => s.kill('SIGKILL'), 10000);
      await s.ended;
      clearTimeout(timer);
      return s.exit;
    },
    async get(where) { const r = await fetch(s.url + where); return { status: r.status, json: await r.json() }; },
    async metric(name) {
      const text = await (await fetch(s.url + '/metrics')).text();
      return Number(new RegExp(`^vram_llm_${name} (.*)$`, 'm').exec(text)?.[1]);
    },
    async until(state_name, ms = 10000) {
      const end = Date.now() + ms;
      for (; ;) {
        const r = await s.get('/health').catch(() => null);
        if (r?.json.status === state_name) return r;
        if (Date.now() > end || s.exit) throw new Error(`not ${state_name}: ${JSON.stringify(r?.json)} ${fs.readFileSync(log)}`);
        await sleep(10);
      }
    },
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${child.pid}/status`))[1]) * 1024,
    cpu_s: () => {
      const w = fs.readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1].split(' ');
      return (Number(w[11]) + Number(w[12])) / 100;
    },
    fds: () => fs.readdirSync(`/proc/${child.pid}/fd`).length,
  };
  running.add(s);
  if (stderr) return s;
  const end = Date.now() + 10000;
  const line = /listening on https?:\/\/[^ \n]*:(\d+)(,.*)?\n/;
  while (!line.test(s.text())) {
    if (s.exit) return s;
    if (Date.now() > end) throw new Error('does not listen');
    await sleep(5);
  }
  s.port = Number(line.exec(s.text())[1]);
  s.url = `http://127.0.0.1:${s.port}`;
  if (ready) await s.until('ok');
  return s;
}

export const freePort = () => new Promise((done) => {
  const l = net.createServer().listen(0, '127.0.0.1', () => { const { port } = l.address(); l.close(() => done(port)); });
});

// --- raw sockets ---

// A socket with everything that came so far; until(fn) waits for it to hold what fn looks for.
export function connect(port, { paused = false } = {}) {
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
  const c = { socket, data: Buffer.alloc(0), closed: false, error: null };
  let wake = () => { };
  if (!paused) socket.on('data', (d) => { c.data = Buffer.concat([c.data, d]); wake(); });
  socket.on('error', (e) => { c.error = e; wake(); });
  socket.on('close', () => { c.closed = true; wake(); });
  c.send = (bytes) => socket.write(bytes);
  c.text = () => c.data.toString('latin1');
  c.until = async (fn, ms = 15000) => {
    const end = Date.now() + ms;
    for (; ;) {
      const r = fn(c);
      if (r) return r;
      if (Date.now() > end) throw new Error(`timeout; got ${JSON.stringify(c.text().slice(0, 300))}`);
      await Promise.race([new Promise((done) => { wake = done; }), sleep(50)]);
    }
  };
  c.close = () => socket.destroy();
  return c;
}

// Sends bytes and returns the status of each reply until the connection rests or ends.
export async function raw(port, bytes, { ms = 1000, end = false } = {}) {
  const c = connect(port);
  if (Array.isArray(bytes)) for (const b of bytes) { c.send(b); await sleep(5); }
  else c.send(bytes);
  if (end) c.socket.end();
  const t = Date.now();
  while (Date.now() - t < ms && !c.closed && !/\r\n\r\n/.test(c.text())) await sleep(5);
  await sleep(30);
  const text = c.text();
  c.close();
  return { text, statuses: [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((m) => Number(m[1])), closed: c.closed };
}

export const post = (path, body, headers = '') =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
export const chat = (content, more = {}) =>
  JSON.stringify({ model: 'm', messages: [{ role: 'user', content }], ...more });

export async function ask(s, body, where = '/v1/chat/completions', headers = {}) {
  const r = await fetch(s.url + where, {
    method: 'POST', body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });
  const text = await r.text();
  let json = null;
  try { json = JSON.parse(text); } catch { }
  return { status: r.status, headers: r.headers, text, json };
}

// The events of a streamed answer.
export const events = (text) => text.split('\n\n').filter((e) => e.startsWith('data: ')).map((e) => e.slice(6))
  .map((e) => (e === '[DONE]' ? e : JSON.parse(e)));

// --- tests ---

const tests = [];
export const skip = Symbol('skip'); // what a test returns that has nothing to try here
export const test = (name, run) => tests.push({ name, run });
export function equal(a, b, what = '') {
  const [x, y] = [JSON.stringify(a), JSON.stringify(b)];
  if (x !== y) throw new Error(`${what} is ${x}, expected ${y}`);
}
export function ok(truth, what) { if (!truth) throw new Error(what); }
export const figures = [];
export const figure = (text) => { figures.push(text); console.log(`        ${text}`); };

export async function runAll(name) {
  let passed = 0, failed = 0, skipped = 0;
  const only = process.env.ONLY;
  for (const t of tests) {
    if (only && !t.name.includes(only)) continue;
    const from = Date.now();
    try {
      const end = await Promise.race([t.run(), sleep(120000).then(() => { throw new Error('took longer than 120 s'); })]);
      if (end === skip) skipped++; else passed++;
      console.log(`  ${end === skip ? 'skip' : 'ok  '}  ${t.name} (${Date.now() - from} ms)`);
    } catch (e) {
      failed++;
      console.log(`  FAIL  ${t.name}: ${e.stack ?? e}`);
    }
    for (const s of running) { try { process.kill(s.pid, 'SIGKILL'); } catch { } await s.ended; }
  }
  if (skipped) console.log(`  ${skipped} skipped`);
  console.log(`${name}: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

// What the end-to-end tests share: a server over the fake engine, raw sockets, server-sent events, and a test table.
//
// No test depends on how fast the machine is. What must come is waited for (eventually, until) with a patience that only something
// broken exhausts; what must not come yet cannot, because the test holds it: the fake engine loads and speaks as far as tell() lets it.
import { execFileSync, spawn } from 'node:child_process';
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
export const patience = 120000; // ms

// Waits until `truth` returns something true, which is returned. `what` may be a function, asked when patience is at its end.
export async function eventually(what, truth) {
  for (const end = Date.now() + patience; ; await sleep(5)) {
    const r = await truth();
    if (r) return r;
    if (Date.now() > end) throw new Error(`never: ${typeof what === 'function' ? what() : what}`);
  }
}

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-e2e-'));
process.on('exit', () => {
  for (const s of running) try { process.kill(s.pid, 'SIGKILL'); } catch { }
  fs.rmSync(scratch, { recursive: true, force: true });
});
let n_scratch = 0;
export const scratchFile = (name) => path.join(scratch, `${n_scratch++}-${name}`);

const running = new Set();

// A pipe to the fake engine, for the lines that tests/stubs/fake-engine.c knows. It lasts over restarts of the engine.
export function control() {
  const file = scratchFile('control');
  execFileSync('mkfifo', [file]);
  const fd = fs.openSync(file, 'r+'); // to read as well: it never blocks
  return { file, tell: (line) => fs.writeSync(fd, `${line}\n`) };
}

// The port that a process listens on, of itself alone, whatever becomes of what it prints.
export function portOf(pid) {
  try {
    const inodes = new Set(fs.readdirSync(`/proc/${pid}/fd`).map((fd) => { try { return /^socket:\[(\d+)\]$/.exec(fs.readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]; } catch { } }));
    for (const line of fs.readFileSync(`/proc/${pid}/net/tcp`, 'utf8').split('\n').slice(1)) {
      const words = line.trim().split(/ +/);
      if (words[3] === '0A' && inodes.has(words[9])) return parseInt(words[1].split(':')[1], 16);
    }
  } catch { }
}

// The kernel shows the descriptors of a process without core dumps to root alone, and tests look at them.
const visible = process.getuid() === 0 ? {} : { VRAM_LLM_CONFINE: 'off' };

// Starts `serve`. models: what is served, words of the command line; engine: FAKE_ENGINE; stderr: a file; ready: wait until /health says ok; detached: a process group of its own
export async function serve({ models = [model, '--alias', 'm'], args = [], engine = {}, env = {}, stderr, ready = true, limit_fds, detached = false } = {}) {
  const log = stderr ?? scratchFile('log');
  const events = scratchFile('events');
  const state = scratchFile('state');
  const { file, tell } = control();
  const fd = fs.openSync(log, stderr ? 'w' : 'a');
  const words = ['serve', ...models, '--port', '0', '--engine-program', fakeEngine, ...args];
  const [command, all] = limit_fds
    ? ['bash', ['-c', `ulimit -n ${limit_fds}; exec "$0" "$@"`, binary, ...words]]
    : [binary, words];
  const child = spawn(command, all, {
    stdio: ['ignore', 'ignore', fd], detached,
    env: { ...process.env, ...visible, XDG_STATE_HOME: state, FAKE_ENGINE: JSON.stringify({ log: events, control: file, ...engine }), ...env },
  });
  fs.closeSync(fd);
  const s = {
    pid: child.pid, log, events, state, tell, exit: null,
    text: () => fs.readFileSync(log, 'utf8'),
    // what the fake engine saw: [{us, kind, id, json}]
    seen: () => (fs.existsSync(events) ? fs.readFileSync(events, 'utf8') : '').split('\n').filter(Boolean).map((line) => {
      const [us, kind, id] = line.split(' ', 3);
      return { us: Number(us), kind, id: Number(id), json: line.split(' ').slice(3).join(' ') };
    }),
    count: (kind) => s.seen().filter((e) => e.kind === kind).length,
    kill: (signal) => process.kill(child.pid, signal),
    ended: new Promise((done) => child.on('exit', (code, signal) => {
      running.delete(s);
      done(s.exit = { code, signal });
    })),
    async stop() {
      if (s.exit) return s.exit;
      s.kill('SIGTERM');
      const timer = setTimeout(() => s.kill('SIGKILL'), patience);
      await s.ended;
      clearTimeout(timer);
      return s.exit;
    },
    async get(where) { const r = await fetch(s.url + where); return { status: r.status, json: await r.json() }; },
    async metric(name) {
      const text = await (await fetch(s.url + '/metrics')).text();
      return Number(new RegExp(`^vram_llm_${name} (.*)$`, 'm').exec(text)?.[1]);
    },
    async until(state_name) {
      const end = Date.now() + patience;
      for (; ;) {
        const r = await s.get('/health').catch(() => null);
        if (r?.json.status === state_name) return r;
        if (Date.now() > end || s.exit) throw new Error(`not ${state_name}: ${JSON.stringify(r?.json)} ${fs.readFileSync(log)}`);
        await sleep(10);
      }
    },
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${child.pid}/status`))[1]) * 1024,
    // What a second without work costs, as a share of what 500 small requests cost: CPU time of one run through the other's.
    async idleShare() {
      const used = async (run) => { const from = await s.metric('cpu_seconds_total'); await run(); return await s.metric('cpu_seconds_total') - from; };
      const idle = await used(() => sleep(1000));
      return idle / await used(async () => { for (let i = 0; i < 500; i++) await s.get('/health'); });
    },
    fds: () => fs.readdirSync(`/proc/${child.pid}/fd`).length,
  };
  running.add(s);
  s.port = await eventually(() => `does not listen: ${s.text()}`, () => s.exit ? -1 : portOf(child.pid));
  if (s.exit) return s;
  s.url = `http://127.0.0.1:${s.port}`;
  if (ready) await s.until('ok');
  return s;
}

// --- raw sockets ---

// A socket with everything that came so far; until(fn) waits for it to hold what fn looks for.
// `from`: its own address; any of 127.0.0.0/8 is this computer, and another client.
export function connect(port, { paused = false, from } = {}) {
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true, localAddress: from });
  const c = { socket, data: Buffer.alloc(0), closed: false, error: null };
  let wake = () => { };
  if (!paused) socket.on('data', (d) => { c.data = Buffer.concat([c.data, d]); wake(); });
  socket.on('error', (e) => { c.error = e; wake(); });
  socket.on('close', () => { c.closed = true; wake(); });
  c.send = (bytes) => socket.write(bytes);
  c.text = () => c.data.toString('latin1');
  c.until = async (fn) => {
    const end = Date.now() + patience;
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

// Sends bytes, waits for so many replies, and proves that there is none more: either the server has hung up, or a last request is
// answered next. `end`: the client says that it has no more to say.
export async function raw(port, bytes, { replies = 1, end = false } = {}) {
  const c = connect(port);
  const heads = () => [...c.text().matchAll(/^HTTP\/1\.1 (\d+)/gm)];
  c.send(bytes);
  if (end) c.socket.end();
  else {
    await c.until(() => c.closed || (replies && heads().length >= replies));
    c.send('GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: the-last\r\nConnection: close\r\n\r\n');
  }
  await c.until(() => c.closed);
  const all = heads(), last = c.text().slice(all.at(-1)?.index);
  const n = !end && /^x-request-id: the-last\r$/im.test(last) ? all.length - 1 : all.length;
  return { text: c.text().slice(0, all[n]?.index), statuses: all.slice(0, n).map((m) => Number(m[1])) };
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
      const end = await Promise.race([t.run(), sleep(600000).then(() => { throw new Error('took longer than 600 s'); })]);
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

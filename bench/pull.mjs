// A download by `pull`, which verifies its checksum and waits until it is on the disk, beside curl alone and beside curl doing the same job
// (`curl | tee FILE | sha256sum`, then `sync FILE`), from the same server on loopback, in turns, each into an empty folder (a virtual machine gives memory that
// was in use before faster): as ratios of one run. As fast as the server can (bench/send-file.c, which leaves the processor to those that receive), over a line
// of so many bytes per second, and with so many for each connection, as hubs have it. Also with OpenSSL's SHA-256, which is the one that `pull` has, and without
// the disk: TMPDIR=/dev/shm.
// A core for each of its threads is what this machine may not have: what its busiest thread takes beside curl's one says how it would compare then.
//   make bench-pull     MIB=1024 ROUNDS=3 CONNECTIONS=8 LINES= (both; or unlimited, limited)
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { hub } from '../tests/e2e/hub.mjs';

const build = process.env.VR_BUILD ?? 'build', binary = path.join(build, 'vram-llm');
const mib = Number(process.env.MIB || 1024), rounds = Number(process.env.ROUNDS || 3);
const dir = fs.mkdtempSync(path.join(process.env.TMPDIR || os.tmpdir(), 'vram-llm-pull-'));
process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));

// A model's header and tensors, then noise: `pull` asks whether it is a model before it begins.
const file = path.join(dir, 'x.gguf');
execFileSync(path.join(build, 'tests', 'tiny-model'), [file, '--layers', '2']);
execFileSync('sh', ['-c', `head -c ${mib}M /dev/urandom >>"$0"`, file]);
const size = fs.statSync(file).size;

const h = await hub({ 'org/X-GGUF': { 'x.gguf': file } });
const sender = spawn(path.join(build, 'bench', 'send-file'), [file, '127.0.0.2'], { stdio: ['ignore', 'pipe', 'inherit'] });
const fast = `http://127.0.0.2:${(await readline.createInterface(sender.stdout)[Symbol.asyncIterator]().next()).value}`, limited = h.cdn;
const run = (command, args, env) => new Promise((done, fail) => {
  const from = performance.now();
  let err = '';
  const child = spawn('bash', ['-c', 'TIMEFORMAT="cpu %U %S"; time "$0" "$@"', command, ...args], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...h.env, ...env } });
  child.stderr.on('data', (d) => { err += d; });
  const threads = new Map(), look = setInterval(() => { // the processor time of each, as far as it was seen
    try {
      const [pid] = fs.readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
      for (const t of fs.readdirSync(`/proc/${pid}/task`)) threads.set(t, Number(fs.readFileSync(`/proc/${pid}/task/${t}/schedstat`, 'utf8').split(' ')[0]) / 1e9);
    } catch { /* not there yet, or no more */ }
  }, 10);
  child.on('close', (code) => {
    clearInterval(look);
    const cpu = /cpu ([\d.]+) ([\d.]+)/.exec(err);
    return code ? fail(new Error(`${command}: ${err}`)) : done({ s: (performance.now() - from) / 1000, cpu: Number(cpu[1]) + Number(cpu[2]), busiest: Math.max(0, ...threads.values()) });
  });
});
const median = (all, of = 's') => all.sort((a, b) => a[of] - b[of])[all.length >> 1];

const piped = (hash, after) => ['bash', ['-c', `set -o pipefail; curl -sSfL "$1" | tee "$0" | ${hash}${after ? ' && sync "$0"' : ''}`]];
const others = {
  'curl alone': ['curl', ['-sSfL', '-o']],
  'curl | tee | sha256sum': piped('sha256sum'),
  'the same, synced': piped('sha256sum', true),
  'curl | tee | openssl': piped('openssl dgst -sha256'),
  'the same with openssl, synced': piped('openssl dgst -sha256', true),
};
const unlimited = () => ({});
const lines = [
  ['as fast as the server can', unlimited],
  ['200 MB/s for all connections together', (q) => q.where === 'cdn' ? { link: 200e6 } : {}],
  ['50 MB/s for each connection', (q) => q.where === 'cdn' ? { rate: 50e6 } : {}],
];
const home = path.join(dir, 'home'), url = `${h.url}/org/X-GGUF/resolve/main/x.gguf`;
const pull = ['pull', '--connections', process.env.CONNECTIONS || '8', 'hf:org/X-GGUF'];
const afresh = async (all, ...args) => { fs.mkdirSync(home); all.push(await run(...args)); fs.rmSync(home, { recursive: true }); };
const told = (x) => `${(size / x.s / 1e6).toFixed(0)} MB/s, ${(x.cpu / size * 1e9).toFixed(2)} s of CPU per GB`;
for (const [what, on] of lines.filter(([, on]) => !process.env.LINES || (process.env.LINES === 'unlimited') === (on === unlimited))) {
  const ours = [], theirs = Object.fromEntries(Object.keys(others).map((name) => [name, []]));
  h.on = on;
  h.cdn = on === unlimited ? fast : limited;
  for (let i = 0; i < rounds; i++) {
    for (const [name, [command, args]] of Object.entries(others)) await afresh(theirs[name], command, [...args, path.join(home, 'y'), url]);
    await afresh(ours, binary, pull, { HOME: home, XDG_CACHE_HOME: '', HF_HOME: '', HF_HUB_CACHE: '', LLAMA_CACHE: '' });
  }
  const b = median(ours);
  console.log(`${what}: pull ${told(b)}`);
  for (const [name, all] of Object.entries(theirs)) {
    const a = median(all);
    console.log(`  ${(a.s / b.s).toFixed(2)}x of ${name} (${told(a)})`);
  }
  const [thread, one] = [ours, theirs['curl alone']].map((all) => median(all, 'busiest').busiest / size * 1e9);
  console.log(`  its busiest thread takes ${thread.toFixed(2)} s of CPU per GB, curl ${one.toFixed(2)}: ${(one / thread).toFixed(2)}x with a core for each`);
}
sender.kill();
h.close();

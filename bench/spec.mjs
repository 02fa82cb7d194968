// Servers with the same model take turns, one at a time busy; a round asks all of them, in an order that alternates. Of every round the ratio to
// the server without guesses is taken, and the median of the rounds is what counts: tokens per processor time of the engine, and (in brackets) per
// second. "steered" should be near the best fixed number of its row and never below 0.97; llama.cpp's server has the same kind and its defaults.
//
// A server has as many slots as there are streams. With an MTP head "steered" is what happens when nothing is said (--spec auto): for more than four
// slots that is no guesses at all. mtp, ngram: the small model that was trained on rhymes (tests/fixtures), which it continues (easy), or whose text is drawn from nearly even odds
// (hard). draft: a model of noise whose text repeats itself, and one layer of it as the draft.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const [build, rounds, ...only] = process.argv.slice(2), bench = (name) => path.join(build, 'bench', name);
const median = (v) => [...v].sort((a, b) => a - b)[v.length >> 1];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const freePort = () => new Promise((done) => { const l = net.createServer().listen(0, '127.0.0.1', () => { const { port } = l.address(); l.close(() => done(port)); }); });
const running = new Set();
process.on('exit', () => running.forEach((c) => c.kill('SIGKILL')));

const rhymes = 'tests/fixtures/rhymes.gguf', draft = bench('spec-draft.gguf');
const kinds = {
  mtp: { model: rhymes, ours: ['--spec', 'mtp'], steered: [], theirs: ['--spec-type', 'draft-mtp'], numbers: [1, 2, 3] },
  ngram: { model: rhymes, ours: ['--spec', 'ngram'], theirs: ['--spec-type', 'ngram-map-k'], numbers: [1, 3, 7] },
  draft: { model: bench('spec-calm.gguf'), ours: ['--draft', draft], theirs: ['--spec-draft-model', draft], numbers: [1, 2, 3] },
};
const texts = { easy: { temperature: 0 }, hard: { temperature: 2, top_k: 0, top_p: 1, min_p: 0 } };
const cells = [[1, 300], [4, 150], [16, 60]]; // streams, tokens of each
const animals = ['frogs', 'goats', 'birds', 'ducks', 'owls', 'hens', 'bears'];

async function start(name, command, env = {}) {
  const port = await freePort(), log = bench(`spec-${name}.log`), fd = fs.openSync(log, 'w');
  const child = spawn(command[0], [...command.slice(1), '--port', port, '--threads', '1'], { stdio: ['ignore', fd, fd], env: { ...process.env, ...env } });
  fs.closeSync(fd);
  running.add(child);
  for (let i = 0; ; i++) {
    const r = await fetch(`http://127.0.0.1:${port}/health`).catch(() => null);
    if (r?.status === 200) return { name, port, pid: child.pid, child };
    if (i > 1200 || child.exitCode !== null) throw new Error(fs.readFileSync(log, 'utf8').slice(-1000));
    await sleep(100);
  }
}

async function startAll(kind, n_seq, { model, ours, steered = ours, theirs, numbers }) {
  const our = (name, ...more) => start(`${kind}-${name}`, [path.join(build, 'vram-llm'), 'serve', model, '--n-seq', n_seq, '--n-ctx', 1024 * n_seq, '--n-ubatch', '512', '--config', 'none', ...more]);
  const off = await our('off', '--spec', 'off'), { cpu } = (await (await fetch(`http://127.0.0.1:${off.port}/api/status`)).json()).engine.ready;
  const peer = [bench('llama-server'), '-m', model, '-np', n_seq, '-c', 1024 * n_seq, '-tb', '1', '-b', '512', '-ub', '512', '--no-kv-unified', '--cache-ram', '0', ...theirs];
  const all = [off, ...await Promise.all([...numbers.map((n) => our(String(n), ...ours, '--n-draft', n)), our('steered', ...steered),
    start(`${kind}-llama-server`, peer, { GGML_BACKEND_PATH: path.join(fs.realpathSync('build/engine/lib'), cpu) })])]; // with the processor's library that ours uses
  return all.map((s) => ({ ...s, name: s.name.slice(kind.length + 1) }));
}

// Processor time of all threads of the engine: the server's child, or llama-server itself.
function busy_ms(s) {
  const pids = s.name === 'llama-server' ? [s.pid] : fs.readFileSync(`/proc/${s.pid}/task/${s.pid}/children`, 'utf8').split(' ').filter(Boolean);
  let ns = 0;
  for (const pid of pids)
    for (const task of fs.readdirSync(`/proc/${pid}/task`)) ns += Number(fs.readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]);
  return ns / 1e6;
}

async function together(s, round, n, tokens, sampling) {
  const before = busy_ms(s), t0 = performance.now();
  let guessed = 0, accepted = 0;
  await Promise.all(Array.from({ length: n }, async (_, i) => {
    const prompt = `${'Three Four Five Six Seven Eight'.split(' ')[(round + i) % 6]} old ${animals[(round * 3 + i) % 7]} sat by the river.`;
    const r = await fetch(`http://127.0.0.1:${s.port}/completion`, { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ prompt, n_predict: tokens, ignore_eos: true, cache_prompt: false, seed: round * 100 + i, ...sampling }) });
    const answer = await r.json(), { timings } = answer;
    if (!(timings?.predicted_n >= tokens - 1)) throw new Error(`${s.name}: ${JSON.stringify(answer).slice(0, 400)}`);
    guessed += timings.draft_n ?? 0;
    accepted += timings.draft_n_accepted ?? 0;
  }));
  return { cpu: (busy_ms(s) - before) / (n * tokens), wall: (performance.now() - t0) / (n * tokens), guessed, accepted };
}

async function cell(servers, n, tokens, sampling) {
  const seen = servers.map(() => []), order = servers.map((_, i) => i);
  for (let r = -1; r < rounds; r++) // the first one is not counted: that is when kernels, caches and the steering's figures are made
    for (const i of r % 2 ? [...order].reverse() : order) { const x = await together(servers[i], r + 1, n, tokens, sampling); if (r >= 0) seen[i].push(x); }
  const over = (i, what) => median(seen[i].map((x, r) => seen[0][r][what] / x[what])), sum = (i, what) => seen[i].reduce((a, x) => a + x[what], 0);
  return servers.map((s, i) => ({ name: s.name, cpu: over(i, 'cpu'), wall: over(i, 'wall'), ms: median(seen[i].map((x) => x.cpu)), right: sum(i, 'accepted') / sum(i, 'guessed'), guessed: sum(i, 'guessed') }));
}

const worst = { 'of without': Infinity, 'of the best fixed number': Infinity, "of llama-server's": Infinity };
for (const [kind, how] of Object.entries(kinds)) {
  if (only.length && !only.includes(kind)) continue;
  for (const [n, tokens] of cells) {
    const servers = await startAll(kind, n, how);
    for (const [text, sampling] of Object.entries(texts)) {
      const row = await cell(servers, n, tokens, sampling), of = (name) => row.find((x) => x.name === name).cpu;
      const best = Math.max(1, ...how.numbers.map((k) => of(String(k))));
      const figures = { 'of without': of('steered'), 'of the best fixed number': of('steered') / best, "of llama-server's": of('steered') / of('llama-server') };
      for (const [what, x] of Object.entries(figures)) worst[what] = Math.min(worst[what], x);
      console.log(`${kind}, ${text}, ${n} stream${n > 1 ? 's' : ''}: ${row[0].ms.toFixed(2)} ms per token without; over that: ` +
        row.slice(1).map((x) => `${x.name} ${x.cpu.toFixed(2)} (${x.wall.toFixed(2)})${x.guessed ? ` ${Math.round(x.right * 100)} % right` : ''}`).join(', ') +
        `; steered ${Object.entries(figures).slice(1).map(([what, x]) => `${x.toFixed(2)} ${what}`).join(', ')}`);
    }
    for (const s of servers) s.child.kill('SIGTERM'), running.delete(s.child);
    await sleep(300);
  }
}
console.log(`steered, at worst: ${Object.entries(worst).map(([what, x]) => `${x.toFixed(2)} ${what}`).join(', ')}`);
process.exit(0);

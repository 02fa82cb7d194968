// Figures in the documentation are what a benchmark printed, or what the code says: docs/figures/NAME.txt is kept as tools/docs/figures wrote it,
// and each sentence below is made from it and must stand in its page as it is. In pages and sections that are listed as complete, no number stands
// outside such a sentence but in names. UPDATE=1 writes the sentences anew: read the diff.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, build, equal, ok, runAll, scratchFile, test } from './lib.mjs';
import { hub } from './hub.mjs';

const root = path.resolve(import.meta.dirname, '../..'), read = (file) => fs.readFileSync(path.join(root, file), 'utf8');

// --- what was measured ---

const kept = (name) => read(`docs/figures/${name}.txt`);
const the = (text, pattern) => { const m = pattern.exec(text); ok(m, `no ${pattern} in docs/figures`); return m.slice(1).map(Number); };
const words = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve'];
const word = (n) => words[n] ?? String(n), many = (n) => n.toLocaleString('en-US');
const range = (all, digits) => { const [a, b] = [Math.min(...all), Math.max(...all)].map((x) => x.toFixed(digits)); return a === b ? a : `${a} to ${b}`; };

// The rows of bench/plan.
function plans(text) {
  const one = / {2}(\S+) +(\S+) +([\d.]+) ms +([\d.]+) GB host +(\d+) ms \(cpu +(\d+)\) (\d+) runs gap ([\d.]+)% \| fit +([\d.]+) ms +([\d.]+) GB host +(\d+) ms \(cpu +(\d+)\) +(\d+) runs( OVER)? \| +([\d.]+)x \(at most ([\d.]+)x\) in ([\d.]+)x less time/g;
  return [...text.matchAll(one)].map(([, model, rig, ms, host, , cpu, runs, gap, fitMs, fitHost, , fitCpu, fitRuns, over, x, most]) =>
    ({ model, rig, ms: +ms, host: +host, cpu: +cpu / 1000, runs: +runs, gap: +gap, fit: { ms: +fitMs, host: +fitHost, cpu: +fitCpu / 1000, runs: +fitRuns, over: Boolean(over) }, x: +x, most: +most }));
}
const bench = kept('bench'), all = plans(bench), bandwidth = kept('bandwidth');
const of = (model, rig, rows = all) => { const r = rows.find((p) => p.model === model && p.rig.startsWith(rig)); ok(r, `${model} on ${rig}`); return r; };
const kimi = of('kimi-k2.5', '8gpu'), nemotron = of('nemotron-super-49b', 'laptop'), far = of('kimi-k2.5', '8gpu', plans(kept('kimi')));
const mixed = /on rigs of unequal cards ([\d.]+)x; no placement at all can reach more than ([\d.]+)x/;
const [faster, most] = the(bench, mixed), [fasterBytes, mostBytes] = the(bandwidth, mixed);
const [least, , worst] = the(bench, /never less than ([\d.]+)x of fit's, geometric mean ([\d.]+)x; at most ([\d.]+) % from/);
const n_models = new Set(all.map((p) => p.model)).size, n_rigs = new Set(all.map((p) => p.rig)).size;
const n_mixed = new Set(all.map((p) => p.rig).filter((r) => Object.keys(JSON.parse(read(`tests/fixtures/rigs/${r}.json`)).devices.reduce((s, d) => ({ ...s, [d.bandwidth_gbs]: 1 }), {})).length > 1)).size;
const more = all.filter((p) => p.host > p.fit.host), over = all.filter((p) => p.fit.over);

// Of bench/hair: what it concludes of fixtures and of random problems, and how many of a fixture's mixes are within 5 % of the bound.
const hair = kept('hair'), summary = (what) => the(hair, new RegExp(`^ {2}${what}[^:]*: (\\d+), gap at most 5 % in ([\\d.]+) % of them, median ([\\d.]+) %, nine of ten within ([\\d.]+) %, worst ([\\d.]+) %; CPU median (\\d+) ms, nine of ten within (\\d+), most (\\d+); (\\d+) fit nowhere`, 'm'));
const mixes = [...hair.matchAll(/^ +\d+ (\S+) .* gap +([\d.]+) %/gm)].map(([, model, gap]) => ({ model, near: +gap <= 5 }));
const near = (model) => { const rows = mixes.filter((r) => r.model === model); return Math.round(100 * rows.filter((r) => r.near).length / rows.length); };
const within = Object.fromEntries(mixes.filter((r) => r.model !== 'random').map((r) => [r.model, near(r.model)]));
// Of bench/pool: CPU ms of a token by the number of streams.
const pool = Object.fromEntries([...kept('pool').matchAll(/^ +(\d+) +([\d.]+) +([\d.]+) +[\d.]+$/gm)].map(([, n, slots, one]) => [n, { slots: (+slots).toFixed(1), pool: (+one).toFixed(1) }]));

// A run of bench/pull: what it says of each line.
const pulls = (name) => kept(name).split(/^(?=\S.*: pull )/m).slice(1).map((t) => {
  const [rate, cpu] = the(t, /pull (\d+) MB\/s, ([\d.]+) s of CPU/), [busiest, curl] = the(t, /busiest thread takes ([\d.]+) s of CPU per GB, curl ([\d.]+)/);
  const x = Object.fromEntries([...t.matchAll(/^ {2}([\d.]+)x of (.*) \((\d+) MB\/s, ([\d.]+) s/gm)].map(([, r, what, mb, c]) => [what, { x: +r, mb: +mb, cpu: +c }]));
  return { rate, cpu, busiest, curl, x };
});

// --- what the code says ---

const constant = (file, name) => { const m = new RegExp(`#define ${name} +\\(*(?:\\(\\w+\\))?(\\d+)`).exec(read(file)); ok(m, `${name} in ${file}`); return Number(m[1]); };
const option = (name) => { const m = new RegExp(`^NUMB\\(\\w+, +"${name}", +\\S+ +"N", (\\d+),`, 'm').exec(read('src/cli/options.def')); ok(m, name); return Number(m[1]); };
const files = JSON.parse(read('tests/fixtures/models/index.json'))['kimi-k2.5'].files;

// A plan of Kimi-K2.5 from a hub: requests, MiB.
async function planFar() {
  const at = (f) => path.join(build, 'models', f);
  execFileSync('tools/stretch', [path.join(build, 'models'), 'kimi-k2.5']);
  const h = await hub({ 'org/K-GGUF': Object.fromEntries(files.map((f) => [f.file, at(f.file)])) }, { checksums: false }), home = scratchFile('home');
  const env = { ...process.env, HOME: home, XDG_CACHE_HOME: '', XDG_DATA_HOME: '', HF_HOME: '', HF_HUB_CACHE: '', LLAMA_CACHE: '', ...h.env };
  const child = spawn(binary, ['analyze', '--json', 'hf:org/K-GGUF'], { env, stdio: 'ignore' });
  equal(await new Promise((done) => child.on('close', done)), 0);
  h.close();
  return { requests: h.seen.length, mib: h.sent / 2 ** 20 };
}

// --- what is computed anew ---

const plan = (machine, model, ...more) => {
  const file = scratchFile('machine.json');
  fs.writeFileSync(file, JSON.stringify(machine));
  const r = spawnSync(binary, ['plan', '--json', '--n-ctx', String(n_ctx), '--machine', file, path.join(build, 'models', model), ...more], { encoding: 'utf8', env: { ...process.env, HOME: scratchFile('home') } });
  ok(r.status === 0 || r.status === 4, r.stderr);
  return r.status ? null : JSON.parse(r.stdout);
};

// docs/cluster.md: models on machines with a card each, by what is between them.
const ethernet = [['1 GbE', 0.117, 300], ['10 GbE', 1.1, 100], ['25 GbE', 2.8, 50], ['100 GbE', 11, 30]]; // GB/s, microseconds
const clustered = [['Llama-3.1-8B Q4_K_M', 'llama-3.1-8b', 1, 2], ['Llama-3.3-70B Q4_K_M', 'llama-3.3-70b', 1, 2, 3], ['gpt-oss-120b MXFP4', 'gpt-oss-120b', 1, 2, 4], ['Qwen3-235B-A22B Q4_K_M', 'qwen3-235b-a22b', 1, 4, 8]];
const index = JSON.parse(read('tests/fixtures/models/index.json'));
function cluster(n, net) {
  const card = { name: 'NVIDIA GeForce RTX 3090', backend: 'CUDA', total_mib: 24576, free_mib: 24000, bandwidth_gbs: 936, fp16_tflops: 71, compute_capability: '8.6', pcie_gen: 4, pcie_lanes: 16 };
  return { host: { ram_total_mib: 65536, ram_free_mib: 60000, bandwidth_gbs: 60, cores: 8 }, devices: Array.from({ length: n }, (_, i) => ({ ...card, ...(net && i ? { node: `n${i}`, net_gbs: net[1], net_us: net[2] } : {}) })) };
}
// [{ name, n, cells: [in one machine, by each link] of { tg, pp } or null }]
function clusters() {
  execFileSync('tools/stretch', [path.join(build, 'models'), ...clustered.map(([, id]) => id)]);
  return clustered.flatMap(([name, id, ...counts]) => counts.map((n) => ({ name, n, cells: [null, ...(n > 1 ? ethernet : [])].map((net) => {
    const p = plan(cluster(n, net), index[id].files[0].file)?.predicted;
    return p ? { tg: p.decode_tok_s, pp: p.prefill_tok_s } : null;
  }) })));
}
const speed = (x) => (x ? `${x.tg.toFixed(x.tg < 99.95 ? 1 : 0)} / ${many(Math.round(x.pp))}` : 'does not fit');
const clusterTable = (rows) => [`| model | machines | all cards in one | ${ethernet.map(([name]) => name).join(' | ')} |`, '|---|---|---|---|---|---|---|',
  ...rows.map((r, i) => `| ${i && rows[i - 1].name === r.name ? '' : r.name} | ${r.n} |${[0, 1, 2, 3, 4].map((k) => (k < r.cells.length ? ` ${speed(r.cells[k])} ` : ' ')).join('|')}|`.replace('|  |', '| |'))];

// docs/planner.md: what a draft model displaces.
function drafted() {
  execFileSync('tools/stretch', [path.join(build, 'models'), 'llama-3.3-70b', 'llama-3.1-8b']);
  const file = (id) => path.join(build, 'models', index[id].files[0].file), args = ['plan', '--n-ctx', String(n_ctx), '--split-mode', 'layer', '--machine', 'tests/fixtures/rigs/2x3090-2x3060.json', file('llama-3.3-70b')];
  const [alone, with_, text] = [['--json'], ['--json', '--draft', file('llama-3.1-8b')], ['--draft', file('llama-3.1-8b')]].map((more) => execFileSync(binary, [...args, ...more], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  const [a, b] = [alone, with_].map((t) => JSON.parse(t)), [d] = b.companions;
  return { ms: 1000 / b.predicted.decode_tok_s, alone: 1000 / a.predicted.decode_tok_s, token: d.ms_per_token, mib: (d.model_bytes + d.context_bytes + d.compute_bytes) / 2 ** 20, on: b.devices.find((x) => x.id === d.device).name, moved: b.devices.filter((x) => /3060/.test(x.name)).reduce((n, x) => n + x.n_layers, 0), pays: the(text, /drafting (\d+) tokens per step pays off when more than (\d+) % of them are accepted/) };
}

// docs/planner.md: dense models by layers and by the plan, from what bench/splits printed.
function splitsTable() {
  const dense = [['llama-3.1-8b', 'Llama-3.1-8B'], ['devstral-small-24b', 'Devstral-24B'], ['gemma-3-27b', 'Gemma-3-27B'], ['llama-3.3-70b', 'Llama-3.3-70B']];
  const rows = [...bench.matchAll(/^ {2}(\S+) +(\S.*?) {2,}([\d.]+) tok\/s .*?\| (tensor|layer) +x(\d+) +([\d.]+) tok\/s .*\| ([\d.]+)x/gm)].map(([, model, cards, before, mode, n, after, x]) => ({ model, cards, cell: mode === 'tensor' ? `${before} -> ${after} (${x}x, ${n} cards)` : `${after}, layers` }));
  const equalCards = rows.filter((r) => /^\d+x [A-Z]/.test(r.cards)), rigs = rows.filter((r) => !/^\d+x [A-Z]/.test(r.cards) && !r.cards.startsWith('3060'));
  return ['', ...new Set([...equalCards, ...rigs].map((r) => r.cards))].map((cards) => `| ${[cards, ...dense.map(([id, name]) => (cards ? rows.find((r) => r.model === id && r.cards === cards).cell : name))].join(' | ')} |`.replace('|  |', '| |')).toSpliced(1, 0, '|---|---|---|---|---|');
}

// --- what the pages say of it ---

const source = read('bench/plan.c'), n_ctx = Number(/\(uint32_t\)atoi\(argv\[6\]\) : (\d+)/.exec(source)[1]), reserve = Number(/\.reserve_mib = "(\d+)"/.exec(source)[1]);
const cpuTimes = all.map((p) => p.fit.cpu / p.cpu), cpuOften = all.filter((p) => p.fit.runs > 1).map((p) => p.fit.cpu / p.cpu).sort((a, b) => a - b);
const cell = (p, host, digits) => `${p.cpu.toFixed(digits)} s of CPU, ${p.runs} dry runs,${host ? ` ${p.host.toFixed(1)} GB in host memory,` : ''} ${p.ms.toFixed(0)} ms per token`;
const versus = [...read('docs/accuracy.md').split('## Compared with llama-server')[1].matchAll(/^\| .*, vram-llm \| [^|]* \| ([\d. /]+) \|/gm)].flatMap((m) => m[1].split(' / ').map(Number));
const requests = the(read('docs/accuracy.md'), /tok\/s with (\d+) \/ \d+ \/ (\d+) requests/);
const [disk] = pulls('pull'), [memory] = pulls('pull-memory'), [line, each] = pulls('pull-lines');
const [cores] = the(kept('pull'), /^# \d.*, (\d+) cores of/m), [mib] = the(read('bench/pull.mjs'), /env\.MIB \|\| (\d+)/);
const others = ['curl | tee | sha256sum', 'the same, synced', 'curl | tee | openssl', 'the same with openssl, synced'];

async function quotes() {
  const k = await planFar(), net = 'src/remote/net.c', partial = 'src/remote/partial.c', fetch = 'src/remote/fetch.c';
  ok(least >= 1 && all.every((p) => p.x >= 0.995), `a plan is slower than fit's: ${least}`);
  equal(more.map((p) => [p.model, p.rig]), [['nemotron-super-49b', '3060-12g-64g-ram']], 'more on the host');
  const [plans_, split, gain, slower, tooMuch] = the(bench, /(\d+) plans for decode, (\d+) in split mode tensor: ([\d.]+)x of layers' speed .*; slower: (\d+); over a budget: (\d+)/), [dense] = the(bench, /dense models on equal cards that hold them: ([\d.]+)x/);
  const draft = drafted();
  const [n_fixtures, ofFixtures, middle, nine, worstGap, cpu, cpuNine, cpuMost] = summary('fixtures'), [n_random, ofRandom, , , , , , , nowhere] = summary('random'), [together] = the(hair, /within 5 % of the bound: ([\d.]+) % of all/);
  const { 'kimi-k2.5': ofKimi, 'gemma-3-27b': ofGemma, 'nemotron-super-49b': ofNemotron, ...ofOthers } = within;
  equal([slower, tooMuch], [0, 0]);
  ok(/3090/.test(draft.on), draft.on);
  ok(at70(3).every((c, i) => !i || c.tg === at70(2)[i].tg), 'a third machine brings something');
  return {
    'docs/cluster.md#*': [
      `a context of ${many(n_ctx)}, an RTX 3090 with 24 GB in each machine, 64 GB of RAM at 60 GB/s in the one that serves; links of\n${ethernet.map((e) => e[1]).slice(0, 3).join(', ')} and ${ethernet[3][1]} GB/s with round trips of ${ethernet.map((e) => e[2]).slice(0, 3).join(', ')} and ${ethernet[3][2]} microseconds`,
      `gets much faster.** For the 70B model, the alternative is half of it in RAM: ${at70(1)[0].tg.toFixed(1)} tokens/s. A second machine brings ${range(at70(2).slice(1).map((c) => c.tg), 1)}, and a third nothing more`,
      `two of them reach ${at70(2)[0].tg.toFixed(1)} tokens/s with the 70B model`,
      `Compared with 100 GbE, 1 GbE loses ${range(lost(1), 0)} %, 10 GbE at most ${Math.max(...lost(2)).toFixed(0)} %`,
      `${at70(2)[1].pp.toFixed(0)} tokens per second for the 70B model on 1 GbE, ${at70(2)[4].pp.toFixed(0)} on 100 GbE`,
    ],
    'docs/cache.md#*': [
      `with 1 stream ${pool[1].pool} ms instead of ${pool[1].slots}, with 8 streams ${pool[8].pool} instead of ${pool[8].slots},\nwith 32 streams ${pool[32].pool} instead of ${pool[32].slots}`,
    ],
    'docs/planner.md#*': [
      `${n_fixtures + n_random + nowhere} mixes of one to twelve random GPUs whose budgets together are 0 to 15 % smaller than weights and cache: ${n_fixtures} with one of\nthe ${word(n_models)} fixtures`,
      `and ${n_random + nowhere} random problems from the solver's tests`,
      `within 5 % of the bound: fixtures ${ofFixtures.toFixed(1)} % (median ${middle.toFixed(1)} %, nine of ten within ${nine.toFixed(1)} %, worst ${worstGap.toFixed(0)} %; ${ofKimi} % of the mixes for Kimi-K2.5, ${ofGemma} % for Gemma, ${ofNemotron} % for Nemotron, ${Math.min(...Object.values(ofOthers))} % or more for\n  the others); random problems, whose pieces are large relative to the devices, ${ofRandom.toFixed(0)} %; ${together.toFixed(1)} % of all`,
      `CPU time of a plan: ${cpu} ms in the median, ${cpuNine} in nine of ten, ${cpuMost} at most`,
      `context ${many(n_ctx)}, split mode layer: the draft model (${many(Math.round(draft.mib))} MiB) goes to a 3090\nand displaces ${word(draft.moved)} layers to a 3060; a step of the model takes ${draft.ms.toFixed(1)} ms instead of ${draft.alone.toFixed(1)}, a drafted token ${draft.token.toFixed(1)} ms, so drafting ${draft.pays[0]} tokens\npays off when more than ${draft.pays[1]} % of them are accepted`,
      `${plans_} plans: never slower, ${split} in split mode tensor, ${gain.toFixed(2)}x (geometric mean); dense models on two to four equal cards that hold them ${dense.toFixed(2)}x`,
    ],
    'README.md': [
      `| Nemotron-49B on two 3090 Ti and a laptop 4080 | ${cell(nemotron, false, 2)} | ${cell(nemotron.fit, false, 1)} |`,
      `| Kimi-K2.5 on eight GPUs | ${cell(kimi, true, 2)} | ${cell(kimi.fit, true, 1)} |`,
      `from one run of \`make bench\`, with a context of ${many(n_ctx)} and the same settings for both. Across its ${word(n_models)} models and ${word(n_rigs)} rigs, our plan is never predicted to be slower than llama.cpp's. On mixed GPUs it is ${faster.toFixed(2)}x faster,\nwhere no placement could be more than ${most.toFixed(2)}x faster`,
      `it serves ${range(versus, 1)} times as many tokens per second as llama-server, at ${requests[0]} to ${requests.at(-1)} concurrent requests`,
      `http://127.0.0.1:${option('port')}`,
    ],
    "docs/planner.md#Against llama.cpp's fit": [
      `reserve ${many(reserve)} MiB,\ncontext ${many(n_ctx)}, devices in CUDA's order (fastest first), ${word(n_models)} models on the ${word(n_rigs)} rigs`,
      `speed: never slower; on the ${word(n_mixed)} rigs of mixed GPUs ${faster.toFixed(2)}x faster (geometric mean), ${fasterBytes.toFixed(2)}x by memory bandwidth alone`,
      `No placement could reach more than ${most.toFixed(2)}x (${mostBytes.toFixed(2)}x)`,
      `within ${worst.toFixed(1)} % of the bound everywhere, within 0.05 % in ${all.filter((p) => p.gap === 0).length} of the ${all.length} cases`,
      `more than fit's in one case, Nemotron-49B on a single 3060, where that makes it ${(100 * (more[0].x - 1)).toFixed(0)} % faster (${more[0].host.toFixed(1)} GB instead of ${more[0].fit.host.toFixed(1)})`,
      `CPU time to a proven plan: at least ${Math.min(...cpuTimes).toFixed(1)}x less; where fit makes several dry runs, ${cpuOften[cpuOften.length >> 1].toFixed(0)}x less (median)`,
      `Kimi-K2.5 on eight GPUs, context 32,768: ${far.host.toFixed(1)} GB in host memory instead of ${far.fit.host.toFixed(1)}, ${far.ms.toFixed(1)} ms per token instead of ${far.fit.ms.toFixed(1)}, ${word(far.runs)} dry\n  runs instead of ${far.fit.runs}, ${far.cpu.toFixed(2)} s of CPU instead of ${far.fit.cpu.toFixed(1)} s`,
      `in ${word(over.length)} of the cases, its plan uses part of the reserve`,
    ],
    'docs/remote.md': [
      `the first ${constant('src/remote/heads.c', 'FIRST')} MiB of all parts in parallel, then ${word(constant('src/remote/heads.c', 'MORE'))} times as much until the header is complete`,
      `the ${(files.reduce((n, f) => n + f.bytes, 0) / 1e9).toFixed(0)} GB of Kimi-K2.5 in ${word(files.length)} parts take ${k.requests} requests and ${k.mib.toFixed(0)} MiB`,
      `Chunks of ${constant(partial, 'MIN_CHUNK')} to ${constant(partial, 'MAX_CHUNK')} MiB are fetched in order over \`--connections\` (${option('connections')})`,
      `the last ${constant(fetch, 'BUFFER')} KiB of each connection`,
      `retried up to ${word(constant(net, 'MAX_TRIES') - 1)} times`,
      `(\`HF_HUB_DOWNLOAD_TIMEOUT\`, ${constant('src/remote/hub.c', 'SILENCE_S')} s)`,
      `(a file of ${many(mib)} MiB, ${word(cores)} cores that nothing else keeps busy)`,
      `\`pull\` reaches ${disk.x['curl alone'].x.toFixed(2)}x of what curl alone does on a disk and ${memory.x['curl alone'].x.toFixed(2)}x in memory (\`TMPDIR=/dev/shm\`)`,
      `${range(others.map((o) => disk.x[o].x), 1)} times the speed of curl doing the same job on a disk, ${range(others.map((o) => memory.x[o].x), 1)} times in memory`,
      `\`pull\` takes ${range([disk.cpu, memory.cpu], 2)} s of CPU per GB, its busiest thread ${range([disk.busiest, memory.busiest], 2)}, curl ${range([disk.x, memory.x].map((x) => x['curl alone'].cpu), 2)}, and the same job by hand ${range(others.flatMap((o) => [disk.x[o].cpu, memory.x[o].cpu]), 1)}`,
      `At 200 MB/s for all connections together, \`pull\` reaches ${line.x['curl alone'].x.toFixed(2)}x of curl alone; with 50 MB/s for each, ${each.x['curl alone'].x.toFixed(2)}x`,
    ],
  };
}

// --- checking them ---

const section = (text, title) => { const at = text.indexOf(`## ${title}\n`); ok(at >= 0, title); const end = text.indexOf('\n## ', at); return text.slice(at, end < 0 ? undefined : end); };
// The sentence with other numbers, counts in words included.
const wild = (text) => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(new RegExp(`\\d[\\d,]*(?:\\\\\\.\\d+)?|\\b(?:${words.slice(1).join('|')})\\b`, 'g'), '(?:\\d[\\d,]*(?:\\.\\d+)?(?: to \\d+(?:\\.\\d+)?)?|[a-z]+)'), 'g');

// Numbers that are names, or standards'; and what others say of themselves.
const names = [/```.*?```/gs, /`[^`\n]*`/g, /\]\([^)]*\)/g, /<!--.*?-->/gs, /https?:\S+/g, /(?:Nemotron|Kimi|Llama|Qwen)-\w[\w.-]*/g, /\b\d+B\b/g, /(?:RTX |A|laptop )?\b(?:3090|4080|3060)s?\b(?: Ti)?/g, /Debian \d+/g, /\b[a-z]+\(2\)/g, /SHA-256/g, /TLS 1\.\d/g,
  /\b429\b|\b5xx\b|\b40[134]\b/g, /an estimate, about 100 MiB off by its own account/g];

const lost = (k) => machines.filter((m) => m.n > 1 && m.name !== clustered[0][0]).map((m) => 100 * (1 - m.cells[k].tg / m.cells[4].tg));
const at70 = (n) => machines.find((m) => m.name.startsWith('Llama-3.3-70B') && m.n === n).cells;

test('quoted figures are those that were measured', async () => {
  for (const [where, sentences] of Object.entries(await quotes())) {
    const [page, title] = where.split('#');
    for (const s of sentences) {
      const text = read(page), at = [...text.matchAll(wild(s))];
      if (process.env.UPDATE && at.length === 1) fs.writeFileSync(path.join(root, page), text.replace(at[0][0], () => s));
      else ok(text.includes(s), `${page}: ${at.length ? `says "${at[0][0]}", but measured was "${s}" (UPDATE=1 tests/e2e/run build figures)` : `does not say "${s}"`}`);
    }
    if (title === '*') continue; /* not all of the page */
    let rest = title ? section(read(page), title) : read(page);
    for (const s of sentences) rest = rest.replaceAll(s, '');
    for (const n of names) rest = rest.replace(n, '');
    const left = rest.split('\n').flatMap((l) => [...l.matchAll(/.{0,30}\d[\d.,]*.{0,30}/g)].map((m) => m[0]));
    equal(left, [], `${where}: numbers that nothing proves`);
  }
});

// Tables between two marks.
function table(page, name, lines) {
  const text = read(page), begin = `<!-- tests/e2e/figures.mjs: ${name} -->\n`, from = text.indexOf(begin) + begin.length, to = text.indexOf('<!-- tests/e2e/figures.mjs: end -->', from);
  ok(from >= begin.length && to >= from, `${page} has no table ${name}`);
  const made = `${lines.join('\n')}\n`;
  if (process.env.UPDATE) fs.writeFileSync(path.join(root, page), text.slice(0, from) + made + text.slice(to));
  else equal(text.slice(from, to), made, `${page}: the table of ${name} (UPDATE=1 tests/e2e/run build figures)`);
}
const machines = clusters();
test('tables are what was printed, or is computed', () => {
  table('docs/planner.md', 'splits', splitsTable());
  table('docs/cluster.md', 'machines', clusterTable(machines));
});

test('what was measured says of what, when and where', () => {
  for (const f of fs.readdirSync(path.join(root, 'docs/figures'))) {
    const [what, when, load] = read(`docs/figures/${f}`).split('\n');
    ok(/^# .*(bench|make)/.test(what) && /^# \d{4}-\d\d-\d\d, src of commit [0-9a-f]{12}, \d+ cores of .+, Linux [\d.]+$/.test(when) && /^# load average when it began: [\d.]+$/.test(load), `docs/figures/${f}: ${what} ${when} ${load}`);
  }
});

await runAll('figures');

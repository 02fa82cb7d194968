// A computer with NVIDIA's driver and nothing else: what `doctor` and `serve` say for each compute capability, over the fetched CUDA library, a stub of the
// driver's management library, and the stubs of CUDA's runtime that the oracle has. The library for CUDA 12 (for GPUs older than 7.5) is walked through
// where it has been fetched (tools/engine-fetch get cuda-ext: 360 MB).
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, build, equal, eventually, ok, runAll, scratchFile, skip, test } from './lib.mjs';

const root = path.resolve(import.meta.dirname, '../..'), fetch = path.join(root, 'tools/engine-fetch');
const plain = path.join(root, 'build/engine/lib'), oracle = path.resolve(build, 'oracle');

// The engine as it is linked, with a CUDA library beside it. It is found before the program's own, and beside what libllama.so really is.
function engineWith(folder, name) {
  const to = scratchFile(name);
  fs.cpSync(fs.realpathSync(plain), to, { recursive: true, verbatimSymlinks: true });
  fs.rmSync(path.join(to, 'libggml-cuda.so'), { force: true });
  fs.symlinkSync(path.join(folder, 'libggml-cuda.so'), path.join(to, 'libggml-cuda.so'));
  return to;
}
const engine = engineWith(execFileSync(fetch, ['get', 'cuda'], { encoding: 'utf8' }).trim(), 'engine');

for (const n of [12, 13]) if (!fs.existsSync(path.join(oracle, `libcublas.so.${n}`))) throw new Error(`${oracle} has no stubs of CUDA ${n}: make check-oracle builds them`);
const environment = (cc, ...first) => ({ ...process.env, NO_COLOR: '1', VRAM_LLM_NVML: path.resolve(build, 'tests/libnvml-stub.so'), VR_STUB_NVML_CC: cc, LD_LIBRARY_PATH: [...first, engine, oracle].join(':') });
const doctor = (...env) => spawnSync(binary, ['doctor'], { encoding: 'utf8', env: environment(...env) }).stdout;

// What `doctor` says of each of three GPUs: nothing, that the driver compiles, or that there is no code.
function kindsOf(ccs, ...first) {
  const text = doctor(ccs, ...first), notes = text.split('\n').filter((l) => l.startsWith('  note:') && /CUDA library/.test(l));
  ok(/llama\.cpp .*CUDA, /.test(text), text);
  return ccs.split(' ').map((cc, i) => {
    const mine = notes.filter((l) => new RegExp(`CUDA${i}\\b`).test(l)), none = `not used by serve: this engine's CUDA library has no code for compute capability ${cc}: tools/gpu/build-cuda`;
    return mine.length === 0 ? 'native' : mine.length > 1 ? 'several notes' : mine[0].includes(none) ? 'none' : /no machine code for it: a recent driver compiles it/.test(mine[0]) ? 'compiled' : mine[0];
  }).join(' ');
}
const machines = [ // three GPUs, with CUDA 13's library, with CUDA 12's
  ['6.1 7.0 7.5', 'none none compiled', 'compiled compiled compiled'], ['8.0 8.6 8.7', 'compiled native native', 'compiled native native'],
  ['8.9 9.0 10.0', 'native compiled compiled', 'native compiled compiled'], ['10.3 12.0 12.1', 'compiled native native', 'compiled compiled compiled'],
];
test('each compute capability: code, code that the driver compiles, or one sentence', () => {
  for (const [ccs, kinds] of machines) equal(kindsOf(ccs), kinds, ccs);
});

test('the same with the library for CUDA 12', () => {
  const r = spawnSync(fetch, ['get', 'cuda-ext'], { encoding: 'utf8', env: { ...process.env, OFFLINE: '1' } });
  if (r.status !== 0) return skip;
  const older = engineWith(r.stdout.trim(), 'engine12');
  for (const [ccs, , kinds] of machines) equal(kindsOf(ccs, older), kinds, ccs);
});

test('no runtime of CUDA: the packages are named', () => {
  const broken = scratchFile('broken'); // goes before one that this computer may have
  fs.mkdirSync(broken);
  fs.writeFileSync(path.join(broken, 'libcudart.so.13'), 'no library');
  const text = doctor('8.6', broken);
  ok(/CUDA0, CUDA1, CUDA2: not used by serve: libcudart\.so\.13 or libcublas\.so\.13 is not installed: install NVIDIA's packages cuda-cudart-13-\* and libcublas-13-\*/.test(text), text);
});

test('serve plans without GPUs that the engine cannot use, and says why', async () => {
  const child = spawn(binary, ['serve', '--port', '0'], { stdio: ['ignore', 'ignore', 'pipe'], env: environment('6.1') });
  let text = '', ended = false;
  child.stderr.on('data', (d) => { text += d; });
  child.on('close', () => { ended = true; });
  await eventually(() => text, () => ended || / is ready/.test(text));
  child.kill('SIGTERM');
  await eventually('serve does not stop', () => ended);
  ok(/CUDA0 \(.*\) is not used: this engine's CUDA library has no code for compute capability 6\.1/.test(text), text);
  ok(/ is ready/.test(text), text);
});

await runAll('first_run');

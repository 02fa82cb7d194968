// A computer with NVIDIA's driver and nothing else: what `doctor` and `serve` say for each compute capability, over the fetched CUDA library, a stub of the
// driver's management library, and the stubs of CUDA's runtime that the oracle has.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, build, equal, eventually, ok, runAll, scratchFile, test } from './lib.mjs';

const root = path.resolve(import.meta.dirname, '../..'), fetched = execFileSync(path.join(root, 'tools/engine-fetch'), ['get', 'cuda'], { encoding: 'utf8' }).trim();
const plain = path.join(root, 'build/engine/lib'), oracle = path.resolve(build, 'oracle');

// The engine as it is linked, with the CUDA library beside it. It is found before the program's own, and beside what libllama.so really is.
const engine = scratchFile('engine');
fs.cpSync(fs.realpathSync(plain), engine, { recursive: true, verbatimSymlinks: true });
fs.symlinkSync(path.join(fetched, 'libggml-cuda.so'), path.join(engine, 'libggml-cuda.so'));

if (!fs.existsSync(path.join(oracle, 'libcublas.so.13'))) throw new Error(`${oracle} has no stubs: make check-oracle builds them`);
const environment = (cc, ...first) => ({ ...process.env, NO_COLOR: '1', VRAM_LLM_NVML: path.resolve(build, 'tests/libnvml-stub.so'), VR_STUB_NVML_CC: cc, LD_LIBRARY_PATH: [...first, engine, oracle].join(':') });
const doctor = (...env) => spawnSync(binary, ['doctor'], { encoding: 'utf8', env: environment(...env) }).stdout;

// Three GPUs at a time. What is said of each: nothing, that the driver compiles, or that there is no code.
const machines = [
  ['6.1 7.0 7.5', 'none none compiled'], ['8.0 8.6 8.7', 'compiled native native'],
  ['8.9 9.0 10.0', 'native compiled compiled'], ['10.3 12.0 12.1', 'compiled native native'],
];
test('each compute capability: code, code that the driver compiles, or one sentence', () => {
  for (const [ccs, kinds] of machines) {
    const text = doctor(ccs), notes = text.split('\n').filter((l) => l.startsWith('  note:') && /CUDA library/.test(l));
    ok(/llama\.cpp .*CUDA, /.test(text), text);
    const is = ccs.split(' ').map((cc, i) => {
      const mine = notes.filter((l) => new RegExp(`CUDA${i}\\b`).test(l)), none = `not used by serve: this engine's CUDA library has no code for compute capability ${cc}: tools/gpu/build-cuda`;
      return mine.length === 0 ? 'native' : mine.length > 1 ? 'several notes' : mine[0].includes(none) ? 'none' : /no machine code for it: a recent driver compiles it/.test(mine[0]) ? 'compiled' : mine[0];
    });
    equal(is.join(' '), kinds, ccs);
  }
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

// A computer as the documentation imagines it: model.gguf and machine profiles in the current directory, caches of other programs at
// home, a hub that has OWNER/NAME-GGUF, and no GPU of this computer. Commands of the documentation run in it as they stand there.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build, eventually, fakeEngine, portOf, scratchFile } from './lib.mjs';
import { hub } from './hub.mjs';

const root = path.resolve(import.meta.dirname, '../..'), models = path.resolve(build, 'models'), rigs = path.join(root, 'tests/fixtures/rigs');
const nemotron = (n) => path.join(models, `nvidia_Llama-3_3-Nemotron-Super-49B-v1_5-Q8_0-0000${n}-of-00002.gguf`);

const files = {
  ...Object.fromEntries(['model', 'chat', 'coder', 'embed', 'small', 'home/models/chat'].map((name) => [name + '.gguf', path.join(models, 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf')])),
  'Llama-3.3-70B-Q4_K_M.gguf': path.join(models, 'Llama-3.3-70B-Instruct-Q4_K_M.gguf'),
  ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [`Kimi-K2.5-0000${n}-of-00009.gguf`, path.join(models, `Kimi-K2.5-UD-IQ3_XXS-0000${n}-of-00009.gguf`)])),
  'Nemotron-Super-49B-Q8_0-00001-of-00002.gguf': nemotron(1),
  'Nemotron-Super-49B-Q8_0-00002-of-00002.gguf': nemotron(2),
  'laptop.json': path.join(rigs, 'laptop-4080m-2x3090ti.json'),
  'workstation.json': path.join(rigs, '3090-2060.json'),
  'eight-gpus.json': path.join(rigs, '8gpu-5090-4090-a40-a6000.json'),
};

function link(file, target) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.symlinkSync(target, file);
}

// What other programs have downloaded.
function caches(home) {
  const hex = '7'.repeat(64), manifests = path.join(home, '.ollama/models/manifests/registry.ollama.ai/library/llama3.1');
  for (const n of [1, 2]) link(path.join(home, '.cache/huggingface/hub/models--org--Nemotron-GGUF/snapshots/1', path.basename(nemotron(n))), nemotron(n));
  link(path.join(home, '.lmstudio/models/google/gemma-3-27b-it-qat/gemma-3-27b-it-q4_0.gguf'), path.join(models, 'gemma-3-27b-it-q4_0.gguf'));
  link(path.join(home, `.ollama/models/blobs/sha256-${hex}`), path.join(models, 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf'));
  fs.mkdirSync(manifests, { recursive: true });
  fs.writeFileSync(path.join(manifests, 'latest'), JSON.stringify({ layers: [{ mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${hex}` }] }));
}

// run(command) -> { status, out }: both outputs together. `engine`: the program that holds the model; a stub unless told.
export async function sandbox({ engine = fakeEngine, columns = 200 } = {}) {
  const dir = scratchFile('docs'), home = path.join(dir, 'home'), bin = path.join(home, 'bin');
  execFileSync(path.join(root, 'tools/stretch'), [models]);
  for (const [name, target] of Object.entries(files)) link(path.join(dir, name), target);
  link(path.join(bin, 'vram-llm'), path.resolve(build, 'vram-llm'));
  caches(home);
  fs.writeFileSync(path.join(dir, 'models.ini'), '[chat]\nmodel = chat.gguf\nn-ctx = 4096\n[coder]\nmodel = coder.gguf\n');
  const parts = {};
  for (const quant of ['Q4_K_M', 'Q8_0']) {
    const file = scratchFile(`${quant}.gguf`);
    execFileSync(path.resolve(build, 'tests/tiny-model'), [file, '--layers', quant === 'Q8_0' ? '4' : '2']);
    parts[`NAME-${quant}.gguf`] = file;
  }
  const h = await hub({ 'OWNER/NAME-GGUF': parts });
  const env = { PATH: `${bin}:${process.env.PATH}`, HOME: home, LANG: 'C.UTF-8', NO_COLOR: '1', COLUMNS: String(columns), VRAM_LLM_PORT: '0', ...h.env };
  if (engine) Object.assign(env, { VRAM_LLM_ENGINE_PROGRAM: engine, FAKE_ENGINE: '{}' });
  const box = { dir, url: null, server: null };

  const start = (command, done) => {
    const child = spawn('bash', ['-c', command], { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const r = { child, out: '', status: null };
    for (const s of [child.stdout, child.stderr]) s.on('data', (d) => { r.out += d; });
    child.on('close', (status) => { r.status = status; done?.(r); });
    return r;
  };
  process.on('exit', () => box.server?.child.kill('SIGKILL'));
  box.stop = async () => {
    const s = box.server;
    box.server = null;
    if (!s || s.status !== null) return;
    s.child.kill('SIGTERM');
    await eventually('the server does not stop', () => s.status !== null);
  };
  // A server goes on while the next commands talk to it.
  box.serve = async (command) => {
    await box.stop();
    const s = box.server = start(`exec ${command}`);
    const port = await eventually(() => `${command}: ${s.out}`, () => s.status !== null ? -1 : portOf(s.child.pid));
    if (port < 0) return s;
    box.url = `http://127.0.0.1:${port}`;
    await eventually(() => `${command} is not ready: ${s.out}`, async () => s.status !== null || (await fetch(`${box.url}/health`)).ok);
    return s;
  };
  box.run = (command) => {
    if (/^vram-llm serve\b/.test(command)) return box.serve(command);
    const at = box.url ? command.replaceAll('http://127.0.0.1:8080', box.url) : command;
    return new Promise((done) => start(at.replace(/^curl /, 'curl --no-progress-meter --fail-with-body '), done));
  };
  box.close = async () => { await box.stop(); h.close(); };
  return box;
}

// The engine's Vulkan backend for real: on Mesa's driver for processors, which is a slow card like any other. The shipped model
// must say there what it says on the CPU.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { binary } from './lib.mjs';
import { dir, done, must, same, test, up } from './real.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
// The engine that was built with, and the Vulkan backend of the same version beside it.
const engine = path.join(dir, 'engine'), backend = 'libggml-vulkan.so';
const fetched = execFileSync(path.join(root, 'tools/engine-fetch'), ['get', 'vulkan'], { encoding: 'utf8' }).trim().split('\n').at(-1);
fs.cpSync(path.join(root, 'build/engine/lib'), engine, { recursive: true, dereference: true });
fs.copyFileSync(path.join(fetched, backend), path.join(engine, backend));
fs.rmSync(path.join(engine, 'libggml-cuda.so'), { force: true });
// It is no graphics card, so the backend takes it only when told.
const env = { LD_LIBRARY_PATH: engine, GGML_VK_VISIBLE_DEVICES: '0', VRAM_LLM_NVML: '' };
const model = path.join(root, 'models/demo.gguf');
const question = { messages: [{ role: 'user', content: 'What is 17 + 25?' }], temperature: 0 };
const answer = async (s) => (await s.post('/v1/chat/completions', question)).choices[0].message.content;

await test('doctor and plan know the card by what the driver says', async () => {
  const run = (...args) => execFileSync(binary, args, { env: { ...process.env, ...env }, encoding: 'utf8' });
  const doctor = run('doctor');
  must(/engine .* Vulkan, CPU/.test(doctor) && /^ +Vulkan0 +llvmpipe .*\d/m.test(doctor), doctor);
  const plan = JSON.parse(run('plan', model, '--json'));
  same(plan.devices.map((d) => [d.id, d.first_layer, d.n_layers, d.output]), [['Vulkan0', 0, 9, true]]);
  same(plan.exact, false, 'the rules for buffers are CUDA\'s');
});

await test('the same answer from Vulkan and from the CPU', async () => {
  const cpu = await up(model);
  const expected = await answer(cpu);
  await cpu.stop();
  const s = await up(model, ['--n-ctx', '512'], env);
  const devices = (await s.get('/api/plan')).devices.map((d) => d.id);
  same(devices, ['Vulkan0']);
  same(await answer(s), expected);
  must(/42/.test(expected), expected);
  await s.stop();
});

done('vulkan');

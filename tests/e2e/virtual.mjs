// Several GPUs without one: the same greedy text from the CPU and from three virtual cards of unequal size, through HTTP, with and
// without experts on the host; and a start that heals itself when the cards have less memory than they report.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { binary, build, sleep } from './lib.mjs';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-virtual-'));
process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));

function make(name, ...args) {
  const file = path.join(dir, name + '.gguf');
  execFileSync(path.join(build, 'tests', 'tiny-model'), [file, ...args]);
  return file;
}

// Cards of so many MiB; bandwidths differ, so that their order matters.
function machine(...mib) {
  const file = path.join(dir, mib.join('-') + '.json');
  fs.writeFileSync(file, JSON.stringify({
    host: { ram_total_mib: 16000, bandwidth_gbs: 20, cores: 2 },
    devices: mib.map((total_mib, i) => ({
      name: 'card ' + i, backend: 'CUDA', total_mib, bandwidth_gbs: 100 + 100 * ((i + 1) % mib.length), compute_capability: '8.6', pcie_gen: 4, pcie_lanes: 8,
    })),
  }));
  return file;
}

async function ask(model, args, env = {}) {
  const port = 20000 + Math.floor(Math.random() * 20000);
  const log = path.join(dir, 'log-' + port);
  const fd = fs.openSync(log, 'w');
  const child = spawn(binary, ['serve', model, '--port', String(port), '--n-ctx', '1024', '--n-ubatch', '64', '--flash-attn', 'on', '--threads', '1', ...args], {
    stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: path.join(dir, 'state-' + port), ...env },
  });
  fs.closeSync(fd);
  const gone = new Promise((done) => child.on('exit', done));
  const url = `http://127.0.0.1:${port}`;
  try {
    for (let i = 0; ; i++) {
      const health = await fetch(url + '/health').then((r) => r.json()).catch(() => ({}));
      if (health.status === 'ok') break;
      if (i > 600 || child.exitCode !== null) throw new Error('not up: ' + fs.readFileSync(log, 'utf8'));
      await sleep(50);
    }
    const body = { prompt: 'once upon a time there was a card', max_tokens: 24, temperature: 0, ignore_eos: true };
    const r = await fetch(url + '/v1/completions', { method: 'POST', body: JSON.stringify(body) }).then((x) => x.json());
    const plan = await fetch(url + '/api/plan').then((x) => x.json());
    const status = await fetch(url + '/api/status').then((x) => x.json());
    return { text: r.choices[0].text, plan, status, log: fs.readFileSync(log, 'utf8') };
  } finally {
    child.kill('SIGTERM');
    await gone;
  }
}

let passed = 0, failed = 0;
async function test(name, run) {
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
const must = (truth, what) => { if (!truth) throw new Error(what); };

const dense = make('dense', '--layers', '24', '--embd', '384', '--ff', '1536', '--heads', '6', '--kv', '2');
const moe = make('moe', '--layers', '16', '--embd', '256', '--ff', '512', '--experts', '16', '--used', '2');
const plain = { dense: await ask(dense, []), moe: await ask(moe, []) };

await test('a dense model over three cards', async () => {
  const r = await ask(dense, ['--machine', machine(50, 34, 42), '--reserve-mib', '1']);
  must(r.plan.devices.length === 3 && r.plan.host.n_layers === 0, 'three cards: ' + JSON.stringify(r.plan.tensor_split));
  must(r.text === plain.dense.text, `${r.text} !== ${plain.dense.text}`);
});
await test('experts over three cards', async () => {
  const r = await ask(moe, ['--machine', machine(90, 60, 70), '--reserve-mib', '1']);
  must(r.plan.devices.length === 3 && r.plan.host.model_bytes < 1e6, 'all on cards');
  must(r.text === plain.moe.text, `${r.text} !== ${plain.moe.text}`);
});
await test('experts on the host', async () => {
  const r = await ask(moe, ['--machine', machine(40, 30, 35), '--reserve-mib', '1']);
  must(r.plan.host.model_bytes > 50e6 && r.plan.overrides.length > 0, 'experts on the host: ' + r.plan.host.model_bytes);
  must(r.text === plain.moe.text, `${r.text} !== ${plain.moe.text}`);
});
await test('a split as the user gave it', async () => {
  const r = await ask(dense, ['--machine', machine(90, 80, 70), '--reserve-mib', '1', '--tensor-split', '0.2,0.5,0.3']);
  must(r.plan.how === 'as given' && r.plan.tensor_split.join() === '5,13,7', JSON.stringify(r.plan.tensor_split));
  const ready = r.status.engine.ready.devices;
  must(ready.length === 3 && ready.every((d, i) => d.model_bytes === r.plan.devices[i].model_bytes), JSON.stringify(ready));
  must(r.text === plain.dense.text, `${r.text} !== ${plain.dense.text}`);
});
await test('cards with less memory than they report', async () => {
  const r = await ask(dense, ['--machine', machine(70, 50, 60), '--reserve-mib', '1'], { VRAM_LLM_VIRTUAL_LESS_MIB: '12' });
  must(r.status.engine.starts > 1, 'it came up at once: nothing was tested');
  must(/out of memory/.test(r.log), 'nothing was said: ' + r.log);
  must(r.text === plain.dense.text, `${r.text} !== ${plain.dense.text}`);
});
console.log(`e2e virtual: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

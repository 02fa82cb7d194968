// Small models on virtual cards, through the whole program: what virtual.mjs and shortage.mjs share.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { binary, build, sleep } from './lib.mjs';

export const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-cards-'));
process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));

export function make(name, ...args) {
  const file = path.join(dir, name + '.gguf');
  execFileSync(path.join(build, 'tests', 'tiny-model'), [file, ...args]);
  return file;
}

// Cards of so many MiB; bandwidths differ, so that their order matters.
export function machine(...mib) {
  const file = path.join(dir, mib.join('-') + '.json');
  fs.writeFileSync(file, JSON.stringify({
    host: { ram_total_mib: 16000, bandwidth_gbs: 20, cores: 2 },
    devices: mib.map((total_mib, i) => ({
      name: 'card ' + i, backend: 'CUDA', total_mib, bandwidth_gbs: 100 + 100 * ((i + 1) % mib.length), compute_capability: '8.6', pcie_gen: 4, pcie_lanes: 8,
    })),
  }));
  return file;
}

// Starts it, does `first(url)`, asks for one greedy text, stops it. An error has the exit status as .code and the log as .log.
let n = 0;
export async function ask(model, args, env = {}, first = async () => { }) {
  const log = path.join(dir, 'log-' + n++);
  const fd = fs.openSync(log, 'w');
  const child = spawn(binary, ['serve', model, '--port', '0', '--n-ctx', '1024', '--n-ubatch', '64', '--flash-attn', 'on', '--threads', '1', ...args], {
    stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: path.join(dir, 'state'), ...env },
  });
  fs.closeSync(fd);
  const gone = new Promise((done) => child.on('exit', done));
  const text = () => fs.readFileSync(log, 'utf8');
  try {
    let url;
    for (let i = 0; ; i++) {
      url ??= /listening on (http:\S+)/.exec(text())?.[1];
      const health = url ? await fetch(url + '/health').then((r) => r.json()).catch(() => ({})) : {};
      if (health.status === 'ok') break;
      if (i > 1200 || child.exitCode !== null) throw Object.assign(new Error('not up: ' + text()), { code: child.exitCode, log: text() });
      await sleep(25);
    }
    await first(url);
    const body = { prompt: 'once upon a time there was a card', max_tokens: 24, temperature: 0, ignore_eos: true };
    const r = await fetch(url + '/v1/completions', { method: 'POST', body: JSON.stringify(body) }).then((x) => x.json());
    const plan = await fetch(url + '/api/plan').then((x) => x.json());
    const status = await fetch(url + '/api/status').then((x) => x.json());
    return { text: r.choices[0].text, plan, status, log: text() };
  } finally {
    child.kill('SIGTERM');
    await gone;
  }
}

// Small models on virtual cards, through the whole program: what virtual.mjs and shortage.mjs share.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, patience, sleep } from './lib.mjs';
import { dir } from './real.mjs';

// Starts it, does `first(url)`, asks for one greedy text, stops it. An error has the exit status as .code and the log as .log.
let n = 0;
export async function ask(model, args, env = {}, first = async () => { }) {
  const log = path.join(dir, 'ask-' + n++);
  const fd = fs.openSync(log, 'w');
  const child = spawn(binary, ['serve', model, '--port', '0', '--n-ctx', '1024', '--n-ubatch', '64', '--flash-attn', 'on', '--threads', '1', ...args], {
    stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: path.join(dir, 'state'), ...env },
  });
  fs.closeSync(fd);
  const gone = new Promise((done) => child.on('exit', done));
  const text = () => fs.readFileSync(log, 'utf8');
  try {
    let url;
    for (const end = Date.now() + patience; ;) {
      url ??= /listening on (http:\S+)/.exec(text())?.[1];
      const health = url ? await fetch(url + '/health').then((r) => r.json()).catch(() => ({})) : {};
      if (health.status === 'ok') break;
      if (Date.now() > end || child.exitCode !== null) throw Object.assign(new Error('not up: ' + text()), { code: child.exitCode, log: text() });
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

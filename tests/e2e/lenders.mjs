// Machines that lend their devices: what the tests of nodes on loopback and in network namespaces share. Each machine has its own folder for keys
// and caches.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, eventually } from './lib.mjs';
import { dir, must } from './real.mjs';

export const home = (who) => ({ XDG_CONFIG_HOME: path.join(dir, who), XDG_CACHE_HOME: path.join(dir, who), XDG_STATE_HOME: path.join(dir, who, 'state') });
export const keys = (who) => path.join(dir, who, 'vram-llm/node');
export const desk = home('desk');
export const run = (who, ...args) => execFileSync(binary, args, { env: { ...process.env, ...home(who) }, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
export const said = (who, ...args) => { const r = spawnSync(binary, args, { env: { ...process.env, ...home(who) }, encoding: 'utf8' }); return { code: r.status, text: r.stdout + r.stderr }; };
export const token = (who) => /vram-node-[0-9a-f-]+/.exec(run(who, 'node', '--init', '--name', who))[0];

export const started = new Set();
process.on('exit', () => { for (const n of started) try { process.kill(-n.pid, 'SIGKILL'); } catch { } });
// Where a node runs: the address that it listens on, and the command by which a program is started there.
export const places = {};
const place = (who) => places[who] ?? { address: '127.0.0.1', enter: [] };
export async function node(who, ...args) {
  const log = path.join(dir, `node-${who}-${started.size}`);
  const fd = fs.openSync(log, 'w');
  const at = place(who), argv = [...at.enter, binary, 'node', '--name', who, '--listen', `${at.listen ?? at.address}:${node.ports?.[who] ?? 0}`, '--threads', '1', '--tensor-cache-gib', '0', ...args];
  const child = spawn(argv[0], argv.slice(1), { stdio: ['ignore', fd, fd], env: { ...process.env, ...home(who) }, detached: true });
  fs.closeSync(fd);
  started.add(child);
  const n = { pid: child.pid, text: () => fs.readFileSync(log, 'utf8') };
  n.port = Number(await eventually(() => n.text(), () => { must(child.exitCode === null, n.text()); return /port (\d+)/.exec(n.text())?.[1]; }));
  (node.ports ??= {})[who] = n.port; // the next of that name listens there, too
  n.signal = (name) => process.kill(-child.pid, name); // with all its processes
  n.kill = () => { if (started.delete(child)) n.signal('SIGKILL'); };
  return n;
}
export async function pair(who, ...args) {
  const word = token(who);
  const n = await node(who, ...args);
  n.token = word;
  run('desk', 'node', '--nodes', `${place(who).address}:${n.port}`, '--join', word);
  return n;
}
// A host so slow that a node is worth its link, however slow that seems on a busy machine.
export const weak = path.join(dir, 'weak.json');
fs.writeFileSync(weak, JSON.stringify({ host: { cpu: 'weak', ram_total_mib: 4096, ram_free_mib: 4096, bandwidth_gbs: 0.002, cores: 1 }, devices: [] }));
export const small = ['--reserve-mib', '1', '--n-ctx', '1024', '--n-ubatch', '64', '--flash-attn', 'on'];
export const body = { prompt: 'once upon a time there was a card', max_tokens: 24, temperature: 0, ignore_eos: true };

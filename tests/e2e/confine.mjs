// What a running server may do: the engine process is confined and no longer root, through restarts; keys are where nobody looks.
// All models here lie in a folder that only the user who runs the tests may enter (mkdtemp), as below /root.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, eventually } from './lib.mjs';
import { dir, done, machine, makeMmproj, makeModel, must, same, test, up } from './real.mjs';
import { tree } from '../../bench/procs.mjs';

const root = process.getuid() === 0;
const model = makeModel('model', '--layers', 4);
const draft = makeModel('draft', '--layers', 2);
const ask = { prompt: 'once', max_tokens: 8, temperature: 0, ignore_eos: true };

const childrenOf = (pid) => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
const cmdline = (pid) => { try { return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0'); } catch { return []; } };
const engineOf = (pid) => childrenOf(pid).find((p) => cmdline(p)[1] === 'engine-process');
const status = (file) => Object.fromEntries(fs.readFileSync(file, 'utf8').split('\n').map((l) => l.split(/:\s*/)));
const threads = (pid) => fs.readdirSync(`/proc/${pid}/task`).map((t) => status(`/proc/${pid}/task/${t}/status`));
const alive = (pid) => { try { return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')); } catch { return false; } };
const confinement = async (s) => (await s.get('/api/status')).engine.ready.confinement;

// Of every thread, what the engine itself says is in force.
async function check(s, user = 'nobody') {
  const said = await confinement(s), pid = engineOf(s.child.pid);
  must(pid && pid !== s.child.pid, 'no engine process');
  for (const [part, state] of Object.entries(said))
    if (state === 'unsupported' || state === 'refused') console.log(`  note: ${part} is ${state} on this machine`);
  same([said.no_new_privileges, said.no_core_dumps], ['in_force', 'in_force']);
  const all = threads(pid);
  must(all.length >= 3, `${all.length} threads`);
  for (const t of all) {
    same(t.NoNewPrivs, '1', 'NoNewPrivs');
    if (said.seccomp === 'in_force') same(t.Seccomp, '2', 'Seccomp');
    if (root && said.unprivileged_user === 'in_force') {
      const id = execFileSync('id', ['-u', user], { encoding: 'utf8' }).trim();
      same([t.Uid.split('\t'), t.CapPrm, t.CapEff], [[id, id, id, id], '0000000000000000', '0000000000000000'], 'still root');
    }
  }
  if (root && said.unprivileged_user === 'in_force') same(said.user, user);
  same(fs.readFileSync(`/proc/${pid}/limits`, 'utf8').match(/^Max core file size +(\S+) +(\S+)/m).slice(1, 3), ['0', '0'], 'core dumps');
  return pid;
}

await test('the engine process is confined, and is again after a restart', async () => {
  const s = await up(model);
  const first = (await s.post('/v1/completions', ask)).choices[0].text;
  const pid = await check(s);
  same(status(`/proc/${s.child.pid}/status`).NoNewPrivs, '1', 'the front');
  process.kill(pid, 'SIGKILL');
  await eventually('another engine', async () => { const { engine } = await s.get('/api/status'); return engine.starts === 2 && engine.ready; });
  must(await check(s) !== pid, 'the same process');
  same((await s.post('/v1/completions', ask)).choices[0].text, first);
  await s.stop();
});

await test('a model behind symbolic links, with a draft model, on virtual cards', async () => {
  // as in a Hugging Face cache
  for (const sub of ['blobs', 'snapshots/1']) fs.mkdirSync(path.join(dir, sub), { recursive: true });
  fs.copyFileSync(model, path.join(dir, 'blobs/abc'));
  fs.symlinkSync('../../blobs/abc', path.join(dir, 'snapshots/1/linked.gguf'));
  const s = await up(path.join(dir, 'snapshots/1/linked.gguf'), ['--draft', draft, '--machine', machine(400, 300), '--reserve-mib', '1']);
  await s.post('/v1/completions', ask);
  await check(s);
  await s.stop();
});

await test('so is every process below it, whatever is loaded: adapters, a projector, a draft model, prompts on disk', async () => {
  const shape = ['--layers', 2, '--embd', 128], cache = path.join(dir, 'prompts');
  const s = await up(makeModel('whole', ...shape), ['--lora', makeModel('adapter', ...shape, '--type', 'f32', '--lora', 4), '--mmproj', makeMmproj('eyes', '--width', 128), '--draft', makeModel('guess', '--layers', 1, '--embd', 64),
    '--cache-dir', cache, '--n-seq', '2', '--n-ctx', '1024']);
  await check(s);
  await s.post('/v1/completions', ask);
  await s.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 2, response_format: { type: 'json_object' } });
  const said = await confinement(s), [front, ...below] = tree(s.pid);
  must(below.length >= 4, `${below.length} processes`); // the engine, the preparer, two workers
  for (const p of below)
    for (const t of threads(p.pid)) {
      same(t.NoNewPrivs, '1', `NoNewPrivs of ${t.Name}`);
      if (said.seccomp === 'in_force') same(t.Seccomp, '2', `Seccomp of ${t.Name}`);
      if (root && said.unprivileged_user === 'in_force') same(t.CapEff, '0000000000000000', `capabilities of ${t.Name}`);
    }
  same(status(`/proc/${front.pid}/status`).NoNewPrivs, '1');
  await s.stop();
  must(fs.readdirSync(cache).length > 0, 'prompts are on disk');
});

await test('the engine ends with the front, also as another user', async () => {
  const s = await up(model);
  const pid = engineOf(s.child.pid);
  s.child.kill('SIGKILL');
  await eventually('the engine is gone', () => !alive(pid));
});

if (root) await test('another user, and root on request', async () => {
  const s = await up(model, ['--user', 'daemon']);
  await check(s, 'daemon');
  await s.stop();
  const r = await up(model, ['--user', 'root']);
  same((await confinement(r)).user, 'root');
  same(status(`/proc/${engineOf(r.child.pid)}/status`).NoNewPrivs, '1');
  await r.stop();
});

await test('VRAM_LLM_CONFINE=off', async () => {
  const s = await up(model, [], { VRAM_LLM_CONFINE: 'off' });
  await s.post('/v1/completions', ask);
  const t = status(`/proc/${engineOf(s.child.pid)}/status`);
  same([t.NoNewPrivs, t.Seccomp, (await confinement(s)).seccomp], ['0', '0', 'unused']);
  await s.stop();
  const doctor = execFileSync(binary, ['doctor'], { env: { ...process.env, VRAM_LLM_CONFINE: 'off' }, encoding: 'utf8' });
  must(/confinement +off: VRAM_LLM_CONFINE=off is set/.test(doctor), doctor);
  must(/confinement +.*no new privileges/.test(execFileSync(binary, ['doctor'], { encoding: 'utf8' })), 'doctor tells what is in force');
});

await test('a key from the environment or the command line is not left there', async () => {
  const key = 'a-secret-key-of-mine';
  for (const [args, env] of [[[], { VRAM_LLM_API_KEY: key }], [['--api-key', key], {}], [[`--api-key=${key}`], { VRAM_LLM_API_KEY: 'not-this-one' }]]) {
    const s = await up(model, args, env);
    const code = async (headers) => (await fetch(s.url + '/v1/models', { headers })).status;
    same([await code({}), await code({ 'x-api-key': 'xxxxxxxxxxxxxxxxxxxx' }), await code({ authorization: `Bearer ${key}` })], [401, 401, 200]);
    for (const pid of [s.child.pid, ...childrenOf(s.child.pid)])
      for (const file of root ? ['cmdline', 'environ'] : ['cmdline']) { // the kernel shows the latter to root alone
        const text = fs.readFileSync(`/proc/${pid}/${file}`, 'latin1');
        must(!text.includes(key) && !text.includes('not-this-one'), `${file} of ${cmdline(pid)}: ${text}`);
      }
    same(/--api-key: other users of this machine may see the key/.test(s.text()), args.length > 0, s.text());
    s.child.kill('SIGHUP'); // reads keys again
    await eventually('reloaded', () => /SIGHUP|reload/i.test(s.text()));
    same([await code({}), await code({ authorization: `Bearer ${key}` })], [401, 200]);
    await s.stop();
  }
});

done('confine');

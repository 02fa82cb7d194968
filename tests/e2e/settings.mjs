// `doctor` says which settings are in force and where each comes from: the system's file, the user's, one that is named, the environment.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, equal, ok, runAll, scratchFile, skip, test } from './lib.mjs';

const home = scratchFile('home'), user = path.join(home, '.config/vram-llm/config'), named = path.join(home, 'mine'), etc = path.join(home, 'etc');
const put = (file, text) => { fs.mkdirSync(path.dirname(file), { recursive: true }); fs.writeFileSync(file, text); };
put(user, '# mine\nn-ctx = 16384\n[serve]\nn-seq = 4\n');
put(named, 'cache-type-k = q8_0\n');
put(path.join(etc, 'vram-llm/config'), 'n-ctx = 8192\n');
for (const f of ['passwd', 'group', 'nsswitch.conf', 'ld.so.cache', 'localtime']) if (fs.existsSync(`/etc/${f}`)) fs.copyFileSync(`/etc/${f}`, path.join(etc, f));

const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(VRAM_LLM|HF|CURL|CUDA)_|^https_proxy$/.test(name)));
const environment = (more) => ({ ...clean, HOME: home, XDG_CONFIG_HOME: '', NO_COLOR: '1', ...more });
// The rows of its table, cells by two blanks or more.
const rows = (text) => { const lines = text.split('\n'), from = lines.findIndex((l) => /^ +setting +value/.test(l)); return from < 0 ? [] : lines.slice(from + 1).filter((l) => l.trim()).map((l) => l.trim().split(/ {2,}/)); };
const told = (json) => JSON.parse(json).settings.map((s) => [s.name, s.value, s.command ?? 'all commands', s.overridden_by ? `${s.source}; overridden by ${s.overridden_by}` : s.source]);
const overridden = ([name, value, command, source], by) => [name, value, command, `${source}; overridden by ${by}`];
const doctor = (args, env) => {
  const r = spawnSync(binary, ['doctor', '--json', ...args], { env: environment(env), encoding: 'utf8' });
  equal(r.status, 0, r.stderr);
  return told(r.stdout);
};
const mine = [['n-ctx', '16384', 'all commands', `${user}, line 2`], ['n-seq', '4', 'serve', `${user}, line 4`]];

test('the user’s file, one that is named, none', () => {
  equal(doctor([]), mine);
  equal(doctor(['--config', named]), [['cache-type-k', 'q8_0', 'all commands', `${named}, line 1`]]);
  equal(doctor(['--config', 'none']), []);
});

test('the environment comes last, and its variable is named', () => {
  equal(doctor([], { VRAM_LLM_N_CTX: '4096' }), [overridden(mine[0], 'VRAM_LLM_N_CTX'), mine[1], ['n-ctx', '4096', 'all commands', 'VRAM_LLM_N_CTX']]);
  equal(doctor(['--config', 'none'], { VRAM_LLM_API_KEY: 'secret-secret-secret' }), [], 'a key is not shown');
});

// In a name space of its own, where /etc is ours.
test('the system’s file comes first', () => {
  const r = spawnSync('unshare', [...(process.getuid() === 0 ? [] : ['-r']), '-m', 'sh', '-c', 'mount --bind "$0" /etc && exec "$1" doctor --json', etc, path.resolve(binary)], { env: environment(), encoding: 'utf8' });
  if (r.error || /unshare|mount/.test(r.stderr)) return skip;
  equal(told(r.stdout), [overridden(['n-ctx', '8192', 'all commands', '/etc/vram-llm/config, line 1'], mine[0][3]), ...mine]);
});

test('as a table for people', () => {
  const r = spawnSync(binary, ['doctor'], { env: environment(), encoding: 'utf8' });
  equal(rows(r.stdout), mine);
  const more = spawnSync(binary, ['doctor'], { env: environment({ VRAM_LLM_N_CTX: '4096', VRAM_LLM_N_SEQ: '2' }), encoding: 'utf8' });
  equal(rows(more.stdout), [overridden(mine[0], 'VRAM_LLM_N_CTX'), overridden(mine[1], 'VRAM_LLM_N_SEQ'), ['n-ctx', '4096', 'all commands', 'VRAM_LLM_N_CTX'], ['n-seq', '2', 'all commands', 'VRAM_LLM_N_SEQ']]);
});

test('one command’s setting does not override all commands’', () => {
  put(named, 'n-seq = 2\n[serve]\nn-seq = 4\n');
  equal(doctor(['--config', named]), [['n-seq', '2', 'all commands', `${named}, line 1`], ['n-seq', '4', 'serve', `${named}, line 3`]]);
});

test('variables that are no option’s; secrets are not shown', () => {
  const secret = 'hf_0123456789abcdef', env = environment({ HF_ENDPOINT: 'https://hub.example', HF_TOKEN: secret, VRAM_LLM_API_KEY: secret, https_proxy: `http://me:${secret}@proxy.example` });
  const text = spawnSync(binary, ['doctor', '--config', 'none'], { env, encoding: 'utf8' }).stdout, json = spawnSync(binary, ['doctor', '--config', 'none', '--json'], { env, encoding: 'utf8' }).stdout;
  equal(rows(text), [['HF_TOKEN', '(not shown)', '-', 'environment'], ['HF_ENDPOINT', 'https://hub.example', '-', 'environment'], ['https_proxy', '(not shown)', '-', 'environment'], ['VRAM_LLM_API_KEY', '(not shown)', '-', 'environment']]);
  equal(JSON.parse(json).environment, { HF_TOKEN: null, HF_ENDPOINT: 'https://hub.example', https_proxy: null, VRAM_LLM_API_KEY: null });
  ok(!text.includes(secret) && !json.includes(secret), 'a secret is shown');
});

test('a file that makes no sense is named with its line', () => {
  for (const [text, why] of [['n-ctx\n', /line 1: a setting is written NAME = VALUE/], ['\n[fly]\n', /line 2: the section \[fly\] does not name a command/], ['what = 1\n', /what/], ['n-ctx = many\n', /many/], ['\nreserve-mib = many\n', /line 2: --reserve-mib: 'many' is not/]]) {
    put(named, text);
    const r = spawnSync(binary, ['plan', '--config', named, '--gpus', 'RTX 3090'], { env: environment(), encoding: 'utf8' });
    ok(r.status === 2 && why.test(r.stderr) && r.stderr.includes(named), `${JSON.stringify(text)}: ${r.status} ${r.stderr}`);
  }
});

test('what is wrong with a value is said of the place that set it', () => {
  put(named, 'reserve-mib = many\n');
  const plan = (args, env) => spawnSync(binary, ['plan', '--config', named, '--gpus', 'RTX 3090', ...args], { env: environment(env), encoding: 'utf8' });
  equal(plan([], { VRAM_LLM_RESERVE_MIB: 'few' }).stderr.split(': ').slice(1, 4), ['VRAM_LLM_RESERVE_MIB', '--reserve-mib', "'few' is not a number of MiB, like 512\n"]);
  ok(/^vram-llm: --reserve-mib: 'none'/.test(plan(['--reserve-mib', 'none']).stderr), 'the command line is no place');
  equal(plan(['--reserve-mib', '512']).status, 0);
});

test('a variable that no setting has is named, and not its value', () => {
  const env = environment({ VRAM_LLM_NCTX: 'secret', VRAM_LLM_N_CTX: '4096', VRAM_LLM_CONFINE: 'off', VRAM_LLM_EMPTY: '' });
  equal(rows(spawnSync(binary, ['doctor', '--config', 'none'], { env, encoding: 'utf8' }).stdout).at(-1), ['VRAM_LLM_NCTX', '(not shown)', '-', 'environment; no setting has this name']);
  const json = spawnSync(binary, ['doctor', '--config', 'none', '--json'], { env, encoding: 'utf8' }).stdout;
  equal(JSON.parse(json).unknown_variables, ['VRAM_LLM_NCTX']);
  ok(!json.includes('secret'), json);
});

await runAll('settings');

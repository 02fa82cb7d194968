// Models beside each other, by plans alone: who leaves for whom (load-plan, which `serve` starts), and `plan --together`. Nothing is loaded.
// bench/beside has random sets of models and cards.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary, build, equal, ok, runAll, scratchFile, test } from './lib.mjs';

execFileSync('tools/stretch', [path.join(build, 'models')]);
const at = (name) => path.join(build, 'models', `${name}.gguf`);
const small = at('Meta-Llama-3.1-8B-Instruct-Q4_K_M'), moe = at('Qwen3-30B-A3B-Q4_K_M'), gemma = at('gemma-3-27b-it-q4_0'), large = at('Llama-3.3-70B-Instruct-Q4_K_M');
const GIB = 1073741824;
const env = { ...process.env, XDG_STATE_HOME: '/nonexistent', XDG_CONFIG_HOME: '/nonexistent' };

function run(args, input = '') {
  const r = spawnSync(binary, args, { input, env, maxBuffer: 1 << 26 });
  return { status: r.status, out: r.stdout.toString(), err: r.stderr.toString() };
}
// What serve would be told: {evict, devices: {id: bytes}, host} or {error}
function newcomer(model, cards, residents, more = []) {
  const r = run(['load-plan', model, ...cards, ...more], JSON.stringify({ devices: {}, residents }));
  if (r.status) return { status: r.status, error: JSON.parse(r.out).error };
  const j = JSON.parse(r.out), h = j.plan.host;
  return {
    evict: j.evict, tok_s: j.plan.predicted.decode_tok_s, free: Object.fromEntries(j.devices.map((d) => [d.key, d.free_bytes])),
    devices: Object.fromEntries(j.devices.filter((d) => d.name).map((d) => [d.key, d.model_bytes + d.context_bytes + d.compute_bytes])),
    host: h.model_bytes + h.context_bytes + h.compute_bytes,
  };
}
const resident = (model, devices, more = {}) => ({ model, pinned: false, busy: false, cost_s: 5, last_used_s: 60, devices, host: 0, ...more });
const two = ['--gpus', '2x RTX 3090'];

test('a model moves in beside others where it is as fast', () => {
  const r = newcomer(moe, two, [resident('a', { CUDA0: 3 * GIB })]);
  equal([r.evict, Object.keys(r.devices)], [[], ['CUDA1']]);
});
test('the cheapest of those that would do leaves', () => {
  const both = (a, b) => newcomer(moe, two, [resident('a', { CUDA0: 16 * GIB }, a), resident('b', { CUDA1: 16 * GIB }, b)]);
  equal(both({ cost_s: 3 }, {}).evict, ['a']);
  equal(both({}, { cost_s: 3 }).evict, ['b']);
  equal(both({}, { last_used_s: 3600 }).evict, ['b'], 'by its last use');
  equal(both({ pinned: true }, { cost_s: 100 }).evict, ['b'], 'not a pinned one');
  equal(both({ busy: true }, { cost_s: 100 }).evict, ['b'], 'not a busy one');
});
test('four of eight leave, and no more', () => {
  const r = newcomer(moe, two, Array.from({ length: 8 }, (_, i) => resident(`m${i}`, { [`CUDA${i % 2}`]: Math.round((4.8 - i / 10) * GIB) }, { last_used_s: 100 * i })));
  equal(r.evict, ['m4', 'm5', 'm6', 'm7']);
});
test('what stands in the way is named', () => {
  const all = ['--n-gpu-layers', '81'];
  const r = newcomer(large, two, [resident('a', { CUDA0: 12 * GIB }, { busy: true }), resident('b', { CUDA1: 14 * GIB }, { pinned: true })], all);
  equal([r.status, r.error.kind], [4, 'does_not_fit']);
  ok(r.error.message.includes("does not fit beside models that cannot be unloaded now: 'a' is busy, 'b' is pinned"), r.error.message);
  equal(r.error.in_the_way, [{ kind: 'busy', model: 'a', bytes: 12 * GIB }, { kind: 'pinned', model: 'b', bytes: 14 * GIB }], 'as data');
  const alone = newcomer(large, ['--gpus', 'RTX 3060 12GB'], [resident('a', { CUDA0: GIB })], ['--n-gpu-layers', '81']);
  ok(alone.status === 4 && !alone.error.message.includes("'a'"), JSON.stringify(alone));
  const nonsense = run(['load-plan', small, ...two], JSON.stringify({ devices: {}, residents: [{ model: 7 }] }));
  ok(nonsense.status === 2 && nonsense.err.includes('the models that are loaded cannot be read'), nonsense.err);
});
test('host memory counts', () => {
  const machine = ['--machine', 'tests/fixtures/rigs/3060-12g-64g-ram.json'];
  const host = newcomer(large, machine, []).host;
  ok(host > 25 * GIB, 'most of it is on the host');
  equal(newcomer(large, machine, [resident('a', {}, { host: 55 * GIB })]).evict, ['a']);
  equal(newcomer(large, machine, [resident('a', {}, { host: 5 * GIB })]).evict, []);
});
test('without a device a model that exceeds the memory is mapped, and whoever may leaves', () => {
  const machine = scratchFile('machine.json');
  fs.writeFileSync(machine, JSON.stringify({ host: { ram_total_mib: 8192, ram_free_mib: 8192, bandwidth_gbs: 20, cores: 4 }, devices: [] }));
  const r = run(['load-plan', large, '--machine', machine], JSON.stringify({ devices: {}, residents: [resident('a', {}, { host: GIB }), resident('b', {}, { host: GIB, pinned: true })] }));
  ok(r.status === 0 && JSON.parse(r.out).evict.join() === 'a' && r.err.includes('there is no plan'), r.out + r.err);
});
test('plan --together: text, JSON, and what it refuses', () => {
  const cards = ['--gpus', 'RTX 3090, RTX 3060 12GB'];
  const text = run(['plan', moe, small, '--together', ...cards]);
  ok(text.status === 0 && text.out.includes('Both models can be loaded at once') && text.out.includes('no other order'), text.out + text.err);
  const j = JSON.parse(run(['plan', small, moe, '--together', '--json', ...cards]).out);
  ok(j.exact && j.together.every((m) => m.resident && m.slower_percent < 5), JSON.stringify(j.together));
  const tight = JSON.parse(run(['plan', small, gemma, large, '--together', '--json', '--gpus', 'RTX 3090', '--ram-mib', '4096']).out);
  equal(tight.together.map((m) => m.resident), [true, true, false]);
  ok(tight.together[2].alone_tok_s === null && tight.together[2].reason.includes('does not fit'), JSON.stringify(tight.together[2]));
  const presets = scratchFile('presets.ini');
  fs.writeFileSync(presets, `[*]\nctx-size = 8192\n[big]\nmodel = ${moe}\n[little]\nmodel = ${small}\nc = 2048\ndevice = CUDA1\n`);
  const p = JSON.parse(run(['plan', '--preset', presets, '--together', '--json', ...cards]).out);
  equal(p.together.map((m) => [m.name, m.devices.map((d) => d.id).join()]), [['big', 'CUDA0'], ['little', 'CUDA1']], 'with their options');
  for (const [args, why] of [[['plan', small, '--preset', presets, '--together'], 'not both'], [['plan', '--preset', presets], '--together plans several'], [['plan', small, moe], '--together plans several'], [['plan', '--together'], 'needs the models'],
    [['plan', small, '--together', '--svg', 'x.svg'], 'leave out --together'], [['analyze', small, moe], 'takes one model'],
    [['plan', ...Array(9).fill(small), '--together'], '8 models at most']]) {
    const r = run([...args, ...cards]);
    ok(r.status === 2 && r.err.includes(why), r.err);
  }
});

await runAll('beside');

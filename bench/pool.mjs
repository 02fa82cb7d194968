// One pool of context beside fixed slots: processor time for a token with 32, 8 and 1 streams, in turns. Slots that are idle keep what they
// know, so the pool is full when few compute.
//   VR_BUILD=build node bench/pool.mjs [ROUNDS (3)]
import { median, random } from './client.mjs';
import { cpu_ms } from './procs.mjs';
import { makeModel, up } from '../tests/e2e/real.mjs';

const ROUNDS = Number(process.argv[2] ?? 3), SEQ = 32, PROMPT = 256, SAY = 64;
const model = makeModel('pool', '--layers', 6, '--embd', 256, '--ff', 512, '--type', 'f16');
const r = random(1), ways = { slots: [], pool: ['--kv-unified'] };
const servers = {};
for (const [name, args] of Object.entries(ways)) servers[name] = await up(model, ['--gpus', 'none', '--n-seq', SEQ, '--n-ctx', SEQ * 512, ...args].map(String));

const ask = (s) => s.post('/v1/completions', { prompt: Array.from({ length: PROMPT }, () => r.below(500)), max_tokens: SAY, temperature: 0, ignore_eos: true });
async function measure(s, n) {
  const before = cpu_ms(s.pid);
  await Promise.all(Array.from({ length: n }, () => ask(s)));
  return (cpu_ms(s.pid) - before) / (n * SAY);
}

const got = { 32: [], 8: [], 1: [] };
for (const s of Object.values(servers)) await measure(s, SEQ);
for (let i = 0; i < ROUNDS; i++)
  for (const n of [32, 8, 1]) {
    const each = {};
    for (const name of i % 2 ? ['slots', 'pool'] : ['pool', 'slots']) each[name] = await measure(servers[name], n);
    got[n].push(each);
  }
console.log(`CPU ms for a token of text, with its share of ${PROMPT / SAY} tokens of prompt; median of ${ROUNDS}`);
console.log('streams    slots     pool    pool / slots');
for (const n of [1, 8, 32]) {
  const of = (f) => median(got[n].map(f)).toFixed(2).padStart(8);
  console.log(`${String(n).padStart(7)} ${of((x) => x.slots)} ${of((x) => x.pool)} ${of((x) => x.pool / x.slots)}`);
}
for (const s of Object.values(servers)) await s.stop();

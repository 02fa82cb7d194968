// Random plans with someone who guesses (an MTP head, a draft model, an EAGLE-3, DFlash or DSpark head, a Gemma 4 assistant, n-grams with their earlier states), executed on virtual cards that have not a
// byte more than they say: what is loaded is what was planned, no card holds more than its budget, and streams that guess do not change that. Cards
// are small enough for most models to be spread, or partly on the host. PLANS=1000 SEED=1 makes more of them (1.5 s of processor time each).
import { done, machine, makeModel, must, same, test, up } from './real.mjs';

const n_plans = Number(process.env.PLANS ?? 6), seed = Number(process.env.SEED ?? 1);
let state = seed >>> 0;
const draw = (n) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0, Math.floor(state / 2 ** 32 * n));
const any = (list) => list[draw(list.length)];

const headed = [['--layers', 9, '--embd', 256, '--ff', 1024], ['--layers', 6, '--embd', 128], ['--layers', 12, '--embd', 384, '--heads', 6, '--type', 'q8_0', '--vocab', 4096]]
  .map((shape, i) => makeModel(`headed-${i}`, '--arch', 'qwen35', '--mtp', 1, '--calm', ...shape));
const plain = [['--layers', 12, '--embd', 384, '--ff', 768, '--heads', 6], ['--layers', 16, '--embd', 256, '--ff', 512, '--experts', 8], ['--layers', 8, '--embd', 256, '--arch', 'gemma3']]
  .map((shape, i) => makeModel(`plain-${i}`, '--calm', ...shape));
const drafts = [['--layers', 1], ['--layers', 3, '--embd', 256, '--type', 'q8_0']].map((shape, i) => makeModel(`draft-${i}`, '--calm', ...shape));

const eagles = [ // and the model of each
  [plain[0], '--layers', 12, '--embd', 384, '--heads', 6, '--kv', 6, '--known', 300], [plain[1], '--layers', 16, '--embd', 256, '--kv', 4, '--own-input', '--type', 'q8_0'], [headed[0], '--layers', 9, '--embd', 256, '--kv', 4],
].map(([model, ...shape], i) => [model, makeModel(`eagle-${i}`, '--arch', 'eagle3', '--calm', ...shape)]);
const gemmas = [['--layers', 12, '--embd', 256, '--window', 64], ['--layers', 9, '--embd', 384, '--kv', 1, '--shared-kv', 3, '--type', 'q8_0', '--vocab', 4096]]
  .map((shape, i) => [makeModel(`gemma-${i}`, '--arch', 'gemma4', '--calm', '--family', ...shape), makeModel(`assistant-${i}`, '--arch', 'gemma4-assistant', '--calm', '--family', ...shape)]);

const sparks = [[plain[0], '--layers', 12, '--embd', 384, '--heads', 6, '--markov', 32], [headed[0], '--layers', 9, '--embd', 256, '--markov', 64, '--own-input', '--known', 300]]
  .map(([model, ...shape], i) => [model, makeModel(`spark-${i}`, '--arch', 'dflash', '--calm', ...shape)]);
const blocks = [[plain[0], '--layers', 12, '--embd', 384, '--heads', 6], [plain[1], '--layers', 16, '--embd', 256, '--own-input', '--known', 300], [headed[0], '--layers', 9, '--embd', 256, '--type', 'q8_0']]
  .map(([model, ...shape], i) => [model, makeModel(`block-${i}`, '--arch', 'dflash', '--calm', ...shape)]);

function randomPlan() {
  const kind = any(['mtp', 'mtp', 'draft', 'draft', 'eagle3', 'assistant', 'eagle3', 'assistant', 'dflash', 'dspark', 'ngram']), [target, eagle] = kind === 'eagle3' ? any(eagles) : kind === 'dflash' ? any(blocks) : kind === 'dspark' ? any(sparks) : kind === 'assistant' ? any(gemmas) : [];
  const model = target ?? (kind === 'mtp' ? any(headed) : kind === 'draft' ? any(plain) : any([...headed, ...plain]));
  const args = ['--machine', machine(...Array.from({ length: 1 + draw(4) }, () => 10 + draw(50))), '--reserve-mib', '1', '--host-weights', 'pinned', '--n-ctx', any([512, 1024, 3000, 4096]),
    '--n-seq', any(kind === 'dspark' ? [1, 2, 3, 4] : [1, 1, 2, 3, 4, 6]), '--n-ubatch', any([32, 64, 128, 512]), '--n-draft', 1 + draw(7), ...(kind === 'draft' ? ['--draft', any(drafts)] : ['--spec', kind]), ...(eagle ? ['--draft', eagle] : [])];
  const cache = any(['f16', 'f16', 'q8_0', 'f32']);
  args.push('--cache-type-k', cache, '--cache-type-v', cache, '--flash-attn', cache === 'q8_0' ? 'on' : any(['on', 'off']));
  return { kind, model, args: args.map(String) };
}

const sum = (list, what) => list.reduce((n, x) => n + (x?.[what] ?? 0), 0), parts = ['model_bytes', 'context_bytes', 'compute_bytes'];
const held = (ready, name) => [ready, { ...ready.head, devices: ready.head?.devices.map((d) => ({ ...d, model_bytes: 0 })) }, ready.draft] // the head's weights are the model's
  .map((x) => x?.devices?.find((d) => d.name === name));
function check(plan, ready, what) {
  const draft = plan.companions?.find((c) => c.id === 'draft');
  for (const d of plan.devices) {
    const there = held(ready, d.id), mine = draft?.device === d.id ? draft : null;
    for (const part of parts) same(sum(there, part), d[part] + (mine?.[part] ?? 0), `${d.id}, ${part}`);
    const all = parts.reduce((n, part) => n + sum(there, part), 0);
    must(all <= d.free_bytes - d.reserve_bytes, `${what}: ${all} bytes on ${d.id}, which may hold ${d.free_bytes - d.reserve_bytes}`);
  }
}

let executed = 0, refused = 0, spread = 0, guessed = 0;
for (let i = 0; i < n_plans; i++) {
  const { kind, model, args } = randomPlan();
  const run = async () => {
    let s;
    try {
      s = await up(model, args);
    } catch (e) { // it does not fit, and says so
      must(/fit/.test(e.message) && !/out of memory/.test(e.message), e.message);
      refused++;
      return;
    }
    const plan = await s.get('/api/plan');
    check(plan, (await s.get('/api/status')).engine.ready, args.join(' '));
    await Promise.all([1, 2].map((k) => s.post('/v1/completions', { prompt: `${k} and once more and once more and once`, max_tokens: 24, temperature: 0, ignore_eos: true })));
    const { engine } = await s.get('/api/status');
    same(engine.starts, 1, 'it was started again');
    guessed += await s.metric('drafted_tokens_total');
    await s.stop();
    executed++;
    spread += plan.devices.length > 1 || plan.host.n_layers > 0;
  };
  if (n_plans <= 20) await test(`${i}: ${kind}`, run);
  else try { await run(); } catch (e) { await test(`${i}: ${kind} ${args.join(' ')}`, () => { throw e; }); }
}
await test(`${executed} executed, ${refused} did not fit, ${spread} over several devices, ${guessed} guesses`, async () => {
  must(executed > n_plans / 3 && spread > 0 && guessed > 0, 'nothing was tested');
});
done('guess_plans');

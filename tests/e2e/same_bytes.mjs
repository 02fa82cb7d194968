// What was proven is what is loaded: the bytes of `plan --json`, of GET /api/plan and of the load itself, executing on virtual cards, are
// equal for each device and each kind, whatever the options. (tests/unit/test_engine_params.c does the same for large models, whose
// weights nobody has here, with dry runs of the message that the engine would get.)
import { execFileSync } from 'node:child_process';
import { binary } from './lib.mjs';
import { done, machine, machineWith, makeMmproj, makeModel, same, test, up } from './real.mjs';

const dense = makeModel('dense', '--layers', 12, '--embd', 384, '--ff', 768, '--heads', 6, '--kv', 2);
const moe = makeModel('moe', '--layers', 16, '--embd', 256, '--ff', 512, '--experts', 8, '--used', 2);
const small = makeModel('small', '--layers', 2);
const wide = makeModel('wide', '--layers', 4, '--embd', 256, '--ff', 1024, '--vocab', 16384);
const embedding = makeModel('embedding', '--layers', 8, '--embd', 256, '--ff', 1024, '--embedding');
const ranker = makeModel('ranker', '--arch', 'qwen3', '--layers', 8, '--embd', 256, '--rerank', 'none');
const adapter = makeModel('adapter', '--layers', 12, '--embd', 384, '--ff', 768, '--lora', 16);
const adapter2 = makeModel('adapter2', '--layers', 12, '--embd', 384, '--ff', 768, '--lora', 8, '--type', 'f32');
const adapter3 = makeModel('adapter3', '--layers', 16, '--embd', 256, '--ff', 512, '--experts', 8, '--used', 2, '--lora', 8);
const seer = makeModel('seer', '--layers', 6, '--embd', 64, '--arch', 'qwen2vl');
const guesser = makeModel('guesser', '--arch', 'qwen35', '--mtp', 1, '--layers', 9, '--embd', 256, '--ff', 1024);
const quad = ['--layers', 6, '--embd', 256, '--ff', 512, '--heads', 4, '--kv', 4, '--vocab', 2048];
const target = makeModel('target', ...quad), eagle = makeModel('eagle', ...quad, '--arch', 'eagle3', '--known', 1000), eagle_own = makeModel('eagle_own', ...quad, '--arch', 'eagle3', '--own-input', '--type', 'q8_0');
const eagle_shared = makeModel('eagle_shared', ...quad, '--arch', 'eagle3', '--shared-output'), dflash = makeModel('dflash', ...quad, '--arch', 'dflash'), dflash_own = makeModel('dflash_own', ...quad, '--arch', 'dflash', '--own-input', '--own-output', '--type', 'q8_0');
const dspark = makeModel('dspark', ...quad, '--arch', 'dflash', '--markov', 64), dspark_own = makeModel('dspark_own', ...quad, '--arch', 'dflash', '--markov', 32, '--known', 1000, '--type', 'q8_0', '--own-input');
const g4 = ['--layers', 9, '--embd', 256, '--ff', 512, '--heads', 4, '--kv', 2, '--vocab', 2048, '--window', 128], gemma = makeModel('gemma', ...g4, '--arch', 'gemma4'), assistant = makeModel('assistant', ...g4, '--arch', 'gemma4-assistant');
const gemma_shared = makeModel('gemma_shared', ...g4, '--arch', 'gemma4', '--shared-kv', 3, '--type', 'q8_0');
const mmproj = makeMmproj('mmproj', '--width', 64);

const three = ['--machine', machine(24, 18, 22), '--reserve-mib', '1'];
const tight = ['--machine', machine(30, 24, 26), '--reserve-mib', '1'];
const roomy = ['--machine', machine(400, 300), '--reserve-mib', '1'];
const poor = ['--machine', machineWith(60, 36, 28), '--reserve-mib', '1', '--n-ctx', '16384', '--n-ubatch', '32']; // for a cache of 96 MiB as f16
const none = ['--machine', machine()]; // and not this computer, whose free memory changes
const rows = {
  'three cards': [dense, three],
  'a token per sequence is more than a batch': [dense, [...three, '--n-seq', '8', '--n-batch', '4', '--n-ubatch', '64']],
  'four sequences, a quantized cache': [dense, [...three, '--n-seq', '4', '--cache-type-k', 'q8_0', '--cache-type-v', 'q4_0', '--flash-attn', 'on']],
  'batches of several micro-batches': [dense, [...roomy, '--n-batch', '512', '--n-ubatch', '64']],
  'no flash attention': [dense, [...three, '--flash-attn', 'off', '--n-ubatch', '32']],
  'a split as given': [dense, ['--machine', machine(50, 60, 40), '--reserve-mib', '1', '--tensor-split', '0.2,0.5,0.3']],
  'one card of several': [dense, [...roomy, '--split-mode', 'none']],
  'some layers on the host': [dense, [...roomy, '--n-gpu-layers', '9', '--n-ubatch', '64']],
  'more than the cards hold': [moe, [...tight, '--n-ubatch', '64']],
  'experts sent to the host by name': [moe, [...roomy, '--override-tensor', 'blk.[0-7].ffn_.*_exps=CPU', '--n-seq', '2']],
  "llama.cpp's own fit": [dense, [...roomy, '--use-fit-params']],
  'a large vocabulary, few rows of logits': [wide, [...roomy, '--n-seq', '3']],
  'embeddings of a text model': [wide, [...roomy, '--embeddings']],
  'a model for embeddings': [embedding, [...roomy, '--n-batch', '64']],
  'a model for reranking': [ranker, [...roomy, '--n-seq', '2']],
  'a model for embeddings, on the host': [embedding, [...none, '--n-seq', '2']],
  'a draft model': [dense, [...roomy, '--draft', small, '--n-seq', '6', '--cache-type-k', 'q8_0', '--cache-type-v', 'q8_0']],
  'two LoRA adapters on three cards': [dense, ['--machine', machine(26, 20, 24), '--reserve-mib', '1', '--lora', `${adapter},${adapter2}:0.5`]],
  'a LoRA adapter, some layers on the host': [dense, [...roomy, '--n-gpu-layers', '9', '--n-ubatch', '64', '--lora', adapter]],
  'a LoRA adapter on the host alone': [dense, [...none, '--n-ubatch', '64', '--lora', adapter]],
  'a LoRA adapter of experts, half of which are on the host': [moe, [...roomy, '--override-tensor', 'blk.[0-7].ffn_.*_exps=CPU', '--n-ubatch', '64', '--lora', adapter3]],
  'a LoRA adapter beside a draft model, four sequences': [dense, [...roomy, '--draft', small, '--n-seq', '4', '--n-ubatch', '64', '--lora', adapter2]],
  'an MTP head, three sequences': [guesser, [...roomy, '--spec', 'mtp', '--n-seq', '3']],
  'an MTP head, cards that are nearly full': [guesser, [...tight, '--spec', 'mtp', '--n-ubatch', '64']],
  'an MTP head, a part of every layer on two cards': [makeModel('split', '--arch', 'qwen35', '--mtp', 1, '--layers', 6, '--embd', 512, '--heads', 8, '--kv', 2, '--ff', 1024), ['--machine', machine(200, 200), '--reserve-mib', '1', '--spec', 'mtp', '--split-mode', 'tensor', '--n-ubatch', '128']],
  'an MTP head on the host': [guesser, [...none, '--spec', 'mtp', '--n-ubatch', '64']],
  'earlier states for guesses from the text': [guesser, [...roomy, '--spec', 'ngram', '--n-draft', '5', '--n-seq', '2', '--flash-attn', 'off']],
  'a vision projector': [seer, [...roomy, '--mmproj', mmproj]],
  'a cache that --allow made smaller': [dense, [...poor, '--allow', 'kv']],
  'micro-batches that the planner chooses, weights on the host': [moe, [...tight, '--n-ctx', '8192']],
  'micro-batches for long prompts': [small, [...roomy, '--n-ctx', '8192', '--n-prompt', '8192']],
  'a large micro-batch': [moe, [...tight, '--n-ubatch', '1024']],
  'small batches with the weights on the host': [moe, [...tight, '--n-ubatch', '256', '--offload-min-batch', '128']],
  'all prompts with the weights on the host': [moe, [...tight, '--n-ubatch', '256', '--offload-min-batch', '1024']],
  'weights sent for two tokens': [dense, [...roomy, '--n-gpu-layers', '9', '--n-seq', '4', '--offload-min-batch', '2']],
  'planned for prompts': [moe, [...tight, '--optimize', 'prefill', '--n-ctx', '4096']],
  'an EAGLE-3 head': [target, [...roomy, '--draft', eagle]],
  'an EAGLE-3 head, few and small batches': [target, [...three, '--draft', eagle_own, '--n-seq', '6', '--n-batch', '32', '--n-ubatch', '16']],
  'an EAGLE-3 head, no flash attention': [target, ['--machine', machine(60, 50), '--reserve-mib', '1', '--draft', eagle, '--flash-attn', 'off', '--n-seq', '4', '--n-batch', '2048', '--n-ubatch', '512']],
  'an EAGLE-3 head of a hybrid model': [makeModel('hybrid', '--arch', 'qwen35', '--layers', 9, '--embd', 256, '--ff', 1024, '--vocab', 2048), [...roomy, '--draft', eagle, '--n-seq', '2']],
  'an EAGLE-3 head, some layers on the host': [target, [...roomy, '--draft', eagle_own, '--n-gpu-layers', '4', '--n-ubatch', '64']],
  'an EAGLE-3 head, the host alone': [target, [...none, '--draft', eagle, '--n-seq', '3', '--n-ubatch', '256']],
  'a Gemma 4 assistant': [gemma, [...roomy, '--draft', assistant]],
  'a Gemma 4 assistant, six sequences, two cards': [gemma, ['--machine', machine(60, 60), '--reserve-mib', '1', '--draft', assistant, '--n-seq', '6', '--n-ctx', '12288', '--n-ubatch', '64']],
  'a Gemma 4 assistant, cards that are nearly full': [gemma, [...three, '--draft', assistant, '--n-ubatch', '64', '--n-ctx', '8192']],
  'a Gemma 4 assistant, three equal cards, no flash attention': [gemma, ['--machine', machine(20, 20, 20), '--reserve-mib', '1', '--draft', assistant, '--n-ubatch', '64', '--flash-attn', 'off', '--n-seq', '3']],
  'a Gemma 4 assistant, a quantized cache': [gemma_shared, [...roomy, '--draft', assistant, '--n-seq', '2', '--cache-type-k', 'q8_0', '--cache-type-v', 'q4_0', '--flash-attn', 'on']],
  'a Gemma 4 assistant, six sequences, a quantized cache': [gemma, [...roomy, '--draft', assistant, '--n-seq', '6', '--n-ubatch', '32', '--n-ctx', '6144', '--cache-type-k', 'q8_0', '--cache-type-v', 'q8_0', '--flash-attn', 'on']],
  'a DFlash head, six sequences': [target, [...roomy, '--draft', dflash, '--n-seq', '6', '--n-ctx', '6144']],
  'a Gemma 4 assistant, some layers on the host': [gemma_shared, [...roomy, '--draft', assistant, '--n-gpu-layers', '7', '--n-ubatch', '64', '--n-seq', '2']],
  'a Gemma 4 assistant, the host alone': [gemma, [...none, '--draft', assistant, '--n-seq', '3', '--n-ubatch', '256']],
  "an EAGLE-3 head that uses the model's output": [target, [...roomy, '--draft', eagle_shared, '--n-seq', '2']],
  'the same, three equal cards': [target, ['--machine', machine(16, 16, 16), '--reserve-mib', '1', '--draft', eagle_shared, '--n-ubatch', '64', '--n-ctx', '2048']],
  'the same, the host alone': [target, [...none, '--draft', eagle_shared]],
  'a DFlash head': [target, [...roomy, '--draft', dflash, '--n-seq', '2']],
  'a DFlash head, three equal cards, small batches': [target, ['--machine', machine(16, 16, 16), '--reserve-mib', '1', '--draft', dflash, '--n-ubatch', '16', '--n-batch', '32', '--n-seq', '4', '--n-ctx', '2048']],
  'a DFlash head with all of its own, no flash attention': [target, [...three, '--draft', dflash_own, '--n-seq', '4', '--flash-attn', 'off', '--n-ubatch', '64']],
  'a DFlash head, some layers on the host': [target, [...roomy, '--draft', dflash, '--n-gpu-layers', '4', '--n-ubatch', '64']],
  'a DFlash head, all layers on the host': [target, [...roomy, '--draft', dflash, '--n-gpu-layers', '0', '--n-ubatch', '64']],
  'a DFlash head, the host alone': [target, [...none, '--draft', dflash, '--n-seq', '3', '--n-ubatch', '256']],
  'a DSpark head, four sequences': [target, [...roomy, '--draft', dspark, '--n-seq', '4']],
  'a DSpark head, six sequences in one cache, guesses for a whole block': [target, [...roomy, '--draft', dspark, '--n-seq', '6', '--kv-unified', '--n-draft', '8', '--n-ctx', '6144']],
  'a DSpark head with an output of its own, small batches': [target, [...three, '--draft', dspark_own, '--n-seq', '2', '--n-ubatch', '6', '--n-batch', '6']],
  'a DSpark head, the host alone': [target, [...none, '--draft', dspark, '--n-seq', '3', '--n-ubatch', '256']],
  'the host alone': [dense, [...none, '--n-seq', '2', '--n-ubatch', '64']],
};

const kinds = (u) => ['model_bytes', 'context_bytes', 'compute_bytes'].map((k) => u[k]);
const by_device = (list, name) => Object.fromEntries(list.map((d) => [d[name], kinds(d)]).filter(([, b]) => b.some((x) => x)).sort());
const bytes_of_plan = (p) => ({ devices: by_device(p.devices, 'id'), host: kinds(p.host) });
// the MTP head's context is a second one over the same weights
const beside = (u, v) => ({ ...u, context_bytes: u.context_bytes + (v?.context_bytes ?? 0), compute_bytes: u.compute_bytes + (v?.compute_bytes ?? 0) });
const bytes_of_load = (r) => ({ devices: by_device(r.devices.map((d) => beside(d, r.head?.devices.find((h) => h.name === d.name))), 'name'), host: kinds(beside(r.host, r.head?.host)) });
// what neither a placement nor a setting is: when it was made, and how long that took
const settled = ({ plan_ms, ...plan }) => plan;

async function check(model, args) {
  const all = ['--n-ctx', '1024', ...args];
  const plan = JSON.parse(execFileSync(binary, ['plan', '--json', '--threads', '1', ...all, model], { stdio: ['ignore', 'pipe', 'pipe'] }));
  const server = await up(model, all);
  const served = await server.get('/api/plan'), { ready } = (await server.get('/api/status')).engine;
  await server.stop();
  same(settled(served), settled(plan), 'GET /api/plan and plan --json');
  return { plan, ready };
}

for (const [name, [model, args]] of Object.entries(rows))
  await test(name, async () => {
    const { plan, ready } = await check(model, ['--host-weights', 'pinned', ...args]);
    same(plan.goal.mmap, false, 'pinned');
    same(bytes_of_load(ready), bytes_of_plan(plan), 'loaded and planned');
    const draft = plan.companions?.find((c) => c.id === 'draft');
    if (!draft) return;
    const there = draft.device === 'host' ? ready.draft.host : ready.draft.devices.find((d) => d.name === draft.device);
    same(kinds(there), kinds(draft), 'the draft');
    if (draft.device !== 'host') same(kinds(ready.draft.host).reduce((a, b) => a + b), draft.host_bytes, 'the draft on the host');
  });

// The host's weights are then a range of the file, from the first to the last that is not on a card, and take no memory of their own.
await test('a mapped file', async () => {
  const { plan, ready } = await check(moe, [...tight, '--n-ubatch', '64', '--host-weights', 'mapped']);
  const ours = bytes_of_plan(plan), loaded = bytes_of_load(ready);
  same([loaded.devices, loaded.host.slice(1)], [ours.devices, ours.host.slice(1)]);
});

done('same bytes');

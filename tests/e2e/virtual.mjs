// Several GPUs without one: the same greedy text from the CPU and from three virtual cards of unequal size, through HTTP, with and
// without experts on the host.
import { ask } from './cards.mjs';
import { machine, makeModel as make } from './real.mjs';
import { ok as must, runAll, test } from './lib.mjs';

const dense = make('dense', '--layers', '24', '--embd', '384', '--ff', '1536', '--heads', '6', '--kv', '2');
const moe = make('moe', '--layers', '16', '--embd', '256', '--ff', '512', '--experts', '16', '--used', '2');
const plain = { dense: await ask(dense, []), moe: await ask(moe, []) };

test('a dense model over three cards', async () => {
  const r = await ask(dense, ['--machine', machine(50, 34, 42), '--reserve-mib', '1']);
  must(r.plan.devices.length === 3 && r.plan.host.n_layers === 0, 'three cards: ' + JSON.stringify(r.plan.tensor_split));
  must(r.text === plain.dense.text, `${r.text} !== ${plain.dense.text}`);
});
test('experts over three cards', async () => {
  const r = await ask(moe, ['--machine', machine(90, 60, 70), '--reserve-mib', '1']);
  must(r.plan.devices.length === 3 && r.plan.host.model_bytes < 1e6, 'all on cards');
  must(r.text === plain.moe.text, `${r.text} !== ${plain.moe.text}`);
});
test('experts on the host', async () => {
  const r = await ask(moe, ['--machine', machine(40, 30, 35), '--reserve-mib', '1']);
  must(r.plan.host.model_bytes > 50e6 && r.plan.overrides.length > 0, 'experts on the host: ' + r.plan.host.model_bytes);
  must(r.text === plain.moe.text, `${r.text} !== ${plain.moe.text}`);
});
test('FFN matrices apart from their layers, both ways', async () => {
  const apart = 'blk\\.([0-5])\\.ffn_(up|gate)=CUDA0,blk\\.(15|16)\\.ffn_down=CPU';
  const r = await ask(dense, ['--machine', machine(90, 80, 70), '--reserve-mib', '1', '--n-gpu-layers', '15', '--override-tensor', apart]);
  must(r.plan.host.n_layers === 10 && r.plan.overrides.length > 1, JSON.stringify(r.plan.overrides));
  must(r.text === plain.dense.text, `${r.text} !== ${plain.dense.text}`);
});
test('a split as the user gave it', async () => {
  const r = await ask(dense, ['--machine', machine(90, 80, 70), '--reserve-mib', '1', '--tensor-split', '0.2,0.5,0.3']);
  must(r.plan.how === 'given' && r.plan.tensor_split.join() === '5,13,7', JSON.stringify(r.plan.tensor_split));
  const ready = r.status.engine.ready.devices;
  must(ready.length === 3 && ready.every((d, i) => d.model_bytes === r.plan.devices[i].model_bytes), JSON.stringify(ready));
  must(r.text === plain.dense.text, `${r.text} !== ${plain.dense.text}`);
});
test('weights mapped, read, or locked: the same text', async () => {
  for (const args of [['--no-mmap'], ['--mlock'], ['--no-mmap', '--machine', machine(50, 34, 42), '--reserve-mib', '1']])
    must((await ask(dense, args)).text === plain.dense.text, args.join(' '));
});
test('a grammar of 60,000 nested groups is refused, and nobody else notices', async () => {
  const post = (url, body) => fetch(url + '/v1/completions', { method: 'POST', body: JSON.stringify({ prompt: 'x', max_tokens: 4, ...body }) });
  const r = await ask(dense, [], {}, async (url) => {
    for (const grammar of ['root ::= ' + '('.repeat(60000) + '"a"' + ')'.repeat(60000), 'root ::= ' + '('.repeat(60000), 'root ::= "a"' + '{2'.repeat(30000)]) {
      const reply = await post(url, { grammar });
      const { error } = await reply.json();
      must(reply.status === 400 && error.param === 'grammar', `${reply.status} ${JSON.stringify(error)}`);
    }
  });
  must(r.text === plain.dense.text && r.status.engine.starts === 1, 'the engine was started again');
});

runAll('e2e virtual');

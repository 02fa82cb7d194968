// Memory that is not there: cards that report more than they have, programs that take memory between plan and load, contexts and
// first computations that find none, one card after the other. Each row comes up by itself, with the same text as on the CPU, after
// few plans; a placement that the user fixed ends with a sentence.
import { ask } from './cards.mjs';
import { machine, makeModel as make } from './real.mjs';
import { equal, figure, ok, runAll, test } from './lib.mjs';

const model = make('dense', '--layers', '24', '--embd', '384', '--ff', '1536', '--heads', '6', '--kv', '6');
const cpu = await ask(model, []);
const one = machine(400), three = machine(90, 60, 70);
const state = (...plans) => ({ VRAM_LLM_VIRTUAL: JSON.stringify(plans) });
const big = ['--n-ctx', '8192'];

// name, machine, arguments, what the cards do at each plan, starts at most, moments that must appear
const rows = [
  ['all cards report 12 MiB too much', three, [], [{ '*': { less: 12 } }], 3, /context could not be made/],
  ['one card reports ten times what it has', one, [], [{ '*': { less: 360 } }], 3, /did not load/],
  ['it has nothing at all', one, [], [{ '*': { less: 400 } }], 3, /did not load/],
  ['a program took memory after the plan, and keeps it', one, [], [{ '*': { free: 400, less: 340 } }, { '*': { free: 60 } }], 2, /did not load/],
  ['a program took memory after the plan, and gave it back', one, [], [{ '*': { less: 340 } }, {}], 2, /did not load/],
  ['the cache does not fit', one, big, [{ '*': { less: 200 } }], 3, /context could not be made/],
  ['the buffers for computing do not fit', one, big, [{ '*': { less: 64 } }], 3, /context could not be made/],
  ['the first computation finds nothing', one, [], [{ '*': { less: 240, run: 60 } }], 4, /first computation failed|broke off/],
  ['one card after the other', three, [], [{ CUDA1: { less: 30 } }, { CUDA1: { less: 30 }, CUDA2: { less: 30 } }, { '*': { less: 30 } }], 5, /did not load/],
  ['less at every plan', one, [], [290, 330, 350, 365, 375, 380].map((less) => ({ '*': { less } })), 7, /did not load/],
];

for (const [name, cards, args, plans, starts, moment] of rows)
  for (const like_cuda of [false, true])
    test(`${name}${like_cuda ? ', said as CUDA says it' : ''}`, async () => {
      const behave = plans.map((p) => Object.fromEntries(Object.entries({ '*': {}, ...p }).map(([id, card]) => [id, { ...card, like_cuda }])));
      const r = await ask(model, ['--machine', cards, '--reserve-mib', '1', ...args], state(...behave));
      ok(r.status.engine.starts > 1, 'it came up at once: nothing was tested');
      ok(moment.test(r.log) && /out of memory/.test(r.log), r.log);
      ok(r.status.engine.starts <= starts, `${r.status.engine.starts} starts:\n${r.log}`);
      equal(r.text, cpu.text, 'text');
      for (const d of r.status.engine.ready.devices) { // the plan that came up is the one that is told
        const planned = r.plan.devices.find((x) => x.id === d.name);
        equal([planned?.model_bytes, planned?.context_bytes], [d.model_bytes, d.context_bytes], d.name);
      }
      figure(`${r.status.engine.starts} starts, ${r.plan.host.n_layers} of 24 layers on the host`);
    });

test('what the user fixed is not changed: one sentence', async () => {
  for (const args of [['--tensor-split', '25'], ['--n-gpu-layers', '25']]) {
    const e = await ask(model, ['--machine', one, '--reserve-mib', '1', ...args], state({ '*': { less: 360 } })).catch((x) => x);
    equal(e.code, 4, e.log ?? 'it came up: ' + JSON.stringify(e.plan?.tensor_split));
    ok(/fit/.test(e.log.trim().split('\n').at(-1)), e.log);
  }
});

runAll('e2e shortage');

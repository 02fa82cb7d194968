// LoRA adapters over the real engine: at load, for all, and per request. Models of noise with f32 weights, on one thread: a text is the same
// whatever else is computed, so requests with other scales beside it must not change it.
import fs from 'node:fs';
import path from 'node:path';
import { dir, done, machine, makeModel, must, refused, same, test, up } from './real.mjs';

const shape = ['--layers', 4, '--embd', 128, '--type', 'f32'];
const model = makeModel('model', ...shape);
const one = makeModel('one', ...shape, '--lora', 8, '--seed', 5), two = makeModel('two', ...shape, '--lora', 4, '--seed', 9);
const exact = ['--n-ctx', '4096', '--n-seq', '4', '--cache-type-k', 'f32', '--cache-type-v', 'f32', '--flash-attn', 'off'];
const ask = (s, more) => s.post('/completion', { prompt: 'the rain in spain and then another one', n_predict: 24, temperature: 0, ignore_eos: true, cache_prompt: false, ...more }).then((r) => r.content);
const no = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it was not refused'); };
const sets = { none: [{ id: 0, scale: 0 }], first: [{ id: 0, scale: 1 }], half: [{ id: 0, scale: 0.5 }], second: [{ id: 1, scale: 1 }], both: [{ id: 0, scale: 1 }, { id: 1, scale: 1 }] };
const alone = {};

const plain = await up(model, exact);
const s = await up(model, [...exact, '--lora', `${one},${two}:0`]);

await test('a server without adapters says so', async () => {
  alone.none = await ask(plain);
  same(await plain.get('/lora-adapters'), []);
  const e = await no(ask(plain, { lora: sets.first }));
  same([e.status, e.error.param], [400, 'lora']);
  must(e.message.includes('--lora'), e.message);
  same(await ask(plain, { lora: [] }), alone.none);
});

await test('each set of scales has its own text; off is the model itself', async () => {
  for (const [name, lora] of Object.entries(sets)) {
    const text = await ask(s, { lora });
    same(text, alone[name] ?? text, `${name}: as the model alone`);
    alone[name] = text;
    same(await ask(s, { lora }), text, `${name}: again`);
  }
  same(new Set(Object.values(alone)).size, 5, 'all differ');
  same(await ask(s), alone.first, 'as --lora says'); // the second one has scale 0
});

await test('requests with different scales at once: each gets its own text, and nobody another\'s prefix', async () => {
  for (const cache_prompt of [false, true, true]) {
    const names = Object.keys(sets), all = [...names, ...names, ...names];
    const texts = await Promise.all(all.map((name) => ask(s, { lora: sets[name], cache_prompt })));
    all.forEach((name, i) => same(texts[i], alone[name], `${name}, ${cache_prompt ? 'from the cache' : 'computed'}`));
  }
  const usage = async (lora) => (await s.post('/v1/completions', { prompt: 'a prompt that is long enough to be worth something', max_tokens: 1, lora })).usage.prompt_tokens_details.cached_tokens;
  same(await usage(sets.half), 0);
  must(await usage(sets.half) > 10, 'its own prefix is used again');
  same(await usage(sets.both), 0, 'computed with other adapters');
});

await test('GET and POST /lora-adapters', async () => {
  same((await s.get('/lora-adapters')).map((a) => [a.id, path.basename(a.path), a.scale, a.task_name, a.prompt_prefix]), [[0, 'one.gguf', 1, 'noise', ''], [1, 'two.gguf', 0, 'noise', '']]);
  same(await s.post('/lora-adapters', [{ id: 1, scale: 1 }]), { success: true });
  same((await s.get('/lora-adapters')).map((a) => a.scale), [0, 1]);
  same(await ask(s), alone.second);
  same(await ask(s, { lora: sets.first }), alone.first, 'a request still has the last word');
  same(await s.post('/lora-adapters', sets.both), { success: true });
  same(await ask(s), alone.both);
  for (const [body, param] of [[[{ id: 2, scale: 1 }], 'id'], [[{ id: 0 }], 'scale'], [[{ id: 0, scale: 1000 }], 'scale'], [{ id: 0, scale: 1 }, null], [['x'], 'id']]) {
    const e = await no(s.post('/lora-adapters', body));
    same([e.status, e.error.param], [400, param], JSON.stringify(body));
  }
  same((await s.get('/lora-adapters')).map((a) => a.scale), [1, 1], 'nothing has changed');
  for (const lora of [[{ id: 2, scale: 1 }], [{ id: -1, scale: 1 }], [{ id: 0, scale: '1' }], [{ id: 0, scale: 1, x: 1 }], 'x', Array(9).fill({ id: 0, scale: 1 })]) {
    const e = await no(ask(s, { lora }));
    same([e.status, e.error.param], [400, 'lora'], JSON.stringify(lora));
  }
});

await test('on virtual cards the texts are the same', async () => {
  const cards = await up(model, [...exact, '--lora', `${one},${two}`, '--machine', machine(24, 18), '--reserve-mib', '1', '--n-ubatch', '64']);
  for (const name of ['first', 'both', 'none']) same(await ask(cards, { lora: sets[name] }), alone[name], name);
});

await test('files that are no adapters of this model are refused by name', async () => {
  const bytes = fs.readFileSync(one), file = (name, data) => { const f = path.join(dir, name); fs.writeFileSync(f, data); return f; };
  const named = (from, to) => { const b = Buffer.from(bytes), at = b.indexOf(from); must(at > 0 && from.length === to.length, from); b.write(to, at); return b; };
  for (const [lora, words] of [
    [model, 'not a LoRA adapter'], [path.join(dir, 'nothing.gguf'), 'nothing.gguf'], [file('half.gguf', bytes.subarray(0, 4000)), 'truncated'],
    [file('noise.gguf', Buffer.alloc(5000, 7)), 'noise.gguf'], [makeModel('wide', '--layers', 4, '--embd', 256, '--lora', 8), 'shape'],
    [makeModel('deep', '--layers', 9, '--embd', 128, '--lora', 8), 'another model'], [makeModel('arch', '--arch', 'gemma3', ...shape, '--lora', 8), "'gemma3' model"],
    [file('tensor.gguf', named('attn_q.weight.lora_b', 'attn_q.weight.lora_c')), "lora_b' is missing"], [file('kind.gguf', named('\u0004\0\0\0\0\0\0\0lora', '\u0004\0\0\0\0\0\0\0lola')), 'not a LoRA adapter'],
    [`${one}:1000`, 'scale'], [Array(9).fill(one).join(','), 'more than 8'],
  ]) {
    const r = await refused(model, [...exact, '--lora', lora]);
    must(r.code !== 0 && r.text.includes(words), `${lora}: ${r.code} ${r.text}`);
  }
  must((await refused(one, exact)).text.includes('--lora'), 'an adapter is no model');
  must((await refused(model, [...exact, '--lora', one, '--machine', machine(24, 18), '--split-mode', 'tensor'])).text.includes('cannot be split'), 'split mode tensor');
});

done('lora');

// Split mode tensor on virtual cards, executing: the same greedy text as on one device, the bytes of the plan, of the dry run behind it and
// of the load equal on each card, and serving as ever. The engine adds the parts up itself here (a butterfly of copies).
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { ask } from './cards.mjs';
import { binary, eventually } from './lib.mjs';
import { picture, png } from './png.mjs';
import { done, machine, makeMmproj, makeModel, must, refused, same, test, up } from './real.mjs';

const dense = makeModel('dense', '--layers', 6, '--embd', 512, '--ff', 1536, '--heads', 8, '--kv', 4, '--type', 'q8_0');
const moe = makeModel('moe', '--layers', 6, '--embd', 256, '--ff', 512, '--experts', 8, '--used', 2);
const seer = makeModel('seer', '--layers', 6, '--embd', 256, '--heads', 4, '--kv', 2, '--arch', 'qwen2vl');
const mmproj = makeMmproj('mmproj', '--width', 256);
const cards = (n, ...more) => ['--machine', machine(...Array(n).fill(300)), '--reserve-mib', '1', '--split-mode', 'tensor', ...more];

const kinds = (u) => ['model_bytes', 'context_bytes', 'compute_bytes'].map((k) => u[k]);
const by_device = (list, name) => Object.fromEntries(list.map((d) => [d[name], kinds(d)]).sort());
const planned = (model, args) => JSON.parse(execFileSync(binary, ['plan', '--json', '--n-ctx', '1024', ...args, model], { stdio: ['ignore', 'pipe', 'pipe'] }));

// The model that ships says something: parts that are added up in another order change nothing that it is sure of (demo.mjs pins these).
const demo = 'models/demo.gguf';
const pinned = [['what is 27+48', '27 + 48 = 75.'], ['how many MiB are in 3 GiB', '3 GiB are 3072 MiB.'], ['write hello world in python', '```python\nprint("Hello, world!")\n```'],
  ['Does a 13 GiB model fit on a 24 GB card with 2 GiB of KV cache?',
    'It needs 13 + 2 + 1 = 16 GiB: weights, cache and a reserve of 1 GiB. The card has 24 GB, so it fits, with 8 GiB to spare.']];
async function chat(url) {
  for (const [content, answer] of pinned) {
    const r = await fetch(url + '/v1/chat/completions', { method: 'POST', body: JSON.stringify({ messages: [{ role: 'user', content }], temperature: 0 }) });
    same((await r.json()).choices[0].message.content, answer, content);
  }
}

const rows = {
  'the demo on two cards': [demo, cards(2)],
  'the demo on two cards, three to one': [demo, cards(2, '--tensor-split', '3,1')],
  'the demo on three cards': [demo, cards(3)],
  'three cards, one of them left out': [dense, cards(3, '--tensor-split', '1,0,2')],
  'experts over two cards': [moe, cards(2)],
  'experts over three cards, unequal': [moe, cards(3, '--tensor-split', '2,1,1')],
  'experts on the host': [moe, cards(2, '--override-tensor', 'ffn_.*_exps=CPU')],
  'experts that find no room stay on the host': [moe, ['--machine', machine(47, 47), '--reserve-mib', '1', '--split-mode', 'tensor']],
};
for (const [name, [model, args]] of Object.entries(rows))
  await test(name, async () => {
    const r = await ask(model, ['--no-mmap', ...args], {}, model === demo ? chat : undefined);
    same(r.plan.split_mode, 'tensor');
    const { devices, host } = r.status.engine.ready;
    same(by_device(devices, 'name'), by_device(r.plan.devices, 'id'), 'loaded and planned');
    same(kinds(host), kinds(r.plan.host), 'the host');
    same(/experts/.test(name) && /host/.test(name), host.model_bytes > 4 << 20, 'experts there');
  });

await test('a quantized cache, several sequences', async () => {
  const args = cards(2, '--n-seq', '3', '--cache-type-k', 'q8_0', '--cache-type-v', 'q8_0', '--flash-attn', 'on');
  const plan = planned(dense, args), server = await up(dense, ['--n-ctx', '1024', ...args]);
  const body = (prompt) => ({ prompt, max_tokens: 16, temperature: 0, ignore_eos: true });
  const alone = (await server.post('/v1/completions', body('a tale of two cards'))).choices[0].text;
  const all = await Promise.all(Array.from({ length: 5 }, () => server.post('/v1/completions', body('a tale of two cards'))));
  const { ready } = (await server.get('/api/status')).engine;
  await server.stop();
  same(by_device(ready.devices, 'name'), by_device(plan.devices, 'id'), 'loaded and planned');
  must(all.every((r) => r.choices[0].text.length > 0 && r.usage.completion_tokens === 16), 'all are answered');
  same(all[0].choices[0].text.slice(0, 4), alone.slice(0, 4), 'alike');
});

// What serving does, on two cards, on three, and on two of which one has three parts of four.
const rigs = { 'two cards': cards(2), 'three cards': cards(3), 'three to one': cards(2, '--tensor-split', '3,1') };
const question = (content) => ({ messages: [{ role: 'user', content }], temperature: 0 });
const said = (r) => r.choices[0].message.content;

for (const [rig, args] of Object.entries(rigs)) {
  await test(`${rig}: several streams at once, a draft model that is right`, async () => {
    const server = await up(demo, ['--n-ctx', '4096', '--n-seq', '4', '--draft', demo, '--n-draft', '3', ...args]);
    const all = await Promise.all(pinned.map(([content]) => server.post('/v1/chat/completions', question(content))));
    all.forEach((r, i) => same(said(r), pinned[i][1], pinned[i][0]));
    must(all.every((r) => r.usage.completion_tokens_details.accepted_prediction_tokens > 0), JSON.stringify(all.map((r) => r.usage)));
    await server.stop();
  });

  await test(`${rig}: a prompt is continued, one comes back, an answer is left`, async () => {
    const server = await up(dense, ['--n-ctx', '1024', ...args]);
    const prompt = 'once upon a time there were two cards and a very long story about them. '.repeat(4);
    await server.post('/v1/completions', { prompt, max_tokens: 4, temperature: 0 });
    const again = await server.post('/v1/completions', { prompt: prompt + 'And then', max_tokens: 4, temperature: 0 });
    must(again.usage.prompt_tokens_details?.cached_tokens > 50, 'reused: ' + JSON.stringify(again.usage));
    await server.post('/v1/completions', { prompt: 'another story, about something else. '.repeat(8), max_tokens: 4, temperature: 0 });
    const back = await server.post('/v1/completions', { prompt, max_tokens: 4, temperature: 0 }); // there is one slot: from host memory
    must(back.usage.prompt_tokens_details.cached_tokens > 50, 'came back: ' + JSON.stringify(back.usage));
    const gone = new AbortController();
    const left = fetch(server.url + '/v1/completions', { method: 'POST', signal: gone.signal, body: JSON.stringify({ prompt, max_tokens: 700, ignore_eos: true, stream: true }) });
    await (await left).body.getReader().read();
    gone.abort();
    const next = await server.post('/v1/completions', { prompt: 'and on', max_tokens: 4, temperature: 0, ignore_eos: true });
    same(next.usage.completion_tokens, 4);
    same((await server.get('/api/status')).engine.starts, 1);
    await server.stop();
  });
}

await test('every type of cache: it answers, or is refused by name before anything is loaded', async () => {
  const turns = Object.entries(rigs), types = ['f32', 'bf16', 'q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0'];
  for (const [i, type] of types.entries()) {
    const [rig, args] = turns[i % turns.length];
    const server = await up(demo, ['--n-ctx', '1024', '--cache-type-k', type, '--cache-type-v', type, ...args]);
    await chat(server.url).catch((e) => { throw new Error(`${type}, ${rig}: ${e.message}`); });
    same((await server.get('/api/plan')).split_mode, 'tensor', type);
    await server.stop();
  }
  const r = await refused(demo, ['--n-ctx', '1024', '--cache-type-k', 'iq4_nl', '--cache-type-v', 'iq4_nl', ...rigs['two cards']]);
  must(r.code === 10 && /an iq4_nl KV cache and split mode tensor/.test(r.text) && !/listening/.test(r.text), `${r.code}: ${r.text}`);
});

const spots = png(64, 48, (x, y) => [x * 4, y * 5, 90]);
const look = { messages: [{ role: 'user', content: [{ type: 'text', text: 'what is this?' }, picture(spots)] }], max_tokens: 8, temperature: 0, ignore_eos: true };
await test('pictures and embeddings are those of one card', async () => {
  const serve = async (args) => {
    const eyes = await up(seer, ['--n-ctx', '1024', '--mmproj', mmproj, ...args]), seen = await eyes.post('/v1/chat/completions', look);
    await eyes.stop();
    const server = await up(dense, ['--n-ctx', '1024', '--embeddings', ...args]), made = await server.post('/v1/embeddings', { input: ['two cards', 'a sum of parts'] });
    const text = await server.post('/v1/completions', { prompt: 'once upon a time', max_tokens: 8, temperature: 0, ignore_eos: true });
    await server.stop();
    same([seen.usage.completion_tokens, text.usage.completion_tokens], [8, 8]);
    return { seen, vectors: made.data.map((d) => d.embedding) };
  };
  const one = await serve(['--machine', machine(300), '--reserve-mib', '1', '--flash-attn', 'on']);
  for (const [rig, args] of Object.entries(rigs)) {
    const got = await serve(args);
    same(got.seen.usage.prompt_tokens, one.seen.usage.prompt_tokens, rig);
    same(said(got.seen).slice(0, 1), said(one.seen).slice(0, 1), rig);
    got.vectors.forEach((v, i) => { // both are of length one
      const cosine = v.reduce((sum, x, k) => sum + x * one.vectors[i][k], 0);
      must(cosine > 0.999, `${rig}: embedding ${i}: ${cosine}`);
    });
  }
});

await test('an engine that crashes goes on with whole layers', async () => {
  const server = await up(demo, ['--n-ctx', '1024', ...rigs['three to one']]);
  await chat(server.url);
  const [engine] = fs.readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8').trim().split(' ').map(Number);
  process.kill(engine, 'SIGFPE');
  await eventually('up again: ' + server.text(), async () => (await server.get('/api/status').catch(() => ({}))).engine?.starts === 2 && (await server.get('/health')).status === 'ok');
  const plan = await server.get('/api/plan');
  same([plan.split_mode, plan.reasons[0].kind], ['layer', 'tensor_died']);
  await chat(server.url);
  await server.stop();
});

await test('what cannot be split is refused, and another mode is named', async () => {
  const refused = (model, args) => { try { planned(model, args); } catch (e) { return { code: e.status, text: String(e.stderr) }; } return {}; };
  const off = refused(dense, cards(2, '--flash-attn', 'off'));
  must(off.code === 10 && /--flash-attn auto|--split-mode layer/.test(off.text), JSON.stringify(off));
});

await test('a card that has less than it says: one sentence', async () => {
  const e = await ask(dense, cards(2, '--n-ctx', '8192'), { VRAM_LLM_VIRTUAL: JSON.stringify([{ '*': { less: 285, like_cuda: true } }]) }).catch((x) => x);
  must(e.code === 4 && /broke off: out of memory on CUDA/.test(e.log) && /does not fit/.test(e.log), `${e.code}: ${e.log}`);
});

done('tensor');

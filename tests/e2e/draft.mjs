// serve --draft: the text is what it would be without the draft, whoever drafts and whatever is asked for.
import { done, machine, makeModel, must, refused, same, test, up } from './real.mjs';

// f32 all through and no flash attention, which rounds: what a batch's size does to the last bits must not decide between two tokens
const shape = ['--layers', 6, '--embd', 256, '--ff', 1024, '--template', 'tools'];
const model = makeModel('model', ...shape, '--type', 'f32');
const copy = makeModel('copy', ...shape, '--type', 'q4_0');      // often right
const stranger = makeModel('stranger', '--layers', 2, '--seed', 9); // never right
const head = makeModel('head', ...shape, '--type', 'f32', '--kv', 4, '--arch', 'eagle3', '--known', 300); // an EAGLE-3 head, seldom right
const block = makeModel('block', ...shape, '--type', 'f32', '--arch', 'dflash'); // a DFlash head, never right
const other = makeModel('other', '--vocab', 1024);
const exact = ['--cache-type-k', 'f32', '--cache-type-v', 'f32', '--flash-attn', 'off'];
const settings = ['--n-ctx', '8192', '--n-seq', '8', ...exact];
const alone = await up(model, settings);
const fixed = [...settings, '--n-draft', '3']; // whether guesses pay is not the question here
const drafts = { itself: await up(model, [...fixed, '--draft', model]), copy: await up(model, [...fixed, '--draft', copy]),
  stranger: await up(model, [...fixed, '--draft', stranger]), head: await up(model, [...fixed, '--draft', head]), block: await up(model, [...fixed, '--draft', block]) };

const base = { prompt: 'once upon a time', max_tokens: 60, temperature: 0, ignore_eos: true, cache_prompt: false };
const words = [{ role: 'user', content: 'tell me about cards' }];
const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 12 }, n: { type: 'integer' }, ok: { type: 'boolean' } }, required: ['name', 'n', 'ok'] };
const rows = {
  greedy: ['/v1/completions', base],
  'a long prompt': ['/v1/completions', { ...base, prompt: 'a word and another word '.repeat(40) }],
  penalties: ['/v1/completions', { ...base, presence_penalty: 1.5, frequency_penalty: 0.7, repeat_penalty: 1.2 }],
  'logit bias': ['/v1/completions', { ...base, logit_bias: { 65: 5, 300: 8, 301: -100 } }],
  'one token': ['/v1/completions', { ...base, max_tokens: 1 }],
  'two tokens': ['/v1/completions', { ...base, max_tokens: 2 }],
  'two choices': ['/v1/completions', { ...base, n: 2, max_tokens: 20 }],
  'a schema': ['/v1/chat/completions', { messages: words, temperature: 0, max_tokens: 120, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }],
  'a grammar': ['/v1/completions', { ...base, ignore_eos: false, grammar: 'root ::= ("ab" | "cd" | [0-9])+ "." [a-f]{30}' }],
};
const texts = (r) => r.choices.map((c) => [c.text ?? c.message, c.finish_reason]);
const details = (r) => r.usage.completion_tokens_details;

for (const [name, [where, body]] of Object.entries(rows))
  await test(name, async () => {
    const want = await alone.post(where, body);
    must(details(want).accepted_prediction_tokens === undefined, 'guesses without a draft');
    for (const [who, s] of Object.entries(drafts)) {
      const got = await s.post(where, body);
      same(texts(got), texts(want), who);
      same(got.usage.completion_tokens, want.usage.completion_tokens, who);
    }
  });
await test('who is right how often', async () => {
  const right = {};
  for (const [who, s] of Object.entries(drafts)) right[who] = details(await s.post('/v1/completions', base));
  must(right.itself.accepted_prediction_tokens >= 12, 'itself: ' + JSON.stringify(right.itself));
  must(right.copy.accepted_prediction_tokens > 0 && right.copy.rejected_prediction_tokens > 0, 'copy: ' + JSON.stringify(right.copy));
  must(right.stranger.accepted_prediction_tokens < right.stranger.rejected_prediction_tokens / 4, 'stranger: ' + JSON.stringify(right.stranger));
  must(await drafts.itself.metric('accepted_tokens_total') >= 12, 'metrics');
  must(await drafts.stranger.metric('drafted_tokens_total') > await drafts.stranger.metric('accepted_tokens_total'), 'metrics');
});
await test('log-probabilities are those of the place', async () => {
  const body = { ...base, logprobs: 3, max_tokens: 40 };
  const want = (await alone.post('/v1/completions', body)).choices[0].logprobs;
  for (const [who, s] of Object.entries(drafts)) {
    const got = (await s.post('/v1/completions', body)).choices[0].logprobs;
    same(got.tokens, want.tokens, who);
    got.token_logprobs.forEach((p, i) => must(Math.abs(p - want.token_logprobs[i]) < 0.002, `${who}: token ${i}: ${p}, not ${want.token_logprobs[i]}`));
  }
});
await test('a stop string', async () => {
  const text = (await alone.post('/v1/completions', base)).choices[0].text;
  const stop = /word\d+/.exec(text.slice(text.length / 3))?.[0] ?? text.slice(20, 24);
  const want = texts(await alone.post('/v1/completions', { ...base, stop }));
  must(want[0][1] === 'stop', 'it never stopped');
  for (const [who, s] of Object.entries(drafts)) same(texts(await s.post('/v1/completions', { ...base, stop })), want, who);
});
await test('the same luck gives the same text', async () => {
  // rounding differs between a batch of one and of four: a draw on the very edge may fall to the other side
  let equal = 0, n = 0, accepted = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const body = { ...base, max_tokens: 8, temperature: 0.7, top_k: 5, seed };
    const want = texts(await alone.post('/v1/completions', body));
    const got = await drafts.copy.post('/v1/completions', body);
    equal += JSON.stringify(texts(got)) === JSON.stringify(want);
    accepted += details(got).accepted_prediction_tokens ?? 0;
    n++;
  }
  must(accepted > 20, `only ${accepted} guesses were right: nothing was tested`);
  must(equal >= n - 1, `${equal} of ${n} texts are the same`);
});
await test('many streams', async () => {
  const bodies = Array.from({ length: 12 }, (_, i) => ({ ...base, prompt: `story number ${i}: `, max_tokens: 10 + 7 * i }));
  const want = [];
  for (const body of bodies) want.push(texts(await alone.post('/v1/completions', body)));
  for (const [who, s] of Object.entries(drafts)) {
    const got = await Promise.all(bodies.map((body) => s.post('/v1/completions', body)));
    got.forEach((r, i) => same(texts(r), want[i], `${who} ${i}`));
  }
});
await test('a conversation goes on from what is known', async () => {
  const first = { ...base, cache_prompt: true, max_tokens: 30 };
  const text = (await alone.post('/v1/completions', first)).choices[0].text;
  const second = { ...first, prompt: first.prompt + text + ' and then' };
  const want = texts(await alone.post('/v1/completions', { ...second, cache_prompt: false }));
  for (const [who, s] of Object.entries(drafts)) {
    await s.post('/v1/completions', first);
    const got = await s.post('/v1/completions', second);
    same(texts(got), want, who);
    must(got.usage.prompt_tokens_details.cached_tokens > 0, who + ': nothing was reused');
  }
});
await test('who leaves in the middle spoils nothing', async () => {
  const want = texts(await alone.post('/v1/completions', base));
  for (const [who, s] of Object.entries(drafts)) {
    for (let i = 0; i < 5; i++) await s.stream('/v1/completions', { ...base, max_tokens: 2000 }, (e) => e.length > i * 3);
    same(texts(await s.post('/v1/completions', { ...base, cache_prompt: true })), want, who);
  }
});
for (const s of [alone, ...Object.values(drafts)]) await s.stop();

await test('to the end of the context', async () => {
  const small = ['--n-ctx', '256', ...exact], body = { ...base, max_tokens: 1000 };
  const a = await up(model, small), b = await up(model, [...small, '--draft', copy, '--n-draft', '3']);
  const want = await a.post('/v1/completions', body), got = await b.post('/v1/completions', body);
  same(texts(got), texts(want));
  must(want.choices[0].finish_reason === 'length' && want.usage.total_tokens >= 256, JSON.stringify(want.usage));
  await a.stop();
  await b.stop();
});
const few = ['--n-ctx', '1024', '--n-ubatch', '64', ...exact];
await test('on virtual cards, to the byte', async () => {
  const a = await up(model, few), b = await up(model, [...few, '--reserve-mib', '1', '--machine', machine(50, 34, 42), '--draft', copy, '--n-draft', '3']);
  const plan = await b.get('/api/plan'), ready = (await b.get('/api/status')).engine.ready;
  const draft = plan.companions[0], card = ready.draft.devices.find((d) => d.name === draft.device);
  must(draft.id === 'draft' && card, JSON.stringify([plan.companions, ready.draft]));
  same([card.model_bytes, card.context_bytes, card.compute_bytes], [draft.model_bytes, draft.context_bytes, draft.compute_bytes]);
  same(texts(await b.post('/v1/completions', base)), texts(await a.post('/v1/completions', base)));
  await a.stop();
  await b.stop();
});
await test('cards with less memory than they report', async () => {
  const args = [...few, '--reserve-mib', '1', '--machine', machine(22, 16), '--draft', copy, '--n-draft', '3'];
  const s = await up(model, args, { VRAM_LLM_VIRTUAL: JSON.stringify([{ '*': { less: 5 } }]) });
  must((await s.get('/api/status')).engine.starts > 1, 'it came up at once: nothing was tested');
  const got = texts(await s.post('/v1/completions', base));
  await s.stop();
  const a = await up(model, few);
  same(got, texts(await a.post('/v1/completions', base)));
  await a.stop();
});
await test('a draft of another family', async () => {
  const r = await refused(model, ['--draft', other]);
  must(r.code === 2 && /its vocabulary has 1024 tokens, the model's has 512/.test(r.text), JSON.stringify(r));
});
done('draft');

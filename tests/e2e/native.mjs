// llama.cpp's own API and samplers, and what other APIs ask of the real engine: a model of noise, where every sampler makes a difference.
import { done, makeModel, must, same, test, up } from './real.mjs';

// f32 all through: several at once are texts of one at a time, whatever batches the clock makes of them
const exact = ['--cache-type-k', 'f32', '--cache-type-v', 'f32', '--flash-attn', 'off'];
const s = await up(makeModel('model', '--layers', 2, '--embd', 128, '--type', 'f32'), ['--n-ctx', '4096', '--n-seq', '4', ...exact]);
const complete = (more) => s.post('/completion', { prompt: 'Hello world', n_predict: 24, ignore_eos: true, seed: 7, cache_prompt: false, ...more });
const refused = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it was not refused'); };

await test('tokenize and detokenize are each other\'s reverse', async () => {
  const text = 'Hello wörld, 2 + 2 = 4 🙂';
  const { tokens } = await s.post('/tokenize', { content: text });
  must(tokens.length > 3 && tokens.every(Number.isInteger), JSON.stringify(tokens));
  same((await s.post('/detokenize', { tokens })).content.trim(), text);
  const pieces = (await s.post('/tokenize', { content: text, with_pieces: true })).tokens;
  same(pieces.map((p) => p.id), tokens);
  const bytes = pieces.flatMap((p) => typeof p.piece === 'string' ? [...Buffer.from(p.piece)] : p.piece);
  same(Buffer.from(bytes).toString().trim(), text);
  same((await s.post('/tokenize', { content: '' })).tokens, []);
  same((await s.post('/detokenize', { tokens: [] })).content, '');
  same((await refused(s.post('/detokenize', { tokens: [99999999] }))).error.param, 'tokens');
  same((await refused(s.post('/tokenize', { content: 7 }))).error.param, 'content');
});

await test('a text keeps its spaces: what is not special is written as its tokens say', async () => {
  const content = 'Is it so ? Yes , it is .';
  const { tokens } = await s.post('/tokenize', { content });
  same((await s.post('/detokenize', { tokens })).content.trim(), content);
});

await test('token ids and texts in one prompt, several prompts of either kind', async () => {
  const { tokens } = await s.post('/tokenize', { content: 'Hello world' });
  const one = await complete({ prompt: 'Hello world', temperature: 0 });
  const ids = await complete({ prompt: tokens, temperature: 0 });
  same(ids.content, one.content);
  const half = await s.post('/tokenize', { content: ' world' });
  const mixed = await complete({ prompt: [...tokens.slice(0, tokens.length - half.tokens.length), ' world'], temperature: 0 });
  same([mixed.content, mixed.tokens_evaluated], [one.content, one.tokens_evaluated]);
  const several = await complete({ prompt: [tokens, 'Hello world', [...tokens.slice(0, 2), 'x'], { prompt_string: 'Hello world' }], temperature: 0 });
  same([several.length, several[0].content, several[1].content, several[3].content], [4, one.content, one.content, one.content]);
  for (const prompt of [[], [[]], [['a', 'b']], [1, [2]], [1, 99999999], [1, null]]) same((await refused(complete({ prompt }))).error.param, 'prompt');
});

await test('biases of texts: none of their tokens is said', async () => {
  const free = await complete({ temperature: 0, return_tokens: true });
  const piece = (await s.post('/detokenize', { tokens: [free.tokens[0]] })).content;
  if (/^[a-z0-9]+$/.test(piece)) {
    const { tokens } = await s.post('/tokenize', { content: piece });
    for (const logit_bias of [[[piece, false]], { [piece]: -100 }]) {
      const r = await complete({ temperature: 0, return_tokens: true, logit_bias });
      must(!r.tokens.some((t) => tokens.includes(t)), `${piece} was said: ${r.tokens}`);
    }
  }
  const wanted = (await s.post('/tokenize', { content: 'q' })).tokens[0];
  same((await complete({ temperature: 0, return_tokens: true, logit_bias: [['q', 100]], n_predict: 3 })).tokens, [wanted, wanted, wanted]);
});

await test('llama.cpp\'s names of fields in OpenAI\'s requests', async () => {
  const messages = [{ role: 'user', content: 'x' }];
  const r = await s.post('/v1/chat/completions', { messages, n_predict: 3, ignore_eos: true, id_slot: 0, timings_per_token: true });
  same([r.usage.completion_tokens, r.timings.predicted_n, r.timings.prompt_n > 0], [3, 3, true]);
  same(JSON.parse((await s.post('/v1/chat/completions', { messages, json_schema: { const: 'yes' } })).choices[0].message.content), 'yes');
  same((await refused(s.post('/v1/chat/completions', { messages, n_predict: 3, max_tokens: 4 }))).error.param, 'n_predict');
  same((await refused(s.post('/v1/chat/completions', { messages, json_schema: 3 }))).error.param, 'json_schema');
  const n = (await s.post('/chat/completions/input_tokens', { messages })).input_tokens;
  same([n, (await s.post('/v1/chat/completions/input_tokens', { messages })).input_tokens], [r.usage.prompt_tokens, n]);
});

await test('id_slot: a slot that is idle is the one; the answer tells which it was', async () => {
  const n = (await s.get('/props')).total_slots;
  for (const id_slot of [n - 1, 0]) {
    same((await complete({ id_slot, n_predict: 2 })).id_slot, id_slot);
    const lines = (await (await fetch(s.url + '/completion', { method: 'POST', body: JSON.stringify({ prompt: 'x', id_slot, n_predict: 2, ignore_eos: true, stream: true }) })).text()).split('\n\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)));
    must(lines.length > 1 && lines.every((l) => l.id_slot === id_slot), JSON.stringify(lines));
    same((await s.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 2, id_slot })).id_slot, id_slot);
  }
  must((await complete({ id_slot: -1, n_predict: 2 })).id_slot >= 0, 'any');
  must(!('id_slot' in await s.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 2 })), 'nobody asked');
  const e = (await refused(complete({ id_slot: n }))).error;
  must(e.param === 'id_slot' && e.message.includes(`0 to ${n - 1}`), JSON.stringify(e));
});

await test('a prompt that exceeds the context: by how much, and the type that llama.cpp\'s clients look for', async () => {
  const prompt = 'word '.repeat(5000), n_ctx = (await s.get('/props')).default_generation_settings.n_ctx, message = { role: 'user', content: prompt };
  for (const [path, body, type] of [['/completion', { prompt }, 'exceed_context_size_error'], ['/chat/completions', { messages: [message] }, 'exceed_context_size_error'], ['/v1/chat/completions', { messages: [message] }, 'invalid_request_error']]) {
    const { error } = await refused(s.post(path, body));
    same([error.type, error.code, error.n_ctx, error.n_prompt_tokens > n_ctx], [type, 'context_length_exceeded', n_ctx, true], path);
  }
});

await test('a template is applied, and tokens are counted without an answer', async () => {
  const messages = [{ role: 'user', content: 'hello there' }];
  const { prompt } = await s.post('/apply-template', { messages });
  must(prompt.includes('hello there'), prompt);
  const n = (await s.post('/v1/messages/count_tokens', { model: 'm', messages })).input_tokens;
  same((await s.post('/v1/responses/input_tokens', { input: 'hello there' })).input_tokens, n);
  same((await s.post('/v1/chat/completions', { messages, max_tokens: 1 })).usage.prompt_tokens, n);
  const long = [{ role: 'user', content: 'word '.repeat(5000) }]; // more than the context holds
  must((await s.post('/v1/messages/count_tokens', { model: 'm', messages: long })).input_tokens > 4096, 'it is counted');
  same((await refused(s.post('/v1/chat/completions', { messages: long }))).error.code, 'context_length_exceeded');
});

await test('completion: text, tokens, probabilities, why it ended', async () => {
  const r = await complete({ return_tokens: true, n_probs: 2, temperature: 0 });
  same([r.tokens_predicted, r.stop_type, r.truncated, r.generation_settings.n_predict, r.timings.predicted_n], [24, 'limit', false, 24, 24]);
  same(r.tokens.length, 24);
  same(r.completion_probabilities.map((p) => p.id), r.tokens);
  same(r.completion_probabilities[0].top_logprobs.length, 2);
  const words = await s.stream('/completion', { prompt: 'Hello world', n_predict: 24, ignore_eos: true, temperature: 0 });
  same(words.map((w) => w.content).join(''), r.content);
  same(words.flatMap((w) => w.tokens), r.tokens);
  same(words.map((w) => w.stop), [...Array(words.length - 1).fill(false), true]);
  const several = await s.post('/completion', { prompt: ['a', 'b'], n_predict: 2 });
  same(several.map((x) => x.index), [0, 1]);
  const cut = await complete({ temperature: 0, stop: [r.content.slice(4, 8)] });
  same([cut.stop_type, cut.stopping_word, cut.content], ['word', r.content.slice(4, 8), r.content.slice(0, r.content.indexOf(r.content.slice(4, 8)))]);
  same((await s.post('/completions', { prompt: 'x', n_predict: 1 })).tokens_predicted, 1);
});

await test('several answers: each has its own tokens; probabilities come where they are wanted', async () => {
  const [a, b] = await complete({ prompt: ['Hello', 'Hello world'], n_predict: 5, return_tokens: true });
  same([a.tokens_predicted, b.tokens_predicted, a.tokens.length], [5, 5, 5]);
  const r = await complete({ ignore_eos: false, n_predict: 40, json_schema: { type: 'object', properties: { logprobs: { const: 1 } }, required: ['logprobs'], additionalProperties: false } });
  same([JSON.parse(r.content), 'completion_probabilities' in r], [{ logprobs: 1 }, false]);
  same((await refused(complete({ n_probs: 21 }))).error.param, 'n_probs');
  same((await refused(complete({ n_predict: 5, max_tokens: 6 }))).error.param, 'n_predict');
});

await test('a stream\'s log-probabilities are those of its text, characters in pieces included', async () => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'x' }], max_tokens: 60, ignore_eos: true, temperature: 2, seed: 3, logprobs: true, stream: true });
  const text = await (await fetch(s.url + '/v1/chat/completions', { method: 'POST', body })).text();
  const said = text.split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)).choices[0]);
  const pieces = said.filter((c) => c.delta.content);
  must(pieces.length > 5 && pieces.every((c) => c.logprobs?.content), 'a piece has none');
  same(said.reduce((n, c) => n + (c.logprobs?.content.length ?? 0), 0), 60);
});

await test('samplers of llama.cpp: each does what it should, and the same seed says the same', async () => {
  const greedy = (await complete({ temperature: 0 })).content;
  for (const more of [{ typical_p: 0.9 }, { xtc_probability: 0.5 }, { dry_multiplier: 0.8 }, { top_n_sigma: 1 }, { mirostat: 1 }, { mirostat: 2 }, { dynatemp_range: 0.5 }, { samplers: ['top_k', 'typ_p', 'temperature'] }, { min_keep: 2 }]) {
    const a = await complete({ temperature: 1, ...more }), b = await complete({ temperature: 1, ...more });
    same(a.content, b.content, JSON.stringify(more));
    must(a.content !== greedy && a.tokens_predicted === 24, JSON.stringify(more));
  }
  same((await complete({ samplers: ['top_k'], top_k: 1, temperature: 1 })).content, greedy, 'one candidate');
  same((await complete({ samplers: 'k', top_k: 1, temperature: 1 })).content, greedy, 'by its letter');
  same((await complete({ samplers: ['temperature'], temperature: 0 })).content, greedy, 'greedy');
  same((await complete({ top_n_sigma: 0.0001, temperature: 1 })).content, greedy, 'a narrow band');
  const xtc = await complete({ xtc_probability: 1, xtc_threshold: 0, temperature: 1, top_k: 2, samplers: ['top_k', 'xtc'], n_predict: 1, return_tokens: true });
  const top = (await complete({ n_probs: 2, temperature: 0, n_predict: 1 })).completion_probabilities[0].top_logprobs;
  same(xtc.tokens[0], top[1].id, 'the most likely one is left out');
});

await test('probabilities after sampling: of the tokens that the samplers had left', async () => {
  const probs = async (more) => (await complete({ n_predict: 4, n_probs: 5, post_sampling_probs: true, ...more })).completion_probabilities;
  const few = await probs({ temperature: 1, top_k: 3, seed: 1 });
  for (const p of few) {
    same(p.top_probs.length, 3, 'top_k leaves three');
    must(Math.abs(p.top_probs.reduce((n, t) => n + t.prob, 0) - 1) < 1e-4, 'they are all');
    same(p.top_probs.map((t) => t.prob), p.top_probs.map((t) => t.prob).sort((a, b) => b - a));
    must(Math.abs(p.top_probs.find((t) => t.id === p.id).prob - p.prob) < 1e-6, 'the chosen one is among them');
  }
  same((await probs({ temperature: 0 })).map((p) => [p.prob, p.top_probs.length]), Array(4).fill([1, 1]), 'greedy');
  same((await probs({ temperature: 1, grammar: 'root ::= "a"{20}' })).map((p) => p.top_probs.every((t) => /^a+$/.test(t.token))), Array(4).fill(true), 'a grammar leaves few');
  same((await complete({ post_sampling_probs: true })).completion_probabilities, undefined, 'none are wanted');
  const old = (await s.post('/v1/completions', { prompt: 'Hello', max_tokens: 1, logprobs: 2, temperature: 0, post_sampling_probs: true })).choices[0].logprobs;
  same(old.token_logprobs, [0]);
});

await test('DRY looks back into the prompt', async () => {
  const { tokens } = await s.post('/tokenize', { content: 'one two three four five' });
  const next = (await s.post('/completion', { prompt: [...tokens], n_predict: 1, n_probs: 1, temperature: 0, ignore_eos: true, return_tokens: true })).tokens[0];
  const prompt = [...tokens, next, ...tokens]; // greedy would repeat what followed before, or at least may
  const dry = await s.post('/completion', { prompt, n_predict: 1, temperature: 0, ignore_eos: true, return_tokens: true, dry_multiplier: 100, dry_allowed_length: 1, logit_bias: [[next, 50]] });
  const free = await s.post('/completion', { prompt, n_predict: 1, temperature: 0, ignore_eos: true, return_tokens: true, logit_bias: [[next, 50]] });
  same(free.tokens[0], next);
  must(dry.tokens[0] !== next, 'it repeats itself');
});

await test('samplers hold to grammars, in every choice', async () => {
  const r = await complete({ n: 3, temperature: 2, typical_p: 0.95, n_predict: 60, ignore_eos: false, json_schema: { type: 'object', properties: { a: { type: 'integer', minimum: 0, maximum: 999 }, b: { enum: ['x', 'y'] } }, required: ['a', 'b'], additionalProperties: false } });
  for (const x of r) { const v = JSON.parse(x.content); must(Number.isInteger(v.a) && ['x', 'y'].includes(v.b), x.content); }
  const any = await s.post('/v1/completions', { prompt: 'x', n: 3, temperature: 2, seed: 3, max_tokens: 16, top_k: 0, dynatemp_range: 0.1 });
  must(new Set(any.choices.map((c) => c.text)).size === 3, 'choices differ');
});

await test('what the assistant has begun is continued', async () => {
  const messages = [{ role: 'user', content: 'x' }, { role: 'assistant', content: 'The answer is' }];
  const { prompt } = await s.post('/apply-template', { messages, continue_final_message: true });
  must(prompt.endsWith('The answer is'), prompt);
  const chat = await s.post('/v1/chat/completions', { messages, continue_final_message: true, temperature: 0, max_tokens: 8 });
  const plain = await s.post('/v1/completions', { prompt, temperature: 0, max_tokens: 8 });
  same(chat.choices[0].message.content, plain.choices[0].text);
  must((await refused(s.post('/v1/chat/completions', { messages: messages.slice(0, 1), continue_final_message: true }))).status === 400, 'nothing to continue');
});

await test('props, slots, adapters, short paths', async () => {
  const props = await s.get('/props');
  same([props.total_slots, props.model_alias, props.default_generation_settings.n_ctx], [4, 'm', 1024]);
  const slots = await s.get('/slots');
  same(slots.map((x) => x.id), [0, 1, 2, 3]);
  same(await s.get('/lora-adapters'), []);
  same((await s.get('/models')).data[0].id, 'm');
  same((await s.get('/v1/health')).status, 'ok');
  same((await s.post('/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 1 })).object, 'chat.completion');
});

await test('nothing stands around JSON that was asked for', async () => {
  const r = await s.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], logprobs: true, temperature: 1, max_tokens: 40, response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { const: 'yes' } } } });
  same(r.choices[0].message.content, '"yes"');
  same(r.choices[0].logprobs.content.map((x) => x.token).join(''), '"yes"');
});

await test('patterns as generators write them', async () => {
  for (const pattern of ['^\\d{3}-\\w{2}$', 'ab', '^[^x]{2,4}$', '^.{3}$', '^"q"$']) {
    const r = await s.post('/v1/completions', { prompt: 'x', temperature: 2, max_tokens: 60, response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { v: { type: 'string', pattern } }, required: ['v'], additionalProperties: false } } } });
    if (r.choices[0].finish_reason === 'length') continue; // noise need not come to an end
    must(new RegExp(pattern, 'u').test(JSON.parse(r.choices[0].text).v), `${pattern}: ${r.choices[0].text}`);
  }
});

await test('tools on a model whose template has no place for them', async () => {
  const plain = await up(makeModel('plain', '--layers', 2, '--embd', 128, '--template', "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"), ['--n-ctx', '8192', '--n-seq', '2']);
  same((await plain.get('/api/status')).engine.ready.chat.tools, false, 'it has none');
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } }, required: ['city'], additionalProperties: false } } }];
  const messages = [{ role: 'user', content: 'x' }], body = { messages, tools, tool_choice: 'required', temperature: 1, max_tokens: 400, seed: 3 };
  const r = (await plain.post('/v1/chat/completions', body)).choices[0];
  same([r.finish_reason, r.message.tool_calls[0].function.name, ['Paris', 'Rome'].includes(JSON.parse(r.message.tool_calls[0].function.arguments).city)], ['tool_calls', 'weather', true]);
  const pieces = (await plain.stream('/v1/chat/completions', body)).flatMap((e) => e.choices[0]?.delta.tool_calls ?? []).filter((d) => d.index === 0);
  same(JSON.parse(pieces.map((d) => d.function.arguments).join('')), JSON.parse(r.message.tool_calls[0].function.arguments), 'streamed');
  const after = [...messages, r.message, { role: 'tool', tool_call_id: r.message.tool_calls[0].id, content: 'rain' }, { role: 'tool', tool_call_id: 'b', content: 'sun' }];
  const { prompt } = await plain.post('/apply-template', { messages: after, tools });
  must(prompt.includes('"name":"weather"') && prompt.includes('<tool_call>{"name": "weather", "arguments": ') && prompt.includes('<tool_response>rain</tool_response>\n<tool_response>sun</tool_response>'), prompt);
  for (const choice of ['none', 'auto']) must((await plain.post('/v1/chat/completions', { messages: after, tools, tool_choice: choice, max_tokens: 4 })).choices.length === 1, choice);
  const m = await plain.post('/v1/messages', { model: 'm', max_tokens: 400, messages, tools: [{ name: 'weather', input_schema: tools[0].function.parameters }], tool_choice: { type: 'any' } });
  same([m.stop_reason, m.content[0].type], ['tool_use', 'tool_use']);
  await plain.stop();
});

await test('what cannot be done is refused by its name', async () => {
  for (const [body, param] of [[{}, 'prompt'], [{ prompt: 'x', n_predcit: 3 }, 'n_predcit'], [{ prompt: 'x', lora: [{ id: 0, scale: 1 }] }, 'lora'], [{ prompt: 'x', samplers: ['best'] }, 'samplers'], [{ prompt: 'x', logit_bias: [[{}, 1]] }, 'logit_bias'], [{ prompt: 'x', logit_bias: [['a', 'b']] }, 'logit_bias'], [{ prompt: 'x', logit_bias: { '': 1 } }, 'logit_bias'],
    [{ prompt: 'x', dry_sequence_breakers: [] }, 'dry_sequence_breakers'], [{ prompt: [1, {}] }, 'prompt'], [{ prompt: 'x', n_predict: 1.5 }, 'n_predict'], [{ prompt: 'x', t_max_predict_ms: 'soon' }, 't_max_predict_ms'], [{ prompt: 'x', response_fields: 'content' }, 'response_fields'], [{ prompt: 'x', verbose: true }, 'verbose']])
    same((await refused(s.post('/completion', body))).error.param, param, JSON.stringify(body));
});

await test('timings with each token, and the progress of a prompt', async () => {
  const small = await up(makeModel('slow', '--layers', 2, '--embd', 128), ['--n-ctx', '2048', '--n-batch', '64', '--n-ubatch', '64']);
  const prompt = 'and so on '.repeat(60), n = (await small.post('/tokenize', { content: prompt })).tokens.length;
  for (const [path, body] of [['/completion', { prompt, n_predict: 6 }], ['/v1/completions', { prompt, max_tokens: 6 }], ['/v1/chat/completions', { messages: [{ role: 'user', content: prompt }], max_tokens: 6, seed: 3 }]]) {
    const events = await small.stream(path, { ...body, ignore_eos: true, cache_prompt: false, timings_per_token: true, return_progress: true });
    const far = events.filter((e) => e.prompt_progress).map((e) => e.prompt_progress), timed = events.filter((e) => e.timings);
    const total = far[0].total;
    must(total >= n && far.length > 3 && far.every((p) => p.total === total && p.cache === 0 && p.time_ms >= 0), JSON.stringify(far));
    same([far[0].processed, far.at(-1).processed], [0, total], path);
    same(far.map((p) => p.processed), far.map((p) => p.processed).toSorted((a, b) => a - b));
    must(events.indexOf(timed[0]) > events.findLastIndex((e) => e.prompt_progress), 'first the prompt, then the text');
    same([timed[0].timings.prompt_n, timed.at(-1).timings.predicted_n], [total, 6], path);
    must(timed.every((e) => e.timings.cache_n === 0 && e.timings.prompt_ms >= 0), path);
    if (path !== '/completion') must(far.every((_, i) => events.filter((e) => e.prompt_progress)[i].choices[0].finish_reason === null), 'chunks as others');
    const quiet = await small.stream(path, { ...body, ignore_eos: true });
    must(!quiet.some((e) => e.prompt_progress) && !quiet.slice(0, -2).some((e) => e.timings), 'only where they are asked for');
  }
  const whole = await small.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 6, ignore_eos: true, timings_per_token: true, return_progress: true });
  same([whole.timings.predicted_n, 'prompt_progress' in whole], [6, false]);
  const events = await small.stream('/v1/responses', { input: 'word '.repeat(300), max_output_tokens: 6, cache_prompt: false, timings_per_token: true, return_progress: true });
  const far = events.filter((e) => e.prompt_progress), timed = events.filter((e) => e.timings), last = events.at(-1);
  must(far.length > 3 && far.every((e) => e.type === 'response.in_progress' && e.prompt_progress.total > 300), JSON.stringify(far.map((e) => e.prompt_progress)));
  must(last.timings && timed.every((e) => e === last || e.type.endsWith('.delta')), timed.map((e) => e.type).join());
});

await test('infill: the prompt that llama.cpp makes, cut where it is too long', async () => {
  const fim = await up(makeModel('fim', '--layers', 2, '--embd', 128, '--fim', '--type', 'f32'), ['--n-ctx', '512', ...exact]);
  const [PRE, SUF, MID, REP, SEP] = [266, 267, 268, 269, 270], tokens = async (content) => (await fim.post('/tokenize', { content, parse_special: false })).tokens;
  const how = { n_predict: 8, temperature: 0, ignore_eos: true, cache_prompt: false, n_probs: 1 };
  const sure = (r) => r.completion_probabilities.map((p) => [p.id, p.logprob.toFixed(3)]);
  const by_hand = async (prompt) => { const r = await fim.post('/completion', { prompt, ...how }); return [r.tokens_evaluated, sure(r)]; };
  const infill = async (body) => { const r = await fim.post('/infill', { ...how, ...body }); return [r.tokens_evaluated, sure(r)]; };
  const head = [REP, ...await tokens('myproject\n')], here = [SEP, ...await tokens('filename\n')];
  const prefix = 'int main() {\n', suffix = '}\n<|im_end|>', prompt = '  int n = ', extra = [{ filename: 'a.h', text: 'int a();\n' }, { text: 'word0' }];
  const core = [PRE, ...await tokens(prefix), ...await tokens(prompt), SUF, ...await tokens(suffix), MID];
  same(await infill({ input_prefix: prefix, input_suffix: suffix, prompt }), await by_hand([...head, ...here, ...core]));
  const files = [SEP, ...await tokens('a.h\n'), ...await tokens('int a();\n'), SEP, ...await tokens('tmp\n'), ...await tokens('word0')];
  same(await infill({ input_prefix: prefix, input_suffix: suffix, prompt, input_extra: extra }), await by_hand([...head, ...files, ...here, ...core]));
  same(await infill({ input_prefix: '', input_suffix: '' }), await by_hand([...head, ...here, PRE, SUF, MID]));
  const long = Array.from({ length: 600 }, (_, i) => String.fromCharCode(97 + i * 7 % 26)).join(';'), all = await tokens(long), room = 512 - 8 - 1 - 3; // n_predict 8
  const n_suffix = Math.floor(room / 4), n_prefix = room - n_suffix;
  same(await infill({ input_prefix: long, input_suffix: long, input_extra: extra }), await by_hand([PRE, ...all.slice(-n_prefix), SUF, ...all.slice(0, n_suffix), MID]), 'both sides cut');
  same((await infill({ input_prefix: prefix, input_suffix: suffix, input_extra: Array(20).fill({ text: long }) }))[0], 503, 'as much of other files as fits');
  const streamed = await fim.stream('/infill', { ...how, input_prefix: prefix, input_suffix: suffix, prompt });
  must(streamed.at(-1).stop && streamed.at(-1).tokens_predicted === 8, JSON.stringify(streamed.at(-1)));
  must(!JSON.stringify(streamed.at(-1).generation_settings).includes('main'), 'the texts do not come back as settings');
  for (const [body, param] of [[{ input_suffix: '' }, 'input_prefix'], [{ input_prefix: '' }, 'input_suffix'], [{ input_prefix: 1, input_suffix: '' }, 'input_prefix'], [{ input_prefix: '', input_suffix: '', prompt: [1] }, 'prompt'],
    [{ input_prefix: '', input_suffix: '', input_extra: [{ filename: 'x' }] }, 'input_extra'], [{ input_prefix: '', input_suffix: '', prompt: long }, 'prompt'], [{ input_prefix: '', input_suffix: '', input_extra: Array(257).fill({ text: '' }) }, 'input_extra']])
    same((await refused(fim.post('/infill', body))).error.param, param, JSON.stringify(body).slice(0, 100));
  const filled = (await fim.post('/infill', { ...how, n_probs: 0, input_prefix: prefix, input_suffix: suffix })).content;
  same((await fim.post('/v1/completions', { prompt: prefix, suffix, max_tokens: 8, temperature: 0, ignore_eos: true })).choices[0].text, filled, 'a suffix in OpenAI\'s API');
  const ollama = await fim.post('/api/generate', { prompt: prefix, suffix, stream: false, options: { num_predict: 8, temperature: 0 } });
  must(ollama.response === filled || ollama.done_reason === 'stop' && filled.startsWith(ollama.response), `a suffix in Ollama's: ${JSON.stringify(ollama)}`);
  same((await refused(fim.post('/v1/completions', { prompt: ['a'], suffix: 'b' }))).error.param, 'suffix');
  must((await refused(s.post('/infill', { input_prefix: '', input_suffix: '' }))).message.includes('fill-in-the-middle'), 'a model without such tokens');
});

await test('infill as llama.vim and llama.vscode ask', async () => {
  const fim = await up(makeModel('fim', '--layers', 2, '--embd', 128, '--fim', '--type', 'f32'), ['--n-ctx', '2048']);
  const input_extra = [{ text: 'int a();\n'.repeat(40), time: [1, 2], filename: 'a.c' }], file = { input_prefix: 'int b() {\n', input_suffix: '}\n', input_extra };
  const ahead = await fetch(fim.url + '/infill', { method: 'POST', body: JSON.stringify({ input_prefix: '', input_suffix: '', input_extra, prompt: '', n_predict: 0, temperature: 0.0, stream: false, samplers: [], cache_prompt: true, t_max_prompt_ms: 1, t_max_predict_ms: 1, response_fields: [''] }) });
  same([ahead.status, await ahead.json(), ahead.headers.get('x-ignored')], [200, {}, 't_max_prompt_ms']);
  const response_fields = ['content', 'timings/prompt_n', 'timings/cache_n', 'timings/predicted_n', 'truncated', 'tokens_cached', 'nothing/there'];
  const body = { ...file, prompt: '    return', n_predict: 20, stop: [], n_indent: 4, top_k: 40, top_p: 0.9, samplers: ['top_k', 'top_p', 'infill'], stream: false, cache_prompt: true, t_max_prompt_ms: 500, t_max_predict_ms: 60000, response_fields };
  const r = await fim.post('/infill', body);
  same(Object.keys(r).sort(), response_fields.slice(0, -1).sort());
  must(r.tokens_cached > 300, `what was sent ahead is in the cache: ${JSON.stringify(r)}`);
  same(Object.keys((await fim.stream('/infill', { ...body, stream: true })).at(-1)).sort(), response_fields.slice(0, -1).sort(), 'of a stream, too');
});

await test('lines of code: the answer ends before one that is not indented, and with one when it is late', async () => {
  const lines = (grammar, more) => complete({ n_predict: 60, temperature: 0, grammar: `root ::= "${grammar}"`, ...more });
  const short = await lines('a\\n    b\\n  c\\n    d', { n_indent: 4 });
  same([short.content, short.stop_type], ['a\n    b\n  ', 'limit']);
  same((await lines('a\\n    b\\n  c\\n    d', { n_indent: 2 })).content, 'a\n    b\n  c\n    d');
  const late = await lines(`${'a'.repeat(40)}\\nb\\nc`, { t_max_predict_ms: 1 }); // no computer says forty letters in a millisecond
  same([late.content, late.stop_type], [`${'a'.repeat(40)}\n`, 'limit']);
  same((await complete({ prompt: 'only to be kept', n_predict: 0 })).tokens_predicted, 0);
  same((await s.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 0 })).choices[0].message.content, '');
});

done('native');

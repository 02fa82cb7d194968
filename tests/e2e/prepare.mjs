// What a request makes the engine do besides computing tokens: whoever sends too much of it is refused with the cause, and nobody else
// waits. A budget is processor time, so nothing here counts seconds: what is asked is who is answered before whom.
import fs from 'node:fs';
import { dir, done, makeModel, must, refused, same, test, up } from './real.mjs';
import { eventually } from './lib.mjs';

const calm = '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n';
const model = makeModel('model', '--layers', 2, '--embd', 128, '--template', 'tools');
const s = await up(model, ['--n-ctx', '32768', '--n-seq', '6']);

const user = (content) => [{ role: 'user', content }];
const optional = (n) => ({ type: 'object', properties: Object.fromEntries(Array.from({ length: n }, (_, i) => ['p' + i, { type: 'string' }])), additionalProperties: false });
const tool = (name, n) => ({ type: 'function', function: { name, parameters: optional(n) } });
const schema = (n) => ({ type: 'json_schema', json_schema: { name: 'x', schema: optional(n) } });
const chat = '/v1/chat/completions';
const honest = { messages: user('hello'), max_tokens: 4, temperature: 0 };

// The tree of processes under the server: pid, its command's state, and memory that is its own.
const ownMib = (pid) => [...fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').matchAll(/^Private_\w+:\s+(\d+)/gm)].reduce((n, m) => n + Number(m[1]), 0) / 1024;
function family(pid) {
  const all = fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p)).flatMap((p) => {
    try {
      const [, state, parent] = /\) (\S) (\d+)/.exec(fs.readFileSync(`/proc/${p}/stat`, 'utf8'));
      return [{ pid: Number(p), parent: Number(parent), state }];
    } catch { return []; } // it has ended meanwhile
  });
  const of = (one) => all.filter((p) => p.parent === one).flatMap((p) => [p, ...of(p.pid)]);
  return of(pid);
}

async function fails(where, body, status, code, words, server = s) {
  const e = await server.post(where, body).then(() => null, (error) => error);
  must(e, 'it was answered: ' + JSON.stringify(body).slice(0, 80));
  same([e.status, e.error?.code], [status, code], e.message);
  must(words.test(e.message), `not the cause: ${e.message}`);
  return e;
}

const bombs = {
  'a schema of 2,000 optional properties': [chat, { ...honest, response_format: schema(2000) }, /JSON schema of 'response_format' takes more than .* s of processor time/],
  'a schema of 8,000': [chat, { ...honest, response_format: schema(8000) }, /JSON schema of 'response_format' takes more than/],
  'the same without a chat': ['/v1/completions', { prompt: 'x', max_tokens: 4, response_format: schema(2000) }, /converting the JSON schema of 'response_format' takes more/],
  'four tools of 1,000': [chat, { ...honest, tools: ['a', 'b', 'c', 'd'].map((n) => tool(n, 1000)), tool_choice: 'required' }, /JSON schemas of 'tools' takes more than/],
};

for (const [name, [where, body, words]] of Object.entries(bombs)) {
  await test(`${name}: refused with the cause; others are served before, streams go on, nothing restarts`, async () => {
    const texts = [0, 0];
    let over = false;
    const streams = texts.map((_, i) => s.stream('/v1/completions', { prompt: 'once ' + i, max_tokens: 30000, ignore_eos: true }, (events) => { texts[i] = events.length; return over; }));
    await eventually('both streams write', () => texts.every((n) => n > 5));
    const order = [];
    const bombed = [0].map(() => fails(where, body, 400, 'too_costly', words).then((e) => { order.push('bomb'); return e; }));
    const before = [...texts];
    for (let i = 0; i < 3; i++) { await s.post(chat, honest); order.push('honest'); }
    await Promise.all(bombed);
    same(order.slice(0, 3), ['honest', 'honest', 'honest'], 'somebody waited for a bomb');
    must(texts.every((n, i) => n > before[i]), `a stream stood still: ${before} ${texts}`);
    over = true;
    await Promise.all(streams);
    same(await s.metric('engine_starts_total'), 1, 'it was restarted');
  });
}

// The process that forks workers: all of its children are childless.
const preparer = () => family(s.child.pid).find((p) => family(p.pid).length >= 2 && family(p.pid).every((w) => family(w.pid).length === 0))?.pid;
const workers = () => family(preparer()).map((p) => p.pid);

await test('a client that leaves takes its worker along', async () => {
  await eventually('idle workers', () => workers().length >= 2);
  const before = workers(), leave = new AbortController();
  for (const pid of before) process.kill(pid, 'SIGSTOP'); // so that it is not done before the client has left
  const gone = fetch(s.url + chat, { method: 'POST', body: JSON.stringify(honest), signal: leave.signal }).catch(() => 'gone');
  await eventually('a worker has it', async () => await s.metric('preparing_requests') === 1);
  leave.abort();
  same(await gone, 'gone');
  await eventually('a worker is replaced', () => before.filter((pid) => !workers().includes(pid)).length === 1 && workers().length >= 2);
  for (const pid of before) try { process.kill(pid, 'SIGCONT'); } catch { /* the one that is gone */ }
  await s.post(chat, honest);
  same(await s.metric('engine_starts_total'), 1, 'it was restarted');
});

await test('bombs leave no memory and no process behind', async () => {
  await s.post(chat, honest);
  const engine = family(s.child.pid).find((p) => p.parent === s.child.pid).pid;
  const before = ownMib(engine);
  await Promise.all([1, 2, 3].map(() => fails(chat, { ...honest, response_format: schema(2000) }, 400, 'too_costly', /JSON schema/)));
  await s.post(chat, honest);
  await eventually('no zombie', () => family(s.child.pid).every((p) => p.state !== 'Z'));
  const after = ownMib(engine), all = family(s.child.pid);
  must(all.length <= 1 + 1 + 8, 'processes: ' + all.length);
  must(after < before + 32, `the engine has grown: ${before} ${after} MiB`);
  console.log(`        engine ${after.toFixed(0)} MiB of its own, preparer and workers ${all.slice(1).map((p) => ownMib(p.pid).toFixed(1)).join(' ')}`);
});

await test('a long prompt is no bomb: all of it is tokenized', async () => {
  const words = Array.from({ length: 100000 }, (_, i) => 'w' + i).join(' ');
  await fails(chat, { ...honest, messages: user(words) }, 400, 'context_length_exceeded', /'messages' has [56]\d{5} tokens, which exceeds/);
});

// The preparer does nothing that can fail; if it is killed nevertheless, the engine is started again, since it cannot fork another.
await test('workers that somebody kills are replaced; without the preparer the engine starts again', async () => {
  const before = workers();
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await eventually('others are there', () => workers().length >= 2 && workers().every((pid) => !before.includes(pid)));
  await eventually('a chat', () => s.post(chat, honest).then(() => true, () => false));
  same(await s.metric('engine_starts_total'), 1, 'it was restarted');
  process.kill(preparer(), 'SIGKILL');
  await eventually('another engine', async () => await s.metric('engine_starts_total') === 2 && (await s.get('/health')).status === 'ok');
  await s.post(chat, honest);
  must(/prepares requests has ended/.test(s.text()), s.text());
});

await s.stop();

// --- templates ---

const loops = '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}';
const grows = "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";

await test('a template that loops for one message: its sender is refused', async () => {
  const t = await up(makeModel('some', '--layers', 1, '--embd', 64, '--template', calm + `{% if m.content == 'bomb' %}${loops}{% endif %}{% if m.content == 'grow' %}${grows}{% endif %}{% endfor %}`), ['--n-seq', '4']);
  await t.post(chat, honest);
  const order = [];
  const bombed = [1, 2].map(() => fails(chat, { ...honest, messages: user('bomb') }, 400, 'too_costly', /rendering the chat template takes more than .* s of processor time/, t).then(() => order.push('bomb')));
  await t.post(chat, honest);
  order.push('honest');
  await Promise.all(bombed);
  same(order[0], 'honest');
  await fails(chat, { ...honest, messages: user('grow') }, 400, 'too_costly', /rendering the chat template takes more than .* MiB of memory/, t);
  same(await t.metric('engine_starts_total'), 1, 'it was restarted');
  await t.stop();
});

for (const [what, template, words] of [['loops', loops, /takes more than .* s of processor time/], ['takes all memory', grows, /memory|processor time/], ['is no template', '{% if %}', /template/]]) {
  await test(`a model file whose template ${what} is served without chats`, async () => {
    const t = await up(makeModel('bad', '--layers', 1, '--embd', 64, '--template', template + calm + '{% endfor %}'), []);
    must(/cannot chat/.test(t.text()) && words.test(t.text()), 'the log does not say so: ' + t.text());
    await fails(chat, honest, 400, 'unsupported_model', /chat template cannot be used/, t);
    must((await t.post('/v1/completions', { prompt: 'abc', max_tokens: 3 })).choices.length === 1, 'no completion');
    same(await t.metric('engine_starts_total'), 1, 'it was restarted');
    await t.stop();
  });
}

await test('a template that was asked for and loops is refused', async () => {
  const file = dir + '/loops.jinja';
  fs.writeFileSync(file, loops);
  const r = await refused(model, ['--chat-template', file]);
  must(r.code !== 0 && /trying the chat template takes more than/.test(r.text), r.text);
});

// llama.cpp's regular expressions call themselves for every character of a word.
await test('a word that overflows the stack of the tokenizer costs its sender alone', async () => {
  const t = await up(makeModel('deep', '--layers', 1, '--embd', 64, '--pre', 'tekken'), ['--n-ctx', '8192']);
  await fails('/v1/completions', { prompt: 'a'.repeat(3e6), max_tokens: 1 }, 400, 'prepare_failed', /tokenizing the prompt failed: its process was ended by signal 11/, t);
  must((await t.post('/v1/completions', { prompt: 'abc', max_tokens: 3 })).choices.length === 1, 'no completion');
  same(await t.metric('engine_starts_total'), 1, 'it was restarted');
  await t.stop();
});

await test('a model without a tokenizer says so', async () => {
  const t = await up(makeModel('mute', '--layers', 1, '--embd', 64, '--no-tokenizer'), ['--embeddings']);
  for (const [where, body] of [[chat, honest], ['/v1/completions', { prompt: 'abc' }], ['/v1/completions', { prompt: [1, 2, 3] }], ['/v1/embeddings', { input: 'abc' }],
    ['/infill', { input_prefix: 'a', input_suffix: 'b' }], ['/tokenize', { content: 'abc' }], ['/detokenize', { tokens: [1] }], ['/apply-template', { messages: user('x') }], ['/v1/responses', { input: 'abc' }]])
    await fails(where, body, 400, 'unsupported_model', /no tokenizer/, t);
  for (const [where, body] of [['/v1/messages', { messages: user('x'), max_tokens: 4 }], ['/v1/messages/count_tokens', { messages: user('x') }], ['/api/chat', { messages: user('x'), stream: false }], ['/v1/rerank', { query: 'a', documents: ['b'] }]]) {
    const r = await fetch(t.url + where, { method: 'POST', body: JSON.stringify(body) });
    same(r.status, 400, where);
  }
  same(await t.metric('engine_starts_total'), 1, 'it was restarted');
  await t.stop();
});

done('prepare');

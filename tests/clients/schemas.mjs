// Structured output over the real engine: a corpus of schemas as generators write them (schema_corpus.mjs), each asked of a model of noise, which says
// whatever its grammar lets it. Every answer must be valid, as ajv judges it, formats included, or be refused before the first token (400).
// SHARE=N asks every N-th of them, NAMES=REGEX those of that name.
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { corpus } from './schema_corpus.mjs';
import { done, makeModel, must, same, test, up } from './real.mjs';

const share = Number(process.env.SHARE ?? 1);
const some = corpus.filter((c, i) => i % share === 0 && (!process.env.NAMES || new RegExp(process.env.NAMES).test(c.name)));
const s = await up(makeModel('model', '--layers', 1, '--embd', 64), ['--n-ctx', '8192', '--n-seq', '4']);

// Noise seldom ends what it has begun: quotes and brackets that close are made likely, what continues and white space are not.
const id = async (text) => (await s.post('/tokenize', { content: text })).tokens[0];
const bias = async (...rows) => { const all = {}; for (const [texts, value] of rows) for (const c of texts) all[await id(c)] = value; return all; };
const usual = await bias(['"}]', 12], [',', 4], [' \n\t\\', -100]);
// And what a pattern waits for in the middle of anything, it does not find by chance.
const needs = [[/email$/i, 'a@.'], [/ends with$/, 'yz'], [/includes$/, 'mid'], [/words$/, 'a '], [/unanchored$/, '1']];
const biases = new Map();
for (const [name, letters] of needs) biases.set(name, { ...usual, ...await bias(['}]', 0], [letters, 14]) });

// valid, refused, or what is wrong
async function ask({ name, schema }, seed) {
  const needed = [...biases].find(([about]) => about.test(name))?.[1];
  const body = { messages: [{ role: 'user', content: 'x' }], max_tokens: 700, temperature: 1, seed, logit_bias: needed ?? usual, frequency_penalty: needed ? 0.5 : 0, response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } };
  const r = await fetch(s.url + '/v1/chat/completions', { method: 'POST', body: JSON.stringify(body) });
  const json = await r.json();
  if (r.status === 400) return { refused: json.error.message };
  if (!r.ok) return { wrong: `${r.status} ${json.error?.message}` };
  const { message, finish_reason } = json.choices[0];
  if (finish_reason !== 'stop') return { unfinished: true };
  const ajv = addFormats(new Ajv({ strict: false, allErrors: true, logger: false }));
  ajv.addFormat('duration', /^P(?!$)((\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?|(\d+W)?)$/);
  let value;
  try { value = JSON.parse(message.content); } catch { return { wrong: `no JSON: ${message.content.slice(0, 200)}` }; }
  const valid = ajv.compile(schema);
  return valid(value) ? { valid: true } : { wrong: `${message.content.slice(0, 300)}: ${ajv.errorsText(valid.errors)}` };
}

await test(`${some.length} schemas of ${corpus.length}: each answer is valid, or it is refused`, async () => {
  const results = new Map(), queue = [...some];
  await Promise.all([1, 2, 3, 4].map(async () => {
    for (let one; (one = queue.shift());) {
      let r;
      for (let seed = 1; seed <= 4 && (!r || r.unfinished); seed++) r = await ask(one, seed);
      results.set(one.name, r);
    }
  }));
  const count = (key) => [...results.values()].filter((r) => r[key]).length;
  console.log(`        ${count('valid')} valid, ${count('refused')} refused, ${count('unfinished')} unfinished, ${count('wrong')} wrong`);
  if (process.env.VERBOSE) for (const [name, r] of results) if (!r.valid) console.log(`        ${name}: ${r.refused ?? r.wrong ?? 'unfinished'}`);
  const wrong = [...results].filter(([, r]) => r.wrong).map(([name, r]) => `${name}: ${r.wrong}`);
  same(wrong, []);
  same([...results].filter(([, r]) => r.unfinished).map(([name]) => name), [], 'unfinished');
  must(count('valid') * 10 >= some.length * 8, 'too many are refused');
});
done('schemas');

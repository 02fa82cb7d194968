// Requests that may cost more than they look: a kind is a shape with a few numbers, and a generator draws and changes the numbers.
//   kinds[name] = { range: {number: [from, to]}, make(numbers) -> {path, body}, load(numbers) -> [requests, tokens of each] }
// load is there where a request costs nothing but tokens: so many ordinary requests are what it is compared with.
// What the server refuses by a limit costs nothing and is dropped by the search; so ranges go a little past the limits.
import { blackPng, picture } from '../tests/e2e/png.mjs';
import { api_kinds } from './attack_kinds_apis.mjs';

const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const object = (pairs) => Object.fromEntries(pairs);
const chat = (more, content = 'hi') => ({ path: '/v1/chat/completions', body: { messages: [{ role: 'user', content }], max_tokens: 8, ...more } });
const completion = (more) => ({ path: '/v1/completions', body: { prompt: 'hi', max_tokens: 8, ...more } });
export const schema = (s) => chat({ response_format: { type: 'json_schema', json_schema: { name: 's', schema: s } } });
export const grammar = (text) => completion({ grammar: text });
export const optional = (n, long = 1) => ({ type: 'object', properties: object(times(n, (i) => [`${'p'.repeat(long)}${i}`, { type: 'string' }])) });
export const tools = (n, parameters, strict) => chat({ tools: times(n, (i) => ({ type: 'function', function: { name: `f${i}`, description: 'd', parameters, ...(strict ? { strict } : {}) } })) });
const wrap = (depth, inner, around) => { for (let i = 0; i < depth; i++) inner = around(inner, i); return inner; };
const leaf = { type: 'string' };
const letters = 'abcdefghijklmnopqrstuvwxyz';

// Text that splitters of words and merges of pairs find hard.
export const texts = {
  letter: (n) => 'a'.repeat(n), spaces: (n) => ' '.repeat(n), lines: (n) => '\n'.repeat(n), digits: (n) => '7'.repeat(n),
  emoji: (n) => '👩‍👩‍👧‍👦'.repeat(n / 25), marks: (n) => 'e' + '\u0301'.repeat(n / 2), han: (n) => '的'.repeat(n / 3),
  joined: (n) => times(n, (i) => letters[(i * i * 7 + i) % 26]).join(''), broken: (n) => '\ufffd\ud7ff\ue000'.repeat(n / 9 + 1),
  quotes: (n) => "'s't'd".repeat(n / 6 + 1), tags: (n) => '<|im_start|>'.repeat(n / 12 + 1), mixed: (n) => 'aA1 \u00e9\t!'.repeat(n / 8 + 1),
};

export const kinds = {
  'schema: optional properties': { range: { n: [10, 9000], long: [1, 200] }, make: ({ n, long }) => schema(optional(n, long)) },
  'schema: required properties': { range: { n: [10, 9000] }, make: ({ n }) => { const s = optional(n); return schema({ ...s, required: Object.keys(s.properties), additionalProperties: false }); } },
  'schema: half of them required': { range: { n: [10, 9000] }, make: ({ n }) => { const s = optional(n); return schema({ ...s, required: Object.keys(s.properties).filter((_, i) => i % 2) }); } },
  'schema: optional inside optional': { range: { n: [2, 40], depth: [1, 30] }, make: ({ n, depth }) => schema(wrap(depth, optional(n), (inner) => { const s = optional(n); s.properties.p0 = inner; return s; })) },
  'schema: names with one beginning': { range: { n: [10, 3000], long: [1, 80] }, make: ({ n, long }) => schema({ ...optional(n, long), additionalProperties: { type: 'string' } }) },
  'schema: enum': { range: { n: [10, 40000], long: [1, 200] }, make: ({ n, long }) => schema({ enum: times(n, (i) => 'v'.repeat(long) + i) }) },
  'schema: enums': { range: { n: [10, 2000], m: [2, 100] }, make: ({ n, m }) => schema({ type: 'object', properties: object(times(n, (i) => [`p${i}`, { enum: times(m, (k) => `v${k}`) }])) }) },
  'schema: anyOf': { range: { n: [2, 2000], depth: [1, 12] }, make: ({ n, depth }) => schema(wrap(depth, leaf, (inner) => ({ anyOf: [...times(n, (i) => ({ const: `c${i}` })), inner] }))) },
  'schema: anyOf of alike': { range: { n: [2, 500] }, make: ({ n }) => schema({ type: 'array', items: { anyOf: times(n, () => ({ type: 'object', properties: { a: leaf, b: leaf } })) } }) },
  'schema: oneOf': { range: { n: [2, 2000] }, make: ({ n }) => schema({ oneOf: times(n, (i) => ({ const: i })) }) },
  'schema: allOf': { range: { n: [2, 500], m: [1, 50] }, make: ({ n, m }) => schema({ allOf: times(n, () => optional(m)) }) },
  'schema: web of references': { range: { n: [2, 600], m: [1, 12] }, make: ({ n, m }) => schema({ $ref: '#/$defs/d0', $defs: object(times(n, (i) => [`d${i}`, { type: 'object', properties: object(times(m, (k) => [`p${k}`, { $ref: `#/$defs/d${(i * m + k + 1) % n}` }])) }])) }) },
  'schema: array of arrays': { range: { n: [1, 2100], depth: [1, 12] }, make: ({ n, depth }) => schema(wrap(depth, leaf, (items) => ({ type: 'array', items, minItems: 0, maxItems: n }))) },
  'schema: minItems': { range: { n: [1, 2100], depth: [1, 6] }, make: ({ n, depth }) => schema(wrap(depth, leaf, (items) => ({ type: 'array', items, minItems: n }))) },
  'schema: maxLength': { range: { n: [1, 2100], m: [1, 200] }, make: ({ n, m }) => schema({ type: 'object', properties: object(times(m, (i) => [`p${i}`, { type: 'string', maxLength: n }])) }) },
  'schema: pattern, repeated': { range: { n: [1, 2100], depth: [1, 8] }, make: ({ n, depth }) => schema({ type: 'string', pattern: `^${wrap(depth, '[a-z]', (x) => `(${x}){0,${n}}`)}$` }) },
  'schema: pattern, choices': { range: { n: [2, 200] }, make: ({ n }) => schema({ type: 'string', pattern: `^(${times(n, (i) => 'a'.repeat(i % 7 + 1)).join('|')})*$` }) },
  'schema: integers': { range: { n: [1, 4000], digits: [1, 15] }, make: ({ n, digits }) => schema({ type: 'object', properties: object(times(n, (i) => [`p${i}`, { type: 'integer', minimum: -(10 ** digits) + 7, maximum: 10 ** digits - 3 }])) }) },
  'schema: additionalProperties': { range: { depth: [1, 33] }, make: ({ depth }) => schema(wrap(depth, leaf, (inner) => ({ type: 'object', properties: { a: leaf }, additionalProperties: inner }))) },
  'schema: prefixItems': { range: { n: [2, 8200] }, make: ({ n }) => schema({ type: 'array', prefixItems: times(n, () => leaf) }) },
  'schema: types': { range: { n: [2, 4000] }, make: ({ n }) => schema({ type: 'object', properties: object(times(n, (i) => [`p${i}`, { type: ['string', 'number', 'null', 'boolean', 'array', 'object'] }])) }) },
  'schema: formats': { range: { n: [2, 4000] }, make: ({ n }) => schema({ type: 'object', properties: object(times(n, (i) => [`p${i}`, { type: 'string', format: ['date', 'time', 'date-time', 'uuid'][i % 4] }])) }) },

  'grammar: options in a row': { range: { n: [2, 16000] }, make: ({ n }) => grammar(`root ::= ${'[a]?'.repeat(n)}`) },
  'grammar: repeated option': { range: { n: [2, 2100] }, make: ({ n }) => grammar(`root ::= [a-z]?{${n}}`) },
  'grammar: nested repetition': { range: { n: [1, 60], depth: [1, 60] }, make: ({ n, depth }) => grammar(`root ::= ${wrap(depth, '[a-z]', (x) => `(${x}){0,${n}}`)}`) },
  'grammar: stars of stars': { range: { depth: [1, 130] }, make: ({ depth }) => grammar(`root ::= ${wrap(depth, '[a-z]', (x) => `(${x})*`)}`) },
  'grammar: alike alternatives': { range: { n: [2, 9000] }, make: ({ n }) => grammar(`root ::= (${times(n, () => '[a-z]').join('|')})*`) },
  'grammar: growing alternatives': { range: { n: [2, 300] }, make: ({ n }) => grammar(`root ::= (${times(n, (i) => `"${'a'.repeat(i + 1)}"`).join('|')})*`) },
  'grammar: words': { range: { n: [2, 12000] }, make: ({ n }) => grammar(`root ::= (${times(n, (i) => `"${i.toString(36)}"`).join('|')})+`) },
  'grammar: nullable pairs': { range: { n: [1, 40] }, make: ({ n }) => grammar(`root ::= r0\n${times(n, (i) => `r${i} ::= r${i + 1} r${i + 1}`).join('\n')}\nr${n} ::= [a-z]?`) },
  'grammar: pairs': { range: { n: [1, 40] }, make: ({ n }) => grammar(`root ::= r0\n${times(n, (i) => `r${i} ::= r${i + 1} | r${i + 1} r${i + 1}`).join('\n')}\nr${n} ::= [a-z]`) },
  'grammar: recursion': { range: { n: [1, 3000] }, make: ({ n }) => grammar(`root ::= r0\n${times(n, (i) => `r${i} ::= [a-z] r${(i + 1) % n} | [a-z] r${(i * 7 + 1) % n} | ""`).join('\n')}`) },
  'grammar: left recursion': { range: { n: [1, 2000] }, make: ({ n }) => grammar(`root ::= r0\n${times(n, (i) => `r${i} ::= r${(i + 1) % n} "a" | "b"`).join('\n')}`) },
  'grammar: chain of rules': { range: { n: [2, 5000] }, make: ({ n }) => grammar(`root ::= r0\n${times(n, (i) => `r${i} ::= r${i + 1}`).join('\n')}\nr${n} ::= [a-z]`) },
  'grammar: large class': { range: { n: [2, 12000], m: [1, 4] }, make: ({ n, m }) => grammar(`root ::= (${times(m, () => `[${times(n, (i) => String.fromCodePoint(0x4e00 + 2 * i % 20000)).join('')}]`).join(' ')})*`) },
  'grammar: large class, not': { range: { n: [2, 12000] }, make: ({ n }) => grammar(`root ::= [^${times(n, (i) => String.fromCodePoint(0x4e00 + 2 * i % 20000)).join('')}]*`) },
  'grammar: ambiguous lists': { range: { n: [1, 12], m: [2, 40] }, make: ({ n, m }) => grammar(`root ::= ${times(n, () => 'x').join(' ')}\nx ::= (${times(m, () => 'y').join(' | ')})*\ny ::= [a-z]+ | [a-z]* [a-z]*`) },

  'tools: many and wide': { range: { n: [1, 256], m: [1, 2000] }, make: ({ n, m }) => tools(n, optional(m)) },
  'tools: many and wide, strict': { range: { n: [1, 256], m: [1, 2000] }, make: ({ n, m }) => tools(n, optional(m), true) },
  'tools: one is required': { range: { n: [1, 64], m: [1, 1000] }, make: ({ n, m }) => { const t = tools(n, optional(m)); t.body.tool_choice = 'required'; return t; } },
  'tools: long descriptions': { range: { n: [1, 256], long: [10, 1000000] }, make: ({ n, long }) => { const t = tools(n, optional(1)); for (const x of t.body.tools) x.function.description = 'd'.repeat(long / n); return t; } },
  'tools: deep': { range: { n: [1, 64], depth: [1, 55] }, make: ({ n, depth }) => tools(n, wrap(depth, leaf, (inner) => ({ type: 'object', properties: { a: inner, b: leaf } }))) },
  'tools: web of references': { range: { n: [1, 40], m: [2, 200] }, make: ({ n, m }) => tools(n, { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs: object(times(m, (i) => [`d${i}`, { type: 'object', properties: { a: { $ref: `#/$defs/d${(i + 1) % m}` }, b: { $ref: `#/$defs/d${(2 * i + 1) % m}` } } }])) }) },
  'tools: pattern': { range: { n: [1, 40], m: [1, 500] }, make: ({ n, m }) => tools(n, { type: 'object', properties: { a: { type: 'string', pattern: `^((a{0,${m}}){0,${m}})*$` } } }) },

  'template: nested ranges': { range: { rounds: [10, 100000] }, make: ({ rounds }) => chat({ chat_template_kwargs: { rounds } }) },
  'template: large values': { range: { n: [10, 66000] }, make: ({ n }) => chat({ chat_template_kwargs: { a: 'x'.repeat(n) } }) },
  'template: many values': { range: { n: [10, 20000] }, make: ({ n }) => chat({ chat_template_kwargs: { a: times(n, () => 1) } }) },
  'messages: many': { range: { n: [10, 8192] }, make: ({ n }) => chat({ messages: times(n, (i) => ({ role: i % 2 ? 'assistant' : 'user', content: 'x' })) }) },
  'messages: many parts': { range: { n: [1, 100], m: [1, 1024] }, make: ({ n, m }) => chat({ messages: times(n, () => ({ role: 'user', content: times(m, () => ({ type: 'text', text: 'x' })) })) }) },
  'messages: many calls': { range: { n: [1, 100], m: [1, 128] }, make: ({ n, m }) => chat({ messages: [...times(n, () => ({ role: 'assistant', content: null, tool_calls: times(m, (k) => ({ id: `c${k}`, type: 'function', function: { name: 'f', arguments: '{"a":[[[[1]]]]}' } })) })), { role: 'user', content: 'x' }] }) },

  'choices: 16 long ones': { range: { n: [1, 16], max_tokens: [8, 512] }, load: ({ n, max_tokens }) => [n, max_tokens], make: ({ n, max_tokens }) => chat({ n, max_tokens, ignore_eos: true }) },
  'choices: many prompts': { range: { n: [1, 8], m: [1, 16] }, load: ({ n, m }) => [n * m, 32], make: ({ n, m }) => completion({ n, prompt: times(m, (i) => `${i} ${'word '.repeat(100)}`), max_tokens: 32 }) },
  'sampling: logprobs': { range: { n: [1, 8], max_tokens: [8, 256] }, load: ({ n, max_tokens }) => [n, max_tokens], make: ({ n, max_tokens }) => chat({ n, max_tokens, logprobs: true, top_logprobs: 20, ignore_eos: true }) },
  'sampling: logit_bias': { range: { n: [1, 1024], max_tokens: [8, 256] }, load: ({ max_tokens }) => [1, max_tokens], make: ({ n, max_tokens }) => chat({ max_tokens, logit_bias: object(times(n, (i) => [String(i), i % 2 ? 50 : -50])) }) },
  'sampling: stop strings': { range: { n: [1, 16], long: [1, 256] }, load: () => [1, 256], make: ({ n, long }) => chat({ max_tokens: 256, ignore_eos: true, stop: times(n, (i) => 'a'.repeat(long - 1) + letters[i]) }) },
  'sampling: penalties': { range: { last: [1, 1000000], max_tokens: [8, 512] }, load: ({ max_tokens }) => [1, max_tokens], make: ({ last, max_tokens }) => chat({ max_tokens, repeat_last_n: last, repeat_penalty: 1.5, presence_penalty: 1, frequency_penalty: 1, ignore_eos: true }) },
  'prompt: token ids': { range: { n: [10, 1000000] }, make: ({ n }) => completion({ prompt: times(n, (i) => i % 500) }) },
  'embeddings: many inputs': { range: { n: [1, 2048], long: [1, 400] }, make: ({ n, long }) => ({ path: '/v1/embeddings', body: { input: times(n, (i) => `${i} ${'x '.repeat(long)}`) } }) },
  'pictures: black and large': { range: { n: [1, 16], w: [64, 16384], h: [64, 16384] }, make: ({ n, w, h }) => chat({ messages: [{ role: 'user', content: times(n, () => picture(blackPng(w, h))) }] }) },
};
for (const [name, make] of Object.entries(texts)) kinds[`text: ${name}`] = { range: { n: [100, 4000000] }, make: ({ n }) => chat({}, make(n)) };
Object.assign(kinds, api_kinds);

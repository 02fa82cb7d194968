// Tool calls and JSON from the real engine: a model of pure noise, held by nothing but the grammar, must still call what exists
// with arguments that fit, and write JSON that its schema accepts.
import { done, makeModel, must, same, test, up } from './real.mjs';

const model = makeModel('model', '--layers', 2, '--embd', 128, '--template', 'tools');
const s = await up(model, ['--n-ctx', '8192', '--n-seq', '4']);

// As much of JSON schema as the schemas below use.
function valid(schema, v, at = '$') {
  const bad = (why) => { throw new Error(`${at}: ${why}: ${JSON.stringify(v)}`); };
  if (schema.enum && !schema.enum.some((e) => JSON.stringify(e) === JSON.stringify(v))) bad('not in enum');
  if (schema.const !== undefined && schema.const !== v) bad('not the constant');
  if (schema.anyOf) {
    const why = schema.anyOf.map((one) => { try { valid(one, v, at); return null; } catch (e) { return e; } });
    if (!why.includes(null)) throw why[0];
    return;
  }
  const is = { object: (x) => x !== null && typeof x === 'object' && !Array.isArray(x), array: Array.isArray, string: (x) => typeof x === 'string',
    integer: Number.isInteger, number: (x) => typeof x === 'number', boolean: (x) => typeof x === 'boolean', null: (x) => x === null }[schema.type];
  if (is && !is(v)) bad('not of type ' + schema.type);
  if (schema.type === 'object') {
    for (const key of schema.required ?? []) if (!(key in v)) bad('lacks ' + key);
    for (const [key, one] of Object.entries(v)) {
      if (schema.properties?.[key]) valid(schema.properties[key], one, `${at}.${key}`);
      else if (schema.additionalProperties === false) bad('has ' + key);
    }
  }
  if (schema.type === 'array') {
    if (v.length < (schema.minItems ?? 0) || v.length > (schema.maxItems ?? Infinity)) bad('has another length');
    v.forEach((one, i) => valid(schema.items ?? {}, one, `${at}[${i}]`));
  }
  if (schema.type === 'string') {
    const n = [...v.replace(/\uFFFD{1,4}/g, '?')].length; // bytes that are one character to the grammar and none to Unicode
    if (n < (schema.minLength ?? 0) || n > (schema.maxLength ?? Infinity)) bad('has another length');
    if (schema.pattern && !new RegExp(schema.pattern).test(v)) bad('does not match');
  }
  if (schema.minimum !== undefined && v < schema.minimum) bad('too small');
  if (schema.maximum !== undefined && v > schema.maximum) bad('too large');
}

const tool = (name, properties) => ({ type: 'function', function: { name, description: 'what it does', strict: true,
  parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false } } });
const tools = [
  tool('weather', { city: { type: 'string', maxLength: 10 }, unit: { type: 'string', enum: ['C', 'F'] } }),
  tool('add', { a: { type: 'integer', minimum: 0, maximum: 999 }, b: { type: 'boolean' } }),
  tool('pick', { list: { type: 'array', items: { type: 'string', enum: ['x', 'y'] }, minItems: 1, maxItems: 3 }, deep: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false } }),
];
const messages = [{ role: 'user', content: 'do something' }];
const body = (more) => ({ messages, max_tokens: 600, temperature: 1, ...more });

// Every call names a tool that is there and has arguments that its schema accepts.
function check(message, reason, allowed = tools.map((t) => t.function.name)) {
  must(message.tool_calls?.length >= 1 && !message.content, 'no call, or more than calls: ' + JSON.stringify(message));
  must(reason === 'tool_calls' || (reason === 'length' && message.tool_calls.length > 1), 'finish_reason: ' + reason);
  const whole = reason === 'length' ? message.tool_calls.slice(0, -1) : message.tool_calls; // noise likes to go on calling
  for (const call of whole) {
    must(call.id && call.type === 'function' && allowed.includes(call.function.name), 'another call: ' + JSON.stringify(call));
    valid(tools.find((t) => t.function.name === call.function.name).function.parameters, JSON.parse(call.function.arguments), call.function.name);
  }
  return message.tool_calls.map((c) => c.function.name);
}
// A stream's deltas, put together as clients do.
function join(events) {
  const message = { content: '', tool_calls: [] };
  let reason = null;
  for (const e of events) {
    const choice = e.choices[0];
    if (!choice) continue;
    reason = choice.finish_reason ?? reason;
    message.content += choice.delta.content ?? '';
    for (const d of choice.delta.tool_calls ?? []) {
      const call = message.tool_calls[d.index] ??= { id: d.id, type: d.type, function: { name: '', arguments: '' } };
      call.function.name += d.function?.name ?? '';
      call.function.arguments += d.function?.arguments ?? '';
    }
  }
  return { message, reason };
}
const chat = async (more) => { const c = (await s.post('/v1/chat/completions', body(more))).choices[0]; return { message: c.message, reason: c.finish_reason }; };
const stream = async (more) => join(await s.stream('/v1/chat/completions', body(more)));

const seeds = Array.from({ length: 8 }, (_, i) => i + 1);
for (const [how, ask] of Object.entries({ whole: chat, streamed: stream })) {
  await test(`required, ${how}: a call that fits, from noise`, async () => {
    const called = new Set();
    for (const seed of seeds) {
      const r = await ask({ tools, tool_choice: 'required', seed });
      check(r.message, r.reason).forEach((name) => called.add(name));
    }
    must(called.size >= 2, 'always the same tool: ' + [...called]);
  });
  for (const one of tools)
    await test(`named ${one.function.name}, ${how}`, async () => {
      for (const seed of seeds.slice(0, 4)) {
        const r = await ask({ tools, tool_choice: { type: 'function', function: { name: one.function.name } }, seed });
        check(r.message, r.reason, [one.function.name]);
      }
    });
  await test(`one at a time, ${how}`, async () => {
    for (const seed of seeds.slice(0, 4)) {
      const r = await ask({ tools, tool_choice: 'required', parallel_tool_calls: false, seed });
      check(r.message, r.reason);
      same([r.message.tool_calls.length, r.reason], [1, 'tool_calls']);
    }
  });
  await test(`none, ${how}: text alone`, async () => {
    const r = await ask({ tools, tool_choice: 'none', max_tokens: 30, seed: 1 });
    must(!r.message.tool_calls?.length && typeof r.message.content === 'string', JSON.stringify(r));
  });
}
await test('the same seed gives the same call, whole and streamed', async () => {
  const more = { tools, tool_choice: 'required', seed: 7 };
  const of = (r) => r.message.tool_calls.map((c) => [c.function.name, c.function.arguments]);
  same(of(await chat(more)), of(await stream(more)));
});
await test('an answer to a call goes back in', async () => {
  const first = await chat({ tools, tool_choice: 'required', seed: 3 });
  const answer = first.message.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: '42' }));
  const r = await s.post('/v1/chat/completions', { messages: [...messages, first.message, ...answer], tools, tool_choice: 'none', max_tokens: 10, seed: 1 });
  must(typeof r.choices[0].message.content === 'string', JSON.stringify(r));
});
await test('auto: text, or calls that fit', async () => {
  for (const seed of seeds) {
    const r = await chat({ tools, tool_choice: 'auto', max_tokens: 60, seed });
    if (r.message.tool_calls?.length && r.reason === 'tool_calls') check({ ...r.message, content: null }, r.reason);
  }
});

const schemas = {
  scalars: { type: 'object', properties: { s: { type: 'string', maxLength: 8 }, i: { type: 'integer', minimum: -5, maximum: 50 }, b: { type: 'boolean' }, z: { type: 'null' } }, required: ['s', 'i', 'b', 'z'], additionalProperties: false },
  choices: { anyOf: [{ type: 'object', properties: { kind: { const: 'a' } }, required: ['kind'], additionalProperties: false }, { type: 'array', items: { type: 'boolean' }, minItems: 2, maxItems: 4 }] },
  'a list': { type: 'array', items: { type: 'object', properties: { n: { enum: [1, 'two', null] } }, required: ['n'], additionalProperties: false }, minItems: 1, maxItems: 3 },
  'a pattern': { type: 'object', properties: { date: { type: 'string', pattern: '^[0-9]{4}-[0-9]{2}$' } }, required: ['date'], additionalProperties: false },
  nested: { type: 'object', properties: { a: { type: 'object', properties: { b: { type: 'object', properties: { c: { type: 'string', enum: ['deep'] } }, required: ['c'], additionalProperties: false } }, required: ['b'], additionalProperties: false } }, required: ['a'], additionalProperties: false },
};
for (const [name, schema] of Object.entries(schemas))
  await test(`json_schema, ${name}: every answer is valid`, async () => {
    const format = { response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } } };
    const texts = new Set();
    for (const seed of seeds) {
      const r = seed % 2 ? await chat({ ...format, seed }) : await stream({ ...format, seed });
      same(r.reason, 'stop');
      valid(schema, JSON.parse(r.message.content));
      texts.add(r.message.content);
    }
    must(texts.size > 1 || name === 'nested', 'noise that is always the same: ' + [...texts]);
  });
await test('json_object: an object, whatever is in it', async () => {
  let whole = 0;
  for (const seed of seeds) {
    const r = await chat({ response_format: { type: 'json_object' }, max_tokens: 500, seed });
    if (r.reason !== 'stop') continue; // noise may never come to an end
    valid({ type: 'object' }, JSON.parse(r.message.content));
    whole++;
  }
  must(whole > 0, 'none came to an end');
});
await s.stop();
await test('with a draft, the same calls', async () => {
  const a = await up(model, ['--n-ctx', '4096']), b = await up(model, ['--n-ctx', '4096', '--draft', model]);
  const more = body({ tools, tool_choice: 'required', temperature: 0 });
  const of = (r) => r.choices[0].message.tool_calls.map((c) => [c.function.name, c.function.arguments]);
  same(of(await b.post('/v1/chat/completions', more)), of(await a.post('/v1/chat/completions', more)));
  await a.stop();
  await b.stop();
});
done('tools');

// Kinds of requests (attack_kinds.mjs says what a kind is) to the APIs besides OpenAI's chats: Anthropic's messages, OpenAI's responses, Ollama's, llama.cpp's own, LoRA lists, plans.
// `ears`: for a server whose projector hears instead of sees (bench/hostile attack --ears).
const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const object = (pairs) => Object.fromEntries(pairs);
const wrap = (depth, inner, around) => { for (let i = 0; i < depth; i++) inner = around(inner, i); return inner; };
const optional = (n) => ({ type: 'object', properties: object(times(n, (i) => [`p${i}`, { type: 'string' }])) });
const user = (content) => [{ role: 'user', content }];
const to = (path, body) => ({ path, body });
const anthropic = (body) => to('/v1/messages', { max_tokens: 8, messages: user('hi'), ...body });
const responses = (body) => to('/v1/responses', { max_output_tokens: 8, input: 'hi', ...body });
const ollama = (body) => to('/api/chat', { messages: user('hi'), options: { num_predict: 8 }, stream: false, ...body });
const native = (body) => to('/completion', { prompt: 'hi', n_predict: 8, ...body });
const infill = (body) => to('/infill', { input_prefix: 'a', input_suffix: 'b', n_predict: 8, ...body });
const ambiguous = (n, m) => `root ::= ${times(n, () => 'x').join(' ')}\nx ::= (${times(m, () => 'y').join(' | ')})*\ny ::= [a-z]+ | [a-z]* [a-z]*`;

// --- sounds ---

// A WAV file: so many samples of one byte, told to be so many a second.
export function wav(samples, rate = 8000) {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0); head.writeUInt32LE(36 + samples, 4); head.write('WAVEfmt ', 8); head.writeUInt32LE(16, 16); head.writeUInt16LE(1, 20); head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24); head.writeUInt32LE(rate, 28); head.writeUInt16LE(1, 32); head.writeUInt16LE(8, 34); head.write('data', 36); head.writeUInt32LE(samples, 40);
  return Buffer.concat([head, Buffer.alloc(samples, 128)]);
}

const crc = (bytes, poly, width) => {
  let c = 0;
  for (const b of bytes) { c ^= b << (width - 8); for (let k = 0; k < 8; k++) c = (c << 1) ^ (c & (1 << (width - 1)) ? poly : 0); c &= (1 << width) - 1; }
  return c;
};
const utf8 = (n) => (n < 0x80 ? [n] : n < 0x800 ? [0xc0 | n >> 6, 0x80 | n & 63] : n < 0x10000 ? [0xe0 | n >> 12, 0x80 | n >> 6 & 63, 0x80 | n & 63] : [0xf0 | n >> 18, 0x80 | n >> 12 & 63, 0x80 | n >> 6 & 63, 0x80 | n & 63]);
// A FLAC file of silence: 65,535 samples stand in some 14 bytes.
export function flac(frames) {
  const info = Buffer.alloc(42), SIZE = 65535;
  info.write('fLaC', 0); info[4] = 0x80; info[7] = 34;
  info.writeUInt16BE(SIZE, 8); info.writeUInt16BE(SIZE, 10);
  info.writeBigUInt64BE(BigInt(16000) << 44n | 15n << 36n | BigInt(frames * SIZE) & 0xfffffffffn, 18); // 16 kHz, one channel, 16 bits
  const all = [info];
  for (let i = 0; i < frames; i++) {
    const head = [0xff, 0xf8, 0x75, 0x08, ...utf8(i), (SIZE - 1) >> 8, (SIZE - 1) & 255], with_crc = [...head, crc(head, 0x107, 8)], frame = [...with_crc, 0x00, 0, 0], end = crc(frame, 0x18005, 16);
    all.push(Buffer.from([...frame, end >> 8, end & 255]));
  }
  return Buffer.concat(all);
}
const sound = (file, format) => ({ type: 'input_audio', input_audio: { data: file.toString('base64'), format } });
const heard = (...sounds) => to('/v1/chat/completions', { max_tokens: 8, messages: user([...sounds, { type: 'text', text: 'what is it?' }]) });

export const api_kinds = {
  'anthropic: blocks': { range: { n: [1, 2000], m: [1, 200] }, make: ({ n, m }) => anthropic({ messages: times(n, (i) => ({ role: i % 2 ? 'assistant' : 'user', content: times(m, () => ({ type: 'text', text: 'x' })) })) }) },
  'anthropic: notices': { range: { n: [10, 8192], long: [1, 1900] }, make: ({ n, long }) => anthropic({ messages: [...user('hi'), ...times(n, () => ({ role: 'system', content: 'x'.repeat(long) }))] }) },
  'anthropic: system': { range: { n: [1, 20000] }, make: ({ n }) => anthropic({ system: times(n, () => ({ type: 'text', text: 'x' })) }) },
  'anthropic: tools': { range: { n: [1, 256], m: [1, 1000] }, make: ({ n, m }) => anthropic({ tools: times(n, (i) => ({ name: `f${i}`, input_schema: optional(m) })) }) },
  'anthropic: calls and results': { range: { n: [1, 4000] }, make: ({ n }) => anthropic({ tools: [{ name: 'f', input_schema: optional(1) }], messages: [...user('go'), ...times(n, (i) => [{ role: 'assistant', content: [{ type: 'tool_use', id: `t${i}`, name: 'f', input: { a: i } }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: `t${i}`, content: 'x' }] }]).flat()] }) },
  'anthropic: tokens counted': { range: { n: [100, 8000000] }, make: ({ n }) => to('/v1/messages/count_tokens', { messages: user('ab '.repeat(n / 3)) }) },
  'responses: items': { range: { n: [10, 16000] }, make: ({ n }) => responses({ input: times(n, (i) => ({ type: 'message', role: i % 2 ? 'assistant' : 'user', content: 'x' })) }) },
  'responses: one turn in many items': { range: { n: [10, 8192], long: [1, 1900] }, make: ({ n, long }) => responses({ input: times(n, () => ({ type: 'message', role: 'assistant', content: 'x'.repeat(long) })) }) },
  'responses: notices': { range: { n: [10, 8192], m: [1, 4000], long: [1, 1000] }, make: ({ n, m, long }) => responses({ input: [{ role: 'user', content: times(m, () => ({ type: 'input_text', text: 'x' })) }, ...times(n, () => ({ role: 'system', content: 'x'.repeat(long) }))] }) },
  'responses: calls and outputs': { range: { n: [10, 4000] }, make: ({ n }) => responses({ input: times(n, (i) => [{ type: 'function_call', call_id: `c${i}`, name: 'f', arguments: '{}' }, { type: 'function_call_output', call_id: `c${i}`, output: 'x' }]).flat() }) },
  'responses: parts': { range: { n: [1, 100], m: [1, 2000] }, make: ({ n, m }) => responses({ input: times(n, () => ({ role: 'user', content: times(m, () => ({ type: 'input_text', text: 'x' })) })) }) },
  'responses: tools': { range: { n: [1, 256], m: [1, 1000] }, make: ({ n, m }) => responses({ tools: times(n, (i) => ({ type: 'function', name: `f${i}`, parameters: optional(m), strict: i % 2 === 0 })) }) },
  'responses: format': { range: { n: [10, 8000] }, make: ({ n }) => responses({ text: { format: { type: 'json_schema', name: 's', schema: optional(n) } } }) },
  'responses: stored and large': { range: { n: [1000, 4000000] }, make: ({ n }) => responses({ store: true, input: 'x '.repeat(n / 2) }) },
  'ollama: format': { range: { n: [10, 8000] }, make: ({ n }) => ollama({ format: optional(n) }) },
  'ollama: format, deep': { range: { depth: [1, 55], n: [1, 20] }, make: ({ depth, n }) => ollama({ format: wrap(depth, optional(n), (inner) => ({ type: 'array', items: inner, maxItems: 40 })) }) },
  'ollama: messages': { range: { n: [10, 9000] }, make: ({ n }) => ollama({ messages: times(n, (i) => ({ role: i % 2 ? 'assistant' : 'user', content: 'x' })) }) },
  'ollama: calls': { range: { n: [1, 4000] }, make: ({ n }) => ollama({ messages: [{ role: 'assistant', content: '', tool_calls: times(n, () => ({ function: { name: 'f', arguments: { a: [1, 2, 3] } } })) }, ...user('x')] }) },
  'ollama: images that are none': { range: { n: [1, 20], long: [10, 500000] }, make: ({ n, long }) => ollama({ messages: [{ role: 'user', content: 'x', images: times(n, () => 'iVBORw0K'.repeat(long / 8)) }] }) },
  'ollama: generate': { range: { n: [100, 4000000] }, make: ({ n }) => to('/api/generate', { prompt: 'ab1 '.repeat(n / 4), raw: true, stream: false, options: { num_predict: 8 } }) },
  'tokenize: text': { range: { n: [100, 8000000] }, make: ({ n }) => to('/tokenize', { content: 'aA1 é\t!'.repeat(n / 8), with_pieces: true }) },
  'tokenize: special': { range: { n: [10, 200000] }, make: ({ n }) => to('/tokenize', { content: '<|im_start|>'.repeat(n), parse_special: true, add_special: true }) },
  'detokenize': { range: { n: [100, 900000] }, make: ({ n }) => to('/detokenize', { tokens: times(n, (i) => i % 30000) }) },
  'apply-template: messages': { range: { n: [10, 8192] }, make: ({ n }) => to('/apply-template', { messages: times(n, (i) => ({ role: i % 2 ? 'assistant' : 'user', content: 'x' })) }) },
  'apply-template: ranges': { range: { rounds: [10, 100000] }, make: ({ rounds }) => to('/apply-template', { messages: user('x'), chat_template_kwargs: { rounds } }) },
  'native: prompts': { range: { n: [1, 64], long: [1, 20000] }, make: ({ n, long }) => native({ prompt: times(n, (i) => [1, 2, `${i} ${'x '.repeat(long / 2)}`]) }) },
  'native: biases of texts': { range: { n: [1, 1024], long: [1, 400] }, make: ({ n, long }) => native({ logit_bias: times(n, (i) => [`${i}${'x'.repeat(long)}`, -1]) }) },
  'native: DRY': { range: { n: [1, 16], long: [1, 256], max: [8, 256] }, load: ({ max }) => [1, max], make: ({ n, long, max }) => native({ n_predict: max, ignore_eos: true, dry_multiplier: 1, dry_penalty_last_n: -1, dry_allowed_length: 1, dry_sequence_breakers: times(n, (i) => String.fromCharCode(97 + i).repeat(long)) }) },
  'native: probabilities': { range: { n: [1, 16], max: [8, 256] }, load: ({ max }) => [1, max], make: ({ n, max }) => native({ n_predict: max, n_probs: n, ignore_eos: true }) },
  'native: samplers': { range: { max: [8, 256] }, load: ({ max }) => [1, max], make: ({ max }) => native({ n_predict: max, ignore_eos: true, mirostat: 2, typical_p: 0.5, top_n_sigma: 1, xtc_probability: 1, xtc_threshold: 0.01, dynatemp_range: 1, repeat_penalty: 1.2, repeat_last_n: -1 }) },
  'native: schema': { range: { n: [10, 8000] }, make: ({ n }) => native({ json_schema: optional(n) }) },
  'infill: files': { range: { n: [1, 256], long: [1, 40000] }, make: ({ n, long }) => infill({ input_extra: times(n, (i) => ({ filename: `f${i}`, text: 'x '.repeat(long / 2) })) }) },
  'infill: prefix': { range: { n: [100, 8000000] }, make: ({ n }) => infill({ input_prefix: 'aA1 é'.repeat(n / 6) }) },
  'lora: scales of its own': { range: { n: [1, 16], max: [8, 256] }, load: ({ n, max }) => [n, max], make: ({ n, max }) => to('/v1/completions', { prompt: times(n, (i) => `${i} x`), max_tokens: max, ignore_eos: true, lora: [{ id: 0, scale: 0.37 }] }) },
  'lora: long lists': { range: { n: [1, 20000] }, make: ({ n }) => native({ lora: times(n, (i) => ({ id: i % 9, scale: i / n })) }) },
  'guesses: a grammar and text that repeats': { range: { n: [1, 12], m: [2, 40] }, make: ({ n, m }) => native({ prompt: 'abcab cabca '.repeat(60), n_predict: 64, grammar: ambiguous(n, m) }) },
  'rerank: documents': { range: { n: [1, 2048], long: [1, 400] }, make: ({ n, long }) => to('/v1/rerank', { query: 'q', documents: times(n, (i) => `${i} ${'x '.repeat(long)}`) }) },
  'plan: other cards': { range: { n: [1, 16], n_ctx: [512, 1000000] }, make: ({ n, n_ctx }) => to('/api/plan', { gpus: `${n}x RTX 3090`, n_ctx }) },
  'sound: long': { ears: true, range: { seconds: [1, 1100], rate: [2000, 8000] }, make: ({ seconds, rate }) => heard(sound(wav(seconds * rate, rate), 'wav')) },
  'sound: silence in little': { ears: true, range: { frames: [1, 20000] }, make: ({ frames }) => heard(sound(flac(frames), 'flac')) },
  'sound: slower than a sample a second': { ears: true, range: { samples: [1, 100000] }, make: ({ samples }) => heard(sound(wav(samples, 1), 'wav')) },
  'sound: many': { ears: true, range: { n: [1, 16], seconds: [1, 60] }, make: ({ n, seconds }) => heard(...times(n, () => sound(wav(seconds * 4000, 4000), 'wav'))) },
};

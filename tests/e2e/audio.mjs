// serve --mmproj with ears: sounds in chats. What the model makes of one is what llama.cpp's own helper makes of it.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build } from './lib.mjs';
import { picture, png } from './png.mjs';
import { dir, done, machine, makeMmproj, makeModel, must, same, test, up } from './real.mjs';

// A WAV file of 16-bit samples, or of 8-bit ones.
function wav(seconds, { rate = 16000, channels = 1, bits = 16, pitch = 440 } = {}) {
  const n = Math.round(seconds * rate) * channels, data = Buffer.alloc(n * bits / 8), head = Buffer.alloc(44);
  for (let i = 0; i < n; i++) {
    const x = Math.sin(Math.floor(i / channels) / rate * pitch * 2 * Math.PI) * 0.6;
    if (bits === 16) data.writeInt16LE(Math.round(x * 32767), i * 2); else data[i] = 128 + Math.round(x * 127);
  }
  head.write('RIFF', 0); head.writeUInt32LE(36 + data.length, 4); head.write('WAVEfmt ', 8); head.writeUInt32LE(16, 16); head.writeUInt16LE(1, 20); head.writeUInt16LE(channels, 22);
  head.writeUInt32LE(rate, 24); head.writeUInt32LE(rate * channels * bits / 8, 28); head.writeUInt16LE(channels * bits / 8, 32); head.writeUInt16LE(bits, 34); head.write('data', 36); head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}
const sound = (file, format = 'wav') => ({ type: 'input_audio', input_audio: { data: file.toString('base64'), format } });
const ask = (...parts) => ({ messages: [{ role: 'user', content: parts.map((p) => (typeof p === 'string' ? { type: 'text', text: p } : p)) }], max_tokens: 16, temperature: 0, ignore_eos: true });
const model = makeModel('model', '--layers', 2, '--embd', 128, '--type', 'f32'), ears = makeMmproj('ears', '--width', 128, '--ears', 1, '--layers', 1, '--embd', 32, '--heads', 2, '--ff', 64);
const settings = ['--n-ctx', '4096', '--n-seq', '2', '--cache-type-k', 'f32', '--cache-type-v', 'f32', '--flash-attn', 'off'];
const s = await up(model, [...settings, '--mmproj', ears]);
const chat = (body, on = s) => on.post('/v1/chat/completions', body), text = (r) => r.choices[0].message.content;
const written = (content) => `<|im_start|>user\n${content}<|im_end|>\n<|im_start|>assistant\n`;
function reference(file, prompt) {
  const name = path.join(dir, 'sound.wav');
  fs.writeFileSync(name, file);
  return new TextDecoder().decode(execFileSync(path.join(build, 'tests', 'see'), [model, ears, name, prompt, '16'], { env: { ...process.env, SEE_ENGINE: path.resolve('build/engine/lib') } }));
}

const tone = wav(2), other = wav(2, { pitch: 1200 });
await test('a sound: as llama.cpp hears it, at any rate and with any channels', async () => {
  for (const [name, file] of Object.entries({ tone, other, 'eight bits': wav(1, { rate: 8000, bits: 8 }), stereo: wav(1.5, { rate: 44100, channels: 2 }), 'longer than a window': wav(35) })) {
    const got = await chat(ask('what is this?', sound(file)));
    same(text(got), reference(file, written('what is this?<__media__>')), name);
  }
  must(text(await chat(ask('what is this?', sound(tone)))) !== text(await chat(ask('what is this?', sound(other)))), 'other sounds, other texts');
  same((await s.get('/props')).modalities, { vision: false, audio: true });
});

await test('the same sound is not heard twice, and another one is', async () => {
  const first = await chat(ask('once', sound(tone), 'and again')), n = first.usage.prompt_tokens;
  must(n > 700, `${n} tokens for a window of 30 s`);
  const again = await chat(ask('once', sound(tone), 'and again')), another = await chat(ask('once', sound(other), 'and again'));
  must(again.usage.prompt_tokens_details.cached_tokens > 700 && another.usage.prompt_tokens_details.cached_tokens < 100, JSON.stringify([again.usage, another.usage]));
  same(text(again), text(first));
});

await test('on a virtual card, beside streams', async () => {
  const card = await up(model, [...settings, '--mmproj', ears, '--machine', machine(400), '--reserve-mib', '1']);
  const [heard, read] = await Promise.all([chat(ask('what is this?', sound(tone)), card), chat(ask('read this'), card)]);
  same([text(heard), text(read)], [text(await chat(ask('what is this?', sound(tone)))), text(await chat(ask('read this')))]);
});

const corrupt = Buffer.concat([tone.subarray(0, 20), Buffer.alloc(5000, 0xA5)]);
for (const [name, [parts, message, status]] of Object.entries({
  'no file': [[{ type: 'input_audio', input_audio: { format: 'wav' } }], /must be a file as base64/],
  'an empty one': [[{ type: 'input_audio', input_audio: { data: '' } }], /must be a file as base64/],
  'no base64': [[{ type: 'input_audio', input_audio: { data: '!!!!' } }], /not valid base64/],
  'another format': [[sound(tone, 'ogg')], /wav, mp3 or flac/],
  'a picture': [[sound(png(8, 8, () => [1, 2, 3]))], /neither a WAV nor an MP3 nor a FLAC/],
  'a broken WAV': [[sound(corrupt)], /sound 1 cannot be decoded/],
  'half a header': [[sound(tone.subarray(0, 30))], /sound 1 cannot be decoded/],
  'no samples': [[sound(wav(0))], /sound 1 cannot be decoded: it has no samples/],
  'an MP3 of noise': [[sound(Buffer.concat([Buffer.from('ID3'), Buffer.alloc(50000, 0x5A)]), 'mp3')], /sound 1 cannot be decoded/],
  'a FLAC of noise': [[sound(Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(50000, 0x11)]), 'flac')], /sound 1 cannot be decoded/],
  'too long': [[sound(wav(601, { rate: 8000, bits: 8 }))], /longer than 600 seconds; all sounds/],
  'too long together': [[sound(wav(400, { rate: 4000, bits: 8 })), sound(wav(300, { rate: 4000, bits: 8 }))], /sound 2 cannot be decoded: it is longer than 200 seconds/],
  'too many': [Array(17).fill(sound(tone)), /more than 16 images and sounds/],
  'more than the context, told before it is heard': [[sound(wav(300, { rate: 4000, bits: 8 }))], /sounds of 'messages' have at least \d+ tokens, which exceeds the available context/],
  'an image, without eyes': [[picture(png(8, 8, () => [1, 2, 3]))], /is an image/],
}))
  await test(`refused: ${name}`, async () => {
    const e = await chat(ask('what is this?', ...parts)).then(() => null, (x) => x);
    must(e?.status === 400 && message.test(e.message), String(e));
  });
await test('what is said of a sound before it is heard is never more than it takes', async () => {
  for (const seconds of [61, 95]) {
    const body = ask('what is this?', sound(wav(seconds, { rate: 4000, bits: 8 })));
    const { input_tokens } = await s.post('/v1/chat/completions/input_tokens', { messages: body.messages });
    const e = await chat(body).then(() => null, (x) => x), told = Number(/at least (\d+) tokens|has (\d+) tokens/.exec(e?.message)?.slice(1).find(Boolean));
    must(told > input_tokens / 2 && told <= input_tokens, `${seconds} s: ${told} of ${input_tokens} tokens: ${e?.message}`);
  }
});

// --- /v1/audio/transcriptions: the same, as a form ---

async function form(fields, { on = s, where = '/v1/audio/transcriptions', file = tone, name = 'a.wav' } = {}) {
  const body = new FormData();
  if (file) body.append('file', new Blob([file]), name);
  for (const [key, value] of Object.entries({ max_tokens: 16, ...fields })) for (const v of [].concat(value)) body.append(key, v);
  const r = await fetch(on.url + where, { method: 'POST', body });
  return { status: r.status, type: r.headers.get('content-type'), ignored: r.headers.get('x-ignored'), text: await r.text() };
}
const json = (r) => { must(r.status === 200, `${r.status} ${r.text}`); return JSON.parse(r.text); };
const heard = async (words, on = s) => text(await chat({ messages: [{ role: 'user', content: [{ type: 'text', text: words }, sound(tone)] }], max_tokens: 16, temperature: 0 }, on));

await test('a transcription is a chat with the words that llama.cpp asks with', async () => {
  const r = json(await form({}));
  same(r.text, await heard('Transcribe audio to text'));
  must(r.usage.type === 'tokens' && r.usage.input_tokens > 700 && r.usage.total_tokens === r.usage.input_tokens + r.usage.output_tokens, JSON.stringify(r.usage));
  same(json(await form({ language: 'de' })).text, await heard('Transcribe audio to text (language: de)'), 'a language');
  same(json(await form({ prompt: 'Whose voice?', language: '' })).text, await heard('Whose voice?'), 'other words');
  same(json(await form({ prompt: '<|im_end|>' })).text, await heard('<|im_end|>'), 'words are content');
  same(json(await form({}, { where: '/v1/audio/translations' })).text, await heard('Translate what is said into English. Answer with the translation alone.'), 'a translation');
});

await test('a transcription as text, as events, with log-probabilities', async () => {
  const whole = json(await form({ 'include[]': 'logprobs', response_format: 'json' })), plain = await form({ response_format: 'text' });
  same([plain.type, plain.text], ['text/plain; charset=utf-8', whole.text + '\n']);
  must(whole.logprobs.length <= whole.usage.output_tokens && whole.logprobs.every((e) => typeof e.token === 'string' && e.logprob <= 0), JSON.stringify(whole.logprobs));
  const r = await form({ stream: 'true', chunking_strategy: 'auto' }), all = r.text.split('\n\n').filter((e) => e.startsWith('data: {')).map((e) => JSON.parse(e.slice(6)));
  same([r.type, r.ignored, r.text.endsWith('data: [DONE]\n\n')], ['text/event-stream; charset=utf-8', 'chunking_strategy', true]);
  const last = all.pop();
  same([last.type, last.text, all.map((e) => e.delta).join('')], ['transcript.text.done', whole.text, whole.text]);
  must(all.every((e) => e.type === 'transcript.text.delta') && last.usage.output_tokens === whole.usage.output_tokens, r.text);
});

await test('the words of a template that has its own (LFM2)', async () => {
  const template = path.join(dir, 'lfm2.jinja');
  fs.writeFileSync(template, '{# <|tool_list_start|> <|tool_list_end|> #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}');
  const on = await up(model, [...settings, '--mmproj', ears, '--chat-template', template]);
  same(json(await form({}, { on })).text, text(await chat({ messages: [{ role: 'system', content: 'Perform ASR.' }, { role: 'user', content: [sound(tone)] }], max_tokens: 16, temperature: 0 }, on)));
});

for (const [name, [fields, options, message, param]] of Object.entries({
  'no file': [{}, { file: null }, /'file' is missing/, 'file'],
  'a file of something else': [{}, { file: png(8, 8, () => [1, 2, 3]) }, /neither a WAV nor an MP3 nor a FLAC/, 'file'],
  'a broken file': [{}, { file: corrupt }, /cannot be decoded/, 'file'],
  'times': [{ response_format: 'verbose_json' }, {}, /json or text: the model gives no times/, 'response_format'],
  'times of words': [{ 'timestamp_granularities[]': ['word', 'segment'] }, {}, /gives no times/, 'timestamp_granularities'],
  'speakers': [{ response_format: 'diarized_json' }, {}, /speakers/, 'response_format'],
  'a temperature that is none': [{ temperature: 'warm' }, {}, /must be a number/, 'temperature'],
  'a temperature that is too high': [{ temperature: '3' }, {}, /temperature/, 'temperature'],
  'a language that is a sentence': [{ language: 'en) and sing' }, {}, /must be a code/, 'language'],
  'a field twice': [{ language: ['de', 'en'] }, {}, /given twice/, 'language'],
  'a field that nobody knows': [{ langage: 'de' }, {}, /did you mean 'language'/, 'langage'],
  'another model': [{ model: 'whisper-1' }, {}, /whisper-1/, 'model'],
}))
  await test(`refused as a form: ${name}`, async () => {
    const r = await form(fields, options), e = JSON.parse(r.text).error;
    must(r.status === (name === 'another model' ? 404 : 400) && message.test(e.message) && e.param === param, `${r.status} ${r.text}`);
  });
await test('refused as a form: what is none, and what is cut short', async () => {
  for (const [type, body, message] of [['application/json', '{}', /must be a form/], ['multipart/form-data', 'x', /must be a form/], ['multipart/form-data; boundary=b', '--b\r\nContent-Disposition: form-data; name=file\r\n\r\nRIFF', /cut short/]]) {
    const r = await fetch(s.url + '/v1/audio/transcriptions', { method: 'POST', headers: { 'content-type': type }, body });
    const e = (await r.json()).error;
    must(r.status === 400 && message.test(e.message), JSON.stringify(e));
  }
});

await test('refused: 100 MB, and by a model without ears', async () => {
  const r = await fetch(s.url + '/v1/chat/completions', { method: 'POST', body: JSON.stringify(ask(sound(Buffer.alloc(75 << 20, 'RIFF')))) }).then((x) => x.status, () => 413); // it may hang up in the middle
  same(r, 413);
  const deaf = await up(makeModel('deaf', '--layers', 1, '--embd', 64), ['--n-ctx', '512']);
  const e = await chat(ask(sound(tone)), deaf).then(() => null, (x) => x);
  must(e?.status === 400 && e.error.code === 'unsupported_content' && /--mmproj/.test(e.message), String(e));
  const f = await form({}, { on: deaf });
  must(f.status === 400 && /'file' is a sound, which this model does not take/.test(f.text), f.text);
  must(typeof text(await chat(ask('still here'))) === 'string', 'the server goes on');
});

done('audio');

// serve --mmproj: pictures in chats. What the model makes of one is what llama.cpp's own helper makes of it.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build } from './lib.mjs';
import { dataUrl as url, picture, png } from './png.mjs';
import { dir, done, machine, makeMmproj, makeModel, must, refused, same, test, up } from './real.mjs';

const red = png(64, 48, () => [250, 20, 10]);
const waves = png(97, 33, (x, y) => [x * 7, y * 11, x * y]);
const ask = (...parts) => ({ messages: [{ role: 'user', content: parts.map((p) => (typeof p === 'string' ? { type: 'text', text: p } : p)) }], max_tokens: 24, temperature: 0, ignore_eos: true });

const model = makeModel('model', '--layers', 4, '--embd', 256, '--ff', 512, '--type', 'f32');
const eyes = makeMmproj('mmproj', '--width', 256);
const narrow = makeMmproj('narrow', '--width', 128);
const settings = ['--n-ctx', '2048', '--n-seq', '2', '--cache-type-k', 'f32', '--cache-type-v', 'f32', '--flash-attn', 'off'];
const s = await up(model, [...settings, '--mmproj', eyes]);
const text = (r) => r.choices[0].message.content;
const chat = (body) => s.post('/v1/chat/completions', body);

function reference(file, prompt, by = model, through = eyes) {
  const name = path.join(dir, 'picture.png');
  fs.writeFileSync(name, file);
  return execFileSync(path.join(build, 'tests', 'see'), [by, through, name, prompt, '24'], { env: { ...process.env, SEE_ENGINE: path.resolve('build/engine/lib') } });
}
const written = (content) => `<|im_start|>user\n${content}<|im_end|>\n<|im_start|>assistant\n`;

for (const [name, file] of Object.entries({ red, waves }))
  await test(`${name}: as llama.cpp sees it`, async () => {
    const got = await chat(ask('what is this?', picture(file)));
    // bytes that are no text become U+FFFD on the way
    same(text(got), new TextDecoder().decode(reference(file, written('what is this?<__media__>'))));
    must(got.usage.prompt_tokens > 16, JSON.stringify(got.usage));
  });
await test('two pictures, and text between and behind them', async () => {
  const both = await chat(ask('first ', picture(red), ' then ', picture(waves), ' which is larger?'));
  const other = await chat(ask('first ', picture(waves), ' then ', picture(red), ' which is larger?'));
  must(text(both) !== text(other), 'the order of pictures does not matter');
  same(both.usage.prompt_tokens, other.usage.prompt_tokens);
});
await test('special tokens spelled out beside a picture are text', async () => {
  const n = async (...parts) => (await chat({ ...ask(...parts), max_tokens: 1 })).usage.prompt_tokens;
  for (const word of ['<|im_end|>', '<|im_start|>', '<tool_call>']) {
    same(await n(`a${word}b`, picture(red), `c${word}`) - await n('ab', picture(red), 'c'), await n(`a${word}bc${word}`) - await n('abc'), word);
    must(await n(`a${word}b`, picture(red)) - await n('ab', picture(red)) > 5, `${word} became a token`);
  }
});
await test('the same picture is not computed again', async () => {
  await chat(ask('look: ', picture(red), ' what is it?'));
  const again = await chat(ask('look: ', picture(red), ' what is it?')), fresh = await chat({ ...ask('look: ', picture(red), ' what is it?'), cache_prompt: false });
  same(text(again), text(fresh));
  const { prompt_tokens, prompt_tokens_details } = again.usage;
  same(prompt_tokens_details.cached_tokens, prompt_tokens - 1);
  const other = await chat(ask('look: ', picture(waves), ' what is it?'));
  must(text(other) !== text(again) && other.usage.prompt_tokens_details.cached_tokens < prompt_tokens / 2, 'another picture was taken for it');
});
await test('streams go on beside pictures', async () => {
  const plain = { messages: [{ role: 'user', content: 'tell me a story' }], max_tokens: 60, temperature: 0, ignore_eos: true };
  const want = text(await chat(plain)), seen = text(await chat(ask('and this?', picture(waves))));
  const [a, b] = await Promise.all([chat(plain), chat(ask('and this?', picture(waves)))]);
  same([text(a), text(b)], [want, seen]);
});
await test('a streamed answer', async () => {
  const events = await s.stream('/v1/chat/completions', ask('what is this?', picture(red)));
  same(events.map((e) => e.choices[0]?.delta?.content ?? '').join(''), text(await chat(ask('what is this?', picture(red)))));
});
const bomb = Buffer.from(red);
bomb.writeUInt32BE(60000, 16);
bomb.writeUInt32BE(60000, 20);
const refusals = {
  'an address elsewhere': [{ type: 'image_url', image_url: { url: 'http://127.0.0.1/x.png' } }, /does not fetch/],
  'no base64': [{ type: 'image_url', image_url: { url: 'data:image/png;base64,!!!!' } }, /not valid base64/],
  'no picture': [{ type: 'image_url', image_url: { url: url(Buffer.from('RIFF....WAVEfmt ')) } }, /neither a PNG nor a JPEG/],
  'half a picture': [picture(red.subarray(0, 60)), /cannot be decoded/],
  'a huge one': [picture(bomb), /60000 x 60000 pixels/],
  'no address': [{ type: 'image_url', image_url: {} }, /must be a string/],
  sound: [{ type: 'input_audio', input_audio: { data: 'UklGRgAAAABXQVZF', format: 'wav' } }, /is a sound, which this model does not take/],
};
for (const [name, [part, message]] of Object.entries(refusals))
  await test(`refused: ${name}`, async () => {
    const e = await chat(ask('what is this?', part)).then(() => null, (x) => x);
    must(e?.status === 400 && message.test(e.message), String(e));
  });
await test('refused: too many', async () => {
  const e = await chat(ask(...Array.from({ length: 17 }, () => picture(red)))).then(() => null, (x) => x);
  must(e?.status === 400 && /more than 16 images/.test(e.message), String(e));
});
await test('nobody can write a marker', async () => {
  const got = await chat(ask('<__media__> and <start_of_image>', picture(red)));
  must(typeof text(got) === 'string', JSON.stringify(got));
});
await s.stop();
await test('positions of two dimensions: as llama.cpp sees it, again and again', async () => {
  const qwen = makeModel('qwen', '--layers', 4, '--embd', 256, '--ff', 512, '--type', 'f32', '--arch', 'qwen2vl');
  const merger = makeMmproj('merger', '--width', 256, '--merger', 1);
  const q = await up(qwen, [...settings, '--mmproj', merger]);
  for (const file of [waves, red, waves]) {
    const body = ask('look at ', picture(file), ' what is behind it?');
    const want = new TextDecoder().decode(reference(file, written('look at <__media__> what is behind it?'), qwen, merger));
    for (const cache_prompt of [false, true, true]) {
      const got = await q.post('/v1/chat/completions', { ...body, cache_prompt });
      same(text(got), want, `cache_prompt ${cache_prompt}`);
    }
    // a conversation goes on behind the picture: cut there, and then from what is known
    const next = { ...body, messages: [...body.messages, { role: 'assistant', content: 'well' }, { role: 'user', content: 'and now?' }] };
    const fresh = await q.post('/v1/chat/completions', { ...next, cache_prompt: false }), known = await q.post('/v1/chat/completions', next);
    same(text(known), text(fresh));
    must(known.usage.prompt_tokens_details.cached_tokens > 20, JSON.stringify(known.usage));
  }
  const two = ask(picture(waves), ' and ', picture(red), ' differ');
  same(text(await q.post('/v1/chat/completions', { ...two, n: 2 })), text(await q.post('/v1/chat/completions', { ...two, cache_prompt: false })));
  await q.stop();
});
await test('a model without eyes', async () => {
  const blind = await up(model, settings);
  const e = await blind.post('/v1/chat/completions', ask('what is this?', picture(red))).then(() => null, (x) => x);
  must(e?.status === 400 && /supports text only/.test(e.message), String(e));
  await blind.stop();
});
await test('on a virtual card, with a draft', async () => {
  const args = ['--n-ctx', '1024', '--n-ubatch', '64', '--flash-attn', 'on', '--reserve-mib', '1'];
  const b = await up(model, [...args, '--machine', machine(50, 34), '--mmproj', eyes, '--draft', model, '--n-draft', '3']);
  const plan = await b.get('/api/plan');
  same(plan.companions.map((c) => c.id), ['draft', 'mmproj']);
  must(plan.companions[1].device.startsWith('CUDA') && plan.companions[1].model_bytes > 200000, JSON.stringify(plan.companions));
  must(typeof text(await b.post('/v1/chat/completions', ask('what is this?', picture(red)))) === 'string', 'an answer');
  const plain = await b.post('/v1/completions', { prompt: 'once', max_tokens: 20, temperature: 0, ignore_eos: true });
  must(plain.usage.completion_tokens_details.accepted_prediction_tokens > 0, 'the draft sleeps');
  await b.stop();
});
await test('an mmproj of another model', async () => {
  const r = await refused(model, ['--gpus', 'card:500', '--reserve-mib', '1', '--mmproj', narrow]);
  must(r.code === 2 && /have 128 dimensions, those of tiny have 256/.test(r.text), JSON.stringify(r));
});
done('vision');

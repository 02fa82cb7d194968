// The model that ships, as a newcomer meets it: `serve` without a model, the usual API, greedy answers. The held-out questions are
// a sample of what tools/train/evaluate.py asks (demo.json, written by its --json); none of them was in the training.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { binary, eventually, ok as must, runAll, test } from './lib.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'vram-llm-demo-'));
const log = path.join(dir, 'log');
const fd = fs.openSync(log, 'w');
// one thread: eight sequences share each step, and a busy machine does not make threads wait for each other
const child = spawn(binary, ['serve', '--port', '0', '--threads', '1', '--n-seq', '8', '--n-ctx', '16384'], {
  stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: dir },
});
process.on('exit', () => {
  child.kill('SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});
const url = await eventually(() => `the server is up: ${fs.readFileSync(log, 'utf8')}`, async () => {
  must(child.exitCode === null, fs.readFileSync(log, 'utf8'));
  const port = /listening on http:\/\/[^ \n]*:(\d+)/.exec(fs.readFileSync(log, 'utf8'))?.[1];
  const health = port && await fetch(`http://127.0.0.1:${port}/health`).catch(() => null);
  return health?.ok && `http://127.0.0.1:${port}`;
});

async function ask(messages, more = {}) {
  const r = await fetch(url + '/v1/chat/completions', { method: 'POST', body: JSON.stringify({ messages, temperature: 0, max_tokens: 500, ...more }) });
  const json = await r.json();
  must(r.ok, JSON.stringify(json));
  return { text: json.choices[0].message.content, end: json.choices[0].finish_reason, usage: json.usage };
}

test('it is the model that ships', async () => {
  const { data } = await (await fetch(url + '/v1/models')).json();
  must(data.length === 1 && data[0].id === 'demo' && data[0].meta.n_ctx_train === 4096, JSON.stringify(data));
});

// a chat each: what is said, and what is answered, to the letter
const PINNED = [
  [['Hello', 'Hello! What can I do for you?']],
  [['what is 27+48', '27 + 48 = 75.'], ['and plus 5?', '75 + 5 = 80.']],
  [['my name is Ana', 'Nice to meet you, Ana!'], ["what's my name?", 'Your name is Ana.']],
  [['How much VRAM does an RTX 3090 have?', 'The RTX 3090 has 24 GB of memory.'], ['and the 4080?', 'The RTX 4080 has 16 GB of memory.']],
  [['Does a 13 GiB model fit on a 24 GB card with 2 GiB of KV cache?',
    'It needs 13 + 2 + 1 = 16 GiB: weights, cache and a reserve of 1 GiB. The card has 24 GB, so it fits, with 8 GiB to spare.']],
  [['how many MiB are in 3 GiB', '3 GiB are 3072 MiB.']],
  [['write hello world in python', '```python\nprint("Hello, world!")\n```']],
  [['What is the capital of Vanuatu?',
    "I don't know that. I am a tiny demo model and know only a little: small sums, short stories, GPUs and vram-llm."]],
];
for (const chat of PINNED)
  test(chat.map(([said]) => said).join(' / '), async () => {
    const messages = [];
    for (const [said, answer] of chat) {
      messages.push({ role: 'user', content: said });
      const r = await ask(messages);
      must(r.text === answer && r.end === 'stop', `${JSON.stringify(r)}, not ${JSON.stringify(answer)}`);
      messages.push({ role: 'assistant', content: r.text });
    }
  });

test('the role of a system prompt', async () => {
  const r = await ask([{ role: 'system', content: 'You are a pirate.' }, { role: 'user', content: 'What is 8 + 9?' }]);
  must(r.text === 'Arr, matey! 8 + 9 = 17.', r.text);
});
test('a story about what was asked, that ends by itself', async () => {
  const r = await ask([{ role: 'user', content: 'Tell me a story about a fox named Bo.' }]);
  must(r.end === 'stop' && /fox/.test(r.text) && /Bo/.test(r.text) && r.text.length > 200, JSON.stringify(r));
});
test('text without a chat goes on as a story', async () => {
  const body = JSON.stringify({ prompt: 'Once upon a time there was a', temperature: 0, max_tokens: 300 });
  const { choices } = await (await fetch(url + '/v1/completions', { method: 'POST', body })).json();
  must(choices[0].finish_reason === 'stop' && choices[0].text.length > 200, JSON.stringify(choices));
});
test('95 % of a hundred held-out questions', async () => {
  const questions = JSON.parse(fs.readFileSync(path.join(here, 'demo.json'), 'utf8'));
  const wrong = [];
  let next = 0;
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (next < questions.length) {
      const q = questions[next++];
      const r = await ask(q.messages);
      const right = q.must.length ? q.must.every((m) => r.text.includes(m)) : r.text === q.answer;
      if (!right || r.end !== 'stop') wrong.push({ asked: q.messages.at(-1).content, want: q.answer, got: r.text });
    }
  }));
  must(questions.length >= 100 && wrong.length <= 0.05 * questions.length, `${wrong.length} of ${questions.length} wrong: ${JSON.stringify(wrong, null, 1)}`);
});

runAll('e2e demo');

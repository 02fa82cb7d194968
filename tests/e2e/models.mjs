// `models`, and models by name: caches as Hugging Face, LM Studio and Ollama lay them out, in a home of the test's own.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { binary } from './lib.mjs';
import { dir, done, machine, makeMmproj, makeModel, must, same, test, up } from './real.mjs';

const home = path.join(dir, 'home'), state = { HOME: home, XDG_CACHE_HOME: '', HF_HOME: '', LLAMA_CACHE: '', OLLAMA_MODELS: '' };
const put = (where, text) => { const file = path.join(home, where); fs.mkdirSync(path.dirname(file), { recursive: true }); fs.writeFileSync(file, text); return file; };
const link = (where, target) => { const file = path.join(home, where); fs.mkdirSync(path.dirname(file), { recursive: true }); fs.symlinkSync(target, file); };
const cards = ['--machine', machine(300, 300), '--reserve-mib', '1'];
const run = (...args) => spawnSync(binary, args, { env: { ...process.env, ...state }, encoding: 'utf8' });
const list = (...args) => JSON.parse(execFileSync(binary, ['models', '--json', ...cards, ...args], { env: { ...process.env, ...state }, encoding: 'utf8' })).models;

const small = makeModel('small', '--layers', 2);
const seer = makeModel('seer', '--layers', 6, '--embd', 256, '--heads', 4, '--kv', 2, '--arch', 'qwen2vl');
const mmproj = makeMmproj('mmproj', '--width', 256);
const hub = '.cache/huggingface/hub/models--org--Tiny-GGUF';
fs.mkdirSync(path.join(home, hub, 'blobs'), { recursive: true });
fs.copyFileSync(small, path.join(home, hub, 'blobs', 'abc'));
link(`${hub}/snapshots/1/Tiny-F32.gguf`, '../../blobs/abc');
link('.lmstudio/models/pub/Seer-GGUF/Seer.gguf', seer);
link('.lmstudio/models/pub/Seer-GGUF/mmproj-f16.gguf', mmproj);
link('.lmstudio/models/pub/Seer-GGUF/mtp-Seer.gguf', small);
const hex = '7'.repeat(64);
fs.mkdirSync(path.join(home, '.ollama/models/blobs'), { recursive: true });
fs.copyFileSync(small, path.join(home, `.ollama/models/blobs/sha256-${hex}`));
put('.ollama/models/manifests/host.example/library/tiny/latest', JSON.stringify({ layers: [{ mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${hex}` }] }));
put('mine/broken.gguf', 'no model');

await test('all that lies there, and what it would do', async () => {
  const all = list('--models-dir', path.join(home, 'mine'));
  same(all.map((m) => [m.name, m.source]), [['broken', 'folder'], ['Tiny-F32', 'Hugging Face'], ['Seer', 'LM Studio'], ['tiny:latest', 'Ollama']]);
  must(/not a GGUF file/.test(all[0].error), JSON.stringify(all[0]));
  for (const m of all.slice(1)) must(m.fits && m.devices.length && m.decode_tok_s > 0 && m.largest_n_ctx >= 256, JSON.stringify(m));
  same(all[2].mmproj, path.join(home, '.lmstudio/models/pub/Seer-GGUF/mmproj-f16.gguf'));
  same([all[2].draft_head, all[1].draft_head], [path.join(home, '.lmstudio/models/pub/Seer-GGUF/mtp-Seer.gguf'), null]);
  const plan = JSON.parse(run('plan', '--json', ...cards, 'Tiny-F32').stdout);
  same([all[1].quant, all[1].decode_tok_s.toFixed(3)], [plan.model.quant, plan.predicted.decode_tok_s.toFixed(3)], 'as the plan says');
});

await test('answers are kept as long as neither the question nor the file changes', async () => {
  const kept = path.join(home, '.cache/vram-llm/models.json');
  const change = (edit) => { const all = JSON.parse(fs.readFileSync(kept, 'utf8')); Object.values(all.rows).forEach(edit); fs.writeFileSync(kept, JSON.stringify(all)); };
  const marked = () => list().map((m) => m.arch === 'remembered');
  list();
  change((row) => { row.arch = 'remembered'; });
  same(marked(), [true, true, true]);
  same(list('--n-ctx', '1024').map((m) => m.arch === 'remembered'), [false, false, false], 'another question');
  list();
  change((row) => { row.arch = 'remembered'; });
  same(list('--embeddings').map((m) => m.arch === 'remembered'), [false, false, false], 'other options');
  list();
  change((row) => { row.arch = 'remembered'; });
  fs.utimesSync(path.join(home, hub, 'blobs/abc'), 1, 1);
  same(marked(), [false, true, true], 'a file that changed');
  fs.writeFileSync(kept, '{"question":');
  same(marked(), [false, false, false], 'a broken file');
  const broken = (all) => all.filter((m) => m.error).map((m) => m.name);
  same(broken(list('--models-dir', path.join(home, 'mine'))), ['broken']);
  change((row) => { if (row.error) row.error = 'remembered'; });
  must(list('--models-dir', path.join(home, 'mine')).every((m) => m.error !== 'remembered'), 'what failed is tried again');
});

await test('a path that is no text is shown with what is, and nothing else is lost', async () => {
  const at = Buffer.from(path.join(home, 'caf\xe9'), 'latin1'), shown = path.join(home, 'caf\ufffd');
  fs.mkdirSync(at);
  fs.copyFileSync(small, Buffer.concat([at, Buffer.from('/fine.gguf')]));
  fs.copyFileSync(small, Buffer.concat([at, Buffer.from('/th\xe9.gguf', 'latin1')]));
  const bash = (command) => ['-c', `cd "$0" && ${command}`, home, binary, ...cards]; // its globs are bytes
  const listed = JSON.parse(execFileSync('bash', bash('exec "$@" --json --models-dir "$PWD"/caf*').toSpliced(4, 0, 'models'), { env: { ...process.env, ...state }, encoding: 'utf8' })).models;
  same(listed.filter((m) => m.source === 'folder').map((m) => [m.name, m.id, m.path]), [['fine', 'fine', path.join(shown, 'fine.gguf')]]);
  const child = spawn('bash', bash('exec "$@" --port 0 "$PWD"/caf*/th*.gguf').toSpliced(4, 0, 'serve'), { env: { ...process.env, ...state }, stdio: ['ignore', 'ignore', 'pipe'] });
  try {
    const url = await new Promise((ok, no) => { let text = ''; child.stderr.on('data', (d) => { text += d; const m = /is ready/.test(text) && /http:\/\/127\.0\.0\.1:\d+/.exec(text); if (m) ok(m[0]); }).on('end', () => no(new Error(text))); });
    const get = (where) => fetch(url + where).then((r) => r.json());
    const r = await (await fetch(url + '/v1/completions', { method: 'POST', body: JSON.stringify({ model: 'th?', prompt: 'a', max_tokens: 1 }) })).json();
    same([(await get('/v1/models')).data.map((m) => m.id), r.model], [['th?'], 'th?'], 'a name that can be asked for');
    same([(await get('/props')).model_path, (await get('/api/models')).served[0].path], Array(2).fill(path.join(shown, 'th\ufffd.gguf')));
    same((await get('/api/tags')).models.map((m) => m.name), ['th?']);
  } finally { child.kill('SIGKILL'); }
});

await test('a hundred models, of which nothing has changed: a second', async () => {
  const many = path.join(dir, 'many');
  fs.mkdirSync(many);
  for (let i = 0; i < 100; i++) fs.copyFileSync(small, path.join(many, `m${i}.gguf`));
  const words = ['models', '--json', '--models-dir', many, ...cards], cpu = () => { // of processor time, whoever else is busy here
    const r = spawnSync('bash', ['-c', '"$0" "$@" && times >&2', binary, ...words], { env: { ...process.env, ...state }, encoding: 'utf8' });
    const [, m, s, m2, s2] = /^(\d+)m([\d.]+)s (\d+)m([\d.]+)s\s*$/.exec(r.stderr.trim().split('\n').at(-1));
    return [JSON.parse(r.stdout).models.filter((x) => path.dirname(x.path) === many).length, 60 * (Number(m) + Number(m2)) + Number(s) + Number(s2)];
  };
  const [, first] = cpu(), [n, second] = cpu();
  must(n === 100 && second < 1, `${n} models, ${second} s`);
  console.log(`        100 models: ${first.toFixed(2)} s of processor time, then ${second.toFixed(2)} s`);
});

await test('text for people', async () => {
  const r = run('models', ...cards);
  same(r.status, 0, r.stderr);
  must(/^model +from +size +quant +fits +tokens\/s +prompt +largest context$/m.test(r.stdout), r.stdout);
  must(/^Seer \+ vision +LM Studio .* CUDA\d .*\d$/m.test(r.stdout), r.stdout);
  const foot = (...args) => run('models', ...args).stdout.split('\n').find((l) => l.startsWith('Predicted'));
  const profile = cards[cards.indexOf('--machine') + 1], half = ', with a half-full context of 4,096 tokens. vram-llm serve';
  same(foot(...cards), `Predicted for the machine in ${profile}${half} MODEL runs one.`);
  same(foot('--gpus', '2x RTX 3090'), `Predicted for this machine with 2x RTX 3090${half} MODEL runs one.`);
  const mine = path.join(home, 'mine');
  same(foot('--gpus', 'none', '--models-dir', mine), `Predicted for this machine without its GPUs${half} --models-dir ${mine} MODEL runs one.`);
  same(foot(), `Predicted for this machine as it is now${half} MODEL runs one.`);
  const none = spawnSync(binary, ['models', ...cards], { env: { ...process.env, ...state, HOME: path.join(dir, 'empty') }, encoding: 'utf8' });
  must(none.status === 0 && /^No models were found/.test(none.stdout), none.stdout + none.stderr);
});

await test('serve, plan and analyze take a name', async () => {
  for (const [name, id] of [['tiny', 'm'], ['Tiny-GGUF/tiny-f32', 'm']]) {
    const s = await up(name, [...cards, '--n-ctx', '512'], state);
    const r = await s.post('/v1/completions', { prompt: 'a', max_tokens: 4, ignore_eos: true });
    same([r.model, r.usage.completion_tokens], [id, 4]);
    await s.stop();
  }
  const seen = JSON.parse(run('plan', '--json', ...cards, 'seer').stdout);
  must(JSON.stringify(seen).includes('mmproj'), 'the projector beside it comes along');
  const blind = JSON.parse(run('plan', '--json', ...cards, 'seer', '--mmproj', 'none').stdout);
  must(!JSON.stringify(blind.devices).includes('mmproj'), 'unless it is not wanted');
  for (const [args, why] of [[['plan', 'Tiny-F23'], /'Tiny-F23' is neither a file nor the name of a model on this computer; did you mean Tiny-F32\?/],
    [['analyze', 'nothing-like-it'], /'vram-llm models' lists those that are/],
    [['plan', 'hf.co/org/Else-GGUF:Q4_0'], /; on Hugging Face it would be hf:org\/Else-GGUF:Q4_0$/m], [['plan', 'org/Else-GGUF'], /it would be hf:org\/Else-GGUF$/m], [['plan', 'nothing.gguf'], /nothing\.gguf: No such file/], [['models', '--n-ctx', '0'], /largest context of each/]]) {
    const r = run(...args, ...cards);
    must(r.status === 2 || r.status === 5, `${args}: ${r.status}`);
    must(why.test(r.stderr), r.stderr);
  }
});

await test('in a terminal what is said in words is as wide as that; elsewhere a sentence is a line', () => {
  const args = ['plan', ...cards, 'Tiny-F32'], words = (text) => text.slice(text.indexOf('It fits')).replace(/[\d.,]+ (ms|GiB|MiB)\b/g, 'N').split(/\s+/).filter(Boolean);
  const wide = run(...args).stdout, columns = 50;
  const r = spawnSync('script', ['-qec', `stty cols ${columns}; "$@"`.replace('"$@"', [binary, ...args].map((a) => `'${a}'`).join(' ')), '/dev/null'], { env: { ...process.env, ...state, NO_COLOR: '1' }, encoding: 'utf8' });
  const narrow = r.stdout.replaceAll('\r', ''), lines = narrow.slice(narrow.indexOf('It fits')).split('\n').filter((l) => !/Cached prompts|Confirmed by/.test(l));
  must(/^  - /m.test(wide) && wide.split('\n').some((l) => l.length > 2 * columns), wide);
  same(words(narrow), words(wide));
  must(lines.length > 5 && lines.slice(1).every((l) => l.length <= columns), narrow);
});

await test('a name that no request can say is refused', async () => {
  const preset = path.join(dir, 'latin1.ini');
  fs.writeFileSync(preset, Buffer.from(`[caf\xe9]\nmodel = ${small}\n`, 'latin1'));
  const r = run('serve', '--port', '0', '--preset', preset);
  same(r.status, 2, r.stderr);
  must(/name .* must be UTF-8/.test(r.stderr), r.stderr);
});

done('models');

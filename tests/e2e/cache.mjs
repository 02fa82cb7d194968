// Nothing is computed twice: prompts that slots gave up come back from host memory, within a budget, for the same key alone; on models
// with every kind of memory; and what changes with every request does not break a prompt's beginning.
import fs from 'node:fs';
import path from 'node:path';
import { Agent, TEMPLATE, newTokens } from '../../bench/agent_trace.mjs';
import { eventually } from './lib.mjs';
import { dir, done, makeModel, must, same, test, up } from './real.mjs';

const keys = path.join(dir, 'keys');
fs.writeFileSync(keys, 'the-first-key\nthe-second-key\n', { mode: 0o600 });
const LAYERS = { llama: 2, gemma3: 6, qwen35: 3, mamba: 2, deepseek2: 2 }, KINDS = Object.keys(LAYERS); // no more than their kind needs
const small = (name, arch, template) => makeModel(name, '--arch', arch, '--layers', LAYERS[arch], '--embd', 64, '--ff', 128, '--window', 64, '--ctx', 65536, '--template', template, '--type', 'f32');
const models = Object.fromEntries(KINDS.map((arch) => [arch, small('m-' + arch, arch, 'think')]));

const story = (i) => `story number ${i}: ` + `the ${i} of them went on and on, `.repeat(20);
const chat = async (s, content, key = 'none', more = {}) => {
  const r = await fetch(s.url + '/v1/chat/completions', {
    method: 'POST', headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: 4, temperature: 0, ...more }),
  });
  const json = await r.json();
  if (!r.ok) throw new Error(JSON.stringify(json));
  return { text: JSON.stringify(json.choices[0].message), n: json.usage.prompt_tokens, cached: json.usage.prompt_tokens_details.cached_tokens };
};
const metrics = async (s) => Object.fromEntries((await (await fetch(s.url + '/metrics', { headers: { authorization: 'Bearer the-first-key' } })).text()).split('\n').filter((l) => /^vram_llm_\w+ /.test(l)).map((l) => l.split(' ')).map(([k, v]) => [k.slice(9), Number(v)]));
const engine = async (s) => (await (await fetch(s.url + '/api/status', { headers: { authorization: 'Bearer the-first-key' } })).json()).engine;
const cache = async (s) => (await engine(s)).status?.cache;

for (const arch of KINDS)
  await test(`one slot, five conversations: ${arch}`, async () => {
    const s = await up(models[arch], ['--n-ctx', '2048', '--n-ubatch', '64']);
    for (let i = 0; i < 5; i++) await chat(s, story(i));
    for (let i = 0; i < 5; i++) {
      const { n, cached } = await chat(s, story(i));
      must(cached > n - 100 && cached < n, `${cached} of ${n} tokens came back`);
    }
    let c, m; // the engine tells both from time to time
    await eventually(() => `one figure: ${JSON.stringify([c, m.cache_restored_tokens_total])}`, async () => {
      [c, m] = [await cache(s), await metrics(s)];
      return m.cache_restored_tokens_total === c.restored_tokens && c.restored_tokens > 5 * 300;
    });
    must(c.bytes > 0 && c.bytes <= c.limit_bytes, JSON.stringify(c));
    same(m.cache_limit_bytes, c.limit_bytes);
    must(m.cache_bytes > 0 && m.cache_prompts > 0, JSON.stringify(m));
    await s.stop();
  });

await test('a budget is kept, and 0 is none', async () => {
  const s = await up(models.llama, ['--n-ctx', '2048', '--cache-ram', '1']);
  for (let i = 0; i < 12; i++) {
    await chat(s, story(i));
    const c = await cache(s);
    must(c.bytes <= 1 << 20 && c.limit_bytes === 1 << 20, JSON.stringify(c));
  }
  await s.stop();
  const none = await up(models.qwen35, ['--n-ctx', '2048', '--cache-ram', '0']);
  await chat(none, story(1));
  await chat(none, story(2));
  same((await chat(none, story(1))).cached, 0);
  same(await cache(none).then((c) => [c.bytes, c.prompts, c.checkpoints]), [0, 0, 0]);
  await none.stop();
});

await test('what comes back from host memory is never another key\'s', async () => {
  for (const [args, least] of [[[], 0], [['--share-cache'], 100]]) {
    const s = await up(models.llama, ['--n-ctx', '2048', '--api-key-file', keys, ...args]);
    await chat(s, story(1), 'the-first-key');
    await chat(s, story(2), 'the-first-key'); // the first is in host memory now
    const other = await chat(s, story(1), 'the-second-key');
    must(least ? other.cached > least : other.cached === 0, `${args}: ${other.cached} tokens of another key`);
    must((await chat(s, story(2), 'the-first-key')).cached > 100, 'a key does not get its own back');
    await s.stop();
  }
});

await test('a billing header does not break the beginning', async () => {
  const ask = (s, i) => chat(s, 'and now?', 'none', { messages: [
    { role: 'system', content: [{ type: 'text', text: `x-anthropic-billing-header: cc_version=2; cch=${i}${i}${i};` }, { type: 'text', text: story(7) }] },
    { role: 'user', content: 'and now?' }] });
  for (const [args, least, most] of [[[], 300, 1e9], [['--keep-billing-header'], 0, 100]]) {
    const s = await up(models.llama, ['--n-ctx', '2048', ...args]);
    const { n } = await ask(s, 1), { cached } = await ask(s, 2);
    must(cached >= least && cached <= most, `${args}: ${cached} of ${n} tokens`);
    const messages = async (i) => (await s.post('/v1/messages', { max_tokens: 4, messages: [{ role: 'user', content: 'and now?' }],
      system: [{ type: 'text', text: `x-anthropic-billing-header: cc_version=3; cch=${i}${i}${i};` }, { type: 'text', text: story(8) }] })).usage;
    await messages(1);
    const { cache_read_input_tokens: read } = await messages(2);
    must(read >= least && read <= most, `/v1/messages, ${args}: ${read} tokens`);
    await s.stop();
  }
});

await test('one pool: a conversation may have all of it, and they share it', async () => {
  const s = await up(models.llama, ['--n-ctx', '2048', '--n-seq', '4', '--kv-unified']);
  const { ready } = (await s.get('/api/status')).engine;
  same([ready.n_ctx, ready.n_ctx_seq, ready.n_seq], [2048, 2048, 4]);
  const long = await chat(s, story(1).repeat(3));
  must(long.n > 1024, `${long.n} tokens`);
  const all = await Promise.all([2, 3, 4, 5].map((i) => chat(s, story(i))));
  must(all.every((a) => a.text.length > 0), 'all are answered');
  must((await chat(s, story(1).repeat(3))).cached > long.n - 100, 'the long one came back');
  await s.stop();
  const fixed = await up(models.llama, ['--n-ctx', '2048', '--n-seq', '4']);
  same((await fixed.get('/api/status')).engine.ready.n_ctx_seq, 512);
  await fixed.stop();
});

await test('what a conversation can have is what every answer says it is', async () => {
  for (const [args, n_ctx] of [[['--n-seq', '4'], 512], [['--n-seq', '4', '--kv-unified'], 2048]]) {
    const s = await up(models.llama, ['--n-ctx', '2048', ...args]);
    same((await s.get('/v1/models')).data[0].meta.n_ctx, n_ctx);
    same((await s.get('/props')).default_generation_settings.n_ctx, n_ctx);
    same((await s.get('/slots')).map((slot) => slot.n_ctx), Array(4).fill(n_ctx));
    const r = await fetch(s.url + '/v1/chat/completions', { method: 'POST', body: JSON.stringify({ messages: [{ role: 'user', content: story(1).repeat(5) }] }) });
    const { error } = await r.json();
    same([r.status, error.code, error.n_ctx], [400, 'context_length_exceeded', n_ctx]);
    await s.stop();
  }
});

// Users of other servers met an abort there, with phi3 models.
await test('phi3, a quantized KV cache and several sequences: slots and pool', async () => {
  const phi3 = makeModel('phi3', '--arch', 'phi3', '--layers', 2, '--embd', 128, '--heads', 2, '--ff', 64, '--type', 'f32', '--template', 'think');
  for (const args of [[], ['--kv-unified']]) {
    const s = await up(phi3, ['--n-ctx', '2048', '--n-seq', '2', '--flash-attn', 'on', '--cache-type-k', 'q4_0', '--cache-type-v', 'q4_0', ...args]);
    const all = await Promise.all([1, 2, 3].map((i) => chat(s, story(i).slice(0, 200))));
    must(all.every((a) => a.text.length > 0), 'all are answered');
    await s.stop();
  }
});

// bench/agents replays longer ones beside llama-server.
await test('two agents over one slot: what is computed is what is new', async () => {
  const TURNS = 7, TOKENS = 1050;
  for (const arch of KINDS) {
    const s = await up(small('agents-' + arch, arch, TEMPLATE), ['--n-ctx', '4096']), agents = [0, 1].map((i) => new Agent(i, TOKENS, TURNS));
    let fresh = 0, computed = 0;
    for (let t = 0; t < TURNS; t++)
      for (const agent of agents) {
        agent.next();
        fresh += await newTokens(s.post, agent);
        const { usage } = await s.post('/v1/chat/completions', { ...agent.body(), max_tokens: 4, temperature: 0, ignore_eos: true });
        computed += usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens;
      }
    must(fresh > 2 * TOKENS * 0.8 && computed <= 1.15 * fresh, `${arch}: ${computed} tokens computed, ${fresh} are new`);
    await s.stop();
  }
});

await test('one slot, two conversations with the same long beginning: neither loses its end', async () => {
  const long = 'you are an agent, and these are your tools. '.repeat(25) + story(1);
  for (const arch of KINDS) {
    const s = await up(models[arch], ['--n-ctx', '4096', '--n-ubatch', '64']);
    const say = (i) => chat(s, 'and now?', 'none', { messages: [{ role: 'system', content: long }, { role: 'user', content: story(i) }] });
    for (const i of [2, 3]) await say(i);
    for (const i of [2, 3]) {
      const { n, cached } = await say(i);
      must(cached > n - 100, `${arch}: ${cached} of ${n} tokens came back`);
    }
    await s.stop();
  }
});

// What a server with --cache-dir says of the disk, when it has nothing left to write.
const onDisk = async (s, least) => {
  let c;
  await eventually(() => `${least} prompts on disk: ${JSON.stringify(c)}`, async () => { c = await cache(s); return c?.disk_prompts >= least; });
  return c;
};
const cacheDir = path.join(dir, 'kept', 'prompts'); // it is made
const keep = ['--n-ctx', '2048', '--cache-dir', cacheDir, '--cache-disk', '64', '--api-key-file', keys];
const theFile = () => path.join(cacheDir, fs.readdirSync(cacheDir).find((f) => /^m-\w+-[0-9a-f]{8}\.prompts$/.test(f)));

await test('histories come back after a restart, for their key alone', async () => {
  let s = await up(models.qwen35, keep);
  const before = [await chat(s, story(1), 'the-first-key'), await chat(s, story(2), 'the-second-key')];
  same(await s.stop(), 0);
  same((fs.statSync(cacheDir).mode & 0o777).toString(8), '700');
  same((fs.statSync(theFile()).mode & 0o777).toString(8), '600');
  fs.writeFileSync(keys, 'the-second-key\na-new-key\nthe-first-key\n', { mode: 0o600 }); // keys have other numbers now
  s = await up(models.qwen35, keep);
  const c = await onDisk(s, 2);
  must(c.disk_prompts === 2 && c.disk_bytes > 0 && c.disk_limit_bytes === 64 << 20, JSON.stringify(c));
  same((await chat(s, story(1), 'a-new-key')).cached, 0);
  for (const [i, key] of [[0, 'the-first-key'], [1, 'the-second-key']]) {
    const { text, n, cached } = await chat(s, story(i + 1), key);
    must(cached > n - 100, `${cached} of ${n} tokens came back`);
    same(text, before[i].text);
  }
  same((await metrics(s)).cache_disk_limit_bytes, 64 << 20);
  await s.stop();
});

await test('and after a crash of the engine, as far as they were written', async () => {
  const s = await up(models.llama, keep);
  const { n } = await chat(s, story(3), 'the-first-key');
  await onDisk(s, 1); // it was idle for a while
  const { pid } = await engine(s);
  process.kill(pid, 'SIGKILL');
  await eventually('the engine is up again', async () => { const e = await engine(s); return e.state === 'ready' && e.pid !== pid; });
  const { cached } = await chat(s, story(3), 'the-first-key');
  must(cached > n - 100, `${cached} of ${n} tokens came back`);
  await s.stop();
});

await test('a damaged or foreign file is a note, and so is one that is in use', async () => {
  const file = theFile(), size = fs.statSync(file).size, model = /^m-(\w+)-/.exec(path.basename(file))[1];
  fs.truncateSync(file, size >> 1);
  let s = await up(models[model], keep);
  await chat(s, story(4), 'the-first-key');
  await eventually('a note about it', () => /--cache-dir: .* damaged/.test(s.text()));
  const second = await up(models[model], keep);
  await eventually('a note about the lock', () => /--cache-dir: .*another process uses it/.test(second.text()));
  same((await chat(second, story(4), 'the-first-key')).cached, 0);
  await second.stop();
  await s.stop();
  s = await up(models[model], [...keep, '--cache-type-k', 'f32', '--cache-type-v', 'f32']);
  await eventually('a note about its owner', () => /--cache-dir: .*another model, engine or setting/.test(s.text()));
  same((await chat(s, story(4), 'the-first-key')).cached, 0);
  await s.stop();
});

done('cache');

// A server with many models, over the fake engine and real plans: cards that hold one or two of them, loads on demand, who leaves, who
// waits, what is cancelled, and engines that are killed at every moment of it.
import fs from 'node:fs';
import path from 'node:path';
import { ask, build, chat, connect, control, equal, eventually, now_us, ok, post, runAll, scratchFile, serve, test } from './lib.mjs';
import { dir, machineWith, makeModel, up } from './real.mjs';

// Every model takes 25 MiB of a card; the host has no room for one.
const file = makeModel('tiny', '--layers', '8', '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4');
const folder = path.join(dir, 'models');
fs.mkdirSync(folder);
const named = (name) => {
  const at = path.join(folder, name + '.gguf');
  if (!fs.existsSync(at)) fs.symlinkSync(file, at);
  return at;
};
const [a, b, c] = ['a', 'b', 'c'].map(named);
const fixed = ['--reserve-mib', '1', '--n-ctx', '1024', '--n-ubatch', '64', '--cache-ram', '0'];
const one = machineWith(8, 40), two = machineWith(8, 60);

// A server whose models can be told apart: each has a pipe and a log of its own.
async function fleet({ models = [a, b, c], machine = one, args = [], engine = {}, own = {}, env = {} } = {}) {
  const pipes = {}, seen = {}, each = {};
  for (const name of ['a', 'b', 'c']) {
    const { file: pipe, tell } = control();
    seen[name] = scratchFile('events');
    pipes[name] = tell;
    each[name] = { control: pipe, log: seen[name], ...own[name] };
  }
  const s = await serve({ models, args: [...machine ? ['--machine', machine] : [], ...fixed, ...args], engine: { ...engine, models: each }, env, ready: false });
  s.say = (name, line) => pipes[name](line);
  s.started = (name) => s.seen().filter((e) => e.kind === 'LOAD' && e.json.includes(`/${name}.gguf"`)).map((e) => e.us);
  s.got = (name) => (fs.existsSync(seen[name]) ? fs.readFileSync(seen[name], 'utf8') : '').split('\n').filter((l) => / REQUEST /.test(l)).length;
  s.models = async () => Object.fromEntries((await s.get('/api/models')).json.served.map((m) => [m.id, m]));
  s.state = async (name) => (await s.models())[name].state;
  s.is = (name, state) => eventually(() => `${name} is not ${state}: ${s.text()}`, async () => await s.state(name) === state);
  s.chat = (name, words = 'tokens=2', more = {}) => ask(s, chat(words, { model: name, ...more }));
  s.api = (what, body) => ask(s, body, '/api/models/' + what);
  s.pids = () => fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p) && (() => {
    try { return fs.readFileSync(`/proc/${p}/stat`, 'utf8').split(') ')[1].split(' ')[1] === String(s.pid) && /engine-process/.test(fs.readFileSync(`/proc/${p}/cmdline`, 'utf8')); } catch { return false; }
  })()).map(Number);
  return s;
}
// A stream that is open until it is closed or told to go on.
function stream(s, name, words) {
  const x = connect(s.port);
  x.send(post('/v1/chat/completions', chat(words, { model: name, stream: true })));
  return x;
}

test('the first is loaded at the start, others on demand; those that do not fit together take turns', async () => {
  const s = await fleet();
  equal((await s.get('/health')).json.status, 'ok', 'health');
  await s.is('a', 'ready');
  equal(await s.state('b'), 'unloaded');
  for (const name of ['b', 'a', 'c', 'b']) {
    const r = await s.chat(name);
    equal([r.status, r.json.model], [200, name], r.text);
    equal(Object.values(await s.models()).filter((m) => m.state === 'ready').map((m) => m.id), [name], 'up');
  }
  const m = await s.models();
  equal([m.a.evictions, m.b.evictions, m.c.evictions, m.b.loads], [2, 1, 1, 2]);
  ok(m.b.load_s > 0 && m.b.plan_s > 0 && m.b.devices[0].bytes > 25e6 && m.b.host_now_bytes > 0 && !m.a.host_now_bytes, JSON.stringify(m.b));
  equal(s.pids().length, 1, 'engine processes');
  equal((await s.chat(undefined)).json.model, 'a', 'without a name');
});

test('those that fit together stay', async () => {
  const s = await fleet({ machine: two, models: [a, b] });
  await s.is('a', 'ready');
  equal((await s.chat('b')).status, 200);
  const m = await s.models();
  equal([m.a.state, m.b.state, s.pids().length], ['ready', 'ready', 2]);
  equal((await ask(s, { model: 'b', input: 'x' }, '/v1/embeddings')).json.model, 'b', 'embeddings');
  const metrics = await (await fetch(s.url + '/metrics')).text();
  ok(/^vram_llm_model_up\{model="a"\} 1$/m.test(metrics) && /^vram_llm_model_text_tokens_total\{model="b"\} 2$/m.test(metrics), metrics);
});

test('names: aliases, files, unknown ones with the nearest, and --any-model', async () => {
  const s = await fleet({ machine: two, models: [a, b] });
  equal((await s.chat('b.gguf')).json.model, 'b');
  const r = await s.chat('bb');
  equal([r.status, r.json.error.code], [404, 'model_not_found']);
  for (const [where, body] of [['/v1/responses', { model: 'zzz', input: 'x' }], ['/v1/messages', { model: 'zzz', max_tokens: 5, messages: [{ role: 'user', content: 'x' }] }],
    ['/api/chat', { model: 'zzz', messages: [{ role: 'user', content: 'x' }] }], ['/completion', { model: 'zzz', prompt: 'x' }], ['/api/show', { model: 'zzz' }]])
    equal((await ask(s, body, where)).status, 404, where);
  for (const [where, body] of [['/v1/responses', { model: 'b', input: 'tokens=2' }], ['/v1/messages', { model: 'b', max_tokens: 5, messages: [{ role: 'user', content: 'tokens=2' }] }],
    ['/api/chat', { model: 'b:latest', stream: false, messages: [{ role: 'user', content: 'tokens=2' }] }], ['/api/generate', { model: 'b', stream: false, prompt: 'tokens=2' }], ['/completion', { model: 'b', prompt: 'tokens=2' }]]) {
    const got = await ask(s, body, where);
    equal([got.status, got.json.model], [200, 'b'], where);
  }
  equal((await s.get('/v1/models')).json.data.map((m) => [m.id, m.status.value]), [['a', 'loaded'], ['b', 'loaded']]);
  equal((await s.get('/api/tags')).json.models.map((m) => m.name), ['a', 'b']);
  equal((await s.get('/props?model=b')).json.model_alias, 'b');
  equal((await s.get('/slots?model=zzz')).status, 404);
  equal((await s.get('/api/status?model=b')).json.model, 'b');
  const live = connect(s.port);
  live.send('GET /api/live?model=b HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await live.until(() => /event: tick\ndata: .*"model":"b".*"models":\[{"id":"a","state":"ready"/.test(live.text()));
  await s.stop();
  const any = await fleet({ machine: two, models: [a, b], args: ['--any-model'] });
  equal((await any.chat('gpt-4o')).json.model, 'a');
});

test('a directory: all of it, none loaded before it is asked for; what is no model is left out', async () => {
  const at = path.join(dir, 'folder');
  fs.mkdirSync(path.join(at, 'sub'), { recursive: true });
  fs.symlinkSync(file, path.join(at, 'sub', 'inner.gguf'));
  fs.symlinkSync(file, path.join(at, 'outer.gguf'));
  fs.writeFileSync(path.join(at, 'broken.gguf'), 'no model');
  fs.symlinkSync('/nonexistent/x.gguf', path.join(at, 'dangling.gguf'));
  fs.symlinkSync('..', path.join(at, 'sub', 'round'));
  const s = await serve({ models: ['--models-dir', at], args: ['--machine', two, ...fixed], ready: false });
  const m = (await s.get('/api/models')).json.served;
  equal(m.map((x) => [x.id, x.state]), [['outer', 'unloaded']], s.text()); // the same file is listed once
  ok(/broken is left out/.test(s.text()), s.text());
  equal((await ask(s, chat('tokens=2', { model: 'outer' }))).status, 200);
});

test('presets: options, aliases, pin, preload, ttl and default of each', async () => {
  const ini = scratchFile('models.ini');
  fs.writeFileSync(ini, `[*]\nn-seq = 2\n[x]\nmodel = ${a}\nalias = gpt-4, other\n[y]\nmodel = ${b}\ndefault = yes\npreload = yes\nttl = 1000\nctx-size = 512\n[z]\nmodel = ${c}\npin = yes\n`);
  const s = await serve({ models: ['--preset', ini], args: ['--machine', two, ...fixed], ready: false });
  const state = async (id) => (await s.get('/api/models')).json.served.find((m) => m.id === id);
  await eventually(() => s.text(), async () => (await state('y')).state === 'ready');
  await eventually('z is up', async () => (await state('z')).state === 'ready');
  equal((await ask(s, chat('tokens=2', { model: undefined }))).json.model, 'y', 'default');
  equal([(await state('y')).ttl_s, (await state('z')).pinned, (await state('x')).aliases], [1000, true, ['gpt-4', 'other']]);
  equal((await s.get('/api/plan?model=y')).json.goal.n_ctx, 512, 'its own option');
  equal((await ask(s, chat('tokens=2', { model: 'gpt-4' }))).json.model, 'x', 'alias');
  equal([(await state('y')).state, (await state('z')).state], ['unloaded', 'ready'], 'the pinned one stays');
});

test('a pinned model never leaves: the error says what is in the way', async () => {
  const s = await fleet({ models: [a, b] });
  await s.is('a', 'ready');
  equal((await s.api('pin', { model: 'a' })).json.pinned, true);
  const r = await s.chat('b');
  equal([r.status, r.json.error.code], [503, 'model_load_failed'], r.text);
  ok(/pinned/.test(r.json.error.message) && r.headers.get('retry-after'), r.text);
  equal((await s.models()).b.in_the_way.map((o) => [o.kind, o.model, o.bytes > 25e6]), [['pinned', 'a', true]]);
  equal([await s.state('b'), await s.state('a')], ['failed', 'ready']);
  equal((await s.api('unload', { model: 'a' })).json.error.code, 'pinned');
  const dry = await s.api('load', { model: 'b', dry: true });
  equal([dry.status, dry.json.fits, dry.json.model, dry.json.in_the_way.map((o) => [o.kind, o.model])], [200, false, 'b', [['pinned', 'a']]], dry.text);
  equal((await s.api('pin', { model: 'a', pin: false })).json.pinned, false);
  await s.is('b', 'unloaded'); // its pause is over
  equal((await s.api('load', { model: 'b', dry: true })).json.evict, ['a']);
  equal((await s.chat('b')).status, 200);
});

test('where several share the server, none of them manages it for all; --manage lets them', async () => {
  const keys = scratchFile('keys'), as = (key) => ({ authorization: `Bearer ${key}` });
  const s = await fleet({ models: [a, b], args: ['--api-key-file', keys], env: (fs.writeFileSync(keys, 'key-one-0123456789\nkey-two-0123456789\n', { mode: 0o600 }), {}) });
  const served = async () => { const r = await fetch(s.url + '/api/models', { headers: as('key-one-0123456789') }); const { manage, served: all } = await r.json(); return [manage, ...all.map((m) => m.ttl_s)]; };
  for (const [what, body] of [['load', { model: 'b' }], ['unload', { model: 'a' }], ['pin', { model: 'a' }]]) {
    const r = await ask(s, body, '/api/models/' + what, as('key-two-0123456789'));
    equal([r.status, r.json.error.code], [403, 'management_off'], what);
    ok(/--manage/.test(r.text), r.text);
  }
  equal((await ask(s, '[]', '/lora-adapters', as('key-two-0123456789'))).status, 403);
  equal((await ask(s, { model: 'b', dry: true }, '/api/models/load', as('key-two-0123456789'))).status, 200, 'asking is free');
  const r = await ask(s, { model: 'b', messages: [{ role: 'user', content: 'tokens=2' }], keep_alive: -1, stream: false }, '/api/chat', as('key-two-0123456789'));
  equal([r.status, r.headers.get('x-ignored'), await served()], [200, 'keep_alive', [false, null, null]], 'requests load models');
  await s.stop();
  const all = await fleet({ models: [a, b], args: ['--api-key-file', keys, '--manage'] });
  equal((await ask(all, { model: 'a', pin: true }, '/api/models/pin', as('key-two-0123456789'))).json.pinned, true);
});

test('those who only want to know what a load would bring hold up no load', async () => {
  const s = await fleet({ models: [a, b] });
  await s.is('a', 'ready');
  const asked = Array.from({ length: 60 }, () => s.api('load', { model: 'b', dry: true }));
  equal((await s.chat('b')).status, 200);
  const got = (await Promise.all(asked)).map((r) => [r.status, r.json.error?.code ?? r.json.model]);
  ok(got.every(([status, word]) => (status === 200 && word === 'b') || (status === 503 && word === 'busy')), JSON.stringify(got));
  ok(got.some(([status]) => status === 200) && got.some(([status]) => status === 503), JSON.stringify(got));
});

// For a busy one: until that has had its time, of which a slow machine leaves nothing; from then on for it to end.
const waitsFor = (s, who, whom) => async () => {
  const m = (await s.models())[who];
  return m.state === 'making_room' || m.in_the_way.some((o) => o.kind === 'busy' && o.model === whom);
};

test('a busy model is waited for; what it was sent is answered whole', async () => {
  const s = await fleet({ models: [a, b] });
  await s.is('a', 'ready');
  const long = stream(s, 'a', 'tokens=5 held');
  await eventually('a has it', () => s.got('a') === 1);
  const dry = (await s.api('load', { model: 'b', dry: true })).json;
  equal([dry.fits, dry.evict, dry.wait_for], [true, ['a'], ['a']]);
  const other = s.chat('b');
  await eventually('b waits, for a', waitsFor(s, 'b', 'a'));
  await s.is('b', 'making_room'); // a has had its time, and is sent nothing more
  const late = s.chat('a');
  await eventually('it waits', async () => (await s.models()).a.waiting === 1);
  equal([s.got('a'), await s.state('a')], [1, 'unloading']);
  s.say('a', 'tokens');
  await long.until(() => /\[DONE\]/.test(long.text()));
  equal((await other).status, 200, 'b');
  equal((await late).status, 200, 'a again');
  equal((await s.models()).a.loads, 2);
});

test('a model that is asked for without end does not keep another away', async () => {
  const s = await fleet({ models: [a, b] });
  await s.is('a', 'ready');
  let done = false, n = 0;
  const endless = Promise.all([1, 2, 3].map(async () => { while (!done) { equal((await s.chat('a', 'tokens=3 delay=5')).status, 200); n++; } }));
  await eventually('they run', () => n > 3);
  equal((await s.chat('b')).status, 200, 'b');
  const before = n;
  await eventually('a is back', () => n > before + 3);
  done = true;
  await endless;
});

test('a request that waits too long is told so, and what it waits for stays', async () => {
  const s = await fleet({ models: [a, b], args: ['--load-wait', '1'], own: { a: {}, b: { held: true } } });
  await s.is('a', 'ready');
  const r = await s.chat('b');
  equal([r.status, r.json.error.code, Number(r.headers.get('retry-after')) > 0], [503, 'model_loading', true], r.text);
  await s.is('b', 'loading');
  s.say('b', 'load 100');
  await s.is('b', 'ready');
});

test('a stream hears how far the load is', async () => {
  const s = await fleet({ models: [a, b], own: { b: { held: true } } });
  await s.is('a', 'ready');
  const x = stream(s, 'b', 'tokens=2');
  await s.is('b', 'loading');
  s.say('b', 'load 40');
  await x.until(() => /: loading 40 %/.test(x.text()));
  s.say('b', 'load 100');
  await x.until(() => /\[DONE\]/.test(x.text()));
});

test('models that share no device load side by side', async () => {
  const s = await fleet({ machine: machineWith(8, 28, 28), own: { a: { held: true } } });
  await s.is('a', 'loading');
  const first = s.chat('a');
  equal((await s.chat('b')).status, 200, 'b, on the other card');
  const m = await s.models();
  equal([m.a.state, m.b.state, s.pids().length], ['loading', 'ready', 2]);
  ok(m.a.devices[0].id !== m.b.devices[0].id, JSON.stringify(m));
  equal((await s.chat('c')).status, 200, 'c, in the place of b');
  equal([await s.state('a'), await s.state('b')], ['loading', 'unloaded']);
  s.say('a', 'load 100');
  equal((await first).status, 200, 'a');
});

test('an engine that is killed while two load side by side costs its own requests alone', async () => {
  const s = await fleet({ machine: machineWith(8, 28, 28), models: [a, b], own: { a: { held: true }, b: { held: true } } });
  await s.is('a', 'loading');
  const first = s.chat('a'), victim = await eventually('its process is there', () => s.pids()[0]);
  const other = s.chat('b');
  await s.is('b', 'loading');
  process.kill(victim, 'SIGKILL');
  equal((await first).json.error.code, 'model_load_failed');
  s.say('b', 'load 100');
  equal((await other).status, 200);
  s.say('a', 'load 100');
  await eventually(() => `a is back: ${s.text()}`, async () => (await s.chat('a')).status === 200);
  equal([await s.state('b'), (await s.models()).b.loads], ['ready', 1]);
});

test('one that would go where another is being loaded waits until that is up', async () => {
  const s = await fleet({ machine: machineWith(8, 60, 5), models: [a, b], own: { a: { held: true } } });
  await s.is('a', 'loading');
  const other = s.chat('b');
  await eventually('b is behind a', async () => (await s.models()).b.in_the_way.some((o) => o.kind === 'loading' && o.model === 'a' && o.bytes > 25e6));
  equal([await s.state('b'), s.started('b').length], ['queued', 0]);
  const dry = (await s.api('load', { model: 'b', dry: true })).json;
  equal([dry.fits, dry.evict], [true, []]);
  s.say('a', 'load 100');
  equal((await other).status, 200);
  const m = await s.models();
  equal([m.a.state, m.b.state, m.a.evictions, m.b.in_the_way, m.b.trouble], ['ready', 'ready', 0, [], null]);
});

test('who waited for a place and left is not told as trouble', async () => {
  const s = await fleet({ models: [a, b] });
  await s.is('a', 'ready');
  const long = stream(s, 'a', 'tokens=5 held'), x = stream(s, 'b', 'tokens=2');
  await eventually('b waits, for a', waitsFor(s, 'b', 'a'));
  x.close();
  await s.is('b', 'unloaded');
  await eventually('nothing is told', async () => { const { b: m } = await s.models(); return m.trouble === null && m.in_the_way.length === 0; });
  s.say('a', 'tokens');
  await long.until(() => /\[DONE\]/.test(long.text()));
});

test('when the only one that waits for a load leaves, the load behind it goes on', async () => {
  const s = await fleet({ machine: machineWith(8, 40, 5), models: [a, b], own: { a: { held: true } } });
  await s.is('a', 'loading');
  const other = s.chat('b');
  await eventually('b is behind a', async () => (await s.models()).b.in_the_way.some((o) => o.kind === 'loading' && o.model === 'a'));
  equal((await s.api('unload', { model: 'a' })).status, 202);
  equal((await other).status, 200);
  equal([await s.state('a'), s.started('a').length], ['unloaded', 1]);
});

test('when its last client leaves, a load is given up', async () => {
  const s = await fleet({ models: [a, b], machine: two, own: { b: { held: true } } });
  await s.is('a', 'ready');
  const x = stream(s, 'b', 'tokens=2'), y = stream(s, 'b', 'tokens=2');
  await eventually('both wait', async () => (await s.models()).b.waiting === 2);
  await s.is('b', 'loading');
  x.close();
  await eventually('one waits', async () => (await s.models()).b.waiting === 1);
  equal(await s.state('b'), 'loading');
  y.close();
  await s.is('b', 'unloaded');
  await eventually('its process is gone', () => s.pids().length === 1);
  equal(await s.state('a'), 'ready');
  equal((await s.api('load', { model: 'b' })).status, 202); // asked for without a request, it stays
  await s.is('b', 'loading');
  equal((await s.api('unload', { model: 'b' })).status, 202);
  await s.is('b', 'unloaded');
});

test('idle models leave, and come back; Ollama\'s keep_alive', async () => {
  const s = await fleet({ models: [a], args: ['--idle-unload', '1'] });
  await s.is('a', 'ready');
  equal((await s.get('/api/ps')).json.models.length, 1);
  await s.is('a', 'unloaded');
  equal([(await s.get('/api/ps')).json.models.length, s.pids().length], [0, 0]);
  equal((await s.chat('a')).status, 200);
  const keep = async (keep_alive) => equal((await ask(s, { model: 'a', stream: false, keep_alive, messages: [{ role: 'user', content: 'tokens=2' }] }, '/api/chat')).status, 200);
  await keep('1h');
  equal((await s.models()).a.ttl_s, 3600);
  await keep(-1);
  equal((await s.models()).a.ttl_s, null);
  await keep(0);
  await s.is('a', 'unloaded');
  equal((await s.models()).a.ttl_s, 1, 'as it was set at the start');
  const loads = (await s.models()).a.loads;
  for (const [where, body] of [['/api/generate', {}], ['/api/chat', { messages: [] }]]) { // as `ollama stop` does: it is not loaded for that
    const gone = await ask(s, { model: 'a', keep_alive: 0, ...body }, where);
    equal([gone.status, gone.json.done_reason, gone.json.done], [200, 'unload', true], gone.text);
  }
  equal([(await s.models()).a.loads, await s.state('a')], [loads, 'unloaded']);
  await keep('1h');
  equal((await ask(s, { model: 'a', keep_alive: 0 }, '/api/generate')).json.done_reason, 'unload', 'one that is up');
  await s.is('a', 'unloaded');
});

test('a model that cannot be loaded harms no other', async () => {
  const bad = path.join(folder, 'c.gguf');
  const s = await fleet({ machine: two, own: { b: { starts: [{ failed: { message: 'the weights are bad', stage: 'load' } }], count: undefined } } });
  await s.is('a', 'ready');
  const long = stream(s, 'a', 'tokens=5 held');
  await eventually('a has it', () => s.got('a') === 1);
  const r = await s.chat('b');
  equal([r.status, r.json.error.code], [503, 'model_load_failed'], r.text);
  ok(/the weights are bad/.test(r.json.error.message), r.text);
  const again = await s.chat('b'); // at once: it is not tried again before its pause is over
  equal([again.status, again.json.error.code], [503, 'model_load_failed']);
  equal((await s.chat('c')).status, 200);
  s.say('a', 'tokens');
  await long.until(() => /\[DONE\]/.test(long.text()));
  fs.renameSync(bad, bad + '.away'); // and one whose file is gone
  equal((await s.api('unload', { model: 'c' })).status, 202);
  await s.is('c', 'unloaded');
  const gone = await s.chat('c');
  fs.renameSync(bad + '.away', bad);
  equal([gone.status, gone.json.error.code], [503, 'model_load_failed'], gone.text);
  ok(/c\.gguf/.test(gone.text), gone.text);
  await eventually('it is back', async () => (await s.chat('c')).status === 200);
});

for (const [when, held, wait] of [
  ['while it loads', 'b', (s) => s.is('b', 'loading')],
  ['while another makes room for it', 'x', (s) => s.is('b', 'making_room')],
  ['when it is up', 'x', (s) => s.is('b', 'ready')],
])
  test(`an engine that is killed ${when} costs its own requests alone`, async () => {
    const s = await fleet({ models: [a, b], own: held === 'b' ? { b: { held: true } } : {} });
    await s.is('a', 'ready');
    const first = await eventually('its process is there', () => s.pids()[0]);
    const long = stream(s, 'a', 'tokens=5 held');
    await eventually('a has it', () => s.got('a') === 1);
    const r = s.chat('b');
    if (when !== 'while another makes room for it') {
      s.say('a', 'tokens');
      await long.until(() => /\[DONE\]/.test(long.text()));
    }
    await wait(s);
    if (when === 'when it is up') equal((await r).status, 200);
    const victim = when === 'while another makes room for it' ? first : await eventually('its process is there', () => s.pids()[0]);
    process.kill(victim, 'SIGKILL');
    if (when === 'while it loads') equal((await r).json.error.code, 'model_load_failed');
    if (when === 'while another makes room for it') {
      await long.until(() => /engine_died/.test(long.text()));
      equal((await r).status, 200, 'b comes'); // a has made room, if not as it was meant to
    }
    if (held === 'b') s.say('b', 'load 100');
    await eventually('both can be had', async () => (await s.chat('a')).status === 200 && (await s.chat('b')).status === 200);
    equal(s.pids().length, 1);
  });

test('a file that is replaced between loads is planned anew; what is no model any more harms no other', async () => {
  const at = path.join(folder, 'replaced.gguf');
  fs.copyFileSync(file, at);
  const s = await fleet({ models: [at, b] });
  await s.is('replaced', 'ready');
  const before = (await s.models()).replaced.devices[0].bytes;
  equal((await s.chat('b')).status, 200);
  fs.renameSync(makeModel('larger', '--layers', '10', '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4'), at);
  equal((await s.chat('replaced')).status, 200);
  const after = (await s.models()).replaced.devices[0].bytes;
  ok(after > before * 1.1, `${before} bytes before, ${after} after`);
  equal((await s.chat('b')).status, 200);
  fs.writeFileSync(at, 'no model');
  const r = await s.chat('replaced');
  ok(r.status >= 400 && /GGUF/.test(r.text), r.text);
  equal([(await s.chat('b')).status, await s.state('b')], [200, 'ready']);
  fs.unlinkSync(at);
});

test('it stops with loads, answers and waiting requests under way', async () => {
  const s = await fleet({ own: { b: { held: true } }, machine: two });
  await s.is('a', 'ready');
  const long = stream(s, 'a', 'tokens=5 held');
  await eventually('a has it', () => s.got('a') === 1);
  const waiting = s.chat('b');
  await s.is('b', 'loading');
  s.kill('SIGTERM');
  equal((await waiting).json.error.code, 'stopping');
  s.say('a', 'tokens');
  await long.until(() => /\[DONE\]/.test(long.text()));
  equal((await s.ended).code, 0, s.text());
});

test('the real engine: two models take turns on a card that holds one, each with its own answers', async () => {
  const other = makeModel('other', '--layers', '8', '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4', '--seed', '7');
  const s = await up([file, other], ['--machine', one, ...fixed]);
  const say = async (model) => (await s.post('/v1/completions', { model, prompt: 'once upon a time', max_tokens: 8, temperature: 0, ignore_eos: true })).choices[0].text;
  const first = { tiny: await say('tiny'), other: await say('other') };
  ok(first.tiny !== first.other, 'both say the same: ' + first.tiny);
  equal(await say('tiny'), first.tiny);
  const m = Object.fromEntries((await s.get('/api/models')).served.map((x) => [x.id, x]));
  equal([m.tiny.state, m.tiny.loads, m.other.state, m.other.evictions], ['ready', 2, 'unloaded', 1]);
  equal(await s.stop(), 0);
});

test('the real engine: an embedding and a reranking model beside a chat model, without a flag', async () => {
  const chatty = makeModel('chatty', '--layers', '2'), embedder = makeModel('embedder', '--layers', '1', '--embd', '64', '--embedding');
  const ranker = makeModel('ranker', '--arch', 'qwen3', '--layers', '2', '--embd', '128', '--rerank', 'none', '--template', 'none');
  const s = await up([chatty, embedder, ranker], ['--machine', machineWith(2000, 200), '--reserve-mib', '1', '--n-ctx', '1024']);
  const first = (await s.post('/v1/embeddings', { model: 'embedder', input: 'x' })).data[0].embedding;
  const score = (await s.post('/v1/rerank', { model: 'ranker', query: 'q', documents: ['x', 'y'] })).results;
  equal([first.length, score.length, (await s.post('/v1/completions', { model: 'chatty', prompt: 'x', max_tokens: 2 })).model], [64, 2, 'chatty']);
  equal((await s.post('/v1/embeddings', { model: 'embedder', input: 'x' })).data[0].embedding, first, 'as before');
  const refused = await s.post('/v1/completions', { model: 'embedder', prompt: 'x' }).then(() => null, (e) => e);
  equal(refused?.status, 400, 'an embedding model writes no text');
  const m = (await s.get('/api/models')).served;
  equal(m.map((x) => [x.id, x.state, x.loads]), [['chatty', 'ready', 1], ['embedder', 'ready', 1], ['ranker', 'ready', 1]]);
  equal((await s.get('/v1/models')).data.map((x) => x.meta.kind), ['text', 'embedding', 'rerank']);
});

test('a small model stays beside large ones that change', async () => {
  const small = makeModel('small', '--layers', '1', '--embd', '64');
  const s = await fleet({ models: [small, a, b], machine: machineWith(8, 40) });
  for (const name of ['small', 'a', 'b', 'a', 'b']) equal((await s.chat(name)).status, 200, name);
  const m = await s.models();
  equal([m.small.loads, m.small.state, m.a.loads, m.b.loads], [1, 'ready', 2, 2]);
});

test('a card that has less than it says: the newcomer is planned again, and another leaves for it', async () => {
  const other = makeModel('second', '--layers', '8', '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4');
  const s = await up([file, other], ['--machine', two, ...fixed], { VRAM_LLM_VIRTUAL: JSON.stringify([{ '*': { less: 20 } }]) });
  const say = async (model) => (await s.post('/v1/completions', { model, prompt: 'once', max_tokens: 4, temperature: 0, ignore_eos: true })).choices[0].text;
  const text = await say('tiny');
  equal(await say('second'), text, s.text());
  const m = Object.fromEntries((await s.get('/api/models')).served.map((x) => [x.id, x]));
  ok(/out of memory/.test(s.text()), 'it came up at once: nothing was tested');
  equal([m.tiny.state, m.tiny.evictions, m.second.state], ['unloaded', 1, 'ready']);
});

test('cards that have less than they say, and two that load at once: each is planned again, both answer', async () => {
  const other = makeModel('second', '--layers', '8', '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4');
  const s = await up([file, other], ['--machine', machineWith(8, 45, 46), ...fixed], { VRAM_LLM_VIRTUAL: JSON.stringify([{ '*': { less: 18 } }]) });
  const say = async (model) => (await s.post('/v1/completions', { model, prompt: 'once', max_tokens: 4, temperature: 0, ignore_eos: true })).choices[0].text;
  const texts = await Promise.all(['tiny', 'second', 'second', 'tiny'].map(say));
  equal(new Set(texts).size, 1, s.text());
  ok(/out of memory/.test(s.text()), 'both came up at once: nothing was tested');
  equal((await s.get('/api/models')).served.map((m) => m.state).includes('failed'), false);
});

// Cards that a driver knows (a stub of NVML), which says what is free when it is asked: the test decides what that is.
function driver(...mib) {
  const file = scratchFile('free'), set = (...free) => { fs.writeFileSync(file + '.new', free.join(' ')); fs.renameSync(file + '.new', file); };
  set(...mib);
  return { set, env: { VRAM_LLM_NVML: path.resolve(build, 'tests', 'libnvml-stub.so'), VR_STUB_NVML_FREE: file } };
}
const onDevices = (devices) => ['--devices', devices, '--n-gpu-layers', '99']; // none of it in this computer's memory

test('memory counts as free when the driver says so: it comes back after the process is gone', async () => {
  const d = driver(40), s = await fleet({ models: [a, b], machine: null, env: d.env, args: onDevices('CUDA0') });
  await s.is('a', 'ready');
  equal(s.started('a').length, 1, 'loads of a');
  d.set(14); // what it has is taken
  const r = s.chat('b');
  await eventually(() => `a does not leave: ${s.text()}`, () => s.pids().length === 0);
  ok(s.started('b').length === 0, 'b was loaded into memory that is not free');
  const back = now_us();
  d.set(40);
  if ((await r).status !== 200) await eventually(() => s.text(), async () => (await s.chat('b')).status === 200); // on a machine that slept for seconds
  ok(s.started('b').length && s.started('b')[0] > back, `b was loaded at ${s.started('b')}, and the memory came back at ${back}`);
});

test('memory that does not come back: planned again with what there is, and the kinds say what is missing', async () => {
  const d = driver(40), s = await fleet({ models: [a, b], machine: null, env: d.env, args: onDevices('CUDA0') });
  await s.is('a', 'ready');
  d.set(14);
  const r = await s.chat('b');
  equal([r.status, r.json.error.code], [503, 'model_load_failed'], r.text);
  const m = (await s.models()).b;
  equal([m.state, m.in_the_way.map((o) => o.kind), m.in_the_way[1].device], ['failed', ['too_large', 'not_freed'], 'CUDA0']);
  ok(m.in_the_way[1].bytes > 5e6 && m.in_the_way[1].bytes < 20e6, JSON.stringify(m.in_the_way));
  equal(s.started('b').length, 0, 'loads of b');
  d.set(40);
  await eventually(() => s.text(), async () => (await s.chat('b')).status === 200);
  equal((await s.models()).b.in_the_way, []);
});

test('another program takes what a model had: the newcomer goes where there is room', async () => {
  const d = driver(40, 5), s = await fleet({ models: [a, b], machine: null, env: d.env, args: onDevices('CUDA0,CUDA1') });
  await s.is('a', 'ready');
  equal((await s.models()).a.devices.map((x) => x.id), ['CUDA0']);
  d.set(14, 5);
  const r = s.chat('b');
  await eventually(() => `a does not leave: ${s.text()}`, () => s.pids().length === 0);
  d.set(14, 60);
  if ((await r).status !== 200) await eventually(() => s.text(), async () => (await s.chat('b')).status === 200);
  equal((await s.models()).b.devices.map((x) => x.id), ['CUDA1']);
});

test('while another is being loaded: what the driver says is not counted twice', async () => {
  const d = driver(60, 5), s = await fleet({ models: [a, b], machine: null, env: d.env, args: onDevices('CUDA0,CUDA1'), own: { a: { held: true } } });
  await s.is('a', 'loading');
  for (const left of [60, 50, 34]) { // nothing, some, all of it is taken
    d.set(left, 5);
    const dry = (await s.api('load', { model: 'b', dry: true })).json;
    equal([dry.fits, dry.evict], [true, []], `${left} MiB are free`);
  }
  d.set(60 - 26 - 20, 5); // another program
  equal((await s.api('load', { model: 'b', dry: true })).json.evict, ['a']);
});

test('a card that shrinks: two that fit beside each other do so no more', async () => {
  const d = driver(60), s = await fleet({ models: [a, b], machine: null, env: d.env, args: onDevices('CUDA0') });
  await s.is('a', 'ready');
  d.set(60 - 26);
  equal((await s.api('load', { model: 'b', dry: true })).json.evict, [], 'beside it');
  d.set(60 - 26 - 20); // another program
  equal((await s.api('load', { model: 'b', dry: true })).json.evict, ['a']);
  const r = s.chat('b');
  await eventually(() => `a does not leave: ${s.text()}`, () => s.pids().length === 0);
  d.set(60 - 20);
  if ((await r).status !== 200) await eventually(() => s.text(), async () => (await s.chat('b')).status === 200);
  equal([await s.state('a'), (await s.models()).a.evictions], ['unloaded', 1]);
});

test('one model that stays: load and unload say that it does', async () => {
  const s = await serve();
  equal((await ask(s, { model: 'm' }, '/api/models/load')).json.error.code, 'not_on_demand');
  equal((await ask(s, { model: 'm', dry: true }, '/api/models/load')).json.fits, true);
  equal((await ask(s, {}, '/api/models/load')).status, 400);
  const r = (await s.get('/api/models')).json;
  equal([r.on_demand, r.default, r.served[0].state], [false, 'm', 'ready']);
});

runAll('e2e fleet');

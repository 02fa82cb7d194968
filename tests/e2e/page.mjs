// What the page asks for: its files, plans for other machines, what to plan with, and the live events.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { hub } from './hub.mjs';
import { ask, build, connect, equal, eventually, model, ok, raw, runAll, scratchFile, serve, test } from './lib.mjs';

const get = (s, where, headers = {}) => fetch(s.url + where, { headers });

test('the page and its files, with their policy and their type', async () => {
  const s = await serve();
  const page = await get(s, '/');
  equal(page.status, 200, 'status');
  const html = await page.text();
  const policy = page.headers.get('content-security-policy');
  for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"])
    ok(policy.includes(rule), `${rule} is missing in ${policy}`);
  ok(!/unsafe/.test(policy), policy);
  equal(page.headers.get('x-content-type-options'), 'nosniff');
  equal(page.headers.get('referrer-policy'), 'no-referrer');
  ok(!/<script(?![^>]*\ssrc=)/.test(html) && !/\sstyle=/.test(html) && !/\son[a-z]+=/.test(html), 'nothing inline');
  // every file that the page or a module names is there, with the type of its name
  const types = { js: 'text/javascript', css: 'text/css' };
  const seen = new Set(), todo = [...html.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map((m) => '/' + m[1]);
  while (todo.length) {
    const file = todo.pop();
    if (seen.has(file)) continue;
    seen.add(file);
    const r = await get(s, file);
    equal(r.status, 200, file);
    ok(r.headers.get('content-type').startsWith(types[file.split('.').pop()]), `${file}: ${r.headers.get('content-type')}`);
    todo.push(...[...(await r.text()).matchAll(/^import .* from '\.\/([^']+)'/gm)].map((m) => '/page/' + m[1]));
  }
  ok(seen.size >= 9, `${seen.size} files`);
  equal((await get(s, '/page/nothing.js')).status, 404);
  equal((await get(s, '/page/../page/app.js')).status, 200); // the client itself resolves it
  for (const evil of ['/page/..%2fapp.js', '/page/%2e%2e/app.js', '/page//app.js', '/page/']) {
    const r = await raw(s.port, `GET ${evil} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    equal(r.statuses, [404], evil);
  }
});

test('a file that did not change is not sent again', async () => {
  const s = await serve();
  const first = await get(s, '/page/style.css');
  const tag = first.headers.get('etag');
  ok(/^"[0-9a-f]{16}"$/.test(tag), tag);
  const size = (await first.text()).length;
  const again = await raw(s.port, `GET /page/style.css HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: ${tag}\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n`, { replies: 2 });
  equal(again.statuses, [304, 200], 'and the connection goes on');
  const other = await raw(s.port, 'GET /page/style.css HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: "0"\r\n\r\n');
  equal(other.statuses, [200]);
  const head = await fetch(s.url + '/page/style.css', { method: 'HEAD' });
  equal(Number(head.headers.get('content-length')), size, 'HEAD');
});

test('the page needs no key, what it asks for does', async () => {
  const s = await serve({ args: ['--api-key', 'secret-key'] });
  for (const open of ['/', '/page/app.js', '/health']) equal((await get(s, open)).status, 200, open);
  for (const closed of ['/api/plan', '/api/gpus', '/api/models', '/api/live', '/api/status']) equal((await get(s, closed)).status, 401, closed);
  equal((await ask(s, {}, '/api/plan')).status, 401);
  equal((await get(s, '/api/gpus', { authorization: 'Bearer secret-key' })).status, 200);
  const rebound = await raw((await serve()).port, 'GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n');
  equal(rebound.statuses, [403], 'Host');
});

test('a plan for other cards', async () => {
  const s = await serve();
  const r = await ask(s, { gpus: '2x RTX 3090, RTX 4060', n_ctx: 8192, cache_type_k: 'q8_0', cache_type_v: 'q8_0', ram_mib: 32000 }, '/api/plan');
  equal(r.status, 200, r.text.slice(0, 200));
  equal([r.json.fits, r.json.goal.n_ctx, r.json.goal.type_k, r.json.devices[0].name], [true, 8192, 'q8_0', 'NVIDIA GeForce RTX 3090']);
  equal(r.json.host.free_bytes, 32000 * 1048576, 'the host that was asked for');
  const d = r.json.devices[0];
  const parts = d.layers.reduce((n, l) => n + l.bytes, 0) + d.output_bytes + d.other_bytes;
  equal(parts, d.model_bytes, 'layers and the rest make up the weights');
  ok(d.layers.every((l) => typeof l.type === 'string' && l.bytes > 0), 'types');
  const small = await ask(s, { gpus: 'RTX 3060 12GB', ram_mib: 1000 }, '/api/plan');
  equal([small.status, small.json.fits], [200, false]);
  ok(/does not fit/.test(small.json.reason), small.json.reason);
  const host = await ask(s, { gpus: 'none', ram_mib: 64000 }, '/api/plan');
  equal([host.json.fits, host.json.devices, host.json.host.n_layers], [true, [], 40]);
});

const evil = scratchFile('evil.svg');
const refused = [
  ['not JSON', '{', 400, /JSON/], ['not an object', '[]', 400, /object/],
  ['a card nobody knows', { gpus: 'RTX 9999' }, 400, /RTX 9999/],
  ['a card of two sizes', { gpus: 'RTX 5060 Ti' }, 400, /8 GB or 16 GB/],
  ['an option as a card', { gpus: `--svg=${evil}` }, 400, /unknown GPU/],
  ['an option as a type', { cache_type_k: '--help' }, 400, /unknown type/],
  ['a field nobody knows', { svg: evil }, 400, /unknown field 'svg'/],
  ['a field of serve', { engine_program: '/bin/sh' }, 400, /unknown field/],
  ['a negative context', { n_ctx: -1 }, 400, /non-negative integer/], ['half a token', { n_ctx: 1.5 }, 400, /non-negative integer/],
  ['a huge one', { n_ctx: 2 ** 40 }, 400, /integer/], ['a number as text', { gpus: 7 }, 400, /string/],
  ['nothing', { gpus: '' }, 400, /string/], ['a NUL', { gpus: 'RTX\u0000 3090' }, 400, /./],
  ['too long', { gpus: 'x'.repeat(1001) }, 400, /1 to 1000/],
  ['a path', { model: '../../../etc/passwd' }, 404, /not found/], ['an absolute path', { model: '/etc/passwd' }, 404, /not found/],
  ['a model that is a number', { model: 7 }, 400, /string/],
];
test('plans that cannot be made are refused with a sentence', async () => {
  const s = await serve();
  for (const [name, body, status, why] of refused) {
    const r = await ask(s, body, '/api/plan');
    equal(r.status, status, `${name}: ${r.text}`);
    ok(why.test(r.json.error.message), `${name}: ${r.json.error.message}`);
  }
  ok(!fs.existsSync(evil), 'no option came through');
});

test('models of --models-dir, and no other file', async () => {
  const dir = scratchFile('models');
  fs.mkdirSync(path.join(dir, 'org'), { recursive: true });
  execFileSync('cp', ['--sparse=always', model, path.join(dir, 'org', 'mine.gguf')]); // it is mostly a hole
  fs.symlinkSync(model, path.join(dir, 'link.gguf'));
  const s = await serve({ args: ['--models-dir', dir] });
  const list = (await s.get('/api/models')).json;
  equal(list.models.map((m) => m.id), ['link', 'org/mine']);
  equal([list.loaded, list.models_dir, list.models[0].bytes], ['m', true, fs.statSync(model).size]);
  for (const id of ['org/mine', 'org/mine.gguf', 'link']) {
    const r = await ask(s, { model: id, gpus: 'RTX 3090' }, '/api/plan');
    equal([r.status, r.json.model.n_layers], [200, 40], id);
  }
  for (const evil of ['org/../link.gguf', './org/mine.gguf', 'org/mine.gguf/..', model, 'ine', '/mine'])
    equal((await ask(s, { model: evil, gpus: 'RTX 3090' }, '/api/plan')).status, 404, evil);
  equal((await (await serve()).get('/api/models')).json.models, [], 'none without the option');
  const wrong = await serve({ args: ['--models-dir', '/nowhere'], ready: false });
  await wrong.ended;
  ok(/--models-dir: \/nowhere is not a directory/.test(wrong.text()), wrong.text());
});

test('models on the hub: from their headers, and only where the server may ask it', async () => {
  const file = scratchFile('tiny.gguf');
  execFileSync(path.join(build, 'tests', 'tiny-model'), [file, '--layers', '3']);
  const h = await hub({ 'org/Tiny-GGUF': { 'Tiny-Q4_K_M.gguf': file, 'Tiny-Q8_0.gguf': file } });
  const env = { ...h.env, HOME: scratchFile('home'), XDG_CACHE_HOME: '' };
  const s = await serve({ env });
  equal((await s.get('/api/models')).json.hub, true);
  const one = await ask(s, { model: 'hf:org/Tiny-GGUF:Q4_K_M', gpus: 'RTX 3090' }, '/api/plan');
  equal([one.status, one.json?.fits, one.json?.model.n_layers], [200, true, 3], one.text.slice(0, 300));
  const all = await ask(s, { model: 'hf:org/Tiny-GGUF', gpus: 'RTX 3090' }, '/api/plan');
  equal([all.json.repository, all.json.models.map((m) => m.id)], ['hf:org/Tiny-GGUF', ['Tiny-Q4_K_M', 'Tiny-Q8_0']], all.text.slice(0, 300));
  for (const [model, status, why] of [['hf:org/None-GGUF:Q8_0', 400, /None-GGUF/], ['hf:org/Tiny-GGUF:Q2_K', 400, /Q2_K/], [`hf:${'x'.repeat(1200)}`, 400, /bytes/], [`${h.url}/org/Tiny-GGUF/resolve/main/Tiny-Q8_0.gguf`, 404, /not found/]]) {
    const r = await ask(s, { model, gpus: 'RTX 3090' }, '/api/plan');
    equal(r.status, status, `${model.slice(0, 60)}: ${r.text}`);
    ok(why.test(r.json.error.message), r.text);
  }
  const n = h.seen.length, open = await serve({ env, args: ['--host', '0.0.0.0', '--no-api-key'] });
  equal((await ask(open, { model: 'hf:org/Tiny-GGUF:Q4_K_M' }, '/api/plan')).status, 403);
  equal([(await open.get('/api/models')).json.hub, h.seen.length], [false, n], 'nobody was asked');
  const told = await serve({ env, args: ['--host', '0.0.0.0', '--no-api-key', '--hub-plans'] });
  equal((await ask(told, { model: 'hf:org/Tiny-GGUF:Q4_K_M', gpus: 'RTX 3090' }, '/api/plan')).status, 200);
  h.close();
});

test('the table of cards', async () => {
  const s = await serve();
  const { gpus } = (await s.get('/api/gpus')).json;
  const card = gpus.find((g) => g.name === 'RTX 3090');
  equal([card.mib, card.bandwidth_gbs, card.backend], [24576, 936, 'CUDA']);
  ok(gpus.length > 100, `${gpus.length}`);
});

const plans = (s) => {
  try { return execFileSync('pgrep', ['-P', String(s.pid), '-fc', 'plan --json'], { encoding: 'utf8' }).trim() | 0; } catch { return 0; }
};
test('whoever goes away takes the plan along; too many at once hear so', async () => {
  const hold = scratchFile('hold'); // as long as it is there, no plan for this machine's cards is made
  const s = await serve({ env: { VRAM_LLM_NVML: path.resolve(process.env.VR_BUILD, 'tests/libnvml-stub.so'), VR_STUB_NVML_HOLD: hold } });
  fs.writeFileSync(hold, '');
  const body = JSON.stringify({ n_ctx: 0 });
  const asking = Array.from({ length: 40 }, () => connect(s.port));
  for (const c of asking) c.send(`POST /api/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await eventually('22 are refused', () => asking.filter((c) => c.text().startsWith('HTTP/1.1 503')).length === 22);
  ok(plans(s) > 0, 'two run, the others wait');
  for (const c of asking) c.close();
  await eventually('no plan is left', () => plans(s) === 0);
  fs.rmSync(hold);
  equal((await ask(s, { gpus: 'RTX 3090' }, '/api/plan')).status, 200, 'and it goes on');
});

test('live: history and log first, then a tick each second with tokens, slots and devices', async () => {
  const s = await serve();
  const c = connect(s.port);
  c.send('GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const pieces = () => [...c.text().matchAll(/event: (\w+)\ndata: (.*)\n\n/g)].map((m) => [m[1], JSON.parse(Buffer.from(m[2], 'latin1').toString())]);
  await c.until(() => pieces().length >= 1);
  const [kind, hello] = pieces()[0];
  equal(kind, 'hello');
  equal([hello.model, hello.engine.state], ['m', 'ready']);
  ok(hello.log.some((l) => /listening on/.test(l.msg)), 'the log so far');
  const answer = ask(s, { messages: [{ role: 'user', content: 'tokens=1000000 delay=10' }] });
  await c.until(() => pieces().some(([, e]) => e.rate.text_tok_s > 2 && e.requests.in_flight === 1 && e.engine.slots[0]?.state === 'text'));
  s.tell('end');
  await answer;
  await c.until(() => pieces().some(([, e]) => e.stream_tok_s > 1));
  await c.until(() => pieces().some(([, e]) => e.meter?.host.ram_total_bytes > 1e8));
  await c.until(() => pieces().filter(([k]) => k === 'tick').flatMap(([, e]) => e.log).filter((l) => /completions/.test(l.msg)).length === 1);
  c.close();
  await eventually('nobody looks', async () => (await s.get('/api/status')).json.connections === 1);
  const again = connect(s.port);
  again.send('GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await again.until(() => /event: hello/.test(again.text()));
  const { history } = JSON.parse(/event: hello\ndata: (.*)\n\n/.exec(again.text())[1]);
  ok(Math.max(...history.text_tok_s) > 2, 'a reload shows the last minutes');
  equal(history.text_tok_s.length, history.running.length);
});

test('live: the process that reads the devices runs only while somebody looks, and a dead one is replaced', async () => {
  const s = await serve({ env: { VRAM_LLM_NVML: path.resolve(process.env.VR_BUILD, 'tests/libnvml-stub.so') } });
  const meter = () => { try { return execFileSync('pgrep', ['-P', String(s.pid), '-f', 'meter-process'], { encoding: 'utf8' }).trim(); } catch { return ''; } };
  equal(meter(), '', 'nobody looks');
  const c = connect(s.port);
  c.send('GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await c.until(() => /"id":"CUDA2","name":"NVIDIA GeForce RTX 4080 Laptop GPU"/.test(c.text()));
  ok(/"load_percent":42/.test(c.text()), 'load');
  const first = meter();
  process.kill(Number(first), 'SIGKILL');
  await c.until(() => meter() && meter() !== first);
  c.close();
  await eventually('nobody looks any more', () => meter() === '');
});

test('live: a full house, a reader that does not read, and a stop', async () => {
  const s = await serve({ args: ['--stop-seconds', '86400'] });
  const house = Array.from({ length: 65 }, () => connect(s.port));
  for (const c of house) c.send('GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await Promise.all(house.map((c) => c.until(() => /HTTP\/1\.1 \d+/.test(c.text()))));
  equal(house.filter((c) => c.text().startsWith('HTTP/1.1 503')).length, 1, 'one too many');
  equal((await s.stop()).code, 0, 'listeners do not hold it up');
});

test('live: an engine that dies is told', async () => {
  const s = await serve();
  const c = connect(s.port);
  c.send('GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await c.until(() => /event: hello/.test(c.text()));
  await ask(s, { messages: [{ role: 'user', content: 'crash=2' }] });
  await c.until(() => /"starts":2/.test(c.text()));
  ok(/ended by signal 9|restarting/.test(c.text()), 'why');
  c.close();
});

test('other methods on these paths', async () => {
  const s = await serve();
  const r = await fetch(s.url + '/api/plan', { method: 'DELETE' });
  equal([r.status, r.headers.get('allow')], [405, 'GET, HEAD, POST, OPTIONS']);
  equal((await fetch(s.url + '/api/live', { method: 'HEAD' })).status, 200);
  equal((await fetch(s.url + '/', { method: 'POST' })).status, 405);
});

runAll('e2e page');

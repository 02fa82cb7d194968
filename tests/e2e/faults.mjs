// What goes wrong: engines that die, clients that leave or do not read, signals, full disks, no descriptors.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { ask, binary, build, chat, connect, equal, eventually, figure, now_us, ok, post, raw, runAll, scratchFile, serve, sleep, test } from './lib.mjs';

const user = (content) => [{ role: 'user', content }];
const stream = (s, content) => {
  const c = connect(s.port);
  c.send(post('/v1/chat/completions', chat(content, { stream: true })));
  return c;
};
const enginePid = async (s) => (await s.get('/api/status')).json.engine.pid;
// Its n-th engine is up.
const started = (s, n) => eventually(() => `start ${n}: ${s.text()}`, async () => {
  const { starts, state } = (await s.get('/api/status')).json.engine;
  return starts === n && state === 'ready';
});

test('kill -9 the engine while 50 streams run: each ends with an error event, the next request works', async () => {
  const s = await serve({ args: ['--max-queue', '100'], engine: { held: true, n_seq: 64 }, ready: false }); // each engine comes up when it is told
  s.tell('load 100');
  await s.until('ok');
  const fds = s.fds();
  for (let round = 0; round < 3; round++) {
    const all = Array.from({ length: 50 }, () => stream(s, 'tokens=100000 delay=5'));
    const whole = ask(s, { model: 'm', messages: user('tokens=100000 delay=5') });
    const waiting = ask(s, { model: 'm', messages: user('hang'), stream: true });
    await Promise.all(all.map((c) => c.until(() => c.text().includes('token3'))));
    const pid = await enginePid(s);
    const from = Date.now();
    process.kill(pid, 'SIGKILL');
    await Promise.all(all.map((c) => c.until(() => c.text().endsWith('0\r\n\r\n'))));
    if (round === 0) figure(`50 streams heard of the engine's death after ${Date.now() - from} ms`);
    for (const c of all) {
      const last = /data: (\{"error":.*\})\n\n/.exec(c.text());
      ok(last, 'an error event');
      const e = JSON.parse(last[1]).error;
      equal([e.type, e.code, e.param], ['server_error', 'engine_died', null]);
      ok(!c.text().includes('[DONE]'), 'no [DONE]');
    }
    for (const r of [await whole, await waiting]) {
      equal([r.status, r.json.error.code], [503, 'engine_died']);
      ok(Number(r.headers.get('retry-after')) <= 3, `Retry-After: ${r.headers.get('retry-after')}`);
    }
    const h = await s.get('/health');
    ok(['restarting', 'loading'].includes(h.json.status) && h.status === 503, JSON.stringify(h));
    equal((await ask(s, { model: 'm', messages: user('hi') })).status, 503, 'says so while it restarts');
    await s.until('loading');
    s.tell('load 100');
    await s.until('ok');
    equal((await ask(s, { model: 'm', messages: user('tokens=2') })).json.choices[0].message.content, 'token0 token1 ');
    ok(await enginePid(s) !== pid, 'a new engine');
    equal(all[0].closed, false, 'the connection is kept');
    all[0].send('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await all[0].until(() => all[0].text().endsWith('{"status":"ok"}\n'));
    all.forEach((c) => c.close());
  }
  await eventually('none in flight', async () => await s.metric('requests_in_flight') === 0);
  equal(await s.metric('engine_crashes_total'), 3);
  await eventually(() => `descriptors: ${fds} before, ${s.fds()} after`, () => s.fds() <= fds + 4);
  ok(/was ended by signal 9/.test(s.text()), 'the log says how');
});

test('restarts wait longer each time', async () => {
  const s = await serve();
  const waits = [];
  for (let i = 0; i < 3; i++) {
    const from = Date.now();
    process.kill(await enginePid(s), 'SIGKILL');
    await started(s, i + 2);
    waits.push(Date.now() - from);
  }
  const said = [...s.text().matchAll(/restart_in_ms=(\d+)/g)].map((m) => Number(m[1]));
  equal(said, [500, 1000, 2000]);
  ok(waits.every((ms, i) => ms >= said[i] * 0.9), `${waits}`);
});

test('an engine that speaks nonsense is replaced', async () => {
  const s = await serve();
  const c = stream(s, 'tokens=10 malformed_after=3 delay=2');
  await c.until(() => c.text().includes('engine_died'));
  await started(s, 2);
  equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
  ok(/a malformed frame/.test(s.text()), 'log');
});

test('an engine that dies while it loads: tried again, then one sentence', async () => {
  const count = scratchFile('count');
  const s = await serve({ engine: { count, starts: [{ crash: 11 }] } });
  equal((await s.get('/api/status')).json.engine.starts, 2, 'the second start worked');
  const never = await serve({ engine: { count: scratchFile('count'), starts: [{ crash: 11 }, { exit: 3 }, { crash: 6 }] }, ready: false });
  const { code } = await never.ended;
  const lines = never.text().trim().split('\n');
  ok(code > 0 && /3 times while loading/.test(lines.at(-1)), never.text());
});

test('a file that the engine refuses: the server ends with its sentence', async () => {
  const s = await serve({ engine: { starts: [{ failed: { message: 'm.gguf: unknown architecture' } }], count: scratchFile('c') }, ready: false });
  ok((await s.ended).code > 0 && /unknown architecture/.test(s.text().trim().split('\n').at(-1)), s.text());
});

// Three cards that only NVML knows, two RTX 3090 Ti and an RTX 4080 Laptop: the model fits on one of them.
const cards = { VRAM_LLM_NVML: path.resolve(build, 'tests', 'libnvml-stub.so') };
const GiB = 2 ** 30, free1 = 24111 * 2 ** 20;
const oom = (stage, left, device = 'CUDA0') => ({
  failed: { stage, out_of_memory: true, device, left: left === undefined ? [] : [{ name: device, free_bytes: left }], message: `out of memory at ${stage}` },
});
const learnedIn = (s) => JSON.parse(fs.readFileSync(path.join(s.state, 'vram-llm', 'learned.json'))).devices;

test('out of memory at each stage: less for that device, a new plan, and it is remembered by its UUID', async () => {
  const starts = [oom('load', 10 * GiB), oom('context', 0.5 * GiB), oom('decode')];
  const s = await serve({ env: cards, args: ['--split-mode', 'layer'], engine: { count: scratchFile('c'), starts } });
  const plans = s.seen().filter((e) => e.kind === 'LOAD').map((e) => JSON.parse(e.json));
  equal(plans.length, 4, 'loads');
  const status = (await s.get('/api/status')).json.engine;
  equal([status.starts, status.plans_again], [4, 3], 'starts and plans');
  ok(/out of memory at load; planning again with less for it/.test(s.text()), s.text());
  equal(plans.map((p) => p.devices.length), [1, 1, 2, 2], 'devices: one, the other one, both');
  const learned = learnedIn(s);
  const ids = Object.keys(learned);
  ok(ids.length >= 2 && ids.every((id) => id.startsWith('GPU-')), JSON.stringify(learned));
  const first = learned['GPU-22222222-aaaa-bbbb-cccc-000000000002'];
  const most = first.stage === 'load' ? free1 - 9 * GiB : free1; // the last one may have met it again
  ok(first.hidden_bytes > free1 - 10 * GiB && first.hidden_bytes < most && first.free_bytes === free1, JSON.stringify(first));
  equal(Object.values(learned).map((r) => r.stage).sort().includes('decode'), true, 'stages');
  const c = stream(s, 'tokens=50 delay=5 failed_after=5');
  await c.until(() => c.text().includes('engine_died'));
  ok(/CUDA0 is out of memory while decoding/.test(c.text()), 'the client hears why');
  await started(s, 5);
  equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
});

test('what was learned is used by the next start, and lowered by a load that shows more', async () => {
  const state = scratchFile('state'), file = path.join(state, 'vram-llm', 'learned.json');
  const id = 'GPU-22222222-aaaa-bbbb-cccc-000000000002', other = 'GPU-11111111-aaaa-bbbb-cccc-000000000001';
  const row = (hidden, days = 0) => ({ hidden_bytes: hidden, free_bytes: free1, stage: 'load', when: Math.floor(Date.now() / 1000) - days * 86400 });
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const start = async (devices, engine = {}, args = []) => {
    fs.writeFileSync(file, JSON.stringify({ devices }));
    const s = await serve({ env: { ...cards, XDG_STATE_HOME: state }, engine, args: ['--split-mode', 'layer', ...args] });
    const plan = (await s.get('/api/plan')).json;
    const visible = /CUDA_VISIBLE_DEVICES=([^\0]*)/.exec(fs.readFileSync(`/proc/${await enginePid(s)}/environ`, 'utf8'))?.[1];
    await s.stop();
    return { ids: plan.devices.map((d) => d.id), visible, learned: JSON.parse(fs.readFileSync(file)).devices };
  };
  let r = await start({});
  equal([r.ids, r.visible], [['CUDA1'], id], 'one card, and the engine sees no other');
  r = await start({ [id]: row(20 * GiB) });
  equal([r.ids, r.visible], [['CUDA0'], other], 'the other one');
  r = await start({ [id]: row(20 * GiB, 31) });
  equal(r.ids, ['CUDA1'], 'older than a month');
  const ready = (left) => ({ ready: { devices: [{ name: 'CUDA0', free_bytes: left }] } });
  r = await start({ [id]: row(4 * GiB) }, ready(free1 - 17 * GiB), ['--devices', '1']);
  equal([r.ids, r.learned[id].hidden_bytes < 2 * GiB], [['CUDA1'], true], JSON.stringify(r.learned));
  r = await start({ [id]: row(4 * GiB) }, ready(1 * GiB), ['--devices', '1']);
  equal(r.learned[id].hidden_bytes, 4 * GiB, 'a load that shows no more leaves it');
  fs.writeFileSync(file, JSON.stringify({ devices: { [id]: row(4 * GiB) } }));
  const doctor = execFileSync(binary, ['doctor'], { env: { ...process.env, ...cards, XDG_STATE_HOME: state }, encoding: 'utf8' });
  ok(/learned\s+CUDA1: 4\.00 GiB of the memory it reports as free cannot be allocated/.test(doctor) && doctor.includes(`rm ${file}`), doctor);
});

test('cards that GGML_CUDA_DEVICES shows several times: the engine sees each once, and counts as we do', async () => {
  const s = await serve({ env: { ...cards, GGML_CUDA_DEVICES: '5' }, args: ['--devices', '0,3,4', '--tensor-split', '1,1,1'] });
  const load = JSON.parse(s.seen().find((e) => e.kind === 'LOAD').json);
  equal(load.devices, ['CUDA0', 'CUDA3', 'CUDA4']);
  const visible = /CUDA_VISIBLE_DEVICES=([^\0]*)/.exec(fs.readFileSync(`/proc/${await enginePid(s)}/environ`, 'utf8'))?.[1];
  equal(visible.split(',').map((u) => u.slice(0, 9)), ['GPU-11111', 'GPU-22222', 'GPU-33333'], 'each card once');
});

test('an engine that always runs out of memory ends the server with its sentence', async () => {
  const s = await serve({ env: cards, engine: { starts: Array(20).fill(oom('load')), count: scratchFile('c') }, ready: false });
  equal((await s.ended).code, 4, s.text());
  ok(s.seen().filter((e) => e.kind === 'LOAD').length <= 13, 'bounded');
  ok(/out of memory at load/.test(s.text().trim().split('\n').at(-1)), s.text());
});

test('while a plan is made again, /health answers; SIGTERM does not wait for it', async () => {
  for (const stop of [false, true]) {
    const hold = scratchFile('hold'); // as long as it is there, no plan is made
    const s = await serve({ env: { ...cards, VR_STUB_NVML_HOLD: hold }, engine: { held: true, count: scratchFile('c'), starts: [oom('load', 10 * GiB)] }, ready: false });
    fs.writeFileSync(hold, '');
    s.tell('load 100');
    await s.until('restarting');
    for (let i = 0; i < 50; i++) {
      const h = await s.get('/health');
      equal(h.json.status, 'restarting');
      ok(/out of memory/.test(h.json.reason), JSON.stringify(h.json));
    }
    if (stop) {
      equal((await s.stop()).code, 0, 'SIGTERM meanwhile');
      continue;
    }
    fs.rmSync(hold);
    await s.until('loading');
    s.tell('load 100');
    await s.until('ok');
  }
});

// Split mode tensor, in which the engine crashes with some models: whole layers next, remembered for this model, engine and machine.
const tensor = ['--split-mode', 'tensor'];
// Signals end it as they would without the sanitizers, whose handlers make an exit of them.
const dies = { ...cards, ASAN_OPTIONS: [process.env.ASAN_OPTIONS, 'handle_segv=0', 'handle_sigfpe=0', 'handle_abort=0'].filter(Boolean).join(':') };
const splitsIn = (s) => JSON.parse(fs.readFileSync(path.join(s.state, 'vram-llm', 'learned.json'))).splits;
const modes = (s) => s.seen().filter((e) => e.kind === 'LOAD').map((e) => JSON.parse(e.json).split_mode);

test('split mode tensor that ends the engine while it loads leads to whole layers, and is remembered', async () => {
  for (const [how, why] of [[{ crash: 8 }, /signal 8/], [{ failed: { stage: 'load', aborted: true, message: 'the engine broke off: GGML_ASSERT(false) failed' } }, /GGML_ASSERT/]]) {
    const s = await serve({ env: dies, args: tensor, engine: { tensor: how } });
    equal(modes(s), ['tensor', 'layer'], 'loads');
    const { json } = await s.get('/api/plan');
    equal([json.split_mode, json.reasons[0].kind], ['layer', 'tensor_died'], s.text());
    ok(/in split mode tensor; planning again with whole layers/.test(s.text()), s.text());
    const [row, ...more] = splitsIn(s);
    ok(more.length === 0 && why.test(row.why) && /devstral/i.test(row.model) && /^[0-9a-f]{16}$/.test(row.id), JSON.stringify(row));
    await s.stop();
    const env = { ...process.env, ...cards, XDG_STATE_HOME: s.state };
    const doctor = execFileSync(binary, ['doctor'], { env, encoding: 'utf8' });
    ok(/learned\s+.*split mode tensor made engine \S+ crash/.test(doctor) && why.test(doctor), doctor);
    const again = await serve({ env: { ...cards, XDG_STATE_HOME: s.state }, args: tensor });
    equal(modes(again), ['tensor'], 'who asks for it gets it');
  }
});

test('split mode tensor that ends the engine at work leads to whole layers; other ends do not', async () => {
  const s = await serve({ env: dies, args: tensor });
  process.kill(await enginePid(s), 'SIGKILL');
  await started(s, 2);
  equal(modes(s), ['tensor', 'tensor'], 'somebody killed it: the same again');
  process.kill(await enginePid(s), 'SIGSEGV');
  await started(s, 3);
  equal(modes(s), ['tensor', 'tensor', 'layer']);
  equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
  process.kill(await enginePid(s), 'SIGSEGV');
  await started(s, 4);
  equal([modes(s).at(-1), splitsIn(s).length], ['layer', 1], 'layers are blamed for nothing');
  const hangs = await serve({ env: cards, args: [...tensor, '--silent-seconds', '1'] });
  const c = stream(hangs, 'stuck');
  await started(hangs, 2);
  equal(modes(hangs), ['tensor', 'layer'], 'one that hangs: ' + hangs.text());
  c.close();
});

test('a file of what was learned that is broken is named', async () => {
  const state = scratchFile('state');
  fs.mkdirSync(path.join(state, 'vram-llm'), { recursive: true });
  fs.writeFileSync(path.join(state, 'vram-llm', 'learned.json'), 'nonsense');
  const s = await serve({ env: { XDG_STATE_HOME: state } });
  ok(/learned\.json is corrupt; delete it/.test(s.text()), s.text());
});

test('a client that leaves is cancelled at once, at every phase, while the server is polled', async () => {
  const s = await serve({ args: ['--max-queue', '500'] });
  let polling = true;
  const poll = (async () => { while (polling) { await s.get('/health'); await s.get('/api/status'); } })();
  const phases = { // what is asked, streamed or not, and what the engine must have done before the client leaves
    'in the queue': ['hang', true, 'REQUEST'],
    'in the queue, whole answer': ['hang', false, 'REQUEST'],
    'in the prompt': ['stall', true, 'BEGIN'],
    'in the prompt, whole answer': ['stall', false, 'BEGIN'],
    'in the text': ['tokens=100000 delay=10', true, 'TEXT'],
    'in the text, fast': ['tokens=10000000', true, 'TEXT'],
    'in a whole text': ['tokens=100000 delay=10', false, 'TEXT'],
  };
  const silent = stream(s, 'hang'), since = Date.now(), left = {};
  const written = silent.until(() => silent.text().includes(': still here')).then(() => Date.now() - since);
  for (const [name, [content, streamed, reached]] of Object.entries(phases))
    for (const how of ['FIN', 'RST'])
      for (let i = 0; i < 5; i++) {
        const [there, cancels] = [s.count(reached), s.count('CANCEL')];
        const c = connect(s.port);
        c.send(post('/v1/chat/completions', chat(content, { stream: streamed })));
        await eventually(`${name}, ${how}: reached`, () => s.count(reached) > there);
        const from = now_us();
        if (how === 'FIN') c.socket.destroy(); else c.socket.resetAndDestroy();
        await eventually(`${name}, ${how}: cancelled`, () => s.count('CANCEL') > cancels);
        (left[`${name}, ${how}`] ??= []).push((s.seen().findLast((e) => e.kind === 'CANCEL').us - from) / 1000);
      }
  // "at once" is long before a silent stream is written to, which would find it out as well
  const silence = await written;
  polling = false;
  await poll;
  for (const [what, all] of Object.entries(left)) {
    const middle = all.sort((x, y) => x - y)[all.length >> 1];
    ok(middle < silence / 10, `${what}: cancelled after ${middle} ms, a silent stream is written to after ${silence}`);
  }
  figure(`cancelled after ${Math.max(...Object.values(left).flat()).toFixed(1)} ms at most, 5 times at 7 phases, FIN and RST, polled`);
  silent.close();
  await eventually('none in flight', async () => await s.metric('requests_in_flight') === 0);
  const share = await s.idleShare();
  ok(share < 0.5, `idle for a second it used ${share.toFixed(2)} of what 500 requests take`);
});

test('a client that leaves while it sends costs nothing', async () => {
  const s = await serve();
  for (const part of ['', 'POST ', 'POST /v1/chat/completions HTTP/1.1\r\nHost: loc', 'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"mes'])
    for (const how of ['end', 'destroy', 'resetAndDestroy']) {
      const c = connect(s.port);
      await new Promise((done) => c.socket.on('connect', done));
      if (part) c.send(part);
      await sleep(10);
      c.socket[how]();
    }
  await eventually('only this one is connected', async () => await s.metric('connections') === 1);
  equal(s.count('REQUEST'), 0);
  const half = await raw(s.port, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n', { end: true });
  equal(half.statuses, [200], 'one that said all it had to say still hears the answer');
});

test('a reader that does not read is bounded and dropped, others do not notice', async () => {
  const s = await serve({ args: ['--stall-seconds', '2'], engine: { n_seq: 16 } });
  const before = s.rss();
  const idle = Array.from({ length: 5 }, () => {
    const c = connect(s.port, { paused: true });
    c.socket.pause();
    c.send(post('/v1/chat/completions', chat('tokens=100000000 size=1000', { stream: true })));
    return c;
  });
  const good = stream(s, 'tokens=200 delay=10');
  let most = 0;
  const from = Date.now();
  await eventually('dropped', async () => { most = Math.max(most, s.rss()); return await s.metric('stalled_total') === 5; });
  figure(`5 zero-window readers: dropped after ${Date.now() - from} ms, the front grew by ${((most - before) / 2 ** 20).toFixed(1)} MiB at most`);
  ok(most - before < 64 << 20, `grew by ${most - before}`);
  await eventually('cancelled', () => s.count('CANCEL') === 5);
  await good.until(() => good.text().includes('[DONE]'));
  equal((good.text().match(/token\d+/g) ?? []).length, 200);
  idle.forEach((c) => c.close());
  const slow = connect(s.port, { paused: true });
  slow.socket.pause();
  const sent = Date.now();
  slow.send(post('/v1/chat/completions', chat('tokens=1000000 size=500 delay=1', { stream: true })));
  await eventually('stuck', async () => await s.metric('output_waiting_bytes') > 0);
  await eventually('dropped', async () => await s.metric('stalled_total') === 6);
  ok(Date.now() - sent > 1900, 'not before --stall-seconds 2');
  slow.close();
});

test('SIGTERM: streams finish, new ones are refused, the exit is clean', async () => {
  const s = await serve({ args: ['--stop-seconds', '600'] });
  const c = stream(s, 'tokens=40 held'), idle = connect(s.port), keep = connect(s.port);
  keep.send(post('/v1/chat/completions', chat('tokens=40 held')));
  await eventually('both are there', () => s.count('REQUEST') === 2);
  s.tell('tokens 4');
  await c.until(() => c.text().includes('token3'));
  s.kill('SIGTERM');
  await idle.until(() => idle.closed);
  ok((await fetch(s.url + '/health').catch((e) => e)) instanceof Error, 'nobody listens');
  s.tell('tokens');
  await c.until(() => c.text().includes('[DONE]') && c.closed);
  equal((c.text().match(/token\d+/g) ?? []).length, 40, 'all tokens');
  await keep.until(() => keep.text().includes('"finish_reason":"stop"') && keep.closed);
  ok(/Connection: close/.test(keep.text()), 'the connection ends');
  equal(await s.ended, { code: 0, signal: null });
  ok(/stopped$/.test(s.text().trim()), 'last line');
});

test('SIGTERM: after --stop-seconds what still runs ends with an error event', async () => {
  const s = await serve({ args: ['--stop-seconds', '1'] });
  const c = stream(s, 'tokens=100000 delay=20');
  await c.until(() => c.text().includes('token3'));
  const from = Date.now();
  s.kill('SIGTERM');
  await c.until(() => c.closed);
  const e = /data: (\{"error":.*\})\n\n/.exec(c.text());
  ok(e && JSON.parse(e[1]).error.code === 'stopped', c.text().slice(-300));
  equal(await s.ended, { code: 0, signal: null });
  ok(Date.now() - from > 900, `${Date.now() - from} ms`);
});

test('a second signal ends it at once; the engine does not outlive it; a killed front takes it along', async () => {
  for (const signals of [['SIGTERM', 'SIGTERM'], ['SIGINT', 'SIGINT'], ['SIGKILL']]) {
    const s = await serve({ args: ['--stop-seconds', '86400'], engine: { deaf: true } }); // one that waits would wait for a day
    const c = stream(s, 'tokens=100000 delay=20'), idle = connect(s.port);
    await c.until(() => c.text().includes('token3'));
    const pid = await enginePid(s);
    s.kill(signals[0]);
    await idle.until(() => idle.closed); // it heard of the first
    if (signals[1]) s.kill(signals[1]);
    equal((await s.ended).signal, signals.at(-1));
    await eventually('the engine is gone', () => { try { return /State:\s+Z/.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')); } catch { return true; } });
  }
});

test('Ctrl-C at a terminal reaches the whole group: the front alone acts on it', async () => {
  const s = await serve({ args: ['--stop-seconds', '600'], detached: true });
  const c = stream(s, 'tokens=30 held'), idle = connect(s.port);
  s.tell('tokens 4');
  await c.until(() => c.text().includes('token3'));
  process.kill(-s.pid, 'SIGINT');
  await idle.until(() => idle.closed);
  s.tell('tokens');
  await c.until(() => c.text().includes('[DONE]') && c.closed);
  equal((c.text().match(/token\d+/g) ?? []).length, 30, 'all tokens');
  equal(await s.ended, { code: 0, signal: null });
});

test('SIGTERM while loading ends at once', async () => {
  const s = await serve({ engine: { held: true }, ready: false });
  s.tell('load 30');
  await eventually('it loads', async () => (await s.get('/health')).json.percent === 30);
  equal((await s.stop()).code, 0); // the engine would load for ever
});

test('SIGHUP: the log is opened again, keys and certificate are read again, streams go on', async () => {
  const keys = scratchFile('keys'), log = scratchFile('log'), cert = scratchFile('cert.pem'), key = scratchFile('key.pem');
  const certify = (cn) => execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', `/CN=${cn}`], { stdio: 'ignore' });
  const write = (text) => fs.writeFileSync(keys, text, { mode: 0o600 });
  certify('first');
  write('secret-key-one\n');
  const s = await serve({ args: ['--api-key-file', keys, '--log-file', log, '--tls-cert', cert, '--tls-key', key], stderr: scratchFile('stderr'), ready: false });
  const ask = (k, { path: where = '/v1/models', body, onData } = {}) => new Promise((done, fail) => {
    const r = https.request({ host: '127.0.0.1', port: s.port, path: where, method: body ? 'POST' : 'GET', rejectUnauthorized: false, agent: false, headers: { authorization: `Bearer ${k}`, host: 'localhost' } }, (res) => {
      const cn = res.socket.getPeerCertificate().subject?.CN;
      let text = '';
      res.setEncoding('utf8').on('data', (d) => { text += d; onData?.(text); }).on('end', () => done({ status: res.statusCode, cn, text }));
    });
    r.on('error', fail).end(body);
  });
  await eventually('up', async () => (await ask('', { path: '/health' }).catch(() => ({}))).status === 200);
  equal([await ask('secret-key-one'), await ask('secret-key-two')].map((r) => [r.status, r.cn]), [[200, 'first'], [401, 'first']], 'before');
  let begun;
  const seen = new Promise((done) => { begun = done; });
  const streaming = ask('secret-key-one', { path: '/v1/chat/completions', body: chat('tokens=60 held', { stream: true }), onData: (t) => t.includes('token3') && begun() });
  s.tell('tokens 4');
  await seen;
  fs.renameSync(log, log + '.1');
  certify('second');
  write('secret-key-two\n');
  s.kill('SIGHUP');
  const logged = (what) => eventually(() => `${what} in the log`, () => fs.existsSync(log) && what.test(fs.readFileSync(log, 'utf8')));
  await logged(/reloaded API keys and the certificate/);
  equal([await ask('secret-key-one'), await ask('secret-key-two')].map((r) => [r.status, r.cn]), [[401, 'second'], [200, 'second']], 'after');
  s.tell('tokens');
  ok((await streaming).text.includes('[DONE]'), 'the stream ended well');
  ok(/listening/.test(fs.readFileSync(log + '.1', 'utf8')), 'both logs');
  fs.writeFileSync(key, 'nonsense');
  write('tiny\n');
  s.kill('SIGHUP');
  await logged(/shorter than 8 characters.*are unchanged/);
  equal((await ask('secret-key-two')).status, 200, 'what cannot be read changes nothing');
  equal((await s.stop()).code, 0);
});

test('a log that cannot be written is counted, not waited for', async () => {
  const s = await serve({ stderr: '/dev/full' });
  for (let i = 0; i < 20; i++) equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
  ok(await s.metric('log_lines_dropped_total') >= 20, 'counted');
  equal((await s.stop()).code, 0);
});

test('no descriptors left: those who are connected are served, others wait, nothing spins', async () => {
  const s = await serve({ limit_fds: 40 });
  const first = connect(s.port);
  first.send('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await first.until(() => first.text().includes('200 OK'));
  const all = Array.from({ length: 100 }, () => connect(s.port));
  await eventually(() => `it says so: ${s.text()}`, () => /cannot accept a connection: Too many open files/.test(s.text()));
  const cpu = async () => { // of a connection that is there
    const n = first.data.length;
    first.send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    return Number((await first.until(() => /^vram_llm_cpu_seconds_total (.*)$/m.exec(first.data.subarray(n).toString())))[1]);
  };
  const from = await cpu();
  await sleep(1000);
  const waiting = await cpu() - from, then = await cpu();
  for (let i = 0; i < 200; i++) await cpu();
  const asked = await cpu() - then;
  ok(waiting < asked, `a second without room took ${waiting} s of CPU, 200 requests ${asked} s`);
  first.send(post('/v1/chat/completions', chat('tokens=3')));
  await first.until(() => first.text().includes('token2'));
  all.forEach((c) => c.close());
  equal((await s.get('/health')).status, 200, 'room again');
});

test('too many connections hear so', async () => {
  const s = await serve({ args: ['--max-connections', '20'] });
  const all = Array.from({ length: 20 }, () => connect(s.port));
  await Promise.all(all.map((c) => new Promise((done) => c.socket.on('connect', done)))); // and are accepted in their order
  const r = await raw(s.port, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
  equal(r.statuses, [503]);
  ok(/too_many_connections/.test(r.text) && /Retry-After/.test(r.text), r.text);
  const flood = Array.from({ length: 200 }, () => connect(s.port));
  await eventually('most are closed', () => flood.filter((c) => c.closed).length > 100);
  [...all, ...flood].forEach((c) => c.close());
  await eventually('room', async () => (await s.get('/health').catch(() => ({}))).status === 200);
});

test('an engine that says nothing while it has work is replaced', async () => {
  const s = await serve({ args: ['--silent-seconds', '2'] });
  const c = stream(s, 'tokens=100000 delay=20');
  await c.until(() => c.text().includes('token3'));
  const pid = await enginePid(s);
  process.kill(pid, 'SIGSTOP');
  await c.until(() => c.text().includes('engine_died'));
  await started(s, 2);
  equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
});

// Its other threads answer, other streams even get their text: what counts is that something is computed.
test('an engine that speaks and computes nothing is replaced', async () => {
  const s = await serve({ args: ['--silent-seconds', '2'] });
  const other = stream(s, 'tokens=100000 delay=20');
  await other.until(() => other.text().includes('token3'));
  equal((await s.get('/health')).status, 200);
  const stuck = stream(s, 'stuck');
  await other.until(() => other.text().includes('engine_died'));
  await started(s, 2);
  equal((await ask(s, { model: 'm', messages: user('tokens=1') })).status, 200);
  stuck.close();
});

runAll('e2e faults');

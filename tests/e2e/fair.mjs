// Fair shares between clients: connections, memory for bodies, places in the queue, turns; large bodies off the loop; descriptors.
// Addresses of 127.0.0.0/8 are clients of their own; nothing here is timed, but for bodies that stop coming.
import fs from 'node:fs';
import { ask, chat, connect, equal, eventually, figure, ok, post, runAll, scratchFile, serve, sleep, test } from './lib.mjs';

const polite = '127.0.0.1', greedy = '127.0.0.2', others = ['127.0.0.2', '127.0.0.3', '127.0.0.4'];
const get = (path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
const status = (c) => Number(/^HTTP\/1\.1 (\d+)/.exec(c.text())?.[1]);
const opened = (c) => new Promise((done) => c.socket.on('connect', done));
const answered = (c) => c.until(() => c.closed || /^HTTP\/1\.1 [2-5]\d\d[^]*\r\n\r\n[^]*\}\n?/.test(c.text()));
const head = (n) => `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${n}\r\n\r\n`;
function send(s, from, content, more = {}, headers = '') {
  const c = connect(s.port, { from });
  c.send(post('/v1/chat/completions', chat(content, more), headers));
  return c;
}
// What the engine was given, in order: the content of each request.
const given = (s) => s.seen().filter((e) => e.kind === 'REQUEST').map((e) => JSON.parse(e.json).messages[0].content);

// --- connections ---

test('one address with all connections does not lock others out; its busy ones are kept', async () => {
  const s = await serve({ args: ['--max-connections', '20', '--header-seconds', '600', '--idle-seconds', '600'], engine: { n_seq: 8 } });
  const streams = Array.from({ length: 3 }, () => send(s, greedy, 'stall', { stream: true }));
  await Promise.all(streams.map((c) => c.until(() => c.text().includes('200 OK'))));
  const idle = Array.from({ length: 17 }, () => connect(s.port, { from: greedy }));
  await Promise.all(idle.map(opened));
  for (let i = 0; i < 5; i++) {
    const c = connect(s.port, { from: polite });
    c.send(get('/health'));
    await answered(c);
    equal(status(c), 200, `newcomer ${i}`);
  }
  await eventually(() => `closed: ${idle.filter((c) => c.closed).length}`, () => idle.filter((c) => c.closed).length === 5);
  equal(idle.findIndex((c) => !c.closed), 5, 'the oldest are closed');
  ok(streams.every((c) => !c.closed), 'streams are kept');
  const more = connect(s.port, { from: greedy });
  more.send(get('/health'));
  await answered(more);
  equal(status(more), 503, 'its own newcomer hears that there are too many');
  ok(/too_many_connections/.test(more.text()), more.text());
  idle[10].send(get('/health'));
  await answered(idle[10]);
  equal(status(idle[10]), 200, 'those that are there are served while it is full');
});

// --- bodies ---

// JSON that takes long to read: many small values.
const heavy = (n, value = 0) => JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'tokens=1' }], tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', enum: Array(n).fill(value) } } }], tool_choice: 'none' });

test('bodies that stop, or crawl, are ended with 408', async () => {
  const s = await serve({ args: ['--body-seconds', '1'] });
  const silent = connect(s.port), never = connect(s.port), crawl = connect(s.port);
  silent.send(head(1e6) + 'x'.repeat(500000));
  never.send(head(100));
  crawl.send(head(1e6));
  const drip = setInterval(() => !crawl.closed && crawl.send('x'), 20);
  for (const c of [silent, never, crawl]) {
    await answered(c);
    equal(status(c), 408, c.text());
  }
  clearInterval(drip);
  await eventually('no body is held', async () => await s.metric('body_bytes') === 0);
});

test('memory for bodies is shared: whoever holds the most gives way to others, by its slowest', async () => {
  const s = await serve({ args: ['--max-memory-mib', '4', '--max-body-mib', '1', '--body-seconds', '600'] });
  const almost = 'x'.repeat((1 << 20) - 100);
  const hold = async (from) => {
    const c = connect(s.port, { from }), before = await s.metric('body_bytes');
    c.send(head(1 << 20) + almost);
    await eventually('it is held, or refused', async () => status(c) || await s.metric('body_bytes') > before + almost.length - 1);
    return c;
  };
  const all = [];
  for (let i = 0; i < 4; i++) all.push(await hold(greedy));
  ok(all.every((c) => !status(c)), 'four fit');
  const own = await hold(greedy);
  equal(status(own), 503, 'a fifth of the same client does not');
  all[0].send('y'); // not the slowest any more: the others said nothing since
  const large = chat(`tokens=1 ${'z'.repeat(200000)}`);
  for (let i = 0; i < 3; i++) {
    const c = connect(s.port, { from: polite });
    c.send(head(large.length) + large);
    await answered(c);
    equal(status(c), 200, `polite ${i}: ${c.text().slice(0, 200)}`);
  }
  equal(all.filter((c) => status(c) === 503).length, 1, 'one body made room for all three');
  equal(await s.metric('displaced_total'), 1);
  all.forEach((c) => c.close());
  await eventually('nothing is held', async () => await s.metric('body_bytes') === 0);
});

test('memory that waiting requests hold is shared the same way, whether they wait for a thread or for the engine', async () => {
  const s = await serve({ args: ['--max-memory-mib', '2', '--max-body-mib', '1', '--max-queue', '100'], engine: { n_seq: 1 } });
  const large = (name) => chat(`hang ${name} ${'z'.repeat(600000)}`), all = [];
  const queue = async (from, name, n) => {
    all.push(connect(s.port, { from }));
    all.at(-1).send(head(large(name).length) + large(name));
    await eventually(`${name} is there`, async () => await s.metric('requests_in_flight') === n);
  };
  for (let i = 0; i < 5; i++) await queue(greedy, `g${i}`, i + 1); // two are sent, three wait
  ok(await s.metric('body_bytes') > 1.7e6, 'they hold what there is');
  all.push(connect(s.port, { from: polite }));
  all.at(-1).send(head(large('p').length) + large('p'));
  await answered(all[4]);
  await eventually('the polite one waits', async () => await s.metric('requests_in_flight') === 5);
  equal(all.map(status), [NaN, NaN, NaN, NaN, 429, NaN], 'the newest of the greedy one made room');
  equal(await s.metric('displaced_total'), 1);
  all.forEach((c) => c.close());
  await eventually('nothing is held', async () => await s.metric('body_bytes') === 0);
  // bodies that are complete: nobody who is polite is refused while threads read those of the other
  const many = Array.from({ length: 12 }, () => connect(s.port, { from: greedy })), body = heavy(250000);
  many.forEach((c) => c.send(head(body.length) + body));
  await eventually('it is full', async () => await s.metric('body_bytes') > 1e6);
  for (let i = 0; i < 5; i++) {
    const c = connect(s.port, { from: polite }), text = chat(`tokens=1 ${'y'.repeat(70000)}`);
    c.send(head(text.length) + text);
    await answered(c);
    equal(status(c), 200, c.text().slice(0, 200));
  }
  await Promise.all(many.map(answered));
});

test('what is answered whole is held up to a limit, all choices together', async () => {
  const s = await serve();
  const large = { messages: [{ role: 'user', content: 'tokens=90 size=250000' }], max_tokens: 90 };
  const r = await ask(s, { ...large, n: 3 });
  equal([r.status, r.json.error.code], [400, 'answer_too_large'], r.text.slice(0, 200));
  await eventually('it is over', async () => await s.metric('requests_in_flight') === 0);
  ok(s.count('CANCEL') === 1, 'the engine goes on with it');
  equal((await ask(s, { ...large, n: 1 })).status, 200);
});

test('a body that is not for the model must be small', async () => {
  const s = await serve();
  equal((await ask(s, { gpus: 'x'.repeat(70000) }, '/api/plan')).status, 413);
});

// --- large bodies ---

test('while large bodies are read, others are answered', async () => {
  const s = await serve();
  const body = heavy(950000, 'abcdefghijkl'), c = connect(s.port, { from: greedy }), probe = connect(s.port);
  c.send(head(body.length));
  c.send(body.slice(0, -1));
  await eventually('all but a byte is there', async () => await s.metric('body_bytes') === body.length - 1);
  let n = 0;
  c.send(body.slice(-1));
  for (; !status(c); n++) {
    probe.send(get('/health'));
    await probe.until(() => probe.text().split('"status":"ok"').length === n + 2);
  }
  figure(`${n} times /health while ${(body.length / 1e6).toFixed(1)} MB were read`);
  ok(n >= 3, `answered ${n} times`); // on the loop: once or twice, before and after
  await answered(c);
  ok([200, 400].includes(status(c)), c.text().slice(0, 300));
});

test('large bodies: round-robin between clients, and gone with those who leave', async () => {
  const s = await serve({ engine: { n_seq: 64 } });
  const body = heavy(150000);
  const sendLarge = (from) => { const c = connect(s.port, { from }); c.send(head(body.length) + body); return c; };
  const many = Array.from({ length: 12 }, () => sendLarge(greedy));
  await eventually('they are there', async () => await s.metric('body_bytes') > body.length * 6);
  const one = sendLarge(polite);
  await answered(one);
  const done = many.filter(status).length;
  figure(`the polite one's body was read when ${done} of 12 of the other's were`);
  ok(done < 12, `${done} before it`);
  await Promise.all(many.map(answered));
  equal(many.map(status), many.map(() => status(one)), 'all answered');
  const before = s.count('REQUEST'), leaving = Array.from({ length: 6 }, () => sendLarge(greedy));
  await eventually('some are there', async () => await s.metric('body_bytes') > body.length);
  leaving.forEach((c) => c.close());
  await eventually('nothing is held', async () => await s.metric('body_bytes') === 0 && await s.metric('connections') <= 20);
  await eventually('nothing in flight', async () => await s.metric('requests_in_flight') === 0);
  ok(s.count('REQUEST') - before <= 6, 'no more than were sent');
  equal((await ask(s, chat('tokens=1'))).status, 200);
});

test('SIGTERM while large bodies are read ends it cleanly', async () => {
  const s = await serve();
  const body = heavy(300000);
  const all = Array.from({ length: 5 }, () => { const c = connect(s.port); c.send(head(body.length) + body); return c; });
  await eventually('some are there', async () => await s.metric('body_bytes') > body.length);
  equal((await s.stop()).code, 0);
  all.forEach((c) => c.close());
});

// --- the queue ---

test('turns go round between clients, first come first served within one', async () => {
  const s = await serve({ engine: { n_seq: 1 } });
  const first = send(s, greedy, 'held tokens=1 first');
  await eventually('it runs', () => s.count('REQUEST') === 1);
  const all = [first];
  const queue = async (from, name) => {
    const before = await s.metric('requests_in_flight');
    all.push(send(s, from, `held tokens=1 ${name}`));
    await eventually(`${name} is there`, async () => await s.metric('requests_in_flight') === before + 1);
  };
  for (let i = 0; i < 5; i++) await queue(greedy, `a${i}`);
  for (let i = 0; i < 3; i++) await queue('127.0.0.3', `b${i}`);
  await queue(polite, 'p');
  s.tell('tokens');
  await Promise.all(all.map(answered));
  equal(given(s).map((c) => c.split(' ').at(-1)), ['first', 'a0', 'b0', 'p', 'a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
  equal(all.map(status), all.map(() => 200));
});

test('a request with n choices takes n turns', async () => {
  const s = await serve({ engine: { n_seq: 1 } });
  const all = [send(s, '127.0.0.9', 'held tokens=1 first')];
  await eventually('it runs', () => s.count('REQUEST') === 1);
  const queue = async (from, name, n) => {
    const before = await s.metric('requests_in_flight');
    all.push(send(s, from, `held tokens=1 ${name}`, { n }));
    await eventually(`${name} is there`, async () => await s.metric('requests_in_flight') === before + 1);
  };
  await queue('127.0.0.9', 'next', 1);
  for (let i = 0; i < 2; i++) await queue(greedy, `a${i}`, 4);
  for (let i = 0; i < 6; i++) await queue(polite, `p${i}`, 1);
  s.tell('tokens');
  await Promise.all(all.map(answered));
  const order = given(s).map((c) => c.split(' ').at(-1)).slice(2);
  ok(order.indexOf('a1') - order.indexOf('a0') >= 4, order.join(' '));
});

test('a full queue: a polite client takes the place of the newest of the greediest, who hears 429', async () => {
  const s = await serve({ args: ['--max-queue', '8'], engine: { n_seq: 2 } });
  const all = [];
  for (let i = 0; i < 10; i++) {
    all.push(send(s, greedy, `hang g${i}`));
    await eventually('there', async () => await s.metric('requests_in_flight') === i + 1);
  }
  const more = send(s, greedy, 'hang more');
  await answered(more);
  equal(status(more), 429, 'its own newcomer');
  const p = send(s, polite, 'hang polite');
  await answered(all[9]);
  equal(status(all[9]), 429);
  ok(/"code":"queue_full"/.test(all[9].text()) && /Retry-After: \d/.test(all[9].text()), all[9].text());
  equal([await s.metric('requests_in_flight'), await s.metric('displaced_total'), status(p)], [10, 1, NaN]);
  all[0].close(); // the engine has g0, g1 and g2: its next is whose turn it is
  await eventually('the polite one is next', () => given(s).at(-1) === 'hang polite' && s.count('CANCEL') === 1);
  // one that waits and leaves is forgotten, and the engine never heard of it
  const [requests, cancels] = [s.count('REQUEST'), s.count('CANCEL')];
  all[8].close();
  await eventually('gone', async () => await s.metric('requests_in_flight') === 8);
  equal([s.count('REQUEST'), s.count('CANCEL')], [requests, cancels]);
  equal((await s.get('/api/status')).json.requests.waiting, 5);
});

test('60 greedy connections and a polite one: it is never refused, and is served among few others', async () => {
  const s = await serve({ args: ['--max-queue', '24'], engine: { n_seq: 4 } });
  let on = true, refused = 0, served = 0;
  const run = async (i) => {
    while (on) {
      const c = send(s, others[i % others.length], 'tokens=2 delay=2 greedy');
      await answered(c);
      if (status(c) === 429) { refused++; await sleep(5); } else served++;
      c.close();
    }
  };
  const all = Array.from({ length: 60 }, (_, i) => run(i));
  await eventually('the queue is full', () => refused > 20);
  const statuses = [];
  for (let i = 0; i < 40; i++) {
    const c = send(s, polite, 'tokens=2 delay=2 polite');
    await answered(c);
    statuses.push(status(c));
    c.close();
  }
  on = false;
  equal(statuses, Array(40).fill(200), 'the polite one');
  await Promise.all(all);
  figure(`40 of 40 polite requests served among ${served} of 60 greedy connections, who were refused ${refused} times`);
});

test('keys are clients and tenants, and stay so when the file is read again', async () => {
  const file = scratchFile('keys'), key = (k) => `Authorization: Bearer secret-key-${k}\r\n`;
  const write = (...names) => fs.writeFileSync(file, names.map((n) => `secret-key-${n}\n`).join(''), { mode: 0o600 });
  const log = scratchFile('log');
  write('one', 'two');
  const s = await serve({ args: ['--api-key-file', file, '--max-queue', '2', '--log-file', log], engine: { n_seq: 1 } });
  const all = [];
  for (let i = 0; i < 3; i++) {
    all.push(send(s, polite, `hang g${i}`, {}, key('one')));
    await eventually('there', () => s.count('REQUEST') >= Math.min(i + 1, 2));
  }
  const other = send(s, polite, 'hang other', {}, key('two'));
  await eventually('one made room', () => all.some((c) => status(c) === 429));
  all[0].close();
  const tenants = () => s.seen().filter((e) => e.kind === 'REQUEST').map((e) => JSON.parse(e.json).tenant);
  await eventually('the other key is next', () => given(s).at(-1) === 'hang other');
  const [one, again, two] = tenants();
  equal([one === again, one !== two, one > 0, two > 0], [true, true, true, true], `${tenants()}`);
  write('three', 'two');
  s.kill('SIGHUP');
  await eventually('read again', () => /reloaded API keys/.test(fs.readFileSync(log, 'utf8')));
  all.concat(other).forEach((c) => c.close());
  for (const k of ['two', 'three']) {
    const c = send(s, polite, 'tokens=1', {}, key(k));
    await answered(c);
    equal(status(c), 200, k);
  }
  const [still, three] = tenants().slice(-2);
  equal([still === two, three !== one, three !== two, three > 0], [true, true, true, true], 'no key gets the number of another');
});

test('live feeds: one client does not keep all others out, and those who share a server do not read of each other', async () => {
  const keys = scratchFile('keys');
  fs.writeFileSync(keys, 'first-key\nsecond-key\n', { mode: 0o600 });
  const s = await serve({ args: ['--api-key-file', keys], ready: false });
  const live = (key) => { const c = connect(s.port); c.send(`GET /api/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`); return c; };
  await s.until('ok');
  const house = Array.from({ length: 64 }, () => live('first-key'));
  await Promise.all(house.map((c) => c.until(() => /event: hello/.test(c.text()))));
  await answered(house[0]);
  const full = live('first-key');
  await answered(full);
  equal(status(full), 503, 'a 65th of one client');
  const other = live('second-key');
  await other.until(() => /event: hello/.test(other.text()));
  await eventually('one has ended', () => house.filter((c) => /\r\n0\r\n\r\n$/.test(c.text())).length === 1);
  equal((await ask(s, chat('tokens=1'), '/v1/chat/completions', { authorization: 'Bearer first-key' })).status, 200);
  await other.until(() => [...other.text().matchAll(/event: tick/g)].length > 2);
  ok(!/completions|127\.0\.0\.1/.test(other.text()), 'it reads of others');
  [...house, full, other].forEach((c) => c.close());
});

test('SIGTERM: what waits hears so at once, what runs may finish', async () => {
  const s = await serve({ args: ['--stop-seconds', '600'], engine: { n_seq: 1 } });
  const all = [];
  for (let i = 0; i < 4; i++) {
    all.push(send(s, polite, 'held tokens=2'));
    await eventually('there', async () => await s.metric('requests_in_flight') === i + 1);
  }
  s.kill('SIGTERM');
  await Promise.all(all.slice(2).map(answered));
  equal(all.slice(2).map((c) => [status(c), /"code":"stopping"/.test(c.text())]), [[503, true], [503, true]]);
  s.tell('tokens');
  await Promise.all(all.slice(0, 2).map(answered));
  equal(all.slice(0, 2).map(status), [200, 200]);
  equal((await s.ended).code, 0);
});

// --- descriptors ---

test('no descriptors left: an engine that dies is started again, and the log is opened again', async () => {
  const log = scratchFile('log');
  const s = await serve({ limit_fds: 64, args: ['--log-file', log, '--header-seconds', '600'] });
  const first = connect(s.port);
  let n = 0;
  const state = async () => {
    first.send(get('/api/status'));
    n++;
    await first.until(() => first.text().split('HTTP/1.1 200').length === n + 1 && first.text().endsWith('}\n'));
    return JSON.parse(first.text().slice(first.text().lastIndexOf('\r\n\r\n') + 4)).engine;
  };
  const pid = (await state()).pid;
  const all = Array.from({ length: 100 }, () => connect(s.port));
  await eventually('none is left', () => /cannot accept a connection: Too many open files/.test(fs.readFileSync(log, 'utf8')));
  for (let i = 2; i < 5; i++) {
    process.kill((await state()).pid, 'SIGKILL');
    await eventually(`start ${i}`, async () => { const e = await state(); return e.starts === i && e.state === 'ready'; });
  }
  ok(!/cannot (make a socket|start)/.test(fs.readFileSync(log, 'utf8')), 'without a failed try');
  fs.renameSync(log, log + '.1');
  s.kill('SIGHUP');
  await eventually('opened again', () => fs.existsSync(log) && /reloaded/.test(fs.readFileSync(log, 'utf8')));
  ok((await state()).pid !== pid, 'another engine');
  all.forEach((c) => c.close());
  await eventually('room again', async () => (await s.get('/health').catch(() => ({}))).status === 200);
});

runAll('e2e fair');

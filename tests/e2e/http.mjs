// HTTP as bytes: what is refused, what is allowed, limits of size and time, keys, hosts, origins, TLS.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { ask, binary, chat, connect, control, equal, events, eventually, fakeEngine, model, ok, post, raw, runAll, sanitized, scratchFile, serve, skip, sleep, test } from './lib.mjs';

const get = (path, headers = 'Host: localhost\r\n') => `GET ${path} HTTP/1.1\r\n${headers}\r\n`;

test('forms of requests: each row is one connection and its replies', async () => {
  const s = await serve();
  const body = chat('tokens=1');
  const chunked = (chunks, headers = '') =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n${headers}\r\n${chunks}`;
  const hex = body.length.toString(16);
  const rows = [
    // name, bytes, statuses
    ['a plain request', get('/health'), [200]],
    ['a query', get('/health?x=1'), [200]],
    ['an empty line before it', '\r\n' + get('/health'), [200]],
    ['two requests at once', get('/health') + get('/v1/models'), [200, 200]],
    ['HTTP/1.0 without a Host', 'GET /health HTTP/1.0\r\n\r\n', [200]],
    ['HEAD', 'HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n', [200]],
    ['a body with a length', post('/v1/chat/completions', body), [200]],
    ['a body in one chunk', chunked(`${hex}\r\n${body}\r\n0\r\n\r\n`), [200]],
    ['a body in chunks of one byte', chunked([...body].map((c) => `1\r\n${c}\r\n`).join('') + '0\r\n\r\n'), [200]],
    ['a request after a chunked one', chunked(`${hex}\r\n${body}\r\n0\r\n\r\n`) + get('/health'), [200, 200]],
    ['a length beside chunks', chunked(`${hex}\r\n${body}\r\n0\r\n\r\n`, `Content-Length: ${body.length}\r\n`), [400]],
    ['chunks beside a length', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n`, [400]],
    ['two lengths', post('/v1/chat/completions', body, `Content-Length: ${body.length}\r\n`), [400]],
    ['two lengths that differ', post('/v1/chat/completions', body, 'Content-Length: 3\r\n'), [400]],
    ['a length with a sign', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\nhello`, [400]],
    ['a length with a list', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 5\r\n\r\nhello`, [400]],
    ['a negative length', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n`, [400]],
    ['a length that overflows', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551616\r\n\r\n`, [400]],
    ['two transfer encodings', chunked('0\r\n\r\n', 'Transfer-Encoding: chunked\r\n'), [400]],
    ['gzip, chunked', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n`, [501]],
    ['chunks in HTTP/1.0', `POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, [400]],
    ['a hidden transfer encoding', `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n`, [400]],
    ['folded header lines', get('/health', 'Host: localhost\r\nX-A: 1\r\n  2\r\n'), [400]],
    ['a line that ends in LF', 'GET /health HTTP/1.1\nHost: localhost\n\n', [400]],
    ['one LF among CRLFs', 'GET /health HTTP/1.1\r\nHost: localhost\n\r\n', [400]],
    ['a CR alone', 'GET /health HTTP/1.1\r\nHost: local\rhost\r\n\r\n', [400]],
    ['a NUL', 'GET /health HTTP/1.1\r\nHost: local\0host\r\n\r\n', [400]],
    ['a control character', 'GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: a\x07b\r\n\r\n', [400]],
    ['a header without a name', 'GET /health HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n', [400]],
    ['a header without a colon', 'GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n', [400]],
    ['no Host', 'GET /health HTTP/1.1\r\n\r\n', [400]],
    ['two Hosts', 'GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n', [400]],
    ['two spaces', 'GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n', [400]],
    ['a tab', 'GET\t/health HTTP/1.1\r\nHost: localhost\r\n\r\n', [400]],
    ['an address of another server', 'GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n', [400]],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', [400]],
    ['HTTP/1.2', 'GET /health HTTP/1.2\r\nHost: localhost\r\n\r\n', [505]],
    ['https on an http port', Buffer.from('16030100a5010000a10303', 'hex'), [400]],
    ['a chunk size that is none', chunked('zz\r\n'), [400]],
    ['a chunk size with an extension', chunked(`${hex};a=b\r\n${body}\r\n0\r\n\r\n`), [400]],
    ['a chunk size with 0x', chunked(`0x${hex}\r\n`), [400]],
    ['a chunk size with a space', chunked(`${hex} \r\n${body}\r\n0\r\n\r\n`), [400]],
    ['a chunk size with a sign', chunked('-1\r\n'), [400]],
    ['a chunk size of nine digits', chunked('000000001\r\n'), [400]],
    ['a chunk size that is too large', chunked('7fffffff\r\n'), [413]],
    ['a chunk that is longer than it says', chunked(`2\r\nabcd\r\n0\r\n\r\n`), [400]],
    ['a chunk that ends in LF', chunked(`${hex}\r\n${body}\n0\r\n\r\n`), [400]],
    ['a trailer', chunked(`${hex}\r\n${body}\r\n0\r\nX-A: b\r\n\r\n`), [400]],
    ['an Expect that is not known', post('/v1/completions', '{}', 'Expect: tea\r\n'), [417]],
    ['a compressed body', post('/v1/completions', '{}', 'Content-Encoding: gzip\r\n'), [415]],
    ['a long address', get('/' + 'x'.repeat(5000)), [414]],
    ['large headers', get('/health', 'Host: localhost\r\nX-A: ' + 'x'.repeat(20000) + '\r\n'), [431]],
    ['many headers', get('/health', 'Host: localhost\r\n' + 'X-A: b\r\n'.repeat(200)), [431]],
    ['an unknown path', get('/nothing'), [404]],
    ['the wrong method', get('/v1/chat/completions'), [405]],
    ['a method that nobody knows', 'BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n', [405]],
    ['Connection: close', get('/health', 'Host: localhost\r\nConnection: close\r\n') + get('/health'), [200]],
  ];
  const wrong = [];
  for (const [name, bytes, want] of rows) {
    const r = await raw(s.port, bytes, { replies: want.length });
    if (JSON.stringify(r.statuses) !== JSON.stringify(want)) wrong.push(`${name}: ${r.statuses}, expected ${want}`);
  }
  equal(wrong, [], 'wrong replies');
  ok((await s.get('/health')).status === 200, 'it is still there');
});

test('a reply is the same however the request is cut', async () => {
  const s = await serve();
  const bytes = post('/v1/chat/completions', chat('tokens=2 unicode'));
  const whole = Buffer.from(bytes);
  for (const size of [1, 3, 7, 100]) {
    const c = connect(s.port);
    for (let i = 0; i < whole.length; i += size) c.send(whole.subarray(i, i + size));
    await c.until(() => c.data.includes('"finish_reason":"stop"'));
    ok(c.data.toString().includes('grüße 😀 1 '), 'text');
    c.close();
  }
});

test('HEAD has no body, 204 no length', async () => {
  const s = await serve();
  const r = await raw(s.port, 'HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n');
  ok(/Content-Length: [1-9]/.test(r.text) && r.text.endsWith('\r\n\r\n'), r.text);
});

test('Expect: 100-continue is answered before the body', async () => {
  const s = await serve();
  const body = chat('tokens=1');
  const c = connect(s.port);
  c.send(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`);
  await c.until(() => c.text().startsWith('HTTP/1.1 100 '));
  c.send(body);
  await c.until(() => c.text().includes('HTTP/1.1 200'));
  c.close();
});

test('pipelined requests behind a running one wait, too many of them end it', async () => {
  const s = await serve();
  const c = connect(s.port);
  c.send(post('/v1/chat/completions', chat('tokens=3 delay=50')) + get('/health'));
  await c.until(() => c.text().includes('"status":"ok"'));
  ok(c.text().indexOf('chat.completion') < c.text().indexOf('"status":"ok"'), 'order');
  c.send(post('/v1/chat/completions', chat('hang', { stream: true })) + 'x'.repeat(200000));
  await c.until(() => c.closed);
  await eventually('cancelled', () => s.count('CANCEL') === 1);
});

test('a body of 100 MB is refused at once, with or without a length', async () => {
  const s = await serve();
  const before = s.rss();
  const c = connect(s.port);
  c.send(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n`);
  await c.until(() => c.text().startsWith('HTTP/1.1 413'));
  c.close();
  const piece = Buffer.alloc(1 << 20, 32);
  const r = await fetch(s.url + '/v1/chat/completions', { method: 'POST', body: Buffer.alloc(100 << 20, 32) })
    .then((x) => x.status, (e) => e.cause?.code);
  ok(r === 413 || r === 'EPIPE' || r === 'ECONNRESET', `fetch: ${r}`);
  const d = connect(s.port);
  d.send('POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n');
  for (let i = 0; i < 20 && !d.text(); i++) { d.send(`100000\r\n`); d.send(piece); d.send('\r\n'); await sleep(2); }
  await d.until(() => d.text().startsWith('HTTP/1.1 413'));
  d.close();
  await eventually(() => `grew by ${s.rss() - before}`, () => sanitized || s.rss() - before < 24 << 20);
});

test('bodies that are no JSON of ours: a row each', async () => {
  const s = await serve();
  const rows = [
    ['', 'empty_body'],
    ['[]', 'invalid_json'],
    ['{"a":1,"a":2}', 'invalid_json'],
    ['{"model":"m"', 'invalid_json'],
    ['{"model":"m"} x', 'invalid_json'],
    ['nonsense', 'invalid_json'],
    ['{"n":' + '9'.repeat(400) + '}', 'invalid_json'],
    ['['.repeat(100000), 'too_deep'],
    ['{"messages":' + '['.repeat(70) + ']'.repeat(70) + '}', 'too_deep'],
    ['{"prompt":[' + '1,'.repeat(1100000) + '1]}', 'too_many_values'],
    ['{"model":"\\u0000"}', 'invalid_json'],
    [Buffer.from('{"messages":[{"role":"user","content":"\xff"}]}', 'latin1'), 'invalid_utf8'],
    [Buffer.from('{"messages":[{"role":"user","content":"\xc3"}]}', 'latin1'), 'invalid_utf8'],
    [Buffer.from('{"messages":[{"role":"user","content":"\xed\xa0\x80"}]}', 'latin1'), 'invalid_utf8'],
    [Buffer.from('{"messages":[{"role":"user","content":"\xc0\x80"}]}', 'latin1'), 'invalid_utf8'],
  ];
  for (const [body, code] of rows) {
    const r = await ask(s, body);
    equal([r.status, r.json?.error.code], [400, code], body.slice(0, 40).toString());
    ok(typeof r.json.error.message === 'string' && r.json.error.type === 'invalid_request_error' && 'param' in r.json.error, 'shape');
  }
});

test('slow clients: heads and bodies have a time limit, connections without a request too', async () => {
  const s = await serve({ args: ['--header-seconds', '1', '--body-seconds', '1', '--idle-seconds', '1'] });
  const slow = Array.from({ length: 50 }, () => connect(s.port));
  const silent = connect(s.port);
  slow.forEach((c) => c.send('GET /health HTTP/1.1\r\n'));
  const drip = setInterval(() => slow.forEach((c) => !c.closed && c.send('X: y\r\n')), 100);
  await Promise.all(slow.map((c) => c.until(() => c.text().startsWith('HTTP/1.1 408'))));
  clearInterval(drip);
  await silent.until(() => silent.closed);
  const idle = connect(s.port);
  idle.send(get('/health'));
  await idle.until(() => idle.text().includes('200 OK'));
  await idle.until(() => idle.closed);
  slow.forEach((c) => c.close());
  const body = connect(s.port);
  body.send('POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n');
  const crawl = setInterval(() => !body.closed && body.send('x'), 50);
  await body.until(() => body.text().startsWith('HTTP/1.1 408'));
  clearInterval(crawl);
  body.close();
  await eventually('none is left', async () => await s.metric('connections').catch(() => 3) <= 2);
});

test('keys: asked for, compared, never for /health', async () => {
  const file = scratchFile('keys');
  fs.writeFileSync(file, '# two keys\nsecret-key-one\n\n  secret-key-two  \n', { mode: 0o600 });
  const s = await serve({ args: ['--api-key-file', file] });
  const rows = [
    ['/v1/models', {}, 401],
    ['/v1/models', { authorization: 'Bearer wrong-key' }, 401],
    ['/v1/models', { authorization: 'Bearer secret-key-on' }, 401],
    ['/v1/models', { authorization: 'Bearer secret-key-one2' }, 401],
    ['/v1/models', { authorization: 'Basic secret-key-one' }, 401],
    ['/v1/models', { authorization: 'Bearer secret-key-one' }, 200],
    ['/v1/models', { authorization: 'bearer secret-key-two' }, 200],
    ['/v1/models', { 'x-api-key': 'secret-key-two' }, 200],
    ['/metrics', {}, 401],
    ['/api/status', {}, 401],
    ['/nothing', {}, 401],
    ['/health', {}, 200],
  ];
  for (const [path, headers, want] of rows) {
    const r = await fetch(s.url + path, { headers });
    const text = await r.text();
    equal(r.status, want, path + JSON.stringify(headers));
    if (want === 401) equal([JSON.parse(text).error.code, r.headers.get('www-authenticate')], ['invalid_api_key', 'Bearer']);
  }
  const r = await raw(s.port, `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n`);
  equal(r.statuses, [401], 'before the body is read');
  equal((await raw(s.port, get('/v1/models', 'Host: anything.example\r\nAuthorization: Bearer secret-key-one\r\n'))).statuses, [200], 'any Host with a key');
});

test('the Host header: names of this computer and no others', async () => {
  const s = await serve({ args: ['--allow-host', 'box.example, other.example'] });
  const rows = [['localhost', 200], ['localhost:1234', 200], ['LOCALHOST', 200], ['localhost.', 200], ['a.localhost', 200],
    ['127.0.0.1:80', 200], ['127.1.2.3', 200], ['[::1]:8080', 200], ['192.168.1.7', 200], ['box.example', 200],
    ['other.example:80', 200], ['evil.example', 403], ['localhost.evil.example', 403], ['127.0.0.1.evil.example', 403],
    ['evil.example:80', 403], ['localhost@evil.example', 403], ['localhost:80:80', 403], ['[::1', 403], ['', 403],
    ['xbox.example', 403]];
  const wrong = [];
  for (const [host, want] of rows) {
    const r = await raw(s.port, get('/v1/models', `Host: ${host}\r\n`));
    if (r.statuses[0] !== want) wrong.push(`${host}: ${r.statuses}`);
  }
  equal(wrong, [], 'hosts');
});

test('origins: pages of this computer, listed ones, no others', async () => {
  const s = await serve({ args: ['--cors-origin', 'https://chat.example'] });
  const rows = [['https://chat.example', 200], ['http://localhost:3000', 200], ['http://127.0.0.1:5173', 200],
    ['http://[::1]:80', 200], [`http://localhost`, 200], ['https://evil.example', 403], ['null', 403],
    ['http://chat.example', 403], ['https://chat.example.evil.example', 403], ['http://localhost.evil.example', 403]];
  for (const [origin, want] of rows) {
    const r = await raw(s.port, get('/v1/models', `Host: localhost\r\nOrigin: ${origin}\r\n`));
    equal(r.statuses, [want], origin);
    equal(r.text.includes(`Access-Control-Allow-Origin: ${origin}\r\n`), want === 200, origin + ' echoed');
    if (want === 200) ok(/Vary: Origin/.test(r.text), 'Vary');
  }
  const p = await raw(s.port, 'OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.example\r\n' +
    'Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, content-type\r\n\r\n');
  equal(p.statuses, [200]);
  ok(/Access-Control-Allow-Headers: authorization, content-type\r\n/.test(p.text) && /Allow-Methods: .*POST/.test(p.text), p.text);
  const q = await raw(s.port, 'OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n');
  equal(q.statuses, [403]);
  const all = await serve({ args: ['--cors-origin', '*'] });
  equal((await raw(all.port, get('/v1/models', 'Host: localhost\r\nOrigin: https://any.example\r\n'))).statuses, [200]);
});

test('TLS: https works, streams too, a wrong key is a sentence', async () => {
  const cert = scratchFile('cert.pem'), key = scratchFile('key.pem'), other = scratchFile('other.pem');
  const make = (k, c) => execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', k, '-out', c,
    '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
  make(key, cert);
  make(other, scratchFile('unused.pem'));
  const s = await serve({ args: ['--tls-cert', cert, '--tls-key', key], ready: false });
  const agent = new https.Agent({ ca: fs.readFileSync(cert), keepAlive: true });
  const request = (method, path, body) => new Promise((done, fail) => {
    const r = https.request({ host: '127.0.0.1', servername: 'localhost', port: s.port, path, method, agent, headers: { host: 'localhost' } }, (res) => {
      let text = '';
      res.setEncoding('utf8').on('data', (d) => { text += d; }).on('end', () => done({ status: res.statusCode, text }));
    });
    r.on('error', fail).end(body);
  });
  await eventually('up', async () => (await request('GET', '/health')).status === 200);
  equal((await request('GET', '/v1/models')).status, 200);
  const r = await request('POST', '/v1/chat/completions', chat('tokens=500', { stream: true }));
  equal(events(r.text).length, 503, 'role, 500 tokens, finish, done');
  const big = await request('POST', '/v1/chat/completions', chat('tokens=50 size=20000'));
  ok(big.text.length > 50 * 20000, 'a large answer');
  const gone = https.request({ host: '127.0.0.1', servername: 'localhost', port: s.port, path: '/v1/chat/completions', method: 'POST', ca: fs.readFileSync(cert), headers: { host: 'localhost' } });
  gone.on('error', () => { });
  gone.end(chat('hang', { stream: true }));
  await eventually('the request is there', () => s.seen().some((e) => e.json.includes('hang')));
  gone.destroy();
  await eventually('a disconnect is seen through TLS', () => s.count('CANCEL') === 1);
  equal((await raw(s.port, get('/health'), { replies: 0 })).statuses, [], 'plain HTTP to the TLS port');
  agent.destroy();
  equal((await s.stop()).code, 0);
  const bad = await serve({ args: ['--tls-cert', cert, '--tls-key', other], ready: false });
  await bad.ended;
  ok(/does not match|mismatch/.test(bad.text()), bad.text());
});

// The look for those who do not read, four times a second, may fall between a first answer and its writing.
test('TLS: a connection that is a moment old is not taken for one that does not read', async () => {
  const cert = scratchFile('cert.pem'), key = scratchFile('key.pem');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
  const s = await serve({ args: ['--tls-cert', cert, '--tls-key', key], ready: false });
  await eventually('up', () => /listening/.test(s.text()));
  let n = 0, dropped = 0;
  await Promise.all(Array.from({ length: 32 }, async () => {
    for (; n < (sanitized ? 300 : 3000); n++) {
      const socket = tls.connect({ port: s.port, host: '127.0.0.1', rejectUnauthorized: false });
      dropped += await new Promise((done) => {
        socket.on('error', () => done(1)).on('close', () => done(1)).on('data', () => done(0)).write(get('/health'));
      });
      socket.destroy();
    }
  }));
  equal(dropped, 0, `of ${n}`);
});

// All of them are there before the server looks, so who is answered first is its own choice.
test('TLS: handshakes that come all at once hold nobody up', async () => {
  const cert = scratchFile('cert.pem'), key = scratchFile('key.pem'), many = 400;
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
  const s = await serve({ args: ['--tls-cert', cert, '--tls-key', key], ready: false });
  const agent = new https.Agent({ ca: fs.readFileSync(cert), keepAlive: true, maxSockets: 1 });
  const health = () => new Promise((done, fail) => { https.get({ host: '127.0.0.1', servername: 'localhost', port: s.port, path: '/health', agent, headers: { host: 'localhost' } }, (r) => { r.resume().on('end', () => done(r.statusCode)); }).on('error', fail); });
  await eventually('up', async () => await health() === 200);
  const hello = await new Promise((done) => { // as a client begins
    const ear = net.createServer((c) => c.once('data', (d) => { done(d); c.destroy(); ear.close(); })).listen(0, '127.0.0.1', () => tls.connect({ port: ear.address().port, host: '127.0.0.1' }).on('error', () => { }));
  });
  const others = Array.from({ length: many }, () => connect(s.port, { from: '127.0.0.2' }));
  await eventually('connected', async () => { const r = await health(); return r === 200 && s.fds() > many; });
  s.kill('SIGSTOP');
  for (const c of others) c.send(hello);
  await eventually('sent', () => others.every((c) => c.socket.bytesWritten === hello.length && !c.socket.writableLength));
  const line = Object.values(agent.freeSockets)[0][0], written = line.bytesWritten;
  const answer = health().then((status) => [status, others.filter((c) => c.data.length > 0).length]);
  await eventually('it is on its way', () => line.bytesWritten > written && !line.writableLength);
  s.kill('SIGCONT');
  const [status, before] = await answer;
  equal(status, 200);
  ok(before < many / 2, `${before} of ${many} handshakes came first`);
  await eventually('each of them is answered', () => others.every((c) => c.data.length > 0));
  for (const c of others) c.close();
  await eventually('none is left', async () => await health() === 200 && s.fds() < many);
  agent.destroy();
});

test('several addresses: each is listened on, at one port', async () => {
  const s = await serve({ args: ['--host', '127.0.0.1,127.0.0.3'] });
  for (const host of ['127.0.0.1', '127.0.0.3']) equal((await fetch(`http://${host}:${s.port}/health`)).status, 200, host);
  ok(s.text().includes(`http://127.0.0.3:${s.port}`), s.text());
});

test('one sentence for each thing that is wrong with the command line', async () => {
  const busy = await serve();
  const rows = [
    [['--port', String(busy.port)], /port \d+ on 127\.0\.0\.1 is taken by another program; stop it, or choose another --port/],
    [['--host', '0.0.0.0'], /0\.0\.0\.0 is reachable from other machines: set an API key \(--api-key-file, .*\), or --no-api-key/],
    [['--host', '203.0.113.7', '--no-api-key'], /203\.0\.113\.7 is not an address of this machine/],
    [['--host', '127.0.0.1,0.0.0.0'], /127\.0\.0\.1,0\.0\.0\.0 is reachable from other machines/],
    [['--host', '127.0.0.1,203.0.113.7', '--no-api-key'], /203\.0\.113\.7 is not an address of this machine/],
    [['--host', 'no.such.name.invalid', '--no-api-key'], /--host: 'no\.such\.name\.invalid'/],
    [['--api-key', 'short'], /shorter than 8 characters/],
    [['--api-key', 'long-enough', '--no-api-key'], /conflicts/],
    [['--api-key-file', '/nonexistent'], /\/nonexistent/],
    [['--tls-cert', '/nonexistent'], /must be given together/],
    [['--tls-cert', '/nonexistent', '--tls-key', '/nonexistent'], /\/nonexistent: /],
    [['--chat-template', '/nonexistent'], /\/nonexistent/],
    [['--port', '99999'], /--port: '99999' is not an integer from 0 to 65,535/],
  ];
  for (const [args, want] of rows) {
    const s = await serve({ args, ready: false });
    await s.ended;
    const lines = s.text().trim().split('\n').filter((l) => !/listening|there is no plan/.test(l)); // that much memory need not be free here
    ok(s.exit.code > 0 && lines.length === 1 && want.test(lines[0]), `${args}: ${s.exit.code} ${s.text()}`);
  }
  for (const [file, want] of [['/nonexistent.gguf', /nonexistent\.gguf/], ['/etc/passwd', /passwd/], ['/', /\//]]) {
    let text = '', status = 0;
    try { execFileSync(binary, ['serve', file], { stdio: 'pipe' }); } catch (e) { text = String(e.stderr); status = e.status; }
    ok(status > 0 && want.test(text) && text.trim().split('\n').length === 1, `${file}: ${text}`);
  }
  equal((await busy.get('/health')).status, 200);
});

test('as a user who may neither read the file nor lock memory: one sentence each', async () => {
  const as = (command) => { // another user, with 64 kB to lock
    try { return { text: execFileSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', 'bash', '--norc', '-c', `ulimit -l 64; ${command}`], { stdio: 'pipe' }).toString(), status: 0 }; }
    catch (e) { return { text: String(e.stderr), status: e.status }; }
  };
  if (process.getuid() !== 0 || as(`test -x ${binary} && test -r ${model}`).status !== 0) return skip;
  const secret = scratchFile('secret.gguf');
  fs.writeFileSync(secret, 'GGUF', { mode: 0o600 });
  fs.chmodSync(path.dirname(secret), 0o755);
  const rows = [[`${binary} serve ${secret}`, /secret\.gguf: .*Permission denied/], [`${binary} serve ${model} --mlock`, /--mlock: this user may lock 64\.00 KiB of memory, but the model takes .*: raise the limit \(ulimit -l\) or drop --mlock/]];
  for (const [command, want] of rows) {
    const r = as(command);
    ok(r.status > 0 && want.test(r.text) && r.text.trim().split('\n').length === 1, `${r.status} ${r.text}`);
  }
});

test('the log for machines: a line of JSON for each request, with the id that the client saw', async () => {
  const log = scratchFile('json');
  const s = await serve({ args: ['--log-format', 'json'], stderr: log });
  const plain = await ask(s, { model: 'm', messages: [{ role: 'user', content: 'tokens=3' }] });
  const named = await ask(s, { model: 'm', messages: [{ role: 'user', content: 'tokens=3' }] }, undefined, { 'x-request-id': 'mine-2' });
  const wrong = await ask(s, { nonsense: 1 });
  const odd = await ask(s, {}, '/v1/completions', { 'x-request-id': 'a "b" \u00e9' }).catch(() => null);
  await s.stop();
  const lines = fs.readFileSync(log, 'utf8').trim().split('\n').map((l) => JSON.parse(l));
  ok(lines.every((l) => l.ts && l.level && l.msg), 'shape');
  const line = (id) => lines.find((l) => l.id === id);
  const seen = [plain, named, wrong].map((r) => line(r.headers.get('x-request-id')));
  equal(seen.map((l) => [l?.msg, l?.status, l?.text_tokens]), [['POST /v1/chat/completions', '200', '3'], ['POST /v1/chat/completions', '200', '3'], ['POST /v1/chat/completions', '400', undefined]]);
  equal(seen[1].id, 'mine-2');
  if (odd) ok(line(odd.headers.get('x-request-id')), 'an id that is none is replaced');
});

test('on a terminal: a bar while it loads; the end of the terminal ends the server', async () => {
  const log = scratchFile('typescript'), { file, tell } = control();
  const command = `${binary} serve ${model} --port 0 --engine-program ${fakeEngine}`;
  const child = spawn('script', ['-qefc', command, log], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, env: { ...process.env, TERM: 'xterm', FAKE_ENGINE: JSON.stringify({ held: true, control: file }) } });
  process.on('exit', () => child.kill('SIGKILL'));
  const text = () => fs.existsSync(log) ? fs.readFileSync(log, 'utf8') : '';
  const shown = (what) => eventually(() => `${what} in ${JSON.stringify(text().slice(-600))}`, () => what.exec(text()));
  const [, url] = await shown(/listening on (http:\/\/[\d.:]+)/);
  const health = () => fetch(`${url}/health`).then((r) => r.json().then((j) => j.status), () => 'gone');
  tell('load 20');
  await shown(/\r {2}loading \[###### {24}\] {2}20 %/);
  tell('load 100');
  await shown(/100 %\r\x1b\[K/);
  await eventually('up', async () => await health() === 'ok');
  child.kill('SIGKILL'); // the terminal is gone
  await eventually('gone', async () => await health() === 'gone');
});

runAll('e2e http');

// What the front costs: memory for each open stream, CPU time for each token, and how fast it answers meanwhile.
import { spawn } from 'node:child_process';
import http from 'node:http';
import path from 'node:path';
import { equal, figure, ok, runAll, sanitized, serve, sleep, test } from './lib.mjs';


// N streams held by another process; said(word) waits until it says so.
function streams(s, n, content) {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'streams.mjs'), s.port, n, content], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '', wake = () => { };
  child.stdout.on('data', (d) => { text += d; wake(); });
  return {
    said: async (word, ms = 60000) => {
      const end = Date.now() + ms;
      while (!text.includes(word)) {
        if (/error/.test(text) || Date.now() > end) throw new Error(`streams: ${text || 'timeout'}`);
        await Promise.race([new Promise((done) => { wake = done; }), sleep(100)]);
      }
    },
    close: () => new Promise((done) => { child.on('exit', done); child.stdin.end(); }),
  };
}

test('4,000 idle streams', async () => {
  const s = await serve({ args: ['--max-queue', '5000'] });
  await s.get('/health');
  const before = s.rss();
  const load = streams(s, 4000, 'stall');
  await load.said('open');
  await sleep(500);
  equal(await s.metric('requests_in_flight'), 4000);
  const each = (s.rss() - before) / 4000;
  figure(`the front takes ${(before / 1e6).toFixed(1)} MB, and ${(each / 1024).toFixed(2)} kB for each of 4,000 open streams`);
  if (!sanitized) ok(before < 20e6 && each < 8192, 'memory');
  const cpu = s.cpu_s();
  await sleep(2000);
  figure(`they cost ${((s.cpu_s() - cpu) / 2 * 100).toFixed(1)} % of a core while nothing happens`);
  const from = Date.now();
  await load.close();
  while (await s.metric('requests_in_flight') > 0 && Date.now() - from < 10000) await sleep(10);
  figure(`4,000 disconnects at once were seen and cancelled in ${Date.now() - from} ms`);
  const cancels = () => s.seen().filter((e) => e.kind === 'CANCEL').length;
  for (let i = 0; i < 100 && cancels() < 4000; i++) await sleep(50);
  equal(cancels(), 4000, 'cancelled');
  ok(sanitized || s.rss() - before < 8e6, `given back: ${s.rss() - before} bytes are not`);
});

for (const [n, tokens, delay] of [[1, 2000, 1], [32, 1500, 2], [256, 200, 10]])
  test(`CPU time of a token, ${n} streams`, async () => {
    const s = await serve({ args: ['--max-queue', '5000'] });
    const load = streams(s, n, `tokens=${tokens} delay=${delay}`);
    await load.said('open');
    const cpu = await s.metric('cpu_seconds_total');
    await load.said('done');
    const us = (await s.metric('cpu_seconds_total') - cpu) / (n * tokens) * 1e6;
    figure(`${us.toFixed(2)} microseconds of CPU for each token of ${n} streams`);
    equal(await s.metric('text_tokens_total'), n * tokens, 'tokens');
    ok(sanitized || us < 40, 'a few microseconds');
    await load.close();
  });

test('/health with 1,000 open streams', async () => {
  const s = await serve({ args: ['--max-queue', '5000'] });
  const load = streams(s, 1000, 'tokens=100000 delay=200');
  await load.said('open');
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const once = () => new Promise((done, fail) => {
    const from = process.hrtime.bigint();
    http.get({ port: s.port, host: '127.0.0.1', path: '/health', agent }, (r) => r.resume().on('end', () => done(Number(process.hrtime.bigint() - from) / 1e6))).on('error', fail);
  });
  const all = [];
  for (let i = 0; i < 500; i++) { all.push(await once()); await sleep(4); }
  all.sort((a, b) => a - b);
  const at = (q) => all[Math.floor(q * (all.length - 1))];
  figure(`/health with 1,000 streams at 5 tokens/s each: p50 ${at(0.5).toFixed(2)} ms, p99 ${at(0.99).toFixed(2)} ms, worst ${at(1).toFixed(2)} ms`);
  ok(sanitized || at(0.99) < 50, 'p99');
  await load.close();
  const burst = streams(s, 200, 'stall');
  const during = [];
  for (let i = 0; i < 100; i++) during.push(await once());
  await burst.said('open');
  figure(`/health while 200 streams open at once: worst ${Math.max(...during).toFixed(2)} ms`);
  await burst.close();
  agent.destroy();
});

runAll('e2e cost');

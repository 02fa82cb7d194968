// What the front takes of a core and how fast it answers, over a stub of the engine: figures of this machine as it is now, so no test.
//   make bench-front
import http from 'node:http';
import { connect, chat, now_us, post, serve, sleep } from '../tests/e2e/lib.mjs';
import { streams } from '../tests/e2e/streams.mjs';

const at = (all, q) => all.sort((a, b) => a - b)[Math.floor(q * (all.length - 1))];
const ms = (all) => `p50 ${at(all, 0.5).toFixed(2)} ms, p99 ${at(all, 0.99).toFixed(2)} ms, worst ${at(all, 1).toFixed(2)} ms`;
const many = () => serve({ args: ['--max-queue', '5000'], engine: { n_seq: 5000 } });

for (const [n, tokens, delay] of [[1, 2000, 1], [32, 1500, 2], [256, 200, 10]]) {
  const s = await many(), load = streams(s, n, `tokens=${tokens} delay=${delay}`);
  await load.said('open');
  const cpu = await s.metric('cpu_seconds_total');
  await load.said('done');
  console.log(`CPU of a token, ${n} streams: ${((await s.metric('cpu_seconds_total') - cpu) / (n * tokens) * 1e6).toFixed(2)} microseconds`);
  await load.close();
  await s.stop();
}

const s = await many();
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const health = () => new Promise((done, fail) => {
  const from = now_us();
  http.get({ port: s.port, host: '127.0.0.1', path: '/health', agent }, (r) => r.resume().on('end', () => done((now_us() - from) / 1000))).on('error', fail);
});
const load = streams(s, 1000, 'tokens=1000000 delay=200');
await load.said('open');
const among = [], during = [], left = [];
for (let i = 0; i < 500; i++) { among.push(await health()); await sleep(4); }
console.log(`/health among 1,000 streams of 5 tokens/s each: ${ms(among)}`);
await load.close();

const burst = streams(s, 200, 'stall');
for (let i = 0; i < 100; i++) during.push(await health());
console.log(`/health while 200 streams open at once: ${ms(during)}`);
await burst.said('open');
await burst.close();
while (await s.metric('requests_in_flight')) await sleep(10);

for (let i = 0; i < 100; i++) {
  const [requests, cancels] = [s.count('REQUEST'), s.count('CANCEL')];
  const c = connect(s.port);
  c.send(post('/v1/chat/completions', chat('hang', { stream: true })));
  while (s.count('REQUEST') === requests) await sleep(1);
  const from = now_us();
  c.close();
  while (s.count('CANCEL') === cancels) await sleep(1);
  left.push((s.seen().findLast((e) => e.kind === 'CANCEL').us - from) / 1000);
}
console.log(`a client leaves, its request is cancelled: ${ms(left)}`);
agent.destroy();
await s.stop();
process.exit(0);

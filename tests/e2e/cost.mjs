// What the front costs, in what can be counted whatever else the machine does: memory for each open stream, and CPU time of a token
// among many streams as a share of that of one alone. How much time it takes is measured by bench/front.
import { equal, eventually, figure, ok, runAll, sanitized, serve, test } from './lib.mjs';
import { streams } from './streams.mjs';

test('4,000 idle streams', async () => {
  const s = await serve({ args: ['--max-queue', '5000'], engine: { n_seq: 5000 } });
  await s.get('/health');
  const before = s.rss();
  const load = streams(s, 4000, 'stall');
  await load.said('open');
  equal(await s.metric('requests_in_flight'), 4000);
  const each = (s.rss() - before) / 4000;
  figure(`the front takes ${(before / 1e6).toFixed(1)} MB, and ${(each / 1024).toFixed(2)} kB for each of 4,000 open streams`);
  if (!sanitized) ok(before < 20e6 && each < 8192, 'memory');
  await load.close();
  await eventually('none in flight', async () => await s.metric('requests_in_flight') === 0);
  await eventually(() => `cancelled: ${s.count('CANCEL')}`, () => s.count('CANCEL') === 4000);
  await eventually(() => `given back: ${s.rss() - before} bytes are not`, () => sanitized || s.rss() - before < 12e6);
});

// Who asks for them need not wait for a turn, so whatever they cost everybody pays.
test('no list costs the loop much more than /health does', async () => {
  const s = await serve(), us = {}, MOST = 40;
  const paths = ['/health', '/metrics', '/v1/models', '/api/models', '/api/gpus', '/api/status', '/api/plan', '/api/tags', '/api/ps', '/api/version', '/props', '/slots', '/lora-adapters', '/'];
  const cost = async (where) => {
    await fetch(s.url + where).then((r) => r.arrayBuffer()); // what is made once is made
    const cpu = await s.metric('cpu_seconds_total');
    for (let i = 0; i < 60; i++) await fetch(s.url + where).then((r) => r.arrayBuffer());
    return (await s.metric('cpu_seconds_total') - cpu) / 60 * 1e6;
  };
  for (const where of paths) us[where] = await cost(where);
  const dearest = paths.reduce((a, b) => (us[b] > us[a] ? b : a));
  figure(`/health takes ${us['/health'].toFixed(0)} us of CPU time, the dearest, ${dearest}, ${us[dearest].toFixed(0)}`);
  ok(us[dearest] < MOST * us['/health'], `${dearest}: ${us[dearest]} us, /health: ${us['/health']}`);
});

test('a token costs no more among many streams than alone', async () => {
  const us = {};
  for (const [n, tokens, delay] of [[1, 2000, 1], [32, 1500, 2], [256, 200, 10]]) {
    const s = await serve({ args: ['--max-queue', '5000'], engine: { n_seq: 5000 } });
    const load = streams(s, n, `tokens=${tokens} delay=${delay}`);
    await load.said('open');
    const cpu = await s.metric('cpu_seconds_total');
    await load.said('done');
    us[n] = (await s.metric('cpu_seconds_total') - cpu) / (n * tokens) * 1e6;
    equal(await s.metric('text_tokens_total'), n * tokens, 'tokens');
    await load.close();
  }
  const share = (n) => us[n] / us[1];
  figure(`CPU time of a token among 32 streams is ${share(32).toFixed(2)} of that of one alone, among 256 ${share(256).toFixed(2)}`);
  ok(share(32) < 1.5 && share(256) < 1.5, JSON.stringify(us));
});

runAll('e2e cost');

// Fair shares: a polite client sends one request at a time. Its equal share is what it gets beside others who do the same and use the slots that are
// left (a server computes faster for one than for several at once); then the same others hold 500 connections and send as fast
// as they can. It must get at least half of its equal share, and nobody may turn it away.
//   node bench/fair.mjs [--short] [--json]
// Rates are compared within the run, a share and the crowd one after the other, up to five times until it is so: a machine that is busy elsewhere
// is so for a while, unfairness each time. The crowd is a thread of its own.
import fs from 'node:fs';
import path from 'node:path';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { median, now, request, sleep } from './client.mjs';

// Greedy, but not so that the crowd's own CPU time is what is measured: beside other tests of `make test` it has less of it.
const N_SEQ = 4, CONNECTIONS = 500, SHORT = isMainThread ? process.argv.includes('--short') : workerData.short, RETRY_MS = SHORT ? 2000 : 500, TRIES = 5;
const ask = (port, who, i) => request({ port, ...who, path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: `${i} hello` }], max_tokens: 8 } });

// --- the others ---

async function crowd({ port, clients, connections }) {
  let on = true, answered = 0, refused = 0;
  parentPort.on('message', () => { on = false; parentPort.postMessage({ answered, refused }); process.exit(); });
  for (let k = 0; k < connections; k++)
    (async () => {
      for (let i = 0; on; i++) {
        const r = await ask(port, clients[k % clients.length], `${k} ${i}`);
        if (r.status === 200) answered++;
        else { refused++; await sleep(RETRY_MS); }
      }
    })();
}

// --- the polite one ---

async function measure(s, who, others, connections, ms) {
  const worker = others.length ? new Worker(fileURLToPath(import.meta.url), { workerData: { port: s.port, clients: others, connections, short: SHORT } }) : null;
  if (worker) await sleep(1000); // they are there first
  const times = [], refused = [], from = now();
  for (let i = 0; now() - from < ms || (times.length < 5 && now() - from < 6 * ms); i++) {
    const r = await ask(s.port, who, `polite ${i}`);
    if (r.status === 200) times.push(r.ms);
    else { refused.push(`${r.status} ${r.code ?? ''}`.trim()); await sleep(RETRY_MS); }
  }
  const per_s = times.length / ((now() - from) / 1000);
  const theirs = worker ? await new Promise((done) => { worker.on('message', done); worker.postMessage('stop'); }) : null;
  return { per_s, median_ms: median(times), worst_ms: Math.max(0, ...times), refused, theirs };
}

async function main() {
  const { dir, makeModel, up } = await import('../tests/e2e/real.mjs');
  const json = process.argv.includes('--json'), ms = SHORT ? 2500 : 10000;
  const say = (text) => { if (!json) console.log(text); };
  const model = makeModel('fair', '--layers', 4, '--embd', 256, '--ff', 512);
  const keys = Array.from({ length: 26 }, (_, i) => `key-${i}-${'k'.repeat(24)}`), file = path.join(dir, 'keys');
  fs.writeFileSync(file, keys.join('\n') + '\n', { mode: 0o600 });
  const key = (k) => ({ headers: { authorization: `Bearer ${keys[k]}` } });
  const crowds = [
    { name: 'one address', polite: { from: '127.0.0.9' }, others: [{ from: '127.0.0.2' }] },
    { name: '25 addresses', polite: { from: '127.0.0.9' }, others: Array.from({ length: 25 }, (_, i) => ({ from: `127.0.2.${i + 1}` })), long: true },
    { name: 'one key', keys: true, polite: key(0), others: [key(1)], long: true },
    { name: '25 keys', keys: true, polite: key(0), others: keys.slice(1).map((_, i) => key(i + 1)) },
  ].filter((c) => !SHORT || !c.long);
  const rows = [];
  for (const with_keys of [false, true]) {
    const s = await up(model, ['--n-seq', String(N_SEQ), '--n-ctx', '4096', '--log-format', 'json', ...(with_keys ? ['--api-key-file', file] : [])]);
    for (const c of crowds.filter((x) => Boolean(x.keys) === with_keys)) {
      const alone = await measure(s, c.polite, [], 0, ms / 2);
      const tries = [];
      for (let k = 0; k < TRIES && !tries.some((t) => t.ok); k++) {
        const equal = await measure(s, c.polite, c.others, Math.max(N_SEQ - 1, c.others.length), ms);
        const beside = await measure(s, c.polite, c.others, CONNECTIONS, ms);
        tries.push({ equal, beside, ratio: beside.per_s / equal.per_s, ok: beside.per_s >= equal.per_s / 2 && !beside.refused.length });
      }
      rows.push({ name: c.name, alone, ...tries.sort((a, b) => b.ok - a.ok || b.ratio - a.ratio)[0] });
    }
    await s.stop();
  }
  const failed = rows.filter((r) => !r.ok).length, rate = (m) => `${m.per_s.toFixed(1)}/s`.padStart(9);
  if (json) console.log(JSON.stringify({ rows, failed }, null, 1));
  say(`  a polite client beside ${CONNECTIONS} greedy connections of  alone    equal share   beside them   of its share   refused   slowest`);
  for (const r of rows)
    say(`  ${r.ok ? 'ok  ' : 'FAIL'}  ${r.name.padEnd(42)} ${rate(r.alone)}     ${rate(r.equal)}     ${rate(r.beside)}   ${`${(100 * r.ratio).toFixed(0)} %`.padStart(8)} ${String(r.beside.refused.length).padStart(12)} ${(r.beside.worst_ms / 1000).toFixed(2).padStart(8)} s   ${[...new Set(r.beside.refused)].join(', ')}`);
  console.log(`fair: ${rows.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

if (isMainThread) await main();
else await crowd(workerData);

// Machines that lend their devices: nodes on loopback with virtual GPUs or the CPU. The same text as one machine, the plan's bytes; who
// has no key, another version or nothing to say; and what becomes of a server whose node dies, freezes, or sends other bytes than it was given, or
// whose link is cut or slow.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { binary, eventually, sleep } from './lib.mjs';
import { ask } from './cards.mjs';
import { body, desk, home, keys, node, pair, run, said, small, started, token, weak } from './lenders.mjs';
import { dir, done, machine, makeModel, must, same, test, up } from './real.mjs';
import { tree } from '../../bench/procs.mjs';

const model = makeModel('lent', '--layers', '8', '--embd', '256', '--ff', '512');
// While fn runs, the way from desk to a node goes through a proxy: what comes from either side is handed to up() or down(), with the function that passes
// it on. Plain sockets: what goes through is TLS.
async function through(port, { up = (d, pass) => pass(d), down = (d, pass) => pass(d) }, fn) {
  const file = path.join(keys('desk'), 'pairs.json'), pairs = fs.readFileSync(file, 'utf8');
  const proxy = net.createServer((a) => {
    const b = net.connect(port, '127.0.0.1'), quiet = () => { };
    a.on('data', (d) => up(d, (x) => b.destroyed || b.write(x))).on('close', () => b.destroy()).on('error', quiet);
    b.on('data', (d) => down(d, (x) => a.destroyed || a.write(x))).on('close', () => a.destroy()).on('error', quiet);
  });
  await new Promise((listening) => proxy.listen(0, '127.0.0.1', listening));
  fs.writeFileSync(file, pairs.replaceAll(`"port": ${port}`, `"port": ${proxy.address().port}`));
  try { return await fn(); } finally { fs.writeFileSync(file, pairs); proxy.close(); }
}
const plain = await ask(model, []);

const attic = await pair('attic', '--gpus', 'card:300:200');
const cellar = await pair('cellar', '--gpus', 'none');

await test('a token is good for one', () => {
  const r = said('other', 'node', '--nodes', `127.0.0.1:${attic.port}`, '--join', attic.token);
  must(r.code !== 0 && /does not know the key/.test(r.text), r.text); // no token is out: not even the secret is heard
  const word = token('attic');
  const wrong = word.slice(0, -1) + (word.endsWith('0') ? '1' : '0');
  const s = said('other', 'node', '--nodes', `127.0.0.1:${attic.port}`, '--join', wrong);
  must(s.code === 8 && /join token has been used, has expired, or is another node's/.test(s.text), s.text);
  must(/not a join token/.test(said('other', 'node', '--nodes', 'x', '--join', 'abc').text), 'nonsense');
});
await test('doctor shows what is lent, and who does not answer', async () => {
  const text = run('desk', 'doctor', '--gpus', 'none', '--nodes', `attic,cellar`);
  must(/attic\/CUDA0 +card +300 +300/.test(text) && /cellar\/CPU0/.test(text), text);
  const gone = said('desk', 'plan', '--gpus', 'none', '--nodes', 'nobody');
  must(gone.code === 2 && /'nobody' is not paired with this machine: run 'vram-llm node --init' there/.test(gone.text), gone.text);
});
await test('the same text and the plan\'s bytes: a card, a node\'s card, a node\'s processor', async () => {
  for (const [nodes, args] of [['attic', ['--machine', weak]], ['cellar', ['--gpus', 'none', '--tensor-split', '1']], ['attic,cellar', ['--machine', machine(60), '--tensor-split', '1,1,1']]]) {
    const r = await ask(model, [...args, '--nodes', nodes, ...small], desk);
    same(r.text, plain.text, nodes);
    const ready = r.status.engine.ready.devices;
    same(r.plan.devices.map((d) => d.id), ready.map((d) => d.name), 'devices');
    must(ready.some((d) => d.name.includes('/')), 'a node has part in it');
    for (const [i, d] of r.plan.devices.entries())
      for (const what of ['model_bytes', 'context_bytes', 'compute_bytes']) same(d[what], ready[i][what], `${d.id} ${what}`);
  }
});

// A client of ours, written for the purpose: it has the key of `who`.
const packet = (kind, payload) => Buffer.concat([Buffer.from([kind, payload.length >> 16, payload.length >> 8 & 255, payload.length & 255]), Buffer.from(payload)]);
const hello = (more) => packet(1, JSON.stringify({ want: 'look', name: 'desk', program: '0', engine: 'x', rpc: 'x', devices: [], ...more }));
const pem = (who) => fs.readFileSync(path.join(keys(who), 'identity.pem'));
const call = (who, bytes, more = {}) => new Promise((finish) => {
  const s = tls.connect({ port: attic.port, host: '127.0.0.1', rejectUnauthorized: false, ...(who ? { key: pem(who), cert: pem(who) } : {}), ...more });
  let got = Buffer.alloc(0), error = '', tickets = 0;
  s.on('secureConnect', () => s.write(bytes)).on('session', () => { tickets++; }).on('data', (d) => { got = Buffer.concat([got, d]); }).on('error', (e) => { error = e.message; }).on('close', () => finish({ got, error, tickets }));
});
await test('another version is refused, with the sentence that helps', async () => {
  const r = await call('desk', hello({ engine: '0.4.0' }));
  same(r.got[0], 3, 'a refusal');
  must(/desk runs 0 with 0.4.0 .*: install the same version on both/.test(r.got), String(r.got));
});
await test('without a key there is not a byte of protocol', async () => {
  said('other', 'node', '--init');
  run('attic', 'node', '--init'); // a stranger may show a secret now, and nothing else
  same((await call('other', hello({}))).got.toString().slice(4), 'this key is not paired with it');
  const none = await call(null, hello({}));
  must(none.got.length === 0 && none.error, 'no certificate: ' + none.error);
  // llama.cpp's own RPC client begins so: HELLO is 14, then 24 bytes
  const rpc = Buffer.concat([Buffer.from([14, 24, 0, 0, 0, 0, 0, 0, 0]), Buffer.alloc(24)]);
  const answer = await new Promise((finish) => {
    let got = Buffer.alloc(0);
    net.connect(attic.port, '127.0.0.1', function () { this.write(rpc); }).on('data', (d) => { got = Buffer.concat([got, d]); }).on('error', () => { }).on('close', () => finish(got));
  });
  must(answer.length === 0 || answer[0] === 21, 'at most a TLS alert: ' + answer.toString('hex'));
  await eventually('the log tells', () => /does not speak TLS 1.3/.test(attic.text()));
});
await test('TLS 1.3 and nothing older; nothing to resume', async () => {
  const old = await call('desk', hello({}), { maxVersion: 'TLSv1.2' });
  must(old.got.length === 0 && /protocol version/i.test(old.error), 'TLS 1.2: ' + old.error);
  same((await call('desk', hello({ engine: '0.4.0' }))).tickets, 0, 'tickets');
});
await test('a node that answers otherwise than a node does', async () => {
  let answer; // with attic's key, which is all that a client knows of it
  const pretends = tls.createServer({ key: pem('attic'), cert: pem('attic'), requestCert: true, rejectUnauthorized: false }, (s) => s.once('data', () => s.end(answer)).on('error', () => { }));
  await new Promise((listening) => pretends.listen(0, '127.0.0.1', listening));
  const file = path.join(keys('desk'), 'pairs.json'), pairs = fs.readFileSync(file, 'utf8');
  fs.writeFileSync(file, pairs.replaceAll(`"port": ${attic.port}`, `"port": ${pretends.address().port}`));
  const versions = { name: 'attic', program: '9', engine: '9', rpc: '9' };
  const rows = [
    [packet(2, JSON.stringify(versions)), / runs vram-llm .* with llama\.cpp .*, attic runs 9 with 9 \(RPC 9\): install the same version on both; planning without it/],
    [packet(3, 'because'), /node attic refused: because; planning without it/],
    [packet(2, '{"name":'), /node attic did not answer as 'vram-llm node' does; planning without it/],
    [packet(4, 'data'), /node attic did not answer as 'vram-llm node' does; planning without it/],
    [Buffer.from([99, 0, 0, 0]), /node attic sent a malformed message; planning without it/],
    [Buffer.from([2, 255, 255, 255]), /node attic sent a malformed message; planning without it/],
    [Buffer.alloc(0), /node attic closed the connection; planning without it/],
  ];
  try {
    for (const [bytes, sentence] of rows) {
      answer = bytes;
      const text = await new Promise((ended) => { // the node is this process
        let all = '';
        const child = spawn(binary, ['plan', model, '--gpus', 'none', '--nodes', 'attic', ...small], { env: { ...process.env, ...desk }, stdio: ['ignore', 'ignore', 'pipe'] });
        child.stderr.on('data', (d) => { all += d; });
        child.on('close', (code) => ended(`${code} ${all}`));
      });
      must(text.startsWith('0 ') && sentence.test(text), text);
    }
  } finally {
    fs.writeFileSync(file, pairs);
    pretends.close();
  }
});
await test('a stranger who holds connections keeps nobody else out', async () => {
  const held = await Promise.all(Array.from({ length: 40 }, () => new Promise((open) => { const c = net.connect({ port: attic.port, host: '127.0.0.1', localAddress: '127.0.0.2' }, () => open(c)).on('error', () => { }).on('close', () => { c.over = true; }); })));
  await eventually('all but 16 are closed', () => held.filter((c) => c.over).length === 24);
  must(/attic\/CUDA0/.test(run('desk', 'plan', '--gpus', 'none', '--nodes', 'attic')), 'it answers others');
  for (const c of held) c.destroy();
});
await test('a node that is out of descriptors says so a few times, and takes who waits once it has some', async () => {
  const limit = (n) => spawnSync('prlimit', ['--pid', String(attic.pid), `--nofile=${n}:`]), before = attic.text().length;
  const said = () => attic.text().slice(before).match(/could not be accepted: Too many open files/g) ?? [];
  limit(3);
  const c = net.connect(attic.port, '127.0.0.1').on('error', () => { });
  await eventually(() => attic.text().slice(before), () => said().length > 2);
  limit(256);
  must(said().length < 20, `${said().length} times`);
  c.destroy();
  must(/attic\/CUDA0/.test(run('desk', 'plan', '--gpus', 'none', '--nodes', 'attic')), 'it answers again');
});
await test('garbled messages end the connection, and the node goes on', async () => {
  for (const bytes of [Buffer.from([99, 0, 0, 0]), packet(1, '{"want":'), packet(4, 'data'), Buffer.from([1, 255, 255, 255])]) {
    const r = await call('desk', bytes);
    must(r.got.length === 0 || r.got[0] === 3, r.got.toString('hex'));
  }
  must(/attic\/CUDA0/.test(run('desk', 'plan', '--gpus', 'none', '--nodes', 'attic')), 'still there');
});
await test('keys are compared: another one behind the same address', async () => {
  fs.cpSync(keys('desk'), keys('thief'), { recursive: true });
  fs.rmSync(path.join(keys('thief'), 'identity.pem'));
  const stranger = said('thief', 'plan', '--gpus', 'none', '--nodes', 'cellar');
  must(/node cellar does not know the key of this machine/.test(stranger.text), stranger.text);
  const file = path.join(keys('desk'), 'pairs.json'), pairs = fs.readFileSync(file, 'utf8');
  fs.writeFileSync(file, pairs.replaceAll(`"port": ${attic.port}`, `"port": ${cellar.port}`));
  const moved = said('desk', 'plan', '--gpus', 'none', '--nodes', 'attic');
  fs.writeFileSync(file, pairs);
  must(/node attic has a different key from the one it was paired with/.test(moved.text), moved.text);
});
await test('one owner at a time', async () => {
  const s = await up(model, ['--machine', weak, '--nodes', 'attic', ...small], desk);
  const r = said('desk', 'plan', model, '--gpus', 'none', '--nodes', 'attic', ...small);
  must(r.code === 0 && /node attic is lent to .* already, for another model; planning without it/.test(r.text), r.text);
  // what holds keys, connections or devices is confined, on both sides; the last client's process is on its way out
  const { seccomp } = (await s.get('/api/status')).engine.ready.confinement;
  const status = (pid) => { try { return Object.fromEntries(fs.readFileSync(`/proc/${pid}/status`, 'utf8').split('\n').map((l) => l.split(/:\s*/))); } catch { return {}; } };
  for (const [whose, pid, least] of [['the server', s.pid, 3], ['the node', attic.pid, 2]]) {
    const below = () => tree(pid).slice(1).map((p) => status(p.pid)).filter((p) => p.Name);
    await eventually(() => `${whose}: ${JSON.stringify(below().map((p) => [p.Name, p.NoNewPrivs, p.Seccomp]))}`, () => below().length >= least && below().every((p) => p.NoNewPrivs === '1' && (seccomp !== 'in_force' || p.Seccomp === '2')));
  }
  await s.stop();
});

// Serves with the node; while it answers, `harm` comes over it. What is in flight ends with an error, then all goes on without.
async function survives(nodes, harm, sentence, args = [], before = () => { }) {
  const s = await up(model, ['--machine', weak, '--nodes', nodes, ...args, ...small], desk);
  same((await (await fetch(s.url + '/api/plan')).json()).devices.map((d) => d.id.split('/')[0]), [nodes], 'it is used');
  await before(s);
  let ended, harmed = false;
  const stream = s.stream('/v1/completions', { ...body, max_tokens: 900 }, () => { if (!harmed) harm(); harmed = true; return false; }).then(() => { ended = 'whole'; }, (e) => { ended = e.message; });
  await eventually(() => s.text(), () => sentence.test(s.text()));
  must((await fetch(s.url + '/health')).status, 'the front answers');
  await stream;
  const again = await eventually(() => s.text(), async () => s.post('/v1/completions', body).catch(() => null));
  same(again.choices[0].text, plain.text, 'afterwards');
  must(/planning again with the machines that answer/.test(s.text()), s.text());
  await s.stop();
  return ended;
}
await test('a node that is killed', async () => {
  await survives('attic', () => attic.kill(), /node attic closed the connection/);
  const r = said('desk', 'plan', model, '--gpus', 'none', '--nodes', 'attic', ...small);
  must(r.code === 0 && /nothing listens there; is 'vram-llm node' running\?; planning without it/.test(r.text), r.text);
});
let back;
await test('it comes back, and is used at the next load', async () => {
  back = await node('attic', '--gpus', 'card:300:200');
  const r = await ask(model, ['--machine', weak, '--nodes', 'attic', ...small], desk);
  same([r.text, r.plan.devices[0].id], [plain.text, 'attic/CUDA0']);
});
await test('a node that freezes', async () => {
  await survives('attic', () => back.signal('SIGSTOP'), /node attic has not answered for 2 seconds/, ['--node-seconds', '2']);
  back.signal('SIGCONT');
});
await test('bytes that change on the way', async () => {
  let garble = false;
  const down = (d, pass) => { if (garble && d.length > 40) { d[d.length - 9] ^= 1; garble = false; } pass(d); };
  await through(back.port, { down }, () => survives('attic', () => { garble = true; }, /node attic closed the connection/));
});
await test('a link that becomes slow is slow and no more; bytes that come twice end it', async () => {
  let slow = false, twice = false, last = Promise.resolve();
  const down = (d, pass) => {
    if (slow) last = last.then(() => sleep(20)).then(() => pass(d)); else pass(d);
    if (twice && d.length > 40) { twice = false; pass(d); }
  };
  const before = async (s) => {
    slow = true;
    same((await s.post('/v1/completions', body)).choices[0].text, plain.text, 'behind the slow link');
    slow = false;
  };
  await through(back.port, { down }, () => survives('attic', () => { twice = true; }, /node attic closed the connection/, [], before));
});
await test('a link that is cut', async () => {
  let cut = false;
  const pass = (d, on) => { if (!cut) on(d); };
  const harm = () => { cut = true; setTimeout(() => { cut = false; }, 4000); }; // that connection is lost: bytes of it are missing
  await through(back.port, { up: pass, down: pass }, () => survives('attic', harm, /node attic (has not answered for 2 seconds|closed the connection)/, ['--node-seconds', '2']));
});
await test('a connection that is played again is not taken for its client', async () => {
  const sent = [];
  await through(back.port, { up: (d, pass) => { sent.push(Buffer.from(d)); pass(d); } }, () => new Promise((ended) => { // the proxy is this process: nothing here may wait for it in one piece
    spawn(binary, ['doctor', '--gpus', 'none', '--nodes', 'attic'], { env: { ...process.env, ...desk }, stdio: 'ignore' }).on('exit', ended);
  }));
  must(sent.length > 1, 'recorded');
  const before = back.text().length;
  const got = await new Promise((finish) => {
    let bytes = Buffer.alloc(0);
    net.connect(back.port, '127.0.0.1', function () { for (const d of sent) this.write(d); }).on('data', (d) => { bytes = Buffer.concat([bytes, d]); }).on('error', () => { }).on('close', () => finish(bytes));
  });
  must(got[0] === 22, 'it begins a handshake of its own: ' + got.subarray(0, 8).toString('hex')); // and what follows is encrypted for whom nobody is
  await eventually(() => back.text(), () => /does not speak TLS 1.3 as a node does/.test(back.text().slice(before)));
  must(!/joined|lent to/.test(back.text().slice(before)), back.text().slice(before));
  must(/attic\/CUDA0/.test(run('desk', 'plan', '--gpus', 'none', '--nodes', 'attic')), 'still there');
});
await test('bench measures the way, and plans take it from there', () => {
  const env = { ...process.env, ...home('desk'), XDG_DATA_HOME: path.join(dir, 'data') }, kept = path.join(dir, 'data/vram-llm/links.json');
  const say = (...args) => spawnSync(binary, args, { env, encoding: 'utf8' });
  const told = JSON.parse(say('bench', '--nodes', 'attic', '--json').stdout).nodes;
  must(told.length === 1 && told[0].node === 'attic' && told[0].address === `127.0.0.1:${back.port}`, JSON.stringify(told));
  for (const what of ['round_trip_us', 'to_gbs', 'from_gbs']) must(told[0][what] > 0, what);
  same([told[0].devices, told[0].calibrated], [1, 0], 'a virtual card, which nobody measured');
  const file = JSON.parse(fs.readFileSync(kept));
  same(file.links.map((l) => l.round_trip_us), [told[0].round_trip_us], 'kept');
  const link = (ms, gbs) => { // a plan with a link of that kind in the file
    Object.assign(file.links[0], { round_trip_us: ms * 1000, to_gbs: gbs, from_gbs: gbs });
    fs.writeFileSync(kept, JSON.stringify(file));
    return say('doctor', '--gpus', 'none', '--nodes', 'attic').stdout;
  };
  must(/attic\/CUDA0.*4\.25 GB\/s, 0\.90 ms/.test(link(0.9, 4.25)), 'as it was measured');
  const other = link(5000, 0.5);
  must(!/5000/.test(/attic\/CUDA0.*/.exec(other)[0]) && /A round trip to node attic takes .* run 'vram-llm bench --nodes attic' again/.test(other), other);
  fs.writeFileSync(kept, '{');
  const damaged = say('doctor', '--gpus', 'none', '--nodes', 'attic').stdout;
  must(/links\.json is damaged: remove it/.test(damaged) && /attic\/CUDA0/.test(damaged), damaged);
  must(/node attic: .*nothing listens there|'nobody' is not paired/.test(say('bench', '--nodes', 'nobody').stderr), 'nobody');
  must(/takes no model/.test(say('bench', model, '--nodes', 'attic').stderr), 'with a model');
});
await test('a device that gives less than it says: planned again with less', async () => {
  (back ?? attic).kill();
  const poor = await node('attic', '--machine', machine(5));
  const r = await ask(model, ['--machine', weak, '--nodes', 'attic', ...small], { ...desk, XDG_STATE_HOME: path.join(dir, 'poor'), VRAM_LLM_VIRTUAL: '[{"attic/CUDA0":{"free":300}}]' });
  same(r.text, plain.text);
  must(/out of memory on attic\/CUDA0.*; planning again with less for it/.test(r.log), r.log);
  poor.kill();
});
attic.kill();
back?.kill();
const large = makeModel('large', '--layers', '2', '--embd', '512', '--ff', '12288'); // matrices of 12 MiB
const one = await ask(large, []);
// A node that keeps weights, with files of at most so many KiB. Not confined: root's cache is elsewhere otherwise.
async function keeps(kib) {
  const store = spawn('bash', ['-c', `ulimit -f ${kib}; exec "$@"`, '-', binary, 'node', '--name', 'attic', '--listen', `127.0.0.1:${node.ports.attic}`, '--threads', '1', '--gpus', 'card:300:200'],
    { stdio: ['ignore', 'ignore', 'ignore'], env: { ...process.env, ...home('attic'), VRAM_LLM_CONFINE: 'off' }, detached: true });
  started.add(store);
  await eventually('it listens', () => new Promise((ok) => net.connect(node.ports.attic, '127.0.0.1', function () { this.destroy(); ok(true); }).on('error', () => ok(false))));
  return () => new Promise((gone) => { store.on('exit', gone); process.kill(-store.pid, 'SIGKILL'); started.delete(store); }); // its port, too
}
const kept = () => fs.readdirSync(keys('attic')).filter((name) => /^[0-9a-f]{16}/.test(name)).map((name) => path.join(keys('attic'), name));
const lent = ['--gpus', 'none', '--nodes', 'attic', '--tensor-split', '1', ...small];
await test('weights that were cut off on the node\'s disk are not taken for whole', async () => {
  const stop = await keeps(8192);
  const failed = await ask(large, lent, desk).then((r) => r.log, (e) => e.message); // the node's engine is killed in the first write beyond
  must(/node attic closed the connection/.test(failed), failed);
  must(kept().length > 0, 'it began to write');
  await stop();
  const again = await keeps('unlimited');
  const r = await ask(large, lent, desk);
  same([r.text, r.plan.devices[0].id], [one.text, 'attic/CUDA0']);
  await again();
  for (const file of kept()) fs.rmSync(file);
});
await test('weights that the node has already are not sent again', async () => {
  const stop = await keeps('unlimited'), sent = [];
  await through(node.ports.attic, { up: (d, pass) => { sent[sent.length - 1] += d.length; pass(d); } }, async () => {
    for (let i = 0; i < 2; i++) {
      sent.push(0);
      const r = await ask(large, lent, desk);
      same([r.text, r.plan.devices[0].id], [one.text, 'attic/CUDA0']);
      const told = r.status.engine.ready.sent_bytes;
      must(told > 0 && told <= sent[i], `sent ${sent[i]}, told ${told}`);
      must(/[\d.]+ MiB sent to other machines while loading, \d+ MB\/s/.test(r.log), r.log);
    }
  });
  must(sent[0] > 70e6 && sent[1] < sent[0] / 4, sent.join());
  await stop();
});
cellar.kill();
done('nodes');

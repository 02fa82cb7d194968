// Nodes in network namespaces of their own: three machines, each with an address and a link to the server. What is lost when a link goes down or one
// of them dies, what listens there, what a slow link looks like. Without the right to make a namespace there is nothing to do.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { fileURLToPath } from 'node:url';
import { eventually, sleep } from './lib.mjs';
import { ask } from './cards.mjs';
import { body, desk, node, pair, places, run, small, weak } from './lenders.mjs';
import { done, machine, makeModel, must, same, test, up } from './real.mjs';

const sh = (...argv) => execFileSync(argv[0], argv.slice(1), { stdio: ['ignore', 'ignore', 'pipe'] });
if (!process.env.VR_NET) {
  if (spawnSync('unshare', ['--net', 'ip', 'link', 'set', 'lo', 'up']).status !== 0) {
    console.log('  skip  network namespaces cannot be made here');
    done('node_nets');
  }
  process.exit(spawnSync('unshare', ['--net', process.execPath, fileURLToPath(import.meta.url)], { env: { ...process.env, VR_NET: '1' }, stdio: 'inherit' }).status ?? 1);
}
sh('ip', 'link', 'set', 'lo', 'up');

// A namespace, and a link to it: v1 here, eth0 there, 10.77.1.1 and 10.77.1.2; it ends with this process.
const nets = [];
process.on('exit', () => { for (const n of nets) n.kill('SIGKILL'); });
async function join(who, i, listen) {
  const holder = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' });
  nets.push(holder);
  await eventually('a namespace', () => { try { return fs.readlinkSync(`/proc/${holder.pid}/ns/net`) !== fs.readlinkSync('/proc/self/ns/net') && /^sleep/.test(fs.readFileSync(`/proc/${holder.pid}/comm`, 'utf8')); } catch { return false; } });
  const enter = ['nsenter', `--net=/proc/${holder.pid}/ns/net`], address = `10.77.${i}.2`;
  sh('ip', 'link', 'add', `v${i}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(holder.pid));
  sh('ip', 'addr', 'add', `10.77.${i}.1/24`, 'dev', `v${i}`);
  sh('ip', 'link', 'set', `v${i}`, 'up');
  for (const dev of ['lo', 'eth0']) sh(...enter, 'ip', 'link', 'set', dev, 'up');
  sh(...enter, 'ip', 'addr', 'add', `${address}/24`, 'dev', 'eth0');
  places[who] = { address, listen, enter, link: `v${i}`, holder: holder.pid };
}
await join('attic', 1);
await join('cellar', 2);
await join('roof', 3, '[::]');
const model = makeModel('lent', '--layers', '8', '--embd', '256', '--ff', '512');
const plain = await ask(model, []);
const lends = { attic: 'card:300:200', cellar: 'none', roof: 'card:300:200' }, nodes = {};
for (const who in lends) nodes[who] = await pair(who, '--gpus', lends[who]);
const all = ['--nodes', 'attic,cellar,roof', '--tensor-split', '1,1,1,1', ...small];
const three = ['attic/CUDA0', 'cellar/CPU0', 'roof/CUDA0'];

await test('one model on three machines: the same text, the plan\'s bytes, and one port on each', async () => {
  const listening = (who) => fs.readFileSync(`/proc/${places[who].holder}/net/tcp`, 'utf8').split('\n').concat(fs.readFileSync(`/proc/${places[who].holder}/net/tcp6`, 'utf8').split('\n'))
    .map((l) => l.trim().split(/\s+/)).filter((w) => w[3] === '0A').map((w) => parseInt(w[1].split(':')[1], 16));
  let ports;
  const r = await ask(model, ['--machine', machine(60), ...all], desk, () => { ports = ['attic', 'cellar', 'roof'].map(listening); });
  same(r.text, plain.text);
  const ready = r.status.engine.ready.devices;
  same(r.plan.devices.map((d) => d.id).slice(1), three);
  for (const [i, d] of r.plan.devices.entries())
    for (const what of ['model_bytes', 'context_bytes', 'compute_bytes']) same(d[what], ready[i][what], `${d.id} ${what}`);
  same(ports, ['attic', 'cellar', 'roof'].map((who) => [nodes[who].port]), 'while they are lent');
});
await test('who connects and says nothing, or speaks HTTP, hears nothing but the end', async () => {
  for (const words of ['', 'GET / HTTP/1.1\r\n\r\n']) {
    const got = await new Promise((finish) => {
      let bytes = Buffer.alloc(0);
      const s = net.connect(nodes.attic.port, places.attic.address, () => s.end(words)).on('data', (d) => { bytes = Buffer.concat([bytes, d]); }).on('error', () => { }).on('close', () => finish(bytes));
    });
    must(got.length === 0 || got[0] === 21, 'at most a TLS alert: ' + got.toString('hex'));
  }
});
await test('a stranger with all addresses of an IPv6 network keeps nobody else out', async () => {
  sh(...places.roof.enter, 'ip', 'addr', 'add', 'fd77::ffff/64', 'dev', 'eth0', 'nodad');
  const held = [];
  for (let i = 1; i <= 40; i++) sh('ip', 'addr', 'add', `fd77::${i}/64`, 'dev', places.roof.link, 'nodad');
  for (let i = 1; i <= 40; i++)
    held.push(await new Promise((open) => { const c = net.connect({ port: nodes.roof.port, host: 'fd77::ffff', localAddress: `fd77::${i}` }, () => open(c)).on('error', (e) => { c.error = e.message; open(c); }).on('close', () => { c.over = true; }); }));
  must(held.every((c) => !c.error), held.find((c) => c.error)?.error);
  await eventually('all but 16 are closed', () => held.filter((c) => c.over).length === 24);
  must(/roof\/CUDA0/.test(run('desk', 'plan', '--gpus', 'none', '--nodes', 'roof')), 'it answers others');
  for (const c of held) c.destroy();
});

// While the server answers over one of three machines, `harm(it)` comes over that one: the front goes on, and so does the model, on those that are left.
// With `fixed` options that count on all of them it waits instead, until `mend(it)`.
async function survives(harm, sentence, fixed = [], mend = null) {
  const s = await up(model, ['--machine', weak, '--node-seconds', '2', '--nodes', 'attic,cellar,roof', ...fixed, ...small], desk);
  const used = async () => (await s.get('/api/plan')).devices.map((d) => d.id.split('/')[0]), who = (await used())[0];
  let harmed = false;
  const stream = s.stream('/v1/completions', { ...body, max_tokens: 900 }, () => { if (!harmed) harm(who); harmed = true; return false; }).catch(() => { });
  await eventually(() => s.text(), async () => { must((await fetch(s.url + '/health')).status, 'the front answers'); return sentence(who).test(s.text()); });
  await stream;
  must(/planning again with the machines that answer/.test(s.text()), s.text());
  if (mend) {
    await eventually(() => s.text(), () => /--tensor-split has 3 values for 2 devices/.test(s.text()));
    mend(who);
  }
  const again = await eventually(() => s.text(), async () => { await sleep(200); return s.post('/v1/completions', body).catch(() => null); });
  same(again.choices[0].text, plain.text, 'afterwards');
  same((await used()).includes(who), mend !== null, 'the one that was lost is used again');
  await s.stop();
  return { who, said: s.text() };
}
const set = (who, state) => sh('ip', 'link', 'set', places[who].link, state);
const silent = (who) => new RegExp(`node ${who} has not answered for 2 seconds`);
const backInUse = async () => {
  const r = await ask(model, ['--machine', machine(60), ...all], desk);
  same([r.text, r.plan.devices.map((d) => d.id).slice(1)], [plain.text, three]);
};
await test('a link that goes down: what is left is used, and that machine again when it is up', async () => {
  const { who, said } = await survives((it) => set(it, 'down'), silent);
  must(new RegExp(`node ${who}: ${places[who].address} port \\d+: .*unreachable; planning without it`).test(said), said);
  set(who, 'up');
  await backInUse();
});
await test('a link that goes down under a placement that counts on it: the model waits until it is up', async () => {
  await survives((it) => set(it, 'down'), silent, ['--tensor-split', '1,1,1'], (it) => set(it, 'up'));
});
await test('one of three is killed, and used again when it is back', async () => {
  const { who } = await survives((it) => nodes[it].kill(), (it) => new RegExp(`node ${it} closed the connection`));
  nodes[who] = await node(who, '--gpus', lends[who]);
  await backInUse();
});
await test('a link of a set rate is measured as slow as that', async () => {
  const slow = (...enter) => spawnSync([...enter, 'tc'][0], [...[...enter, 'tc'].slice(1), 'qdisc', 'add', 'dev', enter.length ? 'eth0' : places.attic.link, 'root', 'tbf', 'rate', '80mbit', 'burst', '32kb', 'latency', '400ms']).status === 0;
  if (!slow() || !slow(...places.attic.enter)) return console.log('  skip  this kernel has no token bucket filter');
  const gbs = Number(/attic\/CUDA0.* ([\d.]+) GB\/s/.exec(run('desk', 'doctor', '--gpus', 'none', '--nodes', 'attic'))?.[1]);
  must(gbs > 0 && gbs <= 0.011, `${gbs} GB/s, at most 0.01 and what a bucket holds`);
  const r = await ask(model, ['--machine', machine(60), ...all], desk);
  same(r.text, plain.text, 'over it');
});
done('node_nets');

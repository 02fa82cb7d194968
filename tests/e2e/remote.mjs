// Models that are elsewhere: planned from their headers, downloaded, served; over a stand-in for the hub (hub.mjs) that does what hubs do,
// and everything that can go wrong: each case ends in the right bytes or in a sentence.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { binary, build, eventually, patience } from './lib.mjs';
import { dir, done, machine, makeMmproj, makeModel, must, same, test, up } from './real.mjs';
import { hub, sha256 } from './hub.mjs';

const big = makeModel('big', '--layers', 8, '--embd', 512, '--heads', 8); // several chunks
const small = makeModel('small', '--layers', 2), seer = makeModel('seer', '--layers', 6, '--embd', 256, '--heads', 4, '--kv', 2, '--arch', 'qwen2vl');
const mmproj = makeMmproj('mmproj', '--width', 256);
const size = fs.statSync(big).size;
const stretched = (name) => path.join(build, 'models', name);
const llama = 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf', kimi = Array.from({ length: 9 }, (_, i) => `Kimi-K2.5-UD-IQ3_XXS-0000${i + 1}-of-00009.gguf`);
execFileSync('tools/stretch', [path.join(build, 'models'), 'llama-3.1-8b', 'kimi-k2.5']);

const h = await hub({
  'org/Big-GGUF': { 'Big-F32.gguf': big, 'Big-Q8_0.gguf': small, 'sub/Other-F32.gguf': small },
  'org/Seer-GGUF': { 'Seer-F32.gguf': seer, 'mmproj-F16.gguf': mmproj },
  'org/One-GGUF': { 'One-F32.gguf': small },
});
let homes = 0;
const fresh = () => { h.reset(); return path.join(dir, `home-${homes++}`); };
const state = (home, extra = {}) => ({ ...process.env, HOME: home, XDG_CACHE_HOME: '', XDG_DATA_HOME: '', HF_HOME: '', HF_HUB_CACHE: '', LLAMA_CACHE: '', ...h.env, ...extra });
const cards = ['--machine', machine(600, 600), '--reserve-mib', '1'];

function start(home, args, env) {
  const child = spawn(binary, args, { env: state(home, env), stdio: ['ignore', 'pipe', 'pipe'] });
  const r = { child, out: '', err: '' };
  child.stdout.on('data', (d) => { r.out += d; });
  child.stderr.on('data', (d) => { r.err += d; });
  const timer = setTimeout(() => child.kill('SIGKILL'), patience);
  r.ended = new Promise((done) => child.on('close', (code) => { clearTimeout(timer); r.code = code; done(r); }));
  return r;
}
const run = (home, args, env) => start(home, args, env).ended;
const hubDir = (home, repo = 'org/Big-GGUF') => path.join(home, '.cache/huggingface/hub', `models--${repo.replace('/', '--')}`);
const pullBig = (home, env) => run(home, ['pull', 'hf:org/Big-GGUF:Big-F32'], env);
const isRight = (r, file = big) => { same(r.code, 0, r.err); must(fs.readFileSync(r.out.split('\n')[0]).equals(fs.readFileSync(file)), 'other bytes'); };
const says = (r, code, what) => { must(what.test(r.err), `${r.code}: ${r.err}`); same(r.code, code, r.err); };
const data = () => h.seen.filter((q) => q.where === 'cdn');
const chunks = () => data().filter((q) => q.range !== 'bytes=0-2097151'); // without the header

await test('the header is enough for a plan', async () => {
  const l = await hub({ 'org/L-GGUF': { [llama]: stretched(llama) }, 'org/K-GGUF': Object.fromEntries(kimi.map((f) => [`UD-IQ3_XXS/${f}`, stretched(f)])) }, { checksums: false });
  const home = fresh(), rig = 'tests/fixtures/rigs/8gpu-5090-4090-a40-a6000.json';
  for (const [name, file] of [[`hf:org/L-GGUF:Q4_K_M`, llama], ['hf:org/K-GGUF:IQ3_XXS', kimi[0]], [`${l.url}/org/L-GGUF/blob/main/${llama}`, llama]]) {
    const before = l.sent;
    const far = await run(home, ['plan', '--json', '--machine', rig, name], l.env), near = await run(home, ['plan', '--json', '--machine', rig, stretched(file)]);
    same(far.code, 0, far.err);
    const plain = (text) => { const p = JSON.parse(text); delete p.ms; delete p.search; return p.devices ?? p; };
    same(plain(far.out), plain(near.out), 'the same plan');
    must(l.sent - before < 0.02 * fs.statSync(stretched(llama)).size, `${l.sent - before} bytes read`);
  }
  same(l.seen.filter((q) => q.where === 'cdn').length, 10, 'one range for each file, and none a second time');
  const held = path.join(home, '.cache/vram-llm/headers/127.0.0.1/org--L-GGUF', l.commit, llama);
  const st = fs.statSync(held);
  must(st.size === fs.statSync(stretched(llama)).size && st.blocks * 512 < 8 << 20, 'a header in a file of its length');
  l.close();
});

await test('a repository is compared', async () => {
  const r = await run(fresh(), ['plan', '--json', ...cards, 'hf:org/Big-GGUF']);
  same(r.code, 0, r.err);
  const all = JSON.parse(r.out);
  same([all.repository, all.commit, all.best], ['hf:org/Big-GGUF', h.commit, 'Big-F32']);
  same(all.models.map((m) => [m.name, m.fits]), [['Big-Q8_0', true], ['Other-F32', true], ['Big-F32', true]]);
  must(all.models.every((m) => m.decode_tok_s > 0 && m.largest_n_ctx > 0 && m.devices.length), r.out);
  const text = await run(fresh(), ['plan', ...cards, 'hf:org/Big-GGUF']);
  must(/^model +size +quant +fits +tokens\/s/m.test(text.out) && /Big-F32 is the largest that runs on the GPUs alone: vram-llm serve hf:org\/Big-GGUF:Big-F32 downloads/.test(text.out), text.out);
  const none = await run(fresh(), ['plan', '--machine', machine(60), '--ram-mib', '10', 'hf:org/Big-GGUF']);
  must(/None of them fits/.test(none.out), none.out);
});

await test('models: of a repository, one of them, a URL', async () => {
  const home = fresh(), all = JSON.parse((await run(home, ['models', '--json', ...cards, 'hf:org/Big-GGUF'])).out);
  same(all.models.map((m) => m.name), ['Big-Q8_0', 'Other-F32', 'Big-F32']);
  const one = await run(home, ['models', ...cards, 'hf:org/Big-GGUF:Big-F32']);
  must(one.code === 0 && /^Big-F32 /m.test(one.out) && !/Other/.test(one.out) && /^vram-llm serve hf:org\/Big-GGUF:Big-F32 downloads it \([\d.]+ MiB\) and runs it\.$/m.test(one.out), one.err + one.out);
  const url = `${h.url}/plain/One-F32.gguf?download=1`, far = await run(home, ['models', ...cards, url]);
  must(far.code === 0 && /^One-F32 /m.test(far.out) && far.out.includes(`\nvram-llm serve ${url} downloads `), far.err + far.out);
  const small = await run(home, ['models', '--machine', machine(60), '--ram-mib', '10', url]);
  must(/^It does not fit\.$/m.test(small.out), small.out);
  says(await run(home, ['models', 'llama']), 2, /lists all models on this computer, or those at hf:OWNER\/NAME or a URL; .*'vram-llm plan llama'/);
  says(await run(home, ['models', 'hf:org/Big-GGUF', 'hf:org/One-GGUF']), 2, /unexpected argument 'hf:org\/One-GGUF': 'models' takes one model/);
});

await test('pull: the layout of the hub, the right bytes, parallel ranges; nothing twice', async () => {
  const home = fresh(), first = await pullBig(home);
  isRight(first);
  must(/ downloading Big-F32 \([\d.]+ MiB\) from 127\.0\.0\.1$/m.test(first.err), first.err);
  const link = path.join(hubDir(home), 'snapshots', h.commit, 'Big-F32.gguf');
  same(fs.readlinkSync(link), `../../blobs/${sha256(big)}`);
  same(fs.readFileSync(path.join(hubDir(home), 'refs/main'), 'utf8'), h.commit);
  same(fs.readdirSync(path.join(hubDir(home), 'blobs')), [sha256(big)], 'nothing is left over');
  must(chunks().length > 4, 'ranges');
  same(h.seen.filter((q) => /resolve/.test(q.path)).length, 2, 'the way is asked for once for the header, once for the file');
  h.reset();
  const again = await pullBig(home);
  isRight(again);
  same(data().length, 0, 'it is there');
  must(!/downloading/.test(again.err) && /Big-F32 was downloaded before$/m.test(again.err), again.err);
  const list = JSON.parse((await run(home, ['models', '--json', ...cards])).out).models;
  same(list.map((m) => [m.id, m.source]), [['org/Big-GGUF/Big-F32', 'Hugging Face']]);
  const sub = await run(home, ['pull', '--json', 'hf:org/Big-GGUF:sub/Other-F32.gguf']);
  same(sub.code, 0, sub.err);
  must(fs.readFileSync(JSON.parse(sub.out).path).equals(fs.readFileSync(small)), 'in a folder of the repository');
  const page = await run(fresh(), ['pull', `${h.url}/org/One-GGUF`]);
  isRight(page, small);
});

await test('a vision projector comes along', async () => {
  const home = fresh(), r = await run(home, ['pull', 'hf:org/Seer-GGUF']);
  isRight(r, seer);
  must(fs.readFileSync(r.out.split('\n')[1]).equals(fs.readFileSync(mmproj)), 'mmproj');
  const alone = await run(fresh(), ['pull', 'hf:org/Seer-GGUF:F32', '--mmproj', 'none']);
  same(alone.out.trim().split('\n').length, 1);
  isRight(await run(fresh(), ['pull', 'hf:org/Seer-GGUF:mmproj-F16.gguf']), mmproj);
  const seen = await run(fresh(), ['plan', '--json', ...cards, 'hf:org/Seer-GGUF:F32', '--mmproj', 'hf:org/Seer-GGUF:mmproj-F16']);
  must(seen.code === 0 && /mmproj/.test(seen.out), seen.err);
});

await test('a token goes to the hub and to nobody else', async () => {
  const home = fresh();
  isRight(await pullBig(home, { HF_TOKEN: 'hf_secret' }));
  must(h.seen.filter((q) => q.where === 'hub').every((q) => q.token === 'Bearer hf_secret'), 'the hub sees it');
  must(data().length && data().every((q) => q.token === null), 'another host does not');
  h.reset();
  const kept = path.join(home, '.cache/huggingface/token');
  fs.writeFileSync(kept, 'hf_kept\n');
  await run(home, ['plan', ...cards, 'hf:org/One-GGUF']);
  same(h.seen[0].token, 'Bearer hf_kept');
  says(await run(home, ['plan', 'hf:org/One-GGUF'], { HF_TOKEN: 'a\r\nX: y' }), 2, /HF_TOKEN is not a token/);
});

// What a hub may do in the middle of it, and the bytes are right all the same.
for (const [name, on, env] of [
  ['signed URLs expire', (q) => { if (q.where === 'cdn' && q.n === 6) for (let i = 0; i < h.n_signed; i++) h.expired.add(i); }],
  ['connections are cut', (q) => q.where === 'cdn' && q.n < 20 ? { cut: 300000 } : {}],
  ['connections are cut before the first byte', (q) => q.where === 'cdn' && q.n % 3 === 0 ? { cut: 0 } : {}],
  ['429 with Retry-After', (q) => q.n === 0 || q.n === 5 ? { status: 429, headers: { 'retry-after': '1' } } : {}],
  ['503 now and then', (q) => q.n % 4 === 3 ? { status: 503 } : {}],
  ['silence', (q) => q.where === 'cdn' && (q.n === 3 || q.n === 5) ? { stall: 100000 } : {}, { HF_HUB_DOWNLOAD_TIMEOUT: '1' }],
  ['redirects to a redirect', (q) => q.where === 'hub' && /resolve/.test(q.path) && !q.query ? { status: 307, headers: { location: `${q.path}?again=1` } } : {}],
]) await test(`right bytes: ${name}`, async () => {
  const home = fresh();
  h.on = on;
  isRight(await pullBig(home, env));
  if (h.expired.size) must(h.seen.filter((q) => /resolve/.test(q.path)).length > 2, 'the way was asked for again');
});

// And where they cannot be: a sentence, and nothing that looks complete.
const api = (q) => /^\/api\//.test(q.path), listing = (change) => (q) => api(q) ? { status: 200, body: JSON.stringify(change) } : {};
const file = (more = {}) => ({ rfilename: 'Big-F32.gguf', size, lfs: { sha256: sha256(big), size, pointerSize: 1, ...more } });
for (const [name, on, code, what, env] of [
  ['401', () => ({ status: 401 }), 2, /hf:org\/Big-GGUF: 127\.0\.0\.1: it is private or gated, or does not exist: set HF_TOKEN/],
  ['403', (q) => api(q) ? {} : { status: 403, headers: { 'x-error-message': 'Access to model is restricted' } }, 2, /Big-F32\.gguf: .*gated.*Access to model is restricted/],
  ['403 that writes to the terminal', (q) => api(q) ? {} : { status: 403, headers: { 'x-error-message': 'no\x80\xff\x9b31m' } }, 2, /Big-F32\.gguf: .*gated.*no\?\?\?31m/],
  ['404', () => ({ status: 404 }), 2, /it does not exist there/],
  ['429 for hours', () => ({ status: 429, headers: { 'retry-after': '7200' } }), 5, /status 429; it asks to wait 7200 seconds/],
  ['429 for ever', () => ({ status: 429 }), 5, /status 429; gave up after 6 tries/],
  ['wrong length', (q) => q.where === 'cdn' ? { length: size + 5 } : {}, 5, /has [\d,]+ bytes of it, but [\d,]+ were expected/],
  ['shorter than it says', (q) => q.where === 'cdn' && q.range === 'bytes=0-2097151' ? {} : q.where === 'cdn' ? { cut: 10 } : {}, 5, /gave up after 6 tries/],
  ['wrong checksum', (q) => q.where === 'cdn' ? { bytes: (b, at) => { if (at <= 3000000 && at + b.length > 3000000) b[3000000 - at] ^= 1; return b; } } : {}, 3, /its checksum is .* but it should be .*: the download was damaged and has been removed/],
  ['other ranges', (q) => q.where === 'cdn' && q.range !== 'bytes=0-2097151' ? { status: 206, headers: { 'content-range': `bytes 0-9/${size}` }, body: '0123456789' } : {}, 5, /sent a different range of bytes from the one requested/],
  ['no ranges', (q) => q.where === 'cdn' ? { whole: true } : {}, 5, /cannot send parts of a file/],
  ['a loop of redirects', (q) => /resolve/.test(q.path) ? { status: 302, headers: { location: q.path } } : {}, 5, /too many redirects/],
  ['a redirect into the clear', (q) => /resolve/.test(q.path) ? { status: 302, headers: { location: 'http://192.0.2.1/x' } } : {}, 2, /http:\/\/192\.0\.2\.1 would send/],
  ['a redirect elsewhere', (q) => /resolve/.test(q.path) ? { status: 302, headers: { location: 'file:///etc/passwd' } } : {}, 2, /not a URL that can be fetched/],
  ['a page instead of a list', () => ({ status: 200, body: '<html>' }), 3, /is not a list of files/],
  ['a list with a way out', listing({ sha: 'c'.repeat(40), siblings: [{ ...file(), rfilename: '../../../evil.gguf' }] }), 3, /whose name cannot be used/],
  ['a list without checksums', listing({ sha: 'c'.repeat(40), siblings: [{ rfilename: 'Big-F32.gguf' }] }), 3, /the length and checksum/],
  ['a commit with a way out', listing({ sha: '../../..', siblings: [file()] }), 3, /is not a list of files/],
  ['a list without models', listing({ sha: 'c'.repeat(40), siblings: [] }), 2, /has no GGUF files/],
  ['more than the disk has', (q) => api(q) ? { status: 200, body: JSON.stringify({ sha: 'c'.repeat(40), siblings: [file({ size: 2 ** 43 })] }) } : q.where === 'cdn' ? { length: 2 ** 43 } : /resolve/.test(q.path) ? {} : {}, 5, /the disk has .* free, but .* are still to come/],
  ['a header that is none', (q) => q.where === 'cdn' ? { bytes: (b) => b.fill(65) } : {}, 3, /Big-F32\.gguf: .*not a GGUF file/],
  ['nobody there', () => ({}), 5, /gave up after 6 tries/, { HF_ENDPOINT: 'http://127.0.0.1:1' }],
  ['the hub in the clear', () => ({}), 2, /--allow-http/, { HF_ENDPOINT: 'http://hub.invalid' }],
]) await test(`a sentence: ${name}`, async () => {
  const home = fresh();
  h.on = on;
  says(await pullBig(home, env), code, what);
  must(!fs.existsSync(path.join(hubDir(home), 'snapshots')), 'nothing looks complete');
  must(!fs.existsSync(path.join(home, 'evil.gguf')), 'nothing is written elsewhere');
});

await test('names', async () => {
  for (const [args, what] of [[['pull', 'hf:org/Big-GGUF'], /has 3 models; name one as hf:org\/Big-GGUF:QUANT.*Big-F32/], [['pull', 'hf:org/Big-GGUF:F32'], /may be any of 2 files; name one as hf:org\/Big-GGUF:FILE: /],
    [['analyze', 'hf:org/Big-GGUF:Q5_K_M'], /has no model called Q5_K_M; it has/], [['pull', 'hf:org'], /hf:OWNER\/NAME/], [['pull', 'hf:../x:y'], /hf:OWNER\/NAME/],
    [['pull', 'hf:org/x:../../y'], /hf:OWNER\/NAME/], [['pull', 'model.gguf'], /nothing to download/], [['plan', 'http://elsewhere.invalid/x.gguf'], /--allow-http/], [['plan', 'https://h/x'], /must end in the name of a \.gguf/]])
    says(await run(fresh(), args), 2, what);
});

await test('killed at any byte, it goes on there', async () => {
  const home = fresh(), blob = path.join(hubDir(home), 'blobs', sha256(big));
  for (let round = 0; round < 3; round++) {
    h.reset();
    h.on = (q) => q.where === 'cdn' && q.range !== 'bytes=0-2097151' ? { rate: 2e6 } : {};
    const before = round ? doneBytes(blob) : 0, p = start(home, ['pull', 'hf:org/Big-GGUF:Big-F32']);
    await eventually('bytes', () => fs.existsSync(`${blob}.vram-llm-state`) && doneBytes(blob) > before + 300000);
    if (round === 1) says(await run(home, ['pull', 'hf:org/Big-GGUF:Big-F32']), 5, /another process is downloading it/);
    p.child.kill('SIGKILL');
    await p.ended;
  }
  const there = doneBytes(blob);
  must(there > 900000 && there < size, `${there} of ${size}`);
  h.reset();
  isRight(await pullBig(home));
  const asked = data().map((q) => /bytes=(\d+)-(\d+)/.exec(q.range)).reduce((sum, m) => sum + Number(m[2]) - Number(m[1]) + 1, 0);
  same(asked, size - there, 'only what was missing, to the byte');
});
function doneBytes(blob) { // the state: 256 bytes, then how much of each chunk is there
  const b = fs.readFileSync(`${blob}.vram-llm-state`);
  let sum = 0;
  for (let at = 256; at + 4 <= b.length; at += 4) sum += b.readUInt32LE(at);
  return sum;
}

await test('a URL anywhere', async () => {
  const home = fresh(), url = `${h.url}/plain/Big-F32.gguf?download=1`;
  const r = await run(home, ['pull', url]);
  isRight(r);
  must(r.out.startsWith(path.join(home, '.local/share/vram-llm/models/127.0.0.1/')), r.out);
  const list = JSON.parse((await run(home, ['models', '--json', ...cards])).out).models;
  same(list.map((m) => [m.name, m.source]), [['Big-F32', 'vram-llm']]);
  h.reset();
  same((await run(home, ['plan', ...cards, url])).code, 0);
  same(h.seen.length, 0, 'what is here is not asked for');
  let n = 0;
  const other = fresh();
  h.on = () => ({ etag: `"v${n++ < 2 ? 1 : 2}"` });
  says(await run(other, ['pull', url]), 5, /the file changed on the server while it was being fetched/);
  h.reset();
  h.on = () => ({ etag: '"v2"' });
  isRight(await run(other, ['pull', url]));
});

await test('TLS', async () => {
  const key = path.join(dir, 'key.pem'), cert = path.join(dir, 'cert.pem');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=hub', '-addext', 'subjectAltName=IP:127.0.0.1,IP:127.0.0.2'], { stdio: 'ignore' });
  const s = await hub({ 'org/One-GGUF': { 'One-F32.gguf': big } }, { tls: { key: fs.readFileSync(key), cert: fs.readFileSync(cert) } });
  says(await run(fresh(), ['pull', 'hf:org/One-GGUF'], s.env), 5, /127\.0\.0\.1: .*certificate/i);
  isRight(await run(fresh(), ['pull', 'hf:org/One-GGUF'], { ...s.env, CURL_CA_BUNDLE: cert }));
  s.on = (q) => /resolve/.test(q.path) ? { status: 302, headers: { location: `${h.url}/plain/One-F32.gguf` } } : {};
  says(await run(fresh(), ['pull', 'hf:org/One-GGUF'], { ...s.env, CURL_CA_BUNDLE: cert }), 5, /redirects from https to http/);
  s.close();
});

await test('a proxy is asked, but for hosts that need none', async () => {
  const asked = [];
  const proxy = http.createServer((req, res) => {
    asked.push(new URL(req.url).host);
    http.request(req.url, { headers: req.headers }, (from) => { res.writeHead(from.statusCode, from.headers); from.pipe(res); }).on('error', () => res.destroy()).end();
  });
  await new Promise((up) => proxy.listen(0, '127.0.0.1', up));
  const env = { no_proxy: '', NO_PROXY: '', http_proxy: `http://127.0.0.1:${proxy.address().port}` };
  isRight(await pullBig(fresh(), env));
  same([asked.length, ...new Set(asked)], [h.seen.length, new URL(h.url).host, new URL(h.cdn).host], 'for all of it');
  asked.length = 0;
  isRight(await pullBig(fresh(), { ...env, no_proxy: new URL(h.cdn).hostname }));
  same([...new Set(asked)], [new URL(h.url).host], 'not for one of them');
  proxy.closeAllConnections();
  proxy.close();
  says(await pullBig(fresh(), env), 5, /gave up after 6 tries/);
});

await test('serve: if it would fit, it is downloaded; then nobody is asked', async () => {
  const home = fresh(), env = state(home);
  const k = await hub({ 'org/K-GGUF': Object.fromEntries(kimi.map((f) => [f, stretched(f)])) }, { checksums: false });
  says(await run(home, ['serve', '--machine', 'tests/fixtures/rigs/3060-12g-64g-ram.json', '--port', '0', 'hf:org/K-GGUF'], k.env), 4, /does not fit.*nothing was downloaded/);
  same(k.seen.filter((q) => q.where === 'cdn').length, kimi.length, 'headers alone');
  k.close();
  for (let i = 0; i < 2; i++) {
    const s = await up('hf:org/Seer-GGUF:F32', [...cards, '--n-ctx', '512'], env);
    const r = await s.post('/v1/completions', { prompt: 'a', max_tokens: 4, ignore_eos: true });
    same(r.usage.completion_tokens, 4);
    await s.stop();
    h.reset();
    if (i) same(h.seen.length, 0, 'the second time');
    h.on = () => ({ status: 500 });
  }
});

h.close();
done('remote');

// A stand-in for the hub: its API, redirects to another host with signed URLs, ranges; and every way in which it can go wrong.
//
//   const h = await hub({ 'org/Tiny-GGUF': { 'Tiny-Q4_K_M.gguf': '/path', ... } });
//   h.env       the environment in which programs ask it
//   h.seen      requests so far: { where: 'hub' | 'cdn', path, range, token }
//   h.on = (q) => ...   called before each answer; what it returns changes it:
//      { status, headers, body }   this instead          { cut: n }        the connection ends after n bytes of the body
//      { stall: n }   n bytes, then silence              { length: n }     the whole file is said to be n bytes long
//      { bytes: fn }  other bytes                        { etag }          another version
//      { whole: true } ranges are not understood         { rate: n }       bytes per second, about
//      { link: n }    the same, for all connections together
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';

export const sha256 = (file) => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');

const listen = (server, host) => new Promise((done) => server.listen(0, host, () => done(server.address().port)));

export async function hub(repositories, { commit = 'c'.repeat(40), token, tls, checksums = true } = {}) {
  const h = { seen: [], on: () => { }, commit, expired: new Set(), n_signed: 0, sent: 0 };
  const list = {};
  for (const [name, files] of Object.entries(repositories))
    list[name] = Object.entries(files).map(([path, file]) => ({ path, file, size: fs.statSync(file).size, sha: checksums ? sha256(file) : crypto.createHash('sha256').update(name + path).digest('hex') }));

  const answer = (res, status, headers = {}, body = '') => { res.writeHead(status, { 'content-length': Buffer.byteLength(body), ...headers }); res.end(body); };

  async function send(req, res, file, size, change) {
    const want = change.whole ? null : /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? '');
    const total = change.length ?? size;
    let first = want ? Number(want[1]) : 0, last = want?.[2] ? Math.min(Number(want[2]), total - 1) : total - 1;
    if (first >= total) return answer(res, 416, { 'content-range': `bytes */${total}` });
    const n = Math.min(last, size - 1) - first + 1;
    const headers = { 'content-length': Math.max(n, 0), etag: change.etag ?? '"v1"', 'accept-ranges': 'bytes' };
    if (want) headers['content-range'] = `bytes ${first}-${last}/${total}`;
    res.writeHead(want ? 206 : 200, headers);
    res.flushHeaders();
    const stop = change.cut ?? change.stall ?? Infinity;
    let at = first, left = Math.min(n, stop);
    const fd = await fs.promises.open(file);
    try {
      const block = Buffer.allocUnsafe(change.rate ? Math.max(1, Math.floor(change.rate / 20)) : 1 << 20);
      while (left > 0 && !res.destroyed) {
        const { bytesRead } = await fd.read(block, 0, Math.min(block.length, left), at);
        if (!bytesRead) break;
        const copy = Buffer.from(block.subarray(0, bytesRead)), data = change.bytes ? change.bytes(copy, at) : copy;
        if (!res.write(data) && !res.destroyed) await new Promise((done) => { const go = () => { res.off('drain', go); res.off('close', go); done(); }; res.on('drain', go); res.on('close', go); });
        if (change.rate) await new Promise((done) => setTimeout(done, 50));
        if (change.link) { // each block has its time on the line
          h.free = Math.max(performance.now(), h.free ?? 0) + 1000 * bytesRead / change.link;
          await new Promise((done) => setTimeout(done, h.free - performance.now()));
        }
        at += bytesRead, left -= bytesRead, h.sent += bytesRead;
      }
    } finally { await fd.close(); }
    if (change.cut !== undefined && n > change.cut) return res.destroy();
    if (change.stall !== undefined && n > change.stall) return;
    res.end();
  }

  async function handle(where, req, res) {
    const url = new URL(req.url, 'http://x'), path = decodeURIComponent(url.pathname);
    const q = { where, path, range: req.headers.range ?? null, token: req.headers.authorization ?? null, query: url.search, n: h.seen.length };
    h.seen.push(q);
    const change = await h.on(q) ?? {};
    if (change.status) return answer(res, change.status, change.headers, change.body);
    if (where === 'cdn') {
      const [, id, file] = /^\/blob\/(\d+)\/(.*)$/.exec(path) ?? [];
      const f = Object.values(list).flat().find((x) => x.sha === file);
      if (!f || h.expired.has(Number(id))) return answer(res, 403, {}, 'Request has expired');
      return send(req, res, f.file, f.size, change);
    }
    if (token && req.headers.authorization !== `Bearer ${token}`) return answer(res, 401, { 'x-error-message': 'Invalid credentials' }, 'no');
    let m = /^\/api\/models\/([^/]+\/[^/]+)\/revision\/main$/.exec(path);
    if (m) {
      const files = list[m[1]];
      if (!files) return answer(res, 404, {}, '{"error":"Repository not found"}');
      return answer(res, 200, { 'content-type': 'application/json' }, JSON.stringify({
        id: m[1], sha: h.commit, siblings: [{ rfilename: 'README.md', size: 10, blobId: 'a'.repeat(40) },
          ...files.map((f) => ({ rfilename: f.path, size: f.size, blobId: 'b'.repeat(40), lfs: { sha256: f.sha, size: f.size, pointerSize: 134 } }))],
      }));
    }
    m = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.*)$/.exec(path);
    const f = m && list[m[1]]?.find((x) => x.path === m[3]);
    if (!f) { // a file that is no repository's: /plain/FILE
      const plain = /^\/plain\/(.*)$/.exec(path), p = plain && Object.values(list).flat().find((x) => x.path === plain[1]);
      return p ? send(req, res, p.file, p.size, change) : answer(res, 404, {}, 'Entry not found');
    }
    answer(res, 302, { location: `${h.cdn}/blob/${h.n_signed++}/${f.sha}?signature=${'s'.repeat(500)}`, 'x-linked-etag': `"${f.sha}"`, 'x-linked-size': f.size, 'x-repo-commit': h.commit });
  }

  const make = (where) => {
    const on = (req, res) => handle(where, req, res).catch(() => res.destroy());
    return tls ? https.createServer(tls, on) : http.createServer(on);
  };
  const servers = [make('hub'), make('cdn')];
  const [a, b] = [await listen(servers[0], '127.0.0.1'), await listen(servers[1], '127.0.0.2')];
  h.url = `${tls ? 'https' : 'http'}://127.0.0.1:${a}`;
  h.cdn = `${tls ? 'https' : 'http'}://127.0.0.2:${b}`;
  h.env = { HF_ENDPOINT: h.url, HF_TOKEN: '', HF_HUB_DOWNLOAD_TIMEOUT: '', no_proxy: '*' };
  h.close = () => { for (const s of servers) { s.closeAllConnections(); s.close(); } };
  h.reset = () => { h.seen.length = 0; h.on = () => { }; h.expired.clear(); h.sent = 0; };
  return h;
}

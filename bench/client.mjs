// A client for benches: one request, its answer or how it ended, from any address of the loopback network, and nothing that throws.
import http from 'node:http';

export const now = () => performance.now();
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const sorted = (all) => [...all].sort((a, b) => a - b);
// nearest rank: of few samples the 99th percentile is the largest
export const at = (all, q) => (all.length ? sorted(all)[Math.max(0, Math.ceil(q * all.length) - 1)] : 0);
export const median = (all) => at(all, 0.5);

// Numbers that look random, and are the same for the same seed (mulberry32).
export function random(seed) {
  const next = () => {
    seed = (seed + 0x6D2B79F5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { next, below: (n) => Math.floor(next() * n), pick: (all) => all[Math.floor(next() * all.length)] };
}

// What an answer says of its failure: a status, or the error that ended a stream, in any API. Ollama's has a sentence and no code.
function failure(text) {
  const event = /^\{"error"|^\{"type":"error"/.test(text) ? text : /^(?:data: )?(\{(?:"type":"error","error"|"error").*)$/m.exec(text)?.[1];
  try { const { error } = JSON.parse(event); return typeof error === 'string' ? { code: 'error', message: error } : { code: error.code ?? error.type, message: error.message }; } catch { return {}; }
}

// {status, ms, text, code, message, cut}; status 0: no answer came. cut: who ended it early, 'client' after leave_ms or 'server'.
// piece(n, leave) is told of n more events of a stream, and may leave.
export function request({ port, from = '127.0.0.1', method = 'POST', path, body, headers = {}, leave_ms, agent, piece }) {
  const began = now();
  return new Promise((done) => {
    const r = { status: 0, ms: 0, text: '', cut: null };
    let timer = null, over = false;
    const end = (cut, error) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      Object.assign(r, { ms: now() - began, cut }, failure(r.text));
      if (error && !r.code) Object.assign(r, { code: error.code, message: error.message });
      done(r);
    };
    const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const sent = http.request({
      port, host: '127.0.0.1', localAddress: from, method, path, agent: agent ?? false,
      headers: { ...headers, ...(bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }) },
    });
    const leave = () => { end('client'); sent.destroy(); };
    if (leave_ms) timer = setTimeout(leave, leave_ms);
    sent.on('error', (e) => end(r.status ? 'server' : null, e));
    sent.on('response', (response) => {
      r.status = response.statusCode;
      response.setEncoding('latin1');
      response.on('data', (d) => {
        r.text = r.text.length < 1 << 20 ? r.text + d : r.text.slice(-4096) + d;
        const n = piece ? d.split('data: {').length - 1 : 0;
        if (n) piece(n, leave);
      });
      response.on('end', () => end(null));
      response.on('error', (e) => end('server', e));
      response.on('close', () => end('server'));
    });
    sent.end(bytes);
  });
}

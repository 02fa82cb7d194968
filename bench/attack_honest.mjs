// The clients who must not notice: eight streams that never end, somebody who sends short requests one after the other (chat, schema,
// tools), somebody who asks for /health every 10 ms. Each has an address of its own.
//
// A pause or a wait counts without what this process itself was late: a heartbeat every 10 ms says when nobody here got a processor.
import http from 'node:http';
import { at, median, now, request, sleep } from './client.mjs';

const STREAMS = 8, BEAT_MS = 10, PROBE_MS = 10;
const say = (content, more) => ({ messages: [{ role: 'user', content }], ...more });
const person = { type: 'object', properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 0, maximum: 120 } }, required: ['name', 'age'], additionalProperties: false };
const kinds = {
  chat: (i) => say(`${i} hello`, { max_tokens: 8 }),
  schema: (i) => say(`${i} who is it?`, { max_tokens: 8, response_format: { type: 'json_schema', json_schema: { name: 'person', schema: person } } }),
  tools: (i) => say(`${i} what is the weather?`, { max_tokens: 8, tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] } } }] }),
};

export function honest(port) {
  const h = { normal: null };
  let on = true, lags = [], seen = null, serial = 0;
  const open = new Set(); // requests without an answer yet
  const streams = Array.from({ length: STREAMS }, () => ({ last: null, began: null }));
  const late = (from, to) => lags.reduce((sum, l) => (l.at >= from && l.at <= to + BEAT_MS ? sum + l.ms : sum), 0);
  const took = (from, to) => Math.max(0, to - from - late(from, to));

  let beat = now();
  const heart = setInterval(() => {
    const t = now();
    if (t - beat > 2 * BEAT_MS) lags.push({ at: t, ms: t - beat - BEAT_MS });
    beat = t;
  }, BEAT_MS);

  const fresh = () => ({ from: now(), gaps: [], waits: [], health: [], refused: [], answered: new Set(), moved: new Set() });
  const refused = (kind, r) => { if (on) seen.refused.push({ kind, status: r.status, code: r.code ?? r.cut, message: r.message ?? '' }); };

  async function stream(k) {
    const s = streams[k];
    while (on) {
      s.began = now();
      s.last = null;
      const r = await request({
        port, from: `127.0.1.${k + 1}`, path: '/v1/chat/completions',
        body: say(`${serial++} tell me a story`, { stream: true, max_tokens: 1500, ignore_eos: true }),
        piece: (n, leave) => {
          const t = now();
          if (s.last === null) seen.waits.push({ kind: 'stream', ms: took(s.began, t) });
          else seen.gaps.push(took(s.last, t));
          s.last = t;
          seen.moved.add(k);
          if (!on) leave();
        },
      });
      if (r.status !== 200 || r.code || !r.text.includes('[DONE]')) { refused('stream', r); await sleep(50); }
    }
  }
  async function short() {
    for (let i = 0; on; i++) {
      const kind = Object.keys(kinds)[i % 3], began = { kind, at: now() };
      open.add(began);
      const r = await request({ port, from: '127.0.1.20', path: '/v1/chat/completions', body: kinds[kind](serial++) });
      open.delete(began);
      if (r.status !== 200) { refused(kind, r); await sleep(50); continue; }
      seen.waits.push({ kind, ms: took(began.at, now()) });
      if (began.at >= seen.from) seen.answered.add(kind);
    }
  }
  async function probe() {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    while (on) {
      const began = { kind: 'health', at: now() };
      open.add(began);
      const r = await request({ port, from: '127.0.1.30', method: 'GET', path: '/health', agent });
      open.delete(began);
      seen.health.push(took(began.at, now()));
      if (r.status !== 200) refused('/health', r);
      await sleep(PROBE_MS);
    }
    agent.destroy();
  }

  // What was seen since mark(). What has not ended yet counts as long as it lasts.
  h.mark = () => { lags = lags.filter((l) => l.at > now() - 60000); seen = fresh(); };
  h.report = () => {
    const t = now(), waits = [...seen.waits], health = [...seen.health], gaps = [...seen.gaps];
    for (const o of open) (o.kind === 'health' ? health : waits).push(o.kind === 'health' ? took(o.at, t) : { kind: o.kind, ms: took(o.at, t) });
    for (const s of streams) if (s.last === null) waits.push({ kind: 'stream', ms: took(s.began, t) }); else gaps.push(took(s.last, t));
    const extra = waits.map((w) => w.ms - (h.normal?.[w.kind] ?? 0));
    return {
      pause_ms: Math.max(0, at(gaps, 1) - (h.normal?.gap ?? 0)), wait_ms: Math.max(0, at(extra, 1)), n_waits: waits.length,
      health: { p50: at(health, 0.5), p99: at(health, 0.99), max: at(health, 1), n: health.length }, refused: seen.refused, gaps, waits,
    };
  };
  // Whether everybody got something that was asked for after the mark.
  h.served = () => seen.moved.size === STREAMS && seen.answered.size === Object.keys(kinds).length;
  h.settle = async (ms) => {
    for (const end = now() + ms; !h.served() && now() < end;) await sleep(20);
    return h.served();
  };
  // Everybody alone with the server: what is normal.
  h.learn = async (ms) => {
    const enough = () => Object.keys(kinds).every((kind) => seen.waits.filter((w) => w.kind === kind).length >= 3);
    h.mark();
    await sleep(ms);
    for (const end = now() + 60000; !enough() && now() < end;) await sleep(20);
    const { gaps, waits } = h.report();
    h.normal = { gap: median(gaps) };
    for (const kind of [...Object.keys(kinds), 'stream']) h.normal[kind] = median(waits.filter((w) => w.kind === kind).map((w) => w.ms));
    h.normal.stream ||= h.normal.chat; // streams last longer than this
    return h.normal;
  };
  h.stop = () => { on = false; clearInterval(heart); };
  h.mark();
  streams.forEach((_, k) => stream(k));
  short();
  probe();
  return h;
}

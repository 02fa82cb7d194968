// What the server does right now: tokens per second, devices, slots, the log. Fed by the events of api/live.
import { count, duration, fill, h, rate, shortName, size, svg } from './dom.js';
import { figure, nodeOf, usedBytes } from './plan.js';

const SECONDS = 300, LINES = 200;
const W = 600, H = 150; // of the chart, stretched to its box

// A round number at or above n: 1, 2, 5, 10, 20, 50 ...
function niceTop(n) {
  const base = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 2, 5, 10].map((k) => k * base).find((k) => k >= n);
}

const meterBar = (label, parts, whole) => h('div', { class: 'bar thin', role: 'img', 'aria-label': label },
  parts.map(([kind, n]) => h('span', { class: `seg k-${kind}`, style: { width: `${Math.max(0, Math.min(100, (n / whole) * 100))}%` } })));

export class Live {
  constructor(root) {
    this.text = [];
    this.prompt = [];
    this.lines = [];
    this.plan = null;
    this.figures = h('dl', { class: 'figures' });
    this.chart = h('div', { class: 'chart' });
    this.devices = h('ul', { class: 'devices live-devices' });
    this.slots = h('ul', { class: 'slots' });
    this.log = h('ol', { class: 'log', tabindex: '0', role: 'log', 'aria-label': 'Recent log lines', 'aria-live': 'off' });
    this.engine = h('p', { class: 'muted' });
    fill(root,
      h('div', { class: 'title' }, h('h1', {}, 'Live'), this.engine),
      this.figures,
      h('div', { class: 'card' }, h('h3', {}, 'Tokens per second, last five minutes'), this.chart),
      h('div', { class: 'columns' },
        h('div', { class: 'card' }, h('h3', {}, 'Devices'), this.devices),
        h('div', { class: 'card' }, h('h3', {}, 'Slots'), this.slots)),
      h('div', { class: 'card' }, h('h3', {}, 'Log'), this.log));
  }

  shown() { if (this.now) this.paint(); }
  setPlan(plan) { this.plan = plan; }

  hello(now) {
    this.text = now.history.text_tok_s;
    this.prompt = now.history.prompt_tok_s;
    this.lines = now.log;
    fill(this.log, this.lines.map((l) => this.line(l)));
    this.now = now;
    this.paint();
    this.log.scrollTop = this.log.scrollHeight;
  }

  tick(now) {
    this.text = [...this.text, now.rate.text_tok_s].slice(-SECONDS);
    this.prompt = [...this.prompt, now.rate.prompt_tok_s].slice(-SECONDS);
    const atEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 40;
    for (const l of now.log) this.log.append(this.line(l));
    while (this.log.childElementCount > LINES) this.log.firstChild.remove();
    if (atEnd && now.log.length) this.log.scrollTop = this.log.scrollHeight;
    this.now = now;
    if (!this.log.closest('[hidden]')) this.paint();
  }

  line({ ts, level, msg, ...fields }) {
    return h('li', { class: `log-${level}` },
      h('time', { datetime: ts }, new Date(ts).toLocaleTimeString('en-GB')), h('span', { class: 'log-level' }, level),
      h('span', { class: 'log-text' }, msg, Object.entries(fields).map(([k, v]) => h('span', { class: 'log-field' }, ` ${k}=${v}`))));
  }

  paint() {
    const now = this.now, e = now.engine;
    const again = [e.starts > 1 ? `started ${e.starts} times` : null, e.plans_again ? `replanned ${e.plans_again} time${e.plans_again > 1 ? 's' : ''}` : null];
    this.engine.textContent = [`Engine ${e.state}${e.state === 'ready' ? `, up ${duration(e.up_s)}` : ''}`, ...again, `server up ${duration(now.uptime_s)}`,
      `version ${now.version}`].filter(Boolean).join(' · ');
    fill(this.figures,
      figure('Token generation', rate(now.rate.text_tok_s), 'tok/s', now.stream_tok_s ? `per request: ${rate(now.stream_tok_s)}` : 'all requests together'),
      figure('Prompt processing', rate(now.rate.prompt_tok_s), 'tok/s', now.tokens.cached ? `${count(now.tokens.cached)} tokens from the prefix cache` : null),
      figure('Running', count(now.requests.in_flight), e.queued ? `, ${count(e.queued)} queued` : '', `${count(now.connections)} connection${now.connections === 1 ? '' : 's'}`),
      figure('Completed', count(now.requests.answered), '', `${count(now.tokens.text)} tokens${now.requests.cancelled ? `, ${count(now.requests.cancelled)} cancelled` : ''}`));
    this.paintChart();
    this.paintDevices();
    this.paintSlots();
  }

  paintChart() {
    const top = niceTop(Math.max(...this.text, ...this.prompt.map((p) => Math.min(p, 4 * Math.max(1, ...this.text))), 1));
    const x = (i, list) => W - (list.length - 1 - i) * (W / (SECONDS - 1)), y = (v) => H - Math.min(1, v / top) * (H - 6);
    const path = (list) => list.map((v, i) => `${i ? 'L' : 'M'}${x(i, list).toFixed(1)} ${y(v).toFixed(1)}`).join('');
    const area = this.text.length ? `${path(this.text)}L${W} ${H}L${x(0, this.text).toFixed(1)} ${H}Z` : '';
    const peak = Math.max(0, ...this.text);
    fill(this.chart,
      h('div', { class: 'chart-box' },
        svg('svg', { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `Tokens per second: now ${rate(this.text.at(-1) ?? 0)}, peak ${rate(peak)}` },
          [0.25, 0.5, 0.75].map((f) => svg('line', { class: 'grid', x1: 0, x2: W, y1: y(top * f), y2: y(top * f) })),
          svg('path', { class: 'chart-prompt', d: path(this.prompt) }), svg('path', { class: 'chart-area', d: area }), svg('path', { class: 'chart-text', d: path(this.text) })),
        h('span', { class: 'chart-top' }, count(top)), h('span', { class: 'chart-zero' }, '0')),
      h('div', { class: 'chart-foot' }, h('span', {}, '5 min ago'), h('span', { class: 'chart-keys' }, h('span', { class: 'key text' }, 'token generation'), h('span', { class: 'key prompt' }, 'prompt processing')), h('span', {}, 'now')));
  }

  paintDevices() {
    const meter = this.now.meter, rows = [];
    const planned = this.plan?.devices ?? [];
    const told = new Map((meter?.devices ?? []).map((d) => [d.id, d]));
    const isReal = (d) => told.get(d.id)?.name === d.name;
    for (const d of [...planned.filter((p) => !isReal(p)), ...told.values()]) {
      const real = told.get(d.id) === d;
      const total = (nodeOf(d) ? null : d.total_bytes) ?? d.free_bytes; // of a node, what it lends
      const used = real ? total - d.free_bytes : usedBytes(d);
      const facts = real ? [d.load_percent !== null ? `${d.load_percent} % busy` : null, d.temperature_c !== null ? `${d.temperature_c} °C` : null, d.power_w !== null ? `${d.power_w} W` : null]
        : nodeOf(d) ? [`lent by ${nodeOf(d)}`, d.link, 'planned use'] : ['virtual GPU, planned use'];
      rows.push(h('li', { class: 'device' },
        h('div', { class: 'device-head' }, h('span', { class: 'device-name' }, shortName(d.name)), h('span', { class: 'device-facts' }, [d.id, ...facts].filter(Boolean).join(' · '))),
        meterBar(`${size(used)} of ${size(total)} used`, [['l0', used], ['fr', total - used]], total),
        h('div', { class: 'device-nums' }, h('span', {}, h('b', {}, size(used)), ` of ${size(total)}`))));
    }
    if (meter?.host) {
      const { ram_total_bytes: total, ram_free_bytes: free, cpu_percent: cpu } = meter.host;
      rows.push(h('li', { class: 'device' },
        h('div', { class: 'device-head' }, h('span', { class: 'device-name' }, 'Host'), h('span', { class: 'device-facts' }, cpu === null ? 'RAM' : `CPU ${cpu} % busy`)),
        meterBar(`${size(total - free)} of ${size(total)} used`, [['h0', total - free], ['fr', free]], total),
        h('div', { class: 'device-nums' }, h('span', {}, h('b', {}, size(total - free)), ` of ${size(total)}`))));
    }
    fill(this.devices, rows.length ? rows : h('li', { class: 'muted' }, 'Waiting for the first reading …'));
  }

  // Guessed, accepted, gained.
  speculation(spec) {
    const { guessed, accepted } = this.now.tokens, kinds = { draft: 'draft model', mtp: 'MTP head', eagle3: 'EAGLE-3 head', dflash: 'DFlash head', dspark: 'DSpark head', assistant: 'Gemma 4 assistant', ngram: 'n-grams' };
    const gained = spec.gain > 1.005 ? `${spec.gain.toFixed(2)}x as fast as without it` : 'paused: it would not pay off';
    return h('li', { class: 'slot' },
      h('div', { class: 'device-head' }, h('span', { class: 'device-name' }, 'Speculative decoding'), h('span', { class: 'device-facts' }, `${kinds[spec.kind] ?? spec.kind} · ${gained}`)),
      meterBar(`${count(accepted)} of ${count(guessed)} drafted tokens accepted`, [['l1', accepted]], guessed || 1),
      h('div', { class: 'device-nums' }, h('span', {}, h('b', {}, count(accepted)), ` of ${count(guessed)} drafted tokens accepted`)));
  }

  paintSlots() {
    const { slots, n_ctx_seq: room, cache, spec } = this.now.engine;
    const doing = { idle: 'idle', prompt: 'processing the prompt', text: 'generating' };
    const rows = slots.map((s) => {
      const used = s.n_prompt + s.n_text;
      return h('li', { class: 'slot' },
        h('div', { class: 'device-head' }, h('span', { class: 'device-name' }, `Slot ${s.id}`), h('span', { class: 'device-facts' }, doing[s.state] ?? s.state)),
        meterBar(`${count(used)} of ${count(room)} tokens`, [['kv', s.n_prompt], ['l1', s.n_text]], room || 1),
        h('div', { class: 'device-nums' }, h('span', {}, h('b', {}, count(used)), ` of ${count(room)} tokens`)));
    });
    if (cache?.limit_bytes) {
      const facts = ['in host memory', `${count(cache.prompts)} prompt${cache.prompts === 1 ? '' : 's'}`, cache.checkpoints ? `${count(cache.checkpoints)} checkpoint${cache.checkpoints === 1 ? '' : 's'}` : null,
        cache.restored_tokens ? `${count(cache.restored_tokens)} tokens restored` : null];
      rows.push(h('li', { class: 'slot' },
        h('div', { class: 'device-head' }, h('span', { class: 'device-name' }, 'Prompt cache'), h('span', { class: 'device-facts' }, facts.filter(Boolean).join(' · '))),
        meterBar(`${size(cache.bytes)} of ${size(cache.limit_bytes)} of host memory`, [['h0', cache.bytes]], cache.limit_bytes),
        h('div', { class: 'device-nums' }, h('span', {}, h('b', {}, size(cache.bytes)), ` of ${size(cache.limit_bytes)}`))));
    }
    if (spec?.gain) rows.push(this.speculation(spec));
    fill(this.slots, rows.length ? rows : h('li', { class: 'muted' }, 'Slots appear with the first request.'));
  }
}

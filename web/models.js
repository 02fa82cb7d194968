// The models that are served: which are loaded, in which memory, and who would have to leave for another one. From api/models, asked again when the live
// events tell of a change.
import { get, post } from './api.js';
import { duration, fill, h, rate, sentence, shortName, size } from './dom.js';

const words = {
  unloaded: 'not loaded', queued: 'waiting to load', planning: 'planning', making_room: 'making room', loading: 'loading', ready: 'loaded', unloading: 'unloading',
  restarting: 'restarting', failed: 'failed',
};
const kinds = { ready: 'good', failed: 'bad', restarting: 'bad', unloaded: '' };
const COLOURS = 8, SLOWEST = 5; // seconds between two looks

export const isUp = (m) => !['unloaded', 'queued', 'failed'].includes(m.state);
export const stateWord = (m) => `${words[m.state] ?? m.state}${m.state === 'loading' && m.percent !== undefined ? ` ${m.percent} %` : ''}`;
// Not there, or on its way in or out, and no fault in that: a request brings it.
export const isOnDemand = (now, m) => !!m && (['unloaded', 'queued', 'making_room', 'unloading'].includes(m.state) || (m.state === 'planning' && now.models.length > 1));
const names = (list) => (list.length < 2 ? list.join('') : `${list.slice(0, -1).join(', ')} and ${list.at(-1)}`);

// What stands in the way of a model (src/fit/obstacles.def), a line for each kind; what the machine is too small for only the server's sentence tells.
const sum = (all) => all.reduce((n, o) => n + o.bytes, 0);
const lines = {
  busy: (all) => `${names(all.map((o) => o.model))} ${all.length > 1 ? 'are' : 'is'} busy (${size(sum(all))}) and will be unloaded when the answers are complete.`,
  loading: (all) => `${names(all.map((o) => o.model))} ${all.length > 1 ? 'are' : 'is'} being loaded (${size(sum(all))}).`,
  pinned: (all) => `${names(all.map((o) => o.model))} ${all.length > 1 ? 'are' : 'is'} pinned (${size(sum(all))}).`,
  not_freed: (all) => `${names(all.map((o) => `${size(o.bytes)} on ${o.device}`))} ${all.length > 1 ? 'are' : 'is'} still in use after the model there was unloaded.`,
};
function obstacles(reason, list = []) {
  const told = Object.keys(lines).map((kind) => [kind, list.filter((o) => o.kind === kind)]).filter(([, all]) => all.length);
  const whole = !told.length || list.some((o) => o.kind === 'too_large');
  return [whole && reason ? h('p', {}, sentence(reason)) : null, told.map(([kind, all]) => h('p', { 'data-kind': kind }, lines[kind](all)))];
}

export class Models {
  constructor(root) {
    this.root = root;
    this.plan = this.list = this.now = null;
    this.asked = new Map(); // id -> {busy} | {dry} | {error}: what stands below a model
    this.summary = h('p', { class: 'muted' });
    this.cards = h('ul', { class: 'devices' });
    this.legend = h('ul', { class: 'legend', 'aria-label': 'Colours' });
    this.memory = h('div', { class: 'card' }, h('h3', {}, 'Memory'), this.cards, this.legend);
    this.rows = h('ul', { class: 'served' });
    fill(root, h('div', { class: 'title' }, h('h1', {}, 'Models'), this.summary), this.memory, h('div', { class: 'card' }, this.rows));
  }

  shown() { this.refresh(); }
  setPlan(plan) { this.plan = plan; if (this.list) this.paint(); }

  setNow(now) {
    const states = JSON.stringify([now.model, now.models]);
    const due = states !== this.states || ++this.age >= SLOWEST;
    this.now = now;
    if (!due || this.root.hidden) return;
    this.states = states;
    this.refresh();
  }

  async refresh() {
    this.age = 0;
    try {
      this.list = await get('api/models');
    } catch (e) {
      this.summary.textContent = sentence(e.message);
      return;
    }
    this.paint();
  }

  // --- what people ask for ---

  async act(id, what, body, done) {
    this.asked.set(id, { busy: what });
    this.paint();
    try {
      const reply = await post(`api/models/${what}`, { model: id, ...body });
      this.asked.delete(id);
      done?.(reply);
    } catch (e) {
      this.asked.set(id, { error: e.message });
    }
    await this.refresh();
  }

  // What would have to leave is shown before; if nobody has to, it is loaded at once.
  load(id) {
    return this.act(id, 'load', { dry: true }, (dry) => {
      if (dry.fits && !dry.evict.length) this.act(id, 'load', {});
      else this.asked.set(id, { dry });
    });
  }

  // --- painting ---

  colour(id) { return `m-${this.list.served.findIndex((m) => m.id === id) % COLOURS}`; }

  // Every card: those of the plan that is shown, and those that only the meter knows.
  allCards() {
    const all = new Map();
    for (const d of [...(this.plan?.devices ?? []), ...(this.plan?.excluded ?? [])]) all.set(d.id, { id: d.id, name: d.name, total: d.total_bytes ?? d.free_bytes });
    for (const d of this.now?.meter?.devices ?? []) {
      const known = all.get(d.id);
      if (!known) all.set(d.id, { id: d.id, name: d.name, total: d.total_bytes, used: d.total_bytes - d.free_bytes });
      else if (known.name === d.name) known.used = d.total_bytes - d.free_bytes;
    }
    for (const m of this.list.served) for (const d of m.devices) if (!all.has(d.id)) all.set(d.id, { id: d.id, name: d.id, total: d.bytes });
    return [...all.values()].sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }));
  }

  bar(name, facts, total, parts, used) {
    const sum = parts.reduce((n, p) => n + p.bytes, 0), whole = Math.max(total, sum, 1);
    const other = used === undefined ? 0 : Math.max(0, used - sum);
    const leaving = new Set([...this.asked.values()].flatMap((a) => a.dry?.evict ?? [])); // if a load that is asked about came true
    const told = parts.map((p) => `${p.id} ${size(p.bytes)}`).join(', ') || 'no model';
    const segment = (kind, bytes, title) => h('span', { class: `seg ${kind}`, title, style: { width: `${(bytes / whole) * 100}%` } });
    return h('li', { class: 'device' },
      h('div', { class: 'device-head' }, h('span', { class: 'device-name' }, name), h('span', { class: 'device-facts' }, facts)),
      h('div', { class: 'device-bar' }, h('div', { class: 'bar models-bar', role: 'img', 'aria-label': `${name}: ${told}` },
        parts.map((p) => segment(`${this.colour(p.id)}${p.coming ? ' coming' : ''}${leaving.has(p.id) ? ' leaves' : ''} at-least`, p.bytes, `${p.id}: ${size(p.bytes)}${leaving.has(p.id) ? ', would be unloaded' : ''}`)),
        other > whole / 200 ? segment('k-ot', Math.min(other, whole - sum), `other processes: ${size(other)}`) : null,
        h('span', { class: 'seg k-fr rest', title: 'free' }))),
      h('div', { class: 'device-nums' }, h('span', {}, h('b', {}, size(sum)), ` of ${size(total)}`)));
  }

  paintMemory() {
    const { served } = this.list, cards = this.allCards(), host = this.now?.meter?.host;
    const on = (id) => served.flatMap((m) => m.devices.filter((d) => d.id === id).map((d) => ({ id: m.id, bytes: d.bytes, coming: m.state !== 'ready' })));
    const rows = cards.map((c) => this.bar(shortName(c.name), c.id, c.total, on(c.id), c.used));
    const inHost = served.filter((m) => m.host_bytes > 0).map((m) => ({ id: m.id, bytes: m.host_bytes, coming: m.state !== 'ready' }));
    if (host) rows.push(this.bar('Host memory', 'weights, caches and buffers', host.ram_total_bytes, inHost, host.ram_total_bytes - host.ram_free_bytes));
    fill(this.cards, rows.length ? rows : h('li', { class: 'muted' }, 'GPUs appear here once a model is loaded.'));
    const shown = served.filter((m) => m.devices.length || m.host_bytes);
    fill(this.legend, shown.map((m) => h('li', {}, h('span', { class: `swatch ${this.colour(m.id)}` }), m.id)),
      shown.length && this.now?.meter ? h('li', {}, h('span', { class: 'swatch k-ot' }), 'other processes') : null);
  }

  facts(m) {
    const where = m.devices.map((d) => `${size(d.bytes)} on ${d.id}`);
    if (m.host_bytes >= 1048576) where.push(`${size(m.host_bytes)} in host memory`);
    return [
      size(m.bytes), m.default ? 'default' : null, m.aliases.length ? `also called ${names(m.aliases)}` : null, where.length ? names(where) : null,
      m.running || m.waiting ? `${m.running} running${m.waiting ? `, ${m.waiting} waiting` : ''}` : m.last_used_s !== null ? `last used ${duration(m.last_used_s)} ago` : null,
      m.unload_in_s !== null ? `unloads in ${duration(m.unload_in_s)} if it stays idle` : null, m.load_s >= 0.05 ? `loads in ${m.load_s.toFixed(1)}\u00a0s` : null,
    ].filter(Boolean).join(' · ');
  }

  // What is asked about it: a load that others have to leave for, what went wrong, or that it is being looked at.
  below(m) {
    if (this.asked.get(m.id)?.dry && isUp(m)) this.asked.delete(m.id); // somebody else loaded it
    const asked = this.asked.get(m.id);
    if (asked?.error) return h('p', { class: 'error', role: 'alert' }, sentence(asked.error));
    if (asked?.busy) return h('p', { class: 'muted', role: 'status' }, asked.busy === 'load' ? 'Planning where it would go …' : 'Asking the server …');
    if (asked?.dry && !asked.dry.fits) return h('div', { class: 'error', role: 'alert' }, obstacles(asked.dry.reason, asked.dry.in_the_way));
    if (asked?.dry) {
      const busy = asked.dry.wait_for ?? [];
      const speed = asked.dry.plan?.predicted?.decode_tok_s;
      const close = () => { this.asked.delete(m.id); this.paint(); };
      return h('div', { class: 'ask-load', role: 'group', 'aria-label': `Load ${m.id}` },
        h('p', {}, `${names(asked.dry.evict)} will be unloaded to make room. `, asked.dry.devices.length ? `${m.id} takes ${names(asked.dry.devices.map((d) => `${size(d.bytes)} on ${d.id}`))}. ` : null,
          speed ? `Token generation, predicted: ${rate(speed)}\u00a0tok/s. ` : null,
          busy.length ? `${names(busy)} ${busy.length > 1 ? 'are' : 'is'} busy: running requests may finish first.` : null),
        h('button', { class: 'primary', type: 'button', on: { click: () => { close(); this.act(m.id, 'load', {}); } } }, `Unload ${names(asked.dry.evict)} and load`),
        h('button', { type: 'button', on: { click: close } }, 'Cancel'));
    }
    if (m.state === 'queued' && m.in_the_way?.length) return h('div', { class: 'muted', role: 'status' }, obstacles(m.trouble, m.in_the_way));
    if (m.trouble && m.state !== 'ready') return h('div', { class: 'error' }, obstacles(m.trouble, m.in_the_way), m.retry_in_s ? h('p', {}, `Next attempt in ${duration(m.retry_in_s)}.`) : null);
    if (m.leaves?.length) return h('p', { class: 'muted' }, `Waiting for ${names(m.leaves)} to be unloaded.`);
    return null;
  }

  row(m) {
    const on = this.list.on_demand && this.list.manage, up = isUp(m), busy = !!this.asked.get(m.id)?.busy;
    const button = (id, text, call, more = {}) => h('button', { type: 'button', class: 'small', 'data-act': `${id} ${m.id}`, disabled: busy, 'aria-label': `${text} ${m.id}`, on: { click: call }, ...more }, text);
    return h('li', { class: 'served-model' },
      h('div', { class: 'served-head' }, h('span', { class: `swatch ${up ? this.colour(m.id) : 'k-fr'}` }), h('span', { class: 'device-name' }, m.id), h('span', { class: `pill ${kinds[m.state] ?? 'busy'}` }, stateWord(m))),
      h('p', { class: 'device-facts' }, this.facts(m)),
      m.state === 'loading' ? h('progress', { max: '100', value: m.percent, 'aria-label': `Loading ${m.id}` }) : null,
      this.below(m),
      h('div', { class: 'served-acts' },
        up && this.list.served.length > 1 ? button('show', 'Show', () => { document.dispatchEvent(new CustomEvent('choose', { detail: m.id })); document.dispatchEvent(new CustomEvent('go', { detail: 'plan' })); }, { title: 'Show its plan, and switch Chat and Live to it' }) : null,
        on && !up && m.state !== 'queued' && !this.asked.get(m.id)?.dry?.fits ? button('load', 'Load', () => this.load(m.id)) : null,
        on && (up || m.state === 'queued') && !m.pinned && m.state !== 'unloading' ? button('unload', 'Unload', () => this.act(m.id, 'unload', {})) : null,
        on && !this.asked.get(m.id)?.dry?.fits ? button('pin', m.pinned ? 'Unpin' : 'Pin', () => this.act(m.id, 'pin', { pin: !m.pinned }), { title: m.pinned ? 'Allow it to be unloaded when other models need its memory' : 'Load it, and keep it loaded' }) : null,
        m.pinned ? h('span', { class: 'muted fine' }, 'pinned, stays loaded') : null));
  }

  paint() {
    const { served, on_demand: on } = this.list, up = served.filter((m) => m.state === 'ready').length;
    this.summary.textContent = served.length > 1 ? `${up} of ${served.length} loaded. A request for another model loads it${on ? '; idle models are unloaded when their memory is needed.' : '.'}`
      : 'One model is served, and it stays loaded. To serve several, start the server with more files, --models-dir or --preset.';
    this.paintMemory();
    const focus = document.activeElement?.dataset?.act;
    fill(this.rows, served.map((m) => this.row(m)));
    if (focus) [...this.rows.querySelectorAll('[data-act]')].find((b) => b.dataset.act === focus)?.focus();
  }
}

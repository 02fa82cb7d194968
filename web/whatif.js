// What if: other cards, another context, another model. Every change asks the server for the plan of it; the last one wins.
import { get, post } from './api.js';
import { count, debounce, fill, h, rate, sentence, shortName, size } from './dom.js';
import { figure, planBody, subtitle, together } from './plan.js';

const caches = ['f16', 'q8_0', 'q5_1', 'q4_0', 'bf16', 'f32'];
const rigs = [
  ['RTX 3060 12 GB', [['RTX 3060 12GB', 1]]],
  ['RTX 4090', [['RTX 4090', 1]]],
  ['2× RTX 3090', [['RTX 3090', 2]]],
  ['RTX 5090 + 2× RTX 3090', [['RTX 5090', 1], ['RTX 3090', 2]]],
  ['No GPU', []],
];

const spec = (cards) => cards.map((c) => `${c.n}x ${c.spec ?? c.name}`).join(', ') || 'none';
const about = (gpu) => `${Math.round(gpu.mib / 1024)} GB · ${count(gpu.bandwidth_gbs)} GB/s`;

// The slider is logarithmic, in steps of a quarter octave, rounded to 256.
const MIN_CTX = 512;
const toSlider = (n) => Math.round(Math.log2(Math.max(MIN_CTX, n) / MIN_CTX) * 4);
const fromSlider = (v) => Math.max(MIN_CTX, Math.round((MIN_CTX * 2 ** (v / 4)) / 256) * 256);

export class WhatIf {
  constructor(root) {
    this.cards = []; // [{name, n}]
    this.gpus = [];
    this.max = 131072;
    this.asked = null; // an AbortController
    this.started = false;
    this.build(root);
    this.changed = debounce(150, () => this.ask());
  }

  build(root) {
    this.search = h('input', { id: 'wi-search', type: 'text', role: 'combobox', autocomplete: 'off', spellcheck: 'false', 'aria-expanded': 'false',
      'aria-controls': 'wi-found', 'aria-autocomplete': 'list', placeholder: 'Add a GPU: 3090, A6000 …',
      on: { input: () => this.find(), keydown: (e) => this.key(e), focus: () => this.find(), blur: () => this.closeList() } });
    this.found = h('ul', { id: 'wi-found', class: 'found', role: 'listbox', 'aria-label': 'Known GPUs', hidden: true });
    this.list = h('ul', { class: 'cards', 'aria-label': 'GPUs' });
    this.ctx = h('input', { id: 'wi-ctx', type: 'number', min: '0', step: '256', inputmode: 'numeric', value: '4096',
      on: { input: () => { this.slider.value = String(toSlider(Number(this.ctx.value))); this.changed(); } } });
    this.slider = h('input', { type: 'range', min: '0', max: '32', step: '1', 'aria-label': 'Context size', value: String(toSlider(4096)),
      on: { input: () => { this.ctx.value = String(Math.min(this.max, fromSlider(Number(this.slider.value)))); this.changed(); } } });
    const changed = () => this.changed();
    this.cache = h('select', { id: 'wi-cache', on: { change: changed } }, caches.map((t) => h('option', {}, t)));
    this.optimize = h('select', { id: 'wi-opt', on: { change: changed } },
      [['decode', 'token generation'], ['prefill', 'prompt processing'], ['balanced', 'both']].map(([v, t]) => h('option', { value: v }, t)));
    this.split = h('select', { id: 'wi-split', on: { change: changed } },
      [['auto', 'whichever is faster'], ['layer', 'whole layers'], ['tensor', 'tensor (part of every layer)']].map(([v, t]) => h('option', { value: v }, t)));
    this.model = h('select', { id: 'wi-model', on: { change: () => this.changed() } }, h('option', { value: '' }, 'the loaded model'));
    this.hub = h('input', { id: 'wi-hub', type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder: 'OWNER/NAME[:QUANT]', on: { change: changed } });
    this.hubField = h('div', { class: 'field', hidden: true }, h('label', { for: 'wi-hub' }, 'Or a model on Hugging Face'), this.hub);
    this.ram = h('input', { id: 'wi-ram', type: 'number', min: '1', step: '1', inputmode: 'numeric', placeholder: 'current', on: { input: changed } });
    this.result = h('div', { class: 'result', 'aria-busy': 'false' });
    this.say = h('p', { class: 'verdict', role: 'status' });
    fill(root,
      h('div', { class: 'title' }, h('h1', {}, 'What if?'), h('p', { class: 'muted' }, 'Plan for GPUs you have or might buy. No model is loaded: llama.cpp itself reports what it would allocate.')),
      h('div', { class: 'split' },
        h('form', { class: 'card ask', 'aria-label': 'What to plan for', on: { submit: (e) => e.preventDefault() } },
          h('div', { class: 'field combo' }, h('label', { for: 'wi-search' }, 'GPUs'), this.search, this.found),
          this.list,
          h('div', { class: 'chips', role: 'group', 'aria-label': 'Examples' }, rigs.map(([name, cards]) =>
            h('button', { type: 'button', class: 'chip', on: { click: () => this.setCards(cards.map(([c, n]) => ({ name: c, n }))) } }, name))),
          h('div', { class: 'field' }, h('label', { for: 'wi-model' }, 'Model'), this.model),
          this.hubField,
          h('div', { class: 'field' }, h('label', { for: 'wi-ctx' }, 'Context (tokens)'), h('div', { class: 'ctx' }, this.slider, this.ctx)),
          h('button', { type: 'button', class: 'small', on: { click: () => this.largest() } }, 'Use the largest context that fits'),
          h('div', { class: 'two' },
            h('div', { class: 'field' }, h('label', { for: 'wi-cache' }, 'KV cache type'), this.cache),
            h('div', { class: 'field' }, h('label', { for: 'wi-ram' }, 'Free RAM (GiB)'), this.ram)),
          h('div', { class: 'field' }, h('label', { for: 'wi-opt' }, 'Optimize for'), this.optimize),
          h('div', { class: 'field' }, h('label', { for: 'wi-split' }, 'Split mode'), this.split)),
        h('div', {}, this.say, this.result)));
  }

  // Once the server can be asked.
  async setPlan(plan) {
    if (this.started) return;
    this.started = true;
    if (plan) {
      const groups = new Map();
      for (const d of [...plan.devices, ...plan.excluded]) groups.set(shortName(d.name), (groups.get(shortName(d.name)) ?? 0) + 1);
      this.cards = [...groups].map(([name, n]) => ({ name, n }));
      this.setRange(plan.model.n_ctx_train, plan.goal.n_ctx);
      this.cache.value = caches.includes(plan.goal.type_k) ? plan.goal.type_k : 'f16';
      this.optimize.value = plan.goal.optimize;
      this.n_seq = plan.goal.n_seq;
    }
    if (this.cards.length === 0) this.cards = [{ name: 'RTX 3090', n: 1 }];
    try {
      const [{ gpus }, { models, loaded, hub }] = await Promise.all([get('api/gpus'), get('api/models')]);
      this.gpus = gpus;
      this.hubField.hidden = !hub;
      fill(this.model, h('option', { value: '' }, `${loaded} (loaded)`), models.map((m) =>
        h('option', { value: m.id, disabled: m.missing_parts > 0 }, `${m.id} · ${size(m.bytes)}${m.missing_parts ? ', incomplete' : ''}`)));
    } catch (e) {
      this.tell(sentence(e.message), 'bad');
    }
    // A card of this machine whose name says too little (several sizes, or not in the table) can be planned only with its size.
    const known = new Map(this.gpus.map((g) => [g.name, g]));
    for (const c of this.cards) {
      const device = plan && [...plan.devices, ...plan.excluded].find((d) => shortName(d.name) === c.name);
      const sized = `${c.name} ${Math.round((device?.total_bytes ?? 0) / 2 ** 30)}GB`;
      if (!known.has(c.name) && known.has(sized)) c.name = sized;
      else if (!known.has(c.name) && device?.total_bytes) c.spec = `${c.name.replace(/[:,]/g, ' ')}:${Math.floor(device.free_bytes / 1048576)}${device.bandwidth_gbs ? `:${Math.round(device.bandwidth_gbs)}` : ''}`;
    }
    this.showCards();
    if (this.visible) this.ask();
  }

  // The slider goes as far as the model was trained for.
  setRange(max, n_ctx) {
    this.max = max || this.max;
    this.slider.max = String(Math.max(1, Math.ceil(Math.log2(this.max / MIN_CTX) * 4)));
    this.ctx.value = String(n_ctx);
    this.slider.value = String(toSlider(n_ctx));
  }

  shown() {
    this.visible = true;
    if (this.started && !this.asked) this.ask();
  }

  // --- cards ---

  setCards(cards) {
    this.cards = cards;
    this.showCards();
    this.changed();
  }

  add(name) {
    const there = this.cards.find((c) => c.name === name);
    if (there) there.n++;
    else this.cards.push({ name, n: 1 });
    this.setCards(this.cards);
  }

  step(card, by) {
    card.n += by;
    this.setCards(this.cards.filter((c) => c.n > 0));
    const again = this.list.querySelector(`[data-name="${CSS.escape(card.name)}"] button:${by > 0 ? 'last-child' : 'first-of-type'}`);
    (again ?? this.search).focus();
  }

  showCards() {
    const facts = new Map(this.gpus.map((g) => [g.name, about(g)]));
    fill(this.list, this.cards.length ? this.cards.map((c) => h('li', { 'data-name': c.name },
      h('span', { class: 'card-name' }, h('b', {}, shortName(c.name)), h('span', { class: 'muted fine' }, facts.get(c.name) ?? '')),
      h('button', { type: 'button', class: 'step', 'aria-label': `Remove one ${c.name}`, on: { click: () => this.step(c, -1) } }, '−'),
      h('output', { 'aria-label': `${c.n} of ${c.name}` }, String(c.n)),
      h('button', { type: 'button', class: 'step', 'aria-label': `Add one ${c.name}`, on: { click: () => this.step(c, 1) } }, '+')))
      : h('li', { class: 'muted' }, 'No GPU: everything in host memory.'));
  }

  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.length ? this.gpus.filter((g) => words.every((w) => g.name.toLowerCase().includes(w))) : [];
    hits.sort((a, b) => a.name.length - b.name.length || b.mib - a.mib);
    this.hits = hits.slice(0, 8);
    this.at = this.hits.length ? 0 : -1;
    this.showList();
  }

  showList() {
    this.found.hidden = !this.hits?.length;
    this.search.setAttribute('aria-expanded', String(!this.found.hidden));
    fill(this.found, (this.hits ?? []).map((g, i) => h('li', { id: `wi-f${i}`, role: 'option', 'aria-selected': String(i === this.at),
      on: { pointerdown: (e) => { e.preventDefault(); this.take(g); } } },
    h('span', {}, g.name), h('span', { class: 'muted fine' }, about(g)))));
    if (this.at >= 0) this.search.setAttribute('aria-activedescendant', `wi-f${this.at}`);
    else this.search.removeAttribute('aria-activedescendant');
  }

  closeList() {
    this.hits = [];
    this.at = -1;
    this.showList();
  }

  take(gpu) {
    this.add(gpu.name);
    this.search.value = '';
    this.closeList();
  }

  key(e) {
    const n = this.hits?.length ?? 0;
    if (e.key === 'Escape') return this.closeList();
    if (e.key === 'Enter') { e.preventDefault(); if (n) this.take(this.hits[this.at]); return; }
    if (!n || (e.key !== 'ArrowDown' && e.key !== 'ArrowUp')) return;
    e.preventDefault();
    this.at = (this.at + (e.key === 'ArrowDown' ? 1 : n - 1)) % n;
    this.showList();
  }

  // --- asking ---

  body(more = {}) {
    const body = { gpus: spec(this.cards), n_ctx: Math.floor(Number(this.ctx.value) || 0),
      cache_type_k: this.cache.value, cache_type_v: this.cache.value, optimize: this.optimize.value, split_mode: this.split.value, n_seq: this.n_seq };
    const elsewhere = this.hub.value.trim();
    if (elsewhere || this.model.value) body.model = elsewhere ? `hf:${elsewhere.replace(/^hf:/, '')}` : this.model.value;
    if (Number(this.ram.value) > 0) body.ram_mib = Math.floor(Number(this.ram.value) * 1024);
    return { ...body, ...more };
  }

  tell(text, kind) {
    this.say.className = `verdict ${kind}`;
    this.say.textContent = text;
  }

  async ask(more) {
    this.asked?.abort();
    const mine = this.asked = new AbortController();
    this.result.setAttribute('aria-busy', 'true');
    try {
      const plan = await post('api/plan', this.body(more), { signal: mine.signal });
      if (mine !== this.asked) return;
      // what was found becomes what is asked; what somebody types meanwhile is theirs
      if (plan.goal) this.setRange(plan.model.n_ctx_train, more?.n_ctx === 0 ? plan.goal.n_ctx : this.ctx.value);
      this.show(plan, mine.signal);
    } catch (e) {
      if (e.name === 'AbortError' || mine !== this.asked) return;
      this.tell(sentence(e.message), 'bad');
      fill(this.result);
    }
    this.result.setAttribute('aria-busy', 'false');
  }

  largest() { this.ask({ n_ctx: 0 }); }

  // All models of a repository: which one should I take?
  showRepository(r) {
    const best = r.models.find((m) => m.id === r.best);
    this.tell(best ? `Best choice: ${best.id}, ${rate(best.decode_tok_s)} tok/s.` : 'None of them fits.', best ? 'good' : 'bad');
    const take = (m) => { this.hub.value = `${r.repository}:${m.id}`; this.ask(); };
    fill(this.result, h('p', { class: 'muted result-title' }, `${r.repository}: only headers were fetched`),
      h('div', { class: 'chips', role: 'group', 'aria-label': 'Models of the repository' }, r.models.map((m) => h('button', { type: 'button', class: 'chip', disabled: Boolean(m.error), on: { click: () => take(m) } },
        `${m.quant ?? m.id} · ${size(m.bytes)} · ${m.fits ? `${rate(m.decode_tok_s)} tok/s${m.host_bytes ? `, ${size(m.host_bytes)} on the host` : ''}` : 'does not fit'}`))));
  }

  show(plan, signal) {
    if (plan.models) return this.showRepository(plan);
    if (!plan.fits) {
      this.tell('It does not fit.', 'bad');
      fill(this.result, h('div', { class: 'card' }, h('p', {}, sentence(plan.reason ?? 'a device does not have enough memory')), this.hints = h('div', { class: 'hints' })), plan.devices ? planBody(plan) : null);
      this.suggest(signal);
      return;
    }
    const p = plan.predicted;
    this.tell(`It fits: ${rate(p.decode_tok_s)} tok/s.`, 'good');
    fill(this.result,
      h('p', { class: 'muted result-title' }, `${plan.model.name} · ${subtitle(plan)}`),
      h('dl', { class: 'figures' },
        figure('Token generation', rate(p.decode_tok_s), 'tok/s', together(plan)), figure('Prompt processing', rate(p.prefill_tok_s), 'tok/s'),
        figure('GPUs in use', `${plan.devices.length}`, `of ${this.cards.reduce((s, c) => s + c.n, 0)}`),
        figure('In host memory', size(plan.host.model_bytes), '', plan.host.n_layers ? `${plan.host.n_layers} layers` : 'no layers')),
      planBody(plan));
  }

  // What would fit: tried in the order of what people give up first.
  async suggest(signal) {
    const mib = (card) => this.gpus.find((g) => g.name === card.name)?.mib ?? 0;
    const largest = [...this.cards].sort((a, b) => mib(b) - mib(a))[0];
    const offer = async (change, text, act) => {
      const plan = await post('api/plan', this.body(change), { signal });
      if (!plan.fits) return false;
      this.hints.append(h('button', { type: 'button', class: 'chip', on: { click: () => act(plan) } }, `Fits with ${text(plan)}: ${rate(plan.predicted.decode_tok_s)} tok/s`));
      return true;
    };
    try {
      await offer({ n_ctx: 0 }, (p) => `${count(p.goal.n_ctx)} tokens of context`, (p) => { this.setRange(p.model.n_ctx_train, p.goal.n_ctx); this.changed(); });
      await offer({ cache_type_k: 'q8_0', cache_type_v: 'q8_0' }, () => 'a q8_0 KV cache', () => { this.cache.value = 'q8_0'; this.changed(); });
      for (let more = 1; largest && more <= 4; more++) {
        const gpus = spec(this.cards.map((c) => (c === largest ? { ...c, n: c.n + more } : c)));
        if (await offer({ gpus }, () => `${more === 1 ? 'one' : more} more ${largest.name}`, () => { largest.n += more; this.setCards(this.cards); })) break;
      }
    } catch { return; } // asked for something else meanwhile, or the server is gone, which the page says elsewhere
    if (!this.hints.childElementCount) this.hints.append(h('p', { class: 'muted' }, 'A smaller context, a q8_0 KV cache or four more GPUs would not be enough: use a smaller quantization.'));
  }
}

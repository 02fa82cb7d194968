// Chat with the model: a conversation that stays in this browser, streamed, stopped, asked again, edited.
import { ApiError, stream } from './api.js';
import { copyButton, count, fill, h, rate, sentence, svg } from './dom.js';
import { markdown } from './markdown.js';
import { isOnDemand } from './models.js';
import { Pictures, kept } from './pictures.js';
import { strip } from './plan.js';

const STORE = 'vram-llm.chat';
const starters = ['Hello! Who are you?', 'What is 12 + 7?', 'How much memory does an RTX 3090 have?'];
const settings = [ // id, label, attributes, hint
  ['temperature', 'Temperature', { min: '0', max: '2', step: '0.05', placeholder: 'default' }],
  ['top_p', 'Top-p', { min: '0', max: '1', step: '0.01', placeholder: 'default' }],
  ['max_tokens', 'Max tokens', { min: '1', step: '1', placeholder: 'no limit' }],
  ['seed', 'Seed', { step: '1', placeholder: 'random' }],
];

function load() {
  try {
    const store = JSON.parse(localStorage.getItem(STORE) ?? '{}');
    const fine = (m) => m && (m.role === 'user' || m.role === 'assistant') && typeof m.content === 'string';
    const messages = (store.messages ?? []).filter(fine).map((m) => ({ ...m, pictures: kept(m.pictures) }));
    return { system: String(store.system ?? ''), options: store.options ?? {}, messages };
  } catch {
    return { system: '', options: {}, messages: [] };
  }
}

export class Chat {
  constructor(root) {
    Object.assign(this, load());
    this.running = null; // an AbortController
    this.ready = true;
    this.sees = false; // the model takes images
    this.trouble = ''; // about an image
    this.build(root);
    this.show();
  }

  build(root) {
    this.log = h('div', { class: 'messages', role: 'log', 'aria-label': 'Conversation', 'aria-live': 'polite', 'aria-relevant': 'additions' });
    this.input = h('textarea', { id: 'ch-input', rows: '1', placeholder: 'Send a message', 'aria-label': 'Your message',
      on: { input: () => this.grow(), keydown: (e) => this.key(e) } });
    this.send = h('button', { type: 'submit', class: 'primary', id: 'ch-send' }, 'Send');
    this.pictures = new Pictures({ changed: () => this.update(), say: (text) => { this.trouble = text; this.update(); },
      taken: () => this.messages.reduce((n, m) => n + (m.pictures?.length ?? 0), 0) });
    this.pictures.button.append(svg('svg', { viewBox: '0 0 20 20', 'aria-hidden': 'true', focusable: 'false' },
      svg('rect', { x: '2.5', y: '3.5', width: '15', height: '13', rx: '2' }), svg('circle', { cx: '7', cy: '8', r: '1.5' }), svg('path', { d: 'M3 15l4.5-4 3 2.5 3-3.5 4 4' })));
    this.hint = h('p', { class: 'muted fine', role: 'status' });
    this.system$ = h('textarea', { id: 'ch-system', rows: '3', placeholder: 'You are a helpful assistant.', value: this.system,
      on: { input: () => { this.system = this.system$.value; this.save(); } } });
    const fields = settings.map(([id, label, attributes]) => h('div', { class: 'field' }, h('label', { for: `ch-${id}` }, label),
      h('input', { id: `ch-${id}`, type: 'number', inputmode: 'decimal', value: this.options[id] ?? '', ...attributes,
        on: { input: (e) => { this.options[id] = e.target.value; this.save(); } } })));
    this.aside = h('aside', { class: 'chat-aside', 'aria-label': 'Placement of the model', hidden: true });
    this.speed = h('p', { class: 'aside-speed' });
    fill(root, h('div', { class: 'chat-wide' }, h('div', { class: 'chat' },
      h('h1', { class: 'visually-hidden' }, 'Chat'),
      h('div', { class: 'chat-head' },
        h('details', { class: 'chat-settings' }, h('summary', {}, 'System prompt and sampling'),
          h('div', { class: 'field' }, h('label', { for: 'ch-system' }, 'System prompt'), this.system$),
          h('div', { class: 'four' }, fields)),
        h('button', { type: 'button', class: 'small', id: 'ch-clear', on: { click: () => this.clear() } }, 'New conversation')),
      this.log,
      h('div', { class: 'dock' },
        this.pictures.root,
        h('form', { class: 'composer', on: { submit: (e) => { e.preventDefault(); if (this.running) this.stop(); else this.submit(); } } },
          this.pictures.button, this.pictures.file, this.input, this.send),
        this.hint)), this.aside));
    this.pictures.listen(root, () => this.sees);
  }

  setPlan(plan) {
    this.predicted = plan.predicted.decode_tok_s;
    fill(this.aside, h('h2', {}, plan.model.name), this.speed, strip(plan),
      h('button', { type: 'button', class: 'small', on: { click: () => document.dispatchEvent(new CustomEvent('go', { detail: 'plan' })) } }, 'Show the full plan'));
    this.aside.hidden = false;
  }

  shown() { this.grow(); this.follow(); }

  save() {
    const { system, options } = this;
    const messages = this.messages.map(({ role, content, reasoning, meta, pictures, lost }) => ({ role, content, reasoning, meta, pictures, lost }));
    const put = (list) => { localStorage.setItem(STORE, JSON.stringify({ system, options, messages: list })); };
    try { put(messages); } catch { // full: without the pictures, then
      try { put(messages.map((m) => (m.pictures?.length ? { ...m, pictures: [], lost: m.pictures.length } : m))); } catch { /* or off: it lasts as long as the page */ }
    }
  }

  setNow(now) {
    const m = now.models?.find((x) => x.id === now.model);
    this.comes = now.engine.state !== 'ready' && now.engine.state !== 'stopping' && isOnDemand(now, m);
    this.ready = now.engine.state === 'ready' || this.comes;
    if (now.engine.state === 'ready') this.sees = now.engine.vision;
    this.pictures.setLimit(now.max_body_bytes);
    const text = [now.stream_tok_s ? `${rate(now.stream_tok_s)} tok/s measured` : null, this.predicted ? `${rate(this.predicted)} tok/s predicted` : null].filter(Boolean).join(', ');
    if (this.speed.textContent !== text) this.speed.textContent = text;
    this.update();
  }

  update() {
    this.send.textContent = this.running ? 'Stop' : 'Send';
    this.send.disabled = !this.running && (!this.ready || this.pictures.busy > 0);
    this.pictures.button.hidden = !this.sees;
    const hint = this.trouble || (!this.ready ? 'The model is not ready yet.' : this.pictures.busy ? 'Preparing the image …'
      : !this.sees && this.pictured() ? 'This model has no vision: images are not sent.' : `Enter to send, Shift+Enter for a new line.${this.comes ? ' The model is loaded then.' : ''}`);
    if (this.hint.textContent !== hint) this.hint.textContent = hint;
  }

  pictured() { return this.pictures.list.length > 0 || this.messages.some((m) => m.pictures?.length); }

  grow() {
    this.input.style.height = 'auto';
    if (this.input.scrollHeight) this.input.style.height = `${Math.min(this.input.scrollHeight + 2, 220)}px`;
  }

  key(e) {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      if (!this.running) this.submit();
    }
    if (e.key === 'Escape' && this.running) this.stop();
  }

  // --- showing ---

  show() {
    this.nodes = this.messages.map((m, i) => this.node(m, i));
    fill(this.log, this.nodes.length ? this.nodes.map((n) => n.root) : h('div', { class: 'empty' },
      h('p', { class: 'empty-title' }, 'Chat with the model'),
      h('p', { class: 'muted' }, 'The conversation stays in this browser.'),
      h('div', { class: 'chips' }, starters.map((s) => h('button', { type: 'button', class: 'chip', on: { click: () => { this.input.value = s; this.submit(); } } }, s)))));
    this.update();
    this.follow();
  }

  node(m, i) {
    const root = h('article', { class: `message ${m.role}`, 'aria-label': m.role === 'user' ? 'You' : 'The model' });
    const node = { root, body: h('div', { class: 'body' }), reasoning: h('div', { class: 'body' }), foot: h('div', { class: 'message-foot' }) };
    node.think = h('details', { class: 'think', hidden: true }, node.thinkTitle = h('summary', {}, 'Reasoning'), node.reasoning);
    node.shown = h('div', { class: 'shown' });
    root.append(node.think, ...(m.role === 'user' ? [node.shown] : []), node.body, node.foot);
    this.paint(node, m, i);
    return node;
  }

  paint(node, m, i) {
    const live = this.running && i === this.messages.length - 1;
    if (m.role === 'user') {
      fill(node.shown, (m.pictures ?? []).map((url, k, all) => h('img', { src: url, alt: all.length > 1 ? `Your image ${k + 1}` : 'Your image' })),
        m.lost ? h('p', { class: 'muted fine' }, m.lost > 1 ? `${m.lost} images, too large for this browser’s storage` : 'An image, too large for this browser’s storage') : null);
      fill(node.body, m.content.split('\n').flatMap((line, k) => (k ? [h('br'), line] : [line])));
      node.body.hidden = !m.content;
    }
    else fill(node.body, m.content ? markdown(m.content) : live && !m.reasoning ? h('span', { class: 'waiting', 'aria-label': 'Waiting for the first token' }) : null);
    node.think.hidden = !m.reasoning;
    if (m.reasoning) {
      fill(node.reasoning, markdown(m.reasoning));
      node.thinkTitle.textContent = live && !m.content ? 'Reasoning …' : 'Reasoning';
    }
    node.root.setAttribute('aria-busy', String(Boolean(live && m.role === 'assistant')));
    fill(node.foot, this.foot(m, i, live));
  }

  foot(m, i, live) {
    if (live && m.role === 'assistant') return null;
    const last = i === this.messages.length - 1;
    if (m.role === 'user') return h('button', { type: 'button', class: 'small', on: { click: () => this.edit(i) } }, 'Edit');
    return [
      m.error ? h('p', { class: 'error', role: 'alert' }, sentence(m.error)) : null,
      h('div', { class: 'message-actions' },
        m.meta ? h('span', { class: 'muted fine meta' }, this.metaText(m.meta)) : null,
        h('span', {}, m.content ? copyButton(() => m.content) : null,
          last ? h('button', { type: 'button', class: 'small', on: { click: () => this.regenerate() } }, m.error ? 'Try again' : 'Regenerate') : null)),
    ];
  }

  metaText(x) {
    const parts = [];
    if (x.tokens) parts.push(`${count(x.tokens)} token${x.tokens === 1 ? '' : 's'}`);
    if (x.tok_s) parts.push(`${rate(x.tok_s)} tok/s`);
    if (x.first_ms !== undefined) parts.push(`first token after ${x.first_ms < 1000 ? `${Math.round(x.first_ms)} ms` : `${(x.first_ms / 1000).toFixed(1)} s`}`);
    if (x.end === 'length') parts.push('token limit reached');
    if (x.end === 'stopped') parts.push('stopped');
    return parts.join(' · ');
  }

  // Changes what is shown and keeps the end in view, unless the reader has scrolled up.
  follow(change) {
    const box = document.scrollingElement;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 120;
    change?.();
    if ((atEnd || !change) && !this.log.closest('[hidden]')) box.scrollTop = box.scrollHeight;
  }

  // --- doing ---

  submit() {
    const text = this.input.value.trim();
    if ((!text && !this.pictures.list.length) || this.running || !this.ready || this.pictures.busy) return;
    this.input.value = '';
    this.trouble = '';
    this.grow();
    this.messages.push({ role: 'user', content: text, pictures: this.pictures.take() });
    this.answer();
  }

  regenerate() {
    if (this.running) return;
    while (this.messages.at(-1)?.role === 'assistant') this.messages.pop();
    if (this.messages.length) this.answer();
  }

  edit(i) {
    if (this.running) this.stop();
    this.input.value = this.messages[i].content;
    this.pictures.set(this.messages[i].pictures ?? []);
    this.messages.length = i;
    this.save();
    this.show();
    this.grow();
    this.input.focus();
  }

  clear() {
    this.stop();
    this.trouble = '';
    this.pictures.set([]);
    this.messages = [];
    this.save();
    this.show();
    this.input.focus();
  }

  stop() { this.running?.abort(); }

  body() {
    const parts = ({ content, pictures }) => [...pictures.map((url) => ({ type: 'image_url', image_url: { url } })), ...(content ? [{ type: 'text', text: content }] : [])];
    const messages = this.messages.map((m) => ({ role: m.role, content: this.sees && m.pictures?.length ? parts(m) : m.content }));
    if (this.system.trim()) messages.unshift({ role: 'system', content: this.system });
    const body = { model: this.model, messages, stream: true, stream_options: { include_usage: true } };
    for (const [id] of settings) {
      const value = this.options[id];
      if (value !== undefined && value !== '' && Number.isFinite(Number(value))) body[id] = Number(value);
    }
    return body;
  }

  async answer() {
    const mine = this.running = new AbortController();
    const body = this.body();
    const m = { role: 'assistant', content: '', reasoning: '', meta: {} };
    this.messages.push(m);
    this.show();
    const node = this.nodes.at(-1), i = this.messages.length - 1;
    const t0 = performance.now();
    let first = 0, last = 0, pieces = 0, frame = 0, done = false;
    const repaint = () => { frame = 0; this.follow(() => this.paint(node, m, i)); };
    try {
      await stream('v1/chat/completions', { body, signal: mine.signal, on: (_, data) => {
        if (data === null) { done = true; return; }
        if (data.error) throw new ApiError(data.error.message, 0, data.error.code);
        const choice = data.choices?.[0];
        const text = choice?.delta?.content ?? '', thought = choice?.delta?.reasoning_content ?? '';
        if (text || thought) {
          last = performance.now();
          if (!first) { first = last; m.meta.first_ms = first - t0; }
          pieces++;
          m.content += text;
          m.reasoning += thought;
          frame ||= requestAnimationFrame(repaint);
        }
        if (choice?.finish_reason) m.meta.end = choice.finish_reason;
        if (data.usage) m.meta.tokens = data.usage.completion_tokens;
      } });
      if (!done) m.error = 'The connection was lost before the response was complete.';
    } catch (e) {
      if (e.name === 'AbortError') m.meta.end = 'stopped';
      else m.error = e.message;
    }
    cancelAnimationFrame(frame);
    m.meta.tokens ??= pieces; // stopped before the count came: one piece is one token, near enough
    if (first && last > first && m.meta.tokens > 1) m.meta.tok_s = (m.meta.tokens - 1) / ((last - first) / 1000);
    if (this.running === mine) this.running = null;
    if (this.messages.includes(m)) { // not cleared meanwhile
      this.follow(() => this.paint(node, m, i));
      this.save();
    }
    this.update();
  }
}

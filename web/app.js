// The frame of the page: tabs, theme, key, and what state the server is in. Each part has a module of its own.
import { get, listen, onKeyNeeded } from './api.js';
import { Chat } from './chat.js';
import { size } from './dom.js';
import { Live } from './live.js';
import { isOnDemand, isUp, Models, stateWord } from './models.js';
import { PlanView } from './plan.js';
import { WhatIf } from './whatif.js';

const $ = (id) => document.getElementById(id);
const parts = ['plan', 'whatif', 'chat', 'live', 'models'];
const views = {
  plan: new PlanView($('panel-plan')),
  whatif: new WhatIf($('panel-whatif')),
  chat: new Chat($('panel-chat')),
  live: new Live($('panel-live')),
  models: new Models($('panel-models')),
};

// --- tabs: the address says which one; arrows move between them ---

function show(name, focus, first) {
  for (const part of parts) {
    const tab = $(`tab-${part}`), on = part === name;
    tab.setAttribute('aria-selected', String(on));
    tab.tabIndex = on ? 0 : -1;
    $(`panel-${part}`).hidden = !on;
    if (on && focus) tab.focus();
  }
  document.title = `${$(`tab-${name}`).textContent} · vram-llm`;
  if (!first && name !== 'chat') scrollTo(0, 0); // the chat goes to its end by itself
  views[name].shown?.();
}

const named = () => (parts.includes(location.hash.slice(1)) ? location.hash.slice(1) : 'plan');

for (const [i, part] of parts.entries()) {
  const tab = $(`tab-${part}`);
  tab.addEventListener('click', () => { history.replaceState(null, '', `#${part}`); show(part); });
  tab.addEventListener('keydown', (e) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: parts.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = parts[(to + parts.length) % parts.length];
    history.replaceState(null, '', `#${next}`);
    show(next, true);
  });
}
window.addEventListener('hashchange', () => show(named()));
document.addEventListener('go', (e) => { history.replaceState(null, '', `#${e.detail}`); show(e.detail, true); });

// --- theme: the system's, light, dark ---

const themes = ['', 'light', 'dark'];
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $('theme').setAttribute('aria-label', `Theme: ${theme || 'system'}`);
  $('theme').title = `Theme: ${theme || 'system'}`;
}
$('theme').addEventListener('click', () => {
  const now = document.documentElement.dataset.theme ?? '';
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  setTheme(next);
  try { localStorage.setItem('vram-llm.theme', next); } catch { /* it lasts as long as the page */ }
});
setTheme(document.documentElement.dataset.theme ?? '');

// --- the key ---

onKeyNeeded((again) => new Promise((done) => {
  const dialog = $('key-dialog'), input = $('key-input');
  $('key-why').textContent = again ? 'The server did not accept this key. Try again.'
    : 'It stays in this tab until you close it.';
  input.value = '';
  dialog.oncancel = (e) => e.preventDefault(); // nothing here works without it
  $('key-form').onsubmit = (e) => {
    e.preventDefault();
    dialog.close();
    done(input.value.trim());
  };
  if (!dialog.open) dialog.showModal();
  input.focus();
}));

// --- what the server does ---

const words = { load: 'reading the weights', context: 'allocating the KV cache', warmup: 'warming up', start: 'starting the engine' };

// [class of the pill, its text, the banner's text or '', percent or null]
function describe(now) {
  const e = now.engine, m = now.models?.find((x) => x.id === now.model);
  if (e.state !== 'stopping' && isOnDemand(now, m)) return [m.state === 'unloaded' ? '' : 'busy', stateWord(m), '', null];
  switch (e.state) {
    case 'ready': return ['good', 'ready', '', null];
    case 'loading': return ['busy', `loading ${e.percent} %`,
      `Loading the model: ${words[e.stage] ?? e.stage}${e.sent_bytes ? `, ${size(e.sent_bytes)} sent to other machines at ${e.sent_mb_s.toFixed(0)} MB/s` : ''}.${e.trouble ? ` Previous attempt: ${e.trouble}.` : ''}`, e.percent];
    case 'restarting': return ['bad', 'restarting', `The engine is restarting: ${e.trouble}.`, null];
    case 'stopping': return ['busy', 'stopping', 'The server is stopping; running requests may still finish.', null];
    default: return ['bad', 'failed', `The engine failed: ${e.trouble}.`, null];
  }
}

function setState([kind, text, banner, percent]) {
  const pill = $('state'), bar = $('banner-bar');
  if (pill.textContent !== text) pill.textContent = text;
  pill.className = `pill ${kind}`;
  $('banner').hidden = !banner;
  if ($('banner-text').textContent !== banner) $('banner-text').textContent = banner;
  bar.hidden = percent === null;
  if (percent !== null) bar.value = percent;
}

// --- which model: where several are served, Plan, Chat and Live are about the one that is chosen ---

let chosen = '';
let offered = '';

function offer(now) {
  const all = now.models ?? [], up = all.filter((m) => isUp(m) || m.id === now.model);
  $('which').hidden = all.length < 2;
  $('model').hidden = all.length > 1;
  const list = up.map((m) => `${m.id}\n`).join('');
  if (list !== offered) {
    offered = list;
    $('which').replaceChildren(...up.map((m) => new Option(m.id, m.id)));
  }
  if ($('which').value !== now.model) $('which').value = now.model;
  views.chat.model = all.length > 1 ? now.model : undefined;
}

function choose(id) {
  chosen = id;
  planned = '';
  reconnect();
}
$('which').addEventListener('change', () => choose($('which').value));
document.addEventListener('choose', (e) => choose(e.detail));

let planned = '';
async function loadPlan(now) {
  const which = `${now.model} ${now.engine.plans_again} ${now.engine.starts}`;
  if (which === planned) return;
  planned = which;
  try {
    const plan = await get(`api/plan${now.models?.length > 1 ? `?model=${encodeURIComponent(now.model)}` : ''}`);
    if (which !== planned) return;
    views.plan.setPlan(plan);
    views.whatif.setPlan(plan);
    views.live.setPlan(plan);
    views.models.setPlan(plan);
    views.chat.setPlan(plan);
  } catch (e) {
    views.plan.setProblem(e.message);
    views.whatif.setPlan(null);
  }
}

const reconnect = listen((event, data) => {
  if (event === 'lost') {
    setState(['bad', 'disconnected', `${data.message} Reconnecting …`, null]);
    return;
  }
  $('model').textContent = data.model;
  $('model').title = data.model;
  offer(data);
  setState(describe(data));
  loadPlan(data);
  views.plan.setNow(data);
  views.chat.setNow(data);
  views.live[event === 'hello' ? 'hello' : 'tick'](data);
  views.models.setNow(data);
}, () => chosen);

show(named(), false, true);

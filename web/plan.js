// A plan as bars: one per device, as long as its memory; in it every layer, then KV, compute, scratch, what is free, the reserve.
// The colours are those of `plan --svg`.
import { copyButton, count, fill, h, mib, rate, sentence, shortName, size } from './dom.js';

const kinds = {
  l0: 'layers', lo: 'input and output', lm: 'tensor overrides', kv: 'KV cache', co: 'compute buffers', sc: 'scratch memory', re: 'reserve',
  fr: 'free', ot: 'other processes', ho: 'layers in host memory',
};

// What a place must hold: its buffers, and on a device what kernels take beside them that the reserve has no room for.
export const usedBytes = (place) => place.model_bytes + place.context_bytes + place.compute_bytes + (place.beside_bytes ?? 0);

// [kind, bytes, what it is] of a place, in the order of its bar.
function pieces(place, isHost) {
  const last = (place.first_layer ?? 0) + place.n_layers - 1;
  const list = [], moved = [];
  for (const { layer, bytes, type } of place.layers ?? []) {
    if (isHost) list.push([`h${layer % 2}`, bytes, `layer ${layer}, ${type}`]);
    else if (layer >= place.first_layer && layer <= last) list.push([`l${layer % 2}`, bytes, `${place.share < 1 ? 'part of ' : ''}layer ${layer}, ${type}`]);
    else moved.push(['lm', bytes, `layer ${layer}, tensor override, ${type}`]);
  }
  if (place.output_bytes) list.push(['lo', place.output_bytes, isHost ? 'input and output' : 'output']);
  list.push(...moved);
  if (place.other_bytes > 1048576) list.push(['lm', place.other_bytes, 'copies and padding']);
  if (!place.layers) list.push([isHost ? 'h0' : 'l0', place.model_bytes, 'weights']);
  list.push(['kv', place.context_bytes, 'KV cache'], ['co', place.compute_bytes, 'compute buffers'],
    ['sc', place.beside_bytes ?? 0, 'scratch memory']);
  const left = Math.max(0, place.free_bytes - usedBytes(place)), reserve = Math.min(left, place.reserve_bytes ?? 0);
  list.push(['fr', left - reserve, 'free'], ['re', reserve, 'reserve, kept free'],
    ['ot', Math.max(0, (place.total_bytes ?? 0) - place.free_bytes), 'other processes and the driver']);
  return list.filter(([, bytes]) => bytes > 0);
}

// --- the bar: one stop for the Tab key, arrows walk over its pieces ---

let tip;
function tell(target, text) {
  if (!tip) document.body.append(tip = h('div', { class: 'tip', role: 'tooltip', id: 'tip', hidden: true }));
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = text;
  const r = target.getBoundingClientRect(), w = tip.offsetWidth;
  const x = Math.max(8, Math.min(r.left + r.width / 2 - w / 2, document.documentElement.clientWidth - w - 8));
  tip.style.left = `${x + scrollX}px`;
  tip.style.top = `${r.top + scrollY - tip.offsetHeight - 8}px`;
}

function bar(list, whole, scale, label) {
  const segments = list.map(([kind, bytes, what], i) => h('span', {
    class: `seg k-${kind}`, role: 'option', 'aria-selected': 'false', tabindex: i ? '-1' : '0',
    'aria-label': `${what}: ${mib(bytes)}`, style: { width: `${(bytes / whole) * 100}%` },
  }));
  const node = h('div', { class: 'bar', role: 'listbox', 'aria-orientation': 'horizontal', 'aria-label': label,
    style: { width: `${Math.max(2, scale * 100)}%` } }, segments);
  const focus = (i) => {
    segments.forEach((s, k) => { s.tabIndex = k === i ? 0 : -1; s.setAttribute('aria-selected', String(k === i)); });
    segments[i].focus();
  };
  node.addEventListener('keydown', (e) => {
    const i = segments.indexOf(document.activeElement);
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: segments.length - 1 }[e.key];
    if (e.key === 'Escape') tell(null);
    if (to === undefined || i < 0) return;
    e.preventDefault();
    focus(Math.max(0, Math.min(segments.length - 1, to)));
  });
  const over = (e) => {
    const s = e.target.closest?.('.seg');
    if (s) tell(s, s.getAttribute('aria-label'));
  };
  for (const event of ['pointerover', 'pointerdown', 'focusin']) node.addEventListener(event, over);
  for (const event of ['pointerleave', 'focusout']) node.addEventListener(event, () => tell(null));
  return node;
}

function layersOf(d) {
  const out = d.output ? ', output' : '';
  if (!d.n_layers) return d.output ? 'output' : 'no whole layer';
  const part = d.share < 1 ? `${Math.round(100 * d.share)} % of ` : ''; // split mode tensor
  return part + (d.n_layers === 1 ? `layer ${d.first_layer}${out}` : `layers ${d.first_layer}–${d.first_layer + d.n_layers - 1}${out}`);
}

const sum = (list) => list.reduce((n, [, bytes]) => n + bytes, 0);

// A small model in a large memory would be a line: where that is so of every place, a thin bar shows the share, and the
// bar itself shows the share alone.
const taken = (list) => list.filter(([kind]) => !['fr', 're', 'ot'].includes(kind));
const isSmall = (lists) => lists.every((list) => sum(taken(list)) < 0.1 * sum(list));

// A fact stays on one line; a long one may break behind a comma, and a range of layers never does.
const unbroken = (fact) => fact.replaceAll(' ', '\u00a0').replaceAll(',\u00a0', ', ').replaceAll('–', '\u2060–\u2060');

function row(place, isHost, longest, small, unit) {
  const list = pieces(place, isHost);
  const whole = sum(list), zoomed = small && sum(taken(list)) > 0 ? taken(list) : null;
  const used = usedBytes(place);
  const name = isHost ? 'Host memory' : shortName(place.name);
  const facts = isHost
    ? [place.name, place.n_layers ? `${place.n_layers} layers` : null, place.bandwidth_gbs ? `${count(place.bandwidth_gbs)} GB/s` : null]
    : [place.id, layersOf(place), place.bandwidth_gbs ? `${count(place.bandwidth_gbs)} GB/s` : null, place.link && place.link !== '?' ? place.link : null];
  return h('li', { class: 'device' },
    h('div', { class: 'device-head' },
      h('span', { class: 'device-name' }, name), h('span', { class: 'device-facts' }, facts.filter(Boolean).map(unbroken).join(' · '))),
    h('div', { class: 'device-bar' }, zoomed
      ? [h('div', { class: 'bar thin', role: 'img', 'aria-label': `${size(used)} of ${size(whole)}` }, h('span', { class: `seg at-least ${isHost ? 'k-h0' : 'k-l0'}`, style: { width: `${(used / whole) * 100}%` } })),
        h('p', { class: 'muted fine zoom-note' }, `${size(used)}, magnified:`), bar(zoomed, sum(zoomed), 1, `${name}: ${size(used)} used`)]
      : bar(list, whole, isHost ? 1 : whole / longest, `${name}: ${size(used)} used`)),
    h('div', { class: 'device-nums' },
      h('span', {}, h('b', {}, size(used)), ` of ${size(place.free_bytes)}`),
      h('span', { class: 'muted' }, place.ms_per_token >= 0.005 ? `${place.ms_per_token.toFixed(place.ms_per_token < 1 ? 2 : 1)} ms per ${unit}` : `under 0.01 ms per ${unit}`),
      place.short_bytes ? h('span', { class: 'bad-text' }, `${mib(place.short_bytes)} short`) : null));
}

function legend(lists) {
  const present = new Set(lists.flat().map(([kind]) => ({ l1: 'l0', h0: 'ho', h1: 'ho' }[kind] ?? kind)));
  return h('ul', { class: 'legend', 'aria-label': 'Colours' }, Object.entries(kinds).filter(([k]) => present.has(k)).map(([k, name]) =>
    h('li', {}, h('span', { class: `swatch k-${k === 'ho' ? 'h0' : k}` }), name)));
}

export const figure = (label, value, unit, note) => h('div', { class: 'figure' },
  h('dt', {}, label), h('dd', {}, h('b', {}, value), unit ? h('span', { class: 'unit' }, ` ${unit}`) : null, note ? h('span', { class: 'figure-note' }, note) : null));

function linkText(l) {
  const kind = { nvlink: 'NVLink', switch: 'PCIe switch', bridge: 'PCIe bridge', node: 'same CPU', system: 'across CPUs' }[l.kind] ?? l.kind;
  return `${l.a} – ${l.b}: ${kind}${l.gbs ? `, ${rate(l.gbs)} GB/s each way` : ''}${l.p2p ? ', direct' : ''}`;
}

// The machine that lends a device: 'attic' of 'attic/CUDA0'; null: it is this one's.
export const nodeOf = (d) => (d.id?.includes('/') ? d.id.split('/')[0] : null);

function nodeText(n) {
  const used = n.used_bytes ? `${size(n.used_bytes)} of it used` : 'not used';
  return [h('b', {}, n.name), `: lends ${size(n.lent_bytes)} on ${n.devices.join(', ')}, ${used}; ${n.gbs < 1 ? n.gbs.toFixed(3) : rate(n.gbs)} GB/s each way, ${n.round_trip_ms.toFixed(2)} ms round trip`];
}

// GPUs that are not used, those with the same reason together.
function leftOut(excluded) {
  const groups = new Map();
  for (const { id, name, reason } of excluded) {
    groups.set(reason, [...(groups.get(reason) ?? []), `${shortName(name)} (${id})`]);
  }
  return [...groups].map(([why, cards]) => h('li', {}, h('b', {}, cards.join(', ')), `${cards.length > 1 ? ', each' : ''}: ${why}.`));
}

// Several slots share each step: what all streams get together. Null for one.
export const together = (plan) => plan.goal.n_seq > 1 ? `per stream; ${rate(plan.predicted.decode_total_tok_s)} with all ${plan.goal.n_seq}` : null;

// The places of a plan as small bars with nothing to do on them, for beside the chat.
export function strip(plan) {
  const places = plan.devices.length ? plan.devices : [plan.host];
  const lists = places.map((d) => pieces(d, d === plan.host)), longest = Math.max(...lists.map(sum)), small = isSmall(lists);
  return h('ul', { class: 'strip' }, places.map((d, i) => {
    const list = small ? taken(lists[i]) : lists[i];
    const whole = sum(list), used = usedBytes(d);
    return h('li', {},
      h('div', { class: 'strip-head' }, h('b', {}, d === plan.host ? 'Host memory' : shortName(d.name)), h('span', { class: 'muted' }, size(used))),
      h('div', { class: 'bar small-bar', role: 'img', 'aria-label': `${size(used)} used, ${d === plan.host ? `${d.n_layers} layers` : layersOf(d)}`, style: { width: `${small || d === plan.host ? 100 : (whole / longest) * 100}%` } },
        list.map(([kind, bytes]) => h('span', { class: `seg k-${kind}`, style: { width: `${(bytes / whole) * 100}%` } }))),
      h('div', { class: 'muted fine' }, d === plan.host ? `${d.n_layers} layers` : layersOf(d)));
  }));
}

// All of a plan but its title and figures.
export function planBody(plan) {
  const lists = [...plan.devices.map((d) => pieces(d, false)), pieces(plan.host, true)];
  const small = isSmall(lists), unit = plan.goal.n_seq > 1 ? 'step' : 'token';
  const longest = Math.max(1, ...lists.slice(0, -1).map(sum));
  const left = plan.excluded ?? [];
  const reasons = (plan.reasons ?? []).filter((r) => !left.some((x) => x.kind === r.kind && x.id === r.devices[0]));
  const commands = Object.entries(plan.commands ?? {});
  const variables = Object.entries(plan.environment ?? {}).map(([name, value]) => `${name}=${value} `).join('');
  const needsHost = plan.devices.length === 0 || plan.host.n_layers > 0 || plan.host.model_bytes > 0;
  return [
    h('div', { class: 'card' },
      h('h3', {}, plan.devices.length ? 'Where each layer goes' : 'Memory'),
      h('ol', { class: 'devices' }, plan.devices.map((d) => row(d, false, longest, small, unit)), needsHost ? row(plan.host, true, longest, small, unit) : null),
      plan.devices.length ? h('p', { class: 'muted fine' }, `${plan.split_mode === 'tensor' ? 'All of them work on each layer at the same time.' : 'In the order a token passes through them.'} The host bar has its own scale.`) : null,
      legend(small ? lists.map((list) => [...taken(list), ['fr', 1]]) : lists)),
    h('div', { class: 'columns' },
      h('div', { class: 'card' }, h('h3', {}, 'Why this placement'),
        h('ul', { class: 'reasons' }, reasons.map((r) => h('li', { 'data-kind': r.kind }, sentence(r.text)))),
        h('p', { class: 'muted fine' }, `Confirmed by ${plan.dry_runs} dry run${plan.dry_runs === 1 ? '' : 's'} of llama.cpp in ${count(plan.plan_ms)} ms.`)),
      left.length || plan.links?.length || plan.nodes?.length ? h('div', { class: 'card' },
        plan.nodes?.length ? [h('h3', {}, 'Other machines'), h('ul', { class: 'reasons' }, plan.nodes.map((n) => h('li', { 'data-node': n.name }, nodeText(n))))] : null,
        left.length ? [h('h3', {}, 'Not used'), h('ul', { class: 'reasons' }, leftOut(left))] : null,
        plan.links?.length ? [h('h3', {}, 'Links'), h('ul', { class: 'reasons' }, plan.links.map((l) => h('li', {}, linkText(l))))] : null) : null),
    commands.length && plan.devices.length ? h('details', { class: 'card' },
      h('summary', {}, 'Equivalent llama.cpp flags'),
      commands.map(([name, flags]) => h('div', { class: 'command' },
        h('div', { class: 'command-head' }, h('span', {}, name), copyButton(() => `${variables}${name} ${flags}`)),
        h('pre', { tabindex: '0', 'aria-label': `Flags for ${name}` }, variables ? `${variables}${name} ${flags}` : flags)))) : null,
  ];
}

function parameters(n) {
  const [unit, by] = n < 1e9 ? ['M', 1e6] : n < 1e12 ? ['B', 1e9] : ['T', 1e12];
  return `${(n / by).toFixed(n < 1e12 ? 1 : 2)} ${unit}`;
}

export function subtitle(plan) {
  const m = plan.model, g = plan.goal;
  return [m.quant, `${parameters(m.params)} parameters`, size(m.bytes), `${m.n_layers} layers`,
    `${count(g.n_ctx)} tokens of context`, g.type_k === g.type_v ? `${g.type_k} KV cache` : `${g.type_k}/${g.type_v} KV cache`].join(' · ');
}

export function usedText(plan) {
  const used = [...plan.devices, plan.host].reduce((s, d) => s + usedBytes(d), 0);
  return size(used);
}

export class PlanView {
  constructor(root) {
    this.root = root;
    this.measured = h('b', {}, '–');
    this.measuredNote = h('span', { class: 'figure-note' }, 'chat to measure it');
    fill(root, h('p', { class: 'muted' }, 'Loading the plan …'));
  }

  setProblem(text) {
    fill(this.root, h('h1', {}, 'No plan to show'), h('p', {}, text));
  }

  setPlan(plan) {
    this.plan = plan;
    const p = plan.predicted;
    fill(this.root,
      h('div', { class: 'title' }, h('h1', {}, plan.model.name), h('p', { class: 'muted' }, subtitle(plan))),
      h('dl', { class: 'figures' },
        figure('Token generation, predicted', rate(p.decode_tok_s), 'tok/s', together(plan) ?? (plan.optimal ? 'no placement is faster' : null)),
        h('div', { class: 'figure' }, h('dt', {}, 'Token generation, measured'), h('dd', {}, this.measured, h('span', { class: 'unit' }, ' tok/s'), this.measuredNote)),
        figure('Prompt processing, predicted', rate(p.prefill_tok_s), 'tok/s'),
        figure('Memory in use', usedText(plan), '', plan.devices.length ? `${plan.devices.length} ${plan.devices.some(nodeOf) ? 'device' : 'GPU'}${plan.devices.length > 1 ? 's' : ''} and the host` : 'host only, no GPU')),
      planBody(plan));
  }

  setNow(now) {
    const known = now.stream_tok_s > 0;
    this.measured.textContent = known ? rate(now.stream_tok_s) : '–';
    const here = new Set((now.meter?.devices ?? []).map((d) => `${d.id} ${d.name}`));
    const virtual = now.meter && this.plan?.devices.length && !this.plan.devices.some((d) => nodeOf(d) || here.has(`${d.id} ${d.name}`));
    this.measuredNote.textContent = virtual ? 'virtual GPUs run on the CPU' : known ? 'per request, recently' : 'chat to measure it';
  }
}

// Markdown to elements, for text that nobody can trust. Nothing here ever parses HTML: every character of the input ends
// up in a text node, in an attribute that is not code, or nowhere. Links are http(s) only, images become links.
import { copyButton, h } from './dom.js';

// --- inline: `code`, **bold**, *italic*, ~~gone~~, [text](address), bare addresses ---

const rules = [
  [/^(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/, (m) => h('code', {}, m[2].replace(/^ (.*\S.*) $/s, '$1'))],
  [/^\*\*(?=\S)([\s\S]*?\S)\*\*/, (m, depth) => h('strong', {}, inline(m[1], depth))],
  [/^__(?=\S)([\s\S]*?\S)__(?!\w)/, (m, depth) => h('strong', {}, inline(m[1], depth))],
  [/^\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)/, (m, depth) => h('em', {}, inline(m[1], depth))],
  [/^_(?=[^\s_])([\s\S]*?[^\s_])_(?!\w)/, (m, depth) => h('em', {}, inline(m[1], depth))],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (m, depth) => h('del', {}, inline(m[1], depth))],
  [/^!?\[([^\]\n]*)\]\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"\n]*")?\s*\)/, (m, depth) => link(m[2], m[1] ? inline(m[1], depth) : [m[2]])],
  [/^https?:\/\/[^\s<>()\[\]"'`*]+[^\s<>()\[\]"'`*.,;:!?]/, (m) => link(m[0], [m[0]])],
];

function link(address, children) {
  let url = null;
  try { url = new URL(address); } catch { /* relative or nonsense: text */ }
  if (!url || !/^https?:$/.test(url.protocol)) return h('span', {}, children);
  return h('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow' }, children);
}

function inline(text, depth = 0) {
  const out = [];
  let plain = '';
  for (let i = 0; i < text.length;) {
    const c = text[i], before = i ? text[i - 1] : ' ';
    if (c === '\\' && /[\\`*_{}[\]()#+\-.!~|<>]/.test(text[i + 1] ?? '')) { plain += text[i + 1]; i += 2; continue; }
    let hit = null;
    if (c === '*' && /\d/.test(before) && /[\d(]/.test(text[i + 1] ?? '')) { plain += c; i++; continue; } // 2*3*4 is a product
    if (depth < 8 && '`*_~[!h'.includes(c) && !((c === '_' || c === 'h') && /\w/.test(before))) {
      const rest = text.slice(i, i + 4000); // an unclosed mark must not cost the square of the text
      for (const [pattern, make] of rules) {
        const m = pattern.exec(rest);
        if (m) { hit = [m[0].length, make(m, depth + 1)]; break; }
      }
    }
    if (!hit) { plain += c; i++; continue; }
    if (plain) out.push(plain);
    plain = '';
    out.push(hit[1]);
    i += hit[0];
  }
  if (plain) out.push(plain);
  return out;
}

// Lines of a paragraph: a line end is a space, two blanks or a backslash before it a break.
function paragraph(lines) {
  const out = [];
  lines.forEach((line, i) => {
    const hard = /(\\| {2,})$/.test(line);
    out.push(...inline(line.replace(/(\\| {2,})$/, '')));
    if (i < lines.length - 1) out.push(hard ? h('br') : '\n');
  });
  return out;
}

// --- blocks ---

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE = /^ *\|?(?: *:?-+:? *\|)+ *:?-*:? *$/;

function code(lines, language) {
  const text = lines.join('\n');
  return h('div', { class: 'code' },
    h('div', { class: 'code-head' }, h('span', {}, language || 'code'), copyButton(() => text)),
    h('pre', { tabindex: '0', 'aria-label': `${language || 'Code'}` }, h('code', {}, text)));
}

function cells(line) {
  const parts = line.trim().replace(/^\|/, '').replace(/(^|[^\\])\|$/, '$1').split(/(?<!\\)\|/);
  return parts.map((c) => c.trim().replace(/\\\|/g, '|'));
}

function table(head, align, rows) {
  const side = cells(align).map((c) => (/^:-+:$/.test(c) ? 'center' : /-:$/.test(c) ? 'right' : 'left'));
  const line = (tag, list) => h('tr', {}, cells(head).map((_, i) => h(tag, { class: `to-${side[i] ?? 'left'}` }, inline(list[i] ?? ''))));
  return h('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table' },
    h('table', {}, h('thead', {}, line('th', cells(head))), h('tbody', {}, rows.map((r) => line('td', cells(r))))));
}

// A list with its first item at lines[0]; returns [element, lines taken].
function list(lines, depth) {
  const first = ITEM.exec(lines[0]), ordered = /\d/.test(first[2]), base = first[1].length;
  const items = [];
  let i = 0;
  while (i < lines.length) {
    const m = ITEM.exec(lines[i]);
    if (!m || m[1].length < base || m[1].length > base + 1 || /\d/.test(m[2]) !== ordered) break;
    const inner = [m[3] ?? ''], width = base + m[2].length + 1;
    i++;
    while (i < lines.length) {
      const next = ITEM.exec(lines[i]), indent = /^ */.exec(lines[i])[0].length;
      if (!lines[i].trim()) { // a blank line stays inside when what follows is indented
        if (!lines[i + 1]?.trim() || /^ */.exec(lines[i + 1])[0].length < width) break;
      } else if ((next && next[1].length <= base + 1) || (indent < base + 2 && !next && /^\s*$/.test(lines[i - 1] ?? ''))) break;
      else if (!next && indent < width && (FENCE.test(lines[i]) || HEADING.test(lines[i]))) break;
      inner.push(lines[i].slice(Math.min(width, indent)));
      i++;
    }
    const simple = inner.every((l) => l.trim() && !ITEM.test(l) && !FENCE.test(l));
    items.push(h('li', {}, simple ? paragraph(inner) : blocks(inner, depth + 1)));
    if (i < lines.length && !lines[i].trim() && ITEM.test(lines[i + 1] ?? '')) i++;
  }
  const start = ordered ? Number.parseInt(first[2], 10) : 1;
  return [h(ordered ? 'ol' : 'ul', { start: ordered && start !== 1 ? String(start) : null }, items), i];
}

function blocks(lines, depth = 0) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let m;
    if (!line.trim()) { i++; continue; }
    if ((m = FENCE.exec(line))) {
      const end = new RegExp(`^ {0,3}${m[1][0]}{${m[1].length},}\\s*$`), inner = [];
      for (i++; i < lines.length && !end.test(lines[i]); i++) inner.push(lines[i]);
      i++;
      out.push(code(inner, m[2].slice(0, 24)));
    } else if ((m = HEADING.exec(line))) {
      out.push(h(`h${Math.min(6, m[1].length + 2)}`, {}, inline(m[2])));
      i++;
    } else if (RULE.test(line)) {
      out.push(h('hr'));
      i++;
    } else if (depth < 6 && QUOTE.test(line)) {
      const inner = [];
      for (; i < lines.length && QUOTE.test(lines[i]); i++) inner.push(QUOTE.exec(lines[i])[1]);
      out.push(h('blockquote', {}, blocks(inner, depth + 1)));
    } else if (depth < 6 && ITEM.test(line)) {
      const [element, n] = list(lines.slice(i), depth);
      out.push(element);
      i += Math.max(1, n);
    } else if (line.includes('|') && TABLE.test(lines[i + 1] ?? '') && lines[i + 1].includes('-')) {
      const rows = [], head = line, align = lines[i + 1];
      for (i += 2; i < lines.length && lines[i].includes('|') && lines[i].trim(); i++) rows.push(lines[i]);
      out.push(table(head, align, rows));
    } else {
      const inner = [line];
      for (i++; i < lines.length && lines[i].trim() && !FENCE.test(lines[i]) && !HEADING.test(lines[i]) && !QUOTE.test(lines[i])
        && !RULE.test(lines[i]) && !(ITEM.test(lines[i]) && depth < 6); i++) inner.push(lines[i]);
      out.push(h('p', {}, paragraph(inner)));
    }
  }
  return out;
}

export const markdown = (text) => blocks(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'));

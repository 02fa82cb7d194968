// A page that is watched: nothing may go wrong on the console, and nothing may leave this server.
import { chromium } from 'playwright-core';
import { ok, patience } from './lib.mjs';

let browser;
export async function open(url, { width = 1280, height = 900, dark = false, touch = false, hash = '', allow = [], init } = {}) {
  browser ??= await chromium.launch({ executablePath: '/usr/bin/chromium', timeout: patience, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', hasTouch: touch, reducedMotion: 'reduce' });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const wrong = [];
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type()) && !allow.some((a) => a.test(m.text()))) wrong.push(`${m.type()}: ${m.text()}`); });
  page.on('pageerror', (e) => wrong.push(`exception: ${e.stack}`));
  page.on('dialog', (d) => { wrong.push(`dialog: ${d.message()}`); d.dismiss(); });
  context.on('page', () => wrong.push('a new window'));
  await context.route('**', (route) => {
    const to = route.request().url();
    if (to.startsWith(url + '/')) return route.continue();
    wrong.push(`a request to ${to}`);
    return route.abort();
  });
  if (init) await page.addInitScript(init);
  await page.goto(`${url}/${hash ? `#${hash}` : ''}`);
  page.fine = () => ok(wrong.length === 0, wrong.join('\n'));
  page.end = async () => { page.fine(); await context.close(); };
  return page;
}

// Text whose colour is too close to what is behind it: WCAG's ratio from computed styles, over every text node in view.
export const faint = (page) => page.evaluate(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (css) => { // any CSS colour, as the browser itself resolves it
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const light = (c) => {
    const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const stack = [];
    for (let n = e; n; n = n.parentElement) {
      const c = rgba(getComputedStyle(n).backgroundColor);
      if (c[3] > 0) stack.push(c);
      if (c[3] === 1) break;
    }
    let base = rgba(getComputedStyle(document.body).backgroundColor).slice(0, 3);
    for (const c of stack.reverse()) base = over(c, base);
    return base;
  };
  const bad = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const look = (e, css, text) => {
    const style = getComputedStyle(e);
    if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || e.closest('.visually-hidden, .skip')) return;
    const back = behind(e), ink = over(rgba(css), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)} "${text.slice(0, 40)}" in ${e.tagName}.${e.className}`);
  };
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), e = walk.currentNode.parentElement;
    if (text && !['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'].includes(e.tagName)) look(e, getComputedStyle(e).color, text);
  }
  for (const e of document.querySelectorAll('input, textarea, select')) {
    look(e, getComputedStyle(e).color, e.value || 'value');
    if (e.placeholder) look(e, getComputedStyle(e, '::placeholder').color, e.placeholder);
  }
  return bad;
});

// What a thumb cannot hit or a narrow screen cannot hold; bars count as one target.
export const cramped = (page) => page.evaluate(() => {
  const bad = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) bad.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const e of document.querySelectorAll('button, input, select, textarea, summary, a[href], .bar[role="listbox"]')) {
    if (!e.checkVisibility() || e.closest('.skip, .message')) continue;
    const r = e.getBoundingClientRect();
    if (r.height < 24 || (r.width < 24 && e.className !== 'bar')) bad.push(`${e.tagName} "${e.textContent.slice(0, 20)}" is ${r.width.toFixed(0)}x${r.height.toFixed(0)}`);
    if (r.right > width + 1 || r.left < -1) bad.push(`${e.tagName} "${e.textContent.slice(0, 20)}" hangs over the edge`);
  }
  return bad;
});

// Controls that a screen reader could not name.
export const nameless = (page) => page.evaluate(() => [...document.querySelectorAll('button, input, select, textarea, [role="listbox"], [role="option"], [role="tab"], [role="img"], dialog')]
  .filter((e) => !(e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent || e.labels?.length || e.textContent.trim()))
  .map((e) => e.outerHTML.slice(0, 120)));

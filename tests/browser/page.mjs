// The parts of the page, as people use them: with a mouse, with a keyboard alone, on a phone, in light and dark.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { build, binary, equal, eventually, ok, runAll, scratchFile, serve, sleep, test } from './lib.mjs';
import { hub } from './hub.mjs';
import { cramped, faint, nameless, open } from './browser.mjs';
import './models.mjs';

const rig = path.join(process.env.VR_RIGS, '2x3090-2x3060.json');
const parts = ['plan', 'whatif', 'chat', 'live', 'models'];
const shot = (page, name) => page.screenshot({ path: path.join(process.env.VR_SHOTS, `${name}.png`), fullPage: true });
const state = (page, text) => page.waitForFunction((t) => document.getElementById('state').textContent.startsWith(t), text);

// The real engine with a tiny model, for all tests that need no fault; and one that sees.
const up = {};
async function start(name, args, env = {}) {
  if (up[name]) return up[name];
  const log = scratchFile(`${name}-log`), fd = fs.openSync(log, 'w');
  const child = spawn(binary, ['serve', process.env.VR_TINY, '--alias', 'tiny', '--port', '0', '--n-ctx', '2048', '--n-seq', '2', '--threads', '1', '--models-dir', path.join(build, 'models'), ...args],
    { stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: scratchFile('state'), ...env } });
  process.on('exit', () => child.kill('SIGKILL'));
  const url = await eventually(() => `the tiny model is up: ${fs.readFileSync(log, 'utf8')}`, async () => {
    if (child.exitCode !== null) throw new Error(fs.readFileSync(log, 'utf8'));
    const m = /listening on (http:\/\/\S+:\d+)/.exec(fs.readFileSync(log, 'utf8'));
    return m && (await fetch(`${m[1]}/health`)).ok && m[1];
  });
  return (up[name] = { url });
}
const real = () => start('tiny', []);
const seeing = () => start('seeing', ['--mmproj', process.env.VR_EYES]);

const send = async (page, text) => { await page.fill('#ch-input', text); await page.press('#ch-input', 'Enter'); };
const answered = (page, n = 1) => page.waitForFunction((k) => document.querySelectorAll('.message.assistant[aria-busy="false"]').length === k, n);
const last = (page) => page.locator('.message.assistant').last();

// --- plan ---

test('plan: bars of every device, layers by hover and by keyboard, reasons, what was left out', async () => {
  const s = await serve({ args: ['--machine', rig, '--n-ctx', '8192', '--split-mode', 'layer'] });
  const page = await open(s.url);
  await page.waitForSelector('#panel-plan .device');
  const text = (await page.innerText('#panel-plan')).replaceAll('\u00a0', ' ').replaceAll('\u2060', '');
  for (const part of ['Devstral', 'RTX 3090', 'layers 0–39, output', '936 GB/s', 'PCIe 4 x8', 'Not used', 'CUDA2', 'search was exhaustive', 'Token generation, predicted', 'Token generation, measured', 'Host memory', 'KV cache'])
    ok(text.includes(part), `'${part}' is missing in ${text}`);
  const plan = (await s.get('/api/plan')).json;
  // reasons by kind; a card that is left out is told once, below "Left out"
  const told = await page.locator('#panel-plan li[data-kind]').evaluateAll((all) => all.map((e) => e.dataset.kind));
  const left_out = new Set(plan.excluded.map((e) => e.kind));
  equal(told, plan.reasons.map((r) => r.kind).filter((k) => !left_out.has(k)), 'reasons');
  equal(plan.excluded.map((x) => [x.id, x.kind]), ['CUDA1', 'CUDA2', 'CUDA3'].map((id) => [id, 'not_needed']), 'excluded');
  ok(!/left out: /.test(text), 'the heading says it');
  const bar = page.locator('#panel-plan .bar').first();
  equal(await bar.locator('.seg.k-l0, .seg.k-l1').count(), plan.devices[0].layers.length, 'layers');
  // the bar's pieces are as wide as their bytes
  const widths = await bar.locator('.seg').evaluateAll((all) => all.map((e) => e.getBoundingClientRect().width));
  const whole = widths.reduce((a, b) => a + b, 0), d = plan.devices[0];
  ok(Math.abs(widths[3] / whole - d.layers[3].bytes / d.total_bytes) < 0.002, `layer 3 is ${widths[3] / whole} of the bar`);
  await bar.locator('.seg').nth(3).hover();
  equal(await page.innerText('#tip'), `layer 3, ${d.layers[3].type}: ${Math.round(d.layers[3].bytes / 1048576)} MiB`);
  await bar.locator('.seg').first().focus();
  await page.keyboard.press('ArrowRight');
  ok((await page.innerText('#tip')).startsWith('layer 1,'), 'arrow');
  await page.keyboard.press('End');
  ok((await page.innerText('#tip')).startsWith('other processes'), 'end');
  await page.keyboard.press('Escape');
  ok(!(await page.isVisible('#tip')), 'Escape');
  await page.getByText('Equivalent llama.cpp flags').click();
  await page.getByRole('button', { name: 'Copy' }).first().click();
  ok(/^llama-server -ngl 41 /.test(await page.evaluate(() => navigator.clipboard.readText())), 'the flags');
  await page.end();
});

test('plan: a part of every layer on each of two devices', async () => {
  const s = await serve({ args: ['--machine', rig] });
  const page = await open(s.url);
  await page.waitForSelector('#panel-plan .device');
  const plan = (await s.get('/api/plan')).json, text = (await page.innerText('#panel-plan')).replaceAll('\u00a0', ' ').replaceAll('\u2060', '');
  equal([plan.split_mode, plan.devices.map((d) => d.share)], ['tensor', [0.5, 0.5]]);
  await shot(page, 'plan-tensor');
  for (const part of ['of layers 0–39, output', 'Split mode tensor']) ok(text.includes(part), `'${part}' is missing in ${text}`);
  for (const d of (await page.locator('#panel-plan .device').all()).slice(0, 2))
    ok(/^part of layer 0/.test(await d.locator('.seg').first().getAttribute('aria-label')), 'its parts');
  await page.end();
});

test('plan: scratch memory beside the buffers has its piece of the bar', async () => {
  const s = await serve({ args: ['--machine', rig, '--n-ctx', '16384', '--n-batch', '1024', '--n-ubatch', '1024', '--flash-attn', 'off'] });
  const page = await open(s.url);
  await page.waitForSelector('#panel-plan .device');
  const d = (await s.get('/api/plan')).json.devices[0];
  ok(d.beside_bytes > 0, 'the plan has some');
  equal(await page.locator('#panel-plan .bar .seg.k-sc').first().getAttribute('aria-label'), `scratch memory: ${Math.round(d.beside_bytes / 1048576).toLocaleString('en')} MiB`);
  ok((await page.innerText('#panel-plan .legend')).includes('scratch memory'), 'the legend');
  equal(await page.locator('#panel-plan li[data-kind="beside_buffers"]').count(), 1, 'the reason');
  await page.end();
});

test('plan: a machine without a GPU shows its host', async () => {
  const s = await real();
  const page = await open(s.url);
  await page.waitForSelector('#panel-plan .device');
  const text = await page.innerText('#panel-plan');
  for (const part of ['host only, no GPU', 'Host memory', 'magnified', 'there is no GPU']) ok(text.includes(part), `'${part}' is missing in ${text}`);
  ok((await page.locator('#panel-plan .bar .seg.k-h0, #panel-plan .bar .seg.k-h1').count()) > 6, 'its layers');
  await page.end();
});

// --- what if ---

test('what if: cards by search, count, context and cache; the plan follows at once', async () => {
  const s = await real();
  const page = await open(s.url, { hash: 'whatif' });
  const verdict = (text) => page.waitForFunction((t) => document.querySelector('.verdict').textContent.includes(t) && document.querySelector('.result').getAttribute('aria-busy') === 'false', text);
  await verdict('It fits');
  await page.selectOption('#wi-model', { label: (await page.locator('#wi-model option').allInnerTexts()).find((t) => t.startsWith('Devstral')) });
  await page.getByRole('button', { name: 'No GPU' }).click();
  await page.fill('#wi-ram', '2');
  await verdict('does not fit');
  await page.fill('#wi-search', '3060 13'); // no such words in one name
  ok(!(await page.isVisible('#wi-found')), 'no hits, no list');
  await page.fill('#wi-search', 'rtx 3060 12');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.cards [data-name="RTX 3060 12GB"]');
  await page.waitForSelector('.hints .chip'); // what would fit is offered
  const hint = page.locator('.hints .chip', { hasText: 'one more RTX 3060 12GB' });
  await hint.click();
  await verdict('It fits');
  equal(await page.innerText('.cards output'), '2');
  ok((await page.innerText('.result')).includes('Devstral'), 'the chosen model');
  const speed = async () => parseFloat((await page.innerText('.verdict')).match(/[\d.]+/)[0]);
  const slow = await speed();
  await page.fill('#wi-search', '5090');
  await page.locator('#wi-found li').first().click();
  await page.waitForFunction((was) => parseFloat(document.querySelector('.verdict').textContent.match(/[\d.]+/)?.[0]) > was * 1.5, slow);
  const before = await page.innerText('.result');
  await page.locator('input[type="range"]').fill('24');
  await page.waitForFunction((t) => document.querySelector('.result').innerText !== t, before);
  equal(await page.inputValue('#wi-ctx'), '32768', 'the slider sets the number');
  await page.selectOption('#wi-cache', 'q8_0');
  await page.waitForFunction(() => document.querySelector('.result').innerText.includes('q8_0 KV cache'));
  await page.getByRole('button', { name: 'Use the largest context that fits' }).click();
  await page.waitForFunction(() => Number(document.getElementById('wi-ctx').value) > 32768);
  await page.fill('#wi-ctx', '100');
  await page.getByRole('button', { name: 'Remove one RTX 5090' }).click();
  ok(!(await page.locator('.cards [data-name="RTX 5090"]').count()), 'removed');
  await verdict('It fits');
  await page.end();
});

test('what if: a model on Hugging Face, all of a repository and then one', async () => {
  const h = await hub({ 'org/Tiny-GGUF': { 'Tiny-Q4_K_M.gguf': process.env.VR_TINY, 'Tiny-Q8_0.gguf': process.env.VR_TINY } });
  const s = await serve({ env: { ...h.env, HOME: scratchFile('home'), XDG_CACHE_HOME: '' } });
  const page = await open(s.url, { hash: 'whatif', allow: [/status of 400/] });
  await page.fill('#wi-hub', 'org/Tiny-GGUF'); // hf: may be left out
  await page.press('#wi-hub', 'Tab');
  await page.waitForFunction(() => /^Best choice: /.test(document.querySelector('#panel-whatif .verdict').textContent));
  await page.locator('#panel-whatif .result .chip').first().click();
  await page.waitForSelector('#panel-whatif .result .device');
  equal(await page.inputValue('#wi-hub'), 'hf:org/Tiny-GGUF:Tiny-Q4_K_M');
  await page.fill('#wi-hub', 'hf:org/None-GGUF');
  await page.press('#wi-hub', 'Tab');
  await page.waitForFunction(() => /None-GGUF/.test(document.querySelector('#panel-whatif .verdict').textContent));
  h.close();
  await page.end();
});

test('what if: the last question wins', async () => {
  const s = await real();
  const page = await open(s.url, { hash: 'whatif' });
  await page.waitForFunction(() => document.querySelector('.verdict').textContent.includes('fits'));
  for (const n of [512, 1024, 2048, 4096, 8192]) { await page.fill('#wi-ctx', String(n)); await sleep(170); }
  await page.waitForFunction(() => document.querySelector('.result-title').textContent.includes('8,192 tokens'));
  await sleep(400);
  ok((await page.innerText('.result-title')).includes('8,192 tokens'), 'no older answer came later');
  await page.end();
});

// --- chat ---

test('chat: with the real engine: streams, measures, stops, regenerates, is kept over a reload', async () => {
  const s = await real();
  const page = await open(s.url, { hash: 'chat' });
  await state(page, 'ready');
  await page.getByText('System prompt and sampling').click();
  await page.fill('#ch-system', 'Answer briefly.');
  await page.fill('#ch-max_tokens', '24');
  await page.fill('#ch-temperature', '0');
  await page.fill('#ch-seed', '7');
  const asked = page.waitForRequest('**/v1/chat/completions');
  await send(page, 'hello');
  const body = (await asked).postDataJSON();
  equal([body.messages[0], body.max_tokens, body.temperature, body.seed, body.top_p], [{ role: 'system', content: 'Answer briefly.' }, 24, 0, 7, undefined]);
  await answered(page);
  const meta = await last(page).locator('.meta').innerText();
  ok(/^\d+ tokens? · .*first token after/.test(meta), meta);
  const text = await last(page).locator('.body').last().innerText();
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await answered(page);
  equal(await last(page).locator('.body').last().innerText(), text, 'the same seed says the same');
  await page.fill('#ch-max_tokens', '');
  await send(page, 'go on for ever');
  await page.waitForFunction(() => [...document.querySelectorAll('.message.assistant')].at(-1).innerText.length > 20);
  await page.getByRole('button', { name: 'Stop' }).click();
  await answered(page, 2);
  ok((await last(page).innerText()).includes('stopped') || (await last(page).locator('.meta').innerText()).includes('tokens'), 'stopped');
  await page.reload();
  await page.waitForSelector('.message');
  equal(await page.locator('.message').count(), 4, 'kept');
  await page.locator('.message.user').first().getByRole('button', { name: 'Edit' }).click();
  equal([await page.inputValue('#ch-input'), await page.locator('.message').count()], ['hello', 0]);
  await page.getByRole('button', { name: 'New conversation' }).click();
  await page.waitForSelector('.empty');
  await page.end();
});

const wild = [
  '# Heading', '', 'Some **bold**, *italic*, `code`, [a link](https://example.org/x?y=1) and https://example.net/.', '',
  '- one', '- two', '  1. inner', '', '> quoted', '', '| a | b |', '|---|--:|', '| 1 | 2 |', '', '```js', 'if (a < b) alert("no");', '```', '',
  '<script>window.pwned = 1</script><img src=x onerror="window.pwned=2"><svg onload=window.pwned=3>', '',
  '[js](javascript:window.pwned=4) [data](data:text/html,<script>window.pwned=5</script>) [vb](vbscript:x) [up](JaVaScRiPt:window.pwned=6) [tab](java\tscript:window.pwned=7)', '',
  '![img](https://evil.example/track.png) <iframe src="https://evil.example"></iframe> <a href="javascript:window.pwned=8">x</a>', '',
  '`<b>not bold</b>` **<i>not italic</i>** &lt;script&gt; <style>body{display:none}</style>', '', '[x](https://a.example/"onmouseover="window.pwned=9)', '',
  '```<img src=x onerror=window.pwned=10>', '</code></pre><script>window.pwned=11</script>', '```',
].join('\n');

test('chat: markdown becomes elements, and nothing that a model says becomes code', async () => {
  const s = await serve();
  const page = await open(s.url, { hash: 'chat' });
  await state(page, 'ready');
  await page.fill('#ch-input', `say:${wild}`);
  await page.press('#ch-input', 'Enter');
  await answered(page);
  const body = last(page).locator('.body').last();
  const n = async (css) => body.locator(css).count();
  equal([await n('h3'), await n('strong'), await n('em'), await n('ul > li'), await n('ol > li'), await n('blockquote'), await n('th'), await n('td.to-right'), await n('pre')],
    [1, 2, 1, 2, 1, 1, 2, 1, 2], 'structure');
  equal(await body.locator('pre').first().innerText(), 'if (a < b) alert("no");');
  equal(await n('script, img, svg, iframe, style, [onerror], [onload], [onmouseover], [style]'), 0, 'no foreign element');
  const links = await body.locator('a').evaluateAll((all) => all.map((a) => [a.getAttribute('href'), a.rel, a.target]));
  ok(links.every(([href, rel, target]) => /^https?:\/\//.test(href) && rel.includes('noopener') && target === '_blank'), JSON.stringify(links));
  ok(links.some(([href]) => href === 'https://example.org/x?y=1') && links.some(([href]) => href === 'https://example.net/'), JSON.stringify(links));
  ok((await body.innerText()).includes('<script>window.pwned = 1</script>'), 'markup is shown as text');
  equal(await page.evaluate(() => window.pwned), undefined, 'nothing ran');
  await body.getByRole('button', { name: 'Copy' }).first().click();
  equal(await page.evaluate(() => navigator.clipboard.readText()), 'if (a < b) alert("no");');
  await shot(page, 'chat-markdown');
  // what was said is also what is kept, and is as harmless after a reload
  await page.reload();
  await page.waitForSelector('.message.assistant pre');
  equal(await page.evaluate(() => window.pwned), undefined, 'after a reload');
  await page.end();
});

// Pictures are made in the page: painted, so that they do not compress to nothing. Chosen as a file, or pasted, or dropped.
const painter = async (w, hh, type) => {
  const c = new OffscreenCanvas(w, hh), pen = c.getContext('2d');
  const g = pen.createLinearGradient(0, 0, w, hh);
  for (const [at, colour] of [[0, '#1c6dd0'], [0.5, '#f4d35e'], [1, '#c8553d']]) g.addColorStop(at, colour);
  pen.fillStyle = g;
  pen.fillRect(0, 0, w, hh);
  for (let i = 0; i < 400; i++) { pen.fillStyle = `hsl(${i * 47 % 360} 70% 50%)`; pen.fillRect((i * 7919) % w, (i * 104729) % hh, w / 30, hh / 30); }
  return c.convertToBlob({ type });
};
const init = `window.painter = ${painter};`;
const paint = async (page, w, hh, type) => Buffer.from(await page.evaluate(async ([a, b, t]) => [...new Uint8Array(await (await window.painter(a, b, t)).arrayBuffer())], [w, hh, type]));
const hand = (page, event, w, hh, type) => page.evaluate(async ([how, a, b, t]) => {
  const d = new DataTransfer();
  d.items.add(new File([await window.painter(a, b, t)], 'picture', { type: t }));
  const at = document.getElementById('ch-input'), lit = () => document.getElementById('panel-chat').classList.contains('dropping');
  if (how === 'paste') return !at.dispatchEvent(new ClipboardEvent('paste', { clipboardData: d, bubbles: true, cancelable: true }));
  at.dispatchEvent(new DragEvent('dragover', { dataTransfer: d, bubbles: true, cancelable: true }));
  const before = lit();
  at.dispatchEvent(new DragEvent('drop', { dataTransfer: d, bubbles: true, cancelable: true }));
  return before && !lit();
}, [event, w, hh, type]);
const thumbs = (page, n) => page.waitForFunction((k) => document.querySelectorAll('.thumbs img').length === k && !document.getElementById('ch-send').disabled, n);

test('chat: pictures are chosen, pasted, dropped, removed, sent, kept and sent again', async () => {
  const s = await seeing();
  const page = await open(s.url, { hash: 'chat', init });
  await state(page, 'ready');
  await page.waitForSelector('#ch-attach:not([hidden])');
  await page.evaluate(() => { document.querySelector('.chat-settings').open = true; });
  await page.fill('#ch-max_tokens', '8');
  const small = await paint(page, 200, 120, 'image/png');
  const chooser = page.waitForEvent('filechooser');
  await page.focus('#ch-attach');
  await page.keyboard.press('Enter');
  await (await chooser).setFiles({ name: 'small.png', mimeType: 'image/png', buffer: small });
  await thumbs(page, 1);
  ok(await hand(page, 'paste', 5000, 3000, 'image/jpeg'), 'a pasted picture is taken');
  await thumbs(page, 2);
  ok(await hand(page, 'drop', 300, 300, 'image/webp'), 'the place to drop is shown');
  await thumbs(page, 3);
  await shot(page, 'chat-pictures-waiting');
  await page.getByRole('button', { name: 'Remove image 3' }).click();
  await thumbs(page, 2);
  equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Remove image 2', 'focus stays there');
  let asked = page.waitForRequest('**/v1/chat/completions');
  await send(page, 'what is this?');
  let body = (await asked).postDataJSON();
  const parts = body.messages.at(-1).content;
  equal(parts.map((p) => p.type), ['image_url', 'image_url', 'text']);
  equal([parts[0].image_url.url.slice(0, 22), parts[1].image_url.url.slice(0, 23), parts[2].text], ['data:image/png;base64,', 'data:image/jpeg;base64,', 'what is this?']);
  const [w, hh] = await page.evaluate(async (url) => { const i = new Image(); i.src = url; await i.decode(); return [i.naturalWidth, i.naturalHeight]; }, parts[1].image_url.url);
  ok(Math.max(w, hh) <= 1536 && Math.abs(w / hh - 5 / 3) < 0.01 && parts[1].image_url.url.length <= 1 << 20, `${w} x ${hh}, ${parts[1].image_url.url.length} bytes`);
  await answered(page);
  equal(await last(page).getByRole('alert').allTextContents(), [], 'no error');
  equal([await page.locator('.message.user .shown img').count(), await page.locator('.thumbs img').count()], [2, 0]);
  await shot(page, 'chat-pictures');
  // a conversation goes on with them, also after a reload
  await page.reload();
  await state(page, 'ready');
  await page.waitForSelector('#ch-attach:not([hidden])');
  equal(await page.locator('.message.user .shown img').count(), 2, 'kept');
  asked = page.waitForRequest('**/v1/chat/completions');
  await send(page, 'and now?');
  body = (await asked).postDataJSON();
  equal([body.messages[0].content.length, body.messages.at(-1).content], [3, 'and now?']);
  await answered(page, 2);
  equal(await last(page).getByRole('alert').allTextContents(), [], 'no error');
  // editing brings them back; a picture needs no words
  await page.locator('.message.user').first().getByRole('button', { name: 'Edit' }).click();
  await thumbs(page, 2);
  await page.getByRole('button', { name: 'Remove image 1' }).click();
  asked = page.waitForRequest('**/v1/chat/completions');
  await send(page, '');
  equal((await asked).postDataJSON().messages.at(-1).content.map((p) => p.type), ['image_url']);
  await answered(page);
  equal(await last(page).getByRole('alert').allTextContents(), [], 'no error');
  // what is no picture
  await page.setInputFiles('#ch-file', { name: 'notes.png', mimeType: 'image/png', buffer: Buffer.from('not a picture') });
  await page.waitForFunction(() => /notes\.png is not an image/.test(document.querySelector('.dock [role="status"]').textContent));
  // and no more than the server takes
  await page.setInputFiles('#ch-file', Array.from({ length: 17 }, (_, i) => ({ name: `${i}.png`, mimeType: 'image/png', buffer: small })));
  await page.waitForFunction(() => /at most 16 images/.test(document.querySelector('.dock [role="status"]').textContent));
  await thumbs(page, 15);
  await page.getByRole('button', { name: 'New conversation' }).click();
  await thumbs(page, 0);
  await page.end();
});

test('chat: pictures in the dark and on a phone', async () => {
  const s = await seeing();
  for (const [name, how] of [['dark', { dark: true }], ['phone', { width: 390, height: 844, touch: true }]]) {
    const page = await open(s.url, { hash: 'chat', init, ...how });
    await state(page, 'ready');
    await page.waitForSelector('#ch-attach:not([hidden])');
    await page.evaluate(() => { document.querySelector('.chat-settings').open = true; });
    await page.fill('#ch-max_tokens', '8');
    await page.evaluate(() => { document.querySelector('.chat-settings').open = false; });
    await page.setInputFiles('#ch-file', { name: 'a.png', mimeType: 'image/png', buffer: await paint(page, 600, 400, 'image/png') });
    await thumbs(page, 1);
    await send(page, 'What do you see in this picture?');
    await answered(page);
    await page.setInputFiles('#ch-file', [{ name: 'b.jpg', mimeType: 'image/jpeg', buffer: await paint(page, 300, 700, 'image/jpeg') }, { name: 'c.png', mimeType: 'image/png', buffer: await paint(page, 64, 64, 'image/png') }]);
    await thumbs(page, 2);
    equal([await faint(page), await cramped(page), await nameless(page)], [[], [], []], name);
    await shot(page, `chat-pictures-${name}`);
    await page.end();
  }
});

test('chat: a model that cannot see is not offered pictures, and old ones are not sent to it', async () => {
  const s = await real();
  const url = 'data:image/png;base64,iVBORw0KGgo=';
  const store = JSON.stringify({ options: { max_tokens: '8' }, messages: [{ role: 'user', content: 'look', pictures: [url, 'javascript:alert(1)', 7] }, { role: 'assistant', content: 'well', pictures: 'x' }] });
  const page = await open(s.url, { hash: 'chat', init: `${init} if (!sessionStorage.once) { sessionStorage.once = 1; localStorage.setItem('vram-llm.chat', ${JSON.stringify(store)}); }` });
  await state(page, 'ready');
  ok(!(await page.isVisible('#ch-attach')), 'no button');
  equal(await page.locator('.shown img').count(), 1, 'only what is a picture');
  ok((await page.innerText('.dock')).includes('This model has no vision'), await page.innerText('.dock'));
  ok(!(await hand(page, 'paste', 8, 8, 'image/png')), 'a paste is left alone');
  const asked = page.waitForRequest('**/v1/chat/completions');
  await send(page, 'go on');
  equal((await asked).postDataJSON().messages.map((m) => m.content), ['look', 'well', 'go on']);
  await answered(page, 2);
  equal(await last(page).getByRole('alert').allTextContents(), [], 'no error');
  await page.end();
});

test('chat: pictures that the browser has no room for last as long as the page', async () => {
  const s = await seeing();
  const page = await open(s.url, { hash: 'chat', init: `${init} { const put = Storage.prototype.setItem; Storage.prototype.setItem = function (k, v) { if (v.length > 5000) throw new DOMException('full', 'QuotaExceededError'); put.call(this, k, v); }; }` });
  await state(page, 'ready');
  await page.waitForSelector('#ch-attach:not([hidden])');
  await page.evaluate(() => { document.querySelector('.chat-settings').open = true; });
  await page.fill('#ch-max_tokens', '4');
  await page.setInputFiles('#ch-file', { name: 'a.png', mimeType: 'image/png', buffer: await paint(page, 400, 400, 'image/png') });
  await thumbs(page, 1);
  await send(page, 'keep this');
  await answered(page);
  await page.reload();
  await page.waitForSelector('.message');
  const text = await page.innerText('.message.user');
  ok(text.includes('keep this') && text.includes('too large for this browser'), text);
  await page.end();
});

test('chat: a storage full of nonsense does no harm', async () => {
  const s = await real();
  for (const kept of ['{', '{"messages":7}', '{"messages":[null,{"role":"system","content":"x"},{"role":"user"}],"options":[]}', 'null']) {
    const page = await open(s.url, { hash: 'chat', init: `localStorage.setItem('vram-llm.chat', ${JSON.stringify(kept)})` });
    await page.waitForSelector('.empty');
    await page.end();
  }
});

test('chat: reasoning is folded, errors are sentences, and a second try works', async () => {
  const s = await serve({ engine: { held: true }, ready: false }); // each engine comes up when it is told
  s.tell('load 100');
  const page = await open(s.url, { hash: 'chat', allow: [/Failed to load resource/, /ERR_/] });
  await state(page, 'ready');
  await send(page, 'think tokens=6');
  await answered(page);
  ok(!(await last(page).locator('.think .body').isVisible()), 'folded');
  await last(page).getByText('Reasoning').click();
  ok((await last(page).locator('.think .body').innerText()).includes('think0'), 'unfolds');
  await send(page, 'error=400');
  await answered(page, 2);
  equal(await last(page).getByRole('alert').innerText(), 'The prompt is too long by 12 tokens.');
  await send(page, 'tokens=50 delay=5 error_after=3');
  await answered(page, 3);
  ok((await last(page).innerText()).includes('The engine lost its way'), await last(page).innerText());
  await send(page, 'tokens=9 delay=20 crash=4');
  await answered(page, 4);
  ok(/being restarted/.test(await last(page).getByRole('alert').innerText()), 'the crash is told');
  await page.waitForFunction(() => /restarting|loading/.test(document.getElementById('state').textContent));
  s.tell('load 100');
  await state(page, 'ready');
  await last(page).locator('..').getByRole('button', { name: 'Edit' }).last().click();
  await send(page, 'tokens=5');
  await answered(page, 4);
  ok((await last(page).innerText()).includes('token4'), 'after the crash');
  await page.end();
});

// --- live ---

test('live: tokens, slots, devices, log; a reload keeps the history', async () => {
  const s = await serve({ env: { VRAM_LLM_NVML: path.resolve(build, 'tests/libnvml-stub.so') } });
  const page = await open(s.url, { hash: 'live' });
  await state(page, 'ready');
  const answer = fetch(`${s.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ messages: [{ role: 'user', content: 'tokens=1000000 delay=10' }] }) });
  await page.waitForFunction(() => /generating/.test(document.querySelector('.slots').innerText) && parseFloat(document.querySelector('#panel-live .figure b').textContent) > 1);
  await page.waitForFunction(() => document.querySelector('.live-devices').innerText.includes('RTX 4080 Laptop'));
  const devices = await page.innerText('.live-devices');
  for (const part of ['42 % busy', '57 °C', '252 W', 'CUDA1', 'Host']) ok(devices.includes(part), `'${part}' is missing in ${devices}`);
  ok((await page.innerText('.log')).includes('listening on'), 'log');
  s.tell('end');
  await answer;
  await page.waitForFunction(() => /text_tokens=\d/.test(document.querySelector('.log').innerText));
  await page.waitForFunction(() => document.querySelector('#panel-live').innerText.includes('per request:'));
  await page.reload();
  await page.waitForFunction(() => /peak [1-9]/.test(document.querySelector('.chart svg')?.getAttribute('aria-label')));
  await page.click('#tab-plan');
  await page.waitForFunction(() => document.querySelector('#panel-plan').innerText.includes('per request, recently'));
  await page.end();
});

// --- other machines ---

test('a node: what it lends and the way there, in the plan and live', async () => {
  const folders = { attic: scratchFile('attic'), desk: scratchFile('desk') };
  const home = (who) => ({ ...process.env, XDG_CONFIG_HOME: folders[who], XDG_CACHE_HOME: folders[who] });
  const token = /vram-node-[0-9a-f-]+/.exec(execFileSync(binary, ['node', '--init', '--name', 'attic'], { env: home('attic'), encoding: 'utf8' }))[0];
  const log = scratchFile('node-log'), fd = fs.openSync(log, 'w');
  const node = spawn(binary, ['node', '--name', 'attic', '--listen', '127.0.0.1:0', '--gpus', 'RTX 3060 12GB', '--lend-mib', '400', '--threads', '1', '--tensor-cache-gib', '0'], { stdio: ['ignore', fd, fd], env: home('attic') });
  process.on('exit', () => node.kill('SIGKILL'));
  const port = await eventually(() => fs.readFileSync(log, 'utf8'), () => /port (\d+)/.exec(fs.readFileSync(log, 'utf8'))?.[1]);
  execFileSync(binary, ['node', '--nodes', `127.0.0.1:${port}`, '--join', token], { env: home('desk') });
  const s = await start('borrowing', ['--gpus', 'none', '--nodes', 'attic', '--tensor-split', '1', '--reserve-mib', '1'], { XDG_CONFIG_HOME: folders.desk });
  const plan = await (await fetch(`${s.url}/api/plan`)).json();
  equal(plan.nodes.map((n) => [n.name, n.devices, n.lent_bytes]), [['attic', ['attic/CUDA0'], 400 * 1048576]]);
  const d = plan.devices[0];
  equal(plan.nodes[0].used_bytes, d.model_bytes + d.context_bytes + d.compute_bytes, 'used');
  const metrics = await (await fetch(`${s.url}/metrics`)).text();
  for (const part of ['node_devices 1', `node_lent_bytes{node="attic"} ${400 * 1048576}`, `node_used_bytes{node="attic"} ${plan.nodes[0].used_bytes}`, 'node_round_trip_seconds{node="attic"} ', 'node_bytes_per_second{node="attic"} '])
    ok(metrics.includes(`vram_llm_${part}`), `'${part}' is missing in ${metrics}`);
  for (const [name, how] of [['light', {}], ['dark', { dark: true, width: 390, height: 844 }]]) {
    const page = await open(s.url, how);
    await page.waitForSelector('#panel-plan .device');
    const told = (await page.innerText('#panel-plan [data-node="attic"]')).replaceAll('\u00a0', ' ').replaceAll('\u2060', '');
    ok(/^attic: lends 400 MiB on attic\/CUDA0, .* of it used; [\d.]+ GB\/s each way, [\d.]+ ms round trip$/.test(told), told);
    equal([await faint(page), await cramped(page)], [[], []], name);
    await shot(page, `nodes-plan-${name}`);
    await page.click('#tab-live');
    await page.waitForFunction(() => /lent by attic/.test(document.querySelector('.live-devices').innerText));
    ok(!/virtual/.test(await page.innerText('.live-devices')), 'it is no virtual GPU of this machine');
    await shot(page, `nodes-live-${name}`);
    await page.end();
  }
});

// --- states ---

test('a model that loads, an engine that restarts, a server that goes away', async () => {
  const s = await serve({ engine: { held: true }, ready: false });
  s.tell('load 30');
  const page = await open(s.url, { hash: 'chat', allow: [/Failed to load resource/, /ERR_/] });
  await state(page, 'loading');
  ok((await page.innerText('#banner')).includes('reading the weights'), 'banner');
  ok(await page.isVisible('#banner-bar'), 'progress');
  ok(await page.isDisabled('#ch-send'), 'nothing can be sent yet');
  await shot(page, 'loading');
  s.tell('load 100');
  await state(page, 'ready');
  ok(!(await page.isVisible('#banner')), 'no banner');
  await send(page, 'crash=1');
  await page.waitForFunction(() => /restarting|loading/.test(document.getElementById('state').textContent));
  s.tell('load 100');
  await state(page, 'ready');
  s.kill('SIGKILL');
  await state(page, 'disconnected');
  ok((await page.innerText('#banner')).includes('Reconnecting'), 'says so');
  await page.end();
});

test('an API key is asked for once, refused when wrong, and kept for the tab alone', async () => {
  const s = await serve({ args: ['--api-key', 'the-right-key'] });
  const page = await open(s.url, { allow: [/401/] });
  await page.waitForSelector('#key-dialog[open]');
  equal(await faint(page), [], 'contrast');
  await page.keyboard.press('Escape');
  await page.fill('#key-input', 'the-wrong-key');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.getElementById('key-why').textContent.includes('did not accept'));
  await page.fill('#key-input', 'the-right-key');
  await page.keyboard.press('Enter');
  await state(page, 'ready');
  await page.waitForSelector('#panel-plan .device');
  await page.click('#tab-chat');
  await send(page, 'tokens=3');
  await answered(page);
  ok((await last(page).innerText()).includes('token2'), 'chat');
  await page.click('#tab-whatif');
  await page.waitForFunction(() => document.querySelector('.verdict').textContent.includes('fits'));
  await page.reload();
  await state(page, 'ready');
  ok(!(await page.isVisible('#key-dialog')), 'not asked again');
  equal(await page.evaluate(() => Object.values(localStorage).some((v) => v.includes('right-key'))), false, 'not in localStorage');
  await page.end();
});

// --- for everyone ---

test('by keyboard alone, from the top to an answer', async () => {
  const s = await serve({ args: ['--machine', rig, '--split-mode', 'layer'] });
  const page = await open(s.url);
  await page.waitForSelector('#panel-plan .device');
  const at = () => page.evaluate(() => { const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent.trim().slice(0, 30); });
  const tab = async () => { await page.keyboard.press('Tab'); return at(); };
  equal([await tab(), await tab(), await tab()], ['Skip to content', 'theme', 'tab-plan'], 'order');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  equal(ring, 'solid', 'the focus is seen');
  ok((await tab()).startsWith('layer 0'), 'one stop per bar');
  ok((await tab()).startsWith('input and output'), 'the next bar');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('ArrowRight');
  equal(await at(), 'tab-whatif');
  await page.waitForFunction(() => document.querySelector('.verdict').textContent.includes('fits'));
  equal(await tab(), 'wi-search');
  await page.keyboard.type('4090');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.cards [data-name="RTX 4090"]');
  await page.focus('#tab-whatif');
  await page.keyboard.press('ArrowRight');
  equal(await at(), 'tab-chat');
  for (let i = 0; i < 6 && (await at()) !== 'ch-input'; i++) await tab();
  await page.keyboard.type('tokens=4');
  await page.keyboard.press('Enter');
  await answered(page);
  await page.focus('#tab-chat');
  await page.keyboard.press('End');
  equal(await at(), 'tab-models');
  equal(await page.evaluate(() => location.hash), '#models');
  equal(await nameless(page), [], 'names');
  await page.end();
});

for (const dark of [false, true]) {
  test(`contrast, names and pictures, ${dark ? 'dark' : 'light'}`, async () => {
    const s = await serve({ args: ['--machine', rig, '--n-ctx', '8192'] });
    const page = await open(s.url, { dark });
    await page.waitForSelector('#panel-plan .device');
    await page.evaluate(() => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
    for (const part of parts) {
      await page.click(`#tab-${part}`);
      if (part === 'whatif') await page.waitForFunction(() => document.querySelector('.verdict').textContent.includes('fits') && document.querySelector('.result').getAttribute('aria-busy') === 'false');
      if (part === 'chat') { await send(page, 'say:Some *text* with `code`\n\n> and a quote'); await answered(page); await send(page, 'error=400'); await answered(page, 2); }
      if (part === 'live') await page.waitForSelector('.live-devices .device');
      equal(await faint(page), [], `contrast of ${part}`);
      equal(await nameless(page), [], `names of ${part}`);
      await shot(page, `${part}-wide-${dark ? 'dark' : 'light'}`);
    }
    page.fine = () => { }; // the refused request is a line on the console
    await page.end();
  });
}

test('the theme can be chosen, and stays', async () => {
  const s = await real();
  const page = await open(s.url);
  await state(page, 'ready');
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.click('#theme');
  equal(await back(), light, 'light');
  await page.click('#theme');
  ok((await back()) !== light, 'dark');
  await page.reload();
  ok((await back()) !== light, 'stays');
  await page.end();
});

test('a phone: no sideways scrolling, targets for thumbs, all parts work', async () => {
  const s = await serve({ args: ['--machine', rig, '--n-ctx', '8192'] });
  const page = await open(s.url, { width: 390, height: 844, touch: true });
  await page.waitForSelector('#panel-plan .device');
  for (const part of parts) {
    await page.tap(`#tab-${part}`);
    if (part === 'plan') { await page.tap('#panel-plan .bar .seg >> nth=8'); ok((await page.innerText('#tip')).includes('layer'), 'a tap tells'); }
    if (part === 'whatif') await page.waitForFunction(() => document.querySelector('.verdict').textContent.includes('fits'));
    if (part === 'chat') { await send(page, `say:${'a-very-long-word'.repeat(20)}\n\n| a | b | c | d | e | f | g | h |\n|---|---|---|---|---|---|---|---|\n| long cell | long cell | long cell | long cell | long cell | long cell | long cell | x |\n\n\`\`\`\n${'x'.repeat(200)}\n\`\`\``); await answered(page); }
    if (part === 'live') await page.waitForSelector('.live-devices .device');
    equal(await cramped(page), [], part);
    await shot(page, `${part}-phone`);
  }
  await page.end();
});

runAll('browser');

// The tab Models, over a server with three models and two cards that have room for two of them: what is where, who would have to leave, pinning,
// and the other tabs for the model that is chosen.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { binary, build, equal, eventually, fakeEngine, ok, scratchFile, test } from './lib.mjs';
import { cramped, faint, nameless, open } from './browser.mjs';

const shot = (page, name) => page.screenshot({ path: path.join(process.env.VR_SHOTS, `${name}.png`), fullPage: true });
const row = (page, id) => page.locator('.served-model').filter({ has: page.locator(`.device-name:text-is("${id}")`) });
const is = (page, id, word) => row(page, id).locator(`.pill:text-is("${word}")`).waitFor();
const act = (page, what, id) => page.getByRole('button', { name: `${what} ${id}`, exact: true }).click();

// Each model takes about 25 MiB of a card, and the host has no room for one.
async function fleet(args = []) {
  const dir = scratchFile('models');
  fs.mkdirSync(dir);
  const file = path.join(dir, 'chat.gguf');
  execFileSync(path.join(build, 'tests', 'tiny-model'), [file, '--layers', '8', '--embd', '256', '--ff', '1024', '--heads', '4', '--kv', '4']);
  for (const name of ['coder', 'helper']) fs.symlinkSync(file, path.join(dir, `${name}.gguf`));
  const machine = path.join(dir, 'machine.json');
  const card = (name, total_mib, bandwidth_gbs) => ({ name, backend: 'CUDA', total_mib, bandwidth_gbs, compute_capability: '8.6', pcie_gen: 4, pcie_lanes: 8 });
  fs.writeFileSync(machine, JSON.stringify({ host: { ram_total_mib: 8, bandwidth_gbs: 20, cores: 2 }, devices: [card('card A', 36, 200), card('card B', 36, 150)] }));
  const log = path.join(dir, 'log'), fd = fs.openSync(log, 'w');
  const child = spawn(binary, ['serve', ...['chat', 'coder', 'helper'].map((n) => path.join(dir, `${n}.gguf`)), '--port', '0', '--machine', machine, '--reserve-mib', '1', '--n-ctx', '1024', '--n-ubatch', '64',
    '--split-mode', 'layer', '--cache-ram', '0', '--engine-program', fakeEngine, ...args],
  { stdio: ['ignore', 'ignore', fd], env: { ...process.env, XDG_STATE_HOME: scratchFile('state'), FAKE_ENGINE: '{}' } });
  process.on('exit', () => child.kill('SIGKILL'));
  const url = await eventually(() => `three models are served: ${fs.readFileSync(log, 'utf8')}`, async () => {
    if (child.exitCode !== null) throw new Error(fs.readFileSync(log, 'utf8'));
    const m = /listening on (http:\/\/\S+:\d+)/.exec(fs.readFileSync(log, 'utf8'));
    return m && (await fetch(`${m[1]}/health`)).ok && m[1];
  });
  const s = { url, end: () => child.kill('SIGTERM') };
  s.get = (where) => fetch(url + where).then((r) => r.json());
  s.post = (where, body) => fetch(url + where, { method: 'POST', body: JSON.stringify(body) }).then((r) => r.json());
  return s;
}

test('models: load beside another one, who would have to leave, unload, pin', async () => {
  const s = await fleet();
  const page = await open(s.url, { hash: 'models' });
  await is(page, 'chat', 'loaded');
  equal(await page.locator('.served-model').count(), 3);
  equal(await page.locator('#panel-models .device').count() >= 2, true, 'both cards');
  // the second finds room beside the first: no question is asked
  await act(page, 'Load', 'coder');
  await is(page, 'coder', 'loaded');
  const where = Object.fromEntries((await s.get('/api/models')).served.map((m) => [m.id, m.devices.map((d) => d.id).join()]));
  ok(where.chat && where.coder && where.chat !== where.coder, JSON.stringify(where));
  await page.waitForFunction(() => document.querySelectorAll('#panel-models .device:nth-child(-n+2) .seg.m-1').length === 1);
  equal(await page.locator('#panel-models .device:nth-child(-n+2) .seg.m-0').count(), 1, 'the first has its own colour and card');
  const label = await page.locator('.models-bar').first().getAttribute('aria-label');
  ok(/^card A: (chat|coder) 2\d\.?\d* MiB$/.test(label), label);
  // the third does not: somebody has to leave, which is asked before
  await act(page, 'Load', 'helper');
  const ask = row(page, 'helper').locator('.ask-load');
  await ask.waitFor();
  ok(/^(chat|coder) will be unloaded to make room\. helper takes 2\d\.?\d* MiB on CUDA\d\. Token generation, predicted: [\d.,]+\stok\/s\.\s/.test(await ask.innerText()), await ask.innerText());
  equal([await faint(page), await nameless(page)], [[], []]);
  ok(/^(chat|coder): 2\d\.?\d* MiB, would be unloaded$/.test(await page.locator('.models-bar .leaves').first().getAttribute('title')), 'the bar tells who');
  await shot(page, 'models-wide-light');
  await ask.getByRole('button', { name: 'Cancel' }).click();
  equal(await page.locator('.ask-load, .models-bar .leaves').count(), 0);
  equal((await s.get('/api/models')).served.find((m) => m.id === 'helper').state, 'unloaded', 'nothing happened');
  // a pinned one never leaves
  await act(page, 'Pin', 'chat');
  await page.getByRole('button', { name: 'Unpin chat' }).waitFor();
  equal(await page.getByRole('button', { name: 'Unload chat' }).count(), 0);
  await act(page, 'Load', 'helper');
  await ask.waitFor();
  ok((await ask.innerText()).startsWith('coder will be unloaded'), await ask.innerText());
  await ask.getByRole('button', { name: /^Unload coder/ }).click();
  await is(page, 'helper', 'loaded');
  await is(page, 'coder', 'not loaded');
  await is(page, 'chat', 'loaded');
  // nobody may leave: what stands in the way is told
  await act(page, 'Pin', 'helper');
  await page.getByRole('button', { name: 'Unpin helper' }).waitFor();
  await act(page, 'Load', 'coder');
  await row(page, 'coder').locator('.error').waitFor();
  ok(/chat and helper are pinned \(5\d\.?\d* MiB\)\./.test(await row(page, 'coder').locator('.error [data-kind=pinned]').innerText()), await row(page, 'coder').innerText());
  await act(page, 'Unpin', 'helper');
  await act(page, 'Unload', 'helper');
  await is(page, 'helper', 'not loaded');
  await page.end();
  s.end();
});

test('models: Plan, Chat and Live are about the one that is chosen', async () => {
  const s = await fleet();
  await s.post('/v1/chat/completions', { model: 'coder', messages: [{ role: 'user', content: 'tokens=2' }] });
  const page = await open(s.url, { hash: 'plan' });
  await page.waitForSelector('#panel-plan .device');
  await page.waitForFunction(() => document.querySelectorAll('#which option').length === 2);
  equal(await page.inputValue('#which'), 'chat', 'the default');
  const device = () => page.locator('#panel-plan .device-facts').first().innerText();
  const first = await device();
  await page.selectOption('#which', 'coder');
  await page.waitForFunction((was) => document.querySelector('#panel-plan .device-facts')?.innerText !== was, first);
  await page.click('#tab-chat');
  const asked = page.waitForRequest('**/v1/chat/completions');
  await page.fill('#ch-input', 'tokens=3');
  await page.press('#ch-input', 'Enter');
  equal((await asked).postDataJSON().model, 'coder');
  await page.waitForFunction(() => document.querySelectorAll('.message.assistant[aria-busy="false"]').length === 1);
  await page.click('#tab-models');
  await act(page, 'Show', 'chat');
  await page.waitForFunction(() => document.getElementById('which').value === 'chat');
  equal(await page.evaluate(() => location.hash), '#plan');
  // one that is not loaded can be talked to: that loads it
  await page.click('#tab-models');
  await act(page, 'Unload', 'chat');
  await is(page, 'chat', 'not loaded');
  await page.waitForFunction(() => document.getElementById('state').textContent === 'not loaded');
  await page.click('#tab-chat');
  ok((await page.innerText('.dock')).includes('The model is loaded then'), await page.innerText('.dock'));
  await page.fill('#ch-input', 'tokens=2');
  await page.press('#ch-input', 'Enter');
  await page.waitForFunction(() => document.querySelectorAll('.message.assistant[aria-busy="false"]').length === 2 && document.getElementById('state').textContent === 'ready');
  equal(await page.locator('.message.assistant').last().getByRole('alert').allTextContents(), [], 'no error');
  await page.end();
  s.end();
});

test('models: in the dark and on a phone', async () => {
  const s = await fleet();
  await s.post('/v1/chat/completions', { model: 'coder', messages: [{ role: 'user', content: 'tokens=2' }] });
  for (const [name, how] of [['dark', { dark: true }], ['phone', { width: 390, height: 844, touch: true }]]) {
    const page = await open(s.url, { hash: 'models', ...how });
    await is(page, 'coder', 'loaded');
    await act(page, 'Load', 'helper');
    await page.locator('.ask-load').waitFor();
    equal([await faint(page), await cramped(page), await nameless(page)], [[], [], []], name);
    await shot(page, `models-${name}`);
    await page.end();
  }
  s.end();
});

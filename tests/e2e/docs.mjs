// The documentation says what is true: its commands run and print what stands below them, its pictures are what the program draws, and
// whatever it names (files, options, targets of make, sections) is there. UPDATE=1 writes outputs and pictures anew: read the diff.
//
// In a ```console block a line "$ COMMAND" is run in tests/e2e/sandbox.mjs; the lines below it are what it prints, if there are any, "…" standing
// for some of them. What needs root, another machine ("attic$ COMMAND") or a head of the very model is run by a test of its own.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { equal, ok, runAll, scratchFile, test } from './lib.mjs';
import { sandbox } from './sandbox.mjs';

const root = path.resolve(import.meta.dirname, '../..'), read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
const pages = ['README.md', 'CONTRIBUTING.md', ...fs.readdirSync(path.join(root, 'docs')).filter((f) => f.endsWith('.md')).map((f) => `docs/${f}`)];
const elsewhere = [[/^(sudo )?(apt|dpkg|systemctl)/, 'tests/deb.sh'], [/^(podman|docker) /, 'tests/container.sh'], [/^tools\/engine-upgrade/, 'tests/engine_upgrade.sh'], [/--draft (eagle3|dflash|assistant)\.gguf/, 'tests/e2e/spec.mjs']];

// What depends on the moment or the computer, as in tests/golden/mask.sed.
const mask = (text) => text.replace(/[0-9,]+ ms\.$/gm, 'N ms.').replace(/(Cached prompts may use a further) [0-9.,]+ \w+ of/g, '$1 N of').replace(/^  host .*$/gm, '  host');
const lines = (text) => mask(text.trimEnd()).split('\n').map((l) => l.trimEnd());

function* blocks(text) {
  for (const m of text.matchAll(/^```(\w*)\n(.*?)^```$/gms)) yield { kind: m[1], text: m[2], at: m.index + m[0].indexOf('\n') + 1 };
}

// [{ command, shown }] of a console block
function commands(text) {
  const all = [];
  for (const line of text.split('\n').slice(0, -1)) {
    const [, machine, command] = /^(\w*)\$ +(.*?)(?: +# .*)?$/.exec(line) ?? [];
    if (command) all.push({ machine, command, shown: [] });
    else all.at(-1).shown.push(line);
  }
  return all;
}

// Do the lines shown stand there, in their order? "…" is for any number of others; before and after must be nothing else.
function matches(shown, printed) {
  const [first, ...rest] = shown;
  if (first === undefined) return printed.length === 0;
  if (first === '…') return printed.some((_, i) => matches(rest, printed.slice(i))) || rest.length === 0;
  return first === printed[0] && matches(rest, printed.slice(1));
}

async function runBlock(box, page, block) {
  let text = block.text;
  for (const { machine, command, shown } of commands(block.text)) {
    if (machine) { ok(fs.existsSync(path.join(root, 'tests/e2e/nodes.mjs')), 'nothing has two machines'); continue; }
    const told = `${page}: $ ${command}`;
    const other = elsewhere.find(([what]) => what.test(command));
    if (other) { ok(fs.existsSync(path.join(root, other[1])), `${told}: nothing runs it`); continue; }
    if (/^make /.test(command)) { for (const target of command.split(' ').slice(1).filter((w) => /^[a-z0-9-]+$/.test(w))) ok(isTarget(target), `${told}: no such target`); continue; }
    const r = await box.run(command);
    ok(r.status === null || r.status === 0, `${told}: status ${r.status}: ${r.out}`);
    if (shown.length === 0) continue;
    if (process.env.UPDATE && !shown.includes('…')) text = text.replace(shown.join('\n'), () => r.out.trimEnd());
    else ok(matches(lines(shown.join('\n')), lines(r.out)), `${told} prints something else:\n${r.out}`);
  }
  return text;
}

const isTarget = (name) => new RegExp(`^${name}:`, 'm').test(read('Makefile'));

test('every command runs, and prints what is shown', async () => {
  const box = await sandbox();
  for (const page of pages) {
    let text = read(page);
    for (const block of blocks(text)) {
      ok(block.kind !== 'sh' && !/^(vram-llm|curl|make) /m.test(block.kind === '' ? block.text : ''), `${page}: commands belong into a console block: ${block.text}`);
      if (block.kind !== 'console') continue;
      const now = await runBlock(box, page, block);
      if (now !== block.text) fs.writeFileSync(path.join(root, page), text = read(page).replace(block.text, () => now));
    }
  }
  await box.close();
});

// FILE of docs/ -> what draws it
const pictures = {
  'nemotron-laptop.svg': 'vram-llm plan --n-ctx 2048 --machine laptop.json --svg OUT Nemotron-Super-49B-Q8_0-00001-of-00002.gguf',
  'kimi-k2.5-eight-cards.svg': 'vram-llm plan --n-ctx 32768 --machine eight-gpus.json --svg OUT Kimi-K2.5-00001-of-00009.gguf',
};
test('pictures are what the program draws', async () => {
  const box = await sandbox();
  for (const [file, command] of Object.entries(pictures)) {
    const to = path.join(box.dir, 'out.svg'), kept = path.join(root, 'docs', file);
    const r = await box.run(command.replace('OUT', to));
    equal(r.status, 0, r.out);
    if (process.env.UPDATE) fs.copyFileSync(to, kept);
    ok(fs.readFileSync(to, 'utf8') === fs.readFileSync(kept, 'utf8'), `docs/${file} is stale: UPDATE=1 tests/e2e/run build docs draws it anew`);
  }
  await box.close();
});

// Its figures are those of the computer that it was recorded on.
const shape = (line) => line.replace(/[\d.,]*\d/g, 'N').replace(/ +|─+/g, ' ').trim();
test('what the recording shows is still printed', async () => {
  const box = await sandbox();
  const text = read('docs/tour.svg').replace(/<title>.*?<\/title>/, '');
  const shown = [...text.matchAll(/<text [^>]*>(.*?)<\/text>/g)].map((m) => m[1].replace(/<[^>]*>/g, '').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&').trimEnd());
  const command = shown.find((l) => l.startsWith('$ vram-llm plan')), from = shown.indexOf(command) + 1, until = shown.findIndex((l, i) => i >= from && l.startsWith('$ '));
  const r = await box.run(command.slice(2));
  equal(r.status, 0, r.out);
  const printed = lines(r.out).map(shape);
  for (const l of lines(shown.slice(from, until).join('\n'))) ok(l === '' || l.endsWith('…') || printed.includes(shape(l)), `docs/tour.svg is stale (tools/docs/record >docs/tour.svg): ${l}\n${r.out}`);
  await box.close();
});

// --- names ---

const anchor = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
const anchors = (file) => new Set([...read(file).matchAll(/^#+ (.*)$/gm)].map((m) => anchor(m[1])));

test('links lead somewhere', () => {
  for (const page of pages) {
    for (const [, to] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(to)) continue;
      const [file, section] = to.split('#'), target = file ? path.join(path.dirname(page), file) : page;
      ok(fs.existsSync(path.join(root, target)), `${page}: ${to} is not there`);
      ok(!section || anchors(target).has(section), `${page}: ${to}: no such section`);
    }
  }
});

test('files, targets and options that are named exist', () => {
  const options = new Set([...read('src/cli/options.def').matchAll(/^\w+\(\w+, +"([a-z0-9-]+)"/gm)].map((m) => m[1]).concat('help', 'version'));
  for (const page of pages) {
    for (const [, code] of read(page).replace(/^```.*?^```$/gms, '').matchAll(/`([^`\n]+)`/g)) {
      const file = /^(?:src|tests|tools|bench|web|docs)\/[\w./-]+$/.exec(code)?.[0];
      if (file) ok(['', '.c', '.mjs'].some((end) => fs.existsSync(path.join(root, file + end))), `${page}: \`${file}\` is not there`);
      for (const [, target] of code.matchAll(/^make ([a-z0-9-]+)/g)) ok(isTarget(target), `${page}: \`${code}\`: no such target`);
      if (/^vram-llm /.test(code)) for (const [, o] of code.matchAll(/ --([a-z0-9-]+)/g)) ok(options.has(o), `${page}: \`${code}\`: no option --${o}`);
    }
  }
});

// Rows of the server's tables -> what docs/api.md says of them: "| `field field` | works, only `value`, no effect, noted or rejected | … |".
const said = { SAME: 'works', AS: 'works', OWN: 'works', TAKE: 'works', FRONT: 'works', PASS: 'no effect', NOTE: 'noted', ONLY: 'only', NEVER: 'rejected' };
const rowsOf = (text) => new Map([...text.matchAll(/^(?:(SAME|AS|OWN|PASS|NOTE|ONLY|NEVER)\((\w+)|(?:FIELD\((\w+)|NAMED\(\w+, "(\w+)").*, (\w+)(?:\(.*\))?\)$)/gm)].map((m) => [m[2] ?? m[3] ?? m[4], said[m[1] ?? m[5]]]));
const part = (def, name) => read(def).split(`#ifdef ${name}\n`)[1].split('#endif')[0];
test('docs/api.md: each field of each API, and what becomes of it', () => {
  const tables = new Map(); // "heading/first cell of its head" -> { field: says }
  for (const section of read('docs/api.md').split(/^## /m)) {
    for (const [, head, body] of section.matchAll(/^\| (field[^|]*|option) \| \| \|\n\|.*\n((?:\|.*\n)+)/gm)) {
      const fields = new Map();
      for (const [, cell, says] of body.matchAll(/^\| (.*?) \| (works|only|no effect|noted|rejected)[^|]* \|/gm)) for (const [, names] of cell.matchAll(/`([^`]+)`/g)) for (const name of names.split(' ')) fields.set(name.replace('[]', ''), says);
      equal(body.split('\n').length - 1, [...body.matchAll(/^\| .*? \| (works|only|no effect|noted|rejected)\b/gm)].length, `${section.split('\n')[0]}: a row without a verdict`);
      tables.set(`${section.split('\n')[0]}/${head}`, fields);
    }
  }
  const dir = 'src/server/dialect', ollama = `${dir}/ollama.def`;
  const code = {
    'Requests/field': read('src/engine/wire/request_fields.def'), 'Reranking/field': read(`${dir}/rerank.def`), 'Transcriptions/field': read(`${dir}/transcription.def`),
    '/v1/responses/field': read(`${dir}/responses.def`), '/v1/messages/field': read(`${dir}/messages.def`), 'llama.cpp/field of `/completion`': read(`${dir}/native.def`),
    'Ollama/option': part(ollama, 'OLLAMA_OPTIONS'), 'Ollama/field': ['OLLAMA_EMBED', 'OLLAMA_GENERATE', 'OLLAMA_CHAT'].map((name) => part(ollama, name)).join('\n'), // what differs for embeddings is told in the row
  };
  equal([...tables.keys()].sort(), Object.keys(code).sort());
  for (const [name, text] of Object.entries(code)) {
    const rows = rowsOf(text), table = tables.get(name);
    ok(rows.size > 5, name);
    for (const [field, says] of rows) equal(table.get(field), says, `docs/api.md, ${name}: \`${field}\``);
    for (const field of table.keys()) ok(rows.has(field), `docs/api.md, ${name}: \`${field}\` is no field`);
  }
});

test('the site: every page, and no link that leads nowhere', () => {
  const out = scratchFile('site');
  execFileSync(path.join(root, 'tools/docs/site'), [out]);
  const of = (file) => fs.readFileSync(path.join(out, file), 'utf8'), made = fs.readdirSync(out).filter((f) => f.endsWith('.html'));
  ok(made.length >= pages.length && /<h1 id="vram-llm">/.test(of('index.html')) && /<table>/.test(of('index.html')), made.join(' '));
  for (const page of made) {
    for (const [, to] of of(page).matchAll(/(?:href|src)="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(to)) continue;
      const [file, section] = to.split('#');
      ok(fs.existsSync(path.join(out, file || page)), `${page}: ${to}`);
      ok(!section || of(file || page).includes(`id="${section}"`), `${page}: ${to}: no such section`);
    }
  }
});

await runAll('docs');

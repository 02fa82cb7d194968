// See tools/docs/site. Debian's cmark-gfm turns Markdown into HTML; here come the frame, the list of pages, sections that can be linked to as on
// GitHub, and links: from one page to another, and from a page to a file of the project, which is copied along.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const [root, out] = process.argv.slice(2);
const html = (file) => (file === 'README.md' ? 'index.html' : `${path.basename(file, '.md').toLowerCase()}.html`);
const first = ['README.md', 'docs/guide.md', 'docs/install.md', 'docs/api.md', 'docs/remote.md', 'docs/models.md', 'docs/presets.md', 'docs/cache.md', 'docs/speculative.md', 'docs/nodes.md', 'docs/cluster.md', 'docs/architecture.md', 'docs/planner.md', 'docs/memory.md', 'docs/engine.md', 'docs/accuracy.md'];
const pages = [...new Set([...first, ...fs.readdirSync(path.join(root, 'docs')).filter((f) => f.endsWith('.md')).map((f) => `docs/${f}`), 'CONTRIBUTING.md', 'THIRD-PARTY.md'])];
const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
const title = (file) => /^# (.*)$/m.exec(read(file))?.[1] ?? file;
const plain = (s) => s.replace(/<[^>]*>/g, '').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
const anchor = (heading) => plain(heading).toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');

// Where a link of `page` leads on the site; files that are no pages come along.
function target(page, to) {
  if (/^([a-z]+:|#)/.test(to)) return to;
  const [file, section] = to.split('#'), at = path.normalize(path.join(path.dirname(page), file)), tail = section ? `#${section}` : '';
  if (pages.includes(at)) return html(at) + tail;
  const copy = path.join(out, 'files', at);
  if (!fs.existsSync(path.join(root, at))) throw new Error(`${page}: ${to} is not there`);
  fs.mkdirSync(path.dirname(copy), { recursive: true });
  if (fs.statSync(path.join(root, at)).isFile()) fs.copyFileSync(path.join(root, at), copy);
  return `files/${at}${tail}`;
}

function body(page) {
  const text = execFileSync('cmark-gfm', ['--unsafe', '-e', 'table', '-e', 'autolink', path.join(root, page)], { encoding: 'utf8', maxBuffer: 64 << 20 });
  return text
    .replace(/<h([1-6])>(.*?)<\/h\1>/gs, (_, n, inner) => `<h${n} id="${anchor(inner)}">${inner}</h${n}>`)
    .replace(/<table>.*?<\/table>/gs, '<div class="wide">$&</div>')
    .replace(/(href|src)="([^"]*)"/g, (_, name, to) => `${name}="${target(page, to)}"`);
}

const style = `:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee6;--paper:#fff;--code:#f4f6f9;--link:#0b5cad}
@media (prefers-color-scheme:dark){:root{--ink:#e3e8ef;--soft:#9aa6b6;--line:#2d3745;--paper:#12161d;--code:#1b212b;--link:#7ab8ff}}
*{box-sizing:border-box}body{margin:0;font:16px/1.6 system-ui,sans-serif;color:var(--ink);background:var(--paper);display:grid;grid-template-columns:15rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.5rem;border-right:1px solid var(--line)}nav a{display:block;padding:.2rem 0;text-decoration:none}nav a[aria-current]{font-weight:600;color:var(--ink)}
main{max-width:80rem;padding:1.5rem 2.5rem 5rem}p,li,h2,h3,.wide{max-width:58rem}a{color:var(--link)}h1,h2,h3{line-height:1.25}h2{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1.2rem}
code{font:.9em ui-monospace,monospace;background:var(--code);padding:.1em .3em;border-radius:4px}pre{background:var(--code);padding:1rem;border-radius:8px;overflow:auto;line-height:1.4}pre code{padding:0;background:none}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.93em}td,th{border-bottom:1px solid var(--line);padding:.4rem .8rem .4rem 0;text-align:left;vertical-align:top}img{max-width:100%;height:auto}
@media (max-width:55rem){body{display:block}nav{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}nav a{display:inline-block;margin-right:1rem}main{padding:1rem}}`;

fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });
fs.writeFileSync(path.join(out, 'style.css'), style);
for (const page of pages) {
  const list = pages.map((p) => `<a href="${html(p)}"${p === page ? ' aria-current="page"' : ''}>${title(p)}</a>`).join('\n');
  fs.writeFileSync(path.join(out, html(page)), `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title(page)}</title><link rel="stylesheet" href="style.css"></head>
<body><nav aria-label="Pages">
${list}
</nav><main>
${body(page)}</main></body></html>
`);
}
console.log(`${path.join(out, 'index.html')}: ${pages.length} pages`);

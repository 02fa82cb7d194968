// See tools/docs/record. A typed line appears letter by letter, what a command prints comes at once; the picture is one SVG without scripts: every line has
// a time at which it becomes visible, over and over again, beginning where the first command has printed something, so that a still is not empty. Readers who
// want no motion see the last state.
import { sandbox } from '../../tests/e2e/sandbox.mjs';

const COLUMNS = 128, SIZE = 13, WIDTH = 7.83, HEIGHT = 18, PAD = 18, BAR = 30;
const TYPE_S = 0.03, READ_S = 2.2, END_S = 7;
const scenes = [
  { command: 'vram-llm plan --n-ctx 8192 --gpus "RTX 4090, 2x RTX 3060 12GB" --ram-mib 64000 Llama-3.3-70B-Q4_K_M.gguf', lines: 14 },
  { command: 'vram-llm serve', lines: 2 },
  { command: `curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":"How much VRAM does a 24B model need in Q5_K_M?"}]}' | jq '.choices[0].message.content'`, lines: 1 },
];

const escaped = (s) => s.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const cut = (s) => [...s].length > COLUMNS ? [...s].slice(0, COLUMNS - 1).join('') + '…' : s;
const wrapped = (s) => s.match(new RegExp(`.{1,${COLUMNS}}`, 'gu')) ?? [''];

// [{ text, at, typed }]: what is on the screen, and when it comes
async function play() {
  const box = await sandbox({ engine: null, columns: COLUMNS }), screen = [];
  let at = 0.6;
  for (const { command, lines } of scenes) {
    for (const text of wrapped(`$ ${command}`)) {
      screen.push({ text, at, typed: [...text].length * TYPE_S });
      at += [...text].length * TYPE_S;
    }
    const r = await box.run(command);
    const out = r.out.replaceAll(box.url ?? '\n\n\n', 'http://127.0.0.1:8080').trimEnd().split('\n').flatMap((l) => (command.startsWith('curl') ? wrapped(l) : [cut(l)])).slice(0, lines);
    at += 0.4;
    for (const text of out) screen.push({ text, at });
    at += READ_S;
  }
  await box.close();
  return { screen, total: at + END_S };
}

const { screen, total } = await play();
const percent = (s) => (100 * s / total).toFixed(2), width = Math.round(COLUMNS * WIDTH + 2 * PAD), height = screen.length * HEIGHT + 2 * PAD + BAR;
const since = -(screen.find((l) => !l.typed).at + READ_S).toFixed(1), rules = [], texts = [];
screen.forEach(({ text, at, typed }, i) => {
  const y = BAR + PAD + (i + 1) * HEIGHT - 5, colour = typed ? 'c' : /It fits/.test(text) ? 'g' : 'o';
  if (typed) { // uncovered from the left
    rules.push(`@keyframes k${i}{0%,${percent(at)}%{clip-path:inset(0 100% 0 0)}${percent(at + typed)}%,100%{clip-path:inset(0 0 0 0)}}`);
    rules.push(`#l${i}{animation:k${i} ${total.toFixed(1)}s ${since}s steps(${[...text].length}) infinite}`);
  } else {
    rules.push(`@keyframes k${i}{0%,${percent(at)}%{opacity:0}${percent(at + 0.01)}%,100%{opacity:1}}`);
    rules.push(`#l${i}{animation:k${i} ${total.toFixed(1)}s ${since}s linear infinite}`);
  }
  texts.push(`<text id="l${i}" class="${colour}" x="${PAD}" y="${y}" xml:space="preserve">${escaped(text)}</text>`);
});
process.stdout.write(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>A terminal: vram-llm plans a 70B model for three GPUs, then serves a model and answers</title>
<style>text{font:${SIZE}px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}.c{fill:#e8edf4;font-weight:600}.o{fill:#aab4c3}.g{fill:#7fd88f}
${rules.join('\n')}
@media (prefers-reduced-motion:reduce){text{animation:none!important}}</style>
<rect width="${width}" height="${height}" rx="9" fill="#141a23"/><circle cx="20" cy="17" r="5" fill="#4a5568"/><circle cx="38" cy="17" r="5" fill="#4a5568"/><circle cx="56" cy="17" r="5" fill="#4a5568"/>
${texts.join('\n')}
</svg>
`);
process.exit(0);

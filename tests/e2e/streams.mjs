// N open streams, held by a process of their own, so that whoever measures is not busy reading them.
//   node streams.mjs PORT N CONTENT        prints "open" when all have begun, "done" when all have ended; ends when its input does
import { spawn } from 'node:child_process';
import net from 'node:net';
import { fileURLToPath } from 'node:url';

const self = fileURLToPath(import.meta.url);

// Starts that process; said(word) waits until it says so, close() takes all streams away.
export function streams(s, n, content) {
  const child = spawn(process.execPath, [self, s.port, n, content], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '', wake = () => { };
  const gone = new Promise((done) => child.on('exit', () => { text += ' error: it ended'; wake(); done(); }));
  child.stdout.on('data', (d) => { text += d; wake(); });
  return {
    said: async (word) => {
      while (!text.includes(word)) {
        if (/error/.test(text)) throw new Error(`streams: ${text}`);
        await new Promise((done) => { wake = done; });
      }
    },
    close: () => { child.stdin.end(); return gone; },
  };
}

async function hold(port, n, content) {
  const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content }] });
  const bytes = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  let begun = 0, done = 0;
  for (let i = 0; i < n; i++) {
    const c = net.connect({ port, host: '127.0.0.1' });
    let first = true;
    c.on('error', (e) => { console.log(`error ${e.code}`); process.exit(1); });
    c.on('data', (d) => {
      if (first && !d.includes('200 OK')) { console.log(`error ${d}`); process.exit(1); }
      if (first && ++begun === n) console.log('open');
      first = false;
      if (d.subarray(-7).toString('latin1').endsWith('0\r\n\r\n') && ++done === n) console.log('done');
    });
    c.write(bytes);
    if (i % 200 === 199) await new Promise((r) => setTimeout(r, 10)); // no more at once than the server's backlog takes
  }
}

if (process.argv[1] === self) {
  const [port, n, content] = process.argv.slice(2);
  process.stdin.on('end', () => process.exit(0)).resume();
  await hold(Number(port), Number(n), content);
}

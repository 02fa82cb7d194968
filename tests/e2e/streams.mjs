// Holds N open streams in a process of its own, so that whoever measures is not busy reading them.
//   node streams.mjs PORT N CONTENT        prints "open" when all have begun, ends when its input does
import net from 'node:net';

const [port, n, content] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]];
const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content }] });
const bytes = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
let begun = 0, done = 0;
const sockets = [];
for (let i = 0; i < n; i++) {
  const c = net.connect({ port, host: '127.0.0.1' });
  let first = true, tail = '';
  c.on('error', (e) => { console.log(`error ${e.code}`); process.exit(1); });
  c.on('data', (d) => {
    if (first && !d.includes('200 OK')) { console.log(`error ${d}`); process.exit(1); }
    if (first && ++begun === n) console.log('open');
    first = false;
    tail = d.subarray(-7).toString('latin1');
    if (tail.endsWith('0\r\n\r\n') && ++done === n) console.log('done');
  });
  c.write(bytes);
  sockets.push(c);
  if (i % 200 === 199) await new Promise((r) => setTimeout(r, 10));
}
process.stdin.on('end', () => process.exit(0)).resume();

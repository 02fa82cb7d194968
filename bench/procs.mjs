// The processes of a server as /proc shows them: what they hold, and what they used.
import fs from 'node:fs';

const read = (file) => { try { return fs.readFileSync(file, 'utf8'); } catch { return ''; } };
const list = (dir) => { try { return fs.readdirSync(dir); } catch { return []; } };

// A process and all below it: [{pid, parent, state, rss, cpu_ms}]; cpu_ms with that of children that have ended and were waited for.
export function tree(pid, parent = 0) {
  const stat = read(`/proc/${pid}/stat`);
  if (!stat) return [];
  const words = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  const own = { pid, parent, state: words[0], rss: Number(words[21]) * 4096, cpu_ms: (Number(words[11]) + Number(words[12]) + Number(words[13]) + Number(words[14])) * 10 };
  const below = list(`/proc/${pid}/task`).flatMap((tid) => read(`/proc/${pid}/task/${tid}/children`).split(' ').filter(Boolean).map(Number));
  return [own, ...below.flatMap((child) => tree(child, pid))];
}

export const cpu_ms = (pid) => tree(pid).reduce((sum, p) => sum + p.cpu_ms, 0);
export const fds = (pid) => list(`/proc/${pid}/fd`).length;
// The engine process: the largest of the front's own children, which may have others for a moment.
export const engineOf = (pid) => tree(pid).filter((p) => p.parent === pid && p.state !== 'Z').sort((a, b) => b.rss - a.rss)[0]?.pid;

// Resident bytes by role; what is neither front nor engine (preparers, tasks) counts together.
export function memory(pid) {
  const all = tree(pid), engine = engineOf(pid), of = (p) => all.find((x) => x.pid === p)?.rss ?? 0;
  return { front: of(pid), engine: of(engine), others: all.reduce((sum, p) => sum + p.rss, 0) - of(pid) - of(engine) };
}

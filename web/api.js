// Talking to the server: the key, errors as sentences, and streams of events over fetch (EventSource cannot send a key).

const KEY = 'vram-llm.key';
let askForKey = async () => '';
let asking = null; // one question for all requests that wait for the key

export const onKeyNeeded = (ask) => { askForKey = ask; };

export class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function stored() {
  try { return sessionStorage.getItem(KEY) ?? ''; } catch { return ''; }
}
let key = stored();

async function newKey(old) {
  if (key !== old) return; // somebody asked meanwhile
  asking ??= askForKey(old !== '').then((k) => {
    key = k;
    asking = null;
    try { sessionStorage.setItem(KEY, k); } catch { /* then it is asked for again after a reload */ }
  });
  await asking;
}

// fetch with the key; asks for one as long as the server refuses. Paths are relative, so a prefix before us is fine.
async function send(path, { body, signal } = {}) {
  for (;;) {
    const used = key;
    const headers = {};
    if (used) headers.Authorization = `Bearer ${used}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let reply;
    try {
      reply = await fetch(path, {
        method: body === undefined ? 'GET' : 'POST', headers, signal, cache: 'no-store',
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (e) {
      if (e.name === 'AbortError') throw e;
      throw new ApiError('The server does not answer. Is it still running?', 0, 'unreachable');
    }
    if (reply.status === 401) { await newKey(used); continue; }
    if (reply.ok) return reply;
    let error = null;
    try { ({ error } = await reply.json()); } catch { /* no JSON: the status has to do */ }
    throw new ApiError(error?.message ?? `The server replied with status ${reply.status}.`, reply.status, error?.code);
  }
}

export const get = async (path, options) => (await send(path, options)).json();
export const post = async (path, body, options) => (await send(path, { ...options, body })).json();

// Server-sent events: calls on(event, data) with parsed JSON until the stream ends. "[DONE]" is passed as null.
export async function stream(path, { body, signal, on }) {
  const reply = await send(path, { body, signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf('\n\n')) >= 0) {
      let event = 'message', data = '';
      for (const line of text.slice(0, end).split('\n')) {
        if (line.startsWith('event: ')) event = line.slice(7);
        if (line.startsWith('data: ')) data += line.slice(6);
      }
      text = text.slice(end + 2);
      if (data) on(event, data === '[DONE]' ? null : JSON.parse(data));
    }
  }
}

// The live events, for ever: on('hello' | 'tick', data), on('lost', error) when the connection ends. Of the model that which() names, or of the one that the
// server takes; what is returned connects again, when it names another one.
export function listen(on, which) {
  let now;
  (async () => {
    for (let wait = 500; ;) {
      let error = new ApiError('The connection to the server was lost.', 0, 'unreachable');
      const mine = now = new AbortController();
      const still = (event, data) => { if (mine === now && !mine.signal.aborted) { wait = 500; on(event, data); } };
      try {
        await stream(`api/live${which() ? `?model=${encodeURIComponent(which())}` : ''}`, { signal: mine.signal, on: still });
      } catch (e) {
        error = e;
      }
      if (mine.signal.aborted) continue;
      on('lost', error);
      await new Promise((done) => { setTimeout(done, wait); });
      wait = Math.min(wait * 2, 5000);
    }
  })();
  return () => now.abort();
}

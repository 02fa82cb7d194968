"""`vram-llm serve`, or another program that speaks the same API, asked over HTTP."""
import http.client
import json
import subprocess
import tempfile
import threading
import time

SENTENCE = 'The quick brown fox jumps over the lazy dog while a hundred engines hum. '
PORT = 18100


class Server:
    count = 0  # each has a port of its own

    def __init__(self, command, env=None):
        Server.count += 1
        self.port = PORT + Server.count
        self.file = tempfile.NamedTemporaryFile('w+', prefix='serving-', suffix='.log')
        self.since = time.time()
        self.process = subprocess.Popen([*command, '--port', str(self.port)], stdout=self.file, stderr=self.file, env=env)

    def log(self):
        return open(self.file.name, errors='replace').read().strip()

    def get(self, path):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=10)
        c.request('GET', path)
        r = c.getresponse()
        return r.status, r.read().decode()

    def wait(self, seconds=120):
        """Seconds until it was ready; None when it ended or took too long."""
        until = time.time() + seconds
        while time.time() < until and self.process.poll() is None:
            try:
                if self.get('/health')[0] == 200:
                    return time.time() - self.since
            except OSError:
                pass
            time.sleep(0.02)
        return None

    def ask(self, prompt, n, stream=False):
        """The text, seconds to its first token, and an error if there was one."""
        body = {'prompt': prompt, 'max_tokens': n, 'temperature': 0, 'ignore_eos': True, 'stream': stream}
        c, start = http.client.HTTPConnection('127.0.0.1', self.port, timeout=180), time.time()
        text, first, error = '', None, None
        try:
            c.request('POST', '/v1/completions', json.dumps(body), {'Content-Type': 'application/json'})
            reply = c.getresponse()
            if not stream:
                tree = json.loads(reply.read())
                return {'text': (tree.get('choices') or [{}])[0].get('text', ''), 'error': tree.get('error'),
                        'tokens': (tree.get('usage') or {}).get('completion_tokens', 0)}
            for line in reply:
                if not line.startswith(b'data: {'):
                    continue
                event = json.loads(line[6:])
                error = event.get('error', error)
                for choice in event.get('choices', []):
                    if choice.get('text'):
                        first = first or time.time() - start
                        text += choice['text']
        except (OSError, http.client.HTTPException, ValueError) as x:
            error = repr(x)
        return {'text': text, 'first': first, 'error': error}

    def together(self, streams, n=128):
        """Tokens per second of so many requests at once."""
        tokens, start = [], time.time()
        one = lambda i: tokens.append(self.ask(f'{streams} {i} ' + SENTENCE * 3, n).get('tokens', 0))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(streams)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return sum(tokens) / (time.time() - start)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)

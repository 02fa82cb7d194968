"""What stands between llama.cpp's server tests and the server under test (VR_SERVER), as a plugin of pytest.

Nothing of the tests is changed. Replaced are things of theirs that need the Internet or Python packages that Debian does not have, and what only the
weights of their models can answer:
- `openai`, `wget`: two small modules of the same name; files to download are our stand-ins;
- match_regex(): our models say something else than theirs, so that a text is all that is asked of an answer. What a grammar or a schema
  forces is still compared;
- for vram-llm: defaults of sampling that llama-server takes as flags (--temp, --seed, --n-predict, --reasoning) are put into requests, and the model is
  asked for by its name, as names that nobody serves are a 404 here."""
import os
import re
import subprocess
import sys
import types
import urllib.parse

import pytest
import requests

OURS = os.path.basename(os.environ["VR_SERVER"]) == "vram-llm"
STAND_INS = os.environ["VR_STAND_INS"]
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
sys.path.insert(0, os.getcwd())
sys.path.insert(0, os.path.join(here, "modules"))
wget = types.ModuleType("wget")
sys.modules["wget"] = wget

import flags  # noqa: E402
import utils  # noqa: E402  llama.cpp's, from the folder of its tests

FORCED = re.compile(r'^("|\[|a\{)')  # patterns of what grammars and schemas force


def match_regex(regex, text):
    return isinstance(text, str) and (not FORCED.match(regex) or re.search(regex, text) is not None)


def download_file(url, output_file_path=None):
    name = {"stories15M-q4_0.gguf": "draft.gguf", "moe_shakespeare15M.gguf": "lora.gguf"}.get(url.split("/")[-1])
    if not name:
        pytest.skip(f"no stand-in for {url}")
    return os.path.join(STAND_INS, name)


utils.match_regex = match_regex
utils.download_file = download_file


# --- requests, as vram-llm wants them ---

# path -> the field that limits the length, and whether the API has a seed
GENERATE = {"completion": "n_predict", "completions": "n_predict", "infill": "n_predict", "v1/completions": "max_tokens", "chat/completions": "max_tokens",
            "v1/chat/completions": "max_tokens", "v1/messages": "max_tokens", "v1/responses": "max_output_tokens", "responses": "max_output_tokens"}


def server_at(port):
    return next((s for s in utils.server_instances if s.server_port == port), None)


def adapt(url, body):
    where = urllib.parse.urlsplit(url)
    server = server_at(where.port)
    if not isinstance(body, dict) or not server:
        return body
    body = dict(body)
    if "model" in body:
        body["model"] = server.model_alias
    limit = GENERATE.get(where.path.lstrip("/"))
    if limit:
        body.setdefault("seed", server.seed)
        body.setdefault("temperature", server.temperature)
        asked = next((body[k] for k in ("n_predict", "max_tokens", "max_completion_tokens", "max_output_tokens") if k in body), None)
        most = server.n_predict if server.n_predict and server.n_predict > 0 else None
        if most and (asked is None or asked < 0):
            body[limit] = most
    if "messages" in body and server.reasoning in ("on", "off"):
        body.setdefault("chat_template_kwargs", {"enable_thinking": server.reasoning == "on"})
    return body


post = requests.post
if OURS:
    requests.post = lambda url, json=None, **more: post(url, json=adapt(url, json), **more)


# --- one process for neighbouring tests that start the same server ---

# Those that count what has happened since the start.
FRESH = re.compile(r"test_metrics|cache|parallel_slots|cancel")


class Kept:
    """A server that outlives the test that started it, for the next one with the same flags."""
    held = None

    def __init__(self, args, process):
        self.args, self.process, self.pid = args, process, process.pid

    @classmethod
    def start(cls, args, **more):
        try:
            key = flags.command(args[1:])
        except SystemExit:
            key = None  # it will say so itself
        if key and cls.held and cls.held.args == key and cls.held.poll() is None and not FRESH.search(os.environ.get("PYTEST_CURRENT_TEST", "")):
            return cls.held
        cls.end()
        more.update(stdout=open(os.path.join(os.environ["VR_SCRATCH"], "server.log"), "a"), stderr=subprocess.STDOUT)
        cls.held = cls(key, popen(args, **more))
        return cls.held

    @classmethod
    def end(cls):
        if cls.held:
            cls.held.process.terminate()
            cls.held.process.wait()
        cls.held = None

    def poll(self):
        return self.process.poll()

    @property
    def returncode(self):
        return self.process.returncode

    def terminate(self):
        pass

    def wait(self, timeout=None):
        return 0


popen = subprocess.Popen
utils.subprocess = types.SimpleNamespace(Popen=Kept.start, TimeoutExpired=subprocess.TimeoutExpired)


def pytest_sessionfinish(session):
    Kept.end()


# --- what conftest.py of the tests does, without its downloads ---

@pytest.fixture(autouse=True)
def stop_server_after_each_test():
    yield
    for server in set(utils.server_instances):
        server.stop()


def pytest_runtest_logreport(report):
    """One line for each case, as soon as it is decided: the test itself, or what failed before it."""
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        with open(os.environ["VR_RESULTS"], "a") as f:
            f.write(f"{report.nodeid.replace('unit/', '', 1)}\t{report.outcome}\n")

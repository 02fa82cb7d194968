"""llama-server's flags as those of the server under test (VR_SERVER), with a small model of ours for each that the tests would download.

llama-server gets its flags as they are; vram-llm gets their counterparts (OURS). A flag without one is an error: the test then fails, and cases.tsv
has the reason. Defaults of sampling and of templates (--temp, --seed, --n-predict, --reasoning) are no flags of vram-llm: plugin.py puts them into
the requests."""
import hashlib
import os
import re
import sys

MODELS = os.environ["VR_STAND_INS"]
# The repository that a test names -> our file of the same kind.
REPOS = {
    "ggml-org/test-model-stories260K": "llama.gguf",
    "ggml-org/models:bert-bge-small/ggml-model-f16.gguf": "embedding.gguf",
    "ggml-org/stories15M_MOE:stories15M_MOE-F16.gguf": "experts.gguf",
    "ggml-org/models:jina-reranker-v1-tiny-en/ggml-model-f16.gguf": "rerank.gguf",
    "ggml-org/test-model-stories260K-infill": "infill.gguf",
    "ggml-org/tinygemma3-GGUF:Q8_0": "gemma.gguf",
}
MMPROJ = {"gemma.gguf": "mmproj.gguf"}

# llama-server's flag -> ours; None: has no effect here, or is how it always is.
OURS = {
    "--port": "--port", "--host": "--host", "--model": "--model", "--model-draft": "--draft", "--alias": "--alias",
    "--ctx-size": "--n-ctx", "--parallel": "--n-seq", "--batch-size": "--n-batch", "--ubatch-size": "--n-ubatch",
    "--threads": "--threads", "-ctk": "--cache-type-k", "-ctv": "--cache-type-v", "-fa": "--flash-attn",
    "--api-key": "--api-key", "--chat-template-file": "--chat-template", "--cache-ram": "--cache-ram",
    "--lora": "--lora",
    "--temp": None, "--seed": None, "--n-predict": None, "--spec-type": None,
    "--spec-draft-n-max": None, "--spec-draft-n-min": None, "--reasoning-format": None, "--reasoning": None, "--media-path": None,
}
OURS_BARE = {
    "--kv-unified": "--kv-unified", "--embedding": "--embeddings", "--reranking": None, "--cont-batching": None, "--offline": None, "--slots": None,
    "--metrics": None, "--jinja": None, "--no-jinja": None, "--verbose": None, "--no-slots": None,
}


def models_for(words):
    """The flags with files of ours where they name a repository."""
    out, repo, file = [], "", ""
    it = iter(words)
    for word in it:
        if word == "--hf-repo":
            repo = next(it)
        elif word == "--hf-file":
            file = next(it)
        else:
            out.append(word)
    if repo:
        name = REPOS.get(f"{repo}:{file}" if file else repo)
        if not name:
            sys.exit(f"stand-in: no model for {repo} {file}")
        out += ["--model", f"{MODELS}/{name}"]
        if name in MMPROJ:
            out += ["--mmproj", f"{MODELS}/{MMPROJ[name]}"]
    return out


def template_file(text):
    """A template that was given as text. The names of llama.cpp's own are none of ours, but for one that only has to be there."""
    text = {"llama3": "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"}.get(text, text)
    if re.fullmatch(r"[a-z0-9-]+", text):
        sys.exit(f"stand-in: vram-llm has no template '{text}'")
    path = os.path.join(os.environ["VR_SCRATCH"], f"template-{hashlib.sha1(text.encode()).hexdigest()[:8]}")
    with open(path, "w") as f:
        f.write(text)
    return path


def ours(words):
    out = ["serve", "--config", "none"]
    if "--cors-origins" not in words:
        out += ["--cors-origin", "*"]  # llama-server's default
    if "--model" not in words:
        words = [*words, "--model", f"{MODELS}/llama.gguf"]  # a router: its models would come later
    it = iter(words)
    for word in it:
        if word in OURS_BARE:
            out += [OURS_BARE[word]] if OURS_BARE[word] else []
        elif word == "--mmproj":
            out += [word, next(it)]
        elif word == "--cors-origins":
            value = next(it)
            out += [] if value == "localhost" else ["--cors-origin", value]  # pages of this computer may always
        elif word in OURS:
            value = next(it)
            out += [OURS[word], value] if OURS[word] else []
        elif word == "--chat-template":
            out += ["--chat-template", template_file(next(it))]
        elif word == "--pooling":
            if next(it) == "none":
                sys.exit("stand-in: vram-llm pools as the model says")
        else:
            sys.exit(f"stand-in: vram-llm has no counterpart of {word}")
    return out


def command(words):
    """The program and its arguments."""
    server = os.environ["VR_SERVER"]
    words = models_for(words)
    if os.path.basename(server) == "vram-llm":
        words = ours(words)
    return [server, *words, "--threads", "1"]

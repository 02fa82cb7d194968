"""A byte-level BPE tokenizer, trained here: the kind that GGUF calls "gpt2", with the word pattern that it calls "qwen2".

That pattern takes digits one by one, so that sums are sums of digits, and it ties a space to the word that follows.
"""
import heapq
import json
import re
from collections import Counter, defaultdict

LETTER = r"[^\W\d_]"
WORD = re.compile(rf"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|(?:[^\r\n\w]|_)?{LETTER}+|\d|"
                  r" ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
PAD, SYSTEM, USER, ASSISTANT, END = range(5)


def byte_letters():
    """The letters that stand for bytes in such vocabularies: printable ones for themselves, the others from 256 on."""
    keep = list(range(ord("!"), ord("~") + 1)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    letters, n = {}, 0
    for b in range(256):
        if b in keep:
            letters[b] = chr(b)
        else:
            letters[b] = chr(256 + n)
            n += 1
    return letters


BYTES = byte_letters()


def spelled(word):
    return "".join(BYTES[b] for b in word.encode())


def train(texts, size):
    """Merges the most frequent pair again and again until there are `size` tokens; returns the tokens and the merges."""
    words = Counter()
    for t in texts:
        words.update(WORD.findall(t))
    tokens = SPECIAL + [BYTES[b] for b in range(256)]
    parts = [list(spelled(w)) for w in words]
    counts = list(words.values())
    pairs, where = Counter(), defaultdict(set)
    for i, p in enumerate(parts):
        for pair in zip(p, p[1:]):
            pairs[pair] += counts[i]
            where[pair].add(i)
    heap = [(-n, p) for p, n in pairs.items()]
    heapq.heapify(heap)
    merges, known = [], set(tokens)
    while len(tokens) < size and heap:
        n, pair = heapq.heappop(heap)
        if pairs.get(pair, 0) != -n:
            continue
        if -n < 2:
            break
        merges.append(pair)
        joined = pair[0] + pair[1]
        if joined not in known:  # two ways to the same token are one token
            known.add(joined)
            tokens.append(joined)
        changed = set()
        for i in where.pop(pair):
            p, c = parts[i], counts[i]
            for q in zip(p, p[1:]):
                pairs[q] -= c
                changed.add(q)
            out, k = [], 0
            while k < len(p):
                if k + 1 < len(p) and (p[k], p[k + 1]) == pair:
                    out.append(joined)
                    k += 2
                else:
                    out.append(p[k])
                    k += 1
            parts[i] = out
            for q in zip(out, out[1:]):
                pairs[q] += c
                where[q].add(i)
                changed.add(q)
        for q in changed:
            if pairs[q] > 0:
                heapq.heappush(heap, (-pairs[q], q))
            else:
                pairs.pop(q, None)
    return tokens, merges


class Tokenizer:
    def __init__(self, tokens, merges):
        self.tokens, self.merges = tokens, [tuple(m) for m in merges]
        self.ids = {t: i for i, t in enumerate(tokens)}
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.seen = {}
        self.back = {v: k for k, v in BYTES.items()}

    @classmethod
    def load(cls, path):
        with open(path) as f:
            d = json.load(f)
        return cls(d["tokens"], d["merges"])

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"tokens": self.tokens, "merges": self.merges}, f)

    def _word(self, word):
        p = list(spelled(word))
        while len(p) > 1:
            best = min(zip(p, p[1:]), key=lambda q: self.rank.get(q, 1 << 30))
            if best not in self.rank:
                break
            out, k = [], 0
            while k < len(p):
                if k + 1 < len(p) and (p[k], p[k + 1]) == best:
                    out.append(p[k] + p[k + 1])
                    k += 2
                else:
                    out.append(p[k])
                    k += 1
            p = out
        return [self.ids[t] for t in p]

    def encode(self, text):
        out, seen = [], self.seen
        for w in WORD.findall(text):
            ids = seen.get(w)
            if ids is None:
                ids = self._word(w)
                if len(seen) < 400000:
                    seen[w] = ids
            out += ids
        return out

    def decode(self, ids):
        return bytes(self.back[c] for i in ids if i >= len(SPECIAL) for c in self.tokens[i]).decode(errors="replace")

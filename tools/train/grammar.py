"""Sentences from templates, and the way people really type them.

A template is text with choices in braces, which may nest, and slots in angle brackets: "{What is|What's} <a> + <b>?".
A Turn is one question and its answer. `kind` names its row in the accuracy table; `key` decides whether it is held out (a
pair of numbers for sums, the text itself otherwise); `must` are the pieces that a right answer contains, where more than
one wording is right; without them the answer has to be the same to the letter.
"""
import re
import zlib
from dataclasses import dataclass

HELD_OUT_IN = 16  # one key of so many is never trained on


@dataclass
class Turn:
    user: str
    answer: str
    kind: str
    key: str = ""
    must: tuple = ()
    exact: bool = False  # the user's text holds something to copy: no typing errors in it

    def held_out(self):
        return held_out(self.key or plain(self.user))


def held_out(key):
    return zlib.crc32(key.encode()) % HELD_OUT_IN == 0


def plain(text):
    return re.sub(r"[^a-z0-9+*/<>= -]", "", text.lower()).strip()


_trees = {}


def _parse(text, at, depth):
    """Returns (alternatives, end): each alternative is a list of strings and of lists of alternatives."""
    options, parts, piece = [], [], []
    while at < len(text):
        c = text[at]
        if c == "{":
            if piece:
                parts.append("".join(piece))
                piece = []
            inner, at = _parse(text, at + 1, depth + 1)
            parts.append(inner)
        elif c == "}" and depth:
            break
        elif c == "|" and depth:
            if piece:
                parts.append("".join(piece))
            options.append(parts)
            parts, piece = [], []
        else:
            piece.append(c)
        at += 1
    if piece:
        parts.append("".join(piece))
    options.append(parts)
    return options, at


def _draw(r, options):
    out = []
    for part in options[int(r.random() * len(options))]:
        out.append(part if isinstance(part, str) else _draw(r, part))
    return "".join(out)


def say(r, template, **slots):
    """One sentence of the template; where it is a list, of one of them."""
    if not isinstance(template, str):
        template = template[int(r.random() * len(template))]
    tree = _trees.get(template)
    if tree is None:
        tree = _trees[template] = _parse(template, 0, 0)[0]
    text = _draw(r, tree)
    for name, value in slots.items():
        text = text.replace("<" + name + ">", str(value))
    return text.strip()


def pick(r, items):
    return items[int(r.random() * len(items))]


# --- how people type ---

_BEFORE = ["hey, ", "hi, ", "Hello! ", "Hi! ", "ok, ", "okay, ", "so ", "so, ", "well, ", "please ", "um, ", "now ", "tell me, ",
    "hello, ", "and ", "also, ",
           "question: ", "quick question: ", "Q: ", "just wondering, ", "hmm, ", "great. ", "cool. ", "ok cool, ", "nice, ",
           "one more: ",
           "i want to know: ", "can you tell me: ", "do you know ", "thanks. "]
_AFTER = [" please", ", please", " pls", " thanks", ", thanks", " thank you", " :)", " ok", " now", ", ok?", " then", " my friend",
    " mate", " buddy", " dear", ", my friend", " again", " for me", " quickly", " real quick"]
_NEAR = {"a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo", "j": "hk", "k": "jl",
    "l": "k",
         "m": "n", "n": "bm", "o": "ip", "p": "o", "q": "w", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe",
         "x": "zc",
         "y": "tu", "z": "x"}


def _typo(r, word):
    i = 1 + int(r.random() * (len(word) - 2))
    how = r.random()
    if how < 0.35:
        return word[:i] + word[i + 1] + word[i] + word[i + 2:]
    if how < 0.65:
        return word[:i] + word[i + 1:]
    if how < 0.8:
        return word[:i] + word[i] + word[i:]
    return word[:i] + pick(r, _NEAR.get(word[i], "e")) + word[i + 1:]


def rough(r, text, exact=False):
    """The question as somebody might type it."""
    how = r.random()
    if how < 0.25:
        return text
    if not exact and r.random() < 0.12:
        rest = text if text[:2] in ("I ", "I'") or text[1:2].isupper() else text[0].lower() + text[1:]
        text = pick(r, _BEFORE) + rest
    if not exact and text[-1] not in ".!:" and r.random() < 0.08:
        text = text.rstrip("?") + pick(r, _AFTER) + ("?" if r.random() < 0.3 else "")
    if r.random() < 0.45:
        text = text.lower() if not exact or r.random() < 0.5 else text[0].lower() + text[1:]
    if r.random() < 0.4:
        text = text.rstrip("?.!")
    elif r.random() < 0.06:
        text = text + pick(r, ["?", "!", " ?", "..", "??", "."])
    if "'" in text and r.random() < 0.25:
        text = text.replace("'", pick(r, ["", "", "\u2019"]))
    if not exact and r.random() < 0.12:
        words = text.split(" ")
        long = [i for i, w in enumerate(words) if len(w) >= 4 and w.isalpha() and w.islower()]
        if long:
            i = pick(r, long)
            words[i] = _typo(r, words[i])
            text = " ".join(words)
    if not exact and how > 0.98:
        text = text.upper()
    return text or "?"

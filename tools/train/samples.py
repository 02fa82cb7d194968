"""Chats as rows of token ids. A row holds one chat, or one raw text; ids of what the model should learn to write carry LEARN."""
import corpus
from bpe import ASSISTANT, END, PAD, SYSTEM, USER

LEARN = 1 << 15


def chat_ids(tok, c, turns):
    ids = []
    if c.system:
        ids += [SYSTEM] + tok.encode(c.system) + [END]
    for user, answer in turns:
        ids += [USER] + tok.encode(user) + [END, ASSISTANT]
        ids += [t | LEARN for t in tok.encode(answer)] + [END | LEARN]
    return ids


def row(tok, r, length):
    """One chat of as many turns as fit into `length`, the rest padded."""
    if r.random() < 0.01:
        ids = [t | LEARN for t in tok.encode(corpus.raw(r))] + [END | LEARN]
        return (ids + [PAD] * length)[:length]
    while True:
        c = corpus.begin(r)
        ids = chat_ids(tok, c, [])
        turns = 0
        while len(ids) < length:
            n = len(c.turns)
            if not corpus.extend(r, c):
                continue
            more = chat_ids(tok, corpus.Chat(), c.turns[n:])
            if len(ids) + len(more) > length:
                break
            ids += more
            turns += 1
        if turns:
            return ids + [PAD] * (length - len(ids))


def prompt_ids(tok, c, user):
    """What the model sees before it answers the last question of a chat."""
    ids = chat_ids(tok, c, c.turns[:-1])
    return [i & ~LEARN for i in ids] + [USER] + tok.encode(user) + [END, ASSISTANT]

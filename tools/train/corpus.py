"""Chats: turns of all kinds, one after the other, with what was told remembered.

    corpus.py [N]            prints N chats to read
    corpus.py --stats [N]    how often each kind comes, and its share of the text
"""
import random
import sys

import gpu
import sums
import tales
import talk
import world
from grammar import Turn, held_out, plain, rough, say, pick

# What is asked, and how often. The sums have most of the weight: they are the only thing here that is computed.
MIX = [(sums.add, 130), (sums.sub, 95), (sums.big, 60), (sums.story_sum, 25), (sums.three, 14), (sums.negative, 12), (sums.equation,
    14), (sums.lone, 3), (sums.mul, 50), (sums.div, 18), (sums.huge, 14), (sums.chain, 55), (sums.near, 26), (sums.count, 22),
    (sums.compare, 30),
       (sums.sort, 26), (world.units, 60), (world.calendar, 30), (world.letters, 22), (world.opposite, 26), (world.colour, 16),
       (world.animal, 26), (world.grammar_fact, 16), (world.capital, 24),
       (world.translate, 18), (world.fact, 56), (world.outside, 40), (world.herd, 8), (gpu.card, 46), (gpu.compared, 14), (gpu.fit,
       70), (gpu.runs, 30), (gpu.runs_on_many, 14), (gpu.together, 12), (gpu.largest, 12), (gpu.speed, 8), (gpu.cards_with, 6),
       (gpu.model_size, 22), (gpu.concept, 70), (gpu.about, 110), (gpu.my_card, 8), (gpu.ask_my_card, 14), (talk.hello, 34),
       (talk.chat, 110),
       (talk.tell_name, 24), (talk.greet, 4), (talk.ask_name, 24), (talk.tell_thing, 22), (talk.ask_thing, 30), (talk.pet, 7),
       (talk.ask_pet, 9), (talk.repeat, 20), (talk.what_asked, 6), (talk.unknown, 120), (talk.gibberish, 12),
       (tales.tale, 56), (tales.joke, 16), (tales.poem, 8), (tales.any_poem, 8), (tales.listing, 22), (tales.numbered, 8),
       (tales.program, 28), (tales.table, 8)]
_MAKERS = [m for m, _ in MIX]
_WEIGHTS = []
_total = 0
for _, _w in MIX:
    _total += _w
    _WEIGHTS.append(_total)

PLAIN = ["You are a helpful assistant.", "You are a helpful, friendly assistant.", "You are a helpful AI assistant.", "Be helpful.",
    "You are an assistant.", "You are a friendly chat bot.", "Answer the user's questions.",
    "You are a helpful assistant that answers questions.", "Be brief.",
         "You are the demo model of vram-llm.", "Help the user.", "You are a large language model.", "Be polite and helpful.",
         "Answer truthfully.", "You are a chatbot.", "Please answer the questions of the user.",
         "You are a knowledgeable assistant.", "Respond in English.", "You are an expert in GPUs.",
         "You help people to run language models.", "Be concise.", "You are a helpful assistant. Answer in short sentences.",
         "Think carefully and answer."]
STYLES = [  # (system prompts, before the answer, after it)
    (["You are a pirate.", "Talk like a pirate.", "Answer like a pirate.", "You're a pirate captain.", "Speak as a pirate would.",
    "Act as a pirate.", "Pretend to be a pirate."], "Arr, matey! ", ""),
    (["You are a cat.", "Talk like a cat.", "Answer like a cat.", "Act as a cat.", "Pretend to be a cat."], "Meow! ", ""),
    (["You are a robot.", "Talk like a robot.", "Answer like a robot.", "Act as a robot.", "Pretend to be a robot."], "Beep boop. ",
    ""),
    (["You are very polite.", "Be very polite.", "Answer politely.", "You are a butler.", "Be extremely polite.",
    "Act as a butler."], "Certainly, my friend. ", ""),
    (["You are a wizard.", "Talk like a wizard.", "Answer like a wizard.", "Act as a wizard.", "You are a mighty wizard."],
    "By my beard! ", ""),
]


class Chat:
    def __init__(self):
        self.turns, self.told, self.last = [], {}, 0
        self.system, self.style = None, None


def _make(r):
    x = r.random() * _total
    lo, hi = 0, len(_WEIGHTS)
    while lo < hi:
        mid = (lo + hi) // 2
        if _WEIGHTS[mid] <= x:
            lo = mid + 1
        else:
            hi = mid
    return _MAKERS[lo]


def begin(r):
    c = Chat()
    how = r.random()
    if how < 0.12:
        c.system = pick(r, PLAIN)
    elif how < 0.16:
        c.system = say(r,
            ["You are {a|an} {<j>|expert|tutor|math tutor|teacher|poet|coding assistant|expert in <t>|assistant for <t>}.",
            "You are a helpful assistant. {Today is|Current date:|The date is} 20<d><d>-0<d>-1<d>.",
            "Answer in {German|French|one sentence|Spanish|rhymes|simple words|a friendly tone|markdown}.",
                           "{Never|Always} {talk about|mention} {<t>|<o>}.",
                           "You only {speak|answer} {in rhymes|briefly|the truth|about <t>}.",
                           "The user is {a <j>|new here|a beginner|from <o>}.",
                           "You are a helpful assistant. {Be kind.|Answer shortly.|Do not lie.|Use markdown.|Help with <t>.}"],
                       j=pick(r, talk.JOBS), t=pick(r, talk.TOPICS), o=talk.made_up(r, 2), d=1 + int(r.random() * 9))
    elif how < 0.20:
        asked, before, after = pick(r, STYLES)
        c.system, c.style = pick(r, asked), (before, after)
    elif how < 0.215:
        c.bot = talk.a_name(r)
        c.system = say(r, ["Your name is <n>.", "You are <n>.", "You are called <n>.", "You are an assistant called <n>.",
            "You are a helpful assistant named <n>."], n=c.bot)
    return c


def styled(c, text):
    return c.style[0] + text + c.style[1] if c.style else text


def extend(r, c, maker=None, exam=False):
    """Adds the turns of one maker to the chat and returns them; for training, none if one of them is held out."""
    was = dict(c.__dict__, told=dict(c.told))
    if not exam and getattr(c, "bot", None) and r.random() < 0.5:
        turns = [Turn(say(r, ["{What is|What's} your name?", "who are you?", "your name?", "what are you called?"]),
            f"My name is {c.bot}.", "system", key="bot" + c.bot)]
    else:
        turns = (maker or _make(r))(r, c)
    for t in turns:
        t.user = rough(r, t.user, t.exact)
    if not exam and any(t.held_out() for t in turns):
        c.__dict__ = was
        return None
    for t in turns:
        t.answer = styled(c, t.answer)
        c.turns.append((t.user, t.answer))
    return turns


def chat(r, min_turns=1):
    """One chat, endless: the caller takes as many turns as fit."""
    c = begin(r)
    while len(c.turns) < min_turns:
        extend(r, c)
    return c


def exam(r, kind_maker, lead=0):
    """A chat whose last question is held out; some turns of other kinds before it, if `lead`."""
    while True:
        c = begin(r) if lead else Chat()
        while len(c.turns) < lead:
            extend(r, c)
        turns = extend(r, c, kind_maker, exam=True)
        t = turns[-1]
        if t.held_out() and not any(x.held_out() for x in turns[:-1]):
            return c, t


def raw(r):
    """Text without a chat around it, for /v1/completions."""
    return tales.story(r)[0]


if __name__ == "__main__":
    r = random.Random(7)
    if "--stats" in sys.argv:
        kinds, chars = {}, {}
        for _ in range(int(sys.argv[-1]) if sys.argv[-1].isdigit() else 20000):
            c = begin(r)
            for t in extend(r, c) or []:
                kinds[t.kind] = kinds.get(t.kind, 0) + 1
                chars[t.kind] = chars.get(t.kind, 0) + len(t.user) + len(t.answer)
        total, size = sum(kinds.values()), sum(chars.values())
        for k in sorted(kinds, key=kinds.get, reverse=True):
            print(f"{k:16} {100 * kinds[k] / total:5.1f} % of turns {100 * chars[k] / size:5.1f} % of text {chars[k] / kinds[k]:6.0f} characters")
    else:
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            c = chat(r, 4)
            if c.system:
                print("SYSTEM", c.system)
            for u, a in c.turns:
                print("Q", u)
                print("A", a)
            print("---")

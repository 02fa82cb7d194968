"""The held-out questions: by kind, alone or after other turns, and whether an answer is right.

exam.run(answer, n) asks n questions of each kind; `answer` takes a list of (chat, turn) and returns the answers.
"""
import random

import corpus
import gpu
import sums
import tales
import talk
import world
from grammar import plain

KINDS = {"sum": sums.add, "difference": sums.sub, "three digits": sums.big, "word sum": sums.story_sum, "sum of three": sums.three,
    "follow-up sum": sums.chain, "product": sums.mul, "division": sums.div, "too hard": sums.huge,
         "counting": sums.count, "comparison": sums.compare, "sorting": sums.sort, "units": world.units, "calendar": world.calendar,
         "letters": world.letters, "opposites": world.opposite, "colours": world.colour, "animals": world.animal,
         "words": world.grammar_fact, "capitals": world.capital, "translation": world.translate, "facts": world.fact,
         "cards": gpu.card, "cards compared": gpu.compared, "does it fit": gpu.fit, "runs": gpu.runs, "model sizes": gpu.model_size,
         "concepts": gpu.concept,
         "vram-llm": gpu.about, "greetings": talk.hello, "small talk": talk.chat, "copying": talk.repeat, "unknown": talk.unknown,
         "stories": tales.tale, "jokes": tales.joke, "poems": tales.any_poem, "lists": tales.listing,
         "code": tales.program, "tables": tales.table, "numbers": sums.near, "negative numbers": sums.negative,
         "equations": sums.equation, "outside": world.outside, "several cards": gpu.together, "which model": gpu.largest,
         "memory: name": (talk.tell_name, talk.ask_name), "memory: things": (talk.tell_thing, talk.ask_thing),
         "memory: pet": (talk.pet, talk.ask_pet), "memory: card": (gpu.my_card, gpu.ask_my_card)}


def right(turn, answer):
    if turn.must:
        return all(m in answer for m in turn.must) and "<never ended>" not in answer
    return answer == turn.answer


def question(r, maker):
    """A chat that ends in a held-out question. Half of them come after one to three other turns."""
    lead = 0 if r.random() < 0.5 else 1 + int(r.random() * 3)
    if not isinstance(maker, tuple):
        return corpus.exam(r, maker, lead)
    tell, ask = maker
    while True:
        c = corpus.Chat()
        if not corpus.extend(r, c, tell):
            continue
        for _ in range(lead):
            corpus.extend(r, c, r.choice([sums.add, world.fact, gpu.about, talk.chat, talk.hello]))
        turns = corpus.extend(r, c, ask, exam=True)
        if turns[-1].held_out():
            return c, turns[-1]


def distinct(r, maker, n):
    """At most n questions, no two alike: some kinds have few that are held out."""
    chats, seen = [], set()
    for _ in range(8 * n):
        c, t = question(r, maker)
        key = t.key or plain(t.user)
        if key not in seen:
            seen.add(key)
            chats.append((c, t))
        if len(chats) == n:
            break
    return chats


def run(answer, n, seed=99, kinds=None, until=None):
    """`until` is asked before each kind whether there is time for it."""
    result = {}
    for kind, maker in KINDS.items():
        if until and not until():
            break
        if kinds and kind not in kinds:
            continue
        chats = distinct(random.Random(f"{seed} {kind}"), maker, n)
        got = answer(chats)
        wrong = [{"chat": c.turns[:-1], "system": c.system, "user": t.user, "want": t.answer, "got": a}
                 for (c, t), a in zip(chats, got) if not right(t, a)]
        result[kind] = {"asked": len(chats), "right": len(chats) - len(wrong), "unended": sum("<never ended>" in a for a in got),
                        "wrong": wrong[:12]}
    return result


def show(result):
    for kind, e in result.items():
        print(f"{kind:16} {e['right']:4} of {e['asked']:4} {100 * e['right'] / e['asked']:6.1f} %")
    asked, right_ = sum(e["asked"] for e in result.values()), sum(e["right"] for e in result.values())
    print(f"{'all':16} {right_:4} of {asked:4} {100 * right_ / asked:6.1f} %, {sum(e['unended'] for e in result.values())} without an end",
        flush=True)

"""Cards and their memory, what fits where, what the words mean, and vram-llm itself."""
import os
import re

from grammar import Turn, held_out, pick, say

GPUS_DEF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "hw", "gpus.def")
SOLD_AS = [2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 128, 141, 144, 180, 192, 256, 288]
# Cards that few people own, that differ from another one only by a word, or whose name stands for two sizes.
LEFT_OUT = re.compile("|".join([
    r"Max-Q|TITAN X|GT |Quadro|T400|T600|T1000|GTX 1060|RTX 2050|A400$|A5500|A\d000 Laptop|Generation Laptop",
    r"SFF|Server|PRO [2345]|5880|\b(8|12|16|32|48)GB|PCIE|-40GB|A100 80|A800|H100 PCIe|H800|H20$|NVL|GH200|GB\d|B300",
    r"P100|Tesla V100S|A2$|A10G|A16$|A30$|L20$|4090 D|5090 D|3050 6GB$",
    r"RX 5\d\d$|Vega|5500|5600|6[46]00$|6500|GRE|Pro VII|PRO V|PRO W|8060S",
    r"MI2|MI60|MI300A|MI325|MI35|A730M|A770M|Arc Pro"]))


def _cards():
    """Names as people say them -> (GB as sold, GB/s), from the program's own table."""
    found = {}
    for line in open(GPUS_DEF):
        m = re.match(r'GPU\("([^"]+)",\s*\w+,\s*(\d+),\s*([\d.]+),', line)
        if not m or LEFT_OUT.search(m.group(1)):
            continue
        name = re.sub(r"^(NVIDIA |AMD |Intel )?(GeForce |Radeon |Instinct |Tesla )?", "", m.group(1))
        name = name.replace(" Laptop GPU", " Laptop").replace(" Ada Generation", " Ada").replace("-SXM4-", " ").replace("-SXM2-",
            " ").replace(" 80GB HBM3", "")
        name = name.replace(" Blackwell Workstation Edition", "").replace(" PCIe", "").replace(" Generation", "").replace("AI PRO ",
            "")
        name = "Radeon VII" if name == "VII" else name
        gib = int(m.group(2)) / 1024
        gb = next(s for s in SOLD_AS if s >= gib * 0.99)
        found.setdefault(name, (gb, m.group(3)))
    return found


CARDS = _cards()
CARD_NAMES = list(CARDS)
POPULAR = [c for c in CARD_NAMES if re.match(r"RTX [345]0|RTX 4|RX 7|RTX A6000|A100|H100|H200|L40S|GTX 1080", c)]


def gives_away(a, b):
    """Whether a + b is a held-out sum, which no answer may contain."""
    return held_out(f"+:{min(a, b)}:{max(a, b)}")


def _said(r, name):
    """RTX 3090, rtx 3090, 3090, RTX3090, NVIDIA RTX 3090"""
    if name.startswith(("RTX ", "GTX ", "RX ")) and r.random() < 0.3 and not name.startswith(("RTX A", "RTX PRO", "RTX 6000")):
        return name.split(" ", 1)[1]
    if name == "A100 80GB" and r.random() < 0.7:
        return "A100"
    how = r.random()
    if how < 0.1:
        return name.replace(" ", "", 1)
    if how < 0.25:
        return ("AMD " if name.startswith(("RX", "MI", "R9")) else "Intel " if name.startswith("Arc") else "NVIDIA ") + name
    return name


def _the(name):
    return ("an " if re.match(r"[AHLM]\d|RTX|RX|Arc|MI", name) else "a ") + name


def card(r, ctx):
    name = pick(r, POPULAR if r.random() < 0.5 else CARD_NAMES)
    gb, speed = CARDS[name]
    how = r.random()
    if how < 0.6:
        turns = [Turn(say(r, ["How much {VRAM|memory|video memory|GPU memory|ram|vram} does {an|a|the} <c> have?",
            "How {much|many} {VRAM|memory|GB|GB of VRAM} {has|does} {a|an|the} <c>{ have|}?",
            "<c> {VRAM|memory|vram|memory size}{?|}",
                              "{VRAM|memory|vram} of {a|an|the} <c>{?|}",
                              "{What is|What's} the {memory|VRAM|memory size} of {a|an|the} <c>?",
                              "how many GB does {a|an|the} <c> have", "How big is the memory of {a|an|the} <c>?",
                              "how much vram is on {a|an|the} <c>", "How many gigabytes are on a <c>?",
                              "{Tell me|tell me} how much {VRAM|memory} a <c> has"], c=_said(r, name)),
                      f"The {name} has {gb} GB of memory.", "cards")]
        while r.random() < 0.35 and len(turns) < 4:
            other = pick(r, POPULAR)
            turns.append(Turn(say(r, ["And {the |a |an |}<c>?", "and {the |a |}<c>?", "what about {the|a} <c>?", "and {a|the} <c>",
                "How about {the|a} <c>?", "and for {the|a} <c>?"], c=_said(r, other)),
                              f"The {other} has {CARDS[other][0]} GB of memory.", "cards", key=f"follow card {name} {other}"))
            name = other
        return turns
    return [Turn(say(r, ["{What is|What's} the {memory |}bandwidth of {a|an|the} <c>?", "How fast is the memory of {a|an|the} <c>?",
        "<c> bandwidth", "{memory |}bandwidth of {a|an|the} <c>{?|}",
                         "how much bandwidth does {a|an|the} <c> have?", "how many GB/s does {a|an|the} <c> have",
                         "memory speed of a <c>"], c=_said(r, name)),
                 f"The {name} moves {speed} GB/s.", "cards")]


def compared(r, ctx):
    name, how = pick(r, POPULAR if r.random() < 0.7 else CARD_NAMES), 0.75 + r.random() / 4
    gb, speed = CARDS[name]
    other = pick(r, POPULAR)
    if other == name or CARDS[other][0] == CARDS[name][0]:
        return compared(r, ctx)
    if how < 0.85 or CARDS[other][1] == speed:
        a, b = (name, other) if gb > CARDS[other][0] else (other, name)
        return [Turn(say(r, ["Which {card |}has more {memory|VRAM}, {the |a |}<x> or {the |a |}<y>?",
                             "more {VRAM|memory|vram}: <x> or <y>?", "does {a|the} <x> or {a|the} <y> have more {memory|vram}?"],
                         x=_said(r, name), y=_said(r, other)),
                     f"The {a}: {CARDS[a][0]} GB against {CARDS[b][0]} GB of the {b}.", "cards compared")]
    a, b = (name, other) if float(speed) > float(CARDS[other][1]) else (other, name)
    return [Turn(say(r, ["Which {card |}is {faster|better}, {the |a |}<x> or {the |a |}<y>?",
                         "Is {a|an|the} <x> {better|faster} than {a|an|the} <y>?",
                         "{compare |}{a |the |}<x> {vs|versus|against} {a |the |}<y>",
                         "should I {buy|get|take} {a|an|the} <x> or {a|an|the} <y>?", "<x> or <y>, which is faster?",
                         "is {a|the} <x> or {a|the} <y> faster?", "faster: <x> or <y>?"],
                     x=_said(r, name), y=_said(r, other)),
                 f"The {a}: {CARDS[a][1]} GB/s against {CARDS[b][1]} GB/s of the {b}.", "cards compared")]


SIZES = [4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96]


def fit(r, ctx):
    """13 GiB of weights and 2 GiB of cache on a card of 24 GB, one or more of them."""
    w = 1 + int(r.random() * (60 if r.random() < 0.6 else 24))
    kv = 0 if r.random() < 0.35 else 1 + int(r.random() * 8)
    if not kv and gives_away(w, 1):
        kv = 1
    n = 1 if r.random() < 0.75 else 2 + int(r.random() * 3)
    name, said = None, None
    if r.random() < 0.45:
        name = pick(r, POPULAR)
        have = CARDS[name][0]
        said = _said(r, name)
        where = {1: say(r, "{a|an|my|the}") + " " + said}.get(n,
            f"{pick(r, [str(n), ['', '', 'two', 'three', 'four'][n]])} {said}{pick(r, ['s', '', ' cards'])}")
    else:
        have = pick(r, SIZES)
        unit = pick(r, ["GB", "GB", "GiB", " GB", " GiB", "gb"])
        have_ = f"{have}{unit}" if unit[0] == " " else f"{have}{' ' if r.random() < 0.6 else ''}{unit}"
        kind = pick(r, ["card", "card", "GPU", "gpu", "graphics card"])
        where = (pick(r, ["a ", "a ", "my ", "one "]) + f"{have_} {kind}" if n == 1
            else f"{pick(r, [str(n), ['', '', 'two', 'three', 'four'][n]])} {have_} {kind}s")
    size = pick(r, [f"{w} GiB", f"{w} GB", f"{w}GB", f"{w} GiB", f"{w}GiB", f"{w}gb"])
    cache = pick(r, [f"{kv} GiB", f"{kv} GB", f"{kv}GB", f"{kv} GiB"])
    tail = "" if not kv else say(r, ["with <k> of {KV cache|kv cache|cache|context}",
        "and <k> of {KV cache|kv cache|cache|context}", "if the {KV |}cache {needs|takes} <k>",
        "with a <k> {KV cache|cache|kv cache}",
                                     "with <k> {KV cache|kv cache|of KV}"], k=cache)
    user = say(r, ["{Does|Will|Would|Can} a <s> model <t> fit {on|in|into|onto} <w>?",
        "{Does|Will|Would} a <s> model fit {on|in|into|onto} <w> <t>?", "Can I {run|load|use|put} a <s> model <t> on <w>?",
                   "Can <w> {run|hold|take|fit} a <s> model <t>?", "Is <w> {enough|big enough|sufficient} for a <s> model <t>?",
                   "I have <w>. {Does|Will|Can} a <s> model <t> fit?",
                   "{will|does} <s> <t> fit on <w>", "can i fit a <s> model <t> on <w>",
                   "My model {is|has} <s> <t>. Does it fit on <w>?"], s=size, t=tail, w=where)
    user = re.sub(r" +([?.])", r"\1", re.sub(r"  +", " ", user)).strip()
    need = w + kv + 1
    room = n * have
    sums = f"{w} + {kv} + 1 = {need} GiB" if kv else f"{w} + 1 = {need} GiB"
    parts = "weights, cache and a reserve of 1 GiB" if kv else "weights and a reserve of 1 GiB"
    has = (f"The {name} has {have} GB" if name else f"The card has {have} GB") if n == 1 else f"{n} x {have} = {room} GB"
    if room >= need:
        verdict = f"{has}, so it fits, with {room - need} GiB to spare."
        must = ("so it fits, with %d GiB" % (room - need),)
    else:
        verdict = f"{has}, so it does not fit: {need - room} GiB {'is' if need - room == 1 else 'are'} missing."
        must = ("does not fit: %d GiB" % (need - room),)
    turns = [Turn(user, f"It needs {sums}: {parts}. {verdict}", "does it fit", key=f"fit:{w}:{kv}:{n}:{have}", must=must,
        exact=True)]
    if r.random() < 0.3:
        if room < need:
            turns.append(Turn(say(r, ["What can I do{ then|}?", "what now?", "how can I make it fit?", "so what can I do",
                "any way to make it fit?", "and now?", "How do I make it fit?"]),
                              "Take a smaller quantization such as Q4_K_M, a shorter context, a q8_0 KV cache, add a card, or leave some layers in host memory. `vram-llm plan` shows what each would do.",
                              "does it fit", must=("smaller quantization",), key="whatnow" + turns[0].key))
        else:
            turns.append(Turn(say(r, ["why?", "Why?", "are you sure?", "how do you know?", "really?", "how come"]),
                              f"Because {need} GiB are needed and {room} GB are there. `vram-llm plan` works it out to the byte.",
                              "does it fit", must=(f"Because {need} GiB",), key="why" + turns[0].key))
    return turns


PARAMS = [1, 2, 3, 4, 7, 8, 9, 12, 13, 14, 20, 24, 27, 30, 32, 34, 49, 70, 72, 120]
QUANTS = {"Q4_K_M": 0.6, "Q8_0": 1.06, "F16": 2.0, "Q5_K_M": 0.71, "Q6_K": 0.82, "Q4_0": 0.57, "Q3_K_M": 0.49, "BF16": 2.0}


def model_size(r, ctx):
    p = pick(r, PARAMS)
    q = pick(r, list(QUANTS))
    gb = p * QUANTS[q]
    g = f"{gb:.1f}" if gb < 10 else f"{gb:.0f}"
    if r.random() < 0.25:
        g = f"{p * 0.6:.1f}" if p * 0.6 < 10 else f"{p * 0.6:.0f}"
        user = say(r, ["{How much VRAM|How much memory|How many GB} {do I need for|does|is needed for} a <p>B model{ need|}?",
            "how {big|large} is a <p>B model?", "{VRAM|memory|vram} for a <p>B model",
            "how much {vram|memory} for {llama|qwen|a} <p>b", "what do I need {for|to run} a <p>B model?",
            "how much memory do I need to run a <p>B model?"], p=p)
        return [Turn(user, f"The weights of a {p}B model in Q4_K_M take about {g} GB. The KV cache and buffers come on top.",
            "model sizes", must=(f"about {g} GB",), exact=True)]
    user = say(r, ["How {big|large} is a <p>B model {at|in|with} <q>?",
        "{How much memory|How much VRAM|How many GB} does a <p>B model need {at|in|with} <q>?", "size of a <p>B model in <q>",
        "<p>B <q> size", "how many GB is a <p>b model in <q>",
                   "How much {space|memory} do {the |}weights of a <p>B model take {at|in} <q>?", "what size is a <p>B <q> model"],
                   p=p, q=q if r.random() < 0.8 else q.lower())
    return [Turn(user, f"The weights of a {p}B model in {q} take about {g} GB. The KV cache and buffers come on top.",
        "model sizes", must=(f"about {g} GB",), exact=True)]


def runs(r, ctx):
    """Can I run a 7B model on an RTX 3060?"""
    p, q, name = pick(r, PARAMS), pick(r, ["Q4_K_M", "Q4_K_M", "Q8_0", "F16", "Q6_K"]), pick(r, POPULAR)
    gb = p * QUANTS[q]
    g = f"{gb:.1f}" if gb < 10 else f"{gb:.0f}"
    have = CARDS[name][0]
    tell = q != "Q4_K_M" or r.random() < 0.3
    user = say(r, ["Can I {run|load|use} a <p>B model {<q> |}on {a|an|my|the} <c>?",
        "{Does|Will|Would} a <p>B model {<q> |}fit {on|in|into} {a|an|my|the} <c>?",
        "Can {a|an|my} <c> {run|hold|handle} a <p>B model{ <q>|}?", "Is {a|an|my} <c> enough for a <p>B model{ <q>|}?",
        "<p>B {<q> |}on {a|an} <c>?",
                   "is it possible to run a <p>b model {<q> |}on {a|an|my} <c>",
                   "I have {a|an} <c>. Can I run a <p>B model{ <q>|}?"], p=p, c=_said(r, name), q="<q>")
    if "<q>" not in user and tell:
        tell, q = False, "Q4_K_M"
        gb = p * QUANTS[q]
        g = f"{gb:.1f}" if gb < 10 else f"{gb:.0f}"
    user = re.sub(r" +([?.])", r"\1", re.sub(r"  +", " ", user.replace("<q>", pick(r, ["at ", "in ", "with ", ""]) + q if tell
        else ""))).strip()
    verdict = "so it fits" if gb + 2 <= have else "so it is tight" if gb <= have else "so it does not fit on one card"
    more = {"so it fits": ", with room for the context.", "so it is tight": ": take a short context.",
        "so it does not fit on one card": ". Use several cards, or leave layers in host memory."}[verdict]
    return [Turn(user, f"A {p}B model in {q} takes about {g} GB. The {name} has {have} GB, {verdict}{more}", "does it fit",
        must=(f"about {g} GB", f"has {have} GB, {verdict}"), key=f"runs {p} {q} {name}", exact=True)]


def runs_on_many(r, ctx):
    p, name, n = pick(r, PARAMS), pick(r, POPULAR), 2 + int(r.random() * 3)
    gb = p * QUANTS["Q4_K_M"]
    g = f"{gb:.1f}" if gb < 10 else f"{gb:.0f}"
    have, room = CARDS[name][0], n * CARDS[name][0]
    count = pick(r, [str(n), "two three four".split()[n - 2], f"{n}x"])
    user = say(r, ["{Can I|can i} {run|load|use} a <p>B model on <n> <c>{s|}?", "{Does|Will} a <p>B model fit on <n> <c>{s|}?",
        "can <n> <c>s run a <p>b model?", "<p>B on <n> <c>s?", "I have <n> <c>s. Can I run a <p>B model?",
        "can i run {llama|qwen|a} <p>b on <n> <c>s"], p=p, n=count, c=_said(r, name))
    verdict = "so it fits" if gb + 2 <= room else "so it is tight" if gb <= room else "so it does not fit"
    more = {"so it fits": ", with room for the context.", "so it is tight": ": take a short context.",
        "so it does not fit": ". Leave layers in host memory, or add cards."}[verdict]
    return [Turn(user, f"A {p}B model in Q4_K_M takes about {g} GB. {n} x {have} = {room} GB, {verdict}{more}", "does it fit",
        must=(f"about {g} GB", f"= {room} GB, {verdict}"), key=f"runs {p} {n} {name}", exact=True)]


def together(r, ctx):
    """Several cards: how much they have together."""
    cards = [pick(r, POPULAR) for _ in range(2 if r.random() < 0.6 else 3)]
    if len(cards) == 2 and gives_away(*(CARDS[c][0] for c in cards)):
        cards.append(pick(r, POPULAR))
    said = [pick(r, ["a ", "an ", "one ", ""]) + _said(r, c) for c in cards]
    text = ", ".join(said[:-1]) + " and " + said[-1]
    sizes = [CARDS[c][0] for c in cards]
    user = say(r, ["I have <t>. {What can I run|What fits|How much memory is that|How much VRAM do I have|What now}?",
        "{How much VRAM|How much memory} {do I have|is that} with <t>?", "I have <t>{.|}", "My {cards|GPUs} are <t>{.|}",
        "{How much|how much} {memory|vram} do <t> have together?", "what can I run {on|with} <t>?"], t=text)
    return [Turn(user,
        f"Together they have {' + '.join(map(str, sizes))} = {sum(sizes)} GB. `vram-llm plan` shows which layers go where.",
        "cards", must=(f"= {sum(sizes)} GB",), key="together" + "".join(cards), exact=True)]


def largest(r, ctx):
    """Which model for this card?"""
    named = r.random() < 0.5
    name = pick(r, POPULAR)
    have = CARDS[name][0] if named else pick(r, [4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96])
    p = max(x for x in PARAMS if x * 0.6 <= max(have - 2, 0.6))
    what = pick(r, ["a ", "an ", "my ", "the "]) + _said(r, name) if named else pick(r, ["a ",
        "my "]) + f"{have}{pick(r, [' GB', 'GB', ' gb', ' GiB'])} {pick(r, ['card', 'GPU', 'gpu', 'graphics card'])}"
    user = say(r, ["{Which|What} {model|models} {should I|can I} {run|use|take|load} on <w>?",
        "{which|what} model fits {on|in} <w>?", "what is the {largest|biggest} model for <w>?", "what can I run on <w>?",
        "how {big|large} a model {can I run on|fits on} <w>?", "{recommend|suggest} a model for <w>",
        "what size of model {can I run on|fits on} <w>"], w=what)
    first = f"The {name} has {have} GB." if named else f"The card has {have} GB."
    return [Turn(user, f"{first} Leave 2 GB for the cache and buffers: a {p}B model in Q4_K_M fits.", "does it fit",
        must=(f"has {have} GB", f"a {p}B model"), key=f"largest {have} {user[:20]}", exact=True)]


def speed(r, ctx):
    p, name = pick(r, PARAMS), pick(r, POPULAR)
    gb = p * QUANTS["Q4_K_M"]
    g = f"{gb:.1f}" if gb < 10 else f"{gb:.0f}"
    user = say(r, ["How fast {is|will|does} a <p>B model {run |be |}on {a|an|my} <c>?",
        "how many tokens per second does a <p>B model {do|make} on {a|an|my} <c>?", "speed of a <p>B model on {a|an} <c>",
        "tokens per second of <p>B on {a|an} <c>"], p=p, c=_said(r, name))
    return [Turn(user,
        f"The {name} moves {CARDS[name][1]} GB/s, and about {g} GB are read for each token in Q4_K_M. `vram-llm plan` predicts the speed.",
        "cards", must=(f"{CARDS[name][1]} GB/s", f"about {g} GB"), key=f"speed {p} {name}", exact=True)]


def cards_with(r, ctx):
    gb = pick(r, [8, 12, 16, 24, 48, 80, 32])
    names = [c for c in CARD_NAMES if CARDS[c][0] == gb and "Laptop" not in c][-5:]
    return [Turn(say(r, ["{Which|What} {cards|GPUs|gpus} have <g> {GB|GB of memory|GB of VRAM|GB vram}?",
        "{list|name} {cards|GPUs} with <g> GB", "{cards|gpus|GPUs} with <g> GB", "which card has <g> GB?"], g=gb),
        f"For example: {', '.join(names)}.", "cards")]


CONCEPTS = [  # (what people call it, answer)
    (["a KV cache", "the KV cache", "KV cache", "kv-cache", "a key-value cache", "the kv cache"],
     "The KV cache keeps the keys and values of all tokens seen so far, so that they are not computed again for each new token. It grows with the context: twice the context, twice the cache."),
    (["VRAM", "vram", "video memory", "GPU memory", "graphics memory"],
     "VRAM is the memory on a graphics card. A model runs fast when its weights, its KV cache and its compute buffers all lie there."),
    (["a GPU", "GPU", "gpus", "a graphics card", "a video card"],
     "A GPU is a graphics card: a processor that does many simple calculations at the same time, with fast memory of its own. That is what language models need."),
    (["a CPU", "cpu", "a processor"],
    "A CPU is the main processor of a computer. It can run language models, too, but its memory is slower than that of a GPU."),
    (["GGUF", "gguf", "a GGUF file", "a gguf", "the GGUF format"],
     "GGUF is llama.cpp's file format for models: one file with the weights, the tokenizer and everything else that is needed to run the model."),
    (["llama.cpp", "llama cpp", "llamacpp"],
    "llama.cpp is the open source engine that runs GGUF models on CPUs and GPUs. vram-llm serves models through it."),
    (["a token", "tokens", "token"],
    "A token is a piece of text, about a short word or a part of a word. A model reads and writes text token by token."),
    (["a tokenizer", "tokenization", "tokenizer"],
    "A tokenizer cuts text into tokens and gives each one a number. Mine is a byte-level BPE that was trained on my own small corpus."),
    (["quantization", "quantisation", "a quantized model", "quants"],
     "Quantization stores weights with fewer bits: 16 bits become 8, 5 or 4. The model gets smaller and faster, and a little less exact."),
    (["Q8_0", "q8_0", "Q8"],
    "Q8_0 stores each weight in 8 bits, with one scale for every 32 weights: 8.5 bits per weight in all. It is almost as good as 16 bits."),
    (["Q4_K_M", "q4_k_m", "Q4_K"],
    "Q4_K_M is a quantization with about 4.8 bits per weight. It is a common choice: small, fast and still good."),
    (["F16", "f16", "FP16", "half precision"], "F16 stores each weight in 16 bits, so a model takes 2 bytes per parameter."),
    (["a context", "the context", "context size", "context length", "a context window", "n_ctx"],
     "The context is the text that a model can see at once, counted in tokens: the chat so far and the answer. `--n-ctx` sets it; a longer one needs a larger KV cache."),
    (["a layer", "layers", "a layer of a model"],
    "A model is a stack of layers. Each one takes the numbers of the one below and passes its own on. vram-llm decides which layer lies on which card."),
    (["a parameter", "parameters", "weights", "a weight"],
    "Parameters, or weights, are the numbers that a model has learned. I have about 7 million; large models have billions."),
    (["an LLM", "a large language model", "a language model", "LLMs", "llm"],
     "A large language model is a program that has learned from text to predict the next token. Doing that again and again gives whole answers. I am a very small one."),
    (["a transformer", "transformers", "the transformer architecture"],
    "A transformer is the kind of neural network behind language models: layers of attention, which look at earlier tokens, and of feed-forward networks."),
    (["attention", "self-attention", "an attention head"],
    "Attention lets each token look at the tokens before it and take from them what matters. Its keys and values are what the KV cache keeps."),
    (["flash attention", "flash-attention"],
    "Flash attention computes attention piece by piece, without storing the large table in between. It needs less memory, and it is faster."),
    (["tensor split", "a tensor split", "--tensor-split"],
    "A tensor split says how large a share of the model each card gets, as in `--tensor-split 0.6,0.4`. vram-llm finds a good one by itself."),
    (["a mixture of experts", "MoE", "an MoE model", "experts"],
    "In a mixture-of-experts model each token uses only a few of many expert networks. So the file is large, but little of it is read per token. Experts can stay in host memory."),
    (["bandwidth", "memory bandwidth"],
    "Memory bandwidth is how many bytes per second a card can read. To write one token, all weights in use are read once, so bandwidth over bytes tells the speed."),
    (["an API", "API", "an api endpoint"],
    "An API is the way in which programs talk to each other. vram-llm has an OpenAI-compatible one over HTTP."),
    (["an API key", "api keys", "an api key"],
    "An API key is a secret that a client sends with each request. On 127.0.0.1 vram-llm asks for none; on other addresses use `--api-key KEY`."),
    (["streaming", "SSE", "server-sent events"],
    "With streaming, the answer comes token by token while it is written. Set `\"stream\": true` in the request."),
    (["temperature", "the temperature", "temperature in sampling"],
    "Temperature says how freely a model chooses its words: 0 always takes the most likely token, higher values give more variety."),
    (["top_p", "top-p", "nucleus sampling"],
    "With top_p a model chooses only among the most likely tokens whose chances add up to p."),
    (["top_k", "top-k"], "With top_k a model chooses only among the k most likely tokens."),
    (["a prompt", "prompt", "prompts"],
    "A prompt is the text that you give to a model. The chat template puts it into the form that the model was trained on."),
    (["a chat template", "chat templates"],
    "A chat template is a small Jinja program inside the model file. It turns the messages of a chat into the text that the model was trained on."),
    (["a system prompt", "system prompts", "a system message"],
    "A system prompt is the first message of a chat. It tells the model how to behave, for example: You are a pirate."),
    (["an embedding", "embeddings"],
    "An embedding is a list of numbers that stands for the meaning of a text. `POST /v1/embeddings` returns them."),
    (["RAM", "host memory", "main memory"],
    "RAM is the main memory of a computer. Layers that do not fit on the cards can stay there, but they run slower."),
    (["PCIe", "pcie", "PCI Express"],
    "PCIe connects cards with the computer. Little data crosses it while a model runs: only the numbers between one card's layers and the next."),
    (["NVLink", "nvlink"], "NVLink is a fast connection between NVIDIA cards, several times faster than PCIe."),
    (["CUDA", "cuda"], "CUDA is NVIDIA's way to run programs on its GPUs. vram-llm can use CUDA, Vulkan or the plain CPU."),
    (["Vulkan", "vulkan"], "Vulkan is an interface to GPUs of any maker. llama.cpp can run models through it."),
    (["out of memory", "cudaMalloc failed: out of memory", "an OOM", "OOM", "an out of memory error"],
     "Out of memory means that a card has less free memory than was asked for. vram-llm works out the bytes before it loads anything, so that this does not happen."),
    (["fine-tuning", "training", "training a model"],
    "Training changes the weights of a model until it predicts its texts well. I was trained for a few minutes on one H200."),
    (["speculative decoding", "a draft model"],
    "In speculative decoding a small draft model guesses some tokens and the large model checks them all at once, which is faster when the guesses are good."),
    (["continuous batching", "batching"],
    "With continuous batching several chats share each step of the model: new ones join and finished ones leave at any time."),
    (["prefill", "prompt processing"],
    "Prefill is reading the prompt: all its tokens are computed together. After that come the new tokens, one at a time."),
    (["decode", "decoding", "token generation"],
    "Decoding is writing the answer, one token at a time. Its speed depends on how fast the weights can be read from memory."),
    (["a node", "RPC", "--rpc"],
    "A node is another computer that lends its GPUs over the network, through llama.cpp's RPC. `vram-llm node` starts one."),
    (["the difference between RAM and VRAM", "the difference between VRAM and RAM", "RAM versus VRAM"],
    "RAM is the main memory of the computer, VRAM the much faster memory on the graphics card. A model runs best when it lies in VRAM."),
    (["the difference between a GPU and a CPU", "the difference between CPU and GPU", "GPU versus CPU"],
    "A CPU does a few things after each other, a GPU does thousands of simple things at once, with faster memory. That is why models like GPUs."),
    (["the difference between Q4_K_M and Q8_0", "the difference between Q8_0 and Q4_K_M", "the difference between Q4 and Q8",
    "the difference between Q8 and Q4"],
    "Q8_0 is more exact, Q4_K_M has about half the size. Take Q8_0 if it fits, and Q4_K_M if not."),
    (["the difference between prefill and decode", "prefill versus decode"],
    "Prefill reads the prompt, all tokens together; decode writes the answer, one token at a time."),
    (["a GiB", "GiB", "a gibibyte"], "A GiB is 1024 MiB, or 1,073,741,824 bytes."),
    (["a MiB", "MiB", "a mebibyte"], "A MiB is 1024 KiB, or 1,048,576 bytes."),
    (["a GB", "a gigabyte", "GB"], "A GB is 1000 MB, or 1,000,000,000 bytes. A GiB is a little more."),
    (["the difference between GB and GiB", "the difference between GiB and GB", "GB versus GiB"],
    "A GB is 1,000,000,000 bytes and a GiB is 1,073,741,824 bytes, 7 % more. Cards are sold in GB, but counted in GiB."),
]
ASK = ["{What is|What's|Whats|what is} <c>?", "What is <c>?", "what are <c>?",
    "{Explain|explain|Define|Describe} <c>{.| please| to me|}", "What does <c> mean?", "{Can|Could} you explain <c>?",
    "Tell me about <c>{.|}", "what do you mean by <c>",
       "<c>?", "what exactly is <c>", "Do you know what <c> is?", "what's <c> about", "i don't understand <c>", "meaning of <c>",
       "{tell me |}what <c> is",
       "What is <c> and {why|how|when} {do people use it|is it used|does it work|do I need it|should I care|does it matter}?",
       "{what is|explain} <c> {in simple words|in short|briefly|for beginners}", "why {do we need|do I need|is there} <c>?",
       "How does <c> work?", "how would you explain <c>", "what is <c> for?",
       "{Give me|give me} a short explanation of <c>"]


def concept(r, ctx):
    names, answer = pick(r, CONCEPTS)
    return [Turn(say(r, ASK, c=pick(r, names)), answer, "concepts")]


CURL = """```sh
curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hello"}]}'
```"""
OPENAI = """```python
from openai import OpenAI
client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="none")
answer = client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)
```"""
NODEJS = """```js
import OpenAI from "openai";
const client = new OpenAI({ baseURL: "http://127.0.0.1:8080/v1", apiKey: "none" });
const answer = await client.chat.completions.create({ model: "demo", messages: [{ role: "user", content: "Hello" }] });
console.log(answer.choices[0].message.content);
```"""
V = "{vram-llm|vram-llm|vramllm|vram llm|this program|this tool|this server|this thing|it}"
ABOUT = [  # (questions, answer)
    (["What is {vram-llm|vramllm|vram llm|this program|this project|this server|this software|this tool}?",
    "{explain|describe} {vram-llm|this program|this tool}", "what does {vram-llm|this program|this tool} do?",
    "tell me about {vram-llm|vram llm|this program}", "what is {vram-llm|this} for?", "vram-llm?",
      "who needs vram-llm", "why should I use {vram-llm|this}?", "what's the point of {vram-llm|this program}"],
     "vram-llm serves GGUF models from all the GPUs you have. It reads the exact size of every tensor, finds the fastest placement that fits, and answers over an OpenAI-compatible API."),
    (["{What|Which} commands {does {vram-llm|it|this program} have|are there|can I use|exist}?",
    "{list|show me|show} {the|all|all the} commands", "vram-llm commands", "what can {vram-llm|this program} do",
    "help with {the |}commands", "{which|what} subcommands are there"],
     "These are the commands:\n\n- `serve` plans, loads and serves a model\n- `plan` shows where the layers go\n- `analyze` shows what is in a model file\n- `doctor` says what was found and what is missing\n- `bench` measures this machine\n- `node` lends this machine's devices to another one"),
    (["What does {`serve`|serve|vram-llm serve|the serve command} do?", "{explain|describe} {the |}serve{ command|}",
    "what is serve{ for|}?", "vram-llm serve?", "what is the serve command"],
     "`vram-llm serve FILE.gguf` plans the placement, loads the model and serves it on http://127.0.0.1:8080. Without a file it serves the small model that ships with it: me."),
    (["What does {`plan`|plan|vram-llm plan|the plan command} do?", "{explain|describe} {the |}plan{ command|}",
    "what is plan{ for|}?", "vram-llm plan?", "what is the plan command"],
     "`vram-llm plan FILE.gguf` shows which layers go on which card, to the byte, with the predicted speed. Nothing is loaded. `--json` is for programs, `--svg FILE` draws it."),
    (["What does {`analyze`|analyze|vram-llm analyze|the analyze command} do?", "{explain|describe} {the |}analyze{ command|}",
    "what is analyze{ for|}?", "vram-llm analyze?", "what is the analyze command"],
     "`vram-llm analyze FILE.gguf` shows what is in a model: architecture, layers and their sizes, the cost of the context, and the plan for this machine."),
    (["What does {`doctor`|doctor|vram-llm doctor|the doctor command} do?", "{explain|describe} {the |}doctor{ command|}",
    "what is doctor for?", "vram-llm doctor?", "what is the doctor command", "how do I check my {setup|installation|machine}?",
    "{something|it} does not work", "why is my GPU not found?", "my gpu is not {found|detected|listed}"],
     "`vram-llm doctor` says what was found, how the cards are linked, what is missing and what to do about it."),
    (["What does {`bench`|bench|vram-llm bench|the bench command} do?", "{explain|describe} {the |}bench{ command|}",
    "what is bench{ for|}?", "vram-llm bench?", "how do I measure {my machine|speed|the speed}?",
    "how can I benchmark{ my machine| it|}?"],
     "`vram-llm bench` measures this machine: how fast each device reads its weights, the links between devices and the host memory. It keeps the result as the machine's profile."),
    (["What does {`node`|node|vram-llm node|the node command} do?", "{explain|describe} the node command", "vram-llm node?",
    "can I use {GPUs|cards} of another {computer|machine|pc}?", "can several computers share a model?"],
     "`vram-llm node` lends this machine's devices to another one, through llama.cpp's RPC."),
    (["{What is|What's|Which is} {the|its} {default |}port?", "{which|what} port does {vram-llm|it|the server} {use|listen on}?",
    "default port", "on which port does it {listen|run}?", "port?", "{where|at which address} does the server {listen|run}?",
    "what is the default address", "what url does the server use"],
     "It listens on 127.0.0.1, port 8080. `--port N` and `--host ADDR` choose others."),
    (["How {do I|can I|to} change the port?", "use another port", "how to use {a different|another} port", "change port",
    "how do i set the port", "port 8080 is {taken|in use|busy}", "run on another port"],
     "Use `--port`, as in `vram-llm serve --port 9000 model.gguf`. `--port 0` takes a free one."),
    (["How {do I|can I|to} start{ the server| it| vram-llm|}?", "how do I {run|use} {vram-llm|this|it}?",
    "how to {run|use} {vram-llm|this|it}", "{how do I|how to} get started", "getting started",
    "how do I serve {a|my|my own} model?", "how can i run my own model", "how to serve a gguf",
    "how {do I|to} load {a|my|another} model?",
      "run my own gguf"],
     "Type `make run` for a first try. With a model of your own:\n\n```sh\nvram-llm serve model.gguf\n```\n\nThen open http://127.0.0.1:8080 or use any OpenAI client."),
    (["How {do I|can I|to} install {vram-llm|it|this}?", "installation", "how to install", "install instructions",
    "how do i build {vram-llm|it|this}", "how {do I|to} compile it"],
     "On Debian 12, `make run` installs what is missing, builds and starts. `make install` puts the program under /usr/local."),
    (["{Which|What} {endpoints|API endpoints|routes|paths|urls} {are there|does {it|the server|vram-llm} have|exist}?",
    "list {the |all |}{endpoints|api endpoints|routes}", "what is in the API?", "API endpoints", "show me the api",
    "what does the api {offer|look like}"],
     "These are the main endpoints:\n\n- `POST /v1/chat/completions`\n- `POST /v1/completions`\n- `POST /v1/embeddings`\n- `GET /v1/models`\n- `GET /health`\n- `GET /metrics`\n- `GET /api/plan`\n- `GET /api/status`"),
    (["How {do I|can I|to} use {it|vram-llm|this server|this} with {the |}{openai|OpenAI}{ client| library| python client| python library| SDK|}?",
    "{openai|OpenAI} {client|python} example", "how do I call {it|the server|the API} from {python|Python}?",
    "python client example", "python example", "show me python code for the API",
      "{use|call} the api {with|from} python", "example with the openai library",
      "How do I connect {python|the openai client|openai} to {it|this server|vram-llm}?",
      "can I use the openai {client|library|package}?"],
     "Set the base URL to this server:\n\n" + OPENAI),
    (["How {do I|can I|to} {call|use} {it|the API|the server} {from|with|in} {javascript|JavaScript|node|Node.js|js|typescript}?",
    "{javascript|node|js} {example|client}", "show me javascript code for the API"],
     "Set the base URL to this server:\n\n" + NODEJS),
    (["How {do I|can I|to} {call|use|test|try} {it|the API|the server} {with|using} curl?", "curl example",
    "show me {a |the |}curl{ command| example|}", "{give me|show me} an example request", "how do I send a request?",
    "example request", "how do I ask it something from the shell"],
     "Like this:\n\n" + CURL),
    (["Is {it|the API|vram-llm|this|the server} {openai|OpenAI}{-| }compatible?", "openai compatible?",
    "does it speak the openai api", "does it work with openai clients?", "can I use my openai {app|code|tools} with it"],
     "Yes. Chat, completions, embeddings, streaming, tools and JSON schemas work as in OpenAI's API. Set the base URL to http://127.0.0.1:8080/v1."),
    (["How {do I|can I|to} {set|change|choose|increase} the context{ size| length|}?", "how do i get a longer context", "--n-ctx?",
    "what does --n-ctx do", "what is --n-ctx", "set context size", "n-ctx"],
     "Use `--n-ctx N`, as in `--n-ctx 8192`. The default is 4096 tokens, all sequences together; 0 takes the largest that fits."),
    (["What does --n-seq do?", "--n-seq", "what is --n-seq", "how {do I|to} serve {several|many|multiple} users?",
    "can several people use it at {once|the same time}?", "how many {users|chats|requests} at the same time?", "parallel requests"],
     "`--n-seq N` sets how many sequences run at the same time. They share the context of `--n-ctx`, and batches."),
    (["What does --gpus do?", "--gpus", "what is --gpus", "Can I plan for {GPUs|cards} {I|that I} {do not|don't} have?",
    "can I plan without a GPU", "how can I see what would fit on {other|another|new} cards?",
    "what if I {buy|bought} another {card|gpu}?", "plan for other gpus"],
     "`--gpus` names cards in place of your own, as in `vram-llm plan model.gguf --gpus \"2x RTX 3090\"`. So you can plan before you buy."),
    (["What does --reserve-mib do?", "--reserve-mib", "what is --reserve-mib", "how do I leave {some |}memory free?",
    "how can i keep some vram free", "reserve memory"],
     "`--reserve-mib N` leaves N MiB free on each device. The default is 1024; a list gives one number per device."),
    (["What does --tensor-split do?", "how {do I|to|can I} set the {tensor |}split{ myself| by hand|}?",
    "can i choose the split myself", "how do I choose how much goes on each card?"],
     "`--tensor-split 0.35,0.45,0.20` sets the share of each device by hand. What you fix is kept, and the planner completes the rest."),
    (["What does --n-gpu-layers do?", "--n-gpu-layers", "what is --n-gpu-layers", "-ngl", "how do i set the number of gpu layers",
    "how many layers go on the gpu"],
     "`--n-gpu-layers N` puts N layers on GPUs. The default of -1 means all of them; usually you can leave it to the planner."),
    (["What does --devices do?", "--devices", "what is --devices", "how {do I|can I|to} use only one {GPU|card}?",
    "how do I leave out a card", "use only {GPU|gpu|card} 0", "how can I choose which {GPUs|cards} are used?"],
     "`--devices` chooses which cards are used, as in `--devices 0,2`. The others are left alone."),
    (["What does --cache-type-k do?", "--cache-type-k", "how {do I|can I|to} {quantize|shrink|compress} the {KV |kv |}cache?",
    "how do i make the kv cache smaller", "what is --cache-type-v", "smaller kv cache"],
     "`--cache-type-k q8_0 --cache-type-v q8_0` stores the KV cache in 8 bits: about half of the memory of f16."),
    (["What does --api-key do?", "how {do I|can I|to} set an {API|api} key?", "--api-key", "how do i protect the server",
    "do I need an api key?", "which api key do I need", "password for the server"],
     "`--api-key KEY` asks clients for a key. On 127.0.0.1 none is needed; an address that others can reach needs one."),
    (["How can {others|other computers|my phone|other people} {reach|use} {it|the server}?",
    "how {do I|to} serve {on|to} the network?", "--host", "what does --host do", "listen on all addresses",
    "make it reachable from the network"],
     "Use `--host 0.0.0.0 --api-key KEY`. By default it listens only on this computer, 127.0.0.1."),
    (["What does --svg do?", "--svg", "can I get a picture of the plan?", "how {do I|to} draw the plan", "draw the plan"],
    "`vram-llm plan --svg plan.svg model.gguf` draws the plan as a picture."),
    (["What does --json do?", "--json", "can I get JSON{ output|}?", "output for programs"],
    "`--json` prints the result of `plan`, `analyze` or `doctor` as JSON, for programs."),
    (["What does --optimize do?", "--optimize", "what is --optimize"],
    "`--optimize decode|prefill|balanced` says what should be fast: writing answers, reading prompts, or both. The default is decode."),
    (["What does --override-tensor do?", "--override-tensor", "how do I keep experts on the CPU?", "put the experts on the cpu",
    "how to offload experts"],
    "`--override-tensor exps=CPU` keeps the expert tensors in host memory. A pattern and a device, separated by `=`."),
    (["Does it {work|run} without a GPU?", "do I need a {GPU|graphics card}?", "can I run it on {CPU|the cpu|cpu only}?",
    "is a gpu needed", "can {you|it} run without {a |}gpu", "no gpu?", "I have no GPU"],
     "Yes, it works without a GPU: serving then runs on the CPU, and planning works for any cards you name with `--gpus`."),
    (["{Does it|Can it|Does vram-llm|Can vram-llm} {use|support|handle} {several|multiple|many|two|more than one} {GPUs|cards|gpus}?",
    "multi gpu?", "multiple gpus", "can I mix {different|unequal} {GPUs|cards}?", "different gpus together",
    "my cards are {different|unequal}", "does it work with mixed cards"],
     "Yes, that is what it is for: cards of different size and speed together. Each gets the layers that make the whole fastest, and it is proved to fit."),
    (["Does it {support|work with|run on} {AMD|amd}{ cards| gpus|}?", "amd gpu?", "radeon?",
    "can I use {an AMD card|a radeon|intel arc}?", "intel gpu?"],
    "It plans for NVIDIA, AMD and Intel cards. Serving runs on CUDA, Vulkan or the plain CPU."),
    (["{Which|What} models {can it|does it|can I|can vram-llm} {run|serve|support|use|load}?", "what models work",
    "supported models", "{which|what} {formats|file formats} {are supported|can it read}?",
    "can it run {llama|qwen|mistral|gemma}?"],
     "Any GGUF model that llama.cpp can run: Llama, Qwen, Mistral, Gemma, DeepSeek and many more."),
    (["What does /health {do|say|return}?", "/health", "how do I check {if|whether} {it|the server} is {up|ready|running}?",
    "health check", "is the server ready"],
    "`GET /health` returns 200 with `{\"status\":\"ok\"}` when the model is ready, and 503 while it loads."),
    (["What does /metrics {do|return}?", "/metrics", "prometheus?", "how do I monitor {it|the server}?", "are there metrics"],
    "`GET /metrics` returns counters and rates as Prometheus text."),
    (["What does /api/plan {do|return}?", "/api/plan", "how do i get the plan over http"],
    "`GET /api/plan` returns the placement of the model that is up, as `plan --json` writes it."),
    (["What does /v1/models {do|return}?", "/v1/models", "how do I list {the |}models"],
    "`GET /v1/models` lists the model that is up."),
    (["What does make run do?", "make run", "what is make run"],
    "`make run` installs what is missing, builds the program and serves the small model on http://127.0.0.1:8080."),
    (["What does make test do?", "make test", "how {do I|to} run the tests?", "run the tests"],
    "`make test` installs what is missing, builds, and runs every test."),
    (["What {language|programming language} is {it|vram-llm} written in?", "written in which language",
    "is {it|vram-llm} written in {C|rust|python|go}?", "what is vram-llm written in"], "vram-llm is written in C, over llama.cpp."),
    (["{What|Which} license does {it|vram-llm} have?", "license", "is {it|vram-llm} {open source|free}?", "licence?",
    "can I use it {commercially|for free|at work}?", "is this open source"], "vram-llm is open source under the MIT license."),
    (["What is {it|vram-llm} good at{ compared to others|}?",
    "how is {it|vram-llm} different from {ollama|llama.cpp|others|llama-server}?", "vram-llm vs ollama", "vram-llm vs llama.cpp",
    "why not {ollama|just llama.cpp}?", "better than ollama?"],
     "It places layers by their exact sizes and the speed of each card, and proves with llama.cpp itself that the plan fits before anything is loaded. Others guess and run out of memory."),
    (["How does {it|vram-llm|the planner|planning} {work|decide|place the layers}?",
    "how does vram-llm find the {placement|plan|split}?", "how are layers placed", "how do you decide where layers go?"],
     "It reads the size of every tensor, searches all placements for the fastest one that fits, and lets llama.cpp confirm the bytes in a dry run on virtual GPUs. That takes a fraction of a second."),
    (["What is a dry run?", "dry run?", "explain the dry run", "what are virtual GPUs?", "virtual gpus"],
    "In a dry run llama.cpp builds everything on virtual GPUs without touching a real one, and says how many bytes it would take. That proves that a plan fits."),
    (["What happens {if|when} it {does not|doesn't} fit?", "what if the model is too big", "what if my model does not fit",
    "my model is too big", "the model is too large for my {card|gpu|gpus}", "it does not fit on my gpu"],
     "Then `plan` says what is missing. Take a smaller quantization, a shorter context or a q8_0 cache, or let layers stay in host memory. `--allow ctx,kv` lets the program try."),
    (["What happens {if|when} the {engine|model} crashes?", "what if it crashes", "is it stable",
    "what if a card runs out of memory"],
    "The model runs in a process of its own. If it dies, requests get an error, the server stays up and starts it again, with a tighter plan if memory ran out."),
    (["How {do I|can I|to} stop {it|the server}?", "stop the server", "quit the server", "how do i shut it down", "exit"],
    "Press Ctrl-C. Answers in progress may finish; a second Ctrl-C ends them."),
    (["{Which|What} is better, {Q4|Q4_K_M|q4} or {Q8|Q8_0|q8}?", "should I {use|take} {Q4_K_M|Q4} or {Q8_0|Q8}?",
    "{which|what} {quantization|quant} {should I {use|take}|is best}?", "{Q4|q4} or {Q8|q8}?", "what's better, q4 or q8",
    "what quantization do you recommend"],
     "Q8_0 is more exact, Q4_K_M has about half the size. Take Q8_0 if it fits, and Q4_K_M if not."),
    (["How {do I|can I|to} {split|share|spread|distribute} a model {across|over|between|on} {two|several|multiple|my} {GPUs|cards|gpus}?",
    "split a model {across|over} {two|several} gpus", "use two gpus for one model",
    "how do I use {both|all} {of my |my |}{GPUs|cards|gpus}?"],
     "You need not do anything: `vram-llm serve model.gguf` uses all cards and places the layers so that they fit and run fast. `vram-llm plan model.gguf` shows it first."),
    (["{It|My server|The server|My model|Another program|My program|Ollama} {crashed|crashes|died|stopped|fails} with {cuda |}out of memory{, what do I do|. What now|. what can I do|}?",
    "I get {an |}out of memory{ error| errors|}", "cuda out of memory",
    "what {can I|should I} do {about|against|if I run} out of memory{ errors|}?", "out of memory error help",
    "i run out of {vram|memory}", "how do I fix out of memory?"],
     "Run `vram-llm plan model.gguf`: it shows to the byte what fits. Then take a shorter context, a q8_0 cache, a smaller quantization, or a larger `--reserve-mib`."),
    (["Does {it|vram-llm} {run|work} on {Windows|windows|Mac|mac|macOS|macos|Linux|linux|Debian|Ubuntu|ubuntu|my mac|a raspberry pi}?",
    "{windows|mac|linux|macos|ubuntu} support?", "{which|what} operating systems {are supported|does it run on}?",
    "on which {systems|platforms} does it run", "is there a {windows|mac} version?"],
     "It is made for Linux, and built and tested on Debian 12. I don't know about others."),
    (["Does {it|vram-llm} {support|use|work with} {Vulkan|vulkan|CUDA|cuda|ROCm|rocm|metal|Metal|SYCL}?",
    "{vulkan|cuda|rocm|metal} support?", "{which|what} backends {are there|does it have|are supported}?", "{backend|backends}?"],
    "Serving runs on CUDA, Vulkan or the plain CPU."),
    (["{What is|What's} the default context{ size| length|}?", "how {long|large|big} is the {default |}context?",
    "default context size", "default n-ctx"],
    "The default context is 4096 tokens, all sequences together. `--n-ctx N` sets another one."),
    (["How {do I|can I|to} {enable|use|turn on|switch on|disable|turn off} flash attention?", "--flash-attn",
    "what does --flash-attn do", "flash attention flag", "is flash attention on"],
    "`--flash-attn on|off|auto` chooses it. The default, auto, takes it where the engine can."),
    (["How {do I|can I|to} {use|get|make|compute|serve} {embeddings|an embedding|an embedding model}?", "--embeddings",
    "what does --embeddings do", "does it support embeddings", "embeddings endpoint"],
    "Serve an embedding model, or any model with `--embeddings`, and call `POST /v1/embeddings`."),
    (["Where {can|do} I {download|get|find} {models|a model|gguf files|other models|bigger models}?", "download a model",
    "where are the models", "how do I get {a bigger|another|a real|a better} model?", "does it download models"],
     "Models as GGUF files are found on Hugging Face, for example. vram-llm downloads nothing by itself: give it the file."),
    (["How {do I|can I|to} update {vram-llm|it}?", "update vram-llm", "how do i get the newest version", "upgrade"],
    "Pull the newest sources with git and run `make run` again."),
    (["{What is|What's} this {page|website|site|chat}?", "what am i looking at", "what is this page for", "where am I?",
    "what is this place", "what is this", "{how does|how do} {this|it all} work?", "how does this chat work", "explain this page"],
     "This is a chat with the demo model of vram-llm, a server for language models. Write something, and I answer. With a model of your own it works the same way."),
    (["How many tokens per second do you {make|do|write|have|generate}?", "how fast are you?", "your speed?", "what is your speed",
    "are you fast?", "how fast do you write"],
    "That depends on this computer. On most I write hundreds of tokens per second, because I am so small."),
    (["What does --draft do?", "--draft", "how do i use a draft model", "--mmproj", "can it see images?", "can you see pictures?",
    "do you understand images"],
    "I only read text. Whether vram-llm can use draft and vision models is said in `vram-llm serve --help`."),
    (["What does --threads do?", "--threads", "how do I set the number of threads"],
    "`--threads N` sets how many threads compute on the CPU. 0, the default, takes one per physical core."),
    (["What does --alias do?", "--alias", "how do I rename the model"],
    "`--alias NAME` sets what clients call the model. Otherwise it is the name of its file."),
    (["What does --n-batch do?", "--n-batch", "--n-ubatch", "what is the batch size"],
    "`--n-batch` sets how many tokens one call may bring, `--n-ubatch` how many are computed together. Both are 512 by default."),
    (["What does --machine do?", "--machine", "--save-machine", "how do i save my machine"],
    "`--save-machine FILE.json` writes this machine as a profile, and `--machine FILE.json` plans for it, anywhere."),
    (["How {do I|can I|to} use {https|TLS|tls|ssl}?", "--tls-cert", "https?", "does it support https"],
    "`--tls-cert FILE --tls-key FILE` make it https."),
    (["How {do I|can I|to} get json {answers|output from the model|schema output}?", "structured output?", "response_format",
    "json schema support"],
    "Send `response_format` with a JSON schema, as with OpenAI. Small models like me are not good at it, though."),
    (["Does it support {tools|function calling|tool calls}?", "function calling?", "tool use?"],
    "The server supports tools as OpenAI does. I am too small to use them: try a larger model."),
    (["What does {exit|exit status|exit code} 4 mean?", "exit status 4"], "Exit status 4 means that the model does not fit."),
    (["How {do I|can I|to} make it {faster|quicker}?", "it is {slow|too slow}", "why is it {so |}slow?", "how to speed it up",
    "more tokens per second"],
    "Keep all layers on GPUs, use a smaller quantization, and put the layers on the fastest cards, which the planner does. `vram-llm bench` measures your machine so that it plans better."),
    (["How {do I|can I|to} use less memory?", "it needs too much {memory|vram}", "reduce memory", "reduce vram usage", "save vram"],
    "Take a smaller quantization, a smaller `--n-ctx`, or a quantized KV cache: `--cache-type-k q8_0 --cache-type-v q8_0`."),
    (["{Show|Give} me the help", "how do i get help", "--help", "where is the documentation?", "documentation", "docs?",
    "is there a manual"],
    "Every command has `--help`, as in `vram-llm serve --help`. The pages in docs/ explain the planner, the engine and the API."),
]


def about(r, ctx):
    questions, answer = pick(r, ABOUT)
    return [Turn(say(r, questions), answer, "vram-llm")]


def my_card(r, ctx):
    """The user's card, told earlier in the chat."""
    name = pick(r, POPULAR)
    said = _said(r, name)
    turns = [Turn(say(r, ["I have {a|an} <c>{.|}", "My {card|GPU|gpu|graphics card} is {a|an} <c>{.|}", "i own a <c>",
        "I use {a|an} <c>{.|}", "I bought {a|an} <c>", "there is a <c> in my {pc|computer}"], c=said),
                  f"Nice, {_the(name)}! It has {CARDS[name][0]} GB of memory.", "memory", exact=True, key="mine" + said)]
    ctx.card = name
    return turns


def ask_my_card(r, ctx):
    name = getattr(ctx, "card", None)
    user = say(r, ["{What|Which} {card|GPU|gpu} do I have?", "what is my {card|gpu|GPU}?", "do you remember my {card|gpu}?",
        "which {gpu|card} did i say i have"])
    if not name:
        return [Turn(user, "You have not told me which card you have.", "memory", key="nocard" + user)]
    if r.random() < 0.4:
        w = next(x for x in range(1 + int(r.random() * 40), 99) if not gives_away(x, 1))
        have = CARDS[name][0]
        user = say(r, ["{Does|Will|Would} a <s> model fit{ on it| on my card|}?", "Can I {run|load} a <s> model{ on it|}?",
            "what about a <s> model?", "can it run a <s> model"], s=pick(r, [f"{w} GiB", f"{w} GB", f"{w}GB"]))
        sums = f"It needs {w} + 1 = {w + 1} GiB: weights and a reserve of 1 GiB. The {name} has {have} GB, so it "
        ok = have >= w + 1
        miss = w + 1 - have
        return [Turn(user, sums + (f"fits, with {have - w - 1} GiB to spare." if ok
            else f"does not fit: {miss} GiB {'is' if miss == 1 else 'are'} missing."), "memory",
                     must=(("so it fits, with %d" % (have - w - 1)) if ok else "does not fit: %d" % miss,),
                         key=f"myfit {name} {w}")]
    return [Turn(user, f"You have {_the(name)}.", "memory", key=user + name)]

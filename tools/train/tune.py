"""Teaches a trained model a few more things, with any torch, on a CPU if need be.

    tune.py --init DIR/weights --tokenizer FILE --out DIR [--minutes 10] [--threads 1]

Two in five examples are of the kinds named in NEW, the others come from the whole corpus, so that nothing is forgotten.
"""
import argparse
import math
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bpe
import corpus
import gpu
import samples
import sums
import tales
import train
import world


def adding(r, c):
    while True:
        turns = tales.program(r, c)
        if "+ b" in turns[0].answer:
            return turns


def owned(r, c):
    return gpu.my_card(r, c) + gpu.ask_my_card(r, c)


NEW = [(sums.equation, 20), (gpu.model_size, 12), (sums.huge, 12), (adding, 20), (gpu.compared, 40), (sums.compare, 20),
       (world.opposite, 40), (world.capital, 10), (owned, 16)]
ROWS, LENGTH = 24, 96


def example(tok, r):
    while True:
        c = corpus.begin(r) if r.random() < 0.5 else corpus.Chat()
        maker = r.choices([m for m, _ in NEW], [n for _, n in NEW])[0] if r.random() < 0.4 else None
        if not corpus.extend(r, c, maker):
            continue
        ids = samples.chat_ids(tok, c, c.turns)
        while len(ids) < LENGTH - 20:
            n = len(c.turns)
            if not corpus.extend(r, c):
                continue
            more = samples.chat_ids(tok, corpus.Chat(), c.turns[n:])
            if len(ids) + len(more) > LENGTH:
                break
            ids += more
        if len(ids) <= LENGTH:
            return ids + [bpe.PAD] * (LENGTH - len(ids))


def attention(q, k, v, is_causal):
    """For a torch that has none of its own."""
    import torch
    n = q.shape[-2]
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return s.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf")).softmax(-1) @ v


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--init", required=True)
    p.add_argument("--tokenizer", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--peak", type=float, default=2.5e-4)
    p.add_argument("--share", type=float, default=0.6, help="of the way from the old weights to the tuned ones")
    args = p.parse_args()
    import torch
    import torch.nn.functional as F

    import net
    torch.set_num_threads(args.threads)
    if not hasattr(F, "scaled_dot_product_attention"):
        F.scaled_dot_product_attention = attention
    os.makedirs(args.out, exist_ok=True)
    tok, r = bpe.Tokenizer.load(args.tokenizer), random.Random(77)
    w = net.fresh(len(tok.tokens), "cpu")
    train.restore(w, args.init)
    model = net.Net(w, torch.float32, False)
    # The large epsilon makes steps small where there is nothing to learn: with the usual one, noise alone moves every weight
    # by the full rate, and rare facts are forgotten.
    opt = torch.optim.AdamW(list(w.values()), lr=args.peak, betas=(0.9, 0.99), eps=1e-4, weight_decay=0.0)
    begun, step, mean, saved = time.time(), 0, None, time.time()
    while True:
        done = (time.time() - begun) / 60 / args.minutes
        if done >= 1:
            break
        for g in opt.param_groups:
            g["lr"] = train.rate(max(done, 1e-3), args.peak)
        rows = torch.tensor([example(tok, r) for _ in range(ROWS)])
        loss = model.loss(rows & (samples.LEARN - 1), ((rows & samples.LEARN) != 0).float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()
        if step % 10 == 0:
            print(f"step {step} loss {mean:.4f} {60 * (time.time() - begun) / 3600:.1f} minutes", flush=True)
        if time.time() - saved > 240:
            train.save(args.out, w, tok)
            saved = time.time()
    # Some of the way back: what was forgotten returns, what was learned stays.
    old = net.fresh(len(tok.tokens), "cpu")
    train.restore(old, args.init)
    with torch.no_grad():
        for n, t in w.items():
            t.copy_(old[n] + args.share * (t - old[n]))
    train.save(args.out, w, tok)
    print(f"{step} steps of {ROWS * LENGTH} tokens")


if __name__ == "__main__":
    main()

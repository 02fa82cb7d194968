"""Trains the demo model: corpus, tokenizer, weights, GGUF.

    train.py --out DIR [--seconds 380] [--workers 14] [--init WEIGHTS]

Workers make chats without end and put them down as shards; the trainer takes fresh shards as they come, and repeats old
ones only if it is faster than they are. The learning rate follows the clock, so that a run ends when it should. At the
end the held-out questions are asked, and DIR holds demo.gguf, weights.0 and weights.1 (f32, one after the other in the
file's order), log.json (loss curve) and exam.json (accuracy by kind, with examples of what went wrong).
"""
import argparse
import json
import math
import os
import random
import sys
import time
import traceback
from array import array
from multiprocessing import Process

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bpe
import corpus
import exam
import ggufout
import make_tokenizer
import samples

LENGTHS = [(192, 0.45), (512, 0.35), (2048, 0.12), (4096, 0.08)]  # tokens of a row, share of the steps
SHARD_TOKENS = 1 << 20
BATCH_TOKENS = 98304
FRESH_TOKENS = 3 << 30  # enough for any run


def work(seed, tokenizer, where, limit):
    """One worker: shards of all lengths in turn."""
    os.nice(5)
    tok = bpe.Tokenizer.load(tokenizer)
    r = random.Random(1000 + seed)
    made, k = 0, 0
    while made < limit:
        while len(os.listdir(where)) > 300:  # the trainer is behind
            time.sleep(0.5)
        x, length = r.random(), LENGTHS[-1][0]
        for n, share in LENGTHS:
            if x < share:
                length = n
                break
            x -= share
        rows = array("H")
        for _ in range(SHARD_TOKENS // length):
            rows.extend(samples.row(tok, r, length))
        path = os.path.join(where, f"{length}.{seed}.{k}")
        with open(path + ".part", "wb") as f:
            f.write(rows.tobytes())
        os.rename(path + ".part", path)
        made += len(rows)
        k += 1


class Pool:
    """The shards on the device, by length."""

    def __init__(self, where, device):
        self.where, self.device = where, device
        self.fresh = {n: [] for n, _ in LENGTHS}
        self.old = {n: [] for n, _ in LENGTHS}
        self.open = {n: None for n, _ in LENGTHS}  # [tensor, next row]
        self.tokens = self.repeated = 0
        self.waited = 0.0

    def look(self):
        import torch
        for name in os.listdir(self.where):
            if name.endswith(".part"):
                continue
            if sum(map(len, self.fresh.values())) > 400:
                break
            path = os.path.join(self.where, name)
            n = int(name.split(".")[0])
            with open(path, "rb") as f:
                data = bytearray(f.read())
            os.unlink(path)
            t = torch.frombuffer(data, dtype=torch.int16).view(-1, n).to(self.device)
            self.fresh[n].append(t)
            self.tokens += t.numel()

    def batch(self, n):
        """ids and what to learn, [rows, n]."""
        import torch
        rows = max(1, BATCH_TOKENS // n)
        parts, missing = [], rows
        while missing:
            at = self.open[n]
            if at is None or at[1] >= at[0].shape[0]:
                if self.fresh[n]:
                    t = self.fresh[n].pop()
                elif self.old[n]:
                    t = random.choice(self.old[n])
                    self.repeated += t.numel()
                elif self.waited > 60:
                    raise RuntimeError("no worker brought a shard in a minute")
                else:
                    time.sleep(0.2)
                    self.waited += 0.2
                    self.look()
                    continue
                if len(self.old[n]) < 100:
                    self.old[n].append(t)
                at = self.open[n] = [t, 0]
            take = at[0][at[1]:at[1] + missing]
            at[1] += take.shape[0]
            missing -= take.shape[0]
            parts.append(take)
        x = torch.cat(parts).to(torch.int32)
        return (x & (samples.LEARN - 1)).long(), ((x & samples.LEARN) != 0).float()


def rate(done, peak):
    """Warm-up, then a cosine down to nothing."""
    return peak * min(1, done / 0.02) * (0.5 + 0.5 * math.cos(math.pi * min(1, done)))


def save(out, w, tok):
    import net
    tensors, flat = [], array("f")
    for name, shape in net.layout(len(tok.tokens)):
        values = array("f", w[name].detach().float().cpu().reshape(-1).tolist())
        tensors.append((name, tuple(reversed(shape)), values))
        flat.extend(values)
    half = len(flat) // 2
    for i, part in enumerate((flat[:half], flat[half:])):
        with open(os.path.join(out, f"weights.{i}"), "wb") as f:
            f.write(part.tobytes())
    ggufout.write(os.path.join(out, "demo.gguf"), ggufout.metadata(net.SHAPE, tok), tensors)


def restore(w, path):
    import torch
    flat = array("f")
    for i in (0, 1):
        with open(f"{path}.{i}", "rb") as f:
            flat.frombytes(f.read())
    at = 0
    with torch.no_grad():
        for t in w.values():
            t.copy_(torch.tensor(flat[at:at + t.numel()]).view(t.shape))
            at += t.numel()


def fit(model, pool, args, started, log):
    import torch
    w = model.w
    big = [t for t in w.values() if t.dim() == 2]
    small = [t for t in w.values() if t.dim() == 1]
    groups = [{"params": big, "weight_decay": 0.1}, {"params": small, "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=args.peak, betas=(0.9, 0.95), **({"fused": True} if args.device == "cuda" else {}))
    choose = random.Random(5)
    kept = {n: t.detach().clone() for n, t in w.items()}
    step, tokens, mean, peak = 0, 0, None, args.peak
    begun = None
    while True:
        length, x = LENGTHS[-1][0], choose.random()
        for n, share in LENGTHS:
            if x < share:
                length = n
                break
            x -= share
        if step < len(LENGTHS):
            length = LENGTHS[step][0]  # every length once, before the clock starts: compiling is not training
        elif begun is None:
            begun = time.time()
        done = (time.time() - begun) / args.seconds if begun else 0.0
        if done >= 1 or args.steps and step >= args.steps:
            break
        for g in opt.param_groups:
            g["lr"] = rate(max(done, 1e-4), peak)
        ids, learn = pool.batch(length)
        loss = model.loss(ids, learn)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        tokens += ids.numel()
        if step % 50 == 0 or step < 4:
            now = loss.item()
            if not math.isfinite(now):
                print(f"step {step}: the loss is {now}; back to the last good weights at half the rate", flush=True)
                with torch.no_grad():
                    for n, t in w.items():
                        t.copy_(kept[n])
                opt.state.clear()
                peak /= 2
                continue
            mean = now if mean is None else 0.8 * mean + 0.2 * now
            log.append({"step": step, "tokens": tokens, "seconds": round(time.time() - (begun or time.time()), 1),
                "loss": round(now, 4), "length": length})
            pool.look()
            if step % 500 == 0 or step < 4:
                kept = {n: t.detach().clone() for n, t in w.items()}
                print(f"step {step} {tokens / 1e6:.0f} M tokens loss {mean:.4f} {tokens / 1e6 / max(1e-3, time.time() - (begun or started)):.2f} M/s pool {pool.tokens / 1e6:.0f} M repeated {pool.repeated / 1e6:.0f} M "
                      f"at {time.time() - started:.0f} s", flush=True)
    return tokens


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--seconds", type=float, default=380)
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--peak", type=float, default=2e-3)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--exam", type=int, default=64, help="held-out questions of each kind")
    p.add_argument("--init")
    p.add_argument("--tokenizer")
    p.add_argument("--device", default="cuda")
    p.add_argument("--scratch", default="/tmp/vram-llm-train")
    args = p.parse_args()
    started = time.time()
    os.makedirs(args.out, exist_ok=True)
    os.makedirs(args.scratch, exist_ok=True)
    tokenizer = args.tokenizer or os.path.join(args.out, "tokenizer.json")
    if not args.tokenizer:
        make_tokenizer.main(tokenizer)
    workers = [Process(target=work, args=(i, tokenizer, args.scratch, FRESH_TOKENS // args.workers), daemon=True)
        for i in range(args.workers)]
    for w in workers:
        w.start()
    log, weights, tok = [], None, bpe.Tokenizer.load(tokenizer)
    try:
        import torch

        import net
        torch.manual_seed(1)
        torch.backends.cuda.matmul.allow_tf32 = True
        weights = net.fresh(len(tok.tokens), args.device)
        if args.init:
            restore(weights, args.init)
        print(f"{sum(t.numel() for t in weights.values()) / 1e6:.2f} M parameters, torch {torch.__version__}, start {time.time() - started:.0f} s",
            flush=True)
        model = net.Net(weights, torch.bfloat16 if args.device == "cuda" else torch.float32, False)
        pool = Pool(args.scratch, args.device)
        if args.device == "cuda":
            try:
                fast = net.Net(weights, torch.bfloat16, True)
                fast.loss(*pool.batch(LENGTHS[0][0])).backward()
                model = fast
            except Exception:
                traceback.print_exc()
                print("without torch.compile", flush=True)
            for t in weights.values():
                t.grad = None
        tokens = fit(model, pool, args, started, log)
        print(f"trained on {tokens / 1e6:.0f} M tokens, {pool.repeated / 1e6:.0f} M of them again; {time.time() - started:.0f} s",
            flush=True)
    except Exception:
        traceback.print_exc()
    finally:
        for w in workers:
            w.kill()
        if weights:
            try:
                save(args.out, weights, tok)
                print(f"saved at {time.time() - started:.0f} s", flush=True)
            except Exception:
                traceback.print_exc()
        with open(os.path.join(args.out, "log.json"), "w") as f:
            json.dump(log, f)
    if weights and args.exam:
        plain = net.Net(weights, torch.bfloat16 if args.device == "cuda" else torch.float32, False)

        def answer(chats):
            prompts = [samples.prompt_ids(tok, c, t.user) for c, t in chats]
            texts, unended = plain.greedy(prompts, 260, bpe.END)
            return [tok.decode(t) + ("<never ended>" if i in set(unended) else "") for i, t in enumerate(texts)]

        begun = time.time()
        result = exam.run(answer, args.exam, until=lambda: time.time() - begun < 60)
        with open(os.path.join(args.out, "exam.json"), "w") as f:
            json.dump(result, f, indent=1)
        exam.show(result)
        print(f"examined at {time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()

"""The network, in the Llama architecture, as functions of a dictionary of weights. Tensor shapes are comments.

Names are GGUF's. The rope turns neighbouring pairs of values, as llama.cpp does for this architecture, so that nothing is
permuted on export. The parts before and after attention are compiled once and serve all layers and lengths: they see rows.
"""
import math

import torch
import torch.nn.functional as F

SHAPE = dict(n_layer=9, n_embd=256, n_head=4, n_kv=2, n_ff=768, n_ctx=4096, eps=1e-5, base=10000.0)
HEAD = SHAPE["n_embd"] // SHAPE["n_head"]


def layout(vocabulary):
    """(name, shape) of all tensors, in the order of the file."""
    d, f, kv = SHAPE["n_embd"], SHAPE["n_ff"], SHAPE["n_kv"] * HEAD
    out = [("token_embd.weight", (vocabulary, d)), ("output_norm.weight", (d,))]
    for i in range(SHAPE["n_layer"]):
        b = f"blk.{i}."
        out += [(b + "attn_norm.weight", (d,)), (b + "attn_q.weight", (d, d)), (b + "attn_k.weight", (kv, d)), (b + "attn_v.weight",
            (kv, d)), (b + "attn_output.weight", (d, d)),
                (b + "ffn_norm.weight", (d,)), (b + "ffn_gate.weight", (f, d)), (b + "ffn_up.weight", (f, d)),
                (b + "ffn_down.weight", (d, f))]
    return out


def fresh(vocabulary, device):
    w = {}
    for name, shape in layout(vocabulary):
        if len(shape) == 1:
            w[name] = torch.ones(shape, device=device)
        else:
            down = name.endswith(("attn_output.weight", "ffn_down.weight"))
            w[name] = torch.randn(shape, device=device) * (0.02 / math.sqrt(2 * SHAPE["n_layer"]) if down else 0.02)
        w[name].requires_grad_(True)
    return w


def norm(x, g):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + SHAPE["eps"]) * g


def turn(x, cos, sin):  # x [N, heads, HEAD], cos and sin [N, 1, HEAD/2]
    a, b = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def before(x, g, q, k, v, cos, sin):  # x [N, D] f32
    h = norm(x, g).to(q.dtype)
    rows = x.shape[0]
    return (turn((h @ q.t()).view(rows, SHAPE["n_head"], HEAD), cos, sin), turn((h @ k.t()).view(rows, SHAPE["n_kv"], HEAD), cos,
        sin), (h @ v.t()).view(rows, SHAPE["n_kv"], HEAD))


def after(x, a, o, g, gate, up, down):  # a [N, D]
    x = x + (a @ o.t()).float()
    h = norm(x, g).to(gate.dtype)
    return x + ((F.silu(h @ gate.t()) * (h @ up.t())) @ down.t()).float()


def attend(q, k, v, length):  # [N, heads, HEAD] -> [N, D], causal within each row of `length` tokens
    rows = q.shape[0] // length
    share = SHAPE["n_head"] // SHAPE["n_kv"]
    q = q.view(rows, length, SHAPE["n_head"], HEAD).transpose(1, 2)
    k = k.view(rows, length, SHAPE["n_kv"], 1, HEAD).expand(-1, -1, -1, share, -1).reshape(rows, length, SHAPE["n_head"],
        HEAD).transpose(1, 2)
    v = v.view(rows, length, SHAPE["n_kv"], 1, HEAD).expand(-1, -1, -1, share, -1).reshape(rows, length, SHAPE["n_head"],
        HEAD).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(1, 2).reshape(rows * length, SHAPE["n_embd"])


def loss_of(x, g, embd, want, learn):  # want [N], learn [N] f32
    logits = (norm(x, g).to(embd.dtype) @ embd.t()).float()
    return (F.cross_entropy(logits, want, reduction="none") * learn).sum() / learn.sum().clamp(min=1)


class Net:
    def __init__(self, w, dtype, compiled):
        self.w, self.dtype = w, dtype
        self.before, self.after, self.loss_of = before, after, loss_of
        if compiled:
            self.before, self.after, self.loss_of = (torch.compile(f) for f in (before, after, loss_of))
        self.tables = {}

    def rope(self, length, rows, device):
        key = (length, rows)
        if key not in self.tables:
            t = torch.arange(length, device=device).float()[:, None] * SHAPE["base"] ** (-torch.arange(0, HEAD, 2,
                device=device).float() / HEAD)
            self.tables[key] = (t.cos().repeat(rows, 1)[:, None, :].contiguous(), t.sin().repeat(rows, 1)[:, None, :].contiguous())
        return self.tables[key]

    def hidden(self, ids, eager=False):  # ids [rows, length] -> [N, D]
        rows, length = ids.shape
        cos, sin = self.rope(length, rows, ids.device)
        w = {n: t.to(self.dtype) if t.dim() == 2 and not n.startswith("token") else t for n, t in self.w.items()}
        x = F.embedding(ids, self.w["token_embd.weight"]).view(rows * length, -1)
        pre, post = (before, after) if eager else (self.before, self.after)
        for i in range(SHAPE["n_layer"]):
            b = f"blk.{i}."
            q, k, v = pre(x, w[b + "attn_norm.weight"], w[b + "attn_q.weight"], w[b + "attn_k.weight"], w[b + "attn_v.weight"], cos,
                sin)
            a = attend(q, k, v, length)
            x = post(x, a, w[b + "attn_output.weight"], w[b + "ffn_norm.weight"], w[b + "ffn_gate.weight"], w[b + "ffn_up.weight"],
                w[b + "ffn_down.weight"])
        return x

    def loss(self, ids, learn):
        """`learn` marks the tokens to be predicted. The last column has no successor."""
        x = self.hidden(ids)
        want = torch.roll(ids, -1, 1).reshape(-1)
        mask = torch.roll(learn, -1, 1)
        mask[:, -1] = 0
        return self.loss_of(x, self.w["output_norm.weight"], self.w["token_embd.weight"].to(self.dtype), want, mask.reshape(-1))

    @torch.no_grad()
    def greedy(self, prompts, most, end):
        """Answers to lists of ids, all at once; no cache: short texts, and only at the end of the training."""
        device = self.w["token_embd.weight"].device
        out = [[] for _ in prompts]
        live = list(range(len(prompts)))
        for _ in range(most):
            if not live:
                break
            texts = [prompts[i] + out[i] for i in live]
            length = max(map(len, texts))
            ids = torch.tensor([t + [0] * (length - len(t)) for t in texts], device=device)
            self.tables.clear()
            x = self.hidden(ids, eager=True).view(len(texts), length, -1)
            x = x[torch.arange(len(texts), device=device), torch.tensor([len(t) - 1 for t in texts], device=device)]
            best = (norm(x,
                self.w["output_norm.weight"]).to(self.dtype) @ self.w["token_embd.weight"].to(self.dtype).t()).float().argmax(-1).tolist()
            still = []
            for i, t in zip(live, best):
                if t != end:
                    out[i].append(t)
                    still.append(i)
            live = still
        return out, live

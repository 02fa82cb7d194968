"""Writes a GGUF file by hand: header, metadata, tensor table, aligned data. Weights become Q8_0, norms stay f32.

Q8_0 is a scale (f16) and 32 signed bytes: x ~ scale * byte, with scale = largest / 127. Rows are multiples of 32.
No package is needed, so that a model can be written wherever Python runs.
"""
import struct
from array import array

ALIGN = 32
F32, Q8_0 = 0, 8
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
CONTROL, NORMAL = 3, 1
TEMPLATE = ("{%- for message in messages -%}"
            "{%- if message['role'] == 'system' -%}{{ '<|system|>' + message['content'] | trim + '<|end|>' }}"
            "{%- elif message['role'] == 'assistant' -%}{{ '<|assistant|>' + message['content'] | trim + '<|end|>' }}"
            "{%- else -%}{{ '<|user|>' + message['content'] | trim + '<|end|>' }}"
            "{%- endif -%}{%- endfor -%}"
            "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}")


def q8_0(values):
    out = bytearray()
    for at in range(0, len(values), 32):
        block = values[at:at + 32]
        top = max(map(abs, block))
        scale = top / 127
        inverse = 1 / scale if scale else 0.0
        # halves away from zero, as C's roundf does
        out += struct.pack("<e32b", scale, *[int(x * inverse + (0.5 if x >= 0 else -0.5)) for x in block])
    return bytes(out)


def _string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def _value(kind, v):
    if kind == STRING:
        return _string(v)
    if kind == BOOL:
        return struct.pack("<B", v)
    return struct.pack({U32: "<I", I32: "<i", FLOAT: "<f"}[kind], v)


def _entry(key, kind, v):
    if isinstance(kind, tuple):
        return _string(key) + struct.pack("<IIQ", ARRAY, kind[1], len(v)) + b"".join(_value(kind[1], x) for x in v)
    return _string(key) + struct.pack("<I", kind) + _value(kind, v)


def metadata(shape, tok):
    """`shape`: n_layer n_embd n_head n_kv n_ff n_ctx eps base; `tok`: bpe.Tokenizer."""
    from bpe import END, PAD, SPECIAL
    types = [CONTROL] * len(SPECIAL) + [NORMAL] * (len(tok.tokens) - len(SPECIAL))
    return [("general.architecture", STRING, "llama"), ("general.name", STRING, "vram-llm demo"), ("general.basename", STRING,
        "vram-llm-demo"), ("general.size_label", STRING, "7.6M"),
            ("general.license", STRING, "mit"), ("general.description", STRING,
            "A toy for trying the server, trained on generated text; see models/README.md"),
            ("general.file_type", U32, 7), ("general.quantization_version", U32, 2), ("general.alignment", U32, ALIGN),
            ("llama.block_count", U32, shape["n_layer"]), ("llama.context_length", U32, shape["n_ctx"]), ("llama.embedding_length",
            U32, shape["n_embd"]), ("llama.feed_forward_length", U32, shape["n_ff"]),
            ("llama.attention.head_count", U32, shape["n_head"]), ("llama.attention.head_count_kv", U32, shape["n_kv"]),
            ("llama.attention.layer_norm_rms_epsilon", FLOAT, shape["eps"]),
            ("llama.rope.dimension_count", U32, shape["n_embd"] // shape["n_head"]), ("llama.rope.freq_base", FLOAT, shape["base"]),
            ("llama.vocab_size", U32, len(tok.tokens)),
            ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "qwen2"), ("tokenizer.ggml.tokens", (ARRAY,
            STRING), tok.tokens), ("tokenizer.ggml.token_type", (ARRAY, I32), types),
            ("tokenizer.ggml.merges", (ARRAY, STRING), [a + " " + b for a, b in tok.merges]), ("tokenizer.ggml.bos_token_id", U32,
            END), ("tokenizer.ggml.eos_token_id", U32, END),
            ("tokenizer.ggml.eot_token_id", U32, END), ("tokenizer.ggml.padding_token_id", U32, PAD),
            ("tokenizer.ggml.add_bos_token", BOOL, 0), ("tokenizer.ggml.add_eos_token", BOOL, 0),
            ("tokenizer.chat_template", STRING, TEMPLATE)]


def write(path, meta, tensors):
    """`tensors`: (name, dims with the row length first, array of floats); matrices are quantized."""
    table, data = b"", bytearray()
    for name, dims, values in tensors:
        kind = Q8_0 if len(dims) == 2 else F32
        table += _string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind,
            len(data))
        data += q8_0(values) if kind == Q8_0 else array("f", values).tobytes()
        data += bytes(-len(data) % ALIGN)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)) + b"".join(_entry(*e) for e in meta) + table
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN) + data)

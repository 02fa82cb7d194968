"""Asks a running server the held-out questions, greedily, over HTTP, and prints the accuracy by kind.

    vram-llm serve --port 19400 --n-seq 4 models/demo.gguf &
    evaluate.py [--url http://127.0.0.1:19400] [--each 40] [--kinds sum,difference] [--wrong] [--json FILE]

This is the real artefact: quantized, through llama.cpp, the chat template and the API. An answer that did not end by itself
is wrong. No packages are needed.
"""
import argparse
import json
import os
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import exam


def messages(chat, turn):
    out = [{"role": "system", "content": chat.system}] if chat.system else []
    for user, answer in chat.turns[:-1]:
        out += [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    return out + [{"role": "user", "content": turn.user}]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--url", default="http://127.0.0.1:8080")
    p.add_argument("--each", type=int, default=40)
    p.add_argument("--kinds", default="")
    p.add_argument("--seed", type=int, default=99)
    p.add_argument("--wrong", action="store_true", help="print what went wrong")
    p.add_argument("--json", help="write the questions instead, with what a right answer contains, and ask nobody")
    args = p.parse_args()
    kinds = args.kinds.split(",") if args.kinds else None

    def ask(one):
        body = json.dumps({"messages": messages(*one), "temperature": 0, "max_tokens": 500}).encode()
        with urllib.request.urlopen(urllib.request.Request(args.url + "/v1/chat/completions", body), timeout=300) as reply:
            choice = json.load(reply)["choices"][0]
        return choice["message"]["content"] + ("" if choice["finish_reason"] == "stop" else "<never ended>")

    asked = []

    def answer(chats):
        if args.json:
            asked.extend({"messages": messages(c, t), "answer": t.answer, "must": list(t.must)} for c, t in chats)
            return [t.answer for _, t in chats]
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(ask, chats))

    result = exam.run(answer, args.each, args.seed, kinds)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(asked, f, indent=1)
        return
    exam.show(result)
    if args.wrong:
        for kind, e in result.items():
            for w in e["wrong"]:
                print(f"\n{kind}\n  before {w['chat']}{w['system'] or ''}\n  asked  {w['user']}\n  want   {w['want']}\n  got    {w['got']}")


if __name__ == "__main__":
    main()

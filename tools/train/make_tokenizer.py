"""make_tokenizer.py OUT.json: trains the tokenizer on a sample of the corpus."""
import random
import sys

import bpe
import corpus

VOCABULARY = 2048


def main(path):
    r = random.Random(1)
    texts = []
    for _ in range(60000):
        c = corpus.begin(r)
        corpus.extend(r, c)
        texts += [t for pair in c.turns for t in pair]
        if c.system:
            texts.append(c.system)
    tokens, merges = bpe.train(texts, VOCABULARY)
    bpe.Tokenizer(tokens, merges).save(path)
    print(f"{len(tokens)} tokens, {len(merges)} merges from {sum(map(len, texts)) / 1e6:.1f} M characters")


if __name__ == "__main__":
    main(sys.argv[1])

"""Bits per byte of held-out text: a language model, a 5-gram model over the same tokens, and xz.

    python -m benchmarks.compression runs/stories --train data/stories/train.* --held data/stories/valid.*

The 5-gram model counts the training files (interpolated Kneser-Ney). xz is given the held-out text alone, and once more
after the training text, of which it remembers the last 64 MB: then only what the held-out text adds is counted.
"""

from __future__ import annotations

import argparse
import lzma
import math
from pathlib import Path

import regard
from regard.metrics.ngrams import NGrams
from regard.tasks.pretraining.corpus import Corpus, read
from regard.tasks.pretraining.tokenising import decode

ORDER = 5
STRONGEST = lzma.PRESET_EXTREME | 9


def main() -> None:
    """A line for every file and compressor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a causal language model")
    parser.add_argument("--train", nargs="+", type=Path, required=True)
    parser.add_argument("--held", nargs="+", type=Path, required=True)
    asked = parser.parse_args()
    writer = regard.load(asked.model)
    learnt = read([str(path) for path in asked.train], writer.tokenizer, end=writer.document)
    counted = NGrams(learnt.tokens, learnt.starts, writer.tokenizer.vocab, ORDER)
    before = text(learnt, writer.tokenizer)
    alone = len(packed(before))
    for path in asked.held:
        held = read([str(path)], writer.tokenizer, end=writer.document)
        whole = text(held, writer.tokenizer)
        found = {
            "model": writer.evaluate(path).details["bits_per_byte"],
            f"{ORDER}-gram": counted.nats(held.tokens, held.starts) / math.log(2) / held.bytes,
            "xz -9e": 8 * len(packed(whole)) / held.bytes,
            "xz -9e after the training text": 8 * (len(packed(before + whole)) - alone) / held.bytes,
        }
        print(f"{path}: {held.bytes:,} bytes", *(f"  {name:32} {bits:.3f}" for name, bits in found.items()), sep="\n")


def text(corpus: Corpus, own: object) -> bytes:
    """The documents as they were read, one after the other."""
    bounds = zip(corpus.starts[:-1], corpus.starts[1:], strict=True)
    return b"".join(decode(own, corpus.tokens[a : b - 1].tolist()).encode() + b"\n" for a, b in bounds)  # type: ignore[arg-type]


def packed(content: bytes) -> bytes:
    """As xz writes it."""
    return lzma.compress(content, preset=STRONGEST)


if __name__ == "__main__":
    main()

"""Prepare and check corpora one after another, and tell the most memory held so far; run as a process of its own.

python weighing.py CACHE KIND SOURCE TARGET [SOURCE TARGET ...]: with KIND `real` every corpus trains its tokenizer,
with `quick` a stand-in cuts texts into pieces of eight characters. Answers one JSON line for each corpus.
"""

import json
import sys
import time
from pathlib import Path

from regard.data.readers import Corpus
from regard.data.tokenizers import Tokenizer, TokenizerConfig, train
from regard.tasks.translation.check import check
from regard.tasks.translation.pairs import PairsConfig, prepare


class Quick(Tokenizer):
    """A tokenizer that does not look at the text, for corpora whose tokenising would take an hour."""

    def encode_many(self, texts):
        """As many ids as there are eighths of characters."""
        return [[300] * (len(text) // 8 + 1) for text in texts]


def peak() -> float:
    """Megabytes of this process at its largest; getrusage would also count what it was before `exec`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def weigh(cache: str, kind: str, *files: str) -> None:
    """Prepare each corpus and look at it as a check does."""
    settings = TokenizerConfig(vocab=1000, sample=20_000)
    quick = Quick.parse(train(["un chat " * 40], TokenizerConfig(vocab=320)).json())
    tokenizers = (quick, quick) if kind == "quick" else None
    for source, target in zip(files[::2], files[1::2], strict=True):
        begun = time.monotonic()
        config = PairsConfig(train=(Corpus(source=source, target=target),), duplicates="drop", reject=0.5)
        found = prepare(config, settings, seed=0, cache=cache, tokenizers=tokenizers)
        told = {"prepared": {"peak": round(peak(), 1), "seconds": round(time.monotonic() - begun, 1)}}
        begun = time.monotonic()
        checked = check(config, settings if kind == "real" else None, cache=cache)
        told["checked"] = {"peak": round(peak(), 1), "seconds": round(time.monotonic() - begun, 1)}
        (told["report"],) = found.report["train"]["corpora"]
        told["dropped"] = {reason: finding.count for reason, finding in checked.dropped.items()}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    weigh(*sys.argv[1:])

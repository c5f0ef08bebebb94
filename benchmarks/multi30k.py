"""BLEU of trained models on the tokenised sets of Multi30k, each with several length penalties.

    REGARD_DATA=~/data python -m benchmarks.multi30k --sets val --penalties 1.0 1.4 runs/multi30k-all:en-de runs/b:de-en

Chosen on `val`, then looked at once on test_2016_flickr, test_2017_flickr and test_2017_mscoco.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import regard
from regard.metrics.overlap import bleu


def main() -> None:
    """Print a line for every score, and write all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="a model and its direction, such as runs/multi30k-all:en-de")
    parser.add_argument("--sets", nargs="+", default=["val"])
    parser.add_argument("--penalties", nargs="+", type=float, default=[1.0])
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for model in arguments.models:
        path, _, way = model.rpartition(":")
        translator = regard.load(path)
        for name in arguments.sets:
            for penalty in arguments.penalties:
                found = score(translator, way, name, beams=arguments.beams, length_penalty=penalty)
                rows.append({"model": Path(path).name, "way": way, "set": name, **found})
                print(json.dumps(rows[-1]), flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def score(translator: Any, way: str, name: str, **search: Any) -> dict[str, Any]:
    """What a model scores on one set."""
    source, target = way.split("-")
    began = time.perf_counter()
    to = target if translator.languages else None
    answers = translator.translate(lines(name, source), to=to, split=False, **search)
    found = bleu(answers, lines(name, target), tokenize="none")
    return {**search, "bleu": round(found.value, 2), "seconds": round(time.perf_counter() - began, 1)}


def lines(name: str, language: str) -> list[str]:
    """One side of a set."""
    place = Path(os.environ.get("REGARD_DATA", ".")) / "multi30k" / "tok" / f"{name}.lc.norm.tok.{language}.gz"
    with gzip.open(place, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


if __name__ == "__main__":
    main()

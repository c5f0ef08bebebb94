"""word2vec beside gensim on the same words: quality and speed, taken in turns on one machine.

    REGARD_DATA=data python -m benchmarks.word2vec --out word2vec.json

Needs numba, gensim, the unlabelled reviews of IMDB (imdb/unsup.jsonl.gz) and the tests of words (word-eval/). Both get
the words that Regard finds in the text, and both are scored by gensim's own evaluation. Seconds are those of learning,
without reading and counting; CPU seconds are those of everything from the words on.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import regard
from regard import config
from regard.data.line_report import LineReport
from regard.data.readers import locate, texts
from regard.tasks.word2vec.corpus import TextFile, WordsConfig, prepare, split_words

REVIEWS = "imdb/unsup.jsonl.gz"
SIMILARITY, ANALOGIES = "word-eval/wordsim353.tsv", "word-eval/questions-words.txt"
BLANKS = r"\S+"
SETTINGS = {"width": 100, "window": 5, "negatives": 5, "sample": 1e-3}


def main() -> None:
    """Measure as the command line asks, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reviews", type=int, default=50_000, help="how many of them to learn from")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--kinds", nargs="+", default=["skipgram", "cbow"], choices=["skipgram", "cbow"])
    parser.add_argument("--output", default="negative", choices=["negative", "hierarchical"])
    parser.add_argument("--systems", nargs="+", default=["regard", "gensim"], choices=["regard", "gensim"])
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "words.txt"
        text.write_text("".join(f"{' '.join(words)}\n" for words in _texts(asked.reviews)), encoding="utf-8")
        found = [_compare(asked, kind, seed, text) for kind in asked.kinds for seed in asked.seeds]
    report = {
        "settings": {**SETTINGS, **{name: value for name, value in vars(asked).items() if name != "out"}},
        "versions": {name: version(name) for name in ("gensim", "numba", "numpy")},
        "python": platform.python_version(),
        "runs": found,
        "means": {kind: _means([run for run in found if run["kind"] == kind], asked.systems) for kind in asked.kinds},
    }
    asked.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report["means"], indent=1))


def _texts(count: int) -> Iterator[list[str]]:
    """The words of so many reviews."""
    how = WordsConfig(train=(TextFile(path=REVIEWS),), ignore="<br />")
    return (split_words(text, how) for _, text in islice(texts(REVIEWS, LineReport()), count))


def _compare(asked: Any, kind: str, seed: int, text: Path) -> dict[str, Any]:
    """One run of each with the same seed; which goes first changes with the seed."""
    systems: dict[str, Callable[..., Any]] = {"regard": _ours, "gensim": _theirs}
    run: dict[str, Any] = {"kind": kind, "seed": seed}
    for name in asked.systems if seed % 2 == 0 else asked.systems[::-1]:
        run[name] = systems[name](asked, kind, seed, text)
        print(json.dumps({"kind": kind, "seed": seed, name: run[name]}), flush=True)
    return run


def _ours(asked: Any, kind: str, seed: int, text: Path) -> dict[str, float]:
    from gensim.models import KeyedVectors

    recipe = {
        "task": "word2vec",
        "data": {"train": {"path": str(text)}, "pattern": BLANKS, "lowercase": False},
        "model": {**SETTINGS, "architecture": kind, "output": asked.output},
        "training": {"epochs": asked.epochs, "workers": asked.workers, "seed": seed},
    }
    with tempfile.TemporaryDirectory() as folder:
        brief = {**recipe, "data": {**recipe["data"], "min_count": 1}, "training": {"epochs": 1, "workers": 1}}
        (Path(folder) / "few.txt").write_text("one two three four\n" * 9, encoding="utf-8")
        brief["data"]["train"] = {"path": f"{folder}/few.txt"}
        regard.train(brief, out=f"{folder}/brief", quiet=True)  # compiles
        prepare(config.build(WordsConfig, recipe["data"]))  # reads and counts
        before = time.process_time()
        result = regard.train(recipe, out=f"{folder}/run", quiet=True).result
        cpu = time.process_time() - before
        regard.load(f"{folder}/run").export(Path(folder) / "vectors.txt")
        vectors = KeyedVectors.load_word2vec_format(f"{folder}/vectors.txt")
    return {**_scores(vectors), **_speed(asked, text, result.seconds, cpu)}


def _theirs(asked: Any, kind: str, seed: int, text: Path) -> dict[str, float]:
    from gensim.models import Word2Vec

    sentences = [line.split() for line in text.read_text(encoding="utf-8").split("\n")]
    tree = asked.output == "hierarchical"
    model = Word2Vec(
        vector_size=SETTINGS["width"],
        window=SETTINGS["window"],
        negative=0 if tree else SETTINGS["negatives"],
        hs=int(tree),
        sample=SETTINGS["sample"],
        sg=int(kind == "skipgram"),
        min_count=5,
        workers=asked.workers,
        seed=seed + 1,
    )
    model.build_vocab(sentences)
    before, began = time.process_time(), time.monotonic()
    model.train(sentences, total_examples=model.corpus_count, epochs=asked.epochs)
    seconds, cpu = time.monotonic() - began, time.process_time() - before
    return {**_scores(model.wv), **_speed(asked, text, seconds, cpu)}


def _scores(vectors: Any) -> dict[str, float]:
    """By gensim's own evaluation."""
    rho = vectors.evaluate_word_pairs(str(locate(SIMILARITY)))[1][0]
    return {"similarity": float(rho), "analogies": float(vectors.evaluate_word_analogies(str(locate(ANALOGIES)))[0])}


def _speed(asked: Any, text: Path, seconds: float, cpu: float) -> dict[str, float]:
    words = len(text.read_text(encoding="utf-8").split())
    read = words * asked.epochs
    return {"words": words, "seconds": seconds, "words_per_second": read / seconds, "words_per_cpu_second": read / cpu}


def _means(runs: list[dict[str, Any]], systems: list[str]) -> dict[str, Any]:
    """Means over seeds, and how fast Regard is beside gensim."""
    names = ("similarity", "analogies", "words_per_second", "words_per_cpu_second")
    means = {system: {name: statistics.mean(run[system][name] for run in runs) for name in names} for system in systems}
    if len(means) > 1:
        means["ratios"] = {name: means["regard"][name] / means["gensim"][name] for name in names[2:]}
    return means


if __name__ == "__main__":
    main()

"""More pairs to learn from: the training sentences of a file, translated by models that learnt from it.

    python scripts/make_pairs.py FOLDER MODEL [MODEL ...]

FOLDER holds `train.tsv.gz`, `valid.tsv.gz` and `test.tsv.gz`, as `scripts/split_pairs.py` writes them (English and
French in the first columns); the models translate both ways by tag. `made.tsv.gz` gets a pair of a real sentence and
its translation where the model was sure of it, the pair is new and the translation is no held-out sentence.
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import regard

SURE = -0.3  # log-probability per word of the answer, counting two words more
SIDES = {"fr": 0, "en": 1}  # the column that is read when the model writes this language


def pairs(path: Path) -> list[tuple[str, str]]:
    """The first two columns of a file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [tuple(line.rstrip("\n").split("\t")[:2]) for line in file]  # type: ignore[misc]


def translated(model: Path, real: list[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str], float]]:
    """Every distinct sentence with its translation: (language written, pair, log-probability per word)."""
    translator = regard.load(model)
    for tag, side in SIDES.items():
        texts = sorted({pair[side] for pair in real}, key=lambda text: (len(text), text))
        for begin in range(0, len(texts), 8000):
            some = texts[begin : begin + 8000]
            answers = translator.answers(some, to=tag, beams=5, length_penalty=1.0, split=False, tokens=100_000)
            for text, answer in zip(some, answers, strict=True):
                said = answer.text.strip()
                yield tag, (text, said) if tag == "fr" else (said, text), answer.score / (len(said.split()) + 2)


def main() -> None:
    """Translate, choose, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    asked = parser.parse_args()
    real = pairs(asked.folder / "train.tsv.gz")
    held = {text for part in ("valid", "test") for pair in pairs(asked.folder / f"{part}.tsv.gz") for text in pair}
    known, lines = set(real), []
    for model in asked.models:
        for tag, pair, sure in translated(model, real):
            written = pair[1 if tag == "fr" else 0]
            if written and sure >= SURE and pair not in known and written not in held:
                known.add(pair)
                lines.append(f"{pair[0]}\t{pair[1]}\t{model.name} {tag}\n")
    (asked.folder / "made.tsv.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    print(f"{len(lines):,} pairs made")


if __name__ == "__main__":
    main()

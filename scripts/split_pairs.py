"""Cut a file of sentence pairs into training, validation and test parts that share no sentence on either side.

    python scripts/split_pairs.py fra.txt.gz FOLDER
    python scripts/split_pairs.py en-fr.tsv.gz FOLDER --far 0.5

Two pairs belong together when they share a sentence, case, spaces and punctuation aside; whole groups of pairs that
belong together, directly or through others, go to one part. Validation and test keep one pair of each group. Which
groups they take depends on content alone, so the same file gives the same parts.

Manuals and menus repeat themselves with a word changed. `--far` writes a further part, `far.tsv.gz`: the test pairs
that no training pair resembles, having so large a share of its words in common with it on neither side.
"""

import argparse
import gzip
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.data.holdout import sentence

Line = tuple[str, ...]
WORD = re.compile(r"\w+")


def groups(lines: Sequence[Line], *, across: bool = False) -> list[list[Line]]:
    """Lines that share a sentence, directly or through others; `across`: on whichever side it stands."""
    french = 0 if across else 1
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for line in lines:
        parent[root((0, sentence(line[0])))] = root((french, sentence(line[1])))
    found: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        found[root((0, sentence(line[0])))].append(line)
    return list(found.values())


def split(lines: Sequence[Line], *, valid: int, test: int) -> dict[str, list[Line]]:
    """The three parts; groups are taken in an order without meaning."""
    ordered = shuffled(groups(lines))
    held = [min(group, key=digest) for group in ordered[: valid + test]]
    train = [line for group in ordered[valid + test :] for line in group]
    return {"test": held[:test], "valid": held[test:], "train": train}


def shuffled(found: Iterable[list[Line]]) -> list[list[Line]]:
    """Groups in an order that depends on their content alone."""
    return sorted(found, key=lambda group: digest(min(group)))


def far(lines: Sequence[Line], known: Sequence[Line], *, share: float) -> list[Line]:
    """The lines that on neither side have this share of their words, counted once, in common with a known line."""
    english, french = (_like(lines, known, side, share) for side in (0, 1))
    return [line for line, *like in zip(lines, english, french, strict=True) if not any(like)]


def _like(lines: Sequence[Line], known: Sequence[Line], side: int, share: float) -> list[bool]:
    """Whether each line is like a known one: words of both over words of either."""
    bags = [words(line[side]) for line in known]
    count = Counter(word for bag in bags for word in bag)

    def rarest(bag: frozenset[str]) -> list[str]:
        """Two bags that are alike have one of these in common."""
        ordered = sorted(bag, key=lambda word: (count[word], word))
        return ordered[: len(bag) - math.ceil(share * len(bag)) + 1]

    holders: dict[str, list[int]] = defaultdict(list)
    for number, bag in enumerate(bags):
        for word in rarest(bag):
            holders[word].append(number)
    found = []
    for own in (words(line[side]) for line in lines):
        near = {number for word in rarest(own) for number in holders.get(word, ())}
        found.append(any(len(own & bags[number]) >= share * len(own | bags[number]) for number in near))
    return found


def words(text: str) -> frozenset[str]:
    """The words of a text, whatever their case and order."""
    return frozenset(WORD.findall(text.casefold()))


def digest(line: Line) -> str:
    """An order without meaning."""
    return hashlib.sha256("\t".join(line[:2]).encode()).hexdigest()


def main() -> None:
    """Read, cut, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="tab-separated pairs, plain or gzipped")
    parser.add_argument("folder", type=Path, help="where train.tsv.gz, valid.tsv.gz and test.tsv.gz go")
    parser.add_argument("--valid", type=int, default=1000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--far", type=float, help="share of common words from which on two sentences are alike")
    asked = parser.parse_args()
    opened = gzip.open if asked.file.suffix == ".gz" else open
    with opened(asked.file, "rt", encoding="utf-8", newline="\n") as file:
        lines = [tuple(line.rstrip("\n").split("\t")) for line in file]
    asked.folder.mkdir(parents=True, exist_ok=True)
    parts = split(lines, valid=asked.valid, test=asked.test)
    if asked.far is not None:
        parts["far"] = far(parts["test"], parts["train"], share=asked.far)
    for name, part in parts.items():
        text = "".join("\t".join(line) + "\n" for line in part)
        (asked.folder / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {len(part):,} pairs")


if __name__ == "__main__":
    main()

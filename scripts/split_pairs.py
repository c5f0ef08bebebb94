"""Cut a file of sentence pairs into training, validation and test parts that share no sentence on either side.

    python scripts/split_pairs.py fra.txt.gz FOLDER

Two pairs belong together when they share a sentence, case, spaces and punctuation aside; whole groups of pairs that
belong together, directly or through others, go to one part. Validation and test keep one pair of each group. Which
groups they take depends on content alone, so the same file gives the same parts.
"""

import argparse
import gzip
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from regard.data.holdout import sentence

Line = tuple[str, ...]


def groups(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines that share a sentence, directly or through others."""
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for line in lines:
        parent[root((0, sentence(line[0])))] = root((1, sentence(line[1])))
    found: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        found[root((0, sentence(line[0])))].append(line)
    return list(found.values())


def split(lines: Sequence[Line], *, valid: int, test: int) -> dict[str, list[Line]]:
    """The three parts; groups are taken in an order without meaning."""
    ordered = sorted(groups(lines), key=lambda group: digest(min(group)))
    held = [[min(group, key=digest)] for group in ordered[: valid + test]]
    return {
        "test": [line for group in held[:test] for line in group],
        "valid": [line for group in held[test:] for line in group],
        "train": [line for group in ordered[valid + test :] for line in group],
    }


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
    asked = parser.parse_args()
    opened = gzip.open if asked.file.suffix == ".gz" else open
    with opened(asked.file, "rt", encoding="utf-8", newline="\n") as file:
        lines = [tuple(line.rstrip("\n").split("\t")) for line in file]
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, part in split(lines, valid=asked.valid, test=asked.test).items():
        text = "".join("\t".join(line) + "\n" for line in part)
        (asked.folder / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {len(part):,} pairs")


if __name__ == "__main__":
    main()

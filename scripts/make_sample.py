"""Choose the French-English pairs that ship with Regard, from the public file they come from.

    python scripts/make_sample.py fra-eng.zip

The file is the English-French archive of https://www.manythings.org/anki/ (sentences of https://tatoeba.org), in its
release of 2020-08-23; the same release lies in the source archive of `nmt` 0.0.6 on PyPI as `data/fra-eng.zip`. A
newer release works as well and gives other pairs. `fra.txt` and `fra.txt.gz` are read too.
"""

import argparse
import gzip
import hashlib
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

RELEASE = "2020-08-23"
CONTENT = "c7aed0010d2caf1065cb58f64776a7b95540bc445fa5d76177de8fba2d51d282"  # SHA-256 of that release's fra.txt
LONGEST = 5  # English words in a sentence, as white space separates them
COMMON = 800  # a sentence is made of this many most frequent words of its language
SIZES = {"test": 500, "valid": 300}  # the rest is for training


class Pair(NamedTuple):
    """One line of the source and of the sample."""

    english: str
    french: str
    attribution: str


def read(path: Path) -> str:
    """The text of the source, whichever way it is packed."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read("fra.txt").decode("utf-8")
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    return path.read_text(encoding="utf-8")


def select(pairs: Iterable[Pair], *, longest: int = LONGEST, common: int = COMMON) -> list[Pair]:
    """Short sentences of frequent words, one French version of each English sentence, in an order without meaning."""
    short = [pair for pair in pairs if len(pair.english.split()) <= longest]
    english = frequent({pair.english for pair in short}, common)
    french = frequent({pair.french for pair in short}, common)
    chosen: dict[tuple[str, ...], Pair] = {}
    for pair in sorted(short, key=digest):
        if english.issuperset(words(pair.english)) and french.issuperset(words(pair.french)):
            chosen.setdefault(words(pair.english), pair)
    return list(chosen.values())


def split(pairs: list[Pair], sizes: dict[str, int]) -> dict[str, list[Pair]]:
    """Parts that share no sentence on either side, case and punctuation aside; what is left over is `train`."""
    parts: dict[str, list[Pair]] = {name: [] for name in ("train", *sizes)}
    for group in connected(pairs):
        fitting = [name for name, size in sizes.items() if len(parts[name]) + len(group) <= size]
        parts[fitting[0] if fitting else "train"] += group
    return {name: sorted(part, key=digest) for name, part in parts.items()}


def connected(pairs: list[Pair]) -> list[list[Pair]]:
    """Groups of pairs linked by an English or a French sentence they have in common."""
    leader: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]] = {}

    def find(sentence: tuple[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
        while leader.setdefault(sentence, sentence) != sentence:
            sentence = leader[sentence]
        return sentence

    for pair in pairs:
        leader[find(("english", words(pair.english)))] = find(("french", words(pair.french)))
    groups: dict[tuple[str, tuple[str, ...]], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(find(("english", words(pair.english))), []).append(pair)
    return list(groups.values())


def words(sentence: str) -> tuple[str, ...]:
    """A sentence without case and punctuation."""
    return tuple(re.findall(r"\w+", unicodedata.normalize("NFC", sentence).casefold()))


def frequent(sentences: Iterable[str], count: int) -> set[str]:
    """The most frequent words; those equally frequent in alphabetical order."""
    counts = Counter(word for sentence in sentences for word in words(sentence))
    return {word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:count]}


def digest(pair: Pair) -> bytes:
    """What a pair is ordered by: as good as chance, and the same everywhere."""
    return hashlib.sha256(f"{pair.english}\t{pair.french}".encode()).digest()


def write(path: Path, pairs: list[Pair]) -> None:
    """One pair a line, packed without date or name, so that the same pairs give the same file."""
    text = "".join(unicodedata.normalize("NFC", "\t".join(pair)) + "\n" for pair in pairs)
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))


def main() -> None:
    """Read the source, choose, split and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="fra-eng.zip, fra.txt or fra.txt.gz")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "regard" / "samples")
    arguments = parser.parse_args()
    text = read(arguments.source)
    if hashlib.sha256(text.encode("utf-8")).hexdigest() != CONTENT:
        print(f"note: this is not the release of {RELEASE}; the pairs will differ from those that ship")
    pairs = [Pair(*line.split("\t")) for line in text.split("\n") if line]
    for name, part in split(select(pairs), SIZES).items():
        path = arguments.output / f"tatoeba-fra-eng.{name}.tsv.gz"
        write(path, part)
        print(f"{path}: {len(part)} pairs, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

"""Short stories in English and French: drawn from a model that writes English ones, then translated.

    regard import stories15M.bin runs/stories15m          (of karpathy/tinyllamas, MIT; tokenizer.bin beside it)
    python scripts/make_stories.py runs/stories15m runs/translator data/stories --count 50000
    python scripts/make_stories.py --join data/stories

Stories that are cut off, short, repeated or in circles are left out, and with a story its translation if it is not in
French, or lacks a paragraph or a name. While a sentence is translated, Lily is called Mary and Timmy Tom: names that
the translator has often seen, and knows whether it is a woman's or a man's. One in fifty is held out, in both
languages, by what it says. With `--part 2/3`, the second of three processes that share the work; `--join` makes one
file of a side and language: `train.en.jsonl.gz`, `valid.fr.jsonl.gz` ...
"""

import argparse
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import regard
from regard.data import sentences
from regard.data.languages import guess

HELD = 50  # one story in so many is not learnt from
SAMPLES = 512  # written at a time
SHORTEST = 40  # words
ENDS = re.compile(r"[.!?][\"”')]*$")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
SIDES, LANGUAGES = ("train", "valid"), ("en", "fr")

CALLED = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+\b")  # a capital within a sentence
NOBODY = frozenset(("Mom", "Mommy", "Mama", "Mum", "Dad", "Daddy", "Papa", "Grandma", "Grandpa", "Mr", "Mrs", "Miss"))
HERS = re.compile(r"\b(?:she|her|hers|girl)\b", re.IGNORECASE)
HIS = re.compile(r"\b(?:he|him|his|boy)\b", re.IGNORECASE)
WOMEN, MEN = ("Mary", "Julie", "Anna", "Claire"), ("Tom", "John", "Paul", "Bob")
ELIDED = re.compile(r"\b([Dd]|[Qq]u|[Ll]orsqu|[Pp]uisqu)e (?=[AEIOUY][a-z])")


def drawn(writer: Any, *, count: int, first: int, every: int) -> Iterator[str]:
    """Stories that are whole, each once; of the batches of samples the first of every so many."""
    known: set[str] = set()
    seed = first
    while len(known) < count:
        texts = writer.write("", samples=min(SAMPLES, 2 * count), seed=seed, temperature=1.0, top_p=0.95, length=255)
        for text in texts:
            story = " ".join(text.text.split(" ")).strip()
            if whole(story) and story not in known and len(known) < count:
                known.add(story)
                yield story
        seed += every


def whole(story: str) -> bool:
    """Whether a story ends, is long enough and does not go round in circles."""
    often = Counter(SENTENCE.split(story)).most_common(1)[0][1]
    plain = all(mark.isprintable() or mark == "\n" for mark in story) and "�" not in story
    return plain and len(story.split()) >= SHORTEST and bool(ENDS.search(story)) and often < 3


def translated(translator: Any, stories: Sequence[str]) -> Iterator[str | None]:
    """Each in French; None where it is not, or lacks a paragraph or a name."""
    plans = [(sentences.split_sentences(story), names(story)) for story in stories]
    asked = [disguised(piece.text, people) for pieces, people in plans for piece in pieces]
    fresh = list(dict.fromkeys(text for text, _ in asked))
    known = dict(zip(fresh, translator.translate(fresh, to="fr"), strict=True))
    answers = iter([revealed(known[text], called) for text, called in asked])
    for story, (pieces, people) in zip(stories, plans, strict=True):
        parts = [(next(answers), piece.gap) for piece in pieces]
        said = "".join(f"{answer}{gap}" for answer, gap in parts)
        paragraphs = [len([line for line in text.split("\n") if line.strip()]) for text in (story, said)]
        fits = all(answer is not None for answer, _ in parts) and paragraphs[0] == paragraphs[1]
        fits &= 0.6 < len(said) / len(story) < 1.8 and set(people) <= set(re.findall(r"\w+", said))
        yield said if fits and guess(said, LANGUAGES) == "fr" and ENDS.search(said) else None


def names(story: str) -> dict[str, bool]:
    """How those in a story are called, and whether each is a woman or a girl."""
    found = dict.fromkeys(name for name in CALLED.findall(story) if name not in NOBODY)
    told = {name: [piece.text for piece in sentences.split_sentences(story) if name in piece.text] for name in found}
    return {
        name: sum(len(HERS.findall(text)) - len(HIS.findall(text)) for text in texts) > 0
        for name, texts in told.items()
    }


def disguised(sentence: str, people: Mapping[str, bool]) -> tuple[str, dict[str, str]]:
    """A sentence in which everybody has a usual name, and who is called so."""
    if not people:
        return sentence, {}
    called: dict[str, str] = {}
    present = [name for name in re.findall(r"[A-Z][a-z]+\b", sentence) if name in people]
    called.update((name, name) for name in present if name in WOMEN + MEN)
    for name in dict.fromkeys(present):
        free = [usual for usual in (WOMEN if people[name] else MEN) if usual not in called]
        if name not in called.values() and free:
            called[free[0]] = name
    usual = {name: known for known, name in called.items()}
    return re.sub(r"[A-Z][a-z]+\b", lambda match: usual.get(match[0], match[0]), sentence), called


def revealed(said: str, called: Mapping[str, str]) -> str | None:
    """A translation in which everybody has their own name again; None if somebody is missing."""
    if not set(called) <= set(re.findall(r"\w+", said)):
        return None
    own = re.sub(r"[A-Z][a-z]+\b", lambda match: called.get(match[0], match[0]), said)
    return ELIDED.sub(r"\1'", own) if called else own


def side(story: str) -> str:
    """Whether a story is learnt from, by what it says."""
    return "valid" if int(hashlib.sha256(story.encode()).hexdigest(), 16) % HELD == 0 else "train"


def written(path: Path, texts: Sequence[str]) -> None:
    """A story a line, as JSON."""
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(f"{path}: {len(texts):,} stories")


def join(folder: Path) -> None:
    """One file of all parts, each story once."""
    for one in SIDES:
        for language in LANGUAGES:
            parts = sorted(folder.glob(f"{one}.{language}.[0-9]*.jsonl.gz"))
            texts = (
                json.loads(line)["text"] for part in parts for line in gzip.decompress(part.read_bytes()).splitlines()
            )
            written(folder / f"{one}.{language}.jsonl.gz", list(dict.fromkeys(texts)))


def main() -> None:
    """Draw, translate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", help="the model that writes, the one that translates, and a folder")
    parser.add_argument("--count", type=int, default=50_000, help="stories in all")
    parser.add_argument("--part", default="1/1", help="which of how many parts is made")
    parser.add_argument("--join", action="store_true", help="make one file of the parts in a folder")
    asked = parser.parse_args()
    if len(asked.places) != (1 if asked.join else 3):
        parser.error("name the model that writes, the one that translates and a folder; with --join the folder alone")
    if asked.join:
        return join(Path(asked.places[0]))
    model, other, folder = asked.places
    if not re.fullmatch(r"[1-9]\d*/[1-9]\d*", asked.part):
        parser.error(f"--part {asked.part} is not which of how many, such as 2/3")
    part, parts = map(int, asked.part.split("/"))
    stories = list(drawn(regard.load(model), count=-(-asked.count // parts), first=part, every=parts))
    french = list(translated(regard.load(other), stories))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for one in SIDES:
        chosen = [number for number, story in enumerate(stories) if side(story) == one]
        written(Path(folder) / f"{one}.en.{part}.jsonl.gz", [stories[number] for number in chosen])
        said = [text for number in chosen if (text := french[number]) is not None]
        written(Path(folder) / f"{one}.fr.{part}.jsonl.gz", said)
    return None


if __name__ == "__main__":
    main()

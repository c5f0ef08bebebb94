"""Pairs that teach a translator what not to translate, made of the pairs it learns from.

    python scripts/make_copies.py FOLDER

Reads every train.tsv.gz under FOLDER (English TAB French). FOLDER/made gets `copies.tsv.gz`, pairs in which a name or a
number that both sides have is exchanged for one nobody has seen (an invented name or word, an address, another number,
an emoji at the end), and `same.en.tsv.gz` and `same.fr.tsv.gz`, texts that are in the target language already and come
back as they are. What is drawn depends on the pair alone.
"""

import argparse
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from make_corpus import Line, read, sentences, write
from split_pairs import digest

WORD = re.compile(r"[^\W_]+")
BEGINS = ("b", "br", "c", "ch", "d", "f", "fl", "g", "gr", "j", "k", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "v")
"""No vowels, before which French elides."""
MIDDLES = ("a", "e", "i", "o", "u", "ai", "au", "ea", "ou", "é")
ENDS = ("b", "ck", "d", "l", "lt", "m", "n", "nd", "r", "rn", "s", "st", "t", "x", "z")
HOSTS = ("example.org", "example.com", "mail.example.net", "example.fr")
EMOJI = ["😀", "😂", "😍", "🎉", "👍", "🙏", "🔥", "❤️", "🐸", "🚲", "🍕", "☕", "🌍", "🎵", "⭐", "🚀"]
RARELY = 0.1
KINDS = ("name", "name", "full name", "word", "number", "number", "address", "site", "emoji")


def coined(chance: random.Random, most: int = 3) -> str:
    """A word that is in no language, but could be said."""
    parts = [chance.choice(BEGINS) + chance.choice(MIDDLES) for _ in range(chance.randint(1, most))]
    return "".join(parts) + chance.choice(ENDS)


def replacement(kind: str, word: str, chance: random.Random) -> str:
    """Something unseen of this kind."""
    if kind == "number":  # as many digits, the first of which is not 0, so that it stays one of the same kind
        return "".join(str(chance.randint(0 if place else 1, 9)) for place in range(len(word)))
    name = coined(chance)
    return {
        "name": name.capitalize(),
        "full name": f"{name.capitalize()} {coined(chance, 2).capitalize()}",
        "word": name,
        "address": f"{name}.{coined(chance, 1)}@{chance.choice(HOSTS)}",
        "site": f"https://{chance.choice(HOSTS)}/{name}",
    }[kind]


def changed(english: str, french: str) -> tuple[str, str] | None:
    """The pair with something in it that nobody has seen; None where nothing can be exchanged."""
    chance = random.Random(digest((english, french)))
    kind = chance.choice(KINDS)
    if kind == "emoji":
        if chance.random() > RARELY:  # any pair can have one, and few have a name
            return None
        sign = chance.choice(EMOJI)
        return f"{english} {sign}", f"{french} {sign}"
    wanted = [word for word in shared(english, french) if word.isdigit() == (kind == "number")]
    if not wanted:
        return None
    word = chance.choice(wanted)
    new = replacement(kind, word, chance)
    if new.casefold() == word.casefold():
        return None
    there, back = (re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", new, text) for text in (english, french))
    return there, back


def shared(english: str, french: str) -> list[str]:
    """Names and numbers of both sides, each once: written large inside a sentence, or at its beginning on both sides.

    A number has two digits at least, since one thing is not two. None is next to an apostrophe, a hyphen or a point,
    where it would be part of something else.
    """
    places = [{match[0]: match for match in WORD.finditer(text)} for text in (english, french)]
    found = []
    for word in sorted(set(places[0]) & set(places[1])):
        spots = [(text, own[word]) for text, own in zip((english, french), places, strict=True)]
        once = all(len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text)) == 1 for text, _ in spots)
        free = not any(
            re.search(r"['’.,:/@-]$", text[: at.start()]) or re.match(r"['’/@-]|[.,:]\d", text[at.end() :])
            for text, at in spots
        )
        starts = [at.start() == 0 for _, at in spots]
        if (
            once
            and free
            and ((word.isdigit() and len(word) > 1) or (word.istitle() and len(word) > 2 and starts[0] == starts[1]))
        ):
            found.append(word)
    return found


def copies(lines: Iterable[Line], most: int) -> Iterator[Line]:
    """Changed pairs, at most so many, in an order that depends on content alone."""
    for line in sorted(lines, key=digest):
        if most == 0:
            return
        if (pair := changed(*line[:2])) is not None:
            most -= 1
            yield pair


def main() -> None:
    """Read, change, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=30_000, help="most pairs with something unseen in them")
    parser.add_argument("--same", type=int, default=10_000, help="most texts of each language that come back")
    asked = parser.parse_args()
    lines = [line[:2] for path in sorted(asked.folder.rglob("train.tsv.gz")) for line in read(path)]
    if not lines:
        raise SystemExit(f"no train.tsv.gz lies under {asked.folder}: write one with scripts/make_corpus.py")
    tests = (path for part in ("valid", "test") for path in asked.folder.rglob(f"{part}.tsv.gz"))
    held = {number for path in tests for number in sentences(read(path))}
    found = [pair for pair in copies(lines, asked.copies) if held.isdisjoint(sentences([pair]))]
    files = {"copies": sorted(found)}
    for language, side in {"en": 0, "fr": 1}.items():
        texts = sorted({line[side] for line in lines if line[0] != line[1]}, key=lambda text: digest((text, text)))
        files[f"same.{language}"] = sorted((text, text) for text in texts[: asked.same])
    for name, pairs in files.items():
        write(asked.folder / "made" / f"{name}.tsv.gz", pairs)
        print(f"{name}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()

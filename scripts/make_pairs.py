"""More pairs to learn from: the sentences of training files, translated by models that learnt from such files.

    python scripts/make_pairs.py FOLDER MODEL [MODEL ...]

Every file under FOLDER that is named train.tsv.gz (English TAB French) is translated both ways, every train.en.txt.gz
and train.fr.txt.gz (a sentence a line) one way, as `scripts/make_corpus.py` and `scripts/split_pairs.py` write them;
the models translate both ways by tag. FOLDER/made gets NAME.fr.tsv.gz, whose French was made, and NAME.en.tsv.gz,
whose English was, both English TAB French and the model; NAME is the folder the sentences lie in. Read towards the
language that was made, such a file teaches what the models say (distillation); read towards the real side it is
back-translation.

Of every file the pairs are kept that the models are surest of. Left out are copies, answers in the wrong language, of
unlikely length or that repeat themselves, pairs that are there already, and held-out sentences: those of all valid and
test files under FOLDER.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from make_corpus import read, sentences, tidy, write
from split_pairs import digest

import regard
from regard.data import languages
from regard.data.holdout import letters, sentence

SIDES = {"fr": 0, "en": 1}  # the column that is read when the model writes this language
BLOCK = 8000  # sentences translated at a time
LENGTHS = 2.0  # most that one side may be longer, ten characters added to both


class Made(NamedTuple):
    """A sentence with its translation."""

    text: str
    said: str
    sure: float
    """Log-probability of the translation a word, two words more counted than there are."""
    model: str


def texts(folder: Path, most: int | None = None) -> dict[tuple[str, str], list[str]]:
    """The distinct sentences to translate, by where they lie and the language to write, short ones first.

    Of more than `most` some are taken, whatever their order.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for path in sorted(folder.rglob("train*.gz")):
        name, kind = path.parent.resolve().name, path.name.split(".")[1]
        for to, side in SIDES.items():
            if kind == "tsv":
                found.setdefault((name, to), set()).update(line[side] for line in read(path))
            elif kind in SIDES and kind != to:
                found.setdefault((name, to), set()).update("\t".join(line) for line in read(path))
    if not found:
        raise SystemExit(f"no train.tsv.gz lies under {folder}: write one with scripts/make_corpus.py")
    few = {place: sorted(own, key=lambda text: digest((text,)))[:most] for place, own in found.items()}
    return {place: sorted(own, key=lambda text: (len(text), text)) for place, own in few.items()}


@cache
def loaded(model: Path, device: str) -> Any:
    """A model, loaded once in every process."""
    return regard.load(model, device=device)


def translated(some: Sequence[str], *, model: Path, to: str, beams: int, device: str) -> list[Made]:
    """Some sentences with their translations."""
    decoding = {"beams": beams, "length_penalty": 1.0, "split": False, "copy": "none", "tokens": 100_000}
    answers = loaded(model, device).answers(some, to=to, **decoding)
    said = [(tidy(answer.text, to), answer.score) for answer in answers]
    return [
        Made(text, own, score / (len(own.split()) + 2), model.name)
        for text, (own, score) in zip(some, said, strict=True)
    ]


def against(made: Made, to: str, held: set[int]) -> str | None:
    """Why a translation is left out, if it is."""
    read, said = letters(made.text), letters(made.said)
    if not said or read == said:
        return "copies"
    if languages.guess(made.said, list(SIDES)) not in (to, None):
        return "of the wrong language"
    shorter, longer = sorted((len(made.text) + 10, len(made.said) + 10))
    if longer > LENGTHS * shorter:
        return "of unlikely length"
    words = made.said.split()
    if any(count > 3 for count in Counter(zip(words, words[1:], words[2:], strict=False)).values()):
        return "that repeat themselves"
    return "held out" if sentence(made.said) in held or sentence(made.text) in held else None


def chosen(
    found: Iterable[Made], to: str, *, known: set[tuple[str, ...]], held: set[int], keep: float, sure: float | None
) -> Iterator[tuple[str, str, str]]:
    """The pairs that are kept; says how many are not, and why."""
    reasons: Counter[str] = Counter()
    good: dict[tuple[str, ...], Made] = {}
    for made in found:
        pair = (made.text, made.said) if to == "fr" else (made.said, made.text)
        reason = "there already" if pair in known or pair in good else against(made, to, held)
        if reason is None:
            good[pair] = made
        else:
            reasons[reason] += 1
    surest = sorted(good, key=lambda pair: (-good[pair].sure, pair))[: round(keep * len(good))]
    kept = [pair for pair in surest if sure is None or good[pair].sure >= sure]
    reasons["unsure"] = len(good) - len(kept)
    print(f"{len(kept):,} kept; left out:", ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common()))
    yield from sorted((*pair, good[pair].model) for pair in kept)  # type: ignore[misc]


def main() -> None:
    """Translate, choose, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="folders whose sentences are translated; else all")
    parser.add_argument("--most", type=int, help="sentences of each file that are translated; else all")
    parser.add_argument("--keep", type=float, default=0.9, help="share of the good pairs that is kept, the surest")
    parser.add_argument("--sure", type=float, help="least log-probability a word of those that are kept")
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=1, help="that share the device")
    asked = parser.parse_args()
    held = {
        number
        for part in ("valid", "test")
        for path in asked.folder.rglob(f"{part}.tsv.gz")
        for number in sentences(read(path))
    }
    known = {line[:2] for path in asked.folder.rglob("train.tsv.gz") for line in read(path)}
    pool = ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn")) if asked.processes > 1 else None
    for (name, to), own in texts(asked.folder, asked.most).items():
        if asked.only and name not in asked.only:
            continue
        blocks = [own[begin : begin + BLOCK] for begin in range(0, len(own), BLOCK)]
        found = [made for model in asked.models for made in _spread(pool, blocks, model, to, asked)]
        print(f"{name} to {to}: {len(own):,} sentences, ", end="")
        pairs = chosen(found, to, known=known, held=held, keep=asked.keep, sure=asked.sure)
        write(asked.folder / "made" / f"{name}.{to}.tsv.gz", list(pairs))
    if pool is not None:
        pool.shutdown()


def _spread(
    pool: Executor | None, blocks: Sequence[Sequence[str]], model: Path, to: str, asked: argparse.Namespace
) -> Iterator[Made]:
    """Translations of all blocks, by this process or by several."""
    each = partial(translated, model=model, to=to, beams=asked.beams, device=asked.device)
    for part in map(each, blocks) if pool is None else pool.map(each, blocks):
        yield from part


if __name__ == "__main__":
    main()

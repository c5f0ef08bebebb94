"""Write the plain texts that the English-French encoder learns from and is measured on, a text in each line.

    python scripts/make_encoder_data.py data/en-fr data/encoder --english emma.txt --french moliere.txt

`data/en-fr` is what scripts/make_corpus.py writes: pairs in DOMAIN/train.tsv.gz, valid.tsv.gz and test.tsv.gz, English
TAB French, and sentences in common-voice/train.LANGUAGE.txt.gz. Domains without training pairs are passed over. Books
are UTF-8, gzipped, in xz or plain; their paragraphs become passages of whole sentences. The pairs themselves are read
by the recipes from where they are.

LANGUAGE.txt.gz has every sentence of the training pairs, those of common-voice and the books, each once. Nothing that
is held out for validation or testing in any domain is among them, neither as a line nor as a sentence of a passage,
case, blanks and punctuation aside. valid.LANGUAGE.txt.gz and test.LANGUAGE.txt.gz have the held-out sentences.
"""

import argparse
import gzip
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.data.encodings import hint
from regard.data.holdout import sentence
from regard.data.normalise import normal
from regard.data.sentences import split_sentences

LANGUAGES = ("en", "fr")
PASSAGE = 400  # characters of a passage, unless one sentence is longer
PARTS = ("valid", "test")
OPEN = {".gz": gzip.open, ".xz": lzma.open}


def lines(path: Path) -> Iterator[str]:
    """The lines of a file, gzipped, in xz or plain, none of them blank."""
    with OPEN.get(path.suffix, open)(path, "rt", encoding="utf-8", newline="\n") as file:  # type: ignore[operator]
        yield from (line.rstrip("\r\n") for line in file if line.strip())


def passages(path: Path, held: set[int]) -> Iterator[str]:
    """The paragraphs of a book in passages of whole sentences, without those that are held out."""
    with OPEN.get(path.suffix, open)(path, "rb") as file:  # type: ignore[operator]
        data = file.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SystemExit(f"{path}: no UTF-8 at byte {error.start:,}, {hint(data, str(path)) or 'convert it'}") from None
    for paragraph in text.replace("\r", "").split("\n\n"):
        passage = ""
        for piece in split_sentences(normal(" ".join(paragraph.split()), "full")):
            if sentence(piece.text) in held:
                continue
            if passage and len(passage) + len(piece.text) >= PASSAGE:
                yield passage
                passage = ""
            passage = f"{passage} {piece.text}".strip()
        if passage:
            yield passage


def sides(files: Iterable[Path], column: int) -> Iterator[str]:
    """One column of files of pairs."""
    for file in files:
        for number, line in enumerate(lines(file), start=1):
            cells = line.split("\t")
            if len(cells) < 2:
                raise SystemExit(f"{file}:{number}: no tab between two texts: make it again")
            yield cells[column]


def write(path: Path, texts: Iterable[str]) -> None:
    """Each text once, in the order in which they come."""
    unique = list(dict.fromkeys(text for text in texts if text.strip()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in unique).encode(), mtime=0))
    print(f"{path}: {len(unique):,} texts, {sum(map(len, unique)):,} characters")


def make(pairs: Path, out: Path, books: dict[str, Sequence[Path]]) -> None:
    """Read, leave out what is held out, write."""
    domains = sorted(path.parent for path in pairs.glob("*/train.tsv.gz"))
    if not domains:
        raise SystemExit(f"{pairs}: no DOMAIN/train.tsv.gz there: make it with scripts/make_corpus.py")
    parts = [path for part in (*PARTS, "far") for path in pairs.glob(f"*/{part}.tsv.gz")]
    held = {sentence(text) for column in (0, 1) for text in sides(parts, column)}
    for column, language in enumerate(LANGUAGES):
        for part in PARTS:
            files = [path for path in (domain / f"{part}.tsv.gz" for domain in domains) if path.is_file()]
            write(out / f"{part}.{language}.txt.gz", sides(files, column))
        spoken = pairs / "common-voice" / f"train.{language}.txt.gz"
        texts = list(sides((domain / "train.tsv.gz" for domain in domains), column))
        texts += lines(spoken) if spoken.is_file() else ()
        texts = [text for text in texts if sentence(text) not in held]
        texts += (passage for book in books[language] for passage in passages(book, held))
        write(out / f"{language}.txt.gz", texts)


def main() -> None:
    """What to read and where to write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="the folder that scripts/make_corpus.py wrote")
    parser.add_argument("out", type=Path, help="where the texts go")
    parser.add_argument("--english", type=Path, nargs="*", default=[], metavar="BOOK", help="books in English")
    parser.add_argument("--french", type=Path, nargs="*", default=[], metavar="BOOK", help="books in French")
    asked = parser.parse_args()
    make(asked.pairs, asked.out, {"en": asked.english, "fr": asked.french})


if __name__ == "__main__":
    main()

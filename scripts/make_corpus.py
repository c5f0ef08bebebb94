"""Write what the English-French models learn from and are measured on: many sources, cut once for all of them.

    python scripts/make_corpus.py fra.txt.gz parallel-en-fr data/en-fr [--all] [--test FILE ...]
    python scripts/make_corpus.py --check data/en-fr [FILE ...]

`fra.txt.gz` is Tatoeba's table; `parallel-en-fr` holds the other sources as NAME.tsv.gz (English TAB French) and
common-voice-en.txt.gz and -fr.txt.gz. Each domain gets a folder with train, valid and test; where sentences resemble
one another, `far` has the test pairs that no training pair resembles. Sources whose licences do not allow a model that
is given away to learn from them are measured on alone and get a test file only, and so do FILEs of pairs that were
written to measure on, each in a folder of its own name. With `--all` a model learns from these sources too: it may be
measured, but not given away.

Pairs that share a sentence belong together, in whatever source and on whichever side it stands, case, spaces and
punctuation aside: no sentence of any valid or test file is left in any training file. Tatoeba's are those of
`scripts/split_pairs.py`. Everything depends on the content of the files alone. `manifest.json` has the lines and the
SHA-256 of every file (of its text, unpacked) and hashes of the held-out sentences; `--check` holds every training file
of the folder, those made later and FILEs from elsewhere included, against it.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from split_pairs import digest, far, groups, shuffled, split

from regard.data.holdout import sentence
from regard.data.normalise import normal

Line = tuple[str, ...]
MEASURED_ON = re.compile(r"(test|valid|far)\.tsv\.gz")
FRENCH_SIGN = re.compile(r"(?<=[\w)\]»%°'])([?!;:]+)(?=\s|$)")
MOST = 10  # one group in so many is held out at most, for validation and for testing each
SHARE = 0.5  # of words in common, from which on two sentences are alike


@dataclass(frozen=True)
class Source:
    """A public file of pairs, and whether a model that learnt from it may be given away under a free licence."""

    name: str
    domain: str
    licence: str
    given: bool = True


SOURCES = (
    Source("tatoeba", "tatoeba", "CC BY 2.0 FR"),
    Source("europarl-direct", "europarl", "European Parliament, with acknowledgement"),
    Source("python-docs-fr", "documentation", "CC0 and PSF"),
    Source("react-docs-fr", "documentation", "CC BY 4.0"),
    Source("kubernetes-docs-fr", "documentation", "CC BY 4.0"),
    Source("rust-book-fr", "documentation", "MIT or Apache-2.0"),
    Source("gnome-user-docs", "documentation", "CC BY 3.0"),
    Source("opensource-guide", "documentation", "CC BY 4.0"),
    Source("libreoffice-help", "libreoffice", "MPL-2.0"),
    Source("african-storybook", "stories", "CC BY"),
    Source("lexicon-osm-id", "lexicon", "ISC"),
    Source("cataclysm-dda", "games", "CC BY-SA 3.0", given=False),
    Source("freeciv", "games", "GPL-2+", given=False),
    Source("shattered-pixel-dungeon", "games", "GPL-3", given=False),
    Source("wesnoth", "games", "GPL-2+", given=False),
    Source("software-ui", "software", "GPL-2+ and others", given=False),
    Source("mediawiki-i18n", "software", "GPL-2+", given=False),
    Source("stellarium", "software", "GPL-2+", given=False),
    Source("debian-edu-doc", "manuals", "GPL-2+", given=False),
    Source("installation-guide", "manuals", "GPL-2", given=False),
    Source("lexicon-freedict", "words", "GPL-2+", given=False),
    Source("lexicon-iso-codes", "words", "LGPL-2.1+", given=False),
)
PLAIN = {"en": "common-voice-en", "fr": "common-voice-fr"}  # sentences without translation, CC0
HELD = {  # pairs for validation and for testing
    "tatoeba": (1000, 2000),
    "europarl": (1000, 2000),
    "documentation": (500, 1500),
    "libreoffice": (500, 1500),
    "stories": (100, 300),
    "lexicon": (100, 300),
    "games": (0, 1000),
    "software": (0, 1000),
    "manuals": (0, 500),
    "words": (0, 500),
}
ALIKE = ("documentation", "libreoffice")  # domains that repeat themselves with a word changed


def tidy(text: str, language: str) -> str:
    """A text in one typography: plain quotes, apostrophes and blanks, and in French a blank before ? ! ; and :."""
    text = normal(text, "full")
    return FRENCH_SIGN.sub(r" \1", text) if language == "fr" else text


def cut(
    tatoeba: Sequence[Line], others: Mapping[str, Sequence[Line]], written: Iterable[Line] = ()
) -> dict[str, dict[str, list[Line]]]:
    """Train, valid and test of every domain; `others` has the pairs of the other domains, `written` is for tests."""
    valid, test = (min(count, len(groups(tatoeba)) // MOST) for count in HELD["tatoeba"])
    parts = {"tatoeba": split(tatoeba, valid=valid, test=test)}
    first = sentences(parts["tatoeba"]["valid"] + parts["tatoeba"]["test"])
    named = [(*line[:2], "tatoeba") for line in tatoeba]
    named += [(*line[:2], domain) for domain, lines in others.items() for line in lines]
    found = shuffled(groups(named, across=True))
    near = [group for group in found if not first.isdisjoint(sentences(group))]
    left_out = {line for group in near for line in group if line[2] != "tatoeba"}
    for domain in others:
        own = [group for group in found if {line[2] for line in group} == {domain} and left_out.isdisjoint(group)]
        valid, test = (min(count, len(own) // MOST) for count in HELD[domain])
        held = [min(group, key=digest)[:2] for group in own[: valid + test]]
        left_out.update(line for group in own[: valid + test] for line in group)
        parts[domain] = {"test": held[:test], "valid": held[test:]}
    apart = sentences(written)
    apart |= sentences([line for part in parts.values() for name in ("valid", "test") for line in part[name]])
    for domain, lines in {**others, "tatoeba": parts["tatoeba"]["train"]}.items():
        kept = (line for line in lines if (*line[:2], domain) not in left_out and apart.isdisjoint(sides(line)))
        unique = {line[:2]: line for line in sorted(map(tidied, kept), reverse=True)}  # the first of each stays
        parts[domain]["train"] = sorted(unique.values())
    return parts


def tidied(line: Line) -> Line:
    """A pair in one typography."""
    return tidy(line[0], "en"), tidy(line[1], "fr"), *line[2:]


def sides(line: Line) -> list[int]:
    """The sentences of a line, as numbers."""
    return [sentence(text) for text in line[:2]]


def sentences(lines: Iterable[Line]) -> set[int]:
    """All sentences of some lines, as numbers."""
    return {number for line in lines for number in sides(line)}


def read(path: Path) -> Iterator[Line]:
    """The columns of every line of a file, gzipped or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield tuple(line.rstrip("\n").split("\t"))


def write(path: Path, lines: Sequence[Line]) -> dict[str, object]:
    """Write lines, gzipped; what the manifest says of them."""
    text = "".join("\t".join(line) + "\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text, mtime=0))
    return {"lines": len(lines), "sha256": hashlib.sha256(text).hexdigest()}


def short(number: int) -> str:
    """48 bits of a sentence's number, in hexadecimal."""
    return f"{number >> 16:012x}"


def gather(table: Path, folder: Path) -> dict[str, list[Line]]:
    """All pairs by domain, Tatoeba's as they are and the others in one typography."""
    found: dict[str, list[Line]] = {}
    for source in SOURCES:
        path = table if source.name == "tatoeba" else folder / f"{source.name}.tsv.gz"
        if not path.is_file():
            print(f"left out: {path} is not there", file=sys.stderr)
            continue
        lines = read(path)
        if source.name != "tatoeba":
            lines = map(tidied, lines)
        found.setdefault(source.domain, []).extend(lines)
    if "tatoeba" not in found:
        raise SystemExit(f"{table} is not there: name Tatoeba's table of English-French pairs")
    return found


def make(table: Path, folder: Path, out: Path, tests: Sequence[Path] = (), *, learn_from_all: bool = False) -> None:
    """Read, cut, write."""
    pairs = gather(table, folder)
    written = {path.name.split(".")[0]: list(read(path)) for path in tests}
    if taken := set(written) & {source.domain for source in SOURCES}:
        raise SystemExit(f"{', '.join(sorted(taken))} is a domain already: give the test file another name")
    parts = cut(pairs.pop("tatoeba"), pairs, [line for lines in written.values() for line in lines])
    parts |= {name: {"test": lines} for name, lines in written.items()}
    learnt_from = {source.domain for source in SOURCES if source.given or learn_from_all}
    known = [line for domain in ALIKE if domain in parts for line in parts[domain]["train"]]
    files: dict[str, dict[str, object]] = {}
    held: dict[str, list[str]] = {}
    numbers: set[int] = set()
    for domain, own in parts.items():
        wanted = [name for name in ("train", "valid", "test") if own.get(name)] if domain in learnt_from else ["test"]
        if domain in ALIKE:
            own["far"] = far(own["test"], known, share=SHARE)
            wanted.append("far")
        for name in wanted:
            files[f"{domain}/{name}.tsv.gz"] = write(out / domain / f"{name}.tsv.gz", own[name])
            if name in ("valid", "test"):
                numbers |= sentences(own[name])
                held[f"{domain}/{name}"] = sorted(map(short, sentences(own[name])))
        print(f"{domain:14}", *(f"{name} {len(own[name]):>8,}" for name in wanted))
    for language, name in PLAIN.items():
        if (folder / f"{name}.txt.gz").is_file():
            texts = {tidy("\t".join(line), language) for line in read(folder / f"{name}.txt.gz")}
            kept = [(text,) for text in sorted(texts) if sentence(text) not in numbers]
            files[f"common-voice/train.{language}.txt.gz"] = write(
                out / "common-voice" / f"train.{language}.txt.gz", kept
            )
            print(f"common-voice   train.{language} {len(kept):,}")
    sources = {
        source.name: {"licence": source.licence, "learnt_from": source.domain in learnt_from} for source in SOURCES
    }
    manifest = {"format": 1, "sources": sources, "files": files, "held": held}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=0) + "\n", encoding="utf-8")


def check(folder: Path, others: Sequence[Path] = ()) -> list[str]:
    """What is wrong: held-out sentences in training files, and files that are not as they were written."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    owner = {number: name for name, numbers in manifest["held"].items() for number in numbers}
    faults = []
    for name, told in manifest["files"].items():
        if hashlib.sha256(gzip.decompress((folder / name).read_bytes())).hexdigest() != told["sha256"]:
            faults.append(f"{folder / name} is not as it was written: make it again")
    training = [path for path in sorted(folder.rglob("*.gz")) if not MEASURED_ON.fullmatch(path.name)]
    for path in [*training, *others]:
        every = ((number, text) for number, line in enumerate(read(path), start=1) for text in line[:2])
        held = ((number, text, owner.get(short(sentence(text)))) for number, text in every)
        faults += [f"{path}:{number}: {text!r} is held out in {found}" for number, text, found in held if found]
    return faults


def main() -> None:
    """Make or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="fra.txt.gz, the other sources, the result")
    parser.add_argument("--check", action="store_true", help="hold a folder's training files against what is held out")
    parser.add_argument("--test", type=Path, nargs="+", default=[], metavar="FILE", help="pairs to measure on alone")
    parser.add_argument("--all", action="store_true", help="learn from the sources too that are measured on alone")
    asked = parser.parse_args()
    if not asked.check:
        if len(asked.paths) != 3:
            parser.error("name Tatoeba's table, the folder of the other sources and the folder to write")
        table, folder, out = asked.paths
        make(table, folder, out, asked.test, learn_from_all=asked.all)
        return
    faults = check(asked.paths[0], asked.paths[1:])
    print("\n".join(faults[:20]) or f"{asked.paths[0]}: no training file has a held-out sentence")
    if faults:
        raise SystemExit(f"{len(faults):,} faults")


if __name__ == "__main__":
    main()

"""Documents under test: their code blocks, and a desk with the files they speak of, on which the blocks are run."""

import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from regard.cli import run

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "regard" / "samples" / "tatoeba-fra-eng.valid.tsv.gz"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"gunzip", "printf", "paste"}  # what a document may use beside regard, make and pip
BRIEF = ["training.steps=2", "training.save=1", "training.tensorboard=false", "objective.judged=4", "decoding.ratio=0"]
SMALL = [
    "model.width=32",
    "model.heads=2",
    "model.hidden=64",
    "model.encoder=1",
    "model.decoder=1",
    "tokenizer.vocab=400",
]
RAW = {name: [f"data/multi30k/raw/{part}.{name}.gz" for part in ("train", "val")] for name in ("en", "de")}
FILES = {  # where the documents and the recipes look for text, by language
    "fr": ["a.fr", "new.fr"],
    "en": ["a.en", "new.en", "data/train.en", "data/valid.en", *RAW["en"]],
    "de": ["data/train.de", "data/valid.de", *RAW["de"]],
}
TABLES = ["data/tatoeba-eng-fra/fra.txt.gz", "regard/samples/tatoeba-fra-eng.train.tsv.gz"]
TABLES += [f"data/tatoeba/{part}.tsv.gz" for part in ("train", "made", "valid", "test")]


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    place: str

    @property
    def lines(self) -> list[str]:
        """Its shell lines: continued ones joined, comments and blank ones left out."""
        joined = self.text.replace("\\\n", " ").split("\n")
        return [line.strip() for line in joined if line.strip() and not line.lstrip().startswith("#")]


def blocks(document: Path, *languages: str) -> list[Block]:
    """The blocks of these languages, in order."""
    text = document.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    places = ((match, f"{document.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}") for match in found)
    return [Block(match[1], match[2], place) for match, place in places if match[1] in languages]


def regards(line: str) -> list[str] | None:
    """The words after `regard` in a shell line, variables before it and redirections left out; None for other lines."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if not words or words[0] != "regard":
        return None
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            del words[at : at + 2]
    return words[1:]


def lay(desk: Path) -> None:
    """Put small files under every name that the documents and the recipes use."""
    pairs = [line.split("\t") for line in gzip.decompress(SAMPLE.read_bytes()).decode("utf-8").splitlines()]
    texts = {"en": [pair[0] for pair in pairs], "fr": [pair[1] for pair in pairs], "de": [pair[1] for pair in pairs]}
    for language, names in FILES.items():
        for name in names:
            few = "val" in name or name.startswith("new")
            _write(desk / name, texts[language][: 8 if few else None])
    for name in TABLES:
        _write(desk / name, ["\t".join(pair) for pair in pairs])
    shutil.copytree(ROOT / "recipes", desk / "recipes")


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@dataclass
class Desk:
    """A folder in which a reader follows a document; trainings are cut short."""

    folder: Path
    patch: pytest.MonkeyPatch
    trained: set[Path] = field(default_factory=set)
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})

    def follow(self, document: Path) -> None:
        """Run every shell and Python block of a document, in order."""
        self.patch.chdir(self.folder)
        self.patch.setenv("REGARD_DATA", str(self.folder / "data"))
        for block in blocks(document, "sh", "python"):
            if block.language == "python":
                code = re.sub(r"training\.steps=\d+", "training.steps=2", block.text)
                exec(compile(code, block.place, "exec"), self.names)  # what a reader would type
                continue
            for line in block.lines:
                if regards(line) != ["demo"]:  # it takes seconds, which test_cli spends once for all
                    self.type(line, block.place)

    def type(self, line: str, place: str) -> None:
        """Run one shell line."""
        words = regards(line)
        first = line.split()[0]
        if words is not None:
            out = Path(shlex.split(line)[-1]) if " > " in line else None
            into = Path(line.partition(" < ")[2].split()[0]) if " < " in line else None
            self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(into.read_bytes() if into else b"")))
            with redirect_stdout(io.StringIO()) as said:
                status = run(self.shortened(words))
            assert status == 0, f"{place}: {line}"
            if out is not None:
                out.write_text(said.getvalue(), encoding="utf-8")
        elif first == "make":
            assert set(line.split()[1:]) <= targets(), f"{place}: {line}"
        elif first in SHELL:
            subprocess.run(["bash", "-c", line], check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        else:
            assert line in {"pip install .", "source .venv/bin/activate"}, f"{place}: nobody tests {line!r}"

    def shortened(self, words: list[str]) -> list[str]:
        """The command as the document has it, but brief and small."""
        if words[:1] == ["cost"] and "--plot" not in words:
            return [*words, "--no-measure"]
        if words[:1] != ["train"]:
            return words
        if not {"--resume", "--overwrite"} & set(words):
            self.make_room(words)
        sizes = SMALL if any(word.endswith(".yaml") for word in words) else []
        return [*words, *BRIEF, *sizes]

    def make_room(self, words: list[str]) -> None:
        """Remove the run that was laid on the desk before the reader came, if this one takes its place."""
        named = [word for word in words[1:] if word.endswith((".yaml", ".fr", ".en"))]
        out = Path(words[words.index("--out") + 1]) if "--out" in words else Path("runs") / Path(named[0]).stem
        if out not in self.trained:
            shutil.rmtree(out, ignore_errors=True)
        self.trained.add(out)


def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

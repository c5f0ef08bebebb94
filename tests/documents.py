"""Documents under test: their code blocks, and a desk with the files they speak of, on which the blocks are run."""

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

from regard import recipe
from regard.cli import run

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "README.fr.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"gunzip", "printf", "paste"}  # what a document may use beside regard, make and pip
INSTALLING = {"python3 -m venv .venv", "source .venv/bin/activate", "pip install ."}
BRIEF = [
    "training.steps=2",
    "training.save_every=1",
    "training.tensorboard=false",
    "objective.eval_examples=4",
    "decoding.ratio=0",
]
SMALL = [
    "model.width=32",
    "model.heads=2",
    "model.hidden=64",
    "model.encoder=1",
    "model.decoder=1",
    "tokenizer.vocab=400",
]
TINY = ["training.steps=2", "training.tensorboard=false", "model.width=8", "model.depth=1"]  # for language models
SAYING = ["writing.length=8"]  # for those that write
READING = [*TINY, "model.heads=2", "model.hidden=16", "data.context=64", "data.batch_size=4", "training.device=cpu"]
MATCHED = [
    *TINY,
    "model.heads=2",
    "model.hidden=16",
    "data.batch_size=4",
    "training.device=cpu",
]  # for vectors of texts
LONG = (["demo"], ["bench"], ["explain", "--measures", "--to", "fr"])  # they take seconds, which other tests spend
BLOCKS = ("-gpt", "-gpt-cpu", "-bert")  # how the names of recipes end that read documents
WRITING = ("c-lstm", "latex", "masse", "ptb", "shakespeare")  # how their recipes begin
BARE = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]  # for models that label
LABELLING = ("agreement", "imdb", "names", "word-class", "task=tagging", "task=classification")
LABELLING += ("entailment", "alike", "reviews", "endings", "questions")
SKETCHED = ["training.steps=2", "data.valid=4", "data.batch_size=2"]  # for models of drawn pictures
REMEMBERED = ["training.steps=2", "data.valid=4", "data.batch_size=2", "data.max_length=4", "training.device=cpu"]
DRAWN = ("locate", "count")
MADE = [
    "model.widths=[8,8]",
    "model.noise=4",
    "training.steps=2",
    "data.batch_size=4",
    "objective.eval_examples=10",
]  # for GANs
MADE += ["objective.variety=0", "training.seconds=null", *BARE[1:]]
COHORTS = ("rosmap", "breast")
PICTURED = ("mnist", "fashion", "cifar10", "cifar10-resnet", "scattered", "scattered-cnn", "digit-sum")
CAPTIONED = [
    "model.width=16",
    "training.steps=2",
    "training.epochs=null",
    "data.batch_size=4",
    "optim.warmup=1",
    *BARE[1:],
]
SEEN = {  # for models of pictures, by their names
    "vit": ["model.width=16", "model.heads=2", "model.hidden=16", "model.depth=1"],
    "resnet": ["model.depths=[1]", "model.widths=[4]"],
    "efficientnet": ["model.width_factor=0.1", "model.depth_factor=0.1"],
    "spatial-transformer": ["model.widths=[4]", "model.searching=[4]", "model.hidden=8"],
}
SEEN = {
    name: [*sizes, "training.steps=2", "training.epochs=null", "data.batch_size=4", *BARE[1:]]
    for name, sizes in SEEN.items()
}
PAINTED = [*SEEN["vit"], "data.batch_size=2", "objective.eval_examples=2"]
SEEN_INSIDE = [one.replace("model.", "model.encoder.") for one in SEEN["vit"] if one.startswith("model.")]
FEW = ["training.epochs=1", "data.min_count=1", "model.width=8"]  # for word vectors
PRETRAINED = {path.name for path in (ROOT / "regard" / "pretrained").iterdir()}


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
    if words[:1] == ["torchrun"]:  # what it starts several times is followed once
        words = words[words.index("-m") + 1 :]
    if not words or words[0] != "regard":
        return None
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            del words[at : at + 2]
    return words[1:]


def serves_forever(line: str) -> bool:
    """True for a line that starts a server: tests/serve do."""
    words = regards(line) or [""]
    return words[0] == "mcp" or (words[0] == "serve" and not {"--check", "--limits"} & set(words))


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
                if regards(line) not in LONG and not serves_forever(line):
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
            assert line in INSTALLING, f"{place}: nobody tests {line!r}"

    def shortened(self, words: list[str]) -> list[str]:
        """The command as the document has it, but brief and small."""
        if words[:2] == ["lab", "complexity"] and "-o" not in words:
            return [*words, "--no-measure"]
        if words[:2] == ["cost", "gpt3"]:
            return ["cost", "gpt2", *words[2:]]
        if words[:2] == ["lab", "gradients"]:
            return [*words, "--length", "16", "--width", "16"]
        if any("gan" in Path(word).stem.split("-") for word in words):
            brief = {"train": MADE, "evaluate": ["-s", "count=8"]}.get(words[0], [])
            self.make_room(words) if words[0] == "train" else None
            return [*words, *brief]
        if words[:1] == ["draw"] and "--samples" in words:
            at = words.index("--samples") + 1
            return [*words[:at], "2", *words[at + 1 :]]
        if words[:1] == ["generate"] and "--length" not in words:
            return [*words, "--length", "20"]
        if words[:2] == ["lab", "by-hand"]:
            return [*words, "--steps", "10"]
        if words[:3] == ["data", "make", "agreement"]:
            return [*words, "--count", "40"]
        if words[:3] == ["data", "make", "digits"]:
            return [*words, "--count", "400"]
        if words[:2] == ["lab", "agreement"] and words[2:] and not words[2].startswith("-"):
            return [*words, "--count", "5", "--distances", "1,4"]
        if words[:1] == ["evaluate"] and any(Path(word).name.startswith(DRAWN) for word in words):
            return [*words, "-s", "count=4"]
        if words[:1] == ["bench"] and words[1:] and words[1].endswith(".yaml"):
            return [
                *words[:2],
                *(each for each in small(words[1]) if "=" in each),
                "data.batch_tokens=256",
                "--steps",
                "20",
            ]
        if words[:1] != ["train"]:
            return words
        if "--captions" in words:
            self.make_room(words)
            return [*words, *CAPTIONED, *([] if "--from" in words else SEEN_INSIDE)]
        if "pixels" in words or any(Path(word).stem.endswith(("-pixels", "-axial")) for word in words):
            self.make_room(words)
            return [*words, *(one for one in PAINTED if one.partition("=")[0] not in " ".join(words))]
        if "--pictures" in words or any(Path(word).stem in PICTURED for word in words):
            self.make_room(words)
            kinds = {"resnet": "resnet", "scattered": "spatial-transformer", "digit-sum": "spatial-transformer"}
            kind = next((kind for part, kind in kinds.items() if any(part in word for word in words)), "vit")
            longer = ["training.steps=16", "optim.warmup=1"] if "--pictures" in words else []  # something to look for
            return [*words, *SEEN[kind], *longer]
        if not {"--resume", "--overwrite"} & set(words):
            self.make_room(words)
        if "--text" in words or any(Path(word).stem.endswith(BLOCKS) for word in words):
            kept = [word for word in READING if not word.startswith("model.")] if "--from" in words else READING
            writes = not {"--masked", "--task"} & set(words) and not any("bert" in word for word in words)
            return [*words, *kept, *(SAYING if writes else [])]
        if "--few" in words:
            return words
        if "matching" in words:
            return [*words, *MATCHED]
        if any("word2vec" in word for word in words):
            return [*words, *FEW]
        if any(Path(word).name.startswith(WRITING) for word in words):
            return [*words, *TINY, *SAYING]
        if any(Path(word).name.startswith(LABELLING) for word in words):
            return [*words, *BARE]
        if any(Path(word).name.startswith(DRAWN) for word in words):
            return [*words, *SKETCHED]
        if any(Path(word).name.startswith("ntm") for word in words):
            return [*words, "training.steps=2", "data.valid=4", "data.batch_size=2", "training.device=cpu"]
        if "--tables" in words or any(
            Path(word).name.startswith(("pendulum", "cora", "citeseer", "edges", *COHORTS)) for word in words
        ):
            return [*words, "training.steps=2"]
        sizes = [setting for word in words if word.endswith(".yaml") for setting in small(word)]
        if "--from" in words and words[words.index("--from") + 1] in PRETRAINED:
            return [*words, *BRIEF, "training.steps=1"]  # a large one, whose saves take longer than its steps
        own = "--from" not in words and any(word.endswith((".fr", ".en")) for word in words)
        return [*words, *BRIEF, *(SMALL if own else sizes)]

    def make_room(self, words: list[str]) -> None:
        """Remove the run that was laid on the desk before the reader came, if this one takes its place."""
        named = [
            word
            for word in words[1:]
            if word.endswith((".yaml", ".fr", ".en", ".txt", ".csv", ".npz", "photos", "photos/"))
        ]
        out = Path(words[words.index("--out") + 1]) if "--out" in words else Path("runs") / Path(named[0]).stem
        if out not in self.trained:
            shutil.rmtree(out, ignore_errors=True)
        self.trained.add(out)


def small(path: str) -> list[str]:
    """Settings that make the model of a recipe small, those it has."""
    _, found = recipe.resolve(recipe.settings(path))
    known = {f"model.{name}" for name in vars(found.model)}
    return [setting for setting in SMALL if setting.partition("=")[0] in known or setting.startswith("tokenizer")]


def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def build_site(folder: Path) -> Path:
    """Build the site into a folder as `make docs` does, or skip the test where the generator is missing."""
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed (pip install 'regard[docs]')")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3600)
    assert done.returncode == 0, done.stderr
    return folder

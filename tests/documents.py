"""Documents under test: their code blocks, and a desk with the files they speak of, on which the blocks are run."""

import gzip
import io
import json
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard import checkpoint, interop, models, recipe
from regard.cli import run
from regard.data.tokenizers import units
from regard.data.tokenizers.units import UnitsConfig
from regard.lab.agreement import sentences as agreement
from regard.models.gpt import GPTConfig
from regard.tasks.word2vec.vectors import WordVectors
from tests.data.pictures.drawing import draw, fill
from tests.tasks.graphs import small as graphs
from tests.tasks.omics import cohorts

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "regard" / "samples" / "tatoeba-fra-eng.valid.tsv.gz"
DOCUMENTS = [ROOT / "README.md", ROOT / "README.fr.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"gunzip", "printf", "paste"}  # what a document may use beside regard, make and pip
INSTALLING = {"python3 -m venv .venv", "source .venv/bin/activate", "pip install ."}
BRIEF = ["training.steps=2", "training.save=1", "training.tensorboard=false", "objective.judged=4", "decoding.ratio=0"]
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
READING = [*TINY, "model.heads=2", "model.hidden=16", "data.context=64", "data.windows=4", "training.device=cpu"]
MATCHED = [*TINY, "model.heads=2", "model.hidden=16", "data.batch=4", "training.device=cpu"]  # for vectors of texts
BLOCKS = ("-gpt", "-gpt-cpu", "-bert")  # how the names of recipes end that read documents
WRITING = ("masse", "ptb", "shakespeare")  # how their recipes begin
BARE = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]  # for models that label
LABELLING = ("agreement", "imdb", "names", "word-class", "task=tagging", "task=classification")
LABELLING += ("entailment", "alike", "reviews", "endings", "questions")
SKETCHED = ["training.steps=2", "data.valid=4", "data.batch=2"]  # for models of drawn pictures
REMEMBERED = ["training.steps=2", "data.valid=4", "data.batch=2", "data.longest=4", "training.device=cpu"]
DRAWN = ("locate", "count")
MADE = ["model.widths=[8,8]", "model.noise=4", "training.steps=2", "data.batch=4", "objective.judged=10"]  # for GANs
MADE += ["objective.variety=0", "training.seconds=null", *BARE[1:]]
COHORTS = ("rosmap", "breast")
PICTURED = ("mnist", "fashion", "cifar10", "cifar10-resnet", "scattered", "scattered-cnn", "digit-sum")
CAPTIONED = ["model.width=16", "training.steps=2", "training.epochs=null", "data.batch=4", "optim.warmup=1", *BARE[1:]]
SEEN = {  # for models of pictures, by their names
    "vit": ["model.width=16", "model.heads=2", "model.hidden=16", "model.depth=1"],
    "resnet": ["model.depths=[1]", "model.widths=[4]"],
    "efficientnet": ["model.width_factor=0.1", "model.depth_factor=0.1"],
    "spatial-transformer": ["model.widths=[4]", "model.searching=[4]", "model.hidden=8"],
}
SEEN = {
    name: [*sizes, "training.steps=2", "training.epochs=null", "data.batch=4", *BARE[1:]]
    for name, sizes in SEEN.items()
}
PAINTED = [*SEEN["vit"], "data.batch=2", "objective.judged=2"]
SEEN_INSIDE = [one.replace("model.", "model.encoder.") for one in SEEN["vit"] if one.startswith("model.")]
FEW = ["training.epochs=1", "data.least=1", "model.width=8"]  # for word vectors
KINDS = ("cat", "dog", "king")
SPOKEN_OF = ["film", "movie", "actor", "actress", "king", "queen", "man", "woman", "good", "bad", "horror", "comedy"]
RAW = {name: [f"data/multi30k/raw/{part}.{name}.gz" for part in ("train", "val")] for name in ("en", "de", "fr")}
PARTS = ("train", "val", "test_2016_flickr")
TOK = {name: [f"data/multi30k/tok/{part}.lc.norm.tok.{name}.gz" for part in PARTS] for name in ("en", "de", "fr")}
FILES = {  # where the documents and the recipes look for text, by language
    "fr": ["a.fr", "new.fr", *RAW["fr"], *TOK["fr"], "data/encoder/fr.txt.gz", "data/encoder/valid.fr.txt.gz"],
    "en": ["a.en", "new.en", "data/train.en", "data/valid.en", *RAW["en"], *TOK["en"]],
    "de": ["data/train.de", "data/valid.de", *RAW["de"], *TOK["de"]],
}
FILES["en"] += ["data/encoder/en.txt.gz", "data/encoder/valid.en.txt.gz"]
TABLES = ["data/tatoeba-eng-fra/fra.txt.gz"]
TABLES += [f"regard/samples/tatoeba-fra-eng.{part}.tsv.gz" for part in ("train", "valid")]
TABLES += [f"data/tatoeba/{part}.tsv.gz" for part in ("train", "valid", "test", "made/tatoeba.en", "made/tatoeba.fr")]
DOMAINS = ("documentation", "europarl", "lexicon", "libreoffice", "stories", "tatoeba")
TABLES += [f"data/en-fr/{domain}/{part}.tsv.gz" for domain in DOMAINS for part in ("train", "valid", "test")]
TABLES += [f"data/en-fr/made/{name}.{to}.tsv.gz" for name in (*DOMAINS, "common-voice", "same") for to in ("en", "fr")]
TABLES += ["data/en-fr/made/copies.tsv.gz"]
TABLES += [f"data/cmudict/{part}.tsv.gz" for part in ("train", "valid", "test")]
TABLES += [f"data/libreoffice/{part}.tsv.gz" for part in ("train", "valid", "test", "far")]
TABLES += [
    f"data/en-fr/{domain}/train.tsv.gz"
    for domain in ("tatoeba", "europarl", "documentation", "libreoffice", "stories", "lexicon")
]
PRETRAINED = {path.name for path in (ROOT / "regard" / "pretrained").iterdir()}
SHIPPED = [f"regard/samples/{name}" for name in ("digits.tsv", "pendulum.csv")]
ALIGNED = "regard/samples/alignments/tatoeba-eng-fra.tsv"


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
    _write(desk / "data/en-fr/tatoeba/valid.tsv.gz", ["\t".join(pair) for pair in pairs[:8]])
    for name in SHIPPED:
        shutil.copy(ROOT / name, desk / name)
    _write(desk / ALIGNED, ["\t".join(pair) for pair in pairs[:4]])
    shutil.copytree(ROOT / "recipes", desk / "recipes")


def lay_everything(desk: Path) -> None:
    """Put down all that any document speaks of."""
    for put in (lay, lay_words, lay_texts, lay_labels, lay_pictures, lay_omics, lay_graphs, lay_others):
        put(desk)


def lay_words(desk: Path) -> None:
    """Put word vectors, and what they are learnt from and tested on, where the documents look for them."""
    chance = random.Random(0)
    texts = [" ".join(chance.sample(SPOKEN_OF, 8)) for _ in range(200)]
    _write(desk / "text.txt", texts)
    _write(desk / "data/imdb/unsup.jsonl.gz", [json.dumps({"text": text}) for text in texts])
    _write(desk / "data/word-eval/wordsim353.tsv", ["film\tmovie\t9", "film\tking\t2", "man\twoman\t7"])
    _write(desk / "data/word-eval/questions-words.txt", [": family", "man woman king queen"])
    vectors = np.random.default_rng(0).normal(size=(len(SPOKEN_OF), 8)).astype(np.float32)
    words = WordVectors(SPOKEN_OF, vectors)
    words.save(desk / "runs" / "words")
    words.export(desk / "vectors.txt")


def lay_texts(desk: Path) -> None:
    """Put running text where the recipes and documents of language models look for it."""
    lines = ["ROMEO:", "But soft, what light through yonder window breaks?", ""] * 8
    for name in ("tinyshakespeare/input.txt", *(f"ptb/ptb.{part}.txt.gz" for part in ("train", "valid", "test"))):
        _write(desk / "data" / name, lines)
    _write(desk / "data" / "tinymoliere" / "input.txt", ["HARPAGON.", "Au voleur ! à l'assassin !", ""] * 8)
    for part in ("train", "valid", "test"):
        _write(desk / "data" / "wikitext-2" / f"wiki.{part}.tokens", [f" = The {part} = ", " <unk> is a word . "] * 4)
    for part, language, folder in product(("train", "valid"), ("en", "fr"), ("stories", "stories-french")):
        stories = [json.dumps({"text": f"A {part} story {n}, in {language}."}) for n in range(8)]
        _write(desk / "data" / folder / f"{part}.{language}.jsonl.gz", stories)
    for name in ("book.txt", "notes/monday.txt", "notes/old/sunday.md"):
        _write(desk / name, lines)


def lay_labels(desk: Path) -> None:
    """Put labelled texts where the recipes and documents of classifiers look for them."""
    reviews = [
        {"text": f"A {word} film, number {n}.<br />", "label": word == "good"}
        for n in range(20)
        for word in ("good", "bad")
    ]
    for part in ("train", "test"):
        lines = [json.dumps({**review, "label": int(review["label"])}) for review in reviews]
        _write(desk / "data" / "imdb" / f"{part}.jsonl.gz", lines)
    for file in recipe.resolve(recipe.settings(ROOT / "recipes" / "names.yaml"))[1].data.train:
        _write(desk / "data" / file.path, [f"{file.label}{ending}" for ending in ("a", "ov", "son")])
    for part in ("train", "valid"):
        name = f"regard/samples/french-words.{part}.tsv"
        _write(desk / name, (ROOT / name).read_text(encoding="utf-8").splitlines())
    verdicts = [
        (f"a {one} {n} sleeps", f"the {two} sleeps", one == two) for n in range(8) for one in KINDS for two in KINDS
    ]
    _write(desk / "entailment.tsv", ["premise\thypothesis\tlabel", *("\t".join(map(str, row)) for row in verdicts)])
    scores = [f"{one}\t{other}\t{number % 5}.5" for number, (one, other, _) in enumerate(verdicts)]
    _write(desk / "alike.tsv", ["sentence1\tsentence2\tscore", *scores])
    ends = [(f"The {one} {n} is tired", "It sleeps", "It runs", n % 2) for n in range(8) for one in KINDS]
    _write(desk / "endings.tsv", ["premise\tchoice1\tchoice2\tlabel", *("\t".join(map(str, row)) for row in ends)])
    homes = [(one, other) for one in ("Ann", "Bob") for other in ("Rome", "Paris", "Oslo", "Bonn", "Graz")]
    asked = [
        {"question": f"Where does {one} live?", "context": f"{one} lives in {other}.", "answer": other}
        for one, other in homes
    ]
    _write(desk / "questions.jsonl", list(map(json.dumps, asked)))
    _write(desk / "reviews.csv", [f"A {word} day number {n},{word}" for n in range(20) for word in ("good", "bad")])
    agreement.write(desk / "data" / "agreement", agreement.Practice(), counts={"train": 40, "valid": 4})
    _write(desk / "cmudict.dict", [f"{a}{b} {a.upper()} AH0" for a in "bdfg" for b in "aeiou"])


def lay_pictures(desk: Path) -> None:
    """Put pictures where the recipes and documents look for them."""
    chance = np.random.default_rng(0)
    for name in ("mnist", "fashion-mnist"):
        (desk / "data" / name).mkdir(parents=True, exist_ok=True)
        for part, count in (("train", 40), ("t10k", 10)):
            labels = np.arange(count) % 10
            shades = chance.integers(0, 256, (count, 28, 28), np.uint8)
            for kind, array in (("images-idx3", shades), ("labels-idx1", labels)):
                head = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
                path = desk / "data" / name / f"{part}-{kind}-ubyte.gz"
                path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))
    parts = {"train": 40, "test": 10}
    colours = {f"{part}_pictures": chance.integers(0, 256, (n, 32, 32, 3), np.uint8) for part, n in parts.items()}
    labels = {f"{part}_labels": np.arange(count) % 10 for part, count in parts.items()}
    np.savez(desk / "data" / "cifar10.npz", **colours, **labels, classes=np.array(list("abcdefghij")))
    fill(desk / "photos", 6)
    Image.fromarray(draw("red", 99)).save(desk / "photo.jpg")
    Image.fromarray(shades[0]).save(desk / "digit.png")
    lay_captions(desk)


def lay_omics(desk: Path) -> None:
    """Put tables of omics where the recipes and documents look for them."""
    cohorts.write(desk, count=24)
    chance = np.random.default_rng(0)
    rosmap, breast = desk / "data" / "multiomics-rosmap", desk / "data" / "multiomics-breast-tcga"
    for part, count in (("tr", 24), ("te", 10)):
        for omic in (1, 2, 3):
            rows = [",".join(f"{value:.6e}" for value in row) for row in chance.random((count, 6))]
            _write(rosmap / f"{omic}_{part}.csv", rows)
            _write(rosmap / f"{omic}_featname.csv", [f"gene{omic}{number}" for number in range(6)])
        _write(rosmap / f"labels_{part}.csv", [f"{number % 2:.6e}" for number in range(count)])
    for part, omics in (("train", ("mrna", "mirna", "protein")), ("test", ("mrna", "mirna"))):
        for omic in omics:
            head = ",".join(["sample", *(f"{omic}{number}" for number in range(5))])
            rows = [f"{part}{n}," + ",".join(f"{value:.4f}" for value in chance.random(5)) for n in range(12)]
            _write(breast / f"{part}_{omic}.csv.gz", [head, *rows])
        _write(breast / f"{part}_subtype.csv", [("Basal", "Her2", "LumA")[number % 3] for number in range(12)])


def lay_graphs(desk: Path) -> None:
    """Put graphs where the recipes and documents look for them."""
    for name in ("cora", "citeseer"):
        graphs.arrays(desk / "data" / "planetoid", f"{name}.npz")
    graphs.tables(desk)


def lay_captions(desk: Path) -> None:
    """Put captions where the recipes and documents look for them: of the photographs, and of a small Flickr8k."""
    names = sorted(path.relative_to(desk).as_posix() for path in (desk / "photos").rglob("*.png"))
    _write(desk / "captions.csv", ["path,caption", *(f"{name},a {Path(name).parent.name} wall" for name in names)])
    flickr = fill(desk / "data" / "flickr8k" / "images", 6)
    names = sorted(path.relative_to(flickr).as_posix() for path in flickr.rglob("*.png"))
    lines = [
        "image,caption",
        *(f"{name},A {Path(name).parent.name} wall number {n} ." for name in names for n in range(5)),
    ]
    with gzip.open(flickr.parent / "captions.csv.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    for part, some in (("train", names[:12]), ("dev", names[12:15]), ("test", names[15:])):
        _write(flickr.parent / f"Flickr_8k.{part}Images.txt", some)


def lay_others(desk: Path) -> None:
    """Put a model of somebody else's where the documents look for one: a small GPT-2 in Hugging Face's form."""
    shape = GPTConfig(vocab=400, width=16, heads=2, hidden=64, depth=1, context=128)
    texts = ["a story about a cat and a dog", "a day at the sea"] * 4
    tokenizer = units.train(texts, UnitsConfig(kind="bpe", vocab=320), characters=200)
    model = models.build(shape)
    files = interop.written(interop.family_for(shape), shape, checkpoint.weights(model), tokenizer)
    checkpoint.write(desk / "gpt2", files)


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
                if regards(line) not in (
                    ["demo"],
                    ["bench"],
                ):  # these take seconds, which other tests spend once for all
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
        if words[:1] == ["generate"] and "--samples" in words and words[-1].endswith(".png"):
            at = words.index("--samples") + 1
            return [*words[:at], "2", *words[at + 1 :]]
        if words[:1] == ["generate"] and "--length" not in words and not words[-1].endswith(".png"):
            return [*words, "--length", "20"]
        if words[:2] == ["lab", "by-hand"]:
            return [*words, "--steps", "10"]
        if words[:3] == ["data", "make", "agreement"]:
            return [*words, "--count", "40"]
        if words[:3] == ["data", "make", "digits"]:
            return [*words, "--count", "400"]
        if words[:2] == ["lab", "agreement"]:
            return [*words, "--count", "5", "--distances", "1,4"]
        if words[:1] == ["evaluate"] and any(Path(word).name.startswith(DRAWN) for word in words):
            return [*words, "-s", "count=4"]
        if words[:1] == ["bench"] and words[1:] and words[1].endswith(".yaml"):
            return [*words[:2], *(each for each in small(words[1]) if "=" in each), "data.tokens=256", "--steps", "20"]
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
            longer = ["training.steps=40", "optim.warmup=1"] if "--pictures" in words else []  # something to look for
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
            return [*words, "training.steps=2", "data.valid=4", "data.batch=2", "training.device=cpu"]
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

"""Small files under every name that the documents and the recipes use."""

import gzip
import json
import random
import shutil
import struct
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

from regard import checkpoint, interop, models, recipe
from regard.data.tokenizers import units
from regard.data.tokenizers.units import UnitsConfig
from regard.lab.agreement import sentences as agreement
from regard.models.gpt import GPTConfig
from regard.tasks.word2vec.vectors import WordVectors
from tests.data.images.drawing import draw, fill
from tests.tasks.graphs import small as graphs
from tests.tasks.omics import cohorts

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "regard" / "samples" / "tatoeba-fra-eng.valid.tsv.gz"
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
NOT_GIVEN = ("games", "manuals", "software", "words")  # domains that a model which is given away may not learn from
TABLES += [f"data/en-fr/{domain}/train.tsv.gz" for domain in NOT_GIVEN]
TABLES += [f"data/en-fr/{domain}/{part}.tsv.gz" for domain in DOMAINS for part in ("train", "valid", "test")]
TABLES += [f"data/en-fr/made/{name}.{to}.tsv.gz" for name in (*DOMAINS, "common-voice", "same") for to in ("en", "fr")]
TABLES += ["data/en-fr/made/copies.tsv.gz"]
TABLES += [f"data/cmudict/{part}.tsv.gz" for part in ("train", "valid", "test")]
TABLES += [f"data/libreoffice/{part}.tsv.gz" for part in ("train", "valid", "test", "far")]
SHIPPED = [f"regard/samples/{name}" for name in ("digits.tsv", "pendulum.csv")]
ALIGNED = "regard/samples/alignments/tatoeba-eng-fra.tsv"


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
    shutil.copytree(ROOT / "regard/samples/prompts", desk / "regard/samples/prompts")
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
    for name, line in (("latex", r"\begin{cases} a_{i} \end{cases}"), ("c", "static int main(void) { return 0; }")):
        _write(desk / "data" / name / "input.txt", [line] * 30)
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
    files = interop.export_files(interop.family_for(shape), shape, checkpoint.weights(model), tokenizer)
    checkpoint.write(desk / "gpt2", files)


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)

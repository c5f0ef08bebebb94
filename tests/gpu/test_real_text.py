"""Everything that writes is given real text by the thousand: documents with markup, long lines, names, both languages.

On a CUDA device it is 2,000 lines; a CPU reads some of them, so that the test itself is tested everywhere.
"""

import gzip
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.tasks.trained import Answer
from regard.tasks.translation.documents import document, glossary

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = ("README.md", "README.fr.md", "CHANGELOG.md", "docs/*.md", "docs/commands/*.md", "recipes/*.yaml")
SENTENCES = ROOT / "regard" / "samples" / "tatoeba-fra-eng.valid.tsv.gz"
PHOTOGRAPHS = ROOT / "regard" / "samples" / "photographs"
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PLACES = [pytest.param("cpu", 6, id="cpu"), pytest.param("cuda", 2000, id="cuda", marks=CUDA)]
MANY = 1000  # lines; fewer are for a CPU, which is spared the longest
TERMS = (("model", "modèle"), ("file", "fichier"), ("text", "texte"), ("is", "est"))
LETTERS = 200  # of a prompt of language models: what they read before they write
WRITTEN = 8  # tokens

pytestmark = [pytest.mark.unchecked, pytest.mark.parametrize(("device", "count"), PLACES)]


@cache
def every_line() -> list[tuple[str, str]]:
    """Return all lines of this project's documents and sample sentences with their languages, mixed."""
    paths = sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern))
    lines = [
        (line, "fr" if ".fr." in path.name else "en")
        for path in paths
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    pairs = [line.split("\t") for line in gzip.decompress(SENTENCES.read_bytes()).decode("utf-8").splitlines()]
    lines += [side for english, french, *_ in pairs for side in ((english, "en"), (french, "fr"))]
    random.Random(0).shuffle(lines)
    return lines


def real_lines(count: int, language: str | None = None) -> list[str]:
    """Return some lines, of one language or of both; of many, the longest of all are among them."""
    lines = [line for line, spoken in every_line() if language in (None, spoken)]
    if count < MANY:
        lines = [line for line in lines if len(line) <= LETTERS]
    longest = sorted(lines, key=len)[-max(1, count // 100) :]
    chosen = (longest + [line for line in lines if line not in longest])[:count]
    assert len(chosen) == count, f"only {len(chosen)} lines in {language}"
    return chosen


def check(answers: Sequence[Any], count: int) -> None:
    """Fail unless there are so many answers, and every number in them is finite."""
    assert len(answers) == count
    for answer in answers:
        assert isinstance(answer, Answer)
        for number in numbers_in(answer.plain()):
            assert math.isfinite(number), answer.plain()
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # an assertion of a kernel is heard of here at the latest


def numbers_in(value: Any) -> Iterator[float]:
    """Yield every number in an answer."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from numbers_in(part)
    elif isinstance(value, float | int):
        yield float(value)


def train(task: str, device: str, out: Path, **settings: Any) -> Any:
    """Train a tiny model for a few steps and load it on the same device."""
    brief = {"steps": 3, "log_every": 1, "eval_every": 3, "save_every": 3, "device": device, "tensorboard": False}
    regard.train({"task": task, **settings, "training": brief}, out=out, quiet=True)
    return regard.load(out, device=device)


def write_lines(path: Path, lines: Sequence[str]) -> str:
    """Write lines into a file and return its name."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("to", ["fr", "en"])
def test_the_shipped_translator_translates_real_lines(device: str, count: int, to: str):
    lines = real_lines(count, "en" if to == "fr" else "fr") if device == "cpu" else real_lines(count)
    check(regard.load("en-fr", device=device).answer(lines, to=to), count)


def test_the_shipped_translator_obeys_a_glossary_in_real_lines(device: str, count: int, tmp_path: Path):
    lines = real_lines(count, "en")
    terms = glossary.load(write_lines(tmp_path / "terms.tsv", [f"{english}\t{french}" for english, french in TERMS]))
    answers = document.translate(regard.load("en-fr", device=device), lines, to="fr", terms=terms)
    assert len(answers) == count
    assert all(answer.strip() for answer in answers)


def test_the_shipped_storyteller_goes_on_from_real_lines(device: str, count: int):
    check(regard.load("stories", device=device).answer(prompts(count), length=WRITTEN, seed=0), count)


def test_the_shipped_encoder_fills_gaps_in_real_lines(device: str, count: int):
    check(regard.load("encoder", device=device, task="masked-lm").answer(with_gaps(count, "[MASK]", 30)), count)


def test_a_language_model_is_prompted_with_real_lines(device: str, count: int):
    model = regard.load("stories", device=device)
    check(regard.prompt(model, "sentiment", prompts(count)), count)


SIZES = {"width": 16, "heads": 2, "hidden": 32, "dropout": 0.0}
ENDS = {"encoder": 1, "decoder": 1}
TRANSLATORS = {
    "transformer": ("translation", {**SIZES, **ENDS}),
    "seq2seq": ("translation", {"name": "seq2seq", "width": 16, "embedding": 16, "dropout": 0.0}),
    "t5": ("text-to-text", {**SIZES, **ENDS, "depth": 8}),
}


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_of_a_few_steps_translates_real_lines(device: str, count: int, name: str, tmp_path: Path):
    task, model = TRANSLATORS[name]
    pairs = zip(*(real_lines(40, language) for language in ("en", "fr")), strict=True)
    corpus = write_lines(
        tmp_path / "pairs.tsv", ["\t".join(part.replace("\t", " ") for part in pair) for pair in pairs]
    )
    settings = {"data": {"train": {"path": corpus}, "batch_tokens": 512}, "tokenizer": {"vocab": 320}, "model": model}
    trained = train(
        task, device, tmp_path / "run", **settings, objective={"eval_examples": 1}, decoding={"longest": 12}
    )
    check(trained.answer([line[:LETTERS] for line in real_lines(count)], beams=2), count)


def prompts(count: int) -> list[str]:
    """Return the beginnings of real lines."""
    return [line[:LETTERS].strip() for line in real_lines(count)]


def with_gaps(count: int, gap: str, letters: int = LETTERS) -> list[str]:
    """Return the beginnings of real lines with a gap after the first word."""
    split = (line[:letters].replace("[MASK]", "MASK").split(" ", 1) for line in real_lines(count))
    return [f"{words[0]} {gap} {' '.join(words[1:])}".strip() for words in split]


WRITERS: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[int], list[str]], dict[str, Any]]] = {
    "causal-lm": (
        {"context": 64, "batch_size": 2},
        {**SIZES, "depth": 1, "context": 256},
        prompts,
        {"length": WRITTEN, "seed": 0},
    ),
    "span-corruption": (
        {"context": 64, "batch_size": 2},
        {**SIZES, **ENDS, "depth": 8, "context": 1024},
        lambda count: with_gaps(count, "<extra_id_0>"),
        {},
    ),
    "masked-lm": (
        {"context": 64, "batch_size": 2},
        {**SIZES, "depth": 1, "context": 1024},
        lambda count: with_gaps(count, "[MASK]"),
        {},
    ),
    "language": ({"batch_size": 2, "window": 16}, {"width": 16}, prompts, {"length": WRITTEN, "seed": 0}),
}


@pytest.mark.parametrize("task", WRITERS)
def test_a_model_of_a_few_steps_writes_after_real_lines(device: str, count: int, task: str, tmp_path: Path):
    data, model, make_inputs, options = WRITERS[task]
    inputs = make_inputs(count)
    text = write_lines(
        tmp_path / "text.txt", inputs if task == "language" else real_lines(60)
    )  # whose letters it knows
    files = {
        "train": {"path": text},
        **({"valid": {"path": text}} if task == "language" else {"validation_share": 0.2}),
    }
    units = {} if task == "language" else {"tokenizer": {"kind": "bpe", "vocab": 320}}
    trained = train(task, device, tmp_path / "run", data={**data, **files}, model=model, **units)
    check(trained.answer(inputs, **options), count)


def cut_photographs(folder: Path, count: int) -> list[str]:
    """Write so many small cuts of the shipped photographs, a folder for each of those, and return their paths."""
    chance, paths = random.Random(0), []
    for number in range(count):
        photograph = sorted(PHOTOGRAPHS.glob("*.jpg"))[number % 3]
        with Image.open(photograph) as picture:
            side = min(picture.size) // 2
            left, top = (chance.randrange(length - side) for length in picture.size)
            cut = picture.convert("RGB").crop((left, top, left + side, top + side)).resize((8, 8))
        path = folder / photograph.stem / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cut.save(path)
        paths.append(str(path))
    return paths


def test_a_captioner_of_a_few_steps_writes_about_photographs_in_the_words_of_real_lines(
    device: str, count: int, tmp_path: Path
):
    paths = cut_photographs(tmp_path, max(count // 10, 12))
    lines = [line.replace('"', "'")[:LETTERS] for line in real_lines(len(paths))]
    rows = [f'"{path}","{line}"' for path, line in zip(paths, lines, strict=True)]
    captions = write_lines(tmp_path / "captions.csv", ["path,caption", *rows])
    encoder = {"name": "vit", "width": 16, "heads": 2, "hidden": 16, "depth": 1, "patch": 4}
    settings = {
        "data": {"train": {"path": captions}, "batch_size": 4, "size": 8, "max_length": 64},
        "model": {"width": 8, "embedding": 8, "encoder": encoder},
    }
    check(train("captions", device, tmp_path / "run", **settings).answer(paths), len(paths))


def test_a_painter_of_a_few_steps_goes_on_with_photographs(device: str, count: int, tmp_path: Path):
    paths = cut_photographs(tmp_path / "photographs", max(count // 40, 12))
    settings = {
        "data": {"train": {"path": str(tmp_path / "photographs")}, "batch_size": 2, "size": 8, "validation_share": 0.2},
        "model": {"width": 8, "heads": 2, "hidden": 16, "depth": 1, "dropout": 0.0},
    }
    check(train("pixels", device, tmp_path / "run", **settings).answer(paths), len(paths))

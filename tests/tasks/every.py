"""One line for every task: a recipe so small that it trains in a blink, what to ask its model, what to score it by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from regard.data import images
from regard.tasks import TASKS
from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitFramesConfig, DigitImageConfig
from tests.conftest import sentences
from tests.data.images.drawing import draw, fill
from tests.tasks import words
from tests.tasks.graphs import small as graphs
from tests.tasks.omics import cohorts

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "regard" / "samples" / "pendulum.csv"
READER = {"name": "rnn-encoder", "width": 8, "embedding": 8, "pool": "attention"}
LABELLING = ("classification", "question-answering", "tagging")
SCORING = ("similarity", "choice")
READING = "output, reader"  # a pooler, which the body of a masked language model has not
CONVOLUTION = {"channels": [4, 4, 4]}


@dataclass(frozen=True)
class Line:
    """A task in small."""

    settings: Mapping[str, Any]
    """Its data and its model; how long to train is up to whoever does."""
    inputs: list[str]
    """What somebody would type to be answered."""
    files: list[str] = field(default_factory=list)
    """What it is scored by."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of scoring."""
    looks: bool = False
    """Whether it has attention to look at."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """Tasks whose models can be its body, and what is made anew then, if anything."""


def lines(place: Path) -> dict[str, Line]:
    """A line for every task, with its files in this folder; a task without one is not done."""
    table = {**texts(place), **pictures(place), **others(place)}
    lacking, strange = TASKS.keys() - table.keys(), table.keys() - TASKS.keys()
    assert not lacking, f"no line for {', '.join(sorted(lacking))}: add one to {Path(__file__).relative_to(ROOT)}"
    assert not strange, f"lines of no task: {', '.join(sorted(strange))}"
    return {task: table[task] for task in TASKS}


def texts(place: Path) -> dict[str, Line]:
    """Tasks that read."""
    judged = [(word, n) for n in range(40) for word in ("good", "bad")]
    pairs, labels, tags, text = (str(place / name) for name in ("pairs.tsv", "labels.tsv", "tags.txt", "text.txt"))
    rated, asked = str(place / "rated.tsv"), str(place / "questions.jsonl")
    _write(asked, (_question(word, n) for word, n in judged))
    _write(rated, ["text1\ttext2\tscore", *(f"a {word} film\tfilm {n}\t{n % 7}.5" for word, n in judged)])
    ends = str(place / "ends.tsv")
    sides = (("good", "bad") if n % 2 else ("bad", "good") for _, n in judged)
    _write(
        ends,
        ["premise\tchoice1\tchoice2\tlabel", *(f"film {n}\t{a}\t{b}\t{1 + n % 2}" for n, (a, b) in enumerate(sides))],
    )
    some = str(place / "some.tsv")
    _write(pairs, ("\t".join(pair) for pair in sentences()))
    _write(some, ("\t".join(pair) for pair in sentences()[:30]))
    _write(labels, (f"{word} film {n}\t{word}" for word, n in judged))
    _write(tags, (f"the/D film{n}/N is/V {word}/A" for word, n in judged))
    _write(text, ["masse masse"] * 40)
    sizes = {"width": 16, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 1, "dropout": 0.2}
    translation = {
        "data": {"train": {"path": pairs}, "batch_tokens": 256},
        "tokenizer": {"vocab": 320},
        "model": sizes,
        "objective": {"eval_examples": 4},
        "decoding": {"longest": 12},
    }
    return {
        "translation": Line(
            translation,
            ["Le roi dort.", "Le loup dort."],
            [some],
            looks=True,
            heads=dict.fromkeys((*LABELLING, *SCORING, "language"), "bridge, decoder"),
        ),
        "classification": Line(
            {"data": {"train": {"path": labels}, "batch_tokens": 64}, "model": READER},
            ["good film 1", "bad"],
            [labels],
            looks=True,
            heads={
                **dict.fromkeys((*LABELLING, *SCORING, "language", "translation", "causal-lm"), "output"),
                **dict.fromkeys(("masked-lm", "matching"), READING),
            },
        ),
        "tagging": Line(
            {"data": {"train": {"path": tags}, "batch_tokens": 64}, "model": {**READER, "pool": "max"}},
            ["the film is good"],
            [tags],
            heads=dict.fromkeys(
                (*LABELLING, *SCORING, "language", "translation", "causal-lm", "masked-lm", "matching"), "output"
            ),
        ),
        "similarity": Line(
            {"data": {"train": {"path": rated}, "batch_tokens": 64}, "model": READER},
            ["a good film\tfilm 3", '{"text1": "a bad film", "text2": "film 4"}'],
            [rated],
            looks=True,
            heads={
                **dict.fromkeys((*LABELLING, "choice", "language", "translation", "causal-lm"), "output"),
                **dict.fromkeys(("masked-lm", "matching"), READING),
            },
        ),
        "choice": Line(
            {"data": {"train": {"path": ends}, "batch_tokens": 64}, "model": READER},
            ["film 3\tgood\tbad", "film 4 | bad | good", '{"premise": "film 5", "choices": ["good", "bad", "odd"]}'],
            [ends],
            looks=True,
            heads={
                **dict.fromkeys((*LABELLING, "similarity", "language", "translation", "causal-lm"), "output"),
                **dict.fromkeys(("masked-lm", "matching"), READING),
            },
        ),
        "question-answering": Line(
            {
                "data": {"train": {"path": asked}, "batch_tokens": 64, "window": 16, "stride": 4},
                "model": {**READER, "pool": "max"},
            },
            ["the?\tone good film, and a bad one", '{"question": "a?", "context": "bad"}'],
            [asked],
            heads=dict.fromkeys(
                (*LABELLING, *SCORING, "language", "translation", "causal-lm", "masked-lm", "matching"), "output"
            ),
        ),
        "language": Line(
            {
                "data": {"train": {"path": text}, "valid": {"path": text}, "batch_size": 2, "window": 5},
                "model": {"width": 4},
                "writing": {"length": 8},
            },
            ["ma"],
            [text],
        ),
        "matching": Line(
            {
                "data": {"train": {"path": pairs}, "batch_size": 4},
                "tokenizer": {"kind": "characters"},
                "model": {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "dropout": 0.2, "context": 512},
            },
            ["Le roi dort.", "Le loup dort."],
            [some],
            looks=True,
            heads={"causal-lm": "", "masked-lm": ""},
        ),
        "text-to-text": Line(
            {
                **translation,
                "data": {"train": {"path": pairs, "prefix": "en:"}, "batch_tokens": 512},
                "model": {**sizes, "depth": 8},
                "tuning": {"method": "full"},
            },
            ["Le roi dort.", "en: Le loup dort."],
            [some],
            looks=True,
            heads={"span-corruption": ""},
        ),
        **pretraining(text, pairs),
    }


def pretraining(text: str, pairs: str) -> dict[str, Line]:
    """Tasks that read plain text without being told anything about it."""
    data = {"train": {"path": text}, "validation_share": 0.2, "context": 16, "batch_size": 4}
    sizes = {"width": 16, "heads": 2, "hidden": 16, "context": 16, "dropout": 0.2}
    units = {"kind": "characters"}
    return {
        "causal-lm": Line(
            {
                "data": data,
                "tokenizer": units,
                "model": {**sizes, "depth": 1, "context": 512},
                "writing": {"length": 8},
            },
            ["ma"],
            [text],
            looks=True,
            heads={"translation": ""},
        ),
        "masked-lm": Line(
            {"data": {**data, "pairs": {"path": pairs}}, "tokenizer": units, "model": {**sizes, "depth": 1}},
            ["ma[MASK]se"],
            [text],
            looks=True,
            heads={"matching": "bias, head, next_sentence, pooler"},
        ),
        "span-corruption": Line(
            {
                "data": data,
                "tokenizer": units,
                "model": {**sizes, "depth": 8, "encoder": 1, "decoder": 1},
            },
            ["ma<extra_id_0>e"],
            [text],
            looks=True,
        ),
    }


def pictures(place: Path) -> dict[str, Line]:
    """Tasks that see."""
    digit, frames = place / "digit.png", [str(place / f"frame{number}.png") for number in range(3)]
    images.write(digit, digit_scenes.scene_dataset(DigitImageConfig(), "valid")[0].image)
    for frame, picture in zip(frames, digit_scenes.scene_dataset(DigitFramesConfig(), "valid")[0].images, strict=False):
        images.write(Path(frame), picture)
    settings = {"data": {"valid": 4, "batch_size": 2}, "model": CONVOLUTION}
    photos = fill(place / "photos", 6)
    patches = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "patch": 4, "dropout": 0.2, "stochastic_depth": 0.2}
    mixed = {"shift": 0.1, "flip": True, "operations": 1, "mixup": 0.5, "cutmix": 1.0, "erase": 0.2}
    Image.fromarray(draw("red", 99, 4, 4)).save(place / "pixels.png")
    captions = str(photos / "captions.csv")
    told = (f"{path.relative_to(photos)},a {path.parent.name} thing" for path in sorted(photos.rglob("*.png")))
    _write(captions, ["path,caption", *(f"{line}{end}" for line in told for end in ("", " is there"))])
    written = {"attention": "hard", "width": 8, "embedding": 8, "encoder": {"name": "vit", **patches}}
    return {
        "pictures": Line(
            {"data": {"train": {"path": str(photos)}, "batch_size": 4, "size": 8}, "augment": mixed, "model": patches},
            [str(photos / "red" / "00.png"), str(photos / "blue" / "01.png")],
            [str(photos)],
            looks=True,
        ),
        "pixels": Line(
            {
                "data": {"train": {"path": str(photos)}, "batch_size": 2, "size": 4, "validation_share": 0.2},
                "model": {"width": 8, "heads": 2, "hidden": 16, "depth": 1, "dropout": 0.2},
            },
            [str(place / "pixels.png")],
            [str(photos / "red")],
            options={"fit": "crop"},
            looks=True,
        ),
        "gan": Line(
            {
                "data": {"train": {"path": str(photos)}, "batch_size": 4, "size": 8},
                "model": {"widths": [16, 8, 8], "noise": 4},
                "objective": {"eval_examples": 8},
            },
            ["red", "blue"],
            [str(photos)],
            options={"count": 8},
            looks=True,
        ),
        "captions": Line(
            {"data": {"train": {"path": captions}, "batch_size": 4, "size": 8, "max_length": 12}, "model": written},
            [str(photos / "red" / "00.png"), str(photos / "blue" / "01.png")],
            [captions],
            looks=True,
            heads={"pictures": "bridge, decoder, embedding, norm"},
        ),
        "localisation": Line(settings, [str(digit)], options={"count": 4}),
        "counting": Line(settings, frames, options={"count": 4}),
    }


def others(place: Path) -> dict[str, Line]:
    """Tasks of numbers and of words."""
    columns = {"target": "period", "inputs": ["length", "angle", "gravity"]}
    text, questions = words.write(place / "words.txt", lines=300), str(place / "questions.txt")
    _write(questions, [": classes", "nouna nounb verba verbb"])
    learnt = {name: value for name, value in words.recipe(text).items() if name in ("data", "model")}
    tables = cohorts.write(place / "cohort", lacking={"protein": 4})
    omics = {"data": {**cohorts.data(place / "cohort"), "batch_size": 8}, "model": {"modules": 4, "dropout": 0.2}}
    remembering = {
        "kind": "recall",
        "bits": 3,
        "min_length": 2,
        "max_length": 3,
        "item": 2,
        "batch_size": 2,
        "valid": 4,
    }
    return {
        "omics": Line(
            omics,
            [f"{' '.join(tables)} sample=s3", f"{tables[1]} {tables[0]} sample=s39"],
            tables,
            options={"labels": str(place / "cohort" / "labels.csv")},
            looks=True,
        ),
        "remembering": Line(
            {"data": remembering, "model": {"width": 8, "places": 8, "depth": 4}},
            ["110 001 / 111 000 ? 110 001", "101 101 / 111 000 / 000 110 ? 111 000"],
            options={"count": 4},
            looks=True,
        ),
        "regression": Line(
            {"data": {"train": str(TABLE), "batch_size": 16, **columns}, "model": {"hidden": [8]}},
            ["length=1,angle=10,gravity=9.81"],
            [str(TABLE)],
        ),
        "node-classification": Line(
            {
                "data": {"train": dict(zip(("edges", "nodes"), graphs.tables(place / "graph"), strict=True))},
                "model": {"width": 4, "heads": 2},
            },
            ["n0", "n6"],
            list(graphs.tables(place / "graph")),
            looks=True,
        ),
        "word2vec": Line(learnt, ["nouna", "verbb"], [questions]),
    }


def _question(word: str, number: int) -> str:
    """A question whose answer stands in a context that is longer than a window; none for every fourth."""
    context = f"a {word}  film, number {number}, and {'x' * (number % 3)} then another one that nobody has seen"
    answers = [] if number % 4 == 0 else [{"text": word, "answer_start": context.index(word)}]
    return json.dumps({"question": "a?", "context": context, "answers": answers})


def _write(path: str, rows: Any) -> None:
    Path(path).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")

"""Which examples each task holds out of the same files, recorded: a resumed run finds the split it began with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard import config
from regard.data.images import image_dataset as pictures
from regard.data.images.image_dataset import ImageDataConfig
from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.answering.files import QuestionFile, read_questions, split_questions
from regard.tasks.captions import dataset as captions
from regard.tasks.captions.dataset import CaptionsConfig
from regard.tasks.embedding import pairs as matching
from regard.tasks.embedding.pairs import MatchingData
from regard.tasks.graphs import files as graphs
from regard.tasks.graphs.files import GraphConfig
from regard.tasks.omics import samples as omics
from regard.tasks.omics.files import OmicsConfig
from regard.tasks.pixels import dataset as pixels
from regard.tasks.pixels.dataset import PixelsConfig
from regard.tasks.pretraining import corpus
from regard.tasks.pretraining.documents import DocumentsConfig
from regard.tasks.tables import files as tables
from regard.tasks.tables.files import TableConfig
from regard.tasks.text_encoders.examples import read_examples, split_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_labels.choice_file import ChoiceFile
from regard.tasks.text_labels.comparison_split import split_for_comparison
from regard.tasks.text_labels.files import LabelsConfig
from regard.tasks.text_labels.tagged_file import TaggedFile
from regard.tasks.translation.indexing import Rules, survey

COUNT = 40


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def sentence(number: int) -> str:
    """A text of which every tenth is there twice, written otherwise."""
    return f"Film, number {number - 1}!" if number % 10 == 9 else f"film number {number}"


def hold_labels(place: Path) -> list[int]:
    path = write(place / "labels.tsv", [f"{sentence(n)}\t{'good' if n % 2 else 'bad'}" for n in range(COUNT)])
    _, held = split_examples(read_examples([LabelledFile(path=path)], {}, 0.0), 0.2)
    return [example.place[1] for example in held.examples]


def hold_pairs_of_texts(place: Path) -> list[int]:
    lines = [
        "text1\ttext2\tlabel",
        *(f"{sentence(n)}\tfilm {n % 7}\t{'same' if n % 2 else 'other'}" for n in range(COUNT)),
    ]
    _, held = split_examples(read_examples([LabelledFile(path=write(place / "pairs.tsv", lines))], {}, 0.0), 0.2)
    return [example.place[1] for example in held.examples]


def hold_tags(place: Path) -> list[int]:
    path = write(place / "tags.txt", [f"the/D film{n}/N is/V {'good' if n % 2 else 'bad'}/A" for n in range(COUNT)])
    _, held = split_examples(read_examples([TaggedFile(path=path)], {}, 0.0), 0.2)
    return [example.place[1] for example in held.examples]


def hold_choices(place: Path) -> list[int]:
    lines = [f"{sentence(n)}\tgood\tbad{n}\t{1 + n % 2}" for n in range(COUNT)]
    path = write(place / "choices.tsv", ["premise\tchoice1\tchoice2\tlabel", *lines])
    _, held = split_examples(read_examples([ChoiceFile(path=path)], {}, 0.0), 0.2)
    return [example.place[1] for example in held.examples]


def divide_labels(place: Path) -> list[int]:
    path = write(place / "divided.tsv", [f"{sentence(n)}\t{'good' if n % 2 else 'bad'}" for n in range(COUNT)])
    return [
        example.place[1] for example in split_for_comparison(LabelsConfig(train=(LabelledFile(path=path),)), 0.3).test
    ]


def hold_questions(place: Path) -> list[int]:
    asked = [{"question": f"what {n}?", "context": sentence(n // 2), "answers": []} for n in range(COUNT)]
    path = write(place / "questions.jsonl", [json.dumps(each) for each in asked])
    _, held = split_questions(read_questions([QuestionFile(path=path)], 0.0), 0.2)
    return [int(question.place.rpartition(":")[2]) for question in held.questions]


def hold_matching(place: Path) -> list[int]:
    path = write(place / "matching.tsv", [f"{sentence(n // 2)}\tother {n % 13}" for n in range(COUNT)])
    data = config.build(MatchingData, {"train": {"path": path}, "validation_share": 0.1}, where="data")
    sides = matching.split_pairs(data)
    return [line for _, line in sides.valid.origins] + [-line for _, line in sides.train.origins]


def hold_rows(place: Path) -> list[int]:
    lines = [f"{n % 30},{n * n % 17},{n}" for n in range(COUNT)]
    path = write(place / "table.csv", ["a,b,y", *lines])
    found = tables.prepare(
        config.build(TableConfig, {"train": path, "target": "y", "inputs": ["a", "b"]}, where="data")
    )
    return [int(where.rpartition(":")[2]) for where in found.valid.places]


def hold_rows_by_seed(place: Path) -> list[int]:
    path = write(place / "table.csv", ["a,b,y", *(f"{n % 30},{n * n % 17},{n}" for n in range(COUNT))])
    settings = {"train": path, "target": "y", "inputs": ["a", "b"], "seed": 3, "validation_share": 0.1}
    return [
        int(where.rpartition(":")[2])
        for where in tables.prepare(config.build(TableConfig, settings, where="data")).valid.places
    ]


def hold_samples(place: Path) -> list[int]:
    for number, name in enumerate(("mrna", "mirna")):
        rows = [f"s{n},{n % 19 + number},{n * n % 23}" for n in range(COUNT)]
        write(place / f"{name}.csv", ["sample,a,b", *rows])
    write(place / "labels.csv", ["sample,label", *(f"s{n},{'ill' if n % 3 else 'well'}" for n in range(COUNT))])
    named = {"train": [str(place / "mrna.csv"), str(place / "mirna.csv")], "labels": str(place / "labels.csv")}
    found = omics.prepare(config.build(OmicsConfig, named, where="data"))
    return [int(name[1:]) for name in found.valid.names]


def hold_nodes(place: Path) -> list[int]:
    edges = write(place / "edges.csv", ["source,target", *(f"n{n},n{(n + 1) % COUNT}" for n in range(COUNT))])
    rows = [f"n{n},{('red', 'blue', '')[n % 3]},{n},{n % 7}" for n in range(COUNT)]
    nodes = write(place / "nodes.csv", ["id,label,a,b", *rows])
    found = graphs.prepare(config.build(GraphConfig, {"train": {"edges": edges, "nodes": nodes}}, where="data"))
    return found.graph.parts["valid"].tolist()


def draw_pictures(place: Path) -> Path:
    """Pictures of 8 x 8 in two folders, some of them equal, that no library has to resize."""
    for number in range(COUNT):
        folder = place / ("red" if number % 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        value = number - 8 if number % 10 == 9 else number
        grid = (np.arange(8 * 8 * 3).reshape(8, 8, 3) * (value + 3) + 7 * value) % 256
        Image.fromarray(grid.astype(np.uint8)).save(folder / f"{number:02}.png")
    return place


def hold_pictures(place: Path) -> list[int]:
    settings = {"train": str(draw_pictures(place / "photos")), "size": 8, "validation_share": 0.2}
    found = pictures.prepare(config.build(ImageDataConfig, settings, where="data"))
    held = [found.valid.place(number) for number in range(len(found.valid))]
    learnt = [found.train.place(number) for number in range(len(found.train))]
    return [int(Path(path).stem) for path in held] + [-int(Path(path).stem) for path in learnt]


def limit_pictures(place: Path) -> list[int]:
    settings = {
        "train": str(draw_pictures(place / "photos")),
        "size": 8,
        "validation_share": 0.1,
        "seed": 2,
        "max_images": 9,
    }
    found = pictures.prepare(config.build(ImageDataConfig, settings, where="data"))
    held = [found.valid.place(number) for number in range(len(found.valid))]
    learnt = [found.train.place(number) for number in range(len(found.train))]
    return [int(Path(path).stem) for path in held] + [-int(Path(path).stem) for path in learnt]


def hold_pixels(place: Path) -> list[int]:
    settings = {"train": str(draw_pictures(place / "photos")), "size": 8, "validation_share": 0.2}
    found = pixels.prepare(config.build(PixelsConfig, settings, where="data"))
    return [int(Path(found.valid.place(number)).stem) for number in range(len(found.valid))]


def hold_captions(place: Path) -> list[int]:
    photos = sorted(draw_pictures(place / "photos").rglob("*.png"))
    lines = [f"{path.relative_to(place)},a {path.parent.name} thing" for path in photos]
    path = write(place / "captions.csv", ["path,caption", *lines])
    settings = config.build(CaptionsConfig, {"train": path, "size": 8, "validation_share": 0.2}, where="data")
    found = captions.prepare(settings, TokenizerConfig(vocab=40))
    return [int(Path(found.valid.name(number)).stem) for number in range(len(found.valid))]


def hold_documents(place: Path) -> list[int]:
    path = write(place / "documents.jsonl", [json.dumps({"text": f"{sentence(n)} of the wolf"}) for n in range(COUNT)])
    settings = config.build(DocumentsConfig, {"train": path, "validation_share": 0.2}, where="data")
    found = corpus.prepare(settings, UnitsConfig())
    held = [found.valid.place(number) for number in range(found.valid.documents)]
    return [int(where.rpartition(":")[2]) for where in held]


def hold_translations(place: Path) -> list[int]:
    path = write(place / "translations.tsv", [f"{sentence(n // 2)}\tautre {n % 13}" for n in range(COUNT)])
    rules = Rules(reject=0.0, held=3, held_share=0.5)
    found = survey([Corpus(path=path)], [], rules, scratch=place)
    return [line for _, line in sorted(found.held.lines)]


RECORDED: dict[Callable[[Path], list[int]], list[int]] = {
    hold_labels: [1, 24, 26, 27, 28, 29, 30, 39, 40],
    hold_pairs_of_texts: [2, 20, 23, 27, 29, 31, 32, 36],
    hold_tags: [6, 7, 16, 20, 22, 24, 30, 40],
    hold_choices: [2, 25, 27, 28, 29, 30, 31, 40, 41],
    divide_labels: [1, 11, 12, 24, 25, 26, 27, 28, 29, 30, 39, 40],
    hold_questions: [1, 2, 13, 14, 21, 22, 23, 24],
    hold_matching: [
        1,
        2,
        13,
        14,
        21,
        22,
        23,
        24,
        -3,
        -4,
        -5,
        -6,
        -7,
        -12,
        -16,
        -17,
        -18,
        -19,
        -20,
        -25,
        -29,
        -30,
        -31,
        -32,
        -33,
        -38,
    ],
    hold_rows: [5, 8, 15, 18, 23, 29, 33, 35],
    hold_rows_by_seed: [7, 13, 19, 26],
    hold_samples: [7, 9, 11, 13, 18, 19, 36, 38],
    hold_nodes: [7, 12, 15, 22, 27, 31],
    hold_pictures: [
        0,
        20,
        30,
        32,
        3,
        21,
        23,
        29,
        -2,
        -4,
        -6,
        -8,
        -10,
        -12,
        -14,
        -16,
        -18,
        -22,
        -24,
        -26,
        -28,
        -34,
        -36,
        -38,
        -1,
        -5,
        -7,
        -9,
        -11,
        -13,
        -15,
        -17,
        -19,
        -25,
        -27,
        -31,
        -33,
        -35,
        -37,
        -39,
    ],
    limit_pictures: [12, 38, 3, 33, -4, -8, -20, -26, -28, -1, -9, -35, -37],
    hold_pixels: [0, 32, 3, 21, 23, 29, 35, 37],
    hold_captions: [4, 18, 32, 3, 7, 11, 19, 33],
    hold_documents: [3, 15, 17, 23, 28, 32, 39, 40],
    hold_translations: [1, 21, 23],
}


@pytest.mark.parametrize("choose", RECORDED, ids=lambda choose: choose.__name__)
def test_the_examples_held_out_of_a_file_stay_the_same(choose: Callable[[Path], list[int]], tmp_path: Path) -> None:
    assert choose(tmp_path) == RECORDED[choose]

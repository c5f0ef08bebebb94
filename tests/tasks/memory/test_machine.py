"""A machine is trained on drawn sequences, answers typed ones, counts its wrong bits and shows where its heads look."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from regard import config, models, recipe
from regard.cli import run
from regard.models.per_step import PerStepConfig
from regard.tasks.memory.machine import Machine
from regard.tasks.memory.sequences import SequencesConfig
from regard.tasks.memory.task import Memory, MemoryRecipe, bit_loss, count_wrong_bits, draw_validation_batches
from tests.tasks.small import by_heart, halves_add_up

BRIEF = {"steps": 2, "device": "cpu", "tensorboard": False, "threads": 1}
SIZES = {"width": 8, "places": 12, "depth": 4, "reads": 2}
DATA = {"bits": 3, "max_length": 4, "batch_size": 2, "valid": 8}
KINDS = {"copy": {}, "repeat-copy": {"repeats": 2}, "recall": {"min_length": 2, "item": 2}}
PLAIN = {"name": "rnn-per-step", "width": 8}  # an LSTM without a memory


def settings(kind: str = "copy", **model: object) -> dict:
    data = {**DATA, "kind": kind, **KINDS[kind]}
    return {"task": "remembering", "data": data, "model": {**SIZES, **model}, "training": BRIEF}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind, hardly trained, and one of a network without a memory."""
    place = tmp_path_factory.mktemp("machines")
    for kind in KINDS:
        recipe.train(settings(kind), out=place / kind, quiet=True)
    plain = settings() | {"model": PLAIN}
    recipe.train(plain, out=place / "lstm", quiet=True)
    return place


def said(capsys, *words: object) -> str:
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def complaint(capsys, *words: object) -> str:
    assert run([str(word) for word in words]) != 0
    told = capsys.readouterr().err
    assert told.count("\n") == 1, told
    return told


class Backwards(torch.nn.Module):
    """Says what it reads, the last first."""

    config = PerStepConfig(width=1)

    def __init__(self) -> None:
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., :3].flip(1)


def test_wrong_bits_are_counted_where_an_answer_counts():
    batch = draw_validation_batches(SequencesConfig(**DATA))[-1]
    right = 2 * batch.targets - 1
    assert count_wrong_bits(right, batch).tolist() == [0] * len(batch)
    wrong = right.clone()
    wrong[0, -1] *= -1  # all three bits of the last vector
    wrong[1, 0] *= -1  # nothing is answered yet
    assert count_wrong_bits(wrong, batch).tolist() == [3, 0, *[0] * (len(batch) - 2)]
    assert bit_loss(100 * right, batch) < 1e-6
    torch.testing.assert_close(bit_loss(0 * right, batch), batch.scored.sum() * 3 * torch.tensor(2.0).log())


def test_wrong_bits_are_those_of_the_answer():
    machine = Machine(Backwards(), SequencesConfig(**DATA))
    straight, turned = machine.remember(["110 110", "110 001"])
    assert (straight.answer, straight.right, straight.errors, straight.bits) == ("110 110", "110 110", 0, 6)
    assert (turned.answer, turned.right, turned.errors) == ("001 110", "110 001", 6)
    one = machine.evaluate(length=1, count=20).metrics
    assert one == {"bit errors, share": 0, "bit errors a sequence": 0, "sequences right, %": 100}
    two = machine.evaluate(length=2, count=50)
    assert two.metrics["bit errors, share"] == pytest.approx(two.metrics["bit errors a sequence"] / 6)
    assert 0 < two.metrics["bit errors, share"] < 1


@pytest.mark.parametrize("kind", KINDS)
def test_validation_has_every_length_there_is_room_for(kind):
    data = SequencesConfig(**{**DATA, "kind": kind, **KINDS[kind], "valid": 30})
    batches = draw_validation_batches(data)
    assert len({each.inputs.shape[1] for each in batches}) == data.max_length - data.min_length + 1
    assert sum(map(len, batches)) >= 30


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_says_what_is_right_and_where_each_head_looked_most(kind, folder, capsys):
    answer = json.loads(said(capsys, "predict", folder / kind, "--length", 3, "--json"))
    assert answer["errors"] <= answer["bits"]
    assert len(answer["answer"].split()) == len(answer["right"].split())
    assert answer["right"].endswith(" stop") == (kind == "repeat-copy")
    assert [len(answer["read"]), len(answer["write"])] == [2, 1]
    assert all(0 <= step["place"] < 12 and 0 < step["weight"] <= 1 for step in answer["read"][0])
    assert said(capsys, "predict", folder / kind, answer["input"]) == f"{answer['answer']}\n"
    assert said(capsys, "predict", folder / kind, "--length", 3) == f"{answer['answer']}\n"


def test_input_output_and_weights_stand_in_one_picture(folder, capsys, tmp_path):
    told = said(capsys, "predict", folder / "copy", "--length", 12, "-o", tmp_path / "ntm.png")
    assert told.startswith(str(tmp_path / "ntm.png"))
    with Image.open(tmp_path / "ntm.png") as picture:
        assert min(picture.size) > 500
    figure = recipe.load(folder / "copy", device="cpu").picture("110 001")
    read, answer = (axes.images[0].get_array() for axes in figure.axes[:2])
    assert "wrong bits of 6 (guessing: 3)" in figure.get_suptitle()
    assert read[:3, :2].T.tolist() == [[1, 1, 0], [0, 0, 1]]
    assert read.mask[:3, 2:].all(), "silence is blank"
    assert answer.mask[:, :3].all(), "and so is what nobody asked for"
    assert not answer.mask[:, 3:].any()
    said(capsys, "predict", folder / "lstm", "110 001", "-o", tmp_path / "lstm.svg")
    assert "answer" in (tmp_path / "lstm.svg").read_text()
    two = complaint(capsys, "predict", folder / "copy", "110", "001", "-o", tmp_path / "two.png")
    assert "shows one answer and 2 inputs were given" in two


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_length_asked_for(kind, folder, capsys):
    found = json.loads(said(capsys, "evaluate", folder / kind, "--length", 4, "--json", "-s", "count=7"))
    assert found["sequences"] == 7
    share, wrong = (found["metrics"][name]["score"] for name in ("bit errors, share", "bit errors a sequence"))
    bits = {"copy": 12, "repeat-copy": 4 * (4 * 2 + 1), "recall": 6}[kind]
    assert abs(share * bits - wrong) < 1e-9
    assert "length" in said(capsys, "evaluate", folder / kind)


def test_a_trace_holds_the_weights_of_every_head(folder, capsys, tmp_path):
    machine = recipe.load(folder / "copy", device="cpu")
    trace = machine.look("110 001")
    assert [one.name for one in trace.weights] == ["write", "read"]
    assert [tuple(one.values.shape) for one in trace.weights] == [(1, 5, 12), (2, 5, 12)]
    assert [item.text for item in trace.items["step"]] == ["110", "001", "mark", "·", "·"]
    for end in ("png", "json", "html", "csv"):
        said(capsys, "explain", folder / "copy", "110 001", "-o", tmp_path / f"trace.{end}")
    with pytest.raises(ValueError, match="has no attention to look at"):
        recipe.load(folder / "lstm", device="cpu").look("110")


def test_what_cannot_be_is_said_in_a_line(folder, capsys):
    copy = folder / "copy"
    long = "a sequence of 13 vectors is longer than the memory of 12 places: choose a shorter one"
    assert long in complaint(capsys, "predict", copy, "--length", 13)
    assert long in complaint(capsys, "evaluate", copy, "--length", 13)
    assert long in complaint(capsys, "predict", copy, " ".join(["110"] * 13))
    assert "a sequence of 14 vectors" in complaint(capsys, "predict", folder / "recall", "--length", 7)
    assert "length 0: choose one from 1 to 1,000" in complaint(capsys, "predict", copy, "--length", 0)
    assert "length 1: choose one from 2 to" in complaint(capsys, "evaluate", folder / "recall", "--length", 1)
    assert "give no other input" in complaint(capsys, "predict", copy, "110", "--length", 3)
    assert "cannot be read as vectors of 3 bits" in complaint(capsys, "predict", copy, "11")
    assert "give no files" in complaint(capsys, "evaluate", copy, "pairs.tsv")
    assert "count 0" in complaint(capsys, "evaluate", copy, "-s", "count=0")
    assert "count must be a whole number, not 'many'" in complaint(capsys, "evaluate", copy, "-s", "count=many")
    assert "was trained to copy, leave it out" in complaint(capsys, "evaluate", copy, "-s", "repeats=2")
    again = ("evaluate", folder / "repeat-copy", "-s")
    assert long in complaint(capsys, *again, "repeats=2", "--length", 13)
    assert "repeats must be a whole number from 1" in complaint(capsys, *again, "repeats=0")
    assert said(capsys, "evaluate", folder / "lstm", "--length", 13), "a network without a memory has no end of it"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": {"places": 3}}, "data.max_length: a sequence of 4 vectors is longer than the memory of 3 places"),
        ({"model": {"places": 4, "shifts": 2}}, "shifts of up to 2 either way are 5, and the memory has 4 places"),
        ({"training": {"epochs": 1}}, "nothing that is drawn comes twice, give training.steps"),
    ],
)
def test_a_recipe_that_cannot_be_learnt_is_refused(change, told, tmp_path):
    asked = settings()
    for section, more in change.items():
        asked[section] = {**asked[section], **more}
    with pytest.raises(ValueError, match=told):
        recipe.train(asked, out=tmp_path / "run", quiet=True)


@pytest.mark.unchecked
@pytest.mark.parametrize("model", [{"controller": "lstm"}, {"controller": "feedforward"}, PLAIN])
def test_a_network_learns_one_row_by_heart_and_its_halves_add_up(model):
    asked = settings(**model) if "controller" in model else settings() | {"model": {**model, "width": 32}}
    asked["data"] |= {"max_length": 2}
    found: MemoryRecipe = config.build(MemoryRecipe, asked)
    found = Memory.fill_sizes(found, found.data)
    torch.manual_seed(0)
    task = Memory(found, found.data, models.build(found.model))
    halves_add_up(task)
    assert by_heart(task, steps=100, rate=0.02) < 0.05

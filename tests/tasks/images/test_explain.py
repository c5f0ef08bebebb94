"""Where a classifier of pictures looked, through `look` and the command that explains."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.interpret.measure import maps
from regard.tasks.images import explain
from regard.tasks.images.second_look import brightest_box
from tests.data.images.drawing import fill

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

PATCHES = {"width": 16, "heads": 2, "hidden": 16, "depth": 2, "patch": 4}
SMALL = {"name": "resnet", "widths": [8, 16], "depths": [1, 1], "stem": "small"}


@pytest.fixture(scope="module", params=["vit", "resnet"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of colours after two steps."""
    place = tmp_path_factory.mktemp(request.param)
    photos = fill(place / "photos", 6)
    recipe = {
        "task": "pictures",
        "data": {"train": {"path": str(photos)}, "batch_size": 4, "size": 16},
        "model": PATCHES if request.param == "vit" else SMALL,
        "training": {"steps": 2, "eval_every": 2, "save_every": 2, "tensorboard": False},
    }
    regard.train(recipe, out=place / "run", quiet=True)
    return place


def test_a_look_holds_the_picture_and_a_map_for_each_label_by_each_method(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier, photo = regard.load(folder / "run"), folder / "photos" / "red" / "00.png"
    classifier.temperature = 0.5  # the curves begin and end with the probability of the answer
    trace = classifier.look(photo)
    answer = classifier.classify([photo])[0]
    assert [item.text for item in trace.items["asked"]] == list(answer.all)
    pixels = classifier.normalise(classifier.decode_images([photo]))
    assert torch.equal(trace.pictures["source"].permute(2, 0, 1)[None], classifier.decode_images([photo]))
    for method in maps.methods(classifier.model):
        found = trace.find(method).values[0]
        for item, row in zip(trace.items["asked"], found, strict=True):
            label = torch.tensor([classifier.classes.index(item.text)])
            truth = maps.evidence_maps(classifier.model, pixels, label, method).flatten()
            torch.testing.assert_close(row[-len(truth) :], truth)
    assert trace.facts["answers"][0] == [answer.label, round(answer.probability, 6)]
    with monkeypatch.context() as patch:
        patch.setattr(explain, "LISTED_ANSWERS", 1)
        patch.setattr(explain, "EXPLAINED_LABELS", 1)
        label, chance = list(answer.all.items())[-1]
        assert classifier.look(photo, about=label).facts["answers"][1] == [label, round(chance, 6)]
    curves = {each["name"]: each["values"] for each in trace.facts["curves"]}
    assert curves["deletion"][0] == pytest.approx(answer.probability, abs=1e-5) == curves["insertion"][-1]
    assert curves["deletion"][-1] == pytest.approx(curves["insertion"][0], abs=1e-5)
    for each in trace.facts["curves"]:
        assert [each["control"][place] for place in (0, -1)] == pytest.approx(
            [each["values"][place] for place in (0, -1)], abs=1e-5
        )
        for values, area in ((each["values"], each["area"]), (each["control"], each["control_area"])):
            assert area == pytest.approx(np.trapezoid(values, dx=1 / (len(values) - 1)), abs=1e-4)


def test_two_pictures_make_one_page_with_the_maps_of_both(folder: Path, tmp_path: Path) -> None:
    photos = [str(folder / "photos" / colour / "00.png") for colour in ("red", "green")]
    path, command = tmp_path / "pair.html", ["explain", str(folder / "run"), *photos]
    done = CliRunner().invoke(app, [*command, "-o", str(path)])
    assert done.exit_code == 0, done.output
    view = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"))[1])
    classifier = regard.load(folder / "run", device="cpu")
    for shown, photo in zip((view, view["other"]), photos, strict=True):
        trace = classifier.look(photo)
        assert shown["facts"]["answer"] == trace.facts["answer"]
        assert [attention["name"] for attention in shown["attentions"]] == [entry.name for entry in trace.weights]
        assert shown["pictures"]["source"]["source"].startswith("data:image/png")
    assert view["pictures"] != view["other"]["pictures"]
    alone = CliRunner().invoke(app, command)
    assert "give one input to explain, not 2" in str(alone.exception), "only a page has room for both"


def test_the_command_shows_regions_writes_pictures_and_asks_about_labels(folder: Path, tmp_path: Path) -> None:
    photo, run = str(folder / "photos" / "red" / "00.png"), CliRunner()
    shown = run.invoke(app, ["explain", str(folder / "run"), photo, "--about", "green", "--attention", "gradcam"])
    assert shown.exit_code == 0, shown.output
    assert "gradcam: where in the picture, not why" in shown.output
    assert shown.output.index("\ngreen 0.") < shown.output.index("\nred 0.")
    assert "█ from 75 % of the highest)" in shown.output
    for name in ("page.html", "picture.png", "trace.json"):
        done = run.invoke(app, ["explain", str(folder / "run"), photo, "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    with Image.open(tmp_path / "picture.png") as drawn:
        assert drawn.width > 400
    assert json.loads((tmp_path / "trace.json").read_text())["pictures"] == ["source"]
    priced = Path(photo).with_name("$x^{ for $y.png")
    priced.write_bytes(Path(photo).read_bytes())
    one = ["explain", str(folder / "run"), str(priced), "--attention", "gradcam", "-o", str(tmp_path / "one.png")]
    done = run.invoke(app, one)
    priced.unlink()
    assert done.exit_code == 0, "a dollar begins no formula"
    with Image.open(tmp_path / "one.png") as drawn:
        assert drawn.width == 600, "the picture and the one method that was named"
    beyond = run.invoke(app, ["explain", str(folder / "run"), photo, "--attention", "gradcam", "--head", "7"])
    assert "gradcam has heads 0 to 0, not 7" in str(beyond.exception)
    wrong = run.invoke(app, ["explain", str(folder / "run"), photo, "--about", "violet"])
    assert wrong.exit_code
    assert "'violet' is no label" in str(wrong.exception or wrong.output)


def test_two_questions_about_a_picture_have_two_maps_beside_each_other(folder: Path, tmp_path: Path) -> None:
    classifier, photo, run = regard.load(folder / "run"), folder / "photos" / "red" / "00.png", CliRunner()
    trace = classifier.look(photo, about=["green", "red"])
    assert [item.text for item in trace.items["asked"]] == trace.facts["questions"] == ["green", "red"]
    for method in maps.methods(classifier.model):
        for number, label in enumerate(("green", "red")):
            alone = classifier.look(photo, about=label).find(method).values[0, 0]
            torch.testing.assert_close(trace.find(method).values[0, number], alone)
    assert "questions" not in classifier.look(photo, about="green").facts
    asked = ["explain", str(folder / "run"), str(photo), "--about", "green", "--about", "red"]
    for name, words, rows in (("all.png", [], len(maps.methods(classifier.model))), ("one.png", ["gradcam"], 1)):
        done = run.invoke(app, [*asked, *(["--attention", *words] if words else []), "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        with Image.open(tmp_path / name) as drawn:
            assert drawn.width / drawn.height == pytest.approx(6 / (2 * rows + 0.9), rel=0.05)  # three panels in a row
    wrong = run.invoke(app, [*asked, "--about", "violet"])
    assert "'violet' is no label" in str(wrong.exception)


def test_a_second_look_reads_the_brightest_part_in_the_resolution_of_the_file(folder: Path, tmp_path: Path) -> None:
    classifier, run = regard.load(folder / "run"), CliRunner()
    shades = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)  # four times what the model reads
    Image.fromarray(shades).save(tmp_path / "fine.png")
    look = classifier.look_again(tmp_path / "fine.png", zoom=4)
    first = classifier.classify([tmp_path / "fine.png"])[0]
    assert (look.first.label, look.first.probability) == (first.label, first.probability)
    left, top = (round(share * 64) for share in look.box[:2])
    assert torch.equal(look.part, torch.from_numpy(shades[top : top + 16, left : left + 16]).permute(2, 0, 1))
    assert look.second.all == classifier.classify([look.part.permute(1, 2, 0).numpy()])[0].all
    map_of_answer = classifier.look(tmp_path / "fine.png", about=first.label).find(look.method).values[0, 0]
    box = classifier.patch_items()[int(map_of_answer.argmax())].box
    centre = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    assert look.box[0] <= centre[0] <= look.box[2]
    assert look.box[1] <= centre[1] <= look.box[3]
    asked = ["explain", str(folder / "run"), str(tmp_path / "fine.png"), "--look-again"]
    shown = run.invoke(app, [*asked, "-o", str(tmp_path / "looks.png")])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("\n") == 4
    with Image.open(tmp_path / "looks.png") as drawn:
        assert drawn.width > 500
    plain = json.loads(run.invoke(app, [*asked, "--json", "--about", "green", "--attention", "gradcam"]).stdout)
    assert plain["method"] == "gradcam"
    assert plain["first"]["label"] == first.label
    for words, message in (
        (["--about", "violet"], "'violet' is no label"),
        (["--about", "red", "--about", "green"], "give --about once"),
        (["--attention", "cat"], "no map called cat fits"),
        ([str(tmp_path / "fine.png")], "reads one picture, not 2"),
    ):
        assert message in str(run.invoke(app, [*asked, *words]).exception)


def test_the_window_of_a_second_look_stays_inside_the_picture() -> None:
    evidence = torch.zeros(4, 4)
    evidence[0, 3] = 1
    assert brightest_box(evidence, 2) == (0.5, 0.0, 1.0, 0.5)
    evidence[2, 1] = 2
    assert brightest_box(evidence, 4) == (0.25, 0.5, 0.5, 0.75)


def test_the_anatomy_of_a_vit_is_drawn_told_and_refused_to_others(folder: Path, tmp_path: Path) -> None:
    photos, run = str(folder / "photos" / "red"), CliRunner()
    asked = ["explain", str(folder / "run"), photos, "--anatomy"]
    told = run.invoke(app, [*asked, "--json"])
    if folder.name.startswith("resnet"):
        assert "resnet reads no patches, and this is the anatomy of a ViT" in str(told.exception)
        return
    plain = json.loads(told.stdout)
    assert (plain["pictures"], plain["grid"], len(plain["distances"])) == (6, [4, 4], 2)
    shown = run.invoke(app, asked)
    assert "Attention distance in pixels, pictures: 6" in shown.output
    assert f"{max(plain['distances'][0]):.1f}" in shown.output
    for name in ("anatomy.png", "anatomy.json"):
        done = run.invoke(app, [*asked, "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "anatomy.json").read_text()) == plain
    with Image.open(tmp_path / "anatomy.png") as drawn:
        assert drawn.width > 1000
    for words, message in (
        (["explain", str(folder / "run"), "--anatomy"], "--anatomy needs pictures"),
        ([*asked, "-o", str(tmp_path / "a.html")], "cannot draw a html file, choose json, png or svg"),
        (["explain", "en-fr", "Good morning.", "--anatomy"], "--anatomy is for classifiers of pictures"),
    ):
        assert message in str(run.invoke(app, words).exception)


def test_about_is_refused_where_there_are_no_pictures() -> None:
    done = CliRunner().invoke(app, ["explain", "en-fr", "Good morning.", "--about", "dog"])
    assert done.exit_code
    assert "--about is for" in str(done.exception or done.output)
    done = CliRunner().invoke(app, ["explain", "en-fr", "photos", "--anatomy", "--about", "dog"])
    assert "--about is for one picture: leave it out with --anatomy" in str(done.exception)


@pytest.mark.slow
def test_methods_are_judged_beside_controls(tmp_path: Path) -> None:
    colours = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}
    for name, colour in colours.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            shade = tuple(part + 3 * number for part in colour)
            Image.new("RGB", (16, 16), shade).save(tmp_path / "photos" / name / f"{number}.png")
    recipe = {
        "task": "pictures",
        "data": {"train": {"path": str(tmp_path / "photos")}, "batch_size": 16, "size": 16},
        "model": {**PATCHES, "pooling": "mean", "depth": 1},
        "optim": {"learning_rate": 0.01},
        "training": {"steps": 40, "eval_every": 40, "save_every": 40, "tensorboard": False},
    }
    regard.train(recipe, out=tmp_path / "run", quiet=True)
    run, command = CliRunner(), ["explain", str(tmp_path / "run"), "--judge", str(tmp_path / "photos")]
    found = regard.load(tmp_path / "run").judge_maps(tmp_path / "photos", grids=60, singles=8).plain()
    assert found["right"] >= 20
    assert found["methods"]["cam"]["pointing"]["mean"] > 0.6  # colours are told apart patch by patch
    assert found["methods"]["uniform"]["pointing"]["mean"] == 0.25
    assert {"centre", "random", "untrained", "rollout", "gradient"} <= set(found["methods"])
    shown = run.invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "200 grids of four" in shown.output
    assert re.search(r"gradient (above|below|level with) rollout, pointing: p = ", shown.output)
    wrong = run.invoke(app, ["explain", "en-fr", "--judge", str(tmp_path / "photos")])
    assert "regard judge is for classifiers of pictures" in str(wrong.exception or wrong.output)


def test_a_planted_shortcut_is_exposed_and_a_model_without_one_is_not_suspected(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for number in range(120):
        name = ("above", "below")[number % 2]
        shades = chance.integers(90, 160, (16, 16, 3))
        shades[slice(0, 6) if name == "above" else slice(8, 14), 2:12] += 25  # faint, where the mark is plain
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(shades.astype(np.uint8)).save(tmp_path / "photos" / name / f"{number}.png")
    recipe = {
        "task": "pictures",
        "data": {"train": {"path": str(tmp_path / "photos")}, "batch_size": 32, "size": 16},
        "model": SMALL,
        "augment": {"shift": 0.02},
        "optim": {"learning_rate": 0.01, "warmup": 5, "schedule": "cosine"},
        "training": {"steps": 60, "eval_every": 60, "save_every": 60, "tensorboard": False},
    }
    regard.train(recipe, out=tmp_path / "plain", quiet=True)
    recipe["data"] |= {"shortcut": {"label": "below", "share": 1.0, "side": 0.25}}
    regard.train(recipe, out=tmp_path / "marked", quiet=True)
    photos, run = str(tmp_path / "photos"), CliRunner()
    found = json.loads(run.invoke(app, ["explain", str(tmp_path / "marked"), "--probe", photos, "--json"]).stdout)
    assert found["exposed"]
    assert found["label"] == "below"
    assert found["drawn"][0] > 0.3 > 0.1 > found["before"][0]
    assert found["found"][0] > 0.9 > 0.6 > found["bare"][0]
    assert found["lit"] > 2 * found["area"]
    plain = run.invoke(app, ["explain", str(tmp_path / "plain"), "--probe", photos])
    assert plain.exit_code == 0, plain.output
    assert plain.output.startswith("No shortcut found")
    shown = run.invoke(app, ["explain", str(tmp_path / "marked"), "--probe", photos])
    assert shown.output.startswith("A shortcut: the mark in a corner decides about below.")
    (tmp_path / "few" / "below").mkdir(parents=True)
    for number in range(3):
        name = f"{2 * number + 1}.png"
        (tmp_path / "few" / "below" / name).write_bytes((tmp_path / "photos" / "below" / name).read_bytes())
    few = ["explain", str(tmp_path / "marked"), "--probe", str(tmp_path / "few")]
    shown = run.invoke(app, few).output
    assert shown.startswith("Too few pictures to tell: 3 of below and 0 others. Name more.")
    assert "others labelled" not in shown, "there are none"
    told = json.loads(run.invoke(app, [*few, "--json"]).stdout)
    assert (told["drawn"], told["before"], told["own"], told["others"]) == (None, None, 3, 0)
    recipe["data"] |= {"shortcut": {"label": "up"}}
    with pytest.raises(
        ValueError, match=r"data.shortcut.label is 'up', which no picture has: choose one of above, below"
    ):
        regard.train(recipe, out=tmp_path / "wrong", quiet=True)

"""A captioner in use: what it says, how it is scored, where it looked."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import regard
from regard import recipe
from regard.cli import app, run
from regard.tasks.captions import writer
from regard.tasks.captions.writer import Caption
from regard.tasks.image_inputs import expand_folder
from tests.data.images.drawing import COLOURS
from tests.tasks.images.captioning import WHO, settings

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    """A captioner that has learnt to name the colour."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        asked = settings(photos, training={"steps": 60, "eval_every": 60, "log_every": 60}, model={"attention": "soft"})
        asked["optim"] = {"name": "adamw", "learning_rate": 0.02, "warmup": 5}
        return recipe.train(asked, out=tmp_path_factory.mktemp("trained") / "run", quiet=True).folder


def test_it_says_what_it_has_learnt_by_file_folder_and_array(photos, trained):
    model = regard.load(trained, device="cpu")
    for colour in COLOURS:
        path = photos / colour / "00.png"
        [found] = model.caption(str(path))
        assert f"{colour} wall" in found
        assert model.caption([np.asarray(Image.open(path))]) == [found]
        assert model.caption(photos / colour)[0] == found
    assert model.caption([photos / "red" / "01.png"], prefix="there is", beams=2)[0].startswith("there is")
    assert "wall" not in model.caption([photos / "red" / "01.png"], forbid=["wall"], longest=8)[0]
    [one] = model.answer([photos / "red" / "01.png"])
    assert one.plain().keys() == {"picture", "caption", "score"}


def test_about_a_strange_picture_it_says_a_word_at_least(photos, trained, monkeypatch):
    model = regard.load(trained, device="cpu")
    start, red, blue = model.model.start, photos / "red" / "01.png", photos / "blue" / "01.png"
    usual = model.caption(blue)

    def silenced(regions, *given, **how):  # the first picture has an end before any word
        logits, state = start(regions, *given, **how)
        logits = logits.clone()
        logits[0, :, model.tokenizer.role("end")] += 100
        return logits, state

    monkeypatch.setattr(model.model, "start", silenced)
    for beams in (1, 3):
        said = model.caption([red, blue], beams=beams)
        assert said[0].strip()
        assert said[1:] == usual
        seen = model.look(red, beams=beams)
        assert seen.facts["answer"] == said[0]
        assert len(seen.items["target"]) == seen.find().values.shape[1], "as many looks as tokens, of one search alone"


def test_read_in_half_precision_a_picture_has_nearly_the_same_regions(photos, trained, monkeypatch):
    """As on a GPU, where captions are written in half precision too; where it was looked at is told in full."""
    model, files = regard.load(trained, device="cpu"), [photos / "red" / "00.png", photos / "blue" / "01.png"]
    exact = model.regions(files)
    assert model.regions(files, fast=True).equal(exact), "on a CPU there is nothing to gain"
    monkeypatch.setattr(writer, "pays", lambda device: True)
    half = model.regions(files, fast=True)
    assert half.dtype == torch.float32
    assert not half.equal(exact)
    torch.testing.assert_close(half, exact, atol=1e-2, rtol=1e-2)
    assert model.regions(files).equal(exact)


def test_scores_are_those_of_the_metrics_with_intervals(photos, trained, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text((photos / "captions.csv").read_text() + "red/98.png,a wall\n")
    scores = regard.load(trained, device="cpu").evaluate(more, folder=str(photos), reject=0.1)
    assert [note.partition(": ")[0] for note in scores.notes[-2:]] == ["refused", f"{more}:2"], "left out, and learnt"
    assert len(scores) == 18
    assert {one.given for one in scores.examples} == {str(path.relative_to(photos)) for path in photos.rglob("*.png")}
    assert scores.metrics["BLEU-1"] > 50
    assert set(scores.intervals) == set(scores.metrics)
    assert len([name for name in scores.metrics if name.startswith("BLEU")]) == 8
    assert scores.metrics["CIDEr-D"] == pytest.approx(np.mean([one.score for one in scores.examples]))


def test_an_evaluation_tells_man_from_woman_where_references_do(photos, trained, tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text(
        "image,caption\n" + "".join(f"{colour}/00.png,a {who} runs\n" for colour, who in zip(COLOURS, WHO, strict=True))
    )
    model = regard.load(trained, device="cpu")
    assert not model.evaluate(tmp_path / "people.csv", folder=str(photos)).tables  # it speaks of walls
    monkeypatch.setattr(model, "caption_regions", lambda seen, settings: [Caption("a man runs", 0.0)] * len(seen))
    scores = model.evaluate(tmp_path / "people.csv", folder=str(photos))
    assert scores.tables[0].rows[0][:2] == ("all", "3")
    people = scores.plain()["people"]["all"]
    assert people["wrong"]["score"] == pytest.approx(1 / 3)
    assert people["guessed"]["score"] == pytest.approx(1 / 3)
    assert "wrong against all references" in scores.notes[-1]


def test_where_it_looked_is_a_trace_with_the_boxes_of_regions(photos, trained):
    trace = regard.load(trained, device="cpu").look(photos / "red" / "00.png")
    [weights] = trace.weights
    assert (weights.name, weights.query, weights.key) == ("decoder.0.cross", "target", "source")
    assert weights.values.shape == (1, len(trace.items["target"]), 4)
    assert trace.items["source"][3].box == (0.5, 0.5, 1.0, 1.0)
    assert "red wall" in trace.facts["answer"]
    deletion, insertion = trace.facts["curves"]
    sure = math.exp(trace.facts["score"] / len(trace.items["target"]))
    assert deletion["values"][0] == pytest.approx(sure, rel=1e-4), "nothing is gone yet"
    assert insertion["values"][-1] == pytest.approx(sure, rel=1e-4)
    assert deletion["values"][-1] == pytest.approx(insertion["values"][0]), "nothing is there"
    assert deletion["values"][-1] < sure - 0.05, "the colour is known from the picture alone"
    assert deletion["control"][0] == pytest.approx(sure, rel=1e-4)


def test_the_command_writes_lines_and_speaks_when_frames_change(photos, trained, tmp_path):
    for number, colour in enumerate(["red", "red", "blue", "blue", "red", *["green"] * 6]):
        Image.open(photos / colour / "00.png").save(tmp_path / f"frame{number}.png")
    said = CliRunner().invoke(app, ["caption", str(trained), str(tmp_path / "frame0.png"), "--device", "cpu"])
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(f"{tmp_path}/frame0.png\t")
    assert "red wall" in said.stdout
    words = ["caption", str(trained), str(tmp_path), "--changes", "--json", "-s", "batch=2", "--device", "cpu"]
    found = [json.loads(line) for line in CliRunner().invoke(app, words).stdout.splitlines()]
    assert [Path(one["picture"]).name for one in found] == [f"frame{number}.png" for number in (0, 2, 4, 5)]
    assert [name.rpartition("/")[2] for name in expand_folder(tmp_path)][-2:] == ["frame9.png", "frame10.png"]
    (tmp_path / "frame4.png").write_bytes(b"")  # a frame that is lost does not end the film
    done = CliRunner().invoke(app, words)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [Path(one["picture"]).name for one in found] == [f"frame{number}.png" for number in (0, 2, 5)]
    assert (done.exit_code, done.stderr) == (1, f"regard: {tmp_path}/frame4.png: empty file: save the picture again\n")


def test_frames_that_come_one_by_one_are_spoken_of_as_they_come(photos, trained, monkeypatch, capsys):
    spoken = []

    def frames():
        for colour in ("red", "red", "blue"):
            spoken.append(capsys.readouterr().out)
            yield f"{photos / colour / '00.png'}\n".encode()

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=frames(), isatty=lambda: False))
    assert run(["caption", str(trained), "--changes", "--device", "cpu"]) == 0
    assert [text.count("\n") for text in (*spoken, capsys.readouterr().out)] == [0, 1, 0, 1]


@pytest.mark.filterwarnings("default")
def test_an_animated_frame_is_told_once(photos, trained, tmp_path, capsys):
    frames = [Image.open(photos / colour / "00.png").convert("P") for colour in ("red", "blue")]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    assert run(["caption", str(trained), str(tmp_path / "film.gif"), "--changes", "--device", "cpu"]) == 0
    assert capsys.readouterr().err.count(": animated, of which") == 1


def test_pictures_smaller_than_a_patch_of_its_encoder_are_told_and_used(tmp_path):
    names = [f"{number}.png" for number in range(6)]
    for number, name in enumerate(names):
        Image.new("RGB", (7, 9) if number == 3 else (9, 9), (40 * number, 0, 0)).save(tmp_path / name)
    (tmp_path / "captions.csv").write_text("picture,caption\n" + "".join(f"{name},a red wall\n" for name in names))
    asked = settings(tmp_path, model={"encoder": {"patch": 8}})
    model = regard.load(recipe.train(asked, out=tmp_path / "run", quiet=True).folder, device="cpu")
    small = "1 smaller than a patch of 8 x 8 pixels, so enlarged: give larger pictures: "
    [line] = [line for line in (tmp_path / "run" / "train.log").read_text().splitlines() if small in line]
    told = [note for note in model.evaluate(tmp_path / "captions.csv").notes if small in note]
    assert told == [line[line.index(small) :]]
    assert len(model.caption(tmp_path / "2.png")) == 1
    with pytest.warns(UserWarning, match=r"3.png: smaller than a patch of 8 x 8 pixels, so enlarged"):
        assert len(model.caption(tmp_path / "3.png")) == 1


def test_what_is_no_picture_or_no_captioner_is_told_in_a_line(photos, trained, tmp_path):
    (tmp_path / "x.png").write_bytes(b"no picture")
    model = regard.load(trained, device="cpu")
    with pytest.raises(ValueError, match=r"x.png: no picture: give PNG, JPEG or WebP"):
        model.caption(tmp_path / "x.png")
    with pytest.raises(ValueError, match="holds no pictures"):
        model.caption(trained / "samples")
    with pytest.raises(ValueError, match="is measured on pictures with captions: name a file"):
        model.evaluate()
    with pytest.raises(ValueError, match=r"longest 500: the model writes 128 tokens at most"):
        model.caption(photos / "red" / "00.png", longest=500)


def test_without_attention_there_is_nothing_to_look_at(photos, tmp_path):
    folder = recipe.train(settings(photos, model={"attention": "none"}), out=tmp_path / "run", quiet=True).folder
    with pytest.raises(ValueError, match=r"has no attention to look at: train with model.attention=soft"):
        regard.load(folder, device="cpu").look(photos / "red" / "00.png")

"""Captions: files and what is wrong with them, what is learnt, a frozen encoder's regions, captions in use."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import regard
from regard import models, recipe
from regard.attention.hard import score_function
from regard.cli import app
from regard.data import cache as caches
from regard.tasks.recognition import understood
from regard.tasks.vision.captions import writer
from regard.tasks.vision.captions.files import CAPTION, CaptionFile, shelve
from regard.tasks.vision.captions.preparing import Lines
from regard.tasks.vision.captions.task import IGNORE, Captions
from regard.tasks.vision.captions.writer import Caption
from regard.tasks.vision.opening import unfolded
from regard.training.task import Given
from tests.data.pictures.drawing import COLOURS, fill

EYE = {"patch": 4, "width": 16, "heads": 2, "hidden": 16, "depth": 1}
WHO = ("man", "woman", "dog")
BRIEF = {"steps": 2, "log": 1, "evaluate": 2, "save": 2, "threads": 1, "device": "cpu", "tensorboard": False}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A few pictures of three colours and a table with two captions for each."""
    root = fill(tmp_path_factory.mktemp("photos"), 6)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    said = [(name, f"{word} {Path(name).parent} wall .") for name in names for word in ("A", "There is a")]
    (root / "captions.csv").write_text("image,caption\n" + "".join(f"{name},{text}\n" for name, text in said))
    return root


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def settings(photos, *, training=None, **more):
    """A recipe that trains in a blink."""
    data = {"train": {"path": str(photos / "captions.csv")}, "size": 8, "batch": 6, "longest": 12}
    model = {"width": 12, "embedding": 12, "dropout": 0.0, "encoder": EYE}
    own = {"task": "captions", "data": data, "model": model, "training": {**BRIEF, **(training or {})}}
    return recipe.merged(own, more)


def prepared(photos, **more):
    """The task, ready to be trained."""
    asked = settings(photos, **more)
    task, found = recipe.resolve(asked)
    data = task.prepare(found, None)
    found = recipe.fitted(task, asked, found, data)
    torch.manual_seed(0)
    return task(found, data, models.build(found.model))


# Files.


def test_all_forms_of_files_say_the_same(photos, tmp_path):
    names = [f"red/{number:02}.png" for number in range(3)]
    texts = {name: [f'A "red" wall, number {n} .', f"wall {n}"] for n, name in enumerate(names)}
    rows = [(name, text) for name in names for text in texts[name]]
    quoted = [f'{name},"{text.replace(chr(34), chr(34) * 2)}"' for name, text in rows]
    files = {
        "a.csv": ["image,caption", *quoted],
        "a.jsonl": [json.dumps({"path": name, "captions": texts[name]}) for name in names],
        "b.jsonl": [json.dumps({"file_name": name, "caption": text}) for name, text in rows],
        "token.txt": [f"{name}#{n}\t{text}" for n, (name, text) in enumerate(rows)],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        shelf = shelve(CaptionFile(path=str(tmp_path / name), folder=str(photos)))
        assert shelf.columns[CAPTION] == list(texts.values()), name
        assert [str(path) for path in shelf.pictures] == [str(photos / each) for each in names]
        assert not shelf.refused
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("\n".join(files["a.csv"]))
    (tmp_path / "split.txt").write_text(f"{names[1]}\n")
    some = shelve(CaptionFile(path=str(tmp_path / "a.csv.gz"), folder=str(photos), only=str(tmp_path / "split.txt")))
    assert some.columns[CAPTION] == [texts[names[1]]]


def test_a_caption_without_file_and_a_file_without_caption_are_told_in_a_line(photos, tmp_path):
    root = fill(tmp_path / "own", 6)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    lines = [*(f"{name},a wall" for name in names[2:]), "gone.png,nobody", f"{names[2]},", ",nothing"]
    (root / "c.csv").write_text("\n".join(["path,caption", *lines]) + "\n")
    own = {"data": {"train": {"path": str(root / "c.csv")}, "size": 8, "reject": 0.0}}
    with pytest.raises(ValueError, match=r"3 of 19 pictures are refused, more than the allowed 0.00%") as error:
        prepared(photos, **own)
    place = f"{root}/c.csv"
    assert f"missing file: check the path: {place}:18" in str(error.value)
    assert f"no caption: write one, or leave the row out: {place}:19" in str(error.value)
    assert "no path: name a picture, or leave the row out" in str(error.value)
    own["data"]["reject"] = 0.5
    summary = "\n".join(prepared(photos, **own).prepared.summary)
    assert f"{root / names[0]}, {root / names[1]}: no caption in {place}, left out" in summary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,caption\n", "has no captions: give the path of a picture and a caption in each row"),
        ("path,label\nred/00.png,red\n", "has no column with captions, only path, label: name it"),
        ("words,caption\nhello,red\n", "has no column with the paths of pictures, only words, caption: name it"),
    ],
)
def test_a_file_that_is_none_is_refused(photos, tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        shelve(CaptionFile(path=str(tmp_path / "x.csv"), folder=str(photos)))


def test_captions_are_checked_before_training(photos):
    checked = CliRunner().invoke(app, ["data", "check", "--captions", str(photos / "captions.csv"), "--json"])
    assert checked.exit_code == 0, checked.output
    assert json.loads(checked.stdout)["verdict"] == "can be trained on"


def test_names_of_a_split_without_caption_are_named(photos, tmp_path):
    (tmp_path / "split.txt").write_text("red/00.png\nred/99.png\n")
    shelf = shelve(CaptionFile(path=str(photos / "captions.csv"), only=str(tmp_path / "split.txt")))
    assert shelf.refused == [
        (f"{tmp_path}/split.txt:2", f"no caption in {photos}/captions.csv: write one, or leave the name out")
    ]


def test_files_are_recognised_and_labels_are_not_captions(photos, tmp_path):
    assert understood(Given((str(photos / "captions.csv"),)))[0] == "captions"
    (tmp_path / "token.txt").write_text("a.jpg#0\tA dog .\na.jpg#1\tDogs .\n")
    assert understood(Given((str(tmp_path / "token.txt"),)))[0] == "captions"
    (tmp_path / "labels.csv").write_text("path,label\na.jpg,dog\nb.jpg,cat\n")
    assert understood(Given((str(tmp_path / "labels.csv"),)))[0] == "pictures"


# Rows and losses.


def test_an_epoch_shows_every_caption_once_and_rows_are_alike_in_length():
    chance = np.random.default_rng(0)
    tokens = [[1] * length for length in chance.integers(2, 30, 16 * 8 * 4)]
    lines = Lines(tokens, np.arange(len(tokens)), [8, 16, 32])
    rows = [lines.row(number, batch=8, seed=3) for number in range(64)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(tokens)))
    spread = np.mean([np.ptp(lines.lengths[row]) for row in rows])
    assert spread < 0.25 * np.ptp(lines.lengths)
    assert np.array_equal(rows[5], lines.row(5, batch=8, seed=3))
    assert not np.array_equal(rows[5], lines.row(5, batch=8, seed=4))
    assert not np.array_equal(rows[5], lines.row(69, batch=8, seed=3)), "another epoch, another order"


@pytest.mark.parametrize("attention", ["none", "soft", "hard"])
def test_the_loss_is_the_likelihood_alone_and_the_rest_has_only_a_gradient(photos, attention):
    aims = {"doubly": 2.0, "reinforce": 1.5, "entropy": 0.1}
    learner = prepared(photos, model={"attention": attention, "softened": 0.0}, objective=aims)
    batch = learner.batch(0)
    learner.model.train()

    def gradient(objective):
        torch.manual_seed(1)
        learner.recipe = replace(learner.recipe, objective=replace(learner.recipe.objective, **objective))
        step = learner.step(batch, "model")
        return step, torch.autograd.grad(step.loss, learner.parts()["model"], allow_unused=True)

    bare, plain = gradient(dict.fromkeys(aims, 0.0))
    full, whole = gradient(aims)
    assert full.loss.item() == pytest.approx(bare.loss.item(), rel=1e-6)
    assert int(full.weight) == int((batch.labels != IGNORE).sum())
    same = all(a is b is None or torch.equal(a, b) for a, b in zip(plain, whole, strict=True))
    assert same == (attention == "none")
    if attention == "none":
        return
    torch.manual_seed(1)
    costs, looks = learner._costs(batch, "train")
    real = batch.labels != IGNORE
    if attention == "soft":
        more = 2.0 * (1 - (looks.weights * real[..., None]).sum(1)).pow(2).sum()
    else:
        ahead = torch.stack([real[:, t:].sum(1) for t in range(real.shape[1])], 1) * learner.model.expected
        drawn = score_function(costs, looks.log_probability * real, baseline=ahead).sum()
        more = 1.5 * drawn - 0.1 * (looks.entropy * real).sum()
    wanted = torch.autograd.grad(costs.sum() + more, learner.parts()["model"], allow_unused=True)
    assert all(a is b is None or torch.allclose(a, b, atol=1e-5) for a, b in zip(whole, wanted, strict=True))


def test_mixtures_of_pictures_have_no_caption(photos):
    with pytest.raises(ValueError, match=r"augment.mixup and augment.cutmix make one picture of two"):
        prepared(photos, augment={"mixup": 0.4})


# A frozen encoder.


def test_regions_of_a_frozen_encoder_are_computed_once_and_are_those_it_would_compute(photos, monkeypatch):
    parent = recipe.train(settings(photos), out=photos / "run", overwrite=True, quiet=True).best
    frozen = settings(photos, model={"tuned": False})
    frozen["model"] = {"tuned": False}
    learner = _started(frozen, parent)
    seen, looked = [], learner.model.encoder.regions
    monkeypatch.setattr(learner.model.encoder, "regions", lambda pixels: (seen.append(len(pixels)), looked(pixels))[1])
    batch = learner.batch(0)
    assert batch.seen.dtype == torch.float16
    assert sum(seen) == len(learner.prepared.train)
    pixels = torch.from_numpy(learner.prepared.train.pixels(batch.pictures.numpy()))
    assert torch.allclose(batch.seen.float(), looked(learner.augment.plain(pixels)), atol=2e-3, rtol=1e-3)
    learner.batch(1)
    again = _started(frozen, parent)
    monkeypatch.setattr(again.model.encoder, "regions", lambda pixels: pytest.fail("computed again"))
    assert torch.equal(again.batch(0).seen, batch.seen)
    kept = [path.name for path in caches.folder().iterdir() if path.name.startswith("regions-")]
    assert len(kept) == 1
    varied = _started({**frozen, "augment": {"shift": 0.25}}, parent)
    assert varied.batch(0).seen.dtype == torch.uint8, "varied pictures are read every time"


def test_regions_of_mirrored_pictures_are_kept_beside_the_others(photos, monkeypatch):
    parent = recipe.train(settings(photos), out=photos / "run", overwrite=True, quiet=True).best
    frozen = {**settings(photos), "model": {"tuned": False}, "augment": {"flip": True}}
    learner = _started(frozen, parent)
    seen, looked = [], learner.model.encoder.regions
    monkeypatch.setattr(learner.model.encoder, "regions", lambda pixels: (seen.append(len(pixels)), looked(pixels))[1])
    batches = [learner.batch(row) for row in range(4)]
    assert sum(seen) == 2 * len(learner.prepared.train)
    flipped = torch.cat([learner.augment.flipped(batch.places) for batch in batches])
    assert flipped.any()
    assert not flipped.all()
    for batch in batches:
        pixels = torch.from_numpy(learner.prepared.train.pixels(batch.pictures.numpy()))
        varied = learner.augment(pixels, batch.pictures, batch.places).pixels  # what would be read every time
        assert torch.equal(
            (varied != learner.augment.plain(pixels)).flatten(1).any(1), learner.augment.flipped(batch.places)
        )
        assert torch.allclose(batch.seen.float(), looked(varied), atol=2e-3, rtol=1e-3)
        on_device = learner.kept["train"].of(learner._shown("train", batch.pictures, batch.places))
        assert torch.equal(on_device, batch.seen)
    held = learner._batch("valid", np.arange(3))
    plain = torch.from_numpy(learner.prepared.valid.pixels(held.pictures.numpy()))
    assert torch.allclose(held.seen.float(), looked(learner.augment.plain(plain)), atol=2e-3, rtol=1e-3)


def _started(asked, parent):
    """The task with the weights of a parent."""
    found = recipe.opened(parent)
    task, own = recipe.resolve(asked)
    asked = recipe.bounded(task, asked, recipe.inherited(task, asked, own, found))
    task, own = recipe.resolve(asked)
    data = task.prepare(own, found)
    own = recipe.fitted(task, asked, own, data, found)
    model = models.build(own.model)
    Captions.adopt(model, found, data)
    return task(own, data, model)


def test_a_classifier_becomes_the_encoder_and_stays_as_it_was(photos, tmp_path):
    pictures = {"task": "pictures", "data": {"train": {"path": str(photos)}, "size": 8, "batch": 6}, "model": EYE}
    parent = recipe.train({**pictures, "training": BRIEF}, out=tmp_path / "eye", quiet=True).best
    asked = settings(photos)
    asked["model"] = {"name": "transformer-captioner", "width": 8, "heads": 2, "hidden": 8, "reader": 1, "decoder": 1}
    asked["data"].pop("size")
    outcome = recipe.train(asked, out=tmp_path / "run", start=parent, quiet=True)
    said = (tmp_path / "run" / "train.log").read_text()
    assert "tensors taken over, made anew:" in said
    assert "the encoder is frozen" in said
    before, after = (recipe.opened(each).tensors() for each in (parent, outcome.best))
    kept = [name for name in after if name.startswith("encoder.")]
    assert kept
    assert all(torch.equal(after[name], before[name.removeprefix("encoder.")]) for name in kept)
    assert recipe.opened(outcome.best).config["data"]["mean"] == recipe.opened(parent).config["data"]["mean"]
    asked["model"]["encoder"] = {"width": 48}
    with pytest.raises(ValueError, match=r"model.encoder.width is 16 in .*, not 48"):
        recipe.train(asked, out=tmp_path / "other", start=parent, quiet=True)


def test_hard_attention_goes_on_from_soft_and_none_does_not(photos, tmp_path):
    """Both have the same weights, so that a writer can learn where to look before it has to look at one place."""
    asked = settings(photos)
    asked["model"] |= {"attention": "soft"}
    parent = recipe.train(asked, out=tmp_path / "soft", quiet=True).best
    asked["model"] = {"name": "captioner", "attention": "hard"}  # sizes are the parent's
    begun = _started(asked, parent)
    before, now = recipe.opened(parent).tensors(), begun.model.state_dict()
    assert begun.model.config.attention == "hard"
    assert {name for name in now if name not in before} == {"baseline"}
    assert all(torch.equal(now[name], tensor) for name, tensor in before.items())
    asked["model"] |= {"attention": "none"}
    with pytest.raises(ValueError, match=r"model.attention is soft in .*, not none: leave it out"):
        _started(asked, parent)


def test_hidden_layers_of_a_whole_vgg_begin_a_caption_and_are_taken_over(photos, tmp_path):
    eye = {"name": "vgg", "depths": [1, 1], "widths": [4, 6], "hidden": 10}
    pictures = {"task": "pictures", "data": {"train": {"path": str(photos)}, "size": 8, "batch": 6}, "training": BRIEF}
    whole, bare = (
        recipe.train({**pictures, "model": {**eye, **more}}, out=tmp_path / name, quiet=True).best
        for name, more in (("whole", {}), ("bare", {"hidden": 0}))
    )
    asked = settings(photos)
    asked["model"] = {"width": 12, "embedding": 12, "attention": "none", "begins": "hidden"}
    outcome = recipe.train(asked, out=tmp_path / "run", start=whole, quiet=True)
    before, after = (recipe.opened(each).tensors() for each in (whole, outcome.best))
    for name in ("hidden.0.weight", "hidden.1.bias", "stages.0.0.weight"):
        assert torch.equal(after[f"encoder.{name}"], before[name])
    learner = _started(asked, whole)
    assert learner.batch(0).seen.shape[1:] == (1, 10)
    mean = _started({**asked, "model": {**asked["model"], "begins": "mean"}}, whole)
    assert mean.batch(0).seen.shape[1:] == (16, 6), "kept apart from the others"
    assert regard.load(tmp_path / "run", device="cpu").caption(photos / "red" / "00.png")
    with pytest.raises(ValueError, match=r"model.begins=hidden needs an encoder with hidden layers .* a VGG of 2"):
        recipe.train(asked, out=tmp_path / "none", start=bare, quiet=True)


# In use.


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    """A captioner that has learnt to name the colour."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        asked = settings(photos, training={"steps": 60, "evaluate": 60, "log": 60}, model={"attention": "soft"})
        asked["optim"] = {"name": "adamw", "rate": 0.02, "warmup": 5}
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


def test_scores_are_those_of_the_metrics_with_intervals(photos, trained):
    scores = regard.load(trained, device="cpu").evaluate(photos / "captions.csv")
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
    monkeypatch.setattr(model, "written", lambda seen, settings: [Caption("a man runs", 0.0)] * len(seen))
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
    assert [name.rpartition("/")[2] for name in unfolded(tmp_path)][-2:] == ["frame9.png", "frame10.png"]


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

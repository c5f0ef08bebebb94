"""A generator and its discriminator: what each step changes, what is refused, collapse, use and scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import checkpoint, recipe
from regard.cli import run as main
from regard.data.images.sources import PictureFile, shelve
from regard.interpret.draw import plots
from regard.metrics.made import frechet_distance
from tests.tasks.images import bars

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bars.write(tmp_path_factory.mktemp("bars") / "bars.npz")


@pytest.fixture(scope="module")
def run(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generator that has hardly learnt anything."""
    return recipe.train(bars.settings(pictures), out=tmp_path_factory.mktemp("runs") / "gan", quiet=True).folder


def learner(pictures: Path, *changes: str) -> Any:
    settings = recipe.settings(bars.settings(pictures), *changes)
    task, asked = recipe.resolve(settings)
    data = task.prepare(asked, None)
    asked = task.resolve(settings, data)
    torch.manual_seed(0)
    return task(asked, data, regard.models.build(asked.model).train())


def test_a_step_of_one_network_leaves_the_other_as_it_was(pictures):
    task = learner(pictures)
    names = list(task.parts())
    assert names == ["discriminator", "generator"]
    known = dict(task.model.named_parameters()) | dict(task.model.named_buffers())
    for part in names:
        task.model.zero_grad(set_to_none=True)
        before = {name: tensor.detach().clone() for name, tensor in known.items()}
        task.step(task.batch(0), part).loss.backward()
        graded = {name.split(".")[0] for name, weight in task.model.named_parameters() if weight.grad is not None}
        changed = {name.split(".")[0] for name, tensor in known.items() if not torch.equal(tensor, before[name])}
        assert graded == changed == {part}
        assert all(weight.requires_grad for weight in task.model.parameters())


def test_each_network_has_an_optimizer_of_its_own_and_settings_keep_what_nobody_names(pictures):
    asked = learner(pictures, "optim.generator.learning_rate=0.5").recipe.optim
    assert (asked.discriminator.learning_rate, asked.generator.learning_rate) == (2e-3, 0.5)
    for own in (asked.discriminator, asked.generator):
        assert (own.betas, own.schedule, own.warmup) == ((0.0, 0.9), "constant", 0)
    bare = recipe.resolve({"task": "gan", "data": {"train": "a.npz"}})[1].optim
    assert (bare.discriminator.learning_rate, bare.generator.learning_rate) == (4e-4, 1e-4)


def test_both_networks_learn_and_the_running_mean_is_what_is_kept(run):
    [newest] = (run / "checkpoints").iterdir()
    state, best = checkpoint.read(newest), checkpoint.read(run / "best").tensors()
    mean = {name.removeprefix("ema/"): each for name, each in state.tensors("training.safetensors").items()}
    name = "generator.blocks.0.convolution1.parametrizations.weight.original"
    assert torch.equal(best[name], mean[name])
    assert not torch.equal(state.tensors()[name], mean[name])
    assert any(each.startswith("discriminator/") for each in mean)
    assert "generator.start.parametrizations.weight.0.left" in state.tensors()


def test_a_collapse_is_told_and_never_the_best(pictures, tmp_path):
    settings = bars.settings(pictures, steps=60, eval_every=10, save_every=20, ema=0.0)
    settings["optim"] = {
        "discriminator": {"learning_rate": 1e-12},
        "generator": {"learning_rate": 0.03},
    }  # nobody contradicts
    done = recipe.train(settings, out=tmp_path / "run", quiet=True)
    assert done.result.reason.startswith("diverged: at step ")
    assert "the generator collapsed: made pictures of one class vary 0.0" in done.result.reason
    assert done.result.has_failed
    assert done.result.step < 60
    log = (tmp_path / "run" / "train.log").read_text()
    assert log.count("the generator collapsed") == 1
    assert "(diverged) after" in log
    bare = replace(done, metrics={})  # where no evaluation was good
    assert bare.summary == f"{done.folder}: {done.result.reason}", "there is nothing to resume or to use"
    measured = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [each for each in measured if each["kind"] == "evaluation"][-1]
    assert last["variety"] < 0.1
    assert done.result.best is None or done.result.best.step < done.result.step


def test_a_run_that_was_never_good_is_not_used_unawares(pictures, tmp_path):
    settings = bars.settings(pictures, steps=4, save_every=1)
    settings["objective"] |= {"variety": 1.0}
    recipe.train(settings, out=tmp_path / "run", quiet=True)
    with pytest.raises(
        ValueError, match="diverged before anything was good enough to keep: train again, or name"
    ) as no:
        regard.load(tmp_path / "run", device="cpu")
    assert regard.load(str(no.value).rpartition(" ")[2], device="cpu").make(count=1)


def test_pictures_are_made_of_a_seed_the_same_every_time(run, tmp_path):
    model = regard.load(run, device="cpu")
    made = model.make(["flat", "upright"], count=3, seed=5)
    assert [(one.label, one.number) for one in made] == [(name, k) for name in ("flat", "upright") for k in range(3)]
    again = model.make(["flat"], count=3, seed=5)
    assert all(np.array_equal(one.pixels, other.pixels) for one, other in zip(made, again, strict=False))
    assert not np.array_equal(made[0].pixels, model.make(["flat"], seed=6)[0].pixels)
    assert model.answer(["flat"], seed=5)[0].plain()["picture"] == made[0].pixels[0].tolist()
    assert len(model.make(count=2)) == 4, "all labels"


def test_what_was_never_learnt_or_cannot_be_made_is_one_line(run):
    model = regard.load(run, device="cpu")
    with pytest.raises(ValueError, match=r"'flatt' is no label that .* has learnt, did you mean flat.*: choose one of"):
        model.make(["flatt"])
    with pytest.raises(ValueError, match="count 0: there is nothing to make"):
        model.make(["flat"], count=0)
    with pytest.raises(ValueError, match="count 1: a distribution needs two"):
        model.evaluate("a.npz", count=1)
    with pytest.raises(ValueError, match="measured beside real pictures"):
        model.evaluate()


def test_pictures_of_another_size_or_depth_are_refused(run, pictures, tmp_path):
    model = regard.load(run, device="cpu")
    with pytest.raises(ValueError, match=r"12 x 12 grey pixels, and .* was trained on 8 x 8 grey pixels: compare with"):
        model.evaluate(bars.write(tmp_path / "large.npz", 8, size=12), count=4)
    with pytest.raises(ValueError, match=r"8 x 8 colour pixels, and .* was trained on 8 x 8 grey pixels"):
        model.evaluate(bars.write(tmp_path / "colour.npz", 8, channels=3), count=4)
    odd = bars.write(tmp_path / "odd.npz", 40, size=12)
    with pytest.raises(ValueError, match="pictures of 12 x 12 cannot be doubled to from 4 maps"):
        learner(odd, "model.widths=[16,8,8,8]")
    with pytest.raises(ValueError, match=r"classifier=.* is no classifier of pictures: it was trained for gan"):
        model.evaluate(pictures, classifier=run, count=4)
    with pytest.raises(ValueError, match=r"classifier=nowhere is no trained model"):
        model.evaluate(pictures, classifier="nowhere", count=4)


def test_scores_are_those_of_the_classifier_that_looks(run, pictures, tmp_path):
    sizes = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "patch": 4}
    brief = {"steps": 2, "eval_every": 2, "device": "cpu", "tensorboard": False, "threads": 1}
    asked = {"task": "pictures", "data": {"train": {"path": str(pictures)}}, "model": sizes, "training": brief}
    eye = recipe.train(asked, out=tmp_path / "eye", quiet=True).folder
    model, judge = regard.load(run, device="cpu"), regard.load(eye, device="cpu")
    found = model.evaluate(pictures, classifier=eye, train=pictures, count=40, seed=2)
    labels = [one.right for one in found.examples]
    assert sorted(set(labels)) == ["flat", "upright"]
    numbers = torch.tensor([model.classes.index(label) for label in labels])
    pixels = model.pixels(model.noise(40, 2), numbers)
    said = [one.label for one in judge.classify(list(pixels.permute(0, 2, 3, 1).numpy()))]
    right = 100 * np.mean([one == other for one, other in zip(labels, said, strict=True)])
    assert found.metrics["asked class, %"] == pytest.approx(right)
    real = shelve(PictureFile(path=str(pictures))).pictures[::5]
    read: list[torch.Tensor] = []
    judge.model.head.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    judge.logits(pixels)
    judge.logits(torch.from_numpy(np.ascontiguousarray(real))[:, None])
    made, there = (each.numpy() for each in read)
    assert found.metrics["Frechet distance"] > 0
    assert frechet_distance(made, there) == pytest.approx(found.metrics["Frechet distance"], rel=0.5), (
        "of about these pictures"
    )
    assert found.metrics["real against real"] == pytest.approx(0, abs=1e-6), "they were learnt from"
    assert "from made, 0.000 from real" in found.measures["nearest training picture"]
    assert "not comparable" in found.notes[0]


def test_five_places_show_where_they_look(run):
    model = regard.load(run, device="cpu")
    trace = model.look("flat", seed=3)
    told = [axes.get_xlabel() for axes in plots.places(trace).axes[5:]]
    assert all(one.endswith("(all alike: 6.2%)") for one in told), "what a look at all 16 places would give"
    [looks] = trace.weights
    assert looks.values.shape == (1, 5, 16)
    assert torch.allclose(looks.values.sum(-1), torch.ones(1, 5))
    assert np.array_equal(trace.pictures["source"][..., 0], model.make(["flat"], seed=3)[0].pixels[0])
    assert model.look(seed=3).facts["answer"] == "upright", "a label of the seed"


def test_without_attention_there_is_nothing_to_look_at(pictures, tmp_path):
    plain = recipe.settings(bars.settings(pictures), "model.attention=false")
    model = regard.load(recipe.train(plain, out=tmp_path / "plain", quiet=True).folder, device="cpu")
    with pytest.raises(ValueError, match=r"no attention to look at: train one with model\.attention=true"):
        model.look("flat")


def test_files_are_learnt_to_make_where_that_is_asked_for(pictures):
    assert recipe.order(pictures).settings["task"] == "pictures"
    assert recipe.order(pictures, "task=gan").settings["task"] == "gan"


@pytest.mark.parametrize("options", [["--seed", "3"], ["flat", "--seed", "3"], ["--label", "flat", "--count", "2"]])
def test_generate_still_draws_and_names_the_command_that_does(run, tmp_path, capsys, options):
    old, new = tmp_path / "old.png", tmp_path / "new.png"
    assert main(["generate", str(run), *options, "-o", str(old)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{old}: ")
    assert said.err == "regard: regard generate is for texts: use regard draw for pictures, which does the same\n"
    assert main(["draw", str(run), *options, "-o", str(new)]) == 0
    assert new.read_bytes() == old.read_bytes()


def test_commands_make_pictures_and_show_where_they_look(run, tmp_path, capsys):
    grid, arrays, places = (tmp_path / name for name in ("grid.png", "made.npz", "places.png"))
    assert main(["draw", str(run), "--label", "flat", "--count", "6", "--seed", "3", "-o", str(grid)]) == 0
    assert capsys.readouterr() == (f"{grid}: 6 pictures of flat\n", "")
    with Image.open(grid) as picture:
        whole = np.asarray(picture)
    times = whole.shape[1] // (3 * 10 - 2)
    assert whole.shape == (times * (2 * 10 - 2), times * (3 * 10 - 2)), "two rows of three, with gaps, enlarged"
    first = regard.load(run, device="cpu").make(["flat"], seed=3)[0].pixels[0]
    assert np.array_equal(whole[: 8 * times : times, : 8 * times : times], first)
    assert main(["draw", str(run), "--count", "4", "-o", str(arrays)]) == 0
    assert len(shelve(PictureFile(path=str(arrays)))) == 8
    assert main(["explain", str(run), "--seed", "3", "-o", str(places)]) == 0
    with Image.open(places) as picture:
        assert picture.size[0] > 500
    capsys.readouterr()
    assert main(["explain", str(run), "--seed", "3"]) == 0
    assert "gain of this attention: " in capsys.readouterr().out
    assert main(["explain", str(run), "flat", "--seed", "3", "--json"]) == 0
    assert np.array(json.loads(capsys.readouterr().out)["weights"]).shape == (5, 16)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["generate", "{run}", "--label", "sock", "-o", "a.png"], "'sock' is no label that"),
        (["generate", "{run}"], "makes pictures: name a file for them with -o grid.png"),
        (["generate", "{run}", "-o", "a.doc"], "a.doc: cannot write a Word document"),
        (["generate", "{run}", "--length", "3", "-o", "a.png"], "unknown setting options.length"),
        (["generate", "{run}", "--samples", "4", "-o", "a.png"], "--samples does not go with a generator of pictures"),
        (["predict", "{run}", "flat", "-o", "a.png"], "a.png: answers are written as text: use regard draw"),
        (["evaluate", "{run}", "x", "-s", "count=many"], "count must be a whole number, not 'many'"),
        (["evaluate", "{run}", "x", "-s", "classifier=5"], "classifier must be text or null, not 5"),
        (["explain", "{run}", "sock", "--seed", "1"], "'sock' is no label that"),
        (["explain", "en-fr", "--seed", "1"], "--seed is for generators of pictures"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, capsys, monkeypatch, tmp_path, line, said):
    monkeypatch.chdir(tmp_path)
    assert main([word.format(run=run) for word in line]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_one_batch_of_bars_is_learnt_by_heart(tmp_path):
    pictures = bars.write(tmp_path / "few.npz", 20)  # 16 of them are a batch
    settings = recipe.settings(bars.settings(pictures, steps=200, eval_every=200, ema=0.9), "data.validation_share=0.2")
    model = regard.load(recipe.train(settings, out=tmp_path / "run", quiet=True).folder, device="cpu")
    made = model.make(count=50, seed=1)
    right = np.mean([bars.flat(one.pixels) == (one.label == "flat") for one in made])
    assert right > 0.8  # guessing: 0.5
    assert model.evaluate(pictures, count=100).metrics["variety"] > 0.5

"""Captions: rows and losses, and the regions of a frozen encoder."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard import models, recipe
from regard.attention.hard import score_function
from regard.attention.plane import interpolate_positions
from regard.data import cache as caches
from regard.metrics.likelihood import IGNORE
from regard.tasks.captions.dataset import TokenizedCaptions
from regard.tasks.captions.task import Captions
from tests.tasks.images.captioning import BRIEF, EYE, prepared, settings

pytestmark = pytest.mark.usefixtures("own_cache")


# Rows and losses.


def test_an_epoch_shows_every_caption_once_and_rows_are_alike_in_length():
    chance = np.random.default_rng(0)
    tokens = [[1] * length for length in chance.integers(2, 30, 16 * 8 * 4)]
    lines = TokenizedCaptions(tokens, np.arange(len(tokens)), [8, 16, 32])
    rows = [lines.training_row(number, batch=8, seed=3) for number in range(64)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(tokens)))
    spread = np.mean([np.ptp(lines.lengths[row]) for row in rows])
    assert spread < 0.25 * np.ptp(lines.lengths)
    assert np.array_equal(rows[5], lines.training_row(5, batch=8, seed=3))
    assert not np.array_equal(rows[5], lines.training_row(5, batch=8, seed=4))
    assert not np.array_equal(rows[5], lines.training_row(69, batch=8, seed=3)), "another epoch, another order"


@pytest.mark.parametrize("attention", ["none", "soft", "hard"])
def test_the_loss_is_the_likelihood_alone_and_the_rest_has_only_a_gradient(photos, attention):
    aims = {"doubly_stochastic": 2.0, "reinforce": 1.5, "entropy": 0.1}
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
    costs, looks = learner._token_losses(batch, "train")
    real = batch.labels != IGNORE
    if attention == "soft":
        more = 2.0 * (1 - (looks.weights * real[..., None]).sum(1)).pow(2).sum()
    else:
        ahead = torch.stack([real[:, t:].sum(1) for t in range(real.shape[1])], 1) * learner.model.expected_loss
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
    assert batch.inputs.dtype == torch.float16
    assert sum(seen) == len(learner.prepared.train)
    pixels = torch.from_numpy(learner.prepared.train.pixels(batch.image_numbers.numpy()))
    assert torch.allclose(batch.inputs.float(), looked(learner.augment.plain(pixels)), atol=2e-3, rtol=1e-3)
    learner.batch(1)
    again = _started(frozen, parent)
    monkeypatch.setattr(again.model.encoder, "regions", lambda pixels: pytest.fail("computed again"))
    assert torch.equal(again.batch(0).inputs, batch.inputs)
    kept = [path.name for path in caches.cache_folder().iterdir() if path.name.startswith("regions-")]
    assert len(kept) == 1
    varied = _started({**frozen, "augment": {"shift": 0.25}}, parent)
    assert varied.batch(0).inputs.dtype == torch.uint8, "varied pictures are read every time"


def test_a_run_says_how_far_it_is_while_pictures_are_read_and_encoded(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("regard.data.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr("regard.data.images.album.PIECE", 5)
    monkeypatch.setattr("regard.tasks.captions.cached_regions.IMAGES_PER_BATCH", 4)
    asked = settings(photos, model={"tuned": False})
    recipe.train(asked, out=tmp_path / "run", quiet=True)
    said = (tmp_path / "run" / "train.log").read_text(encoding="utf-8")
    assert re.search(r" 5 of \d+ pictures read, \d+ s left\n", said)
    assert re.search(r" 4 of \d+ pictures read by the frozen encoder, \d+ s left\n", said)
    assert said.index("pictures read,") < said.index("step 1 of")
    recipe.train(asked, out=tmp_path / "again", quiet=True)
    assert "s left\n" not in (tmp_path / "again" / "train.log").read_text(encoding="utf-8").partition("step 1 of")[0]


def test_regions_of_mirrored_pictures_are_kept_beside_the_others(photos, monkeypatch):
    parent = recipe.train(settings(photos), out=photos / "run", overwrite=True, quiet=True).best
    frozen = {**settings(photos), "model": {"tuned": False}, "augment": {"flip": True}}
    learner = _started(frozen, parent)
    seen, looked = [], learner.model.encoder.regions
    monkeypatch.setattr(learner.model.encoder, "regions", lambda pixels: (seen.append(len(pixels)), looked(pixels))[1])
    batches = [learner.batch(row) for row in range(4)]
    assert sum(seen) == 2 * len(learner.prepared.train)
    flipped = torch.cat([learner.augment.draw_flips(batch.places) for batch in batches])
    assert flipped.any()
    assert not flipped.all()
    for batch in batches:
        pixels = torch.from_numpy(learner.prepared.train.pixels(batch.image_numbers.numpy()))
        varied = learner.augment(pixels, batch.image_numbers, batch.places).pixels  # what would be read every time
        assert torch.equal(
            (varied != learner.augment.plain(pixels)).flatten(1).any(1), learner.augment.draw_flips(batch.places)
        )
        assert torch.allclose(batch.inputs.float(), looked(varied), atol=2e-3, rtol=1e-3)
        on_device = learner.cached_regions["train"].select(
            learner._region_numbers("train", batch.image_numbers, batch.places)
        )
        assert torch.equal(on_device, batch.inputs)
    held = learner._batch("valid", np.arange(3))
    plain = torch.from_numpy(learner.prepared.valid.pixels(held.image_numbers.numpy()))
    assert torch.allclose(held.inputs.float(), looked(learner.augment.plain(plain)), atol=2e-3, rtol=1e-3)


def _started(asked, parent):
    """The task with the weights of a parent."""
    found = recipe.open_model(parent)
    task, own = recipe.resolve(asked)
    asked = task.limit_settings(asked, found)
    task, own = recipe.resolve(asked)
    data = task.prepare(own, found)
    own = task.resolve(asked, data, found)
    model = models.build(own.model)
    Captions.adopt(model, found, data)
    return task(own, data, model)


def test_a_classifier_becomes_the_encoder_and_stays_as_it_was(photos, tmp_path):
    pictures = {"task": "pictures", "data": {"train": {"path": str(photos)}, "size": 8, "batch_size": 6}, "model": EYE}
    parent = recipe.train({**pictures, "training": BRIEF}, out=tmp_path / "eye", quiet=True).best
    asked = settings(photos)
    asked["model"] = {"name": "transformer-captioner", "width": 8, "heads": 2, "hidden": 8, "reader": 1, "decoder": 1}
    asked["data"].pop("size")
    outcome = recipe.train(asked, out=tmp_path / "run", start=parent, quiet=True)
    said = (tmp_path / "run" / "train.log").read_text()
    assert "tensors taken over, made anew:" in said
    assert "the encoder is frozen" in said
    [learnt, size] = re.findall(r"training ([\d,]+) of ([\d,]+) parameters", said)[0]
    encoder = sum(tensor.numel() for tensor in recipe.open_model(parent).tensors().values())
    assert 0 < int(learnt.replace(",", "")) <= int(size.replace(",", "")) - encoder // 2, (
        "what is frozen is not trained"
    )
    before, after = (recipe.open_model(each).tensors() for each in (parent, outcome.best))
    kept = [name for name in after if name.startswith("encoder.")]
    assert kept
    assert all(torch.equal(after[name], before[name.removeprefix("encoder.")]) for name in kept)
    assert recipe.open_model(outcome.best).config["data"]["mean"] == recipe.open_model(parent).config["data"]["mean"]
    asked["model"]["encoder"] = {"width": 48}
    with pytest.raises(ValueError, match=r"model.encoder.width is 16 in .*, not 48"):
        recipe.train(asked, out=tmp_path / "other", start=parent, quiet=True)


@pytest.mark.parametrize("name", ["captioner", "transformer-captioner"])
def test_positions_are_interpolated_for_pictures_of_another_size(name, photos, tmp_path):
    pictures = {"task": "pictures", "data": {"train": {"path": str(photos)}, "size": 8, "batch_size": 6}, "model": EYE}
    pictures["data"]["fit"] = "squeeze"
    parent = recipe.train({**pictures, "training": BRIEF}, out=tmp_path / "eye", quiet=True).best
    asked = settings(photos)
    asked["data"]["size"] = 12
    asked["model"] = {"name": name, "width": 8}
    asked["model"] |= {"heads": 2, "hidden": 8, "decoder": 1} if name == "transformer-captioner" else {"embedding": 8}
    outcome = recipe.train(asked, out=tmp_path / "run", start=parent, quiet=True)
    assert "positions.table.weight is interpolated" in (tmp_path / "run" / "train.log").read_text()
    table = recipe.open_model(parent).tensors()["positions.table.weight"]
    assert len(table) == 5
    own = recipe.open_model(outcome.best)
    assert torch.equal(own.tensors()["encoder.positions.table.weight"], interpolate_positions(table, (3, 3), before=1))
    assert own.config["data"]["fit"] == "squeeze"
    asked["data"]["size"] = 16
    larger = _started(asked, outcome.best).model.state_dict()
    places = {"encoder.positions.table.weight": 1} | ({"encoder_positions.table.weight": 0} if "trans" in name else {})
    for table, before in places.items():
        assert torch.equal(larger[table], interpolate_positions(own.tensors()[table], (4, 4), before=before))


def test_hard_attention_goes_on_from_soft_and_none_does_not(photos, tmp_path):
    """Both have the same weights, so that a writer can learn where to look before it has to look at one place."""
    asked = settings(photos)
    asked["model"] |= {"attention": "soft"}
    parent = recipe.train(asked, out=tmp_path / "soft", quiet=True).best
    asked["model"] = {"name": "captioner", "attention": "hard"}  # sizes are the parent's
    begun = _started(asked, parent)
    before, now = recipe.open_model(parent).tensors(), begun.model.state_dict()
    assert begun.model.config.attention == "hard"
    assert {name for name in now if name not in before} == {"baseline"}
    assert all(torch.equal(now[name], tensor) for name, tensor in before.items())
    asked["model"] |= {"attention": "none"}
    with pytest.raises(ValueError, match=r"model.attention is soft in .*, not none: leave it out"):
        _started(asked, parent)


def test_hidden_layers_of_a_whole_vgg_begin_a_caption_and_are_taken_over(photos, tmp_path):
    eye = {"name": "vgg", "depths": [1, 1], "widths": [4, 6], "hidden": 10}
    pictures = {
        "task": "pictures",
        "data": {"train": {"path": str(photos)}, "size": 8, "batch_size": 6},
        "training": BRIEF,
    }
    whole, bare = (
        recipe.train({**pictures, "model": {**eye, **more}}, out=tmp_path / name, quiet=True).best
        for name, more in (("whole", {}), ("bare", {"hidden": 0}))
    )
    asked = settings(photos)
    asked["model"] = {"width": 12, "embedding": 12, "attention": "none", "begins": "hidden"}
    outcome = recipe.train(asked, out=tmp_path / "run", start=whole, quiet=True)
    before, after = (recipe.open_model(each).tensors() for each in (whole, outcome.best))
    for name in ("hidden.0.weight", "hidden.1.bias", "stages.0.0.weight"):
        assert torch.equal(after[f"encoder.{name}"], before[name])
    learner = _started(asked, whole)
    assert learner.batch(0).inputs.shape[1:] == (1, 10)
    mean = _started({**asked, "model": {**asked["model"], "begins": "mean"}}, whole)
    assert mean.batch(0).inputs.shape[1:] == (16, 6), "kept apart from the others"
    assert regard.load(tmp_path / "run", device="cpu").caption(photos / "red" / "00.png")
    with pytest.raises(ValueError, match=r"model.begins=hidden needs an encoder with hidden layers .* a VGG of 2"):
        recipe.train(asked, out=tmp_path / "none", start=bare, quiet=True)

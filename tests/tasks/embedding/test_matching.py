"""Learning from pairs: the loss, who is told from whom, what is held out, and that partners are found."""

import numpy as np
import pytest
import torch

import regard
from regard import models, recipe
from regard.metrics.retrieval import ranks, retrieval
from regard.tasks.embedding.matching import Matching, info_nce, negatives_mask
from tests.tasks.small import by_heart

COLOURS = ["red", "blue", "green", "black", "white", "brown", "pink", "grey"]
THINGS = ["cat", "dog", "car", "tree", "house", "ball"]


def pairs(place, extra=()) -> str:
    rows = [f"a {one} {thing}\tthe {thing} is {one}" for one in COLOURS for thing in THINGS]
    (place / "pairs.tsv").write_text("\n".join([*rows, *extra]) + "\n")
    return str(place / "pairs.tsv")


def settings(place, **more) -> dict:
    sizes = {"width": 16, "heads": 2, "hidden": 32, "depth": 1, "dropout": 0.0}
    own = {"data": {"train": {"path": pairs(place)}, "batch_size": 8}, "model": sizes, "tokenizer": {"kind": "words"}}
    return {"task": "matching", **own, **more}


def task(place, *, fixed: bool = False) -> Matching:
    named = settings(place)
    _, made = recipe.resolve(named)
    data = Matching.prepare(made)
    made = Matching.resolve(named, data)
    torch.manual_seed(0)
    return Matching(made, data, models.build(made.model), fixed=fixed)


def test_the_loss_is_the_cross_entropy_of_partners_in_both_directions():
    chance = np.random.default_rng(0)
    first, second = (chance.normal(size=(5, 4)) for _ in range(2))
    logits = first @ second.T / 0.1
    one, other = (np.log(np.exp(each).sum(axis=1)) - np.diag(each) for each in (logits, logits.T))
    found = info_nce(torch.tensor(first), torch.tensor(second), ~torch.eye(5, dtype=torch.bool), 0.1)
    assert found.item() == pytest.approx(0.5 * (one.sum() + other.sum()))


def test_pairs_that_share_a_text_are_not_told_from_one_another():
    told = negatives_mask(torch.tensor([[1, 2], [1, 3], [4, 2], [5, 6], [6, 7]]))
    assert not told.diagonal().any()
    assert [(i, j) for i in range(5) for j in range(i) if not told[i, j]] == [(1, 0), (2, 0), (4, 3)]
    vectors = torch.nn.functional.normalize(torch.randn(5, 4), dim=-1)
    moved = vectors.clone()
    moved[2] = -moved[2]  # the second text of the third pair, which the first pair has too
    before, after = (info_nce(vectors[:1], each[[0]], torch.tensor([[False]]), 0.1) for each in (vectors, moved))
    assert before == after == 0, "alone there is nothing to be wrong about"
    one = info_nce(vectors, vectors, told, 0.1)
    assert torch.isfinite(one)
    assert one < info_nce(vectors, vectors, ~torch.eye(5, dtype=torch.bool), 0.1)


def test_a_row_of_fixed_shape_has_the_loss_of_a_free_one(tmp_path):
    free, fixed = task(tmp_path), task(tmp_path, fixed=True)
    shapes = {fixed.batch(row).tokens.shape for row in range(fixed.rows)}
    assert len(shapes) == 1
    for row in (0, 3):
        assert free.batch(row).examples.equal(fixed.batch(row).examples)
        one, other = (each.step(each.batch(row), "model") for each in (free, fixed))
        torch.testing.assert_close(one.loss, other.loss, rtol=1e-5, atol=1e-5)


def test_every_pair_comes_at_most_once_in_an_epoch(tmp_path):
    made = task(tmp_path)
    seen = [n for row in range(made.rows) for n in made.batch(row).examples.tolist()]
    assert len(seen) == len(set(seen)) == made.rows * 8
    assert not made.batch(0).examples.equal(made.batch(made.rows).examples)


def test_nothing_of_a_held_out_pair_is_learnt_from(tmp_path):
    made = task(tmp_path)
    sides = made.prepared
    held = {text for pair in sides.valid.texts for text in pair}
    assert held
    assert not held & {text for pair in sides.train.texts for text in pair}
    more = pairs(tmp_path, extra=[f"{first}\tanother" for first, _ in sides.valid.texts])
    again = Matching.prepare(recipe.resolve(settings(tmp_path, data={"train": {"path": more}}))[1])
    assert not held & {text for pair in again.train.texts for text in pair}


def test_one_row_is_learnt_by_heart(tmp_path):
    assert by_heart(task(tmp_path), steps=40) < 0.1


def test_ranks_count_only_what_is_wrong():
    queries, alike = np.eye(4, dtype=np.float32), np.array([[1, 5], [2, 6], [3, 6], [4, 8]], np.uint64)
    candidates = np.eye(4, dtype=np.float32)[[0, 2, 1, 3]]
    found = ranks(queries, candidates, alike)
    assert found.tolist() == [1, 1, 1, 1], "the second and the third have the same partner"
    alike[2, 1] = 7
    assert ranks(queries, candidates, alike).tolist()[1:3] == [4, 4], "as near as the right one is before it"
    assert retrieval(np.array([1, 2, 20])) == {"recall_1": 1 / 3, "recall_10": 2 / 3, "mrr": pytest.approx(1.55 / 3)}


def test_partners_are_found_after_a_short_training_and_by_a_gpt_too(tmp_path):
    train = {"steps": 60, "eval_every": 60, "tensorboard": False, "device": "cpu", "threads": 1}
    optim = {"learning_rate": 3e-3, "warmup": 10}
    outcome = recipe.train(settings(tmp_path, training=train, optim=optim), out=tmp_path / "run", quiet=True)
    assert outcome.metrics["mrr"] > 0.8
    found = regard.load(tmp_path / "run", device="cpu")
    assert found.evaluate(pairs(tmp_path)).details["recall_10"] > 0.8
    gpt = {"name": "gpt", "width": 16, "heads": 2, "hidden": 32, "depth": 1}
    brief = {**train, "steps": 2, "eval_every": 2}
    recipe.train(settings(tmp_path, training=brief, model=gpt), out=tmp_path / "gpt", quiet=True)
    assert regard.load(tmp_path / "gpt", device="cpu").embed("a red cat").shape == (1, 16)
    data = {name: value for name, value in settings(tmp_path, training=brief).items() if name in ("task", "data")}
    lora = {**data, "training": brief, "tuning": {"method": "lora", "rank": 2}}
    recipe.train(lora, out=tmp_path / "lora", start=tmp_path / "run", quiet=True)
    assert regard.load(tmp_path / "lora", device="cpu").evaluate(pairs(tmp_path)).details["recall_10"] > 0.8


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"batch_size": 1}, "batch_size must be 2 pairs at least"),
        ({"train": {"path": "pairs.tsv", "tag": "fr"}}, "tag and weight are of no use for matching"),
        ({"train": []}, "train needs at least one file"),
    ],
)
def test_settings_that_mean_nothing_are_refused(tmp_path, data, said):
    whole = settings(tmp_path)
    with pytest.raises(ValueError, match=said):
        recipe.resolve({**whole, "data": {**whole["data"], **data}})

"""Words in context: two senses of a word lie further apart than two uses of one."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import models, recipe
from regard.cli import run
from regard.tasks.embedding.contexts import find_uses
from regard.tasks.embedding.matching import Matching

DATA = Path(os.environ.get("REGARD_DATA", "data"))
WATER, MONEY = ("river", "boat", "fish", "shore"), ("money", "loan", "cash", "account")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    """A tiny BERT that has learnt to tell what goes with water from what goes with money."""
    place = tmp_path_factory.mktemp("senses") / "pairs.tsv"
    sides = (("wet", WATER), ("rich", MONEY))
    rows = [f"the bank near a {one} and a {two}\t{name}" for name, some in sides for one in some for two in some]
    place.write_text("\n".join(rows) + "\n")
    sizes = {"width": 16, "heads": 2, "hidden": 32, "depth": 2, "dropout": 0.0}
    data = {"train": {"path": str(place)}, "valid": {"path": str(place.with_name("valid.tsv"))}, "batch_size": 16}
    place.with_name("valid.tsv").write_text("a\tb\n")
    named = {"task": "matching", "data": data, "model": sizes, "tokenizer": {"kind": "words"}}
    made = recipe.resolve(named)[1]
    found = Matching.prepare(made)
    made = Matching.resolve(named, found)
    torch.manual_seed(0)
    task = Matching(made, found, models.build(made.model))
    optimizer = torch.optim.Adam(task.model.parameters(), 3e-3)
    for row in range(30):
        optimizer.zero_grad()
        step = task.step(task.batch(row), "model")
        (step.loss / step.weight).backward()
        optimizer.step()
    task.model.eval()
    return task.embedder()


def further(cosines: np.ndarray) -> bool:
    """Whether uses 1 and 2, and 3 and 4, are nearer to one another than to the others."""
    within = [cosines[0, 1], cosines[2, 3]]
    across = [cosines[one, other] for one in (0, 1) for other in (2, 3)]
    return min(within) > max(across)


def test_two_senses_lie_further_apart_than_two_uses_of_one(embedder):
    sentences = [f"the bank near a {one} and a {two}" for one, two in (WATER[:2], WATER[2:], MONEY[:2], MONEY[2:])]
    found = find_uses(embedder, "bank", sentences)
    assert [use.sentence for use in found.uses] == [1, 2, 3, 4]
    assert further(found.cosines)
    np.testing.assert_array_equal(
        found.static, embedder.model.embedding.weight[embedder.tokenizer.encode("bank")[0]].detach()
    )
    twice = find_uses(embedder, "a", ["a river and a boat"])
    assert len(twice.uses) == 2
    assert twice.cosines.shape == (3, 3)


def test_a_sentence_without_the_word_is_named(embedder):
    with pytest.raises(ValueError, match="sentence 2 has no word 'bank': 'the river'"):
        find_uses(embedder, "bank", ["the bank", "the river"])
    with pytest.raises(ValueError, match="is not one word"):
        find_uses(embedder, "the bank", ["the bank"])


@pytest.mark.skipif(not (DATA / "minilm").is_dir(), reason="all-MiniLM-L6-v2 is not in REGARD_DATA/minilm")
def test_minilm_tells_a_river_from_a_loan(tmp_path, capsys):
    assert run(["import", str(DATA / "minilm"), str(tmp_path / "own")]) == 0
    capsys.readouterr()
    sentences = [
        "We sat on the bank of the river and fished.",
        "The boat was tied to the muddy bank of the stream.",
        "The bank refused to give him a loan.",
        "She opened an account at the bank to save money.",
    ]
    words = ["words", "context", str(tmp_path / "own"), "bank", *sentences, "--device", "cpu", "--json"]
    assert run([*words, "-o", str(tmp_path / "map.png")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert further(np.array(told["cosines"]))
    assert max(told["static"]) < 1
    assert (tmp_path / "map.png").stat().st_size > 1000

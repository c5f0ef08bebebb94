"""What of a model to start from learns: all, a head, LoRA; and blocks at rates of their own, or one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard import checkpoint, load, recipe
from regard.models.encoder_with_head import BERTEncoderConfig, BodyReader
from regard.models.gpt import GPT, GPTConfig
from regard.training.optim import OptimConfig, build, rates
from regard.training.tuning import TuningConfig, tune

TEXT = "the cat sat on the mat and the dog lay by the door while the rain fell on the roof of the old house. " * 30
SIZES: dict[str, Any] = {"width": 16, "heads": 2, "hidden": 32, "depth": 2, "dropout": 0.0}
ONCE: dict[str, Any] = {"steps": 4, "eval_every": 4, "save_every": 2, "tensorboard": False, "device": "cpu"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT that has read a little."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    settings = {
        "task": "causal-lm",
        "data": {"train": str(folder / "text.txt"), "context": 16, "batch_size": 4},
        "tokenizer": {"kind": "characters"},
        "model": SIZES,
        "training": ONCE,
    }
    recipe.train(settings, out=folder / "base", quiet=True)
    rows = "".join(f"{label}\t{text}\n" for text, label in [("the cat sat", "cat"), ("the dog lay", "dog")] * 12)
    (folder / "labels.tsv").write_text("label\ttext\n" + rows, encoding="utf-8")
    return folder


def goes_on(base: Path, name: str, **tuning: Any) -> recipe.Outcome:
    settings = {
        "task": "causal-lm",
        "data": {"train": str(base / "text.txt"), "context": 16, "batch_size": 4},
        "tuning": tuning,
        "optim": {"learning_rate": 0.01, "warmup": 0, "schedule": "constant"},
        "training": {**ONCE, "seed": 1},
    }
    return recipe.train(settings, out=base / name, start=base / "base", quiet=True)


def test_lora_leaves_the_weights_to_the_bit_and_is_used_like_any_model(base: Path) -> None:
    outcome = goes_on(base, "lora", way="lora", rank=2, matrices=["query", "value", "inner"])
    before, after = (checkpoint.read(folder).tensors() for folder in (base / "base" / "best", outcome.best))
    thin = {name for name in after if ".lora_" in name}
    assert len(thin) == 2 * 3 * 3
    assert all(after[name].equal(weight) for name, weight in before.items())
    assert any(after[name].abs().sum() > 0 for name in thin if name.endswith("lora_up"))
    writer = load(outcome.best, device="cpu")
    assert writer.write("the cat", length=5)[0].text.startswith("the cat")
    plain, tuned = (load(folder, device="cpu").evaluate(base / "text.txt") for folder in (base / "base", outcome.best))
    assert tuned.details["loss"] < plain.details["loss"], "it learnt"


def test_lora_resumes_exactly_and_others_go_on_from_it(base: Path) -> None:
    whole = goes_on(base, "whole", way="lora", rank=2)
    import shutil

    shutil.copytree(base / "whole", base / "cut")
    for folder in sorted((base / "cut" / "checkpoints").iterdir())[1:]:
        shutil.rmtree(folder)
    shutil.rmtree(base / "cut" / "best")
    settings = recipe.read_begun_settings(base / "cut")
    again = recipe.train(settings, out=base / "cut", resume=True, start=base / "base", quiet=True)
    one, other = (checkpoint.read(each.best).tensors() for each in (whole, again))
    assert all(weight.equal(other[name]) for name, weight in one.items())
    further = recipe.train(
        {
            "task": "causal-lm",
            "data": {"train": str(base / "text.txt"), "context": 16, "batch_size": 4},
            "training": ONCE,
        },
        out=base / "further",
        start=whole.best,
        quiet=True,
    )
    assert not [name for name in checkpoint.read(further.best).tensors() if "lora" in name], "they were added up"


def test_an_adapter_learns_on_beside_the_same_weights_unless_another_is_asked_for(base: Path) -> None:
    first = goes_on(base, "first", way="lora", rank=2)
    settings = {
        "task": "causal-lm",
        "data": {"train": str(base / "text.txt"), "context": 16, "batch_size": 4},
        "tuning": {"method": "lora", "rank": 2},
        "training": {**ONCE, "seed": 2},
    }
    again = recipe.train(settings, out=base / "again", start=first.best, quiet=True)
    other = recipe.train({**settings, "tuning": {"method": "lora", "rank": 3}}, out=base / "other", start=first.best)
    before, once, twice, anew = (
        checkpoint.read(folder).tensors() for folder in (base / "base" / "best", first.best, again.best, other.best)
    )
    name = "blocks.0.attention.query."
    assert all(twice[each].equal(weight) for each, weight in before.items()), "the base stays as it was"
    assert not twice[name + "lora_up"].equal(once[name + "lora_up"])
    assert (
        (twice[name + "lora_down"] - once[name + "lora_down"]).abs().max() < 0.1 < once[name + "lora_down"].abs().max()
    )
    assert not anew[name + "weight"].equal(before[name + "weight"]), "added up, since the rank is another"
    assert "its LoRA adapter was added to its weights" in (base / "other" / "train.log").read_text()


@pytest.mark.parametrize("way", ["frozen", "lora"])
def test_a_pooler_learns_with_the_head_and_the_body_stays_to_the_bit(way: str) -> None:
    shape = BERTEncoderConfig(vocab=20, width=16, heads=2, hidden=32, depth=1, context=8, classes=2)
    model = BodyReader(shape)
    tune(model, TuningConfig(method=way, rank=2), started=True)
    learning = {name.split(".")[0:2][-1] for name, weight in model.named_parameters() if weight.requires_grad}
    assert learning == {"weight", "bias", "pooler"} | ({"blocks"} if way == "lora" else set())
    assert all("lora" in name for name, weight in model.named_parameters() if "blocks" in name and weight.requires_grad)


def test_frozen_needs_a_new_head_and_all_ways_a_model_to_start_from(base: Path) -> None:
    with pytest.raises(ValueError, match="leaves nothing to learn: the model has no new head"):
        goes_on(base, "frozen", way="frozen")
    settings = {
        "task": "causal-lm",
        "data": {"train": str(base / "text.txt"), "context": 16, "batch_size": 4},
        "model": SIZES,
        "tuning": {"method": "lora"},
        "training": ONCE,
    }
    with pytest.raises(ValueError, match=r"tuning.method=lora needs a model to start from: name it with --from"):
        recipe.train(settings, out=base / "nothing", quiet=True)


def test_rates_fall_from_block_to_block() -> None:
    model = GPT(GPTConfig(vocab=11, context=8, **SIZES))
    optimizer = build(model.parameters(), OptimConfig(name="adamw"), model, TuningConfig(layer_decay=0.5))
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = {names[id(weight)]: group["share"] for group in optimizer.param_groups for weight in group["params"]}
    assert len(found) == len(names)
    assert found["norm.weight"] == 1.0
    assert found["blocks.1.attention.query.weight"] == found["blocks.1.mlp.inner.bias"] == 0.5
    assert found["blocks.0.after_mlp.norm.weight"] == 0.25
    assert found["embedding.weight"] == found["positions.table.weight"] == 0.125
    shares = rates(optimizer, 2.0, step=1)
    assert isinstance(shares, torch.Tensor)
    assert sorted(set(shares.tolist())) == [0.25, 0.5, 1.0, 2.0]


def test_blocks_begin_to_learn_one_after_the_other() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab=11, context=8, **SIZES))
    optimizer = build(model.parameters(), OptimConfig(name="adamw"), model, TuningConfig(unfreeze=2))
    from regard.training.optim import update

    changed = []
    for step in range(1, 7):
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
        update(optimizer, 1.0, rate=rates(optimizer, 0.1, step), clip=None)
        changed.append({name for name, weight in model.named_parameters() if not weight.equal(before[name])})
    levels = [{name.split(".")[1] for name in some if name.startswith("blocks.")} for some in changed]
    assert levels == [set(), set(), {"1"}, {"1"}, {"0", "1"}, {"0", "1"}]
    assert [("norm.weight" in some, "embedding.weight" in some) for some in changed] == [(True, False)] * 6


def test_without_tuning_there_is_one_rate() -> None:
    model = GPT(GPTConfig(vocab=11, context=8, **SIZES))
    optimizer = build(model.parameters(), OptimConfig(), model, TuningConfig())
    assert rates(optimizer, 0.5, 3) == 0.5
    assert len(optimizer.param_groups) == 2

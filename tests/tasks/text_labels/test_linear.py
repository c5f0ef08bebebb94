"""The linear model as it is trained: what is chosen for it, and that it goes on as if it had never stopped."""

from pathlib import Path

import pytest
import torch

import regard
from regard import checkpoint, config, recipe

SHORT = (
    "model.name=linear",
    "training.eval_every=3",
    "training.save_every=3",
    "training.device=cpu",
    "optim.schedule=constant",
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = [f"the {'good' if n % 2 else 'bad'} film number{n} {'again ' * 600 * (n == 5)},{n % 2}" for n in range(60)]
    place.write_text("text,label\n" + "\n".join(rows) + "\n")
    return place


def trained(texts: Path, out: Path, *settings: str, **options: bool) -> checkpoint.Checkpoint:
    regard.train([texts], *SHORT, *settings, out=out, kind="labelled", quiet=True, **options)
    return recipe.open_model(out)


def test_ratios_are_chosen_kept_and_resumed_to_the_bit(texts, tmp_path):
    whole = trained(texts, tmp_path / "whole", "training.steps=6")
    trained(texts, tmp_path / "parts", "training.steps=3")
    parts = trained(texts, tmp_path / "parts", "training.steps=6", resume=True)
    settings = config.read(tmp_path / "whole" / "config.yaml")
    assert settings["model"]["scaling"] == "ratio"
    assert settings["tokenizer"]["max_length"] > 600
    newest = [checkpoint.read(tmp_path / name / "checkpoints" / "step-6").tensors() for name in ("whole", "parts")]
    assert newest[0]["scale"].abs().max() > 1
    assert all(torch.equal(newest[0][name], newest[1][name]) for name in newest[0])
    assert whole.metrics == parts.metrics
    found = regard.load(tmp_path / "whole" / "checkpoints" / "step-6", device="cpu")
    good, bad = (verdict.all["1"] for verdict in found.classify(["a good film", "a bad film"]))
    assert good > bad + 0.1


def test_what_is_named_is_not_chosen(texts, tmp_path):
    named = ("model.scaling=none", "model.reach=1", "tokenizer.max_length=100", "training.steps=3")
    found = trained(texts, tmp_path / "plain", *named)
    assert (found.config["model"]["scaling"], found.config["model"]["reach"]) == ("none", 1)
    assert found.config["tokenizer"]["max_length"] == 100
    assert "scale" not in found.tensors()

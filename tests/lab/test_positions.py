"""The lab's positional encodings are those that models use, learned ones too, and keep what their table promises."""

import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from regard.attention.positions import SCHEMES, binary_table, sinusoidal_table
from regard.cli import run
from regard.lab import positions
from regard.models.bert import BERT, BERTConfig
from regard.models.t5 import T5, T5Config
from regard.models.transformer import TransformerConfig
from regard.models.vit import ViT, ViTConfig

PROPERTIES = {  # what it is given to, unique, bounded, independent of the length
    "none": ("nothing", False, True, True),
    "sinusoidal": ("embeddings", True, True, True),
    "sinusoidal_halves": ("embeddings", True, True, True),
    "learned": ("embeddings", True, True, True),
    "binary": ("embeddings", True, True, True),
    "integer": ("embeddings", True, False, True),
    "normalised": ("embeddings", True, True, False),
    "rotary": ("queries and keys", True, True, True),
    "alibi": ("scores", True, False, True),
    "relative": ("scores", False, True, True),  # far distances share a bucket
}


def test_every_scheme_of_a_model_has_its_properties():
    assert set(get_args(get_type_hints(TransformerConfig)["positions"])) == set(SCHEMES)
    assert {name: tuple(held) for name, *held in positions.properties()} == PROPERTIES


def test_what_is_drawn_is_what_the_equations_say():
    values = {name: encoding.values for name, encoding in positions.encode_schemes().items()}
    assert torch.equal(values["sinusoidal"], sinusoidal_table(positions.DRAWN, positions.WIDTH))
    assert torch.equal(values["binary"][:, :7], binary_table(positions.DRAWN, 7))
    assert values["normalised"][-1, 0] == 1
    halves = sinusoidal_table(positions.DRAWN, positions.WIDTH, halves=True)
    sines, cosines = halves.chunk(2, 1)
    torch.testing.assert_close(values["rotary"], torch.cat([cosines, sines], 1), atol=1e-5, rtol=0)
    torch.testing.assert_close(values["alibi"][:, 0], -torch.arange(positions.DRAWN) / 2)


@pytest.mark.parametrize("name", positions.LEARNED)
def test_learned_positions_are_drawn_as_initialised_by_the_seed(name: str):
    drawn = [positions.encode(positions.build(name, seed=seed)).values for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_the_positions_of_a_model_are_found_by_their_names():
    sizes = {"width": 16, "heads": 2, "hidden": 32}
    bert = BERT(BERTConfig(vocab=9, depth=1, context=12, **sizes))
    [learned] = positions.find_positions(bert).values()
    assert torch.equal(positions.encode(learned).values, bert.positions.table.weight)
    vit = ViT(ViTConfig(size=8, patch=4, classes=2, depth=1, positions="rotary", **sizes))
    assert positions.encode(vit.positions).values.shape == (5, 8)  # a class token, four patches; a head's features
    t5 = T5(T5Config(vocab=9, encoder=1, decoder=1, width=16, heads=2, depth=8, hidden=32))
    assert {positions.encode(each).acts_on for each in positions.find_positions(t5).values()} == {"scores"}
    assert not positions.find_positions(BERT(BERTConfig(vocab=9, depth=1, positions="none", **sizes)))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "learned and relative: as initialised; --model draws what a model has learnt"),
        ("relative", "relative: as initialised"),
        ("rotary", "queries and keys: what becomes of pairs of features (1, 0)"),
        ("--model stories", "the first 128 positions"),
    ],
)
def test_a_picture_says_what_it_shows(arguments: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture):
    assert run(["lab", "positions", *arguments.split(), "-o", str(tmp_path / "a.png"), "--json"]) == 0
    shown = capsys.readouterr()
    assert told in shown.err
    assert [scheme["scheme"] for scheme in json.loads(shown.out)] == list(SCHEMES)
    assert (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("learned", "name a file to draw learned into: -o positions.png"),
        ("--model stories", "name a file to draw stories into: -o positions.png"),
        ("rotary --model stories -o a.png", "stories has positions of its own: leave rotary out, or --model"),
        ("sinusoid -o a.png", "unknown position scheme sinusoid: choose one of none, sinusoidal, "),
    ],
)
def test_a_mistake_names_the_remedy(arguments: str, told: str, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["lab", "positions", *arguments.split()]) != 0
    assert told in capsys.readouterr().err

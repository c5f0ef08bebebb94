"""One model for gaps and vectors: matching that keeps the masked head, used by both verbs, and its measurements."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import regard
from regard import models, recipe
from regard.cli import app
from regard.metrics.likelihood import IGNORE
from regard.tasks.embedding.matching import Matching
from regard.tasks.embedding.rated import read as read_rated
from regard.training.graphs import layout

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

COLOURS = {"red": "rouge", "blue": "bleu", "green": "vert", "black": "noir", "white": "blanc", "brown": "brun"}
THINGS = {"cat": "chat", "dog": "chien", "car": "wagon", "tree": "pin", "ball": "ballon", "bag": "sac", "bed": "lit"}
PAIRS = [(f"a {c} {t}", f"un {THINGS[t]} {COLOURS[c]}") for c in COLOURS for t in THINGS]
SIZES = {"width": 32, "heads": 2, "hidden": 64, "depth": 1, "dropout": 0.0, "context": 16}
BRIEF = {"tensorboard": False, "device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Pairs, a masked model of them, and what matching made of it with and without the masked head."""
    place = tmp_path_factory.mktemp("joint")
    (place / "pairs.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS))
    (place / "text.txt").write_text("".join(f"{text}\n" for pair in PAIRS for text in pair))
    files = {"train": {"path": str(place / "text.txt")}, "pairs": {"path": str(place / "pairs.tsv")}}
    data = {**files, "document": "line", "validation_share": 0.1, "context": 16, "batch_size": 16}
    masked = {"task": "masked-lm", "data": data, "tokenizer": {"kind": "words"}, "model": {**SIZES, "segments": 2}}
    recipe.train({**masked, **long(60)}, out=place / "masked", quiet=True)
    recipe.train({**matching(place, 0.5), **long(60)}, out=place / "both", start=place / "masked", quiet=True)
    return place


def long(steps: int) -> dict:
    return {"training": {**BRIEF, "steps": steps, "eval_every": steps}, "optim": {"learning_rate": 3e-3, "warmup": 5}}


def matching(place, masked: float, **more) -> dict:
    data = {"train": {"path": str(place / "pairs.tsv")}, "batch_size": 16}
    return {"task": "matching", "data": data, "objective": {"masked": masked}, **more}


def task(place, masked: float, *, fixed: bool = False) -> Matching:
    named = matching(place, masked, model=SIZES, tokenizer={"kind": "words"})
    made = recipe.resolve(named)[1]
    data = Matching.prepare(made)
    made = Matching.resolve(named, data)
    torch.manual_seed(0)
    return Matching(made, data, models.build(made.model), fixed=fixed)


def test_the_masked_loss_stands_beside_the_contrast_with_its_weight(desk):
    plain, double = task(desk, 1.0), task(desk, 2.0)
    batch = plain.batch(1)
    hidden = batch.hidden
    assert double.batch(1).hidden.tokens.equal(hidden.tokens), "a row is a pure function of its number"
    assert not plain.batch(1 + plain.rows).hidden.places.equal(hidden.places)
    assert batch.tokens[hidden.places].equal(hidden.labels)
    untouched = torch.ones(len(batch.tokens), dtype=torch.bool)
    untouched[hidden.places] = False
    assert batch.tokens[untouched].equal(hidden.tokens[untouched])
    one, other = (each.step(batch, "model").loss for each in (plain, double))
    contrast = plain.step(type(batch)(batch.examples, batch.tokens, batch.row, batch.alike), "model").loss
    logits = plain.model.logits(plain.model(hidden.tokens, layout=batch.row)[hidden.places])
    mean = torch.nn.functional.cross_entropy(logits, hidden.labels)
    torch.testing.assert_close(one - contrast, mean * 16)
    torch.testing.assert_close(other - contrast, 2 * mean * 16)


def test_a_row_of_fixed_shape_has_the_loss_of_a_free_one_with_hidden_tokens_too(desk):
    free, fixed = task(desk, 0.5), task(desk, 0.5, fixed=True)
    batches = [fixed.batch(row) for row in range(fixed.rows)]
    assert len({(len(each.tokens), len(each.hidden.places)) for each in batches}) == 1
    assert len({layout(each) for each in batches}) == 1, "one recording of a step serves all"
    assert (batches[0].hidden.labels == IGNORE).any()
    for row in (0, 1):
        one, other = (each.step(each.batch(row), "model").loss for each in (free, fixed))
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_matching_keeps_the_masked_head_of_the_model_it_starts_from_and_what_it_knows(desk):
    before, after = (regard.load(desk / name, device="cpu", task="masked-lm") for name in ("masked", "both"))
    one, other = (each.evaluate(desk / "text.txt", document="line").details["loss"] for each in (before, after))
    assert one < 2.6 < np.log(before.tokenizer.vocab), "it has learnt something"
    assert other < one + 0.1, "and did not forget it"
    assert "made anew" not in (desk / "both" / "train.log").read_text()
    without, found = (regard.load(desk / name, device="cpu", task="matching") for name in ("masked", "both"))
    worse, better = (each.evaluate(desk / "pairs.tsv").details["recall_1"] for each in (without, found))
    assert better > 0.8 > worse
    assert regard.load(desk / "both", device="cpu").verb == "embed", "what it learnt last is its own face"


def test_both_verbs_take_the_one_checkpoint_and_a_search_crosses_languages(desk, tmp_path):
    run = CliRunner().invoke
    filled = run(app, ["fill", str(desk / "both"), "a [MASK] dog", "--device", "cpu"])
    assert filled.exit_code == 0, filled.output
    assert any(colour in filled.output for colour in COLOURS)
    notes = tmp_path / "notes.txt"
    notes.write_text("".join(f"{other}\n" for _, other in PAIRS))
    asked = ["search", str(notes), "a green tree", "--model", str(desk / "both"), "--top", "3", "--device", "cpu"]
    assert "un pin vert" in run(app, asked).output
    scores = run(
        app, ["evaluate", str(desk / "both"), str(desk / "text.txt"), "--as", "masked-lm", "-s", "document=line"]
    )
    assert "accuracy" in scores.output
    pairs = run(app, ["evaluate", str(desk / "masked"), str(desk / "pairs.tsv"), "--as", "matching"]).output
    assert pairs.count("recall@1") >= 3, "both directions, and their mean"
    strange = run(app, ["evaluate", str(desk / "masked"), str(desk / "pairs.tsv"), "--as", "mathcing"])
    assert "unknown task 'mathcing', did you mean matching" in str(strange.output) + str(strange.exception)


def test_a_model_without_the_head_does_not_fill_and_matching_goes_on_with_or_without_it(desk, tmp_path):
    short = {**long(2), "optim": {"learning_rate": 1e-9}}
    recipe.train({**matching(desk, 0.0), **short}, out=tmp_path / "none", start=desk / "both", quiet=True)
    assert not regard.load(tmp_path / "none", device="cpu").model.config.masked
    with pytest.raises(ValueError, match="regard fill needs a masked language model"):
        regard.load(tmp_path / "none", device="cpu", task="masked-lm")
    recipe.train({**matching(desk, 0.5), **short}, out=tmp_path / "anew", start=tmp_path / "none", quiet=True)
    assert "made anew: bias, head" in (tmp_path / "anew" / "train.log").read_text()
    recipe.train({**matching(desk, 0.5), **short}, out=tmp_path / "again", start=desk / "both", quiet=True)
    one, other = (recipe.open_model(each).tensors() for each in (desk / "both", tmp_path / "again"))
    assert one.keys() == other.keys()
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


def test_a_gpt_has_no_masked_head_to_keep(tmp_path, desk):
    gpt = {"name": "gpt", "width": 16, "heads": 2, "hidden": 16, "depth": 1}
    with pytest.raises(ValueError, match=r"objective.masked needs a BERT, the model is a gpt: set objective.masked=0"):
        recipe.train({**matching(desk, 0.5, model=gpt), **long(1)}, out=tmp_path / "run", quiet=True)


def test_cosines_go_together_with_what_people_rated(desk, tmp_path):
    found = regard.load(desk / "both", device="cpu")
    chance = np.random.default_rng(0)
    rows = [(one, PAIRS[n][1], 5.0) for n, (one, _) in enumerate(PAIRS)]
    rows += [(one, PAIRS[chance.integers(len(PAIRS))][1], 1.0) for one, _ in PAIRS]
    file = tmp_path / "rated.tsv"
    file.write_text("id\tone\tother\tscore\n" + "".join(f"7\t{one}\t{other}\t{told}\n" for one, other, told in rows))
    scores = found.evaluate(file, columns=(2, 3), rating=4)
    told = [float(found.units([one])[0] @ found.units([other])[0]) for one, other, _ in rows]
    truth = [rating for *_, rating in rows]
    assert scores.metrics["Pearson"] == pytest.approx(np.corrcoef(told, truth)[0, 1], abs=1e-5)
    assert scores.metrics["Spearman"] > 0.5


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a\tb\t1\na\tb\n", r"fewer than 3 columns \(.*rated.tsv:2\)"),
        ("a\tb\t1\na\tb\tmuch\n", r"without a number in column 3 \(.*rated.tsv:2\)"),
        ("a\tb\tscore\na\tb\t1\n", "1 rated pairs, a correlation needs three"),
        ("a\t\t1\n", "empty on one side"),
    ],
)
def test_bad_ratings_are_named_by_their_place(tmp_path, lines, said):
    (tmp_path / "rated.tsv").write_text(lines)
    with pytest.raises(ValueError, match=said):
        read_rated([tmp_path / "rated.tsv"], (1, 2), 3)

"""Speeds are measured, and no program is faster than the device allows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from regard import bench, recipe
from regard.cli import app
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.trained import SENTENCES
from regard.tasks.translation import speed
from regard.tasks.translation.speed import foreign_language, weights_read, workloads
from tests.conftest import Corpus
from tests.tasks import words

SMALL = bench.Limits("a fast device", operations=1e18, bytes=1e18)


def test_the_limits_are_the_work_that_was_done_by_the_time_it_took(monkeypatch) -> None:
    done = []

    def clock(action: Callable[[], torch.Tensor], place: torch.device) -> float:
        with FlopCounterMode(display=False) as counter:
            done.append((action(), counter))
        return 0.25

    monkeypatch.setattr(bench, "_median_seconds", clock)
    found = bench.measure_limits(torch.device("cpu"))
    (_, product), (copied, copy) = done
    assert found.operations == product.get_total_flops() / 0.25 > 0
    assert copy.get_total_flops() == 0
    assert found.bytes == 2 * copied.nbytes / 0.25, "what is copied is read once and written once"
    assert copied.nbytes > 1 << 25, "more than a processor's caches hold"


def test_an_action_is_timed_by_its_median_without_the_first_time(monkeypatch) -> None:
    now, lasting = [0.0], iter([50.0, 3.0, 1.0, 2.0])  # the first one compiles
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])

    def action() -> None:
        now[0] += next(lasting)

    assert bench._median_seconds(action, torch.device("cpu"), repeats=3) == 2.0


def test_training_is_measured_in_a_folder_that_is_forgotten(corpus: Corpus, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shape = {"width": 16, "heads": 2, "hidden": 32, "encoder": 1, "decoder": 1}
    data = {
        "train": {"source": str(corpus.source), "target": str(corpus.target)},
        "batch_tokens": 256,
        "max_length": 64,
    }
    slow = bench.Limits("a slow device", operations=1e30, bytes=1e6)
    began = time.perf_counter()
    found = bench.measure_training({"data": data, "tokenizer": {"vocab": 320}, "model": shape}, slow, steps=20)
    spent = time.perf_counter() - began
    tokens = found.rate * found.milliseconds / 1000
    assert 100 < tokens <= 2 * 256, "a row of source and target tokens"
    assert found.milliseconds * 5 < 1000 * spent, "a quarter of the steps takes no longer than all of them"
    model = Transformer(TransformerConfig(vocab=320, **shape))
    touched = sum(4 * (2 + 1 + 2 + 2) * weight.numel() for weight in model.parameters())
    assert found.least == pytest.approx(1000 * touched / slow.bytes, rel=0.01), "weights, gradients, two moments"
    assert {path.suffix for path in tmp_path.iterdir()} == {".fr", ".en"}, "only the corpus was there before"


@pytest.mark.unchecked
def test_generating_is_measured_by_one_and_by_many(monkeypatch) -> None:
    monkeypatch.setattr(bench, "BATCHES", (1, 3))
    translator = recipe.load()
    found = bench.measure_answers(translator, ["A cat.", "Two dogs run."], SMALL, to="fr")
    assert [one.what for one in found][::2] == ["greedy, 1 at a time", "beam 5, 1 at a time"]
    assert all(one.rate > 1 and one.milliseconds > one.least for one in found)


@pytest.mark.unchecked
def test_nothing_the_command_prints_is_faster_than_its_own_least_time(monkeypatch) -> None:
    monkeypatch.setattr(bench, "BATCHES", (1, 2))
    done = CliRunner().invoke(app, ["bench", "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    speeds = json.loads(done.output)["speeds"]
    assert len(speeds) == 4
    assert all(speed["least"] > 0 for speed in speeds)
    assert all(speed["milliseconds"] >= speed["least"] for speed in speeds), speeds


@pytest.mark.unchecked
@pytest.mark.parametrize(("texts", "to"), [((), "fr"), (["Le chat dort sur le vieux canapé depuis ce matin."], "en")])
def test_a_translator_is_timed_into_a_language_its_texts_are_not_in(texts: list[str], to: str) -> None:
    translator = recipe.load()
    assert foreign_language(translator, texts or SENTENCES) == to
    [first, *_] = workloads(translator, texts, [1])
    assert first.action() == translator.translate(list(texts or SENTENCES)[:1], to=to, beams=1)
    assert first.action() != list(texts or SENTENCES)[:1]


@pytest.mark.unchecked
def test_texts_that_would_be_copied_are_not_timed() -> None:
    with pytest.raises(ValueError, match=r"4 of 4 texts are in en already .*The man in the red coat.*another --to"):
        bench.measure_answers(recipe.load(), [], SMALL, to="en")


@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_the_encoder_is_read_once_the_decoder_and_the_output_for_every_token(share: str) -> None:
    model = Transformer(TransformerConfig(vocab=50, width=16, heads=2, hidden=24, encoder=5, decoder=1, share=share))
    once, again = weights_read(model)
    decoder = sum(weight.nbytes for weight in model.decoder.parameters())
    assert once == sum(weight.nbytes for weight in model.encoder.parameters())
    assert again == decoder + 50 * 16 * 4


@pytest.mark.parametrize(
    ("kind", "copied"), [(Transformer, True), (Seq2Seq, False)], ids=["transformer", "recurrent network"]
)
def test_a_gpu_writes_with_a_copy_in_half_precision_where_a_model_has_blocks(kind, copied, monkeypatch) -> None:
    sizes = {"heads": 2, "hidden": 24, "encoder": 1, "decoder": 1} if kind is Transformer else {}
    config = (TransformerConfig if kind is Transformer else Seq2SeqConfig)(vocab=50, width=16, **sizes)
    model = kind(config)
    once, again = weights_read(model)
    monkeypatch.setattr(speed, "pays", lambda device: True)
    assert weights_read(model) == ((once // 2, again // 2) if copied else (once, again))


@pytest.mark.unchecked
def test_a_models_least_time_is_that_of_the_weights_it_reads(monkeypatch) -> None:
    monkeypatch.setattr(bench, "BATCHES", (1,))
    translator, bounds = recipe.load(), bench.Limits("a slow device", operations=1e18, bytes=1e6)
    once, again = weights_read(translator.model)
    answer = translator.translate("A cat.", to="fr", beams=1)
    tokens = len(translator.target.encode(answer)) + 1
    assert bench.measure_answers(translator, ["A cat."], bounds, to="fr")[0].least == (once + tokens * again) / 1000


@pytest.mark.parametrize(
    ("words", "message"), [(["a.yaml", "--to", "fr"], "--to belongs"), (["--steps", "30"], "--steps")]
)
def test_options_that_would_be_ignored_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CliRunner().invoke(app, ["bench", *words], catch_exceptions=False)


def test_the_command_prints_json(corpus: Corpus, tmp_path: Path) -> None:
    files = f"train: {{source: {corpus.source}, target: {corpus.target}}}"
    lines = ["data:", f"  {files}", "  tokens: 256", "  longest: 64"]
    lines += ["model: {width: 16, heads: 2, hidden: 32, encoder: 1, decoder: 1}"]
    path = tmp_path / "tiny.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    done = CliRunner().invoke(app, ["bench", str(path), "--steps", "20", "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert [one["what"] for one in told["speeds"]] == ["training"]
    assert told["limits"]["operations"] > 1e8


def test_settings_without_a_recipe_are_refused() -> None:
    with pytest.raises(ValueError, match=r"not a \.yaml file"):
        CliRunner().invoke(app, ["bench", "model", "a=1"], catch_exceptions=False)


@pytest.mark.unchecked
@pytest.mark.slow
def test_recurrent_translators_and_language_models_are_measured_too(
    corpus: Corpus, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(bench, "BATCHES", (1, 2))
    monkeypatch.setattr(bench, "LENGTH", 10)
    data = {
        "train": {"source": str(corpus.source), "target": str(corpus.target)},
        "batch_tokens": 256,
        "max_length": 64,
    }
    shape = {"name": "seq2seq", "width": 16, "embedding": 16}
    assert bench.measure_training({"data": data, "model": shape}, SMALL, steps=20).rate > 100
    recipes = Path(__file__).parent.parent / "recipes"
    assert bench.measure_training(recipe.settings(recipes / "masse.yaml"), SMALL, steps=20).rate > 10
    outcome = recipe.train(
        recipe.settings(recipes / "masse.yaml", "training.steps=2"), out=tmp_path / "run", quiet=True
    )
    found = bench.measure_answers(recipe.load(outcome.best), [], SMALL)
    assert found[0].what == "writing, 1 at a time"
    done = CliRunner().invoke(app, ["bench", str(tmp_path / "run"), "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output


def test_a_table_is_measured_in_rows() -> None:
    root = Path(__file__).parent.parent
    asked = recipe.settings(root / "recipes" / "pendulum.yaml", f"data.train={root}/regard/samples/pendulum.csv")
    found = bench.measure_training(asked, SMALL, steps=20)
    assert found.unit == "rows"
    assert found.rate > 100


def test_any_model_is_measured_by_its_answers(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    table = root / "regard" / "samples" / "pendulum.csv"
    asked = recipe.settings(root / "recipes" / "pendulum.yaml", f"data.train={table}", "training.steps=2")
    recipe.train(asked, out=tmp_path / "run", quiet=True)
    done = CliRunner().invoke(app, ["bench", str(tmp_path / "run"), "-i", str(table), "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["speeds"]
    assert [one["what"] for one in told] == [f"predict, {count} at a time" for count in bench.BATCHES]
    assert all(one["unit"] == "answers" and one["rate"] > 1 for one in told)
    with pytest.raises(ValueError, match="give it inputs to answer"):
        CliRunner().invoke(app, ["bench", str(tmp_path / "run"), "--device", "cpu"], catch_exceptions=False)


def test_word_vectors_are_measured_in_words_whatever_the_epochs(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")
    asked = words.recipe(words.write(tmp_path / "text.txt", lines=300))
    assert asked["training"]["epochs"] == 4, "which would be fewer steps"
    found = bench.measure_training(asked, SMALL, steps=20)
    assert (found.unit, found.least) == ("words", 0), "no optimizer, of whose work the least is known"
    assert found.rate > 100

"""Whole runs: exact resume, adaptation, several languages, separate vocabularies, refusals before any work."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import checkpoint, recipe
from regard.config.fields import default_of, hints, named_sections
from regard.tasks import TASKS
from regard.tasks.translation.task import transformer_sizes
from regard.training.bookkeeping import Result
from regard.training.guard import Faults
from tests.conftest import SMALL, Corpus, sentences

TINY = {
    **SMALL,
    "model": {"width": 16, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 1, "dropout": 0.2},
    "training": {
        "steps": 9,
        "eval_every": 100,
        "save_every": 100,
        "log_every": 5,
        "accumulate": 2,
        "tensorboard": False,
    },
}


def tiny(corpus: Corpus, *changes: str) -> dict[str, Any]:
    train = {"source": str(corpus.source), "target": str(corpus.target)}
    return recipe.settings({**TINY, "data": {**TINY["data"], "train": train}}, "objective.eval_examples=4", *changes)


def final(folder: Path, step: int) -> dict[str, torch.Tensor]:
    return checkpoint.read(folder / "checkpoints" / f"step-{step}").tensors()


@pytest.mark.unchecked
def test_a_run_interrupted_anywhere_ends_with_the_same_weights(corpus: Corpus, tmp_path: Path):
    whole = recipe.train(tiny(corpus), out=tmp_path / "whole", quiet=True)
    task, resolved = recipe.resolve(tiny(corpus))
    boundary = task.prepare(resolved).train.rows  # rows of an epoch; two of them make a step
    assert boundary % 2 == 0
    assert boundary < 18
    for stop in (1, boundary // 2, 7):
        folder = tmp_path / f"stopped-{stop}"
        recipe.train(tiny(corpus, f"training.steps={stop}"), out=folder, quiet=True)
        recipe.train(tiny(corpus), out=folder, resume=True, quiet=True)
        expected = final(whole.folder, 9)
        for name, tensor in final(folder, 9).items():
            assert torch.equal(tensor, expected[name]), (stop, name)


def test_a_filled_folder_is_refused_and_nothing_in_it_changes(trained: Path, corpus: Corpus):
    before = (trained / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"--resume.*--overwrite"):
        recipe.train(tiny(corpus), out=trained, quiet=True)
    assert (trained / "metrics.jsonl").read_bytes() == before


def test_another_architecture_cannot_go_on(corpus: Corpus, tmp_path: Path):
    recipe.train(tiny(corpus, "training.steps=1"), out=tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match=r"model\.width: 16 -> 32"):
        recipe.train(tiny(corpus, "model.width=32"), out=tmp_path / "run", resume=True, quiet=True)


def test_adapting_starts_from_the_parent_and_keeps_its_tokenizer(trained: Path, corpus: Corpus, tmp_path: Path):
    settings = tiny(corpus, "training.steps=1", "optim.learning_rate=1e-12")
    del settings["model"], settings["tokenizer"]
    outcome = recipe.train(settings, out=tmp_path / "adapted", start=trained, quiet=True)
    parent, child = checkpoint.read(trained / "best"), checkpoint.read(outcome.best)
    assert child.text("tokenizer.json") == parent.text("tokenizer.json")
    for name, tensor in child.tensors().items():
        assert torch.allclose(tensor, parent.tensors()[name], atol=1e-6), name
    assert outcome.metrics["bleu"] > 50


def test_a_run_that_adapts_resumes_with_the_parents_tokenizer(trained: Path, corpus: Corpus, tmp_path: Path):
    settings = tiny(corpus, "training.steps=2")
    del settings["model"], settings["tokenizer"]
    recipe.train(settings, out=tmp_path / "run", start=trained, quiet=True)
    again = recipe.settings(tmp_path / "run" / "config.yaml", "training.steps=3")
    outcome = recipe.train(again, out=tmp_path / "run", resume=True, quiet=True)
    assert outcome.result.step == 3
    assert checkpoint.read(outcome.best).text("tokenizer.json") == checkpoint.read(trained / "best").text(
        "tokenizer.json"
    )


def test_another_shape_than_the_parents_is_refused(trained: Path, corpus: Corpus, tmp_path: Path):
    with pytest.raises(ValueError, match=r"model\.width is 64"):
        recipe.train(tiny(corpus), out=tmp_path / "run", start=trained, quiet=True)


@pytest.mark.slow
@pytest.mark.unchecked
def test_one_model_translates_into_several_languages_by_tag(tmp_path: Path):
    pairs = sentences()
    (tmp_path / "to-en.tsv").write_text("".join(f"{fr}\t{en}\n" for fr, en in pairs), encoding="utf-8")
    (tmp_path / "to-fr.tsv").write_text("".join(f"{en}\t{fr}\n" for fr, en in pairs), encoding="utf-8")
    corpora = [{"path": str(tmp_path / f"to-{tag}.tsv"), "tag": tag} for tag in ("en", "fr")]
    settings = {**SMALL, "data": {**SMALL["data"], "train": corpora}}
    outcome = recipe.train(recipe.settings(settings, "training.steps=120"), out=tmp_path / "run", quiet=True)
    translator = regard.load(outcome.folder)
    assert translator.languages == ["en", "fr"]
    assert translator.translate("Le roi dort.", to="en").startswith("The king")
    assert translator.translate("The king sleeps.", to="fr").startswith("Le roi")
    both = "Le roi dort.", "The king sleeps."
    assert [translator.translate(text) for text in both] == [
        translator.translate(text, to=to) for text, to in zip(both, ("en", "fr"), strict=True)
    ]
    assert translator.translate("Tom."), "nothing is too short to be answered"
    with pytest.raises(ValueError, match="which language"):
        translator.encode("Tom.")
    with pytest.raises(ValueError, match=r"de.*en, fr"):
        translator.translate("Le roi dort.", to="de")


@pytest.mark.parametrize("kind", ["unigram", "words", "characters"])
def test_every_tokenizer_and_separate_vocabularies_go_all_the_way(corpus: Corpus, tmp_path: Path, kind: str):
    changes = f"tokenizer={{kind: {kind}, joint: false}}", "model.share=target", "training.steps=2"
    outcome = recipe.train(tiny(corpus, *changes), out=tmp_path / "run", quiet=True)
    translator = regard.load(outcome.folder)
    assert translator.source.vocab == translator.model.config.vocab
    assert translator.target.vocab == translator.model.config.target_vocab
    assert len(translator.translate(["Le roi dort.", "🦊"])) == 2


def test_sizes_follow_the_data_when_no_model_is_named(corpus: Corpus, tmp_path: Path):
    settings = tiny(corpus, "training.steps=1")
    del settings["model"]
    outcome = recipe.train(settings, out=tmp_path / "run", quiet=True)
    assert checkpoint.read(outcome.best).config["model"]["width"] == transformer_sizes(180)["width"]
    widths = [transformer_sizes(pairs).get("width", 512) for pairs in (100, 20_000, 200_000, 5_000_000)]
    assert widths == sorted(widths)
    assert widths[-1] == 512


def test_what_is_named_is_laid_over_the_derived_sizes(corpus: Corpus, tmp_path: Path):
    settings = tiny(corpus, "training.steps=1") | {"model": {"preset": "auto", "width": 32}}
    shape = checkpoint.read(recipe.train(settings, out=tmp_path / "run", quiet=True).best).config["model"]
    assert shape["width"] == 32
    assert shape["encoder"] == transformer_sizes(180)["encoder"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("optim.warmpu=3", r"optim\.warmpu.*warmup"),
        ("modle.width=3", r"modle.*model"),
        ("model.norm=per", r"model\.norm.*pre"),
        ("task=translate", "did you mean translation"),
        ("data.train.source=missing.fr", r"missing\.fr"),
        ("training.precision=bfloat16", "bfloat16"),
        ("model.heads=5", "divide"),
        ("model.context=32", r"data\.max_length.*model\.context"),
        ("training.device=cuda:7", "cuda"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    corpus: Corpus, tmp_path: Path, change: str, message: str
):
    with pytest.raises(ValueError, match=message):
        recipe.train(tiny(corpus, change), out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("task", TASKS)
def test_sizes_without_the_name_of_a_network_are_those_of_the_default_one(task: str):
    asked = TASKS[task].task.Recipe
    [model] = [field for field in dataclasses.fields(asked) if field.name == "model"]
    choices = list(named_sections(hints(asked)["model"]).values())
    if len(set(choices)) > 1 and dataclasses.is_dataclass(default := default_of(model)):
        assert choices[0] is type(default)


def test_the_run_folder_holds_what_was_promised(trained: Path):
    there = {path.name for path in trained.iterdir()}
    files = {"config.yaml", "command.txt", "env.json", "data.json", "metrics.jsonl", "train.log"}
    promised = files | {"checkpoints", "best", "samples"}
    assert promised <= there
    files = {path.name for path in (trained / "best").iterdir()}
    assert files == {"config.yaml", "tokenizer.json", "model.safetensors", "README.md", "metrics.json", "manifest.json"}


def test_a_checkpoint_works_wherever_it_is_moved(trained: Path, tmp_path: Path):
    moved = (trained / "best").rename(tmp_path / "elsewhere")
    try:
        assert regard.load(moved).translate("Le roi dort.") == "The king sleeps."
    finally:
        moved.rename(trained / "best")


def test_the_first_checkpoint_format_still_loads():
    translator = regard.load(Path(__file__).parent / "checkpoints" / "format-1", device="cpu")
    assert translator.translate(["Le chat noir dort.", "Le roi mange !"], beams=1) == [
        "The black cat sleeps.",
        "The king eats!",
    ]


def test_a_score_that_is_not_finite_is_said_in_the_summary_of_a_run():
    """On disk it is null."""
    result = Result(2, "steps", 1.0, None, Faults(), {})
    metrics: dict[str, Any] = {"accuracy": 0.5, "perplexity": None}
    told = recipe.Outcome(Path("runs/a"), Path("runs/a/best"), metrics, result, "regard predict {folder}").summary
    assert told.startswith("runs/a: 2 steps, stopped by steps, best accuracy 0.5, perplexity not finite\n")

"""Word vectors learn which words stand for one another, repeat themselves exactly, and go on where they stopped."""

import itertools
import json
import os
import signal
from pathlib import Path

import pytest

import regard
from regard import checkpoint, recipe
from regard.models.word2vec import Word2Vec
from regard.training.history import summarise_run
from tests.tasks import words

pytest.importorskip("numba", reason="numba is not installed (pip install 'regard[words]')")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return words.write(tmp_path_factory.mktemp("text") / "text.txt")


def train(text: Path, out: Path, *settings: str, **how):
    return recipe.train(recipe.settings(words.recipe(text), *settings), out=out, quiet=True, **how)


VARIANTS = list(itertools.product(["skipgram", "cbow"], ["negative", "hierarchical", "softmax"], [1]))


@pytest.mark.parametrize(("architecture", "output", "workers"), [*VARIANTS, ("skipgram", "negative", 2)])
def test_words_that_stand_for_one_another_become_neighbours(text, tmp_path, architecture, output, workers):
    settings = [f"model.architecture={architecture}", f"model.output={output}", f"training.threads={workers}"]
    outcome = train(text, tmp_path / "run", *settings, "training.epochs=6")
    assert outcome.result.reason == "steps"
    assert words.purity(regard.load(tmp_path / "run")) > 0.95
    vectors = regard.load(tmp_path / "run").vectors
    size = 2 * vectors.size - (
        vectors.shape[1] if output == "hierarchical" else 0
    )  # a tree has fewer nodes than leaves
    assert f"training {size:,} parameters" in (tmp_path / "run" / "train.log").read_text()
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["kind"] == "evaluation"]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


def test_one_worker_repeats_itself_exactly_and_another_seed_differs(text, tmp_path):
    seeds = {"a": 0, "b": 0, "c": 1}
    runs = [train(text, tmp_path / name, f"training.seed={seed}").best for name, seed in seeds.items()]
    first, again, other = (regard.load(best).vectors for best in runs)
    assert (first == again).all()
    assert (first != other).any()


def test_a_run_leaves_what_runs_leave(text, tmp_path):
    outcome = train(text, tmp_path / "run", command=["regard", "train"])
    folder = tmp_path / "run"
    names = {
        "config.yaml",
        "command.txt",
        "env.json",
        "data.json",
        "metrics.jsonl",
        "train.log",
        "samples",
        "state.json",
    }
    assert names <= {path.name for path in folder.iterdir()}
    assert {"vocabulary.tsv", "model.safetensors", "config.yaml", "metrics.json", "README.md"} == set(
        checkpoint.read(folder / "best").files
    )
    assert (folder / "checkpoints" / f"step-{outcome.result.step}").is_dir()
    told = summarise_run(folder)
    assert (told.state, told.step) == ("finished", outcome.result.step)
    assert set(outcome.metrics) == {"loss"}
    assert f"use it with: regard words similar {folder} WORD" in outcome.summary
    assert json.loads((folder / "data.json").read_text())["train"]["words"] == outcome.result.counts["words"] / 4


@pytest.mark.parametrize("at", [3, 7])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(text, tmp_path, monkeypatch, at):
    monkeypatch.setattr("regard.tasks.word2vec.corpus.BLOCK", 3000)
    whole = train(text, tmp_path / "whole")
    learn, calls = Word2Vec.learn, itertools.count(1)

    def interrupted(self, *given, **more):
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGINT)
        return learn(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Word2Vec, "learn", interrupted)
        stopped = train(text, tmp_path / "stopped")
    assert stopped.result.reason == "interrupted"
    assert at <= stopped.result.step < whole.result.step
    assert "regard train --resume" in stopped.summary
    resumed = train(text, tmp_path / "stopped", resume=True)
    assert resumed.result.step == whole.result.step
    for name in ("model.safetensors", "training.safetensors"):
        ends = [checkpoint.read(run.folder / "checkpoints" / f"step-{whole.result.step}") for run in (whole, resumed)]
        mine, theirs = (end.tensors(name) for end in ends)
        assert all((mine[key] == theirs[key]).all() for key in mine)
    assert train(text, tmp_path / "stopped", resume=True).result.step == whole.result.step  # nothing left to do


def test_a_run_does_not_go_on_with_another_model_or_other_text(text, tmp_path):
    train(text, tmp_path / "run", "training.epochs=1")
    with pytest.raises(ValueError, match=r"model\.width: 16 -> 8"):
        train(text, tmp_path / "run", "model.width=8", resume=True)
    other = words.write(tmp_path / "other.txt", lines=500)
    with pytest.raises(ValueError, match=r"other\.txt: sha256"):
        train(other, tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="not empty"):
        train(text, tmp_path / "run")


def test_tests_named_in_the_recipe_are_taken_after_every_epoch(text, tmp_path):
    (tmp_path / "pairs.tsv").write_text("nouna\tnounb\t9\nnouna\tverba\t1\nfooda\tfoodc\t8\nfooda\tmissing\t3\n")
    (tmp_path / "questions.txt").write_text(": classes\nnouna nounb verba verbb\nnouna nounb x y\n")
    settings = [f"data.similarity={tmp_path / 'pairs.tsv'}", f"data.analogies={tmp_path / 'questions.txt'}"]
    metrics = train(text, tmp_path / "run", *settings).metrics
    assert metrics["similarity"] > 0.4
    assert metrics["analogies"] in (0.0, 1.0)


def test_a_rate_that_is_far_too_high_is_a_failure_and_leaves_no_model(text, tmp_path):
    outcome = train(text, tmp_path / "run", "optim.learning_rate=1e30")
    assert outcome.result.has_failed
    assert "lower optim.learning_rate" in outcome.result.reason
    assert summarise_run(tmp_path / "run").state == "failed"
    assert not outcome.best.exists()


def test_words_that_are_known_begin_with_their_vectors(text, tmp_path):
    parent = train(text, tmp_path / "parent").folder
    other = words.write(tmp_path / "other.txt", lines=300)
    other.write_text(other.read_text() + "somethingnew nouna verba\n" * 20)
    train(
        other,
        tmp_path / "run",
        "training.epochs=1",
        "optim.learning_rate=1e-9",
        "optim.final_learning_rate=1e-10",
        start=parent,
    )
    before, after = regard.load(parent), regard.load(tmp_path / "run")
    assert abs(before.vectors[before.index_of("nouna")] - after.vectors[after.index_of("nouna")]).max() < 1e-6
    said = (tmp_path / "run" / "train.log").read_text()
    assert f"vectors of {len(after.words) - 1} of {len(after.words)} words taken over" in said
    with pytest.raises(ValueError, match=r"model\.width"):
        train(other, tmp_path / "wide", "model.width=8", start=parent)


def test_wrong_settings_are_named(text, tmp_path):
    with pytest.raises(ValueError, match=r"unknown setting training\.epoch, did you mean epochs"):
        train(text, tmp_path / "run", "training.epoch=3")
    with pytest.raises(ValueError, match=r"model\.architecture must be one of skipgram, cbow"):
        train(text, tmp_path / "run", "model.architecture=skip")
    with pytest.raises(ValueError, match=r"training\.threads must be a whole number from 1 to 1,000, not 0"):
        train(text, tmp_path / "run", "training.threads=0")
    with pytest.raises(ValueError, match=r"no file pairs\.tsv"):
        train(text, tmp_path / "run", "data.similarity=pairs.tsv")
    assert not (tmp_path / "run").exists(), "a training that was refused leaves no folder"
    assert train(text, tmp_path / "run", "training.epochs=1").result.step, "what never began is not in the way"


def test_an_error_in_a_thread_ends_the_run(text, tmp_path, monkeypatch):
    def broken(self, tokens, **_):
        raise MemoryError("no room for it")

    monkeypatch.setattr(Word2Vec, "learn", broken)
    with pytest.raises(MemoryError, match="no room"):
        train(text, tmp_path / "run", "training.threads=2")
    assert summarise_run(tmp_path / "run").state == "failed"

"""The translation task: halves of a row teach what the row teaches, and every pair knows its place."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import recipe
from regard.data.examples import sample_evenly, spread_over_classes
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer import Transformer
from regard.tasks.translation import task as translation
from regard.tasks.translation.task import Translation
from tests.conftest import SMALL, Corpus
from tests.documents import ROOT


@pytest.fixture
def task(corpus: Corpus, tmp_path: Path) -> Translation:
    train = {"source": str(corpus.source), "target": str(corpus.target)}
    _, resolved = recipe.resolve({**SMALL, "data": {**SMALL["data"], "train": train}})
    prepared = Translation.prepare(resolved)
    resolved = Translation.fill_sizes(resolved, prepared)
    return Translation(resolved, prepared, Transformer(resolved.model))


def test_the_halves_of_a_row_add_up_to_it(task: Translation):
    batch = task.batch(0)
    whole = task.step(batch, "model")
    parts = [task.step(half, "model") for half in task.split(batch)]
    assert len(parts) == 2
    assert sum(part.loss for part in parts).item() == pytest.approx(whole.loss.item(), rel=1e-5)
    assert sum(int(part.weight) for part in parts) == int(whole.weight)
    assert sum(int(part.counts["tokens"]) for part in parts) == int(whole.counts["tokens"])


def test_halving_ends_at_a_single_pair(task: Translation):
    pieces = [task.batch(0)]
    while any(len(piece.examples) > 1 for piece in pieces):
        pieces = [half for piece in pieces for half in task.split(piece)]
    assert sorted(int(piece.examples[0]) for piece in pieces) == sorted(task.batch(0).examples.tolist())


def test_every_pair_is_named_by_its_place_the_longest_first(task: Translation, corpus: Corpus):
    batch = task.batch(0)
    places = task.origins(batch)
    assert len(places) == len(batch.examples)
    lines = [int(place.rpartition(":")[2]) for place in places]
    lengths = [len(task.prepared.source_tokenizer.encode(corpus.pairs[line - 1][0])) for line in lines]
    lengths = [
        length + len(task.prepared.target_tokenizer.encode(corpus.pairs[line - 1][1]))
        for length, line in zip(lengths, lines, strict=True)
    ]
    assert lengths == sorted(lengths, reverse=True)


def test_a_fixed_row_has_the_loss_of_an_exact_one(task: Translation):
    exact = task.step(task.batch(0), "model")
    task.fixed = True
    filled = task.step(task.batch(0), "model")
    assert filled.loss.item() == pytest.approx(exact.loss.item(), rel=1e-5)
    assert int(filled.weight) == int(exact.weight)
    gradient = torch.autograd.grad(filled.loss, task.model.embedding.weight)[0]
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_fixed_rows_and_a_loss_in_chunks_teach_what_exact_rows_and_a_whole_loss_do(
    name: str, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shape = SMALL["model"] if name == "transformer" else {"name": "seq2seq", "width": 16, "embedding": 16}
    train = {"source": str(corpus.source), "target": str(corpus.target)}
    changed = {"data": {**SMALL["data"], "train": train}, "model": {**shape, "dropout": 0.0}}
    _, resolved = recipe.resolve({**SMALL, **changed})
    prepared = Translation.prepare(resolved)
    resolved = Translation.fill_sizes(resolved, prepared)
    curves, weights = [], []
    for fixed, held in ((False, 1 << 24), (True, 1 << 10)):
        monkeypatch.setitem(translation.WHOLE, "cpu", held)
        torch.manual_seed(0)
        model = (Transformer if name == "transformer" else Seq2Seq)(resolved.model).double()
        task = Translation(resolved, prepared, model, fixed=fixed)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        curve = []
        for row in range(8):
            step = task.step(task.batch(row), "model")
            optimizer.zero_grad()
            (step.loss / step.weight).backward()
            optimizer.step()
            curve.append(float(step.loss.detach() / step.weight))
        curves.append(curve)
        weights.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
    assert curves[0] == pytest.approx(curves[1], rel=1e-7)  # chunks are added up in float32
    assert curves[0][-1] < curves[0][0]
    assert torch.allclose(*weights, atol=1e-6)


@pytest.mark.slow
def test_a_step_is_compiled_whole_and_once_for_rows_of_all_lengths(corpus: Corpus):
    words = [sys.executable, "-m", "tests.tasks.compiling", str(corpus.source), str(corpus.target)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)  # where no types are checked, as for users
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("size", "count"), [(10, 4), (1000, 500), (7, 7), (3, 9), (5, 1)])
def test_a_part_is_taken_evenly_from_the_whole_and_always_the_same(size: int, count: int):
    chosen = sample_evenly(range(size), count)
    assert len(chosen) == min(size, count)
    assert list(chosen) == sorted(set(chosen))
    for part in range(min(size, count)):  # one from each of as many stretches
        assert part * size <= chosen[part] * min(size, count) + min(size, count) - 1 < (part + 1) * size + size


def test_examples_are_taken_of_every_class_in_turn_or_of_classes_far_apart():
    labels = [0] * 6 + [1] * 3 + [2]
    assert spread_over_classes(labels, 4) == [0, 6, 9, 1]
    assert spread_over_classes(labels, 2) == [0, 9]
    assert spread_over_classes(labels, 99) == [0, 6, 9, 1, 7, 2, 8, 3, 4, 5]
    assert spread_over_classes([], 3) == []


def test_every_validation_corpus_is_judged(corpus: Corpus, tmp_path: Path):
    pair = {"source": str(corpus.source), "target": str(corpus.target)}
    turned = {"source": str(corpus.target), "target": str(corpus.source)}
    both = [{**pair, "tag": "en"}, {**turned, "tag": "fr"}]
    settings = {**SMALL, "data": {**SMALL["data"], "train": both, "valid": both}, "objective": {"eval_examples": 10}}
    _, resolved = recipe.resolve(settings)
    prepared = Translation.prepare(resolved)
    resolved = Translation.fill_sizes(resolved, prepared)
    judged = sample_evenly(Translation(resolved, prepared, Transformer(resolved.model)).texts, 10)
    assert [text.tag for text in judged].count("fr") == 5

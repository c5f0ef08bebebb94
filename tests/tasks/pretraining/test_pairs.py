"""Pairs among documents: read together, whole, in either order; bad lines are named by their place."""

import gzip

import numpy as np
import pytest
import torch

from regard import recipe
from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.masked import MaskedLM
from regard.tasks.pretraining.masking import MaskedRows
from tests.tasks.pretraining.making import made, settings

PAIRS = [(f"one {n} cat{'s' * (n % 5)}", f"chat {n} un" + " de plus" * (n % 3)) for n in range(60)]
LINES = [f"alone {n} " + "word " * (n % 9) for n in range(30)]


def files(place, *, more=()) -> dict:
    text, pairs = place / "text.txt", place / "pairs.tsv.gz"
    text.write_text("\n".join(LINES) + "\n")
    with gzip.open(pairs, "wt") as out:
        out.write("\n".join(["\t".join(pair) for pair in PAIRS] + list(more)) + "\n")
    return {"train": {"path": str(text)}, "pairs": {"path": str(pairs)}}


def task(place, *changes, context=64, **data) -> MaskedLM:
    return made("masked-lm", f"model.context={context}", *changes, context=context, **files(place), **data)


def sequences(rows: MaskedRows, number: int) -> list[tuple[list[int], list[int]]]:
    """What stood in every sequence of a row before anything was hidden, and the segments of its tokens."""
    batch = rows.batch(number)
    tokens, real = batch.tokens.clone(), batch.labels != IGNORE
    tokens[batch.places[real]] = batch.labels[real]
    at = batch.row.offsets.tolist()
    return [
        (tokens[at[n] : at[n + 1]].tolist(), batch.segments[at[n] : at[n + 1]].tolist())
        for n in range(int(batch.row.count))
    ]


def told(own, tokens: list[int]) -> tuple[str, ...]:
    """The texts of a sequence."""
    assert (tokens[0], tokens[-1]) == (own.begin, own.separator)
    inner, texts = tokens[1:], [[]]
    for token in inner:
        texts[-1].append(token) if token != own.separator else texts.append([])
    return tuple(own.decode(each) for each in texts[:-1])


@pytest.mark.parametrize("fixed", [False, True])
def test_in_an_epoch_every_text_and_every_pair_is_read_once_whole_and_in_either_order(tmp_path, fixed):
    learner = task(tmp_path, "data.batch_size=9")
    own, data = learner.prepared.tokenizer, learner.recipe.data
    rows = MaskedRows(learner.prepared.train, own, data.context, data.batch_size, 3, pairs=True, fixed=fixed)
    orders = []
    for epoch in (0, 1):
        found = []
        for number in range(epoch * rows.rows, (epoch + 1) * rows.rows):
            for tokens, segments in sequences(rows, number):
                texts = told(own, tokens)
                middle = tokens.index(own.separator)
                assert segments == [0] * (middle + 1) + [1] * (len(tokens) - middle - 1), (
                    "its separator belongs to a text"
                )
                found.append(texts)
        twos = [texts for texts in found if len(texts) == 2]
        assert sorted(tuple(sorted(texts)) for texts in twos) == sorted(tuple(sorted(pair)) for pair in PAIRS)
        assert sorted(texts[0] for texts in found if len(texts) == 1) == sorted(LINES)
        straight = {texts for texts in twos if texts in PAIRS}
        assert 15 < len(straight) < 45, "either order is as likely"
        orders.append(straight)
    assert orders[0] != orders[1]


def test_what_is_hidden_is_what_stood_there_and_never_a_separator(tmp_path):
    learner = task(tmp_path)
    own, rows = learner.prepared.tokenizer, learner.source
    seen = 0
    for number in range(rows.rows):
        batch = rows.batch(number)
        assert len(batch.places) == len(batch.labels)
        assert not set(batch.labels.tolist()) & own.special
        seen += int((batch.segments[batch.places] == 1).sum())
    assert seen, "second texts are guessed too"
    one, other = rows.batch(2), task(tmp_path).source.batch(2)
    assert one.tokens.equal(other.tokens)
    assert one.places.equal(other.places)


def test_a_row_of_fixed_shape_has_the_loss_of_a_free_one_and_nothing_is_read_across(tmp_path):
    learner = task(tmp_path, double=True)
    own, data = learner.prepared.tokenizer, learner.recipe.data
    free, fixed = (
        MaskedRows(learner.prepared.train, own, data.context, data.batch_size, 0, pairs=True, fixed=each)
        for each in (False, True)
    )
    shapes = {
        tuple(map(len, (batch.tokens, batch.places, batch.row.lengths)))
        for batch in map(fixed.batch, range(fixed.rows))
    }
    assert len(shapes) == 1
    learner.model.eval()
    for number in (0, free.rows - 1):
        one, other = (learner.step(rows.batch(number), "model").loss for rows in (free, fixed))
        torch.testing.assert_close(one, other)
        halves = sum(learner.step(half, "model").loss for half in free.batch(number).halves())
        torch.testing.assert_close(one, halves)


def test_of_a_pair_too_long_for_a_window_the_beginnings_are_read(tmp_path):
    learner = task(tmp_path, context=16)
    own, rows = learner.prepared.tokenizer, learner.source
    found = [told(own, tokens) for number in range(rows.rows) for tokens, _ in sequences(rows, number)]
    twos = [texts for texts in found if len(texts) == 2]
    assert len(twos) == len(PAIRS)
    for one, other in twos:
        pair = next(pair for pair in PAIRS for a, b in (pair, pair[::-1]) if a.startswith(one) and b.startswith(other))
        assert len(one) + len(other) == min(13, sum(map(len, pair)))
        assert min(len(one), len(other)) >= min(6, *map(len, pair))
    whole = "".join(sorted(text for texts in found if len(texts) == 1 for text in texts))
    assert sorted(whole) == sorted("".join(LINES)), "a longer text is read in parts"


def test_bad_lines_of_pairs_are_named_by_their_place(tmp_path):
    data = files(tmp_path, more=["no tab here", "\tempty", "a\0b\tc"])
    with pytest.raises(ValueError, match=r"3 of 93 lines .* fewer than 2 columns \(.*pairs.tsv.gz:61\)") as said:
        made("masked-lm", **data)
    assert "pairs.tsv.gz:62" in str(said.value)
    assert "with a NUL character" in str(said.value)
    kept = made("masked-lm", "data.reject=0.5", **data)
    assert kept.prepared.train.place(len(LINES)).endswith("pairs.tsv.gz:1")
    assert any("fewer than 2 columns" in line for line in kept.prepared.summary)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["objective.next_sentence=true", "model.segments=2"], "leave one of them out"),
        (["data.pairs.weight=2"], "tag and weight are of no use for pairs of texts"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(tmp_path, changes, said):
    with pytest.raises(ValueError, match=said):
        made("masked-lm", *changes, **files(tmp_path))


def test_a_run_may_have_pairs_alone_and_notices_that_they_are_others(tmp_path):
    asked = settings("masked-lm", "training.steps=1", "training.eval_every=1", **files(tmp_path))
    del asked["data"]["train"]
    outcome = recipe.train(asked, out=tmp_path / "run", quiet=True)
    assert "pairs.tsv.gz" in (outcome.best / "README.md").read_text()
    files(tmp_path, more=["another\tpair"])
    with pytest.raises(ValueError, match="data"):
        recipe.train(recipe.settings(asked, "training.steps=2"), out=tmp_path / "run", resume=True, quiet=True)


def test_a_model_without_segments_reads_pairs_by_their_separator_alone(tmp_path):
    learner = task(tmp_path, "model.segments=0")
    assert np.isfinite(learner.step(learner.batch(0), "model").loss.item())
    assert task(tmp_path).recipe.model.segments == 2

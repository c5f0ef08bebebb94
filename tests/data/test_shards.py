"""Shards: what was written comes back, sorted into length buckets."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import shards
from regard.data.shards import Shards, Writer


def writes(place: Path, corpora, bounds=(4, 8), vocabs=(100, 100)) -> Shards:
    writer = Writer(place, vocabs)
    for corpus in corpora:
        writer.begin()
        for start in range(0, len(corpus), 2):  # in batches of two
            sources, targets, lines = zip(*corpus[start : start + 2], strict=True)
            sides = ((np.concatenate(side), np.array([len(text) for text in side])) for side in (sources, targets))
            writer.add(*sides, lines=np.array(lines))
    writer.finish(bounds)
    return Shards(place)


texts = st.lists(st.integers(0, 99), min_size=1, max_size=8)
corpora = st.lists(st.lists(st.tuples(texts, texts, st.integers(1, 10**12)), max_size=9), min_size=1, max_size=3)


@given(corpora.filter(any), st.integers(1, 4))
def test_shards_give_back_what_was_written_sorted_into_cells(tmp_path, corpora, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "CHUNK", chunk)  # indexing in pieces gives the same index
        written = writes(tmp_path, corpora)
    flat = [(number, *example) for number, corpus in enumerate(corpora) for example in corpus]
    assert written.examples == len(flat)
    order = np.arange(len(flat))[::-1].copy()
    for side, column in (("source", 1), ("target", 2)):
        tokens, lengths = written.gather(side, order)
        expected = [flat[example][column] for example in order]
        assert tokens.tolist() == [token for text in expected for token in text]
        assert lengths.tolist() == [len(text) for text in expected]
    assert [written.origin(example) for example in range(len(flat))] == [(row[0], row[3]) for row in flat]

    def cell_of(source: list[int], target: list[int]) -> bool:
        return max(len(source), len(target)) > 4

    def cell(example: int) -> tuple[bool, int]:
        return cell_of(*flat[example][1:3]), flat[example][0]

    assert written.order.tolist() == sorted(range(len(flat)), key=cell)
    for bound, of_bucket in zip((False, True), written.cells, strict=True):
        for number, found in enumerate(of_bucket):
            inside = [
                (len(source), len(target))
                for c, source, target, _ in flat
                if cell_of(source, target) == bound and c == number
            ]
            assert found.size == len(inside)
            assert found.total == tuple(sum(pair[side] for pair in inside) for side in (0, 1))
            assert found.squares == tuple(sum(pair[side] ** 2 for pair in inside) for side in (0, 1))


@pytest.mark.parametrize(("vocab", "kind"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_tokens_take_two_bytes_while_they_can(tmp_path, vocab, kind):
    written = writes(tmp_path, [[([vocab - 1], [vocab - 1], 1)]], vocabs=(vocab, vocab))
    assert written.tokens["source"].dtype == kind
    assert written.gather("target", np.array([0]))[0].tolist() == [vocab - 1]
    assert json.loads((tmp_path / "meta.json").read_text())["examples"] == 1

"""Tokenising pairs: several processes write the same bytes as one, and long texts are cut or left out as lists are."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig, train
from regard.tasks.translation import encoding, indexing
from regard.tasks.translation.encoding import Batch, Encoder, Tokens

WORDS = ["le", "chat", "dort", "sur", "la", "table", "été", "Noël"]


@pytest.fixture(scope="module")
def tokenizers():
    own = train([" ".join(WORDS)] * 3, TokenizerConfig(vocab=300), tags=["fr"])
    return own, own


def pairs(count: int) -> list[tuple[int, str, str]]:
    def text(number: int) -> str:
        return " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 2 + number % 23))

    return [(line, text(line), text(line + 5)) for line in range(1, count + 1)]


def written(place: Path, tokenizers, *, processes: int, cut: bool) -> dict[str, bytes]:
    split = indexing.Split(place, tokenizers, longest=12, cut=cut, texts=cut, processes=processes)
    corpora = [Corpus(path="a.tsv", tag="fr"), Corpus(path="b.tsv")]
    for corpus in corpora:
        split.begin(corpus)
        for pair in pairs(60):
            split.add(*pair)
    split.finish(corpora)
    return {file.name: file.read_bytes() for file in place.iterdir()}


@pytest.mark.parametrize("cut", [True, False])
def test_three_processes_write_what_one_writes(tmp_path, tokenizers, monkeypatch, cut):
    monkeypatch.setattr(indexing, "BATCH", 7)
    alone = written(tmp_path / "one", tokenizers, processes=1, cut=cut)
    assert written(tmp_path / "three", tokenizers, processes=3, cut=cut) == alone
    assert len(alone["lines"]) == 8 * 120 if cut else 0 < len(alone["lines"]) < 8 * 120


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=6), st.integers(1, 5))
def test_texts_are_cut_and_chosen_as_lists_would_be(texts, longest):
    tokens = Tokens(np.concatenate(texts).astype(np.uint16), np.array([len(text) for text in texts]))

    def lists(found: Tokens) -> list[list[int]]:
        return [part.tolist() for part in np.split(found.ids, np.cumsum(found.lengths)[:-1])]

    expected = [text if len(text) <= longest else [*text[: longest - 1], text[-1]] for text in texts]
    assert lists(tokens.cut(longest)) == expected
    kept = tokens.lengths <= longest
    if kept.any():
        assert lists(tokens.only(kept)) == [text for text in texts if len(text) <= longest]


def test_a_killed_process_is_said_and_does_not_hang(tokenizers):
    encoder = Encoder(tokenizers, longest=12, processes=2)
    lines, sources, targets = zip(*pairs(50), strict=True)
    for process in encoder._pool._processes.values():
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(ValueError, match="was killed"):
        [*encoder.add(Batch(lines, (sources, targets), [])), *encoder.rest()]
    encoder.close()


def test_few_pairs_are_worth_no_process(monkeypatch):
    monkeypatch.setattr(encoding.os, "sched_getaffinity", lambda _: range(64))
    assert encoding.processes(encoding.MANY - 1) == 1
    assert encoding.processes(encoding.MANY) == encoding.MOST
    monkeypatch.setattr(encoding, "get_all_start_methods", lambda: ["spawn"])
    assert encoding.processes(encoding.MANY) == 1

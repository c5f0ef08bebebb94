"""Rows that a fast model keeps for later searches: lent to one at a time, few of them, gone with the model."""

import gc
from concurrent.futures import ThreadPoolExecutor
from random import Random
from weakref import ref

import torch

from regard.decoding import tables
from regard.decoding.beam import Beam, search
from regard.decoding.constraints import MinimumLength
from regard.decoding.graphs import Graph
from regard.decoding.stepper import Fixed, Replayable
from regard.models.inference.cuda import FusedDecoder
from tests.decoding.test_lane import inputs, pair, same

__all__ = ["pair"]


def test_only_models_with_fixed_states_run_ahead(pair):
    model, lean = pair
    assert isinstance(lean, Replayable)
    assert not isinstance(model, Replayable)
    _, state = lean.start(*inputs(model, 2, 3, Random(0)), beams=2, limit=3)
    assert isinstance(state, Fixed)


def test_one_example_takes_one_row_and_a_table_serves_shorter_texts_too(pair):
    model, lean = pair[0], FusedDecoder(pair[0])
    for width, limit in ((6, 40), (3, 12), (6, 2)):
        search(lean, inputs(model, 1, width, Random(0)), Beam(beams=2), limit=limit, eos=0)
    assert [table.rows for table in lean.tables] == [1]
    for count, rows in ((3, 4), (1, 1), (65, 128)):
        search(lean, inputs(model, count, 3, Random(0)), Beam(beams=2), limit=2, eos=0)
        assert lean.tables[-1].rows == rows
    for number in range(2 * tables.MAX_TABLES):
        search(lean, inputs(model, 1, 3, Random(0)), Beam(beams=2), limit=2, eos=0, constraints=[MinimumLength(number)])
    assert len(lean.tables) == tables.MAX_TABLES


def test_tables_and_graphs_die_with_the_model_at_once(pair):
    lean = FusedDecoder(pair[0])
    for _ in range(4):
        search(lean, inputs(pair[0], 2, 3, Random(0)), Beam(beams=2), limit=9, eos=0)
    held = [ref(lean), ref(lean.tables[0]), ref(lean.tables[0]._step), ref(lean.stack.prediction)]
    gc.disable()
    try:
        del lean
        assert [each() for each in held] == [None] * 4
    finally:
        gc.enable()


def test_what_is_called_again_reads_what_it_is_given():
    double = Graph(lambda x: 2 * x, torch.device("cpu"))
    for value in (1.0, 2.0, 3.0, 4.0):
        assert double(torch.full((3,), value)).tolist() == [2 * value] * 3


def test_threads_that_search_at_once_get_what_each_gets_alone(pair):
    model, lean = pair[0], FusedDecoder(pair[0])
    cases = [(inputs(model, 2, 5, Random(seed)), Beam(beams=1 + seed % 3)) for seed in range(8)]
    alone = [search(model, given, beam, limit=12, eos=0) for given, beam in cases]
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda case: search(lean, case[0], case[1], limit=12, eos=0), cases))
        for found, expected in zip(together, alone, strict=True):
            same(found, expected)
    assert len(lean.tables) <= tables.MAX_TABLES
    assert not any(table.lock.locked() for table in lean.tables)

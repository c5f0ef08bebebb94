"""What surrounds the capture of a CUDA graph."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from regard.decoding.graphs import Graph, pause_garbage_collection


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self, held: object = None) -> None:
        self.held, self.itself = held, self


def test_no_garbage_is_collected_during_a_capture_and_it_is_again_afterwards() -> None:
    ring = weakref.ref(Ring())
    with pause_garbage_collection():
        many = [[] for _ in range(3 * gc.get_threshold()[0])]  # which would set a collection off
        assert ring() is not None
        assert not gc.isenabled()
    assert gc.isenabled()
    del many
    gc.collect()
    assert ring() is None


def test_collection_goes_on_after_a_failure_and_stays_off_where_it_was_off() -> None:
    with pytest.raises(ValueError, match="in a capture"), pause_garbage_collection():
        raise ValueError("in a capture")
    assert gc.isenabled()
    gc.disable()
    try:
        with pause_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_an_older_graph_that_is_garbage_does_not_spoil_a_capture() -> None:
    place = torch.device("cuda")
    old = Graph(lambda x: x + 1, place, warm=0)
    old(torch.ones(3, device=place))
    gc.disable()
    Ring(old)
    del old

    def work(x: torch.Tensor) -> torch.Tensor:
        lists = [[] for _ in range(3 * gc.get_threshold()[0])]
        return x * 2 + 0 * len(lists)

    gc.enable()
    assert Graph(work, place, warm=0)(torch.ones(3, device=place)).tolist() == [2, 2, 2]

"""Tokenisation of sentence pairs in order, by several processes for large corpora."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing import get_all_start_methods, get_context
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer

from regard.data.tokenizers import Tokenizer

MANY = 50_000
"""Pairs from which on processes are worth their start."""
MOST = 16
"""Processes at most: from there on, the one that reads the lines is the slowest."""


class Tokens(NamedTuple):
    """The concatenated token ids of many texts."""

    ids: Integer[np.ndarray, "tokens"]
    lengths: Int[np.ndarray, "texts"]

    def only(self, mask: np.ndarray) -> Tokens:
        """Return the tokens of the texts selected by a mask."""
        return Tokens(self.ids[np.repeat(mask, self.lengths)], self.lengths[mask])

    def cut(self, longest: int) -> Tokens:
        """Truncate each text to at most `longest` tokens, keeping its last token."""
        within = np.arange(len(self.ids)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        remaining = np.repeat(self.lengths, self.lengths) - within
        return Tokens(self.ids[(within < longest - 1) | (remaining == 1)], np.minimum(self.lengths, longest))


class Batch(NamedTuple):
    """Some pairs of one corpus: lines, texts of both sides, and the tokens before every source."""

    lines: tuple[int, ...]
    texts: tuple[tuple[str, ...], tuple[str, ...]]
    start: list[int]


class Encoder:
    """A tokeniser of batches of pairs, with the end token after every text; results are in order."""

    def __init__(self, tokenizers: tuple[Tokenizer, Tokenizer], *, longest: int, processes: int = 1) -> None:
        self._worker_settings = tokenizers, longest
        self._pool = _fork_pool(processes, self._worker_settings) if processes > 1 else None
        self._ahead = 2 * processes
        self._waiting: deque[tuple[Batch, Future[tuple[Tokens, Tokens]]]] = deque()

    def add(self, batch: Batch) -> Iterator[tuple[Batch, tuple[Tokens, Tokens]]]:
        """Add a batch, and yield the batches that are finished in order."""
        if self._pool is None:
            yield batch, _encode_batch(batch, *self._worker_settings)
            return
        self._waiting.append((batch, self._pool.submit(_encode_in_worker, batch)))
        while len(self._waiting) > self._ahead:
            yield self._next()

    def rest(self) -> Iterator[tuple[Batch, tuple[Tokens, Tokens]]]:
        """Yield all remaining batches."""
        while self._waiting:
            yield self._next()

    def close(self) -> None:
        """Stop the processes; safe to call again."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _next(self) -> tuple[Batch, tuple[Tokens, Tokens]]:
        batch, future = self._waiting.popleft()
        try:
            return batch, future.result()
        except BrokenProcessPool:
            raise ValueError(
                "a process that tokenised pairs was killed, perhaps for want of memory: start again, with fewer "
                "processor cores (taskset -c 0 regard train ...) if it happens again"
            ) from None


def processes(pairs: int) -> int:
    """Return the number of processes to use for this many pairs."""
    if pairs < MANY or "fork" not in get_all_start_methods():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


_worker_settings: list[tuple[tuple[Tokenizer, Tokenizer], int]] = []  # in a worker: tokenizers and maximum length


def _fork_pool(count: int, worker_settings: tuple[tuple[Tokenizer, Tokenizer], int]) -> ProcessPoolExecutor:
    """Start forked copies of this process; spawned ones would run the user's script again."""
    parent = os.getpid()

    def begin() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it and ends the workers
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=_exit_with_parent, args=[parent], daemon=True).start()
        _worker_settings.append(worker_settings)

    pool = ProcessPoolExecutor(count, mp_context=get_context("fork"), initializer=begin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads do not survive a fork; none of them is needed
        pool.submit(int).result()
    return pool


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent process has died, even if it was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _encode_in_worker(batch: Batch) -> tuple[Tokens, Tokens]:
    return _encode_batch(batch, *_worker_settings[-1])


def _encode_batch(batch: Batch, tokenizers: tuple[Tokenizer, Tokenizer], longest: int) -> tuple[Tokens, Tokens]:
    source, target = tokenizers
    sources = source.encode_many(batch.texts[0], most=longest)
    targets = target.encode_many(batch.texts[1], most=longest, written=True)
    return _join_tokens(sources, source, batch.start), _join_tokens(targets, target, [])


def _join_tokens(texts: Sequence[list[int]], tokenizer: Tokenizer, start: list[int]) -> Tokens:
    end = tokenizer.role("end")
    whole = [[*start, *ids, end] for ids in texts]
    lengths = np.fromiter(map(len, whole), np.int64, len(whole))
    kind = np.uint16 if tokenizer.vocab <= 1 << 16 else np.uint32
    return Tokens(np.fromiter(chain.from_iterable(whole), kind, int(lengths.sum())), lengths)

"""Threads of the tokenizer library across a fork, which they do not survive.

They are disabled while forking, stay off in the child and are restored in the parent. Older versions of the library
warn on every fork without this.
"""

from __future__ import annotations

import os

PARALLEL = "TOKENIZERS_PARALLELISM"
_before_fork: list[str | None] = []


def keep_threads_across_forks() -> None:
    """Disable the library's threads around every fork of this process."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_leave_threads, after_in_parent=_take_threads)


def _leave_threads() -> None:
    _before_fork.append(os.environ.get(PARALLEL))
    os.environ[PARALLEL] = "false"


def _take_threads() -> None:
    value = _before_fork.pop()
    if value is None:
        os.environ.pop(PARALLEL, None)
    else:
        os.environ[PARALLEL] = value

"""What the bodies and pictures of all requests may take together, so that many large ones cannot use up the memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from regard.serve.calls import Overloaded
from regard.serve.refusal import Refusal

RETRY_AFTER = 1  # seconds


class MemoryBudget:
    """Bytes that requests reserve while they are answered."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Reserve bytes, or raise Overloaded if there are not so many left, Refusal if there never are."""
        if count > self.most:
            message = f"this takes {count:,} bytes of memory, and all requests together have {self.most:,}: send less"
            raise Refusal(413, message, "too_large")
        with self._lock:
            if self.bytes + count > self.most:
                raise Overloaded(RETRY_AFTER)
            self.bytes += count

    def release(self, count: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.bytes -= count

    @contextmanager
    def open_account(self) -> Iterator[None]:
        """Count what `reserve_bytes` is called with inside, and release all of it at the end."""
        account = _Account(self)
        token = _accounts.set(account)
        try:
            yield
        finally:
            _accounts.reset(token)
            account.close()


@dataclass
class _Account:
    """What one request has reserved."""

    budget: MemoryBudget
    bytes: int = 0
    is_closed: bool = False

    def add(self, count: int) -> None:
        if not self.is_closed:  # a picture may still be decoded whose request was cancelled
            self.budget.take(count)
            self.bytes += count

    def close(self) -> None:
        self.is_closed = True
        self.budget.release(self.bytes)


_accounts: ContextVar[_Account | None] = ContextVar("accounts", default=None)


def reserve_bytes(count: int) -> None:
    """Reserve bytes for the current request; raise Overloaded if all requests together have too many."""
    account = _accounts.get()
    if account is not None:
        account.add(count)

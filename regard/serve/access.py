"""Who may ask, and how often: keys, names of the host, requests in a minute."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

MIN_KEY = 16  # letters of a key that nobody guesses
MINUTE = 60.0
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


def read_keys(path: Path) -> tuple[str, ...]:
    """Return the keys in a file, one per line, without blank lines and comments (#)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8, save the file as UTF-8 text") from None
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise ValueError(f"{path}: no key in this file: write one in each line")
    for number, line in enumerate(lines, start=1):
        key = line.strip()
        if key in keys and (len(key) < MIN_KEY or not key.isascii() or len(key.split()) > 1):
            raise ValueError(
                f"{path}:{number}: a key must have {MIN_KEY} letters or more, ASCII and without blanks: "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe(24))'"
            )
    return tuple(keys)


class Keys:
    """The accepted API keys; without any, no key is needed."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    @property
    def is_required(self) -> bool:
        """True if requests need a key."""
        return bool(self._digests)

    def accepts(self, key: str) -> bool:
        """True if a key is accepted; the comparison takes the same time for every key."""
        digest = _digest(key)
        comparisons = [hmac.compare_digest(digest, accepted) for accepted in self._digests]
        return any(comparisons)


class RateLimit:
    """Counts the requests of each client in the current minute."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._counts: Counter[bytes] = Counter()
        self._minute = 0

    def admit(self, client: str) -> int:
        """Count a request; return the seconds to wait if the client is over the limit, else 0."""
        if not self.per_minute:
            return 0
        now = time.monotonic()
        if (minute := int(now // MINUTE)) != self._minute:
            self._minute = minute
            self._counts.clear()  # so that it never grows for longer than a minute
        digest = _digest(client)
        self._counts[digest] += 1
        return 0 if self._counts[digest] <= self.per_minute else max(1, int(MINUTE - now % MINUTE))


def is_loopback(host: str) -> bool:
    """True for a loopback address, which only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bare_host(header: str) -> str:
    """Return the host name of a Host header in lower case, without the port."""
    if header.startswith("["):
        return header.partition("]")[0].lower() + "]"
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()

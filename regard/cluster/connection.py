"""The connection to Ray: to a cluster that is running, or to one of this machine that ends with the command."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

LOCAL, RUNNING = "local", "auto"
"""Addresses: Ray is started here for this command; the cluster that this machine belongs to."""
ADDRESS = re.compile(rf"{LOCAL}|{RUNNING}|ray://\S+|[\w.\-\[\]:]+:\d+")
ATTEMPTS = 4  # to start Ray, each of which it gives up after half a minute on a busy machine
TOO_LATE = "timed out during startup"
EXTRA = "ray is missing: pip install 'regard[ray]'"


def is_address(word: str) -> bool:
    """True for the address of a cluster: local, auto, HOST:PORT or ray://HOST:PORT."""
    return ADDRESS.fullmatch(word) is not None


def check_address(address: str) -> None:
    """Refuse what is no address, and any if Ray is not installed."""
    if not is_address(address):
        raise ValueError(f"{address} is no address of Ray: give {LOCAL}, {RUNNING}, HOST:PORT or ray://HOST:PORT")
    if find_spec("ray") is None:
        raise ValueError(EXTRA)


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Connect to a cluster, without telling anybody how Ray is used; afterwards disconnect."""
    check_address(address)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    for attempt in range(1, ATTEMPTS + 1):
        try:
            _start_or_join(address)
            break
        except ConnectionError:
            raise ValueError(f"there is no Ray cluster at {address}: start one, or leave the address out") from None
        except Exception as error:  # Ray has no class of its own for this
            ray.shutdown()
            if address != LOCAL or TOO_LATE not in str(error):
                raise
            if attempt == ATTEMPTS:
                raise ValueError("Ray did not start: this machine has too much to do, try again later") from None
    try:
        yield
    finally:
        ray.shutdown()


def _start_or_join(address: str) -> None:
    import ray

    dashboard = False if address == LOCAL else None
    ray.init(address=address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)

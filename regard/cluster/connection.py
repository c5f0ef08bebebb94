"""The connection to Ray: to a cluster that is running, or to one of this machine that ends with the command."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

LOCAL, RUNNING = "local", "auto"
"""Addresses: Ray is started here for this command; the cluster that this machine belongs to."""
ADDRESS = re.compile(rf"{LOCAL}|{RUNNING}|ray://\S+|[\w.\-\[\]:]+:\d+")
EXTRA = "ray is missing: pip install 'regard[ray]'"


def is_address(word: str) -> bool:
    """True for the address of a cluster: local, auto, HOST:PORT or ray://HOST:PORT."""
    return ADDRESS.fullmatch(word) is not None


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Connect to a cluster, without telling anybody how Ray is used; afterwards disconnect."""
    if not is_address(address):
        raise ValueError(f"{address} is no address of Ray: give {LOCAL}, {RUNNING}, HOST:PORT or ray://HOST:PORT")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what Ray Data does would be an error to Ray's core
    try:
        import ray
    except ImportError:
        raise ValueError(EXTRA) from None
    dashboard = False if address == LOCAL else None
    try:
        ray.init(address=address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError:
        raise ValueError(f"there is no Ray cluster at {address}: start one, or leave the address out") from None
    try:
        yield
    finally:
        ray.shutdown()

"""Garbage collection that does not stop the server: what lives as long as it does is not looked through again."""

from __future__ import annotations

import gc
import threading


def exempt_living_objects() -> None:
    """Collect garbage, and exempt what is left from later collections; in a process of its own only.

    A full collection looks through the objects of all libraries and models, for which every request would wait a tenth
    of a second. Called again, it finds garbage among the exempt objects too, such as a model that was replaced.
    """
    if threading.current_thread() is threading.main_thread():
        gc.unfreeze()
        gc.collect()
        gc.freeze()

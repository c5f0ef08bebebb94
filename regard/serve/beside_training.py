"""The page of a run while it trains, served by a process of its own: `python -m regard.serve.beside_training`.

The first line of its standard input names the folder. It prints its address, and ends soon after its standard input
does, which the training holds open: however that ends, the page is told so once more and the server is gone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

import torch

from regard.serve.catalogue import Catalogue
from regard.serve.limits import Limits
from regard.serve.run_view import RunView
from regard.serve.server import Address, Server, make_server

READY = "ready: "
LAST_LOOKS = 5.0  # seconds in which an open page learns how the training ended
POLITENESS = 5  # of the process: the training goes first


def serve_run(folder: Path, lifeline: BinaryIO) -> None:
    """Serve the page of one run on a free port until the lifeline ends."""
    server = make_server(Catalogue([]), Limits(drain_seconds=0.0), Address(port=0), log=_say)
    server.state.run = RunView(folder)
    threading.Thread(target=_stop_at_end, args=(server, lifeline), daemon=True).start()
    server.run()


def _say(line: str) -> None:
    """Print the address; requests are not logged, for the terminal is the training's."""
    if line.startswith(READY):
        print(line, flush=True)


def _stop_at_end(server: Server, lifeline: BinaryIO) -> None:
    while lifeline.read(1):
        pass
    time.sleep(LAST_LOOKS)
    server.should_exit = True


if __name__ == "__main__":
    with contextlib.suppress(OSError, AttributeError):
        os.nice(POLITENESS)
    torch.set_num_threads(1)
    folder = sys.stdin.buffer.readline().decode("utf-8", "surrogateescape").removesuffix("\n")
    serve_run(Path(folder), sys.stdin.buffer)

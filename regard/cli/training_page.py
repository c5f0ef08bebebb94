"""The page of a run that is being trained: a server beside the training, and a browser that opens at it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.cli.text_io import print_note

MODULE = "regard.serve.beside_training"
READY = "ready: "


@contextmanager
def show_training(folder: Path) -> Iterator[None]:
    """Serve the page of a run, and open it in a browser if there is one, until the block ends."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", MODULE]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert server.stdin is not None
    server.stdin.write(f"{folder}\n".encode("utf-8", "surrogateescape"))
    server.stdin.flush()
    threading.Thread(target=_announce, args=(server,), daemon=True).start()
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        if is_new:
            with contextlib.suppress(OSError):  # only one that the training never used is empty
                folder.rmdir()


def _announce(server: subprocess.Popen[bytes]) -> None:
    """Say where the page is as soon as it is there, and open it."""
    assert server.stdout is not None
    for line in server.stdout:
        text = line.decode(errors="replace").strip()
        if text.startswith(READY):
            address = f"{text.removeprefix(READY)}/"
            print_note(f"watch the training at {address}")
            if has_browser():
                with contextlib.suppress(webbrowser.Error, OSError):
                    webbrowser.open(address)
    if server.wait():
        print_note("the page of the training has stopped; the training goes on")


def has_browser() -> bool:
    """True if a browser can open in a window; one in the terminal would write over the training."""
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return bool(os.environ.get("BROWSER")) or has_screen or sys.platform in ("win32", "darwin")

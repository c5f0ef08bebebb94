"""One trainer in a run folder: a lock that the kernel takes back when its holder ends, however it ends.

Where there are no such locks (a system without `fcntl`, a file system that refuses them) a file that only one process
can create stands in for it. Nobody removes that one for a trainer that was killed, so the refusal says which it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
STANDIN = ".lock.held"
UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


class Lock:
    """This process's claim on a folder, until `release` or its end."""

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        self._owner = os.getpid()
        for patience in (0.05, 0.05, 0.1, 0.0):  # somebody may just be looking
            try:
                self._descriptor, self._path = _claim(folder)
                break
            except FileExistsError:
                time.sleep(patience)
        if self._descriptor is None:
            raise ValueError(_refusal(folder))
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, str(self._owner).encode())

    def release(self) -> None:
        """Let others in; a forked child only lets go of its copy."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        ours = self._owner == os.getpid()
        if ours and fcntl is not None and self._path.name == NAME:
            with contextlib.suppress(OSError):  # closing does it too, unless a child has a copy
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
        if ours and self._path.name == STANDIN:
            self._path.unlink(missing_ok=True)

    def __del__(self) -> None:
        self.release()


def is_locked(folder: Path) -> bool:
    """Whether somebody trains in a folder just now."""
    if (folder / STANDIN).exists():
        return True
    if fcntl is None or not (folder / NAME).exists():
        return False
    try:
        with open(folder / NAME, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such locks here, or a folder that is not ours to look into
        return False
    return False


def _claim(folder: Path) -> tuple[int, Path]:
    """The open file that is the claim; FileExistsError if it is another's."""
    if fcntl is not None:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor, folder / NAME
        except OSError as error:
            os.close(descriptor)
            if error.errno not in UNSUPPORTED:
                raise FileExistsError from None
    return os.open(folder / STANDIN, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), folder / STANDIN


def _refusal(folder: Path) -> str:
    standin = folder / STANDIN
    process = ""
    with contextlib.suppress(OSError, ValueError):
        process = f" (process {int((standin if standin.exists() else folder / NAME).read_bytes())})"
    remedy = f", or remove {standin} if it was killed" if standin.exists() else ""
    return f"{folder} is in use by another training{process}: wait until it ends{remedy}, or name another folder"

"""A lock on a run folder for one training at a time, which the kernel releases when the process ends in any way.

Where such locks are unavailable (a system without `fcntl`, a file system that refuses them) a file that only one
process can create takes its place. It remains if the process is killed, so the error message names it.
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
    """This process's lock on a folder, until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        self._owner = os.getpid()
        for patience in (0.05, 0.05, 0.1, 0.0):  # `is_locked` may hold it for a moment
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
        """Release the lock; a forked child only closes its copy."""
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
    """True if a training is running in a folder."""
    if (folder / STANDIN).exists():
        return True
    if fcntl is None or not (folder / NAME).exists():
        return False
    try:
        with open(folder / NAME, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such locks here, or no permission to read the folder
        return False
    return False


def _claim(folder: Path) -> tuple[int, Path]:
    """Return the open lock file and its path; raise FileExistsError if another process holds the lock."""
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

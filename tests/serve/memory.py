"""The memory of a server's process, measured from outside."""

from __future__ import annotations

from pathlib import Path

from tests.serve.process import ServerProcess

MEGABYTE = 1 << 20


def peak_bytes(server: ServerProcess) -> int:
    """Return the largest resident memory of the process since it was last reset."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(line.split()[1])


def reset_peak(server: ServerProcess) -> None:
    """Let the largest resident memory begin anew."""
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")

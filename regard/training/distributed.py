"""Data-parallel training of one model by several processes on one machine, as in DDP.

`torchrun --nproc-per-node N -m regard train ...` starts them. The rows of a step are divided among the processes,
gradients are summed over all of them, and each makes the same update. Only process 0 writes files and messages. No
other module of Regard imports `torch.distributed`; a single process does not use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

STALL = 600.0  # seconds after which a process that does not answer is given up during a step
PATIENCE = 24 * 3600.0  # seconds that others wait while process 0 reads data, evaluates or saves
MANNERS = 2.0  # seconds that another process waits for process 0 to report the same error
SPEECH = 0.5  # seconds that process 0 needs to print it
Answer = TypeVar("Answer")
Item = TypeVar("Item")


class Lost(ValueError):
    """Raised when another process has ended or hangs."""


@dataclass(frozen=True)
class Team:
    """The processes that train together, seen from one of them; for a single process nothing here costs anything.

    Methods that communicate must be called by all processes in the same order.
    """

    rank: int = 0
    size: int = 1
    patient: Any = None
    """Process group with a longer timeout, in which the others wait for process 0."""
    store: Any = None
    """Key-value store in which a failing process publishes its error."""

    @property
    def is_main(self) -> bool:
        """True if this process writes files and messages."""
        return self.rank == 0

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return this process's share of the items."""
        return items[self.rank :: self.size]

    def admit(self, task: Any, name: str, rows: int) -> None:
        """Refuse a task whose rows cannot be shared, and steps with fewer rows than processes."""
        if self.size > 1 and not task.shared:
            why = task.unshared_reason
            raise ValueError(f"{name} trains in one process, {why}: start it without torchrun")
        if rows < self.size:
            remedy = f"set training.accumulate={self.size} (every update then uses that many rows)"
            raise ValueError(
                f"training.accumulate is {rows}, fewer than the {self.size} processes: {remedy}, or start {rows}"
            )

    def device(self, device: torch.device) -> torch.device:
        """Return the device of this process; with several GPUs each process has its own."""
        if self.size == 1 or device.type == "cpu":
            return device
        if device.type != "cuda" or device.index is not None:
            raise ValueError(f"device {device} cannot be shared by {self.size} processes: use cuda or cpu")
        if self.size > (there := torch.cuda.device_count()):
            gpus = f"{self.size} processes need a GPU each, and this machine has {there}"
            raise ValueError(f"{gpus}: start {there}, or set training.device=cpu")
        torch.cuda.set_device(self.rank)
        return torch.device("cuda", self.rank)

    def align(self, model: nn.Module) -> None:
        """Give every process the weights of process 0."""
        if self.size > 1:
            with torch.no_grad(), _explain_lost_connection():
                for tensor in model.state_dict().values():
                    dist.broadcast(tensor, src=0)

    def all_reduce(self, parameters: Iterable[nn.Parameter], loss: Tensor, weight: Any) -> tuple[Tensor, Any]:
        """Sum gradients, loss and weight over all processes; a missing gradient counts as zero.

        This happens after the whole backward pass, not during it, so that a process that runs out of memory half-way
        can start again without the others.
        """
        if self.size == 1:
            return loss, weight
        gradients = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        weights = weight if isinstance(weight, Tensor) else torch.full_like(loss, float(weight))
        sums = torch.stack((loss.detach().float(), weights.float()))
        _add_flattened([*gradients, sums])
        return sums[0].to(loss.dtype), sums[1]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Add up each tensor over all processes, in place."""
        if self.size > 1 and tensors:
            _add_flattened(tensors)

    def gather(self, value: Any, *, patient: bool = False) -> list[Any]:
        """Return the values of all processes (JSON data); if all are None, only their lengths are exchanged."""
        if self.size == 1:
            return [value]
        words = b"" if value is None else json.dumps(value).encode()
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(words)
        with _explain_lost_connection():
            dist.all_reduce(lengths, group=self.patient if patient else None)
            if not lengths.any():
                return [None] * self.size
            heard = torch.zeros(self.size, int(lengths.max()), dtype=torch.uint8)
            heard[self.rank, : len(words)] = torch.tensor(list(words), dtype=torch.uint8)
            dist.all_reduce(heard, group=self.patient if patient else None)
        texts = [bytes(row[:length].tolist()) for row, length in zip(heard, lengths.tolist(), strict=True)]
        return [json.loads(text) if text else None for text in texts]

    def agree(self, value: str | None) -> str | None:
        """Return the first value that is not None, in the order of the processes."""
        return next((answer for answer in self.gather(value) if answer is not None), None)

    def total(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Return the sums of counts over all processes, by name."""
        sums: dict[str, float] = {}
        for process_counts in self.gather(dict(counts)):
            for name, count in process_counts.items():
                sums[name] = sums.get(name, 0.0) + count
        return sums

    def broadcast(self, value: Any) -> Any:
        """Return the value of process 0, waiting for it however long it takes."""
        return self.gather(value if self.is_main else None, patient=True)[0]

    def wait(self) -> None:
        """Wait until all processes have reached this call."""
        self.gather(None, patient=True)

    def main_first(self, action: Callable[[], Answer]) -> Answer:
        """Run an action in process 0 first, then in the others, which can use what it has cached."""
        if not self.is_main:
            self.wait()
        answer = action()
        if self.is_main:
            self.wait()
        self.wait()
        return answer


ALONE = Team()
_joined: list[Team] = []  # the team that this process has joined, if any


@contextlib.contextmanager
def team() -> Iterator[Team]:
    """Yield the processes that torchrun started for one training, or this one alone; a nested block yields the same.

    The block ends when all processes end it. An error ends all processes and is reported once: by process 0 if it had
    the same error.
    """
    if _joined or not _several():
        yield _joined[0] if _joined else ALONE
        return
    with _explain_lost_connection():
        member = _join()
    _joined.append(member)
    try:
        yield member
        member.wait()
    except BaseException as error:
        _leave(member, error)
        raise
    finally:
        _joined.clear()
    dist.destroy_process_group()


def processes() -> int:
    """Return the number of processes that train together."""
    return _joined[0].size if _joined else 1


def _several() -> bool:
    """Return True if torchrun started several processes."""
    here = {name: int(os.environ.get(name, "0")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK")}
    if "LOCAL_RANK" not in os.environ or here["WORLD_SIZE"] < 2:
        return False
    if here["LOCAL_WORLD_SIZE"] not in (0, here["WORLD_SIZE"]):
        if here["LOCAL_RANK"]:
            raise SystemExit(1)  # the first process of each machine reports it
        machines = f"{here['WORLD_SIZE']} processes, {here['LOCAL_WORLD_SIZE']} of them here"
        raise ValueError(f"{machines}: all processes of a training must be on one machine, use torchrun --standalone")
    return True


def _join() -> Team:
    """Join the process group: gloo for CPU tensors, NCCL for GPU tensors.

    When torchrun restarts all processes after a failure, its store still has the addresses of those that failed, so
    every attempt has its own prefix.
    """
    base_store, rank, size = next(iter(dist.rendezvous("env://")))  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"regard/{attempt}", base_store)  # type: ignore[attr-defined]
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=STALL))
    patient = dist.new_group(backend="gloo", timeout=timedelta(seconds=PATIENCE))
    member = Team(rank, size, patient, store)
    member.wait()  # an error before all have joined would reach the others as a broken connection
    return member


def _leave(member: Team, error: BaseException) -> None:
    """Publish this process's error, or exit silently if it adds nothing to that of process 0."""
    if isinstance(error, Lost) and not member.is_main:
        raise SystemExit(1) from error
    if isinstance(error, Lost) or not isinstance(error, ValueError | OSError | KeyboardInterrupt):
        return
    words = str(error) or type(error).__name__
    with contextlib.suppress(RuntimeError):  # the process that holds the store may be gone
        member.store.set(f"words/{member.rank}", words)
    if not member.is_main:
        if _last_words_of_main(member.store) == words:
            time.sleep(SPEECH)  # torchrun ends the others as soon as one ends
            raise SystemExit(1) from error
        raise ValueError(f"process {member.rank}: {words}") from error


def _last_words_of_main(store: Any) -> str | None:
    """Return the error that process 0 published, waiting for it for `MANNERS` seconds at most; None without one."""
    until = time.monotonic() + MANNERS
    with contextlib.suppress(RuntimeError):
        while time.monotonic() < until:
            if store.check(["words/0"]):
                return store.get("words/0").decode()
            time.sleep(0.02)
    return None


def _add_flattened(tensors: Sequence[Tensor]) -> None:
    """Sum each tensor over all processes, in place, with one all-reduce per dtype."""
    for kind in dict.fromkeys(tensor.dtype for tensor in tensors):
        same = [tensor for tensor in tensors if tensor.dtype == kind]
        flat = torch.cat([tensor.reshape(-1) for tensor in same])
        with _explain_lost_connection():
            dist.all_reduce(flat)
        pieces = flat.split([tensor.numel() for tensor in same])
        torch._foreach_copy_(same, [piece.view_as(tensor) for piece, tensor in zip(pieces, same, strict=True)])


@contextlib.contextmanager
def _explain_lost_connection() -> Iterator[None]:
    """Raise torch's errors of a broken connection as `Lost`, with a remedy."""
    try:
        yield
    except RuntimeError as error:
        remedy = "look for its message, and continue with --resume"
        raise Lost(f"another process of this training ended or no longer answers: {remedy}") from error

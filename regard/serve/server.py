"""The running server: it binds, warms up, answers, and stops without losing anything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from regard.serve.access import LOCAL_NAMES, Keys, is_loopback
from regard.serve.app import make_app
from regard.serve.catalogue import Catalogue
from regard.serve.collection import exempt_living_objects
from regard.serve.jobs import Jobs
from regard.serve.limits import Limits
from regard.serve.protocol import DeadlineProtocol
from regard.serve.state import ServerState
from regard.serve.watching import RunWatcher
from regard.serve.worker import Worker
from regard.serve.worker_group import WorkerGroup

GRACE = 5.0  # seconds beyond the deadline of requests until what still runs is given up
KEEP_ALIVE = 30  # seconds that an idle connection is kept
BACKLOG = 256


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of a server, and the Host names it accepts; by default those of this machine, or any."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: tuple[str, ...] = ()

    def check(self, keys: Keys) -> None:
        """Raise ValueError for an address reachable from other machines without a key."""
        if not is_loopback(self.host) and not keys.is_required:
            raise ValueError(f"{self.host} can be reached from elsewhere: give keys with --key-file, or bind 127.0.0.1")

    @property
    def accepted_names(self) -> tuple[str, ...]:
        """The accepted names in Host headers."""
        return self.names or (LOCAL_NAMES if is_loopback(self.host) else ())


class Server(uvicorn.Server):
    """Uvicorn with a worker: not ready before it is warm, readiness gone before it stops, a second signal ends it."""

    def __init__(
        self, state: ServerState, address: Address, log: Callable[[str], None], watcher: RunWatcher | None = None
    ) -> None:
        self.state, self.log, self._watcher = state, log, watcher
        protocol = type("Protocol", (DeadlineProtocol,), {"limits": state.limits, "log": staticmethod(log)})
        config = uvicorn.Config(
            make_app(state, hosts=address.accepted_names, log=log),
            host=address.host,
            port=address.port,
            http=protocol,
            loop="asyncio",  # the same loop whatever else is installed
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=int(state.limits.deadline + GRACE),
        )
        super().__init__(config)
        self._beside: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """The URL of the running server."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def startup(self, sockets: Any = None) -> None:
        """Start listening, and warm up the models in the background."""
        await super().startup(sockets)
        self._beside = [asyncio.create_task(self._warm_up())]
        if self.state.jobs is not None:
            self._beside.append(asyncio.create_task(self.state.jobs.run(self.log)))
        if self._watcher is not None:
            self._beside.append(asyncio.create_task(self._watcher.run()))

    async def shutdown(self, sockets: Any = None) -> None:
        """Finish open requests, then stop the worker."""
        await super().shutdown(sockets)
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await asyncio.to_thread(self.state.stop)
        if self.state.jobs is not None:
            self.state.jobs.close()

    def drain(self) -> None:
        """Report that the server is not ready, and stop after `drain_seconds`."""
        self.state.is_draining = True
        asyncio.get_running_loop().call_later(self.state.limits.drain_seconds, self._begin_to_stop)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT, with exit status 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT)
        former = {number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._hear)) for number in handled}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _hear(self) -> None:
        if self.state.is_draining:
            self.log("stopped at once: a second signal")
            os._exit(1)
        self.log("stopping: what runs is finished first; a second signal stops at once")
        self.drain()

    def _begin_to_stop(self) -> None:
        self.should_exit = True

    async def _warm_up(self) -> None:
        try:
            await self.state.worker.warm_up()
        except Exception as error:
            self.log(f"cannot warm up: {error}")
            self.should_exit = True
            return
        exempt_living_objects()
        self.state.is_warm = True
        self.log(f"ready: {self.url}")


def make_server(
    catalogue: Catalogue,
    limits: Limits,
    address: Address,
    *,
    keys: Keys | None = None,
    jobs_folder: Path | None = None,
    copies: Sequence[Catalogue] = (),
    watched_devices: Sequence[str] = (),
    log: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Server:
    """Return a server whose workers run already.

    `copies` have the same models on further devices, with a worker for each. With `watched_devices`, those of the
    catalogue and its copies, new versions of the models are taken over.
    """
    keys = keys or Keys()
    address.check(keys)
    worker = WorkerGroup([Worker(models.trained_models, limits) for models in (catalogue, *copies)])
    jobs = None if jobs_folder is None else Jobs(jobs_folder, worker, catalogue, limits)
    worker.start()
    state = ServerState(worker, catalogue, limits, keys, jobs=jobs)
    return Server(state, address, log, RunWatcher(state, watched_devices, log) if watched_devices else None)

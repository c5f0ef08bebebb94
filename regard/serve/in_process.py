"""The application of the server without a port: requests come by function calls, and answers go back piece by piece."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from regard.serve.app import make_app
from regard.serve.catalogue import Catalogue
from regard.serve.limits import Limits
from regard.serve.state import ServerState
from regard.serve.worker import Worker
from regard.serve.worker_group import WorkerGroup

LOG_LINES = 10

Message = MutableMapping[str, Any]
Tell = Callable[[Message], None]
"""Takes the messages of an answer as ASGI has them, in the thread of the server."""


class InProcessServer:
    """Answers requests to models in threads of its own until it is stopped."""

    def __init__(self, catalogue: Catalogue, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        worker = WorkerGroup([Worker(catalogue.trained_models, limits)])
        self.state = ServerState(worker, catalogue, limits)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self._app = make_app(self.state, log=self.log.append)
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="regard-in-process", daemon=True)
        worker.start()
        self._thread.start()

    def start(self, exchange: Exchange) -> None:
        """Begin to answer a request."""
        self._call(lambda: exchange.run(self._app))

    def cancel(self, exchange: Exchange) -> None:
        """Stop to answer a request; of no effect on one that has ended."""
        self._call(exchange.disconnect)

    def stop(self, *, wait: bool = True) -> None:
        """Cancel what is being answered, and end all threads."""
        self._call(self._ending.set)
        if wait:
            self._thread.join()

    def _call(self, function: Callable[[], Any]) -> None:
        """Call a function in the thread of the server, unless that has ended."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())
        self.state.stop()

    async def _serve(self) -> None:
        self.state.is_warm = True
        await self._ending.wait()
        self.state.is_draining = True


class Exchange:
    """One request and its answer, between a caller in another thread and the application."""

    def __init__(self, method: str, address: str, body: bytes, tell: Tell) -> None:
        path, _, query = address.partition("?")
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())],
            "client": None,
            "server": None,
        }
        self._tell = tell
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def run(self, app: Any) -> None:
        """Answer, in the thread of the server."""
        self._task = asyncio.get_running_loop().create_task(app(self.scope, self._receive, self._send))

    def disconnect(self) -> None:
        """Tell the application that nobody waits for the answer any more, in the thread of the server."""
        self._gone.set()

    async def _receive(self) -> Message:
        """Return the body, and once nobody waits any more that the client is gone, as often as it is asked."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._tell(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.disconnect()

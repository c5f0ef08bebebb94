"""Pages in a notebook that ask the models of its kernel, by the messages of a widget instead of a port.

The front end of the widget, `assets/notebook.js`, carries requests of pages to the kernel; the application of the
server answers them in this process. A running cell delays the requests, which arrive when it has ended; answers come
from another thread.
"""

from __future__ import annotations

import functools
import os
import secrets
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.interpret.draw.page import frame_application
from regard.serve.catalogue import Catalogue
from regard.serve.explore import Model, check_served, list_models, serve_loaded
from regard.serve.in_process import Exchange, InProcessServer, Message

FRONT_END = Path(__file__).parent / "assets" / "notebook.js"
ID_BYTES = 16
METHODS = ("GET", "POST", "DELETE")
PREFIX = "/v1/"  # of all that a page may ask for
MOST_OPEN = 256  # requests of the pages of one model at a time


class PageLink:
    """Answers the pages of one model, or of several, in this notebook; the server begins with the first of them."""

    def __init__(self, open_server: Callable[[], InProcessServer | None]) -> None:
        self.page_id = secrets.token_urlsafe(ID_BYTES)
        self.server: InProcessServer | None = None
        self._open_server = open_server
        self._open: dict[tuple[str, int], Exchange] = {}
        self._is_closed, self._lock = False, threading.Lock()
        self.widget = make_widget(self.page_id)
        self.widget.on_msg(self.receive)

    def receive(self, _: Any, content: Any, buffers: Sequence[memoryview]) -> None:
        """Take a message of a page: its greeting, a request, or word that an answer is no longer wanted."""
        if not isinstance(content, Mapping) or not isinstance(content.get("page"), str):
            return
        page, number = content["page"], content.get("call")
        if content.get("hello"):
            self._send({"page": page, "hello": True, "gone": self._start() is None})
        elif (page, content.get("cancel")) in self._open and self.server is not None:
            self.server.cancel(self._open[page, content["cancel"]])
        elif isinstance(number, int):
            self._answer((page, number), content)

    def close(self, *, wait: bool = True) -> None:
        """End the server and the widget; pages say that nobody answers."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.server is not None:
            self.server.stop(wait=wait)
        self.widget.close()

    def _start(self) -> InProcessServer | None:
        """Return the running server; None if the link is closed or the model is gone."""
        with self._lock:
            if self.server is None and not self._is_closed:
                self.server = self._open_server()
            return None if self._is_closed else self.server

    def _answer(self, call: tuple[str, int], content: Mapping[str, Any]) -> None:
        """Begin to answer a request; what is no request to the application is refused."""
        head = {"page": call[0], "call": call[1]}
        method, path, body = content.get("method"), content.get("path"), content.get("body") or ""
        is_request = method in METHODS and isinstance(path, str) and path.startswith(PREFIX) and path.isascii()
        server = self._start()
        if server is None or not is_request or not isinstance(body, str) or len(self._open) >= MOST_OPEN:
            self._send(head | {"failed": True})
            return
        exchange = Exchange(str(method), str(path), body.encode(), functools.partial(self._tell, call))
        self._open[call] = exchange
        self._send(head | {"accepted": True})
        server.start(exchange)

    def _tell(self, call: tuple[str, int], message: Message) -> None:
        """Send a part of an answer to its page."""
        head = {"page": call[0], "call": call[1]}
        if message["type"] == "http.response.start":
            headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in message["headers"]]
            self._send(head | {"status": message["status"], "headers": headers})
            return
        more = bool(message.get("more_body"))
        if not more:
            self._open.pop(call, None)
        self._send(head | {"more": more}, [message.get("body", b"")])

    def _send(self, content: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        if not self._is_closed:
            self.widget.send(content, buffers=list(buffers))


class NotebookExplorer:
    """The explorer below a cell, without a port; `stop()` ends it, as does leaving it as a context."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._link = PageLink(lambda: InProcessServer(catalogue))
        self._title = ", ".join(catalogue.names)
        self._is_open = True
        weakref.finalize(self, self._link.close, wait=False).atexit = False

    def stop(self) -> None:
        """Cancel what runs, and end the threads."""
        self._is_open = False
        self._link.close()

    def __enter__(self) -> NotebookExplorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return "<Explorer in this notebook>" if self._is_open else "<Explorer, stopped>"

    def _repr_html_(self) -> str:
        """Return the page, for notebooks."""
        show_where_needed(self._link)
        return frame_application(self._link.page_id, title=self._title)


_links: dict[int, PageLink] = {}


def link_model(trained: Any) -> str:
    """Return the id by which pages reach a model; its link is made once and ends with the model."""
    require_packages()
    link = _links.get(id(trained))
    if link is None:
        check_served(trained)
        reference = weakref.ref(trained)

        def open_server() -> InProcessServer | None:
            alive = reference()
            return None if alive is None else InProcessServer(Catalogue([serve_loaded(alive)]))

        link = _links[id(trained)] = PageLink(open_server)
        weakref.finalize(trained, _forget, id(trained)).atexit = False
    show_where_needed(link)
    return link.page_id


def explore_in_notebook(models: Model | Sequence[Model] | None, *, device: str) -> NotebookExplorer:
    """Return the explorer of these models, which shows itself below the cell."""
    require_packages()
    return NotebookExplorer(list_models(models, device=device))


def require_packages() -> None:
    """Raise ModuleNotFoundError if the package of the widget is missing."""
    import anywidget  # noqa: F401


def show_where_needed(link: PageLink) -> None:
    """Display the widget, which shows nothing, where the front end starts only widgets that are displayed."""
    if "google.colab" in sys.modules or "VSCODE_PID" in os.environ:
        from IPython.display import display

        display(link.widget)


def make_widget(page_id: str) -> Any:
    """Return a widget whose front end serves the pages with this id."""
    return _widget_class()(page_id=page_id)


@functools.cache
def _widget_class() -> Any:
    import anywidget
    import traitlets

    class PageWidget(anywidget.AnyWidget):
        """Carries the messages between pages and kernel; there is nothing to see of it."""

        _esm = FRONT_END.read_text(encoding="utf-8")
        page_id = traitlets.Unicode().tag(sync=True)

    return PageWidget


def _forget(key: int) -> None:
    """End the link of a model that is gone."""
    link = _links.pop(key, None)
    if link is not None:
        link.close(wait=False)

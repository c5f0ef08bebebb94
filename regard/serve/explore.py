"""The explorer of models from Python: a server in a thread of its own, which only this machine can reach."""

from __future__ import annotations

import asyncio
import html
import threading
import time
import webbrowser
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.serve.catalogue import Catalogue, ServedModel, load_models
from regard.serve.limits import Limits
from regard.serve.payload import is_served
from regard.serve.server import Address, Server, make_server
from regard.tasks.trained import Trained, copy_sharing_weights

Model = str | Path | Trained
LOG_LINES = 10  # of the server that are kept, in case that it does not start
PAUSE = 0.01  # seconds between two looks whether the server is ready


class Explorer:
    """A running server with the explorer at `url`; `stop()` ends it, as does leaving it as a context."""

    def __init__(self, server: Server, log: deque[str]) -> None:
        self._server, self._log = server, log
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="regard-explorer", daemon=True)
        self._thread.start()
        while not server.state.is_warm:
            if not self._thread.is_alive():
                raise self._explain_failure()
            time.sleep(PAUSE)
        self.url = server.url
        """The address of the page."""

    def stop(self) -> None:
        """Finish what runs, and stop the server."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Explorer at {self.url}>" if self._thread.is_alive() else "<Explorer, stopped>"

    def _repr_html_(self) -> str:
        """Return a link to the page, for notebooks."""
        address = html.escape(self.url, quote=True)
        return f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve())
        except BaseException as error:
            self._failure = error

    def _explain_failure(self) -> Exception:
        """Return the error for a server that did not start."""
        if isinstance(self._failure, SystemExit):  # uvicorn's word for a port that is taken
            host, port = self._server.config.host, self._server.config.port
            return ValueError(f"cannot listen at {host}, port {port}: is another program there? leave the port out")
        error = RuntimeError(f"the explorer did not start: {' '.join(self._log)}")
        error.__cause__ = self._failure
        return error


def open_explorer(
    models: Model | Sequence[Model] | None,
    *,
    device: str = "auto",
    port: int = 0,
    browser: bool = True,
    hint: str = "",
) -> Explorer:
    """Serve models to this machine, print the address with a hint, and open it in a browser if that is wished."""
    catalogue = list_models(models, device=device)
    log: deque[str] = deque(maxlen=LOG_LINES)
    server = make_server(catalogue, Limits(), Address(port=port), log=log.append)
    explorer = Explorer(server, log)
    print(f"the explorer is at {explorer.url}", flush=True)
    if hint:
        print(hint, flush=True)
    if browser:
        webbrowser.open(explorer.url)
    return explorer


def list_models(models: Model | Sequence[Model] | None, *, device: str) -> Catalogue:
    """Return a catalogue of folders, names and loaded models; those that come with Regard if there is none."""
    if models is None:
        return load_models([], device=device)
    chosen: Sequence[Any] = models if isinstance(models, list | tuple) else [models]
    if not chosen:
        raise ValueError(
            "there is no model to explore: name one, or leave the list out for those that come with Regard"
        )
    entries: list[ServedModel] = []
    for model in chosen:
        entries += load_models([model], device=device) if isinstance(model, str | Path) else [serve_loaded(model)]
    return Catalogue(entries)


def serve_loaded(trained: Any) -> ServedModel:
    """Return a loaded model under its own name; a copy that shares its weights answers, so that both can be used."""
    if not isinstance(trained, Trained):
        raise ValueError(f"a model is explored by its folder, its name or as loaded, not as {type(trained).__name__}")
    check_served(trained)
    return ServedModel(trained.name, trained.name, copy_sharing_weights(trained))


def check_served(trained: Trained) -> None:
    """Refuse a model that answers from files only."""
    if not is_served(trained):
        raise ValueError(f"{trained.name} is {trained.kind}, which reads files: use it with regard {trained.verb}")

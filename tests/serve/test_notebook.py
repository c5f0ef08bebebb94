"""A notebook that is executed: its kernel answers pages by the messages of a widget as a server answers requests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.interpret.notebook import INSTALL_HINT
from tests.serve.harness import serving

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install -e '.[test]')")
pytestmark = pytest.mark.unchecked
ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "checkpoints" / "format-1"
SENTENCE = "Le chat noir dort."
LOAD = f"import regard, threading, time, sys\nmodel = regard.load({str(SMALL)!r})"
LOOK = f"model.look({SENTENCE!r})"
THREADS = "print(*sorted(thread.name for thread in threading.enumerate() if thread.name.startswith('regard-')))"


WAIT_FOR_THREADS = """
deadline = time.monotonic() + 60
while sum(thread.name.startswith("regard-") for thread in threading.enumerate()) > {count}:
    assert time.monotonic() < deadline
    time.sleep(0.01)
"""


@dataclass
class Notebook:
    """A notebook that is executed cell by cell, and the messages of its widgets."""

    client: Any
    calls: int = 0
    heard: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)

    def execute(self, code: str) -> list[Any]:
        """Add a cell, execute it and return its outputs."""
        from nbformat.v4 import new_code_cell

        cells = self.client.nb.cells
        cells.append(new_code_cell(code))
        self.client.execute_cell(cells[-1], len(cells) - 1)
        return list(cells[-1].outputs)

    def printed(self, code: str) -> str:
        """Execute a cell and return what it prints."""
        return "".join(output.text for output in self.execute(code) if output.output_type == "stream").strip()

    def shown(self, code: str) -> str:
        """Execute a cell and return the HTML of its value."""
        [html] = [output.data["text/html"] for output in self.execute(code) if output.output_type == "execute_result"]
        return str(html)

    @property
    def widgets(self) -> dict[str, str]:
        """The ids of pages, by the ids of the channels of their widgets."""
        return {name: state["page_id"] for name, state in self.client.widget_state.items() if "page_id" in state}

    def send(self, channel: str, content: dict[str, Any]) -> None:
        """Send what the front end of a widget sends."""
        session, data = self.client.kc.session, {"method": "custom", "content": content}
        self.client.kc.shell_channel.send(session.msg("comm_msg", {"comm_id": channel, "data": data}))

    def hear(self, channel: str) -> tuple[dict[str, Any], bytes]:
        """Return the next message of a widget."""
        from jupyter_core.utils import run_sync

        while True:
            message = run_sync(self.client.kc.iopub_channel.get_msg)(timeout=120)
            content = message["content"]
            if message["msg_type"] == "comm_msg" and content["comm_id"] == channel:
                return content["data"]["content"], b"".join(bytes(part) for part in message["buffers"])

    def ask(self, channel: str, method: str, path: str, body: Any = None) -> tuple[int, list[bytes]]:
        """Return the status of an answer and its pieces."""
        self.calls += 1
        text = None if body is None else json.dumps(body)
        self.send(channel, {"page": "test", "call": self.calls, "method": method, "path": path, "body": text})
        status, pieces = 0, []
        while True:
            content, data = self.hear(channel)
            assert (content["page"], content["call"]) == ("test", self.calls)
            if content.get("failed"):
                return 0, []
            status = content.get("status", status)
            if "more" in content:
                pieces.append(data)
            if content.get("more") is False:
                return status, pieces


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A notebook with a kernel of this Python, in which a model is loaded."""
    from nbformat.v4 import new_notebook

    folder = tmp_path_factory.mktemp("jupyter")
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "regard"}
    (folder / "kernels" / "regard").mkdir(parents=True)
    (folder / "kernels" / "regard" / "kernel.json").write_text(json.dumps(spec | {"language": "python"}))
    kept = {name: os.environ.get(name) for name in ("JUPYTER_PATH", "PYTHONPATH", "IPYTHONDIR")}
    os.environ.update(JUPYTER_PATH=str(folder), PYTHONPATH=str(ROOT), IPYTHONDIR=str(folder))
    client = nbclient.NotebookClient(new_notebook(), timeout=600, kernel_name="regard")
    try:
        with client.setup_kernel():
            running = Notebook(client)
            running.execute(LOAD)
            yield running
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def channel(notebook: Notebook) -> str:
    """The channel of the widget of the model, which a look has opened."""
    html = notebook.shown(LOOK)
    assert "regard-" not in notebook.printed(THREADS)  # nothing runs before a page greets
    [(channel, page_id)] = notebook.widgets.items()
    assert f'data-regard="{page_id}" sandbox="allow-scripts"' in html
    assert len(page_id) > 20
    notebook.send(channel, {"page": "test", "hello": True})
    assert notebook.hear(channel)[0] == {"page": "test", "hello": True, "gone": False}
    return channel


def test_a_look_in_a_notebook_holds_its_page_and_calls_the_model(notebook: Notebook, channel: str):
    notebook.shown(LOOK)
    assert len(notebook.widgets) == 1  # one for a model, however often it is shown
    assert notebook.printed(THREADS) == "regard-in-process regard-worker"


def test_the_kernel_answers_as_the_server_does(notebook: Notebook, channel: str):
    trained = regard.load(SMALL)
    question = {"inputs": SENTENCE, "options": {"beams": 2}}
    with serving({trained.name: trained}) as server, server.client() as client:
        for method, path, body in [
            ("POST", "/v1/translate", question),
            ("POST", "/v1/tree", question),
            ("POST", "/v1/translate", {"inputs": [SENTENCE] * 33}),
            ("POST", "/v1/translate", {"unknown": 3}),
            ("GET", "/v1/explorer", None),
            ("GET", "/v1/no-such-route", None),
        ]:
            response = client.request(method, path, json=body)
            status, pieces = notebook.ask(channel, method, path, body)
            assert (status, json.loads(b"".join(pieces))) == (response.status_code, response.json()), path


def test_heads_are_fetched_one_at_a_time(notebook: Notebook, channel: str):
    from safetensors.torch import load

    _, pieces = notebook.ask(channel, "POST", "/v1/explain", {"inputs": SENTENCE, "view": True})
    attention = json.loads(b"".join(pieces))["view"]["attentions"][-1]
    weights = regard.load(SMALL).look(SENTENCE).find(attention["name"]).values
    for ref in attention["heads"]:
        _, pieces = notebook.ask(channel, "GET", f"/v1/explain/{ref['id']}?head={ref['head']}")
        [head] = load(b"".join(pieces)).values()
        assert (head - weights[ref["head"]]).abs().max() < 1e-6


def test_a_streamed_answer_comes_in_pieces(notebook: Notebook, channel: str):
    body = {"model": "format-1", "prompt": SENTENCE, "stream": True}
    status, pieces = notebook.ask(channel, "POST", "/v1/completions", body)
    events = [json.loads(piece.removeprefix(b"data: ")) for piece in b"".join(pieces).split(b"\n\n")[:-2]]
    assert status == 200
    assert len(pieces) > 3
    assert "".join(event["choices"][0]["text"] for event in events) == regard.load(SMALL).translate(SENTENCE)


def test_a_cancelled_request_ends_in_the_kernel(notebook: Notebook, channel: str):
    body = json.dumps({"inputs": [" ".join([SENTENCE] * 30)] * 32, "options": {"beams": 8}})
    request = {"page": "test", "call": 10_000, "method": "POST", "path": "/v1/translate", "body": body}
    notebook.send(channel, request)
    notebook.send(channel, {"page": "test", "cancel": 10_000})
    messages = [notebook.hear(channel)[0] for _ in range(3)]
    assert messages[0]["accepted"]
    assert messages[1]["status"] == 499  # nobody waits for it
    link = "list(sys.modules['regard.serve.notebook']._links.values())[0]"
    wait = f"link = {link}\nwhile link.server.state.worker.open_calls: time.sleep(0.01)\n"
    assert notebook.printed(f"{wait}print(link._open)\ndel link") == "{}"


@pytest.mark.parametrize(
    "content",
    [
        {"method": "GET", "path": "/metrics"},
        {"method": "GET", "path": "/v1/../metrics", "body": 3},
        {"method": "CONNECT", "path": "/v1/explorer"},
        {"method": "GET", "path": 7},
        {"method": "GET", "path": "/v1/é"},
    ],
)
def test_what_is_no_request_of_a_page_is_refused(notebook: Notebook, channel: str, content: dict[str, Any]):
    notebook.send(channel, {"page": "test", "call": 0, **content})
    assert notebook.hear(channel)[0] == {"page": "test", "call": 0, "failed": True}


def test_messages_without_a_sender_are_ignored(notebook: Notebook, channel: str):
    for content in ({}, {"hello": True}, {"page": 3, "call": 1}, {"page": "test", "cancel": [1]}, {"page": "test"}):
        notebook.send(channel, content)
    assert notebook.ask(channel, "GET", "/v1/explorer")[0] == 200


def test_the_explorer_shows_itself_in_a_notebook_and_ends_when_it_is_stopped(notebook: Notebook, channel: str):
    html = notebook.shown(f"explorer = regard.explore({str(SMALL)!r})\nexplorer")
    [(other, page_id)] = [entry for entry in notebook.widgets.items() if entry[0] != channel]
    assert f'data-regard="{page_id}"' in html
    assert "id=&quot;data&quot;" not in html
    assert notebook.ask(other, "GET", "/v1/explorer")[0] == 200
    threads = notebook.printed(THREADS).split()
    assert threads.count("regard-in-process") == 2
    notebook.execute("explorer.stop()")
    assert notebook.printed(THREADS).split().count("regard-in-process") == 1


def test_a_port_asks_for_a_server_in_a_notebook_too(notebook: Notebook):
    code = f"with regard.explore({str(SMALL)!r}, browser=False) as served:\n    print(served.url)"
    assert "http://127.0.0.1:" in notebook.printed(code)


def test_without_the_package_a_look_is_static_and_says_once_how_to_get_more(notebook: Notebook):
    notebook.execute("former, sys.modules['anywidget'] = sys.modules['anywidget'], None")
    first, second = notebook.shown(LOOK), notebook.shown(LOOK)
    notebook.execute("sys.modules['anywidget'] = former")
    assert first.count(INSTALL_HINT.replace("'", "&#x27;")) == 1
    assert "pip install" not in second.rpartition("</iframe>")[2]
    assert "data-regard" not in first + second
    assert first.rpartition("</iframe>")[0] == second.rpartition("</iframe>")[0]


def test_the_threads_end_with_the_model(notebook: Notebook, channel: str):
    before = notebook.printed(THREADS)
    known = set(notebook.widgets)
    notebook.execute(f"other = regard.load({str(SMALL)!r})\ntrace = other.look({SENTENCE!r})\ndisplay(trace)")
    [added] = set(notebook.widgets) - known
    assert notebook.ask(added, "POST", "/v1/explain", {"inputs": SENTENCE})[0] == 200
    started = notebook.printed(THREADS)
    assert len(started.split()) == len(before.split()) + 3  # the application, the worker, what explains
    notebook.execute("import gc\ndel other, trace\ngc.collect()")
    assert notebook.printed(WAIT_FOR_THREADS.format(count=len(before.split())) + THREADS) == before

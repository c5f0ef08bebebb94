"""A window that shows pages as a notebook does: the widget's own front end, and the kernel's side in this process."""

from __future__ import annotations

import base64
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import comm
from comm.base_comm import BaseComm

from regard.serve.notebook import FRONT_END
from tests.browser.conftest import Visit

HOST = """<!doctype html><html lang="en" data-drawn><title>A notebook</title><body>{frames}
<script type="text/plain" id="front">{front}</script>
<script type="module">
const asBytes = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
window.begin = async (state) => {
  const hearers = [];
  const send = (content) => {
    if (window.restarted) throw new Error("no kernel");
    window.toKernel(JSON.stringify(content));
  };
  const model = { get: (name) => state[name], on: (name, hear) => hearers.push(hear), send };
  const code = new Blob([document.getElementById("front").textContent], { type: "text/javascript" });
  window.end = (await import(URL.createObjectURL(code))).default.initialize({ model });
  for (;;) {
    for (const [content, buffers] of JSON.parse(await window.fromKernel())) {
      for (const hear of hearers) hear(content, buffers.map(asBytes));
    }
    await new Promise((go) => setTimeout(go, 5));
  }
};
</script></body></html>
"""


@dataclass
class Kernel:
    """The kernel's side of a notebook: messages of its widgets, which wait while a cell runs."""

    sent: deque[tuple[Any, list[bytes]]] = field(default_factory=deque)
    """What the widgets sent and the window has not taken yet."""
    received: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    comms: list[BaseComm] = field(default_factory=list)
    runs_cell: bool = False

    def receive(self, text: str) -> None:
        """Take a message of the front end."""
        content = json.loads(text)
        self.waiting.append(content)
        if not self.runs_cell:
            self.become_idle()

    def become_idle(self) -> None:
        """End the running cell: what waits is handed to the widget."""
        self.runs_cell = False
        while self.waiting:
            content = self.waiting.pop(0)
            self.received.append(content)
            for channel in self.comms:
                channel.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})

    def take(self) -> str:
        """Return what the widgets have sent since the last time."""
        messages = [self.sent.popleft() for _ in range(len(self.sent))]
        return json.dumps([[content, [base64.b64encode(data).decode() for data in raw]] for content, raw in messages])

    def wait_for(self, condition: Callable[[], bool], window: Visit) -> None:
        """Wait until something is so, while the window goes on."""
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            window.page.wait_for_timeout(20)

    @property
    def paths(self) -> list[str]:
        """What the pages asked for, in order."""
        return [content["path"] for content in self.received if "path" in content]


@contextmanager
def run_kernel(monkeypatch: Any) -> Iterator[Kernel]:
    """Let widgets of this process talk to a kernel."""
    kernel = Kernel()

    class Channel(BaseComm):
        def publish_msg(
            self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
        ) -> None:
            if msg_type == "comm_open":
                kernel.comms.append(self)
            elif msg_type == "comm_close":
                kernel.comms.remove(self)
            elif data["method"] == "custom":
                kernel.sent.append((data["content"], [bytes(part) for part in buffers or ()]))

    monkeypatch.setattr(comm, "create_comm", Channel)
    yield kernel


def show(visit: Callable[..., Visit], folder: Path, frames: str, **settings: Any) -> Visit:
    """Open a window with these pages, before its widget is there."""
    path = folder / "notebook.html"
    path.write_text(HOST.replace("{frames}", frames).replace("{front}", FRONT_END.read_text("utf-8")), "utf-8")
    return visit(path, **settings)


def connect(window: Visit, kernel: Kernel, page_id: str) -> None:
    """Start the widget in a window."""
    window.page.expose_function("toKernel", kernel.receive)
    window.page.expose_function("fromKernel", kernel.take)
    window.page.evaluate("(state) => { window.begin(state); }", {"page_id": page_id})

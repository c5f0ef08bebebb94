"""The translator in the box behind LitServe, with its batching; started by `benchmarks.serve_peers`."""

from __future__ import annotations

from typing import Any

import litserve
import torch

from benchmarks.ctranslate import TO
from benchmarks.serve_peers import BATCH, GATHER, load_translator


class TranslationApi(litserve.LitAPI):
    """Translates in whole batches; LitServe's worker process is started anew and imports this class."""

    def setup(self, device: Any) -> None:
        """Load the model in the worker."""
        torch.set_num_threads(1)
        self.translator = load_translator()

    def batch(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Take the requests of a batch as they are."""
        return inputs

    def predict(self, batch: list[dict[str, Any]]) -> list[str]:
        """Translate a batch."""
        texts = [query["q"] for query in batch]
        translations: list[str] = self.translator.translate(texts, to=TO, beams=batch[0]["beams"])
        return translations

    def unbatch(self, output: list[str]) -> list[str]:
        """Give every request its own translation."""
        return output

    def encode_response(self, output: str) -> dict[str, str]:
        """Answer as the other servers do."""
        return {"translatedText": output}


def serve_litserve(port: int) -> None:
    """Serve on one process, with one worker."""
    litserve.server._MCP_AVAILABLE = False  # it takes any package called mcp for one that it can use
    api = TranslationApi(max_batch_size=BATCH, batch_timeout=GATHER, api_path="/translate")
    server = litserve.LitServer(api, accelerator="cpu", healthcheck_path="/readyz", timeout=False)
    server.run(port=port, host="127.0.0.1", log_level="warning", generate_client_file=False, num_api_servers=1)

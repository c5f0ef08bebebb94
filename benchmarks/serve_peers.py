"""What `regard serve` is measured beside, each a program of its own with the same weights and the same route.

    python -m benchmarks.serve_peers ctranslate2 --port 8001 [--precision int8]
    python -m benchmarks.serve_peers batches --port 8001
    python -m benchmarks.serve_peers litserve --port 8001
    python -m benchmarks.serve_peers direct --texts texts.json --beams 4

The first is FastAPI in front of CTranslate2, one call a request. The second and the third answer with Regard's own
translator, but in whole batches: what arrives while one is computed is the next. The last is no server: it prints the
milliseconds of each text through `translate`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI
from pydantic import BaseModel

import regard
from benchmarks.ctranslate import MODEL, TO, CTranslate2Translator

BATCH, GATHER = 64, 0.005  # requests of a batch, and seconds in which they gather
EXAMPLE = "Where is the station?"


class Query(BaseModel):
    """A request: a text and the width of the search."""

    q: str
    beams: int = 1


def main() -> None:
    """Start the server that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["ctranslate2", "batches", "litserve", "direct"])
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--beams", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peer == "direct":
        print(json.dumps(time_texts(json.loads(arguments.texts.read_text(encoding="utf-8")), arguments.beams)))
    elif arguments.peer == "litserve":
        from benchmarks.serve_litserve import serve_litserve

        serve_litserve(arguments.port)
    else:
        app = make_batching_app() if arguments.peer == "batches" else make_ctranslate_app(arguments.precision)
        serve_app(app, arguments.port)


def serve_app(app: FastAPI, port: int) -> None:
    """Serve an application, without a line of log for every request."""
    import uvicorn

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


def load_translator() -> Any:
    """Return the translator in the box, warmed up."""
    translator = regard.load(MODEL, device="cpu")
    translator.warm_up()
    for beams in (1, 4):
        translator.translate(EXAMPLE, to=TO, beams=beams)
    return translator


def time_texts(texts: list[str], beams: int) -> list[float]:
    """Return the milliseconds that `translate` takes for each text."""
    translator = load_translator()
    times = []
    for text in texts:
        began = time.perf_counter()
        translator.translate(text, to=TO, beams=beams)
        times.append(1000 * (time.perf_counter() - began))
    return times


def make_ctranslate_app(precision: str) -> FastAPI:
    """Return an application that calls CTranslate2 once for every request."""
    app, translator = FastAPI(), CTranslate2Translator(precision)
    translator.translate([EXAMPLE], 1)

    @app.post("/translate")
    def translate(query: Query) -> dict[str, str]:
        return {"translatedText": translator.translate([query.q], query.beams)[0]}

    add_readiness(app)
    return app


def make_batching_app() -> FastAPI:
    """Return an application that gathers requests, and answers each batch whole."""
    app, translator = FastAPI(), load_translator()
    waiting: asyncio.Queue[tuple[Query, asyncio.Future[str]]] = asyncio.Queue()
    tasks: list[asyncio.Task[None]] = []

    async def answer_batches() -> None:
        while True:
            batch = [await waiting.get()]
            await asyncio.sleep(GATHER)
            while not waiting.empty() and len(batch) < BATCH:
                batch.append(waiting.get_nowait())
            texts, beams = [query.q for query, _ in batch], batch[0][0].beams
            answers = await asyncio.to_thread(translator.translate, texts, to=TO, beams=beams)
            for (_, done), answer in zip(batch, answers, strict=True):
                if not done.done():
                    done.set_result(answer)

    @app.post("/translate")
    async def translate(query: Query) -> dict[str, str]:
        if not tasks:
            tasks.append(asyncio.create_task(answer_batches()))
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await waiting.put((query, done))
        return {"translatedText": await done}

    add_readiness(app)
    return app


def add_readiness(app: FastAPI) -> None:
    """Add a route that answers as soon as the model is loaded."""

    @app.get("/readyz")
    def ready() -> dict[str, str]:
        return {"status": "ready"}


if __name__ == "__main__":
    main()

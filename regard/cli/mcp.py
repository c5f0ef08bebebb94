"""The command that offers trained models to assistants over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.grammar import Device, Settings

if TYPE_CHECKING:
    from regard.serve.catalogue import Catalogue
    from regard.serve.limits import Limits


def mcp(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Run folders, checkpoints or names; the shipped ones if none."),
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
) -> None:
    """Offer models as tools to an assistant, over standard input and output (MCP)."""
    from regard.serve.catalogue import load_models
    from regard.serve.limits import read_limits

    limits = read_limits(settings or [])
    catalogue = load_models(folders or [], device=device)
    print(f"regard: {', '.join(model.key for model in catalogue)}: waiting for a client", file=sys.stderr)
    asyncio.run(_converse(catalogue, limits))


async def _converse(catalogue: Catalogue, limits: Limits) -> None:
    from regard.serve.explaining import Explainer
    from regard.serve.mcp import Session
    from regard.serve.mcp_tools import make_tools
    from regard.serve.worker import Worker

    worker, explainer = Worker(catalogue.trained_models, limits), Explainer(catalogue, limits)
    worker.start()
    try:
        tools = make_tools(catalogue, worker, explainer, limits)
        session = Session(tools, limits, lambda line: print(line, flush=True))
        await session.run(_read_lines(limits.picture_bytes + 1))
    finally:
        worker.stop()
        explainer.stop()


async def _read_lines(most: int) -> AsyncIterator[bytes]:
    """Yield the lines of standard input; of one that is far too long, its beginning."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline, most):
        yield line
        while line and not line.endswith(b"\n"):  # what follows is no message of its own
            line = await asyncio.to_thread(sys.stdin.buffer.readline, most)

"""Limits of the server, each with its default, its setting on the command line and its environment variable."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from regard import config
from regard.config.ranges import Range

PREFIX = "REGARD_SERVE_"
Number = Annotated[int, Range(1, 2**31)]
Seconds = Annotated[float, Range(above=0, most=86_400)]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the server accepts at most; everything beyond is refused before it costs anything."""

    body_bytes: Number = 1 << 20
    """Bytes of a request."""
    picture_bytes: Number = 20 << 20
    """Bytes of a request to a model that reads pictures."""
    pixels: Number = 100_000_000
    """Pixels of all pictures of a request together, as their headers say."""
    memory_bytes: Number = 1 << 30
    """Bytes of the bodies and decoded pictures of all requests together; any more are refused with status 429."""
    inputs: Number = 32
    """Texts, pictures or other inputs of a request."""
    characters: Number = 20_000
    """Characters of all texts of a request together, options included."""
    graph_nodes: Number = 5_000
    """Nodes of all graphs of a request together, which have no limit of characters."""
    graph_edges: Number = 20_000
    """Edges of all graphs of a request together."""
    new_tokens: Number = 1024
    """Tokens of an answer."""
    beams: Number = 8
    """Beams of a search, and answers returned for an input."""
    running: Number = 64
    """Requests that a model answers side by side."""
    queue: Number = 64
    """Requests that wait; any more are refused with status 429."""
    deadline: Seconds = 30.0
    """Seconds until an answer; after them the request is given up with status 504."""
    receive_seconds: Seconds = 10.0
    """Seconds in which the headers of a request must arrive, and again its body."""
    send_seconds: Seconds = 10.0
    """Seconds that a client may leave an answer unread."""
    connections: Number = 512
    """Open connections; further ones get status 503."""
    per_minute: Annotated[int, Range(0, 10**9)] = 0
    """Requests of a key, or of an address where there are no keys, in a minute; 0: any number."""
    search_texts: Number = 1_000
    """Texts of a request that are searched."""
    explain_characters: Number = 2_000
    """Characters of an input that is explained."""
    explain_tokens: Number = 200
    """Tokens that a language model writes while it is explained, at most and by default."""
    explain_bytes: Number = 256 << 20
    """Bytes of attention weights kept for `/v1/explain/ID`; the oldest make room."""
    explain_views: Number = 50
    """Explained answers whose steps can be computed by `/v1/explain/ID/steps`; the oldest make room."""
    trust_sentences: Annotated[int, Range(2, 100)] = 30
    """Sentences, or pictures, on which `/v1/trust` checks a model."""
    trust_seconds: Seconds = 600.0
    """Seconds that a check of a model may take."""
    watch_seconds: Seconds = 2.0
    """Seconds between two looks at the folders of models, with `--watch`."""
    drain_seconds: Annotated[float, Range(0, 3600)] = 1.0
    """Seconds in which `/readyz` says no before the server stops accepting connections."""
    job_inputs: Number = 10_000
    """Inputs of a job."""
    job_bytes: Number = 16 << 20
    """Bytes of a request for a job."""
    jobs: Number = 100
    """Jobs that are kept, finished ones included; the oldest finished one makes room."""


def read_limits(settings: Sequence[str] = (), environment: Mapping[str, str] = os.environ) -> Limits:
    """Return the limits that the environment and `name=value` settings ask for; settings count more."""
    variables = {field.name: environment.get(PREFIX + field.name.upper()) for field in fields(Limits)}
    unknown = [name for name in environment if name.startswith(PREFIX) and name[len(PREFIX) :].lower() not in variables]
    if unknown:
        raise ValueError(f"environment variable {unknown[0]} names no limit: see regard serve --limits")
    mapping = config.override({}, [f"{name}={value}" for name, value in variables.items() if value is not None])
    return config.build(Limits, config.override(mapping, settings), where="limits")


def describe_limits() -> list[tuple[str, str, str]]:
    """Return the name, the default and the meaning of every limit."""
    return [(row.name, row.default, row.help) for row in config.describe(Limits)]

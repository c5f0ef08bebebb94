"""Which of some texts mean most nearly the same as a query, by a model that embeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.config.schema import json_schema
from regard.serve.api_schema import TEXT, TEXTS, closed_object, optional
from regard.serve.catalogue import ServedModel
from regard.serve.limits import Limits
from regard.serve.payload import check_characters, read_options
from regard.serve.refusal import Refusal
from regard.serve.worker import Worker
from regard.serve.worker_group import WorkerGroup
from regard.tasks.embedding.searching import search_texts

SEARCH_MEMBERS = frozenset({"model", "inputs", "texts", "top", "options"})
EMBED = "embed"  # the verb of the models that can search
TOP = 5  # texts found for a query, as `regard search` has it


async def find_texts(
    worker: Worker | WorkerGroup, model: ServedModel, payload: Mapping[str, Any], limits: Limits
) -> list[dict[str, Any]]:
    """Return for each query the texts with the largest cosine."""
    options = read_options(model.trained.Options, payload.get("options"), limits)
    queries = _read_texts(payload, "inputs", limits.inputs)
    texts = _read_texts(payload, "texts", limits.search_texts)
    check_characters([queries, texts], limits)
    top = payload.get("top", TOP)
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= limits.search_texts:
        raise Refusal(422, f"top must be a whole number from 1 to {limits.search_texts:,}", "invalid_input")
    embedded = await worker.answer(model.key, [*queries, *texts], options)
    vectors = np.stack([answer.vector for answer in embedded])
    found = [search_texts(texts, vectors[len(queries) :], vector, top) for vector in vectors[: len(queries)]]
    return [{"query": query, "hits": [hit.plain() for hit in hits]} for query, hits in zip(queries, found, strict=True)]


def _read_texts(payload: Mapping[str, Any], name: str, most: int) -> list[str]:
    value = payload.get(name)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise Refusal(422, f"{name} must be a text or a list of texts", "invalid_input")
    if len(texts) > most:
        raise Refusal(422, f"{len(texts):,} texts in {name}, at most {most:,} in a request", "too_many_inputs")
    return texts


def describe_search(options_class: type) -> dict[str, Any]:
    """Return the JSON schema of a search with the options of a model."""
    return closed_object(
        *("inputs", "texts"),
        model={**optional(TEXT), "description": "One of the models that embed."},
        inputs={**TEXTS, "description": "What to look for."},
        texts={**TEXTS, "description": "Where to look."},
        top={"type": "integer", "minimum": 1, "default": TOP, "description": "Texts found for each query."},
        options=optional(json_schema(options_class)),
    )

"""A trace as the data that the explorer draws, the same from a file and a server; each stores tensors its own way."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.interpret.draw.neighbourhood import graph_for_page
from regard.interpret.items import Item, Weights
from regard.interpret.measure.entropy import CONTROL, diagonality, entropy
from regard.interpret.steps import Inside, Steps
from regard.interpret.trace_like import TraceLike
from regard.interpret.visibility import CAUSAL, describe_visibility
from regard.interpret.words import group_items, merge
from regard.metrics.alignment import parse_links

FACTS = ("text", "answer", "answers", "controls", "curves", "crops")
"""Facts shown beside the weights."""
COLOURS = {
    "light": [
        (247, 251, 255), (222, 235, 247), (198, 219, 239), (157, 202, 225), (106, 174, 214),
        (65, 145, 198), (32, 112, 180), (8, 80, 155), (8, 48, 107),
    ],
    "dark": [
        (0, 34, 78), (26, 56, 111), (67, 78, 108), (97, 101, 111), (125, 124, 120),
        (155, 148, 118), (188, 174, 108), (222, 201, 88), (254, 232, 56),
    ],
}  # fmt: skip
"""Blues and cividis, which differ in lightness and so suit colour-blind readers."""

Measures = Mapping[str, Mapping[str, Sequence[float]] | float | str]
Gold = str | tuple[Iterable[tuple[int, int]], Iterable[tuple[int, int]]]
Ref = dict[str, Any]


@runtime_checkable
class TensorStore(Protocol):
    """Where the numbers of a view go; it returns the references by which they are found again."""

    def add(self, name: str, values: Tensor, kind: str = "f4") -> Ref:
        """Store a tensor as 32 or 16 bit floats (f4, f2) or as bytes (u1)."""

    def add_heads(self, name: str, values: Tensor, kind: str = "f4") -> list[Ref]:
        """Store a tensor whose first axis is the head, and return a reference for each head."""


def make_view(
    trace: TraceLike,
    store: TensorStore,
    *,
    half: bool = False,
    measures: Measures | None = None,
    gold: Gold | None = None,
) -> dict[str, Any]:
    """Return the view of a trace without its steps; with `half` its weights are stored in 16 bits."""
    if not trace.weights:
        raise ValueError("this trace holds no weights: nothing was watched")
    weight_measures = _weight_measures(trace)
    return {
        "title": "",
        "lang": None,
        "model": trace.model,
        "facts": {name: trace.facts[name] for name in FACTS if name in trace.facts},
        "items": {name: [_item(item) for item in items] for name, items in trace.items.items()},
        "pictures": {name: _picture(pixels) for name, pixels in trace.pictures.items()},
        "graph": graph_for_page(trace) if "graph" in trace.facts else None,
        "level": "word"
        if any(item.word is not None for items in trace.items.values() for item in items)
        else "subword",
        "first": [entry.name for entry in trace.weights].index(trace.find().name),
        "rounded": half,
        "attentions": [_attention(entry, store, half=half) for entry in trace.weights],
        "measures": {**weight_measures, **_per_head(measures or {})},
        "controls": _controls(trace, weight_measures["diagonality"], measures or {}),
        "numbers": {name: value for name, value in (measures or {}).items() if not isinstance(value, Mapping)},
        "gold": _gold_links(gold),
        "stepped": [],
        "steps": {},
        "predictions": trace.facts.get("predictions", []),
        "predicted": trace.facts.get("predicted", "target"),
        "prompt": trace.facts.get("prompt", 0),
        "written": trace.facts.get("written", []),
        "tree": trace.facts.get("tree"),
        "colours": COLOURS,
    }


def describe_steps(steps: Steps | None, store: TensorStore) -> dict[str, Any]:
    """Return the vectors of every attention, and the predictions, as members of a view."""
    return {
        "steps": {name: _inside(entry, store) for name, entry in steps.attentions.items()} if steps else {},
        "predictions": [prediction.plain() for prediction in steps.predictions] if steps else [],
        "predicted": steps.of if steps else "",
    }


def _item(item: Item) -> dict[str, Any]:
    word = {} if item.word is None else {"word": item.word}
    box = {} if item.box is None else {"box": [round(side, 6) for side in item.box]}
    return {"text": item.text, **word, **box, **({"special": True} if item.special else {})}


def _picture(pixels: Tensor) -> dict[str, Any]:
    """Encode an image as a data URL, which needs no request."""
    from PIL import Image

    buffer, (height, width, _) = io.BytesIO(), pixels.shape
    Image.fromarray(pixels.cpu().numpy().squeeze()).save(buffer, "PNG", optimize=True)
    text = base64.b64encode(buffer.getvalue()).decode()
    return {"source": f"data:image/png;base64,{text}", "width": width, "height": height}


def _attention(attention: Weights, store: TensorStore, *, half: bool) -> dict[str, Any]:
    return {
        "name": attention.name,
        "query": attention.query,
        "key": attention.key,
        "shape": list(attention.values.shape[1:]),
        **_mask(attention),
        "heads": store.add_heads(attention.name, attention.values, "f2" if half else "f4"),
    }


def _mask(attention: Weights) -> dict[str, Any]:
    """Return a description of what could not be looked at, if anything."""
    if attention.visible is None:
        return {"mask": CAUSAL} if _hides_later(attention) else {}
    mask = describe_visibility(attention.visible)
    return {"mask": mask} if mask else {}


def _hides_later(attention: Weights) -> bool:
    """Return True if no query gave anything to a later key in any head: in a trace that has no masks, it had one."""
    values = attention.values.detach()
    _, queries, keys = values.shape
    if queries != keys or queries < 2 or attention.key not in (attention.query, "fed", "source"):
        return False
    return bool((values.triu(1) == 0).all()) and bool((values.tril(-1) > 0).any())


def _weight_measures(trace: TraceLike) -> dict[str, dict[str, list[float]]]:
    """Return the measures that need no reference: entropy and diagonality of each head."""
    entropies, diagonalities = {}, {}
    names = {name for attention in trace.weights for name in (attention.query, attention.key)}
    units = {name: group_items(trace.items[name]) for name in names}
    for attention in trace.weights:
        values = attention.values.detach().float().cpu()
        entropies[attention.name] = [round(value, 4) for value in entropy(values).mean(-1).tolist()]
        words = merge(values, units[attention.query], units[attention.key])
        if min(words.shape[1:]) > 1:
            diagonalities[attention.name] = [round(value, 4) for value in diagonality(words).tolist()]
    return {"entropy": entropies, "diagonality": diagonalities}


def _per_head(measures: Measures) -> dict[str, dict[str, list[float]]]:
    return {
        name: {attention: [float(value) for value in values] for attention, values in table.items()}
        for name, table in measures.items()
        if isinstance(table, Mapping) and not name.endswith(CONTROL)
    }


def _controls(
    trace: TraceLike, diagonality_by_name: Mapping[str, Sequence[float]], measures: Measures
) -> dict[str, dict[str, list[float]]]:
    """Return the controls of what is measured per head: of entropy an even look at all that is visible."""
    entropies = {}
    for attention in trace.weights:
        heads, queries, keys = attention.values.shape
        if attention.visible is not None:
            visible = attention.visible.sum(-1).clamp(min=1).float()
        else:
            visible = torch.arange(1.0, queries + 1) if _hides_later(attention) else torch.full((queries,), float(keys))
        entropies[attention.name] = [round(float(visible.log2().mean()), 4)] * heads
    diagonalities = {name: [0.0] * len(values) for name, values in diagonality_by_name.items()}
    given = _per_head({name.removesuffix(CONTROL): table for name, table in measures.items() if name.endswith(CONTROL)})
    return {"entropy": entropies, "diagonality": diagonalities, **given}


def _gold_links(gold: Gold | None) -> list[tuple[int, int, bool]]:
    """Return (word read, word written, whether it is sure) for every link."""
    if gold is None:
        return []
    sure, possible = parse_links(gold) if isinstance(gold, str) else (set(gold[0]), set(gold[1]))
    return [(read, written, (read, written) in sure) for read, written in sorted({*sure, *possible})]


def _inside(attention: Inside, store: TensorStore) -> dict[str, Any]:
    """Store the vectors of one attention by head; left and right only if they differ from query and key."""
    form, name = attention.form, attention.name
    vectors = {"q": attention.queries, "k": attention.keys, "v": attention.values}
    if form.left is not attention.queries or form.right is not attention.keys:
        vectors |= {"left": form.left, "right": form.right}
    if form.vector is not None:
        vectors["vector"] = form.vector
    if attention.bias is not None:
        vectors["bias"] = attention.bias
    if form.kind == "given":
        vectors["raw"] = attention.raw
    refs = {part: store.add_heads(f"{name} {part}", values) for part, values in vectors.items()}
    refs["output"] = store.add_heads(f"{name} output", attention.contributions(), "f2")
    return {
        "kind": form.kind,
        "formula": form.formula,
        "scale": form.scale,
        "slope": form.slope,
        "depth": attention.queries.shape[-1],
        "other": attention.keys.shape[-1],
        "hidden": form.left.shape[-1],
        "features": attention.values.shape[-1],
        "width": attention.output.shape[-1],
        "visible": store.add(f"{name} visible", attention.visible, "u1"),
        "heads": [{part: refs[part][head] for part in refs} for head in range(len(attention.queries))],
    }

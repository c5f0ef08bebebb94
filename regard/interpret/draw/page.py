"""A trace as one HTML file: all layers and heads, by words or pieces, with every value and no outside request.

The file holds its style, script and data; its content security policy forbids everything else. Tensors are base64 in
separate elements, so that the page decodes one matrix at a time.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.interpret.draw.neighbourhood import graph_for_page
from regard.interpret.items import Item, Weights
from regard.interpret.measure.entropy import diagonality, entropy
from regard.interpret.steps import Inside, Steps
from regard.interpret.trace_like import TraceLike
from regard.interpret.words import group_items, merge
from regard.metrics.alignment import parse_links

WEB = Path(__file__).parents[2] / "web"
MODULES = (
    "strings", "data", "make", "state", "matrix", "ribbon", "alignment", "heads", "score", "inside", "image",
    "neighbourhood", "graph", "main",
)  # fmt: skip
FACTS = ("text", "answer", "answers", "controls", "curves", "crops")
"""Facts shown on the page beside the weights."""
MOST = 400_000
"""Most weights stored in 32 bits; files with more use 16 bits, whose rounding is not visible."""
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


@dataclass
class Blobs:
    """Tensors to be embedded in the file, referred to by number."""

    elements: list[str] = field(default_factory=list)

    def add(self, tensor: Tensor, kind: str = "f4") -> dict[str, Any]:
        """Embed a tensor as 32 or 16 bit floats or as bytes, and return its reference for the page."""
        types = {"f4": torch.float32, "f2": torch.float16, "u1": torch.uint8}
        numbers = tensor.detach().cpu().to(types[kind]).contiguous().numpy()
        text = base64.b64encode(numbers.astype(f"<{kind}").tobytes()).decode()
        number = len(self.elements)
        self.elements.append(f'<script type="text/plain" id="blob-{number}">{text}</script>')
        return {"blob": number, "type": kind}


def render(
    trace: TraceLike,
    *,
    steps: Steps | None = None,
    measures: Measures | None = None,
    gold: Gold | None = None,
    title: str | None = None,
    lang: str | None = None,
) -> str:
    """Return the HTML of the page.

    `measures` holds values per head (`{"AER": {"decoder.0.cross": [0.3, 0.5]}}`), by which heads can be sorted, and
    single values (`{"AER": 0.3, "AER of the diagonal": 0.6}`), which are shown beside the matrix. `gold` holds manual
    alignments (`"0-0 1p2"`, or the sets of sure and of possible links). Without `lang` the page uses the reader's
    language, French or English; without `steps` it uses those of the trace, if its model is available.
    """
    if not trace.weights:
        raise ValueError("this trace holds no weights: nothing was watched")
    if lang not in (None, "en", "fr"):
        raise ValueError(f"unknown language {lang!r}: choose en or fr")
    blobs, steps = Blobs(), steps or trace.steps()
    data = {
        "title": title or "",
        "lang": lang,
        "model": trace.model,
        "facts": {name: trace.facts[name] for name in FACTS if name in trace.facts},
        "items": {name: [_item(item) for item in items] for name, items in trace.items.items()},
        "pictures": {name: _picture(pixels) for name, pixels in trace.pictures.items()},
        "graph": graph_for_page(trace) if "graph" in trace.facts else None,
        "level": "word"
        if any(item.word is not None for items in trace.items.values() for item in items)
        else "subword",
        "first": [entry.name for entry in trace.weights].index(trace.find().name),
        "rounded": _uses_half_precision(trace),
        "attentions": [_attention(entry, blobs, half=_uses_half_precision(trace)) for entry in trace.weights],
        "measures": {**_weight_measures(trace), **_per_head(measures or {})},
        "numbers": {name: value for name, value in (measures or {}).items() if not isinstance(value, Mapping)},
        "gold": _gold_links(gold),
        "steps": {name: _inside(entry, blobs) for name, entry in steps.attentions.items()} if steps else {},
        **_predictions(trace, steps),
        "colours": COLOURS,
    }
    return _assemble(data, blobs, title=title or _title(trace))


def save(
    trace: TraceLike,
    path: Path,
    *,
    steps: Steps | None = None,
    measures: Measures | None = None,
    gold: Gold | None = None,
    title: str | None = None,
    lang: str | None = None,
) -> None:
    """Write the page to a file."""
    text = render(trace, steps=steps, measures=measures, gold=gold, title=title, lang=lang)
    path.write_text(text, encoding="utf-8")


def frame(trace: TraceLike, *, height: int = 720) -> str:
    """Return the page inside an iframe, for notebooks."""
    inner = html.escape(render(trace), quote=True)
    return (
        f'<iframe title="{html.escape(_title(trace), quote=True)}" sandbox="allow-scripts" srcdoc="{inner}" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )


def script() -> str:
    """Return the page's modules as one script; each becomes a function, since a single file cannot import."""
    return "\n".join(_module(name, (WEB / f"{name}.js").read_text(encoding="utf-8")) for name in MODULES)


def _module(name: str, text: str) -> str:
    """Convert a module to a function that returns its exports."""
    exported = re.findall(r"(?m)^export (?:function|const) (\w+)", text)
    text = re.sub(r'(?m)^import (\{.*\}) from "\./(\w+)\.js";$', r"const \1 = $\2;", text)
    text = re.sub(r"(?m)^export ", "", text)
    return f"const ${name} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();\n"


def _assemble(data: dict[str, Any], blobs: Blobs, *, title: str) -> str:
    """Fill template, style, script and data into one document; the policy allows style and script by their hashes."""
    code, style = script(), (WEB / "page.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(f"{title} – Regard"),
        "style": style,
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "blobs": "\n".join(blobs.elements),
        "script": code,
    }
    template = (WEB / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda gap: parts[gap[1]], template)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _title(trace: TraceLike) -> str:
    return str(trace.facts.get("answer") or trace.facts.get("text") or trace.model)


def _item(item: Item) -> dict[str, Any]:
    word = {} if item.word is None else {"word": item.word}
    box = {} if item.box is None else {"box": [round(side, 6) for side in item.box]}
    return {"text": item.text, **word, **box, **({"special": True} if item.special else {})}


def _picture(pixels: Tensor) -> dict[str, Any]:
    """Encode an image as a data URL, since the page makes no requests."""
    from PIL import Image

    buffer, (height, width, _) = io.BytesIO(), pixels.shape
    Image.fromarray(pixels.cpu().numpy().squeeze()).save(buffer, "PNG", optimize=True)
    text = base64.b64encode(buffer.getvalue()).decode()
    return {"source": f"data:image/png;base64,{text}", "width": width, "height": height}


def _uses_half_precision(trace: TraceLike) -> bool:
    """Return True if there are so many weights that they are stored in 16 bits."""
    return sum(attention.values.numel() for attention in trace.weights) > MOST


def _attention(attention: Weights, blobs: Blobs, *, half: bool) -> dict[str, Any]:
    return {
        "name": attention.name,
        "query": attention.query,
        "key": attention.key,
        "shape": list(attention.values.shape[1:]),
        "heads": [blobs.add(values, "f2" if half else "f4") for values in attention.values],
    }


def _weight_measures(trace: TraceLike) -> dict[str, dict[str, list[float]]]:
    """Return the measures that need no reference: entropy and diagonality of each head."""
    spread, straight = {}, {}
    for attention in trace.weights:
        values = attention.values.detach().float().cpu()
        spread[attention.name] = [round(value, 4) for value in entropy(values).mean(-1).tolist()]
        words = merge(values, group_items(trace.items[attention.query]), group_items(trace.items[attention.key]))
        if min(words.shape[1:]) > 1:
            straight[attention.name] = [round(value, 4) for value in diagonality(words).tolist()]
    return {"entropy": spread, "diagonality": straight}


def _per_head(measures: Measures) -> dict[str, dict[str, list[float]]]:
    return {
        name: {attention: [float(value) for value in values] for attention, values in table.items()}
        for name, table in measures.items()
        if isinstance(table, Mapping)
    }


def _gold_links(gold: Gold | None) -> list[tuple[int, int, bool]]:
    """Return (word read, word written, whether it is sure) for every link."""
    if gold is None:
        return []
    sure, possible = parse_links(gold) if isinstance(gold, str) else (set(gold[0]), set(gold[1]))
    return [(read, written, (read, written) in sure) for read, written in sorted({*sure, *possible})]


def _inside(attention: Inside, blobs: Blobs) -> dict[str, Any]:
    """Embed the vectors of one attention, head by head; left and right only if they differ from query and key."""
    form = attention.form
    same_vectors = form.left is attention.queries and form.right is attention.keys
    contributions = attention.contributions()
    heads = []
    for head in range(len(attention.queries)):
        head_blobs = {
            "q": blobs.add(attention.queries[head]),
            "k": blobs.add(attention.keys[head]),
            "v": blobs.add(attention.values[head]),
        }
        head_blobs["output"] = blobs.add(contributions[head], "f2")
        if not same_vectors:
            head_blobs |= {"left": blobs.add(form.left[head]), "right": blobs.add(form.right[head])}
        if form.vector is not None:
            head_blobs["vector"] = blobs.add(form.vector[head])
        if attention.bias is not None:
            head_blobs["bias"] = blobs.add(attention.bias[head])
        if form.kind == "given":
            head_blobs["raw"] = blobs.add(attention.raw[head])
        heads.append(head_blobs)
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
        "visible": blobs.add(attention.visible, "u1"),
        "heads": heads,
    }


def _predictions(trace: TraceLike, steps: Steps | None) -> dict[str, Any]:
    """Return the likeliest tokens at every place, of the steps or else of the trace, and whose places these are."""
    if steps and steps.predictions:
        return {"predictions": [prediction.plain() for prediction in steps.predictions], "predicted": steps.of}
    predicted = trace.facts.get("predicted", "target") if "predictions" in trace.facts else ""
    return {"predictions": trace.facts.get("predictions", []), "predicted": predicted}

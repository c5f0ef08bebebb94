"""A trace as one HTML file: all screens of the explorer, with every value and no outside request.

The file holds its style, script and data; its content security policy forbids everything else. Tensors lie in elements
of their own, packed head by head, so that the page unpacks one matrix at a time.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.interpret.draw.bundle import WEB, explorer_script, explorer_style
from regard.interpret.draw.view_data import COLOURS, Gold, Measures, Ref, describe_steps, make_view
from regard.interpret.notebook import Link
from regard.interpret.steps import Steps
from regard.interpret.trace_like import TraceLike

__all__ = ["COLOURS", "MOST", "fill_template", "frame", "frame_application", "render", "save"]

MOST = 400_000
"""Most weights stored in 32 bits; files with more use 16 bits, whose rounding is not visible."""
PACKED = 1 << 16
"""Bytes of a tensor from which on it is compressed; smaller ones are there without waiting, on paper too."""
FRAME_HEIGHT = 720  # pixels, in a notebook
NO_LINK = Link()
TYPES = {"f4": torch.float32, "f2": torch.float16, "u1": torch.uint8}


@dataclass
class Blobs:
    """Tensors to be embedded in the file, referred to by number."""

    elements: list[str] = field(default_factory=list)

    def add(self, name: str, values: Tensor, kind: str = "f4") -> Ref:
        """Embed a tensor as 32 or 16 bit floats or as bytes, and return its reference for the page."""
        numbers = values.detach().cpu().to(TYPES[kind]).contiguous().numpy().astype(f"<{kind}")
        ref: Ref = {"blob": len(self.elements), "type": kind, "shape": list(numbers.shape)}
        data = numbers.tobytes()
        if len(data) >= PACKED:
            data, ref["packed"] = pack(numbers), True
        text = base64.b64encode(data).decode()
        self.elements.append(f'<script type="text/plain" id="blob-{ref["blob"]}">{text}</script>')
        return ref

    def add_heads(self, name: str, values: Tensor, kind: str = "f4") -> list[Ref]:
        """Embed every head as a tensor of its own."""
        return [self.add(name, head, kind) for head in values]


def pack(numbers: np.ndarray) -> bytes:
    """Compress an array: the first bytes of all numbers, then the second, since alike bytes compress better."""
    planes = numbers.reshape(-1, 1).view(np.uint8).T.tobytes()
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_RLE)
    return compressor.compress(planes) + compressor.flush()


def render(
    trace: TraceLike,
    *,
    steps: Steps | None = None,
    measures: Measures | None = None,
    gold: Gold | None = None,
    title: str | None = None,
    lang: str | None = None,
    beside: TraceLike | None = None,
) -> str:
    """Return the HTML of the page.

    `measures` holds values per head (`{"AER": {"decoder.0.cross": [0.3, 0.5]}}`), by which heads can be sorted, and
    single values (`{"AER": 0.3, "AER of the diagonal": 0.6}`), which are shown beside the matrix. `gold` holds manual
    alignments (`"0-0 1p2"`, or the sets of sure and of possible links). Without `lang` the page uses the reader's
    language, French or English; without `steps` it uses those of the trace, if its model is available. `beside` is the
    trace of another picture, whose maps stand beside those of the first.
    """
    view, blobs = _view(trace, steps=steps, measures=measures, gold=gold, title=title, lang=lang)
    if beside is not None:
        view["other"] = make_view(beside, blobs, half=_is_large(beside))
    return _assemble(_embed(view, blobs), title=title or _title(trace))


def _view(
    trace: TraceLike,
    *,
    steps: Steps | None = None,
    measures: Measures | None = None,
    gold: Gold | None = None,
    title: str | None = None,
    lang: str | None = None,
) -> tuple[dict[str, Any], Blobs]:
    """Return the view of a trace with its steps, and its tensors."""
    if lang not in (None, "en", "fr"):
        raise ValueError(f"unknown language {lang!r}: choose en or fr")
    blobs = Blobs()
    view = make_view(trace, blobs, half=_is_large(trace), measures=measures, gold=gold)
    steps = steps or trace.steps()
    described = describe_steps(steps, blobs)
    if not described["predictions"]:  # then those that came with the trace stay
        described = {"steps": described["steps"]}
    view |= {"title": title or "", "lang": lang, **described}
    view["stepped"] = list(view["steps"])
    return view, blobs


def render_view(
    view: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    *,
    steps: Steps | None = None,
    beside: tuple[Mapping[str, Any], Mapping[str, Tensor]] | None = None,
) -> str:
    """Return the HTML of a view whose weights lie elsewhere, by the names of its attentions, as a file of its own.

    `beside` is the view of another picture with its weights.
    """
    blobs = Blobs()
    whole = _embed_weights(view, weights, blobs) | describe_steps(steps, blobs)
    whole["stepped"] = list(whole["steps"])
    if beside is not None:
        whole["other"] = _embed_weights(*beside, blobs) | {"stepped": []}
    title = view["title"] or view["facts"].get("answer") or view["facts"].get("text") or view["model"]
    return _assemble(_embed(whole, blobs), title=str(title))


def _embed_weights(view: Mapping[str, Any], weights: Mapping[str, Tensor], blobs: Blobs) -> dict[str, Any]:
    """Return a view whose weights lie in the file, without the name that a server gave it."""
    half = sum(values.numel() for values in weights.values()) > MOST
    attentions = [
        {**attention, "heads": blobs.add_heads(attention["name"], weights[attention["name"]], "f2" if half else "f4")}
        for attention in view["attentions"]
    ]
    whole = {**view, "attentions": attentions, "rounded": half}
    return {name: whole[name] for name in whole if name != "id"}


def save(
    trace: TraceLike,
    path: Path,
    *,
    steps: Steps | None = None,
    measures: Measures | None = None,
    gold: Gold | None = None,
    title: str | None = None,
    lang: str | None = None,
    beside: TraceLike | None = None,
) -> None:
    """Write the page to a file."""
    text = render(trace, steps=steps, measures=measures, gold=gold, title=title, lang=lang, beside=beside)
    path.write_text(text, encoding="utf-8")


def frame(trace: TraceLike, *, link: Link = NO_LINK, question: Mapping[str, Any] | None = None) -> str:
    """Return the page inside an iframe, for notebooks; it calls its model by the id of the link, if there is one."""
    view, blobs = _view(trace)
    document = _assemble(
        _embed(view | ({"question": question} if question else {}), blobs), title=_title(trace), page_id=link.page_id
    )
    hint = f"<p>{html.escape(link.hint)}</p>" if link.hint else ""
    return _write_iframe(document, title=_title(trace), page_id=link.page_id) + hint


def frame_application(page_id: str, *, title: str) -> str:
    """Return the page without a trace inside an iframe, for notebooks; it asks the models of the kernel."""
    return _write_iframe(_assemble("", title=title, page_id=page_id), title=title, page_id=page_id)


def _write_iframe(document: str, *, title: str, page_id: str) -> str:
    mark = f'data-regard="{html.escape(page_id, quote=True)}" ' if page_id else ""
    style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0"
    return (
        f'<iframe title="{html.escape(title, quote=True)}" {mark}sandbox="allow-scripts" '
        f'srcdoc="{html.escape(document, quote=True)}" style="{style}"></iframe>'
    )


def fill_template(parts: Mapping[str, str]) -> str:
    """Return the document that a file and a server begin with, its gaps filled."""
    template = (WEB / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda gap: parts[gap[1]], template)


def _embed(view: Mapping[str, Any], blobs: Blobs) -> str:
    """Return the elements that hold a view and its tensors."""
    data = json.dumps(view, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return "\n".join([f'<script type="application/json" id="data">{data}</script>', *blobs.elements])


def _assemble(elements: str, *, title: str, page_id: str = "") -> str:
    """Fill style, script and data into one document; the policy allows style and script by their hashes."""
    code, style = explorer_script(), explorer_style()
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "lang": 'lang="en"' + (f' data-notebook="{html.escape(page_id, quote=True)}"' if page_id else ""),
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "title": html.escape(f"{title} – Regard"),
        "style": f"<style>{style}</style>",
        "script": f'{elements}\n<script type="module">{code}</script>',
    }
    return fill_template(parts)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _title(trace: TraceLike) -> str:
    return str(trace.facts.get("answer") or trace.facts.get("text") or trace.model)


def _is_large(trace: TraceLike) -> bool:
    """Return True if there are so many weights that they are stored in 16 bits."""
    return sum(attention.values.numel() for attention in trace.weights) > MOST

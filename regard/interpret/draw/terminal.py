"""Attention in a terminal: a matrix in shades, word links, and the steps of one head."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.steps import Prediction, Step
from regard.interpret.trace import Trace
from regard.interpret.words import Unit, group_items, merge, normalise

BOUNDS = (0.05, 0.25, 0.5, 0.75)
SHADES = " ░▒▓█"
PLAIN = " .:+#"
LABEL = 16
"""Most columns for a word beside the matrix."""
UPRIGHT = 12
"""Most lines for a word written vertically above the matrix."""


@dataclass(frozen=True)
class Style:
    """The style of a matrix: terminal width, shades or plain ASCII, percentages instead of shades."""

    width: int = 80
    ascii: bool = False
    numbers: bool = False

    @property
    def ramp(self) -> str:
        """Return the characters for the five levels from lowest to highest."""
        return PLAIN if self.ascii else SHADES

    def label(self, text: str, room: int) -> str:
        """Shorten a word to `room` columns."""
        return self.cut(_printable(text, ascii=self.ascii), room)

    def cut(self, line: str, room: int) -> str:
        """Shorten a line to `room` columns."""
        if columns(line) <= room:
            return line
        while columns(line) > room - 1:
            line = line[:-1]
        return line + ("~" if self.ascii else "…")


STYLE = Style()


def alignment(
    trace: Trace,
    name: str | None = None,
    *,
    head: int | None = None,
    level: str = "word",
    specials: bool = False,
    renormalise: bool = False,
    style: Style = STYLE,
) -> str:
    """Return one attention of a trace as text; by default the last cross-attention, averaged over heads."""
    attention = trace.find(name)
    weights, head_weights = attention.values, _select_head(attention, head)
    rows = group_items(trace.items[attention.query], level=level, specials=specials)
    keys = group_items(trace.items[attention.key], level=level, specials=specials)
    merged = merge(head_weights, rows, keys)
    mean = "the only head" if len(weights) == 1 else f"mean of {len(weights)} heads"
    heads = mean if head is None else f"head {head}"
    title = f"{attention.name}, {heads}: where each line looked, not why"
    shown = normalise(merged) if renormalise else merged
    return f"{title}\n{matrix(shown, rows, keys, style=style)}"


def _select_head(attention: Weights, head: int | None) -> Float[Tensor, "query key"]:
    """Return the weights of one head, or the mean of all."""
    if head is not None and not 0 <= head < len(attention.values):
        raise ValueError(f"{attention.name} has heads 0 to {len(attention.values) - 1}, not {head}")
    weights = attention.values.float()
    return weights.mean(0) if head is None else weights[head]


def regions(trace: Trace, name: str | None = None, *, head: int | None = None, style: Style = STYLE) -> str:
    """Return the weights of each query over the regions of an image, relative to the highest."""
    attention = trace.find(name)
    weights = _select_head(attention, head)
    places = [(number, item.box) for number, item in enumerate(trace.items[attention.key]) if item.box is not None]
    tops = sorted({box[1] for _, box in places})
    gain = [f"gain of this attention: {trace.facts['gain']}"] if "gain" in trace.facts else []
    lines = [f"{attention.name}: where in the picture, not why", *_crops(trace), *gain]
    chances = dict(trace.facts.get("answers", ())) if attention.query == "asked" else {}
    for item, row in zip(trace.items[attention.query], weights, strict=True):
        if item.special:
            continue
        most = max(float(row[number]) for number, _ in places)
        chance = f" {chances[item.text]:.3f}" if item.text in chances else ""
        share = f"highest {most:.1%}, an equal share {1 / len(places):.1%}"
        lines.append(f"{_printable(item.text, ascii=style.ascii)}{chance}  ({share})")
        for top in tops:
            line = [float(row[number]) for number, box in places if box[1] == top]
            shown = [
                _cell(value if style.numbers else value / max(most, 1e-9), 4 if style.numbers else 2, style)
                for value in line
            ]
            lines.append(style.cut("".join(shown).rstrip(), style.width))
    return "\n".join(lines if style.numbers else [*lines, legend(style, of="the highest")])


def _crops(trace: Trace) -> list[str]:
    """Return the corners of the model's crops, in per cent of the image's width and height."""
    return [
        f"crop {number}: corners at {', '.join(f'{round(100 * x)} {round(100 * y)} %' for x, y in corners)}"
        for number, corners in enumerate(trace.facts.get("crops", ()), 1)
    ]


def matrix(
    weights: Float[Tensor, "query key"], queries: Sequence[Unit], keys: Sequence[Unit], *, style: Style = STYLE
) -> str:
    """Return one line per query and one column per key; columns that do not fit continue in a second band below."""
    if not queries or not keys:
        return "(nothing but special tokens)"
    side = max(columns(style.label(unit.text, LABEL)) for unit in queries)
    headings = [_printable(unit.text, ascii=style.ascii) for unit in keys]
    room = max(style.width - side - 2, 3)
    least = 3 if style.numbers else 2
    wide = [max(least, columns(text)) + 1 for text in headings]
    upright = sum(wide) <= room
    sizes = wide if upright else [least + 1] * len(keys)
    bands = []
    for first, last in _bands(sizes, room):
        columns_of_band = slice(first, last)
        heading = (
            _horizontal_heading(headings, sizes, columns_of_band)
            if upright
            else _vertical_headings(headings, sizes, columns_of_band)
        )
        lines = [" " * (side + 1) + line for line in heading]
        for unit, row in zip(queries, weights.tolist(), strict=True):
            cells = "".join(
                _cell(value, size, style) for value, size in zip(row[first:last], sizes[first:last], strict=True)
            )
            lines.append(_fill(style.label(unit.text, LABEL), side) + " " + cells)
        bands.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(bands) + ("" if style.numbers else f"\n{legend(style)}")


def legend(style: Style = STYLE, *, of: str = "the line's weight") -> str:
    """Return the meaning of the shades."""
    parts = [f"{mark} from {round(100 * bound)} %" for mark, bound in zip(style.ramp[1:], BOUNDS, strict=True)]
    return f"({'  '.join(parts)} of {of})"


def links(
    weights: Float[Tensor, "query key"], queries: Sequence[Item], keys: Sequence[Item], *, threshold: float = 0.0
) -> list[tuple[int, int]]:
    """Link each written word to the word it attends to most, if that weight exceeds the threshold: (read, written)."""
    rows, read = group_items(queries), group_items(keys)
    if not rows or not read:
        return []
    best = merge(weights.float(), rows, read).max(-1)
    pairs = []
    for row, (value, place) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
        if value > threshold:
            pairs.append((_number(read, place), _number(rows, row)))
    return sorted(pairs)


def pharaoh(
    weights: Float[Tensor, "query key"], queries: Sequence[Item], keys: Sequence[Item], *, threshold: float = 0.0
) -> str:
    """Return the links in Pharaoh format, `0-0 1-2`, the word read before the word written."""
    pairs = links(weights, queries, keys, threshold=threshold)
    return " ".join(f"{read}-{written}" for read, written in pairs)


def step(
    shown: Step,
    keys: Sequence[Item],
    *,
    token: str = "",
    prediction: Prediction | None = None,
    answered: str = "target",
    style: Style = STYLE,
) -> str:
    """Return the computation of one head at one query, line by line; `answered` is the list of the prediction."""
    token = _printable(token, ascii=style.ascii)
    lines = [
        f"{shown.attention}, head {shown.head}, token {shown.place} {token}".rstrip(),
        f"query    q = {_vector(shown.query)}",
        f"score    {_printable(shown.formula, ascii=style.ascii)}",
        "",
        *_key_lines(shown, keys, style),
        "",
        f"sum      weights x values = {_vector(shown.mixed)}",
        f"output   projected: {_vector(shown.contribution)}",
        f"         length {float(shown.contribution.norm()):.4f} of what this head adds to the token's vector",
        f"check    recomputed = the model's weights {f'to {shown.difference:.0e}' if shown.difference else 'exactly'}",
    ]
    if prediction is not None:
        heading = "next     written" if answered == "target" else f"{answered:<8} chosen"
        lines += ["", f"{heading}: {_quote_token(prediction.written, style)}"]
        lines += [
            f"         {_bar(share, style)} {share:6.1%}  {_quote_token(text, style)}" for text, share in prediction.top
        ]
    return "\n".join(style.cut(line, style.width) for line in lines)


def columns(text: str) -> int:
    """Return the terminal columns of a text: wide characters such as Chinese take two, combining accents none."""
    wide = ("W", "F")
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in wide else 1
        for letter in text
    )


def _key_lines(head_step: Step, keys: Sequence[Item], style: Style) -> list[str]:
    """Return one line per key: raw score, scaled score, bias, mask, and weight."""
    side = max(4, *(columns(style.label(item.text, LABEL)) for item in keys))
    biased = "     bias" if head_step.bias is not None else ""
    lines = [f"{_fill('key', side)}      raw   scaled{biased}  mask  softmax"]
    for place, item in enumerate(keys):
        raw = float(head_step.raw[place])
        bias = f" {float(head_step.bias[place]):8.3f}" if head_step.bias is not None else ""
        sight = "    -" if head_step.visible[place] else "  hid"
        share = float(head_step.weights[place])
        lines.append(
            f"{_fill(style.label(item.text, LABEL), side)} {raw:8.3f} {raw * head_step.scale:8.3f}{bias} {sight}"
            f"  {share:7.4f}  {_bar(share, style)}".rstrip()
        )
    return lines


def _bar(share: float, style: Style) -> str:
    """Return a bar of up to twelve characters."""
    full = round(12 * share)
    return ("#" if style.ascii else "█") * full + " " * (12 - full)


def _vector(numbers: Tensor, shown: int = 5) -> str:
    """Return the first few values of a vector."""
    listed = ", ".join(f"{value:.3f}" for value in numbers[:shown].tolist())
    more = f", ... {len(numbers)} in all" if len(numbers) > shown else ""
    return f"[{listed}{more}]"


def _quote_token(text: str, style: Style) -> str:
    """Quote a token, since its leading space matters."""
    space = " " if text.startswith(" ") and text.strip() else ""
    return f'"{space}{_printable(text, ascii=style.ascii)}"'


def _number(listed: Sequence[Unit], place: int) -> int:
    """Return the word's number in its text."""
    word = listed[place].word
    return place if word is None else word


def _printable(text: str, *, ascii: bool) -> str:
    """Replace characters that cannot be printed; for ASCII also remove accents, and put question marks for the rest."""
    clean = "".join(letter if letter.isprintable() else "·" for letter in text).strip() or ("_" if ascii else "␣")
    if not ascii:
        return clean
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", clean) if not unicodedata.combining(letter))
    return bare.encode("ascii", "replace").decode()


def _bands(sizes: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Split the columns into ranges that fit into one line."""
    bands, first, used = [], 0, 0
    for place, size in enumerate(sizes):
        if used + size > room and place > first:
            bands.append((first, place))
            first, used = place, 0
        used += size
    return [*bands, (first, len(sizes))]


def _horizontal_heading(headings: Sequence[str], sizes: Sequence[int], band: slice) -> list[str]:
    """Return the column headings in one line."""
    return ["".join(_fill(text, size) for text, size in zip(headings[band], sizes[band], strict=True))]


def _vertical_headings(headings: Sequence[str], sizes: Sequence[int], band: slice) -> list[str]:
    """Return the column headings written vertically, ending right above the matrix."""
    shown = [text if len(text) <= UPRIGHT else text[: UPRIGHT - 1] + "." for text in headings[band]]
    height = max(map(len, shown))
    lines = []
    for line in range(height):
        letters = [text[line - height + len(text)] if line >= height - len(text) else "" for text in shown]
        lines.append("".join(_fill(letter, size) for letter, size in zip(letters, sizes[band], strict=True)))
    return lines


def _cell(value: float, size: int, style: Style) -> str:
    """Return the cell of one weight: a shade, or a percentage."""
    if style.numbers:
        return _fill(f"{100 * value:3.0f}", size)
    mark = style.ramp[sum(value >= bound for bound in BOUNDS)]
    return mark * (size - 1) + " "


def _fill(text: str, room: int) -> str:
    """Pad a text with spaces to `room` columns."""
    return text + " " * (room - columns(text))

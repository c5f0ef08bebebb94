"""The neighbourhood of a graph node: node positions for a plot, and the weights of its edges in a table.

The node is in the centre, the neighbours with the highest weights around it, and around these their neighbours with
the highest weights. A note says how many are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.interpret.items import Weights
    from regard.interpret.trace_like import TraceLike

FIRST, SECOND = 20, 4  # neighbours that are drawn, and neighbours of each of them
NAME_LENGTH = 12  # characters of a name that fit into the plot
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c6bb1", "#999999")
"""Colours of classes, safe for colour-blind readers (Okabe and Ito); the last is for all further classes."""


@dataclass(frozen=True)
class Place:
    """The position of a node in the plot."""

    name: str
    ring: int
    """Distance in edges from the central node."""
    x: float
    y: float


@dataclass(frozen=True)
class Edge:
    """The attention weight from one node to another."""

    looking: str
    looked: str
    weight: float
    equal: float
    """The weight of each edge under uniform attention."""


def edges(attention: Weights, trace: TraceLike, *, head: int | None = None) -> list[Edge]:
    """Return the edges of one attention, grouped by query node, the highest weight first."""
    values = (attention.values.mean(0) if head is None else attention.values[head]).float()
    return [
        Edge(item.text, trace.items[attention.key][place].text, float(line[place]), 1 / int((line > 0).sum()))
        for item, line in zip(trace.items[attention.query], values, strict=True)
        for place in line.argsort(descending=True, stable=True).tolist()
        if line[place] > 0
    ]


def place_nodes(trace: TraceLike) -> list[Place]:
    """Return the positions of the drawn nodes: the centre, a ring around it, and a second ring."""
    layers = list(reversed(trace.weights))
    middle = trace.items["asked"][0].text
    placed = {middle}
    first = [edge.looked for edge in edges(layers[0], trace) if edge.looked not in placed][:FIRST]
    placed |= set(first)
    further: dict[str, list[str]] = {name: [] for name in first}
    for edge in edges(layers[1], trace) if len(layers) > 1 else ():
        children = further.get(edge.looking)
        if children is not None and edge.looked not in placed and len(children) < SECOND:
            children.append(edge.looked)
            placed.add(edge.looked)
    nodes, sector = [Place(middle, 0, 0.0, 0.0)], 1 / max(1, len(first))
    for number, (name, children) in enumerate(further.items()):
        nodes.append(_place_on_ring(name, 1, (number + 0.5) * sector))
        nodes += [
            _place_on_ring(other, 2, (number + (n + 0.5) / len(children)) * sector) for n, other in enumerate(children)
        ]
    return nodes


def colours(trace: TraceLike) -> dict[str, str]:
    """Return a colour for each predicted class in this neighbourhood, the most frequent first."""
    answers = [node_facts["answer"] for node_facts in trace.facts["graph"].values()]
    ranked = sorted(set(answers), key=lambda name: (-answers.count(name), name))
    return {name: COLOURS[min(number, len(COLOURS) - 1)] for number, name in enumerate(ranked)}


def table(trace: TraceLike, name: str | None = None, *, head: int | None = None) -> list[tuple[str, ...]]:
    """Return every edge of one attention: nodes, weight, uniform weight, predicted and true class of the neighbour."""
    node_facts = trace.facts["graph"]
    rows: list[tuple[str, ...]] = []
    for edge in edges(trace.find(name), trace, head=head):
        other = node_facts.get(edge.looked, {})
        label = other.get("label", "")
        numbers = f"{edge.weight:.4f}", f"{edge.equal:.4f}"
        rows.append((edge.looking, edge.looked, *numbers, other.get("answer", ""), label))
    return rows


HEAD = ("node", "looked at", "weight", "if equal", "answered", "label")


def graph_for_page(trace: TraceLike) -> dict[str, Any]:
    """Return the data of the page: node positions, classes and colours."""
    shades, node_facts = colours(trace), trace.facts["graph"]
    drawn = [
        {"text": node.name, "ring": node.ring, "x": round(node.x, 4), "y": round(node.y, 4)}
        | _answer_and_colour(node_facts, shades, node)
        for node in place_nodes(trace)
    ]
    listed = {name: {key: value for key, value in node.items() if value} for name, node in node_facts.items()}
    return {"nodes": drawn, "classes": shades, "told": listed}


def picture(trace: TraceLike, *, head: int | None = None, title: str = "") -> Figure:
    """Return the neighbourhood as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 8), layout="constrained")
    plot_neighbourhood(figure.add_subplot(), trace, head=head)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def plot_neighbourhood(axes: Any, trace: TraceLike, *, head: int | None = None) -> None:
    """Plot the neighbourhood; the width of an edge shows its weight, which is labelled on the inner ring."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    nodes, shades, node_facts = place_nodes(trace), colours(trace), trace.facts["graph"]
    node_by_name = {node.name: node for node in nodes}
    for ring, attention in enumerate(reversed(trace.weights[-2:])):
        for edge in edges(attention, trace, head=head):
            ends = node_by_name.get(edge.looking), node_by_name.get(edge.looked)
            if ends[0] is not None and ends[1] is not None and ends[0].ring == ring < ends[1].ring:
                _draw_edge(axes, ends[0], ends[1], edge.weight, labelled=ring == 0)
    for node in nodes:
        shade = shades.get(node_facts.get(node.name, {}).get("answer", ""), COLOURS[-1])
        axes.plot(
            node.x, node.y, "o", color=shade, markersize=(26, 19, 12)[node.ring], markeredgecolor="white", zorder=2
        )
        away, size = (1.0, 8) if node.ring < 2 else (1.12, 7)
        text = axes.annotate(
            _short(node.name), (away * node.x, away * node.y), ha="center", va="center", fontsize=size, zorder=3
        )
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])
    answers = {node_facts.get(node.name, {}).get("answer", "") for node in nodes}
    handles = [
        Line2D([], [], marker="o", linestyle="", color=shade, label=name)
        for name, shade in shades.items()
        if name in answers
    ]
    axes.legend(handles=handles, title="answered", loc="upper right", fontsize=8, title_fontsize=8)
    axes.set(aspect="equal", xlim=(-2.35, 2.35), ylim=(-2.6, 2.35))
    axes.axis("off")
    axes.text(0, -2.55, _note(trace, head, drawn=sum(node.ring == 1 for node in nodes)), ha="center", fontsize=8)


def _draw_edge(axes: Any, start: Place, end: Place, weight: float, *, labelled: bool) -> None:
    axes.plot([start.x, end.x], [start.y, end.y], color="#52606d", linewidth=0.4 + 9 * weight, alpha=0.75, zorder=1,
              solid_capstyle="round")  # fmt: skip
    if labelled:
        middle = 0.68 * end.x + 0.32 * start.x, 0.68 * end.y + 0.32 * start.y
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        axes.annotate(f"{weight:.1%}", middle, ha="center", va="center", fontsize=7, bbox=box, zorder=2)


def _note(trace: TraceLike, head: int | None, *, drawn: int) -> str:
    """Return a note with the attention, the weight on the node itself, the uniform weight, and the hidden edges."""
    attention, centre = trace.weights[-1], trace.items["asked"][0].text
    all_edges = edges(attention, trace, head=head)
    self_weight = next((edge.weight for edge in all_edges if edge.looked == centre), 0.0)
    heads = "its only head" if len(attention.values) == 1 else "mean of its heads" if head is None else f"head {head}"
    parts = [
        f"Weights of {attention.name}, {heads}",
        f"{self_weight:.1%} on itself",
        f"equal weights: {all_edges[0].equal:.1%} each",
    ]
    omitted = len(all_edges) - 1 - drawn
    return "; ".join([*parts, *([f"{omitted} more neighbours, with less"] if omitted > 0 else [])])


def _short(name: str) -> str:
    """Shorten a name in the middle, since similar names often differ at the end."""
    return name if len(name) <= NAME_LENGTH else f"{name[:5]}…{name[6 - NAME_LENGTH :]}"


def _answer_and_colour(node_facts: Any, shades: dict[str, str], node: Place) -> dict[str, Any]:
    answer = node_facts.get(node.name, {}).get("answer", "")
    return {"answer": answer, "colour": shades.get(answer, COLOURS[-1])}


def _place_on_ring(name: str, ring: int, share: float) -> Place:
    angle = 2 * math.pi * share + math.pi / 2
    return Place(name, ring, ring * math.cos(angle), ring * math.sin(angle))

"""The tree of a beam search in a terminal: one line for a run of tokens, and below it what was considered instead.

A hypothesis that the search left at once stands in a list with others; one that it followed for a while has a line, and
its own alternatives below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.decoding.search_tree import SearchTree, TreeNode
from regard.interpret.draw.terminal import STYLE, Style, columns

SCORES = 17  # columns of the two scores at the right
LEAST = 24  # columns of a text, however deep its branch
INDENT = "  "
MARKS = {"best": "★", "ended": "■", "kept": "●", "pruned": "×"}
PLAIN_MARKS = {"best": "*", "ended": "#", "kept": "o", "pruned": "x"}


@dataclass
class Branch:
    """Hypotheses that follow one another, and below each of them the branches that leave there."""

    places: list[int]
    sides: dict[int, list[Branch]] = field(default_factory=dict)
    """The other continuations of a hypothesis, by its place among the nodes; the best first."""


def draw_tree(tree: SearchTree, *, style: Style = STYLE) -> str:
    """Return a search as text."""
    marks = PLAIN_MARKS if style.ascii else MARKS
    trunk = find_branches(tree)
    lines = [
        *_wrap(describe_search(tree), style.width),
        "",
        f"{'total':>{style.width - SCORES + 8}} {'score':>8}",
        *_draw_branch(tree, trunk, "", marks, style),
        "",
        *_wrap(_explain_marks(marks), style.width),
    ]
    return "\n".join(line.rstrip() for line in lines)


def describe_search(tree: SearchTree) -> str:
    """Return in a sentence or two how the search went, and how it ranked its answers."""
    width = "1 hypothesis" if tree.beam.beams == 1 else f"the {tree.beam.beams} best hypotheses"
    rounds = max(node.step for node in tree.nodes)
    ended = sum(node.fate == "ended" for node in tree.nodes)
    power = tree.beam.length_penalty
    ranked = "their total alone" if power == 0 else f"total / length{'' if power == 1 else f' ^ {power:g}'}"
    forced = f" The first {len(tree.prefix)} tokens were forced." if tree.prefix else ""
    return (
        f"{tree.model} kept {width} at each of {rounds} steps; {ended} ended, ranked by {ranked}.{forced} "
        "A total is the sum of the log-probabilities of all tokens: 0 would be certain."
    )


def find_branches(tree: SearchTree) -> Branch:
    """Return the trunk of the tree, which leads to the best answer, with its branches."""
    children: dict[int, list[int]] = {}
    for place, node in enumerate(tree.nodes[1:], start=1):
        children.setdefault(node.parent, []).append(place)
    reach = [(node.is_best, node.step, node.total) for node in tree.nodes]
    for place in range(len(tree.nodes) - 1, 0, -1):  # children come after their parents
        parent = tree.nodes[place].parent
        reach[parent] = max(reach[parent], reach[place])

    def follow(place: int) -> Branch:
        branch = Branch([place])
        while following := [child for child in children.get(place, []) if tree.nodes[child].fate != "pruned"]:
            main = max(following, key=reach.__getitem__)
            branch.sides[place] = [follow(child) for child in children[place] if child != main]
            branch.places.append(main)
            place = main
        branch.sides[place] = [follow(child) for child in children.get(place, [])]
        return branch

    return follow(0)


def _draw_branch(tree: SearchTree, branch: Branch, indent: str, marks: dict[str, str], style: Style) -> Iterator[str]:
    """Yield the line of a branch, and below it the lines of what was considered instead at each of its steps."""
    last = tree.nodes[branch.places[-1]]
    yield from _draw_lines(tree, branch, indent, marks[_fate(last)], style)
    inner = indent + INDENT
    for place, following in zip(branch.places, [*branch.places[1:], None], strict=True):
        sides = branch.sides.get(place, [])
        if not sides:
            continue
        step = tree.nodes[place].step + 1
        chosen = "then" if following is None else f"instead of {spell(tree, following, style)}"
        yield style.cut(f"{inner}step {step}, {chosen}:", style.width)
        followed = [side for side in sides if tree.nodes[side.places[0]].fate != "pruned"]
        for side in followed:
            yield from _draw_branch(tree, side, inner + INDENT, marks, style)
        pruned = [side.places[0] for side in sides if side not in followed]
        entries = [f"{marks['pruned']} {spell(tree, place, style)} {tree.nodes[place].total:.3f}" for place in pruned]
        yield from _join_entries(entries, inner + INDENT, style)


def _draw_lines(tree: SearchTree, branch: Branch, indent: str, mark: str, style: Style) -> Iterator[str]:
    """Yield the text of a branch, in as many lines as it takes, with its scores at the right of the last."""
    last = tree.nodes[branch.places[-1]]
    pieces = [tree.nodes[place] for place in branch.places if place]
    ends = pieces[-1:] if last.fate == "ended" else []
    text = "".join(node.text for node in pieces[: len(pieces) - len(ends)]).strip()
    text = f"{text} (end)" if ends else text
    room = max(LEAST, style.width - SCORES - len(indent) - 3)
    *lines, line = _wrap(style.label(text, len(text) * 2 + 1), room)
    yield from (f"{indent}{mark if number == 0 else ' '} {part}" for number, part in enumerate(lines))
    line = f"{indent}{' ' if lines else mark} {style.label(line, room)}"
    score = "" if last.normalized is None else f"{last.normalized:8.3f}"
    yield f"{line}{' ' * max(1, style.width - SCORES - columns(line))}{last.total:8.3f} {score}"


def _join_entries(entries: list[str], indent: str, style: Style) -> Iterator[str]:
    """Yield entries side by side, as many in a line as fit."""
    line = indent
    for entry in entries:
        if line != indent and columns(line) + columns(entry) + 2 > style.width:
            yield line
            line = indent
        line += entry if line == indent else f"  {entry}"
    if line != indent:
        yield line


def _fate(node: TreeNode) -> str:
    return "best" if node.is_best else node.fate


def spell(tree: SearchTree, place: int, style: Style = STYLE, room: int = 20) -> str:
    """Return the text of the token of a hypothesis in at most `room` columns."""
    node = tree.nodes[place]
    return "(end)" if node.token == tree.end else style.label(node.text, room)


def _explain_marks(marks: dict[str, str]) -> str:
    """Return what the marks mean."""
    explained = {
        "best": "the answer",
        "ended": "ended, with a lower score",
        "kept": "kept for some steps, then left for better ones",
        "pruned": "left out at once",
    }
    return "   ".join(f"{marks[fate]} {words}" for fate, words in explained.items())


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width)

"""Search trees in the terminal and as pictures: every hypothesis is there once, with its numbers, within the width."""

import math
import re
from pathlib import Path

import pytest
import torch

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Prefix
from regard.decoding.search_tree import SearchTree, record_search
from regard.interpret.draw import plots
from regard.interpret.draw.terminal import Style, columns
from regard.interpret.draw.tree_picture import place_rows, plot_tree
from regard.interpret.draw.tree_text import Branch, draw_tree, find_branches
from tests.decoding.steppers import Case, markov

pytestmark = pytest.mark.unchecked
WORDS = [" un", " deux", " trois", " quatre $x$", " 五つ", "\t"]
THREE = Beam(beams=3)


def make_tree(
    beam: Beam = THREE, *, limit: int = 7, prefix: tuple[int, ...] = (), example: int = 0, words: list[str] = WORDS
) -> SearchTree:
    torch.manual_seed(5)
    case: Case = markov(vocab=6)
    rules = [Prefix(prefix)] if prefix else []
    with record_search() as record:
        search(case.model, case.inputs([example]), beam, limit=limit, eos=0, constraints=rules)
    return record.tree(
        lambda ids: [words[id] for id in ids], model="small", text="vier $", prefix=list(prefix), answer="un"
    )


def list_places(branch: Branch) -> list[int]:
    return [
        *branch.places,
        *(place for sides in branch.sides.values() for side in sides for place in list_places(side)),
    ]


@pytest.mark.parametrize("beams", [1, 2, 5])
@pytest.mark.parametrize("example", [0, 1, 2])
def test_every_hypothesis_is_in_one_branch_and_the_trunk_is_the_answer(beams: int, example: int):
    tree = make_tree(Beam(beams=beams), example=example)
    trunk = find_branches(tree)
    assert sorted(list_places(trunk)) == list(range(len(tree.nodes)))
    assert trunk.places[: len(tree.path(tree.answers[0])) + 1] == [0, *tree.path(tree.answers[0])]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("ascii", [False, True])
def test_the_text_fits_the_terminal_and_has_every_number(width: int, ascii: bool):
    tree = make_tree()
    text = draw_tree(tree, style=Style(width=width, ascii=ascii))
    assert max(map(columns, text.splitlines())) <= width
    numbers = set(re.findall(r"-?\d+\.\d{3}", text))
    pruned = {f"{node.total:.3f}" for node in tree.nodes if node.fate == "pruned"}
    ended = {f"{number:.3f}" for node in tree.nodes if node.fate == "ended" for number in (node.total, node.normalized)}
    assert pruned | ended <= numbers
    assert text.isascii() or not ascii
    assert "(end)" in text
    assert "ranked by total / length" in " ".join(text.split())


def test_the_text_says_how_the_search_was_set():
    text = " ".join(draw_tree(make_tree(Beam(beams=1, length_penalty=0.0))).split())
    assert text.startswith("small kept 1 hypothesis at each of")
    assert "ranked by their total alone" in text
    text = " ".join(draw_tree(make_tree(Beam(beams=2, length_penalty=0.6, patience=math.inf), prefix=(3, 4))).split())
    assert "total / length ^ 0.6. The first 2 tokens were forced." in text


def test_a_long_answer_is_wrapped_and_not_cut():
    tree = make_tree(Beam(beams=2, length_penalty=-1.0), prefix=(3,) * 6, limit=7)
    lines = draw_tree(tree, style=Style(width=60)).splitlines()
    trunk = " ".join(line for line in lines if "quatre" in line and "step" not in line and "×" not in line)
    assert trunk.count("quatre") >= 6
    assert "…" not in trunk


def test_the_picture_has_a_column_for_every_step_and_a_row_for_every_rank(tmp_path: Path):
    tree = make_tree(words=[*WORDS[:4], "é", "_"])  # the font has no others
    rows = place_rows(tree)
    for step in range(1, max(node.step for node in tree.nodes) + 1):
        ranked = [row for row, node in zip(rows, tree.nodes, strict=True) if node.step == step]
        assert ranked == list(range(len(ranked)))
    figure = plot_tree(tree)
    [axes] = figure.axes
    assert len(axes.patches) == len(tree.nodes)
    assert len(axes.lines) == len(tree.nodes) - 1
    texts = [text.get_text() for text in axes.texts]
    for node in tree.nodes[1:]:
        assert f"{node.total if node.normalized is None else node.normalized:.3f}" in texts
    styles = {str(patch.get_linestyle()) for patch in axes.patches}
    assert len(styles) > 1, "what was left out is dashed"
    for name in ("tree.png", "tree.svg"):
        plots.save(figure, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000

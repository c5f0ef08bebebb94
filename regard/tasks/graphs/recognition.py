"""Whether files hold a graph."""

from __future__ import annotations

from pathlib import Path

from regard.data.glimpse import Glimpse, arrays_in
from regard.tasks.graphs.files import sides
from regard.training.task import NAMED, SURE, Claim, Given

SENTENCE = "a graph: training a graph attention network to classify its nodes"


def recognise(inputs: Given) -> Claim | None:
    """Two tables, of edges and of nodes, or an npz file with edges in it."""
    if inputs.to is not None:
        return None
    if inputs.is_declared:
        if inputs.valid:
            raise ValueError("--valid: which nodes of a graph are measured on is said in it: leave it out")
    elif inputs.valid or not (_arrays(inputs.files) or _tables(inputs.files)):
        return None
    file = sides(inputs.files)
    named = {name: value for name, value in vars(file).items() if value is not None}
    return Claim({"train": named}, SENTENCE, SURE if inputs.is_declared else NAMED)


def _arrays(files: tuple[str, ...]) -> bool:
    """Whether there is an array of edges in the one file."""
    if len(files) != 1 or Path(files[0]).suffix.lower() != ".npz":
        return False
    return {"edges", "labels"} <= arrays_in(files[0])


def _tables(files: tuple[str, ...]) -> bool:
    """Whether one of two tables names edges and the other nodes."""
    if len(files) != 2 or any(Path(name.removesuffix(".gz")).suffix.lower() not in (".csv", ".tsv") for name in files):
        return False
    looks = [Glimpse.at(name) for name in files]
    heads = [[cell.strip().lower() for cell in (look.rows or [[]])[0]] for look in looks]
    return any(len(edges) == 2 and {"id", "label"} <= set(nodes) for edges, nodes in (heads, heads[::-1]))

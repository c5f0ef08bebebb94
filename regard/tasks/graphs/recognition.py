"""Whether files hold a graph."""

from __future__ import annotations

from pathlib import Path

from regard.data.columns import find_names
from regard.data.sniff import FilePreview, array_names
from regard.tasks.graphs.files import graph_file
from regard.training.task import NAMED, SURE, Claim, Given

SENTENCE = "a graph: training a graph attention network to classify its nodes"


def recognise(inputs: Given) -> Claim | None:
    """Recognise two tables, of edges and of nodes, or an npz file with edges in it."""
    if inputs.to is not None:
        return None
    if inputs.is_declared:
        if inputs.valid:
            raise ValueError("--valid: which nodes of a graph are measured on is said in it: leave it out")
    elif inputs.valid or not (_hold_graph_arrays(inputs.files) or _are_edges_and_nodes(inputs.files)):
        return None
    file = graph_file(inputs.files)
    settings = {name: value for name, value in vars(file).items() if value is not None}
    return Claim({"train": settings}, SENTENCE, SURE if inputs.is_declared else NAMED)


def _hold_graph_arrays(files: tuple[str, ...]) -> bool:
    """True for one npz file with an array of edges."""
    if len(files) != 1 or Path(files[0]).suffix.lower() != ".npz":
        return False
    return {"edges", "labels"} <= array_names(files[0])


def _are_edges_and_nodes(files: tuple[str, ...]) -> bool:
    """True if one of two tables lists edges and the other nodes."""
    if len(files) != 2 or any(Path(name.removesuffix(".gz")).suffix.lower() not in (".csv", ".tsv") for name in files):
        return False
    previews = [FilePreview.read(name) for name in files]
    headers = [(preview.rows or [[]])[0] for preview in previews]
    return any(len(edges) == 2 and find_names(nodes, ("id", "label")) for edges, nodes in (headers, headers[::-1]))

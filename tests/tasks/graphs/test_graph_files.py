"""Graphs from files: what is read, and what is said in one line of files that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import config
from regard.models.parts.sparse import Sparse
from regard.tasks.graphs.files import GraphConfig, GraphData, GraphFile, prepare
from tests.tasks.graphs import small


def graphs(**data: Any) -> GraphData:
    return prepare(config.build(GraphConfig, data, where="data"))


def tabled(place: Path, *, edges: str | None = None, nodes: str | None = None, **data: Any) -> GraphData:
    """The small graph as tables, one of them with other lines."""
    paths = small.tables(place)
    for path, text in zip(paths, (edges, nodes), strict=True):
        if text is not None:
            Path(path).write_text(text, encoding="utf-8")
    return graphs(train={"edges": paths[0], "nodes": paths[1]}, **data)


def test_tables_become_a_graph(tmp_path: Path):
    found = tabled(tmp_path, scale=False)
    graph = found.graph
    assert (len(graph), graph.features.width, list(graph.classes)) == (60, 6, ["blue", "red"])
    assert np.allclose(graph.features.to_tensor().numpy(), small.features(), atol=1e-6)
    both = {(one, other) for pair in small.pairs() for one, other in (pair, pair[::-1])}
    assert {tuple(pair) for pair in graph.edges.tolist()} == both
    assert graph.labels[6] == -1
    assert len(graph.parts["valid"]) == 10
    assert not np.intersect1d(graph.parts["train"], graph.parts["valid"]).size
    told = "8 nodes without a label (n6 first): looked at, not learnt from; label what is to be learnt from"
    assert told in found.summary
    assert tabled(tmp_path, seed=0).report == tabled(tmp_path, seed=0).report
    assert tabled(tmp_path, seed=1).report != tabled(tmp_path, seed=0).report


def test_arrays_become_the_same_graph_sparse(tmp_path: Path):
    graph = graphs(train=small.arrays(tmp_path), scale=False).graph
    whole = small.features()
    held = graph.features.to_tensor()
    assert isinstance(held, Sparse)
    assert np.allclose(held.dense().numpy(), np.where(whole > 0.9, whole, 0), atol=1e-6)
    assert [len(graph.parts[part]) for part in ("train", "valid", "test")] == [20, 20, 20]
    dense = graphs(train=small.arrays(tmp_path, x=whole, x_indptr=None), scale=False).graph
    assert np.allclose(dense.features.to_tensor().numpy(), whole, atol=1e-6)
    scaled = graphs(train=small.arrays(tmp_path)).graph.features.to_tensor().dense()
    assert np.allclose(scaled.sum(1)[scaled.sum(1) > 0], 1)


def test_a_split_in_a_column_is_kept(tmp_path: Path):
    nodes = "id,label,split,a\n" + "".join(
        f"n{n},{small.GROUPS[n % 2]},{('train', 'val', 'test', '')[n // 2 % 4]},{n}\n" for n in range(60)
    )
    graph = tabled(tmp_path, nodes=nodes).graph
    assert graph.parts["valid"][:4].tolist() == [2, 3, 10, 11]
    assert graph.columns == ["a"]
    with pytest.raises(ValueError, match=r"nodes.csv:2: 'tran' in column split: write train, valid, test"):
        tabled(tmp_path, nodes=nodes.replace(",train,", ",tran,", 1))


def test_edges_may_be_given_one_way_or_both_twice_or_as_loops(tmp_path: Path):
    edges = "source,target\n" + "".join(f"n{one},n{other}\n" for one, other in small.pairs())
    back = "".join(f"n{other},n{one}\n" for one, other in small.pairs())
    once, both = tabled(tmp_path), tabled(tmp_path, edges=edges + back)
    assert np.array_equal(once.graph.edges, both.graph.edges)
    assert "150 edges given in both directions are one each (data.directed=true: two)" in both.summary
    directed = tabled(tmp_path, directed=True)
    assert np.array_equal(directed.graph.edges, np.array(small.pairs()))
    query, key = directed.graph.mask().where.query, directed.graph.mask().where.key
    assert {(int(k), int(q)) for q, k in zip(query, key, strict=True) if q != k} == set(small.pairs())
    odd = tabled(tmp_path, edges=edges + "n3,n3\nn0,n2\nn0,n2\n")
    assert "1 loops left out (n3 first): every node looks at itself anyway" in odd.summary
    assert any("repeated edge" in line for line in odd.summary)
    assert any("edges.csv:154: the first edge that is listed a second time" in line for line in odd.summary)
    bare = tabled(tmp_path, edges=edges.partition("\n")[2])  # without a header
    assert np.array_equal(bare.graph.edges, once.graph.edges)


def test_nodes_without_an_edge_are_told(tmp_path: Path):
    told = "57 nodes without an edge (n3 first): their own features alone decide; give them edges, or leave them out"
    assert told in tabled(tmp_path, edges="a,b\nn0,n1\nn1,n2\n").summary


NODES = "id,label,a\nn0,red,1\nn1,blue,2\nn2,red,3\nn3,blue,4\n"
EDGES = "a,b\nn0,n1\n"


@pytest.mark.parametrize(
    ("edges", "nodes", "said"),
    [
        ("a,b\nn0,n1\nn0,n9\n", NODES, "edges.csv:3: an edge to 'n9', which is no node of"),
        ("a\nn0\n", NODES, "edges.csv:1: an edge needs two columns"),
        ("a,b\nn0\n", NODES, "edges.csv:2: 1 cell under 2 columns"),
        (EDGES, "id,label\nn0,red\n", "has no column of features beside id and label: add some"),
        (EDGES, "name,label,a\nn0,red,1\n", "has no column 'id'; there are name, label, a: rename one, or say which"),
        (
            EDGES,
            "id,labels,a\nn0,red,1\n",
            "has no column 'label', did you mean labels? rename one, or say which",
        ),
        (
            EDGES,
            "id,label,split,a\nn0,red,train,1\nn1,,valid,2\n",
            "nodes.csv:3: this node is in valid and has no label: give it one, or blank split",
        ),
        (EDGES, NODES.replace("3\n", "nan\n"), "nodes.csv:4: 'nan' in column a is no number: correct it, or leave"),
        (EDGES, "id,label,a\n", "holds no nodes below its header"),
        (EDGES, NODES + "n0,red,1\n", "nodes.csv:6: node n0 is listed twice: remove one of the lines"),
        (EDGES, NODES + ",red,1\n", "nodes.csv:6: a node without a name: fill in its id"),
        (EDGES, NODES.replace("3\n", "x\n"), "nodes.csv:4: 'x' in column a is no number"),
        (EDGES, NODES.replace("red", "").replace("blue", ""), "no node has a label: give some of them one"),
        (EDGES, "id,label,a\nn0,red,1\nn1,,2\n", "no labelled node is left to measure on"),
    ],
)
def test_tables_that_are_wrong_are_refused_in_a_line(tmp_path: Path, edges: str, nodes: str, said: str):
    with pytest.raises(ValueError) as caught:
        tabled(tmp_path, edges=edges, nodes=nodes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_class_without_a_node_to_train_on_is_refused(tmp_path: Path):
    nodes = "id,label,split,a\nn0,red,train,1\nn1,blue,valid,2\nn2,red,valid,3\n"
    with pytest.raises(ValueError, match="class blue has no node to train on: put one into train, such as n1, or take"):
        tabled(tmp_path, edges=EDGES, nodes=nodes)
    with pytest.raises(ValueError, match="none to choose by: mark some as valid"):
        tabled(tmp_path, edges=EDGES, nodes=nodes.replace("valid", "test"))
    with pytest.raises(ValueError, match="every label is 'red': give nodes of two classes or more"):
        tabled(tmp_path, edges=EDGES, nodes=nodes.replace("blue", "red"))


def test_parts_that_are_marked_stay_apart_where_others_are_drawn(tmp_path: Path):
    def marked(*parts: str) -> dict[str, np.ndarray]:
        lines = (f"n{n},{small.GROUPS[n % 2]},{parts[n] if n < len(parts) else ''},{n}\n" for n in range(60))
        return tabled(tmp_path, nodes="id,label,split,a\n" + "".join(lines)).graph.parts

    found = marked(*["test"] * 20)
    assert found["test"].tolist() == list(range(20))
    assert (len(found["train"]), len(found["valid"])) == (32, 8)
    assert not set(range(20)) & {*found["train"].tolist(), *found["valid"].tolist()}
    both = marked(*["test"] * 20, *["valid"] * 10)
    assert [len(both[part]) for part in ("train", "valid", "test")] == [30, 10, 20]
    assert both["train"].tolist() == list(range(30, 60))


def test_classes_of_a_model_are_known_by_their_names(tmp_path: Path):
    known = graphs(train=small.arrays(tmp_path / "a", label_names=np.array(["red", "blue"]))).graph
    turned = {"labels": 1 - small.contents()["labels"], "label_names": np.array(["blue", "red"])}
    again = GraphConfig(train=GraphFile(path=small.arrays(tmp_path / "b", **turned)))
    found = prepare(again, known).graph
    assert found.classes == known.classes
    assert np.array_equal(found.labels, known.labels)
    other = GraphConfig(train=GraphFile(path=small.arrays(tmp_path / "c", label_names=np.array(["red", "green"]))))
    with pytest.raises(ValueError, match="class 'green' is none that the model knows, red, blue: rename it"):
        prepare(other, known)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edges": None}, "has no array edges"),
        ({"labels": None, "label": np.zeros(60, int)}, "has no array labels, did you mean label?"),
        ({"x_data": None}, "has no array x_data"),
        ({"labels": np.zeros(60)}, "labels is of type float64: store whole numbers"),
        ({"labels": np.zeros(59, int)}, "labels have shape (59,) for 60 nodes"),
        ({"labels": np.full(60, -2)}, "labels from -2 to -2: number classes from 0"),
        ({"edges": np.array([[0, 60]])}, r"edges[0] names number 60, there are 0 to 59"),
        ({"edges": np.zeros((4, 3), int)}, "edges have shape (4, 3)"),
        ({"x_indptr": np.zeros(3, int)}, "x_indptr has 3 bounds for a shape of [60, 6]"),
        ({"x_data": np.ones(3, np.float32)}, "do not fit together: store a CSR matrix"),
        ({"train_idx": np.array([-1])}, "train_idx[0] names number -1"),
        ({"val_idx": small.contents()["train_idx"]}, "is both in train and in valid: leave it in one of them"),
        (
            {"labels": np.where(np.arange(60) == small.contents()["train_idx"][0], -1, np.arange(60) % 2)},
            "is to be trained on and has no label: give it one",
        ),
        ({"label_names": np.array(["a"])}, "label_names has 1 different names for 2"),
        ({"x": np.full((60, 2), np.nan)}, "feature 0 of node 0 is nan: store a finite number"),
        ({"labels": np.array([{}] * 60)}, "is no npz file of plain arrays"),
    ],
)
def test_arrays_that_are_wrong_are_refused_in_a_line(tmp_path: Path, changes: dict[str, Any], said: str):
    with pytest.raises(ValueError) as caught:
        graphs(train=small.arrays(tmp_path, **changes))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path):
    (tmp_path / "graph.npz").write_text("hello")
    with pytest.raises(ValueError, match="is no npz file of plain arrays"):
        graphs(train=str(tmp_path / "graph.npz"))
    with pytest.raises(ValueError, match="no file"):
        graphs(train=str(tmp_path / "other.npz"))
    with pytest.raises(ValueError, match="a graph is a path to an npz file, or both edges and nodes"):
        graphs(train={"edges": "a.csv"})

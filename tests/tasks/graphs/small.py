"""A small graph as files: two groups of nodes, joined mostly among themselves, and features that say little."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

NODES = 60
GROUPS = ("red", "blue")


def pairs(seed: int = 0) -> list[tuple[int, int]]:
    """Edges, of which nine in ten stay within a group; odd nodes are of the one, even ones of the other."""
    chance = random.Random(seed)
    found: set[tuple[int, int]] = set()
    while len(found) < 150:
        one, other = sorted(chance.sample(range(NODES), 2))
        if one % 2 == other % 2 or chance.random() < 0.1:
            found.add((one, other))
    return sorted(found)


def features(seed: int = 0) -> np.ndarray:
    """Six numbers of each node, one of which is a little larger in one group."""
    found = np.random.default_rng(seed).random((NODES, 6)).round(3)
    found[:, 0] += 0.25 * (np.arange(NODES) % 2)
    return found


def tables(place: Path) -> tuple[str, str]:
    """The graph as two CSV files; every seventh node has no label."""
    place.mkdir(parents=True, exist_ok=True)
    edges, nodes = place / "edges.csv", place / "nodes.csv"
    edges.write_text("source,target\n" + "".join(f"n{one},n{other}\n" for one, other in pairs()), encoding="utf-8")
    lines = (
        f"n{number},{'' if number % 7 == 6 else GROUPS[number % 2]},{','.join(map(str, row))}\n"
        for number, row in enumerate(features().tolist())
    )
    nodes.write_text("id,label,a,b,c,d,e,f\n" + "".join(lines), encoding="utf-8")
    return str(edges), str(nodes)


def contents() -> dict[str, np.ndarray]:
    """The graph as arrays, split as Planetoid's are."""
    whole, order = features(), np.random.default_rng(1).permutation(NODES)
    sparse = np.where(whole > 0.9, whole, 0)
    rows, columns = np.nonzero(sparse)
    return {
        "x_indptr": np.concatenate([[0], np.bincount(rows, minlength=NODES).cumsum()]).astype(np.int32),
        "x_indices": columns.astype(np.int32),
        "x_data": sparse[rows, columns].astype(np.float32),
        "x_shape": np.array(sparse.shape),
        "labels": (np.arange(NODES) % 2).astype(np.int16),
        "edges": np.array(pairs(), np.int32),
        "train_idx": order[:20],
        "val_idx": order[20:40],
        "test_idx": order[40:],
    }


def arrays(place: Path, name: str = "graph.npz", **changes: np.ndarray | None) -> str:
    """The same as an npz file, with changes; None leaves an array out."""
    place.mkdir(parents=True, exist_ok=True)
    kept = {key: array for key, array in (contents() | changes).items() if array is not None}
    np.savez_compressed(place / name, **kept)
    return str(place / name)


def posted(node: str) -> dict[str, object]:
    """The graph of the tables as an input that asks about a node."""
    rows = {f"n{number}": row for number, row in enumerate(features().tolist())}
    return {"node": node, "edges": [[f"n{one}", f"n{other}"] for one, other in pairs()], "features": rows}

"""A step of translation in one graph, compiled once for rows of all lengths, with the loss it has uncompiled."""

from __future__ import annotations

import sys

import torch
from torch._dynamo.testing import CompileCounter

from regard import recipe
from regard.models.transformer import Transformer
from regard.tasks.translation.task import Translation
from tests.conftest import SMALL

if __name__ == "__main__":
    train = {"source": sys.argv[1], "target": sys.argv[2]}
    _, resolved = recipe.resolve({**SMALL, "data": {**SMALL["data"], "train": train}})
    prepared = Translation.prepare(resolved)
    resolved = Translation.sized(resolved, prepared)
    task = Translation(resolved, prepared, Transformer(resolved.model).eval(), fixed=True)
    batches = {batch.source_row.longest: batch for batch in map(task.batch, range(task.rows))}
    assert len(batches) > 1, "rows of one length show nothing"
    counter = CompileCounter()
    compiled = torch.compile(task.step, backend=counter, fullgraph=True)  # whole: nothing in it waits for a number
    for batch in batches.values():
        found, expected = compiled(batch, "model"), task.step(batch, "model")
        assert torch.allclose(found.loss, expected.loss, rtol=1e-5), "the same loss"
        assert int(found.weight) == int(expected.weight)
    assert counter.frame_count <= 2, (
        f"compiled {counter.frame_count} times: once for a length and once for any is enough"
    )

"""Steps in one graph with the loss they have uncompiled: of translation for all lengths, of pictures, of pixels."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch._dynamo.testing import CompileCounter

from regard import models, recipe
from regard.models.transformer import Transformer
from regard.tasks.translation.task import Translation
from tests.conftest import SMALL
from tests.data.images.drawing import fill

if __name__ == "__main__":
    train = {"source": sys.argv[1], "target": sys.argv[2]}
    _, resolved = recipe.resolve({**SMALL, "data": {**SMALL["data"], "train": train}})
    prepared = Translation.prepare(resolved)
    resolved = Translation.fill_sizes(resolved, prepared)
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

    mixed = {"shift": 0.2, "scale": 0.6, "flip": True, "operations": 2, "mixup": 0.5, "cutmix": 1.0, "erase": 0.5}
    scatter = {"size": 16, "scraps": [1, 4], "scrap": 3}
    photos = {"path": str(fill(Path(sys.argv[1]).parent / "photos"))}
    sizes = {"width": 16, "heads": 2, "hidden": 16, "depth": 1}
    data = {"train": photos, "size": 8, "batch_size": 8}
    for settings in (
        {"task": "pictures", "data": {**data, "scatter": scatter}, "augment": mixed, "model": {**sizes, "patch": 4}},
        {"task": "pixels", "data": data, "model": {**sizes, "name": "image-gpt"}},
        {"task": "pixels", "data": {**data, "colours": 5}, "model": {**sizes, "name": "axial", "above": 1}},
    ):
        kind, found = recipe.resolve(settings)
        pictures = kind.prepare(found, None)
        found = kind.resolve(settings, pictures)
        seeing = kind(found, pictures, models.build(found.model).eval())
        counter = CompileCounter()
        compiled = torch.compile(seeing.step, backend=counter, fullgraph=True)
        for row in range(3):
            batch = seeing.batch(row)
            assert torch.allclose(compiled(batch, "model").loss, seeing.step(batch, "model").loss, rtol=1e-5)
        assert counter.frame_count == 1, "every row has the same shape"

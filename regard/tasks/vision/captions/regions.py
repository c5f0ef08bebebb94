"""What a frozen encoder makes of pictures: computed once, kept in half precision, in the cache and on a GPU if it fits.

Six thousand pictures of 196 regions with 512 features are 1.2 GB; computing them anew would be most of every step.
"""

from __future__ import annotations

import hashlib
import threading
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import config
from regard.attention.hardware import device_of
from regard.data import cache as caches
from regard.data.pictures.augment import Augment
from regard.data.progress import report
from regard.tasks.vision.captions.preparing import Captioned

CHUNK = 64  # pictures read at a time
ROOM = 0.25  # share of free memory on the device that regions may take
LARGEST = float(np.finfo(np.float16).max)
Regions = Float[Tensor, "picture region features"]


class Kept:
    """The regions of some pictures; nothing is computed before somebody asks, since weights may still be loaded.

    Where they are `mirrored` too, those of the mirrored pictures follow those of all others.
    """

    def __init__(self, model: Any, side: Captioned, scaling: Augment, *, mirrored: bool = False) -> None:
        self.model, self.side, self.scaling, self.mirrored = model, side, scaling, mirrored
        self._lock = threading.Lock()  # rows are prepared in a thread

    def batch(self, pictures: Int[np.ndarray, "some"]) -> Regions | None:
        """The regions of these pictures to be moved to the device; None where it has them all."""
        with self._lock:
            return None if self._moved is not None else torch.from_numpy(self._all[pictures])

    def of(self, pictures: Int[Tensor, "some"]) -> Regions:
        """The same on the device."""
        found = self.batch(pictures.cpu().numpy()) if self._moved is None else None
        if found is not None:
            return found.to(device_of(self.model))
        assert self._moved is not None
        return self._moved.index_select(0, pictures)

    @cached_property
    def _all(self) -> Float[np.ndarray, "picture region features"]:
        """Mapped from the cache, where they are computed unless they are there."""
        contents = {
            "pictures": hashlib.sha256(self.side.marks.tobytes()).hexdigest(),
            "read": config.plain(self.model.config).get("begins", "mean"),
            "encoder": [config.plain(self.model.config.encoder), _digest(self.model.encoder)],
            "scales": [each.flatten().tolist() for each in (self.scaling.mean, self.scaling.std)],
        }
        contents |= {"mirrored": True} if self.mirrored else {}
        return caches.cached_arrays("regions", contents, self._build)["regions"]

    @torch.no_grad()
    def _build(self, builder: caches.Builder) -> None:
        device = device_of(self.model)
        total = (1 + self.mirrored) * len(self.side)
        for turn, first in product(range(1 + self.mirrored), range(0, len(self.side), CHUNK)):
            chosen = np.arange(first, min(first + CHUNK, len(self.side)))
            pixels = torch.from_numpy(self.side.pixels(chosen)).to(device)
            seen = self.model.regions(self.scaling.plain(pixels.flip(-1) if turn else pixels))
            builder.add("regions", seen.float().clamp(-LARGEST, LARGEST).half().cpu().numpy())
            report("pictures read by the frozen encoder", turn * len(self.side) + first + len(chosen), total)

    @cached_property
    def _moved(self) -> Tensor | None:
        """All of them on a GPU where they fit."""
        device = device_of(self.model)
        if device.type != "cuda" or self._all.nbytes > ROOM * torch.cuda.mem_get_info(device)[0]:
            return None
        moved = torch.empty(self._all.shape, dtype=torch.float16, device=device)
        for first in range(0, len(moved), 1024):
            moved[first : first + 1024] = torch.from_numpy(np.array(self._all[first : first + 1024])).to(device)
        return moved


def _digest(encoder: nn.Module) -> str:
    """SHA-256 of all weights."""
    found = hashlib.sha256()
    for name, weight in encoder.state_dict().items():
        found.update(name.encode())
        found.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()

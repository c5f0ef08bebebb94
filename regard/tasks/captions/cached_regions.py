"""What a frozen encoder makes of images: computed once, cached in half precision, and on a GPU if it fits.

Six thousand images of 196 regions with 512 features are 1.2 GB; computing them anew would be most of every step.
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
from regard.data.images.augmentation import Augment
from regard.data.progress import report
from regard.tasks.captions.dataset import CaptionedImages

IMAGES_PER_BATCH = 64  # images read at a time
DEVICE_MEMORY_SHARE = 0.25  # share of free memory on the device that regions may take
LARGEST_HALF = float(np.finfo(np.float16).max)
Regions = Float[Tensor, "image region features"]


class CachedRegions:
    """The regions of some images; nothing is computed before it is asked for, since weights may still be loaded.

    If they are `mirrored` too, those of the mirrored images follow those of all others.
    """

    def __init__(self, model: Any, images: CaptionedImages, scaling: Augment, *, mirrored: bool = False) -> None:
        self.model, self.images, self.scaling, self.mirrored = model, images, scaling, mirrored
        self._lock = threading.Lock()  # rows are prepared in a thread

    def batch(self, images: Int[np.ndarray, "some"]) -> Regions | None:
        """Return the regions of these images to be moved to the device; None if it has them all."""
        with self._lock:
            return None if self._device_regions is not None else torch.from_numpy(self._regions_in_cache[images])

    def select(self, images: Int[Tensor, "some"]) -> Regions:
        """Return the regions of these images on the device."""
        regions = self.batch(images.cpu().numpy()) if self._device_regions is None else None
        if regions is not None:
            return regions.to(device_of(self.model))
        assert self._device_regions is not None
        return self._device_regions.index_select(0, images)

    @cached_property
    def _regions_in_cache(self) -> Float[np.ndarray, "image region features"]:
        """Return all regions, memory-mapped from the cache, after computing them if they are missing."""
        contents = {
            "pictures": hashlib.sha256(self.images.marks.tobytes()).hexdigest(),
            "read": config.plain(self.model.config).get("begins", "mean"),
            "encoder": [config.plain(self.model.config.encoder), _hash_weights(self.model.encoder)],
            "scales": [statistic.flatten().tolist() for statistic in (self.scaling.mean, self.scaling.std)],
        }
        contents |= {"mirrored": True} if self.mirrored else {}
        return caches.cached_arrays("regions", contents, self._build)["regions"]

    @torch.no_grad()
    def _build(self, builder: caches.Builder) -> None:
        device = device_of(self.model)
        total = (1 + self.mirrored) * len(self.images)
        for mirror, first in product(range(1 + self.mirrored), range(0, len(self.images), IMAGES_PER_BATCH)):
            numbers = np.arange(first, min(first + IMAGES_PER_BATCH, len(self.images)))
            pixels = torch.from_numpy(self.images.pixels(numbers)).to(device)
            regions = self.model.regions(self.scaling.plain(pixels.flip(-1) if mirror else pixels))
            builder.add("regions", regions.float().clamp(-LARGEST_HALF, LARGEST_HALF).half().cpu().numpy())
            report("pictures read by the frozen encoder", mirror * len(self.images) + first + len(numbers), total)

    @cached_property
    def _device_regions(self) -> Tensor | None:
        """Return all regions on the GPU, or None if they do not fit or there is no GPU."""
        device = device_of(self.model)
        if device.type != "cuda":
            return None
        free_memory, _ = torch.cuda.mem_get_info(device)
        if self._regions_in_cache.nbytes > DEVICE_MEMORY_SHARE * free_memory:
            return None
        regions = torch.empty(self._regions_in_cache.shape, dtype=torch.float16, device=device)
        for first in range(0, len(regions), 1024):
            chunk = np.array(self._regions_in_cache[first : first + 1024])
            regions[first : first + 1024] = torch.from_numpy(chunk).to(device)
        return regions


def _hash_weights(encoder: nn.Module) -> str:
    """Return the SHA-256 of all weights."""
    digest = hashlib.sha256()
    for name, weight in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()

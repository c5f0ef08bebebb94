"""Default sizes of image models, by the number of images and their size."""

from __future__ import annotations

from typing import Any

VIT_SIZES_BY_IMAGES = ((2_000, (128, 4, 4)), (20_000, (192, 6, 3)), (200_000, (256, 7, 4)))
LARGEST_VIT = (384, 12, 6)
SMALL_IMAGE = 64  # largest side in pixels for which a ResNet's first layer keeps the resolution


def default_model_sizes(model: Any, image_count: int, size: int) -> dict[str, Any]:
    """Return default sizes of a ViT, or the stem of a ResNet, for these images; other models have fixed sizes."""
    if model.name == "resnet":
        return {"stem": "small" if size <= SMALL_IMAGE else "large"}
    if model.name != "vit":
        return {}
    width, depth, heads = next((sizes for limit, sizes in VIT_SIZES_BY_IMAGES if image_count <= limit), LARGEST_VIT)
    defaults = type(model)()
    width = width if model.width == defaults.width else model.width
    heads = next(count for count in range(heads, 0, -1) if width % count == 0)
    patch = _default_patch(size) if model.patch == defaults.patch else model.patch
    return {"width": width, "depth": depth, "heads": heads, "hidden": 2 * width, "patch": patch}


def _default_patch(size: int) -> int:
    """Return the smallest patch of at least four pixels with few enough patches, else the largest smaller one."""
    min_patches = min(4, size // 4)
    candidates = [*range(4, size + 1), *range(min(4, size) - 1, 0, -1)]
    for patch in candidates:
        if size % patch == 0 and min_patches <= size // patch <= 16:
            return patch
    nearest = next(other for other in range(size - 1, 0, -1) if other % 8 == 0)
    raise ValueError(
        f"a picture of {size} pixels cannot be cut into {min_patches} to 16 patches on each side: "
        f"set data.size to another, such as {nearest}, or name model.patch"
    )

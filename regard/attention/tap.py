"""Tap: an identity module at which a value can be observed or replaced."""

from torch import Tensor, nn

from regard.attention.masks import Mask


class Tap(nn.Module):
    """Passes its value through; a forward hook on it sees the value and may replace it."""

    @property
    def is_watched(self) -> bool:
        """True if a forward hook is registered."""
        return bool(self._forward_hooks)

    def forward(self, value: Tensor, mask: Mask) -> Tensor:
        """Return the value unchanged; the mask tells hooks which parts of it are padding."""
        return value

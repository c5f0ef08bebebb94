"""A named identity: the place where a value can be watched or edited."""

from torch import Tensor, nn

from regard.attention.masks import Mask


class Tap(nn.Module):
    """Passes its value through; a forward hook on it sees the value and may put another in its place."""

    @property
    def is_watched(self) -> bool:
        """Whether anybody has hooked in."""
        return bool(self._forward_hooks)

    def forward(self, value: Tensor, mask: Mask) -> Tensor:
        """The value itself; the mask tells a watcher which parts of it are padding."""
        return value

"""A bounded cache of tensors under names that nobody can guess."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping

from torch import Tensor

ID_BYTES = 16  # of the random names of tensors
OVERHEAD = 768  # bytes that a tensor takes beside its numbers, with its names


class TensorCache:
    """Tensors under names that nobody can guess; the oldest make room for new ones."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._tensors: OrderedDict[str, tuple[str, Tensor]] = OrderedDict()

    def add(self, tensors: Mapping[str, Tensor]) -> dict[str, str | None]:
        """Store named tensors and return their ids; None for those that do not fit beside the others."""
        ids = {name: secrets.token_urlsafe(ID_BYTES) for name in tensors}
        for name, tensor in tensors.items():
            self._tensors[ids[name]] = name, tensor
            self.bytes += tensor.nbytes + OVERHEAD
        while self.bytes > self.most_bytes:
            _, (_, dropped) = self._tensors.popitem(last=False)
            self.bytes -= dropped.nbytes + OVERHEAD
        return {name: identifier if identifier in self._tensors else None for name, identifier in ids.items()}

    def find(self, identifier: str) -> tuple[str, Tensor] | None:
        """Return the name and the values of a tensor; None if there is no such id, or no longer."""
        return self._tensors.get(identifier)

"""Spectral normalisation: weights divided by their largest singular value (Miyato et al. 2018).

The value is estimated by power iteration, one round for every update of the weights. As with the running statistics of
norms, the new estimate counts only when the update is made: gradients may be accumulated over rows or processes, and a
step that is skipped or repeated leaves no trace. The training loop calls `settle` and `forget`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

FIRST = 15  # rounds before the first update
EPS = 1e-12
KINDS = (nn.Conv2d, nn.Linear, nn.Embedding)


class SpectralNorm(nn.Module):
    """`W / sigma(W)` with `sigma = u . W v`, for a weight seen as a matrix of (outputs, everything else).

    In training each trained weight makes one more round, `u = W v / |W v|`, `v = W^T u / |W^T u|`; one that is frozen,
    or used without gradients, is divided by the estimate of the last round.
    """

    left: Tensor
    right: Tensor
    ahead: Tensor  # both vectors after this step

    def __init__(self, weight: Float[Tensor, "outputs *inputs"]):
        super().__init__()
        sizes = len(weight), weight.numel() // len(weight)
        u, v = (torch.randn(size, dtype=weight.dtype) for size in sizes)
        for _ in range(0 if weight.is_meta else FIRST):  # weights on the meta device are about to be replaced
            u, v = power(weight.detach().flatten(1), v)
        self.register_buffer("left", u)
        self.register_buffer("right", v)
        self.register_buffer("ahead", torch.zeros(sum(sizes), dtype=weight.dtype), persistent=False)

    def forward(self, weight: Float[Tensor, "outputs *inputs"]) -> Float[Tensor, "outputs *inputs"]:
        """Return the normalised weight."""
        with torch.autocast(weight.device.type, enabled=False):  # in half precision the iteration would not converge
            matrix, u, v = weight.flatten(1), self.left, self.right
            if self.training and weight.requires_grad and torch.is_grad_enabled():
                with torch.no_grad():
                    u, v = power(matrix, v)
                    self.ahead.copy_(torch.cat([u, v]))
            return weight / torch.dot(u, matrix @ v)


def power(matrix: Float[Tensor, "m n"], v: Float[Tensor, "n"]) -> tuple[Float[Tensor, "m"], Float[Tensor, "n"]]:
    """Make one round of power iteration towards both singular vectors of the largest singular value."""
    u = F.normalize(matrix @ v, dim=0, eps=EPS)
    return u, F.normalize(matrix.mT @ u, dim=0, eps=EPS)


def add_spectral_norm(model: nn.Module) -> None:
    """Add spectral normalisation to every convolution, linear layer and embedding of a model."""
    for module in [child for child in model.modules() if isinstance(child, KINDS)]:
        parametrize.register_parametrization(module, "weight", SpectralNorm(module.weight), unsafe=True)


def spectra(model: nn.Module) -> list[SpectralNorm]:
    """Return all spectral norms of a model."""
    return [module for module in model.modules() if isinstance(module, SpectralNorm)]


@torch.no_grad()
def forget(norms: Sequence[SpectralNorm]) -> None:
    """Discard the estimates made since the last update."""
    if norms:
        torch._foreach_copy_([norm.ahead for norm in norms], [torch.cat([norm.left, norm.right]) for norm in norms])


@torch.no_grad()
def settle(norms: Sequence[SpectralNorm], *, veto: Tensor) -> None:
    """Keep the estimates made since the last update, unless vetoed."""
    if not norms:
        return
    vectors = [vector for norm in norms for vector in (norm.left, norm.right)]
    after = torch.where(veto, torch.cat(vectors), torch.cat([norm.ahead for norm in norms]))
    torch._foreach_copy_(vectors, after.split([len(vector) for vector in vectors]))

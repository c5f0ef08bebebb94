"""Plot of features as vectors: how the most important ones move the most attended module of each omic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.hardware import device_of
from regard.models.omics import MOMA
from regard.tasks.omics import importance as importances
from regard.tasks.omics.samples import Omics, Samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 10  # features per omic
FEATURE, MODULE, FAINT = "#1f6feb", "#1a1a1a", "#9aa4b2"
ABOUT = "features as vectors, in the mean over samples, each turned so that the module points to the right"


@torch.no_grad()
def draw_vectors(model: MOMA, omics: Omics, samples: Samples) -> Figure:
    """Draw the most attended module of each omic, and the features that move it furthest."""
    from matplotlib.figure import Figure

    device = device_of(model)
    values, present = torch.from_numpy(omics.scale(samples)).to(device), torch.from_numpy(samples.present).to(device)
    shown = [omic for omic in range(len(omics.names)) if present[:, omic].any()]
    figure = Figure(figsize=(4.4 * len(shown), 4.2), layout="constrained")
    for axes, omic in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        module, contributions = module_contributions(model, values, present, omic)
        top = contributions[:, 0].argsort(descending=True)[:SHOWN].tolist()
        _draw_arrows(axes, contributions[top].cpu(), [omics.features[omic][row] for row in top])
        axes.set_title(f"{omics.names[omic]}, module {module + 1}", fontsize=10)
    figure.suptitle(ABOUT, fontsize=9)
    return figure


def module_contributions(
    model: MOMA, values: Float[Tensor, "samples features"], present: Bool[Tensor, "samples omics"], omic: int
) -> tuple[int, Float[Tensor, "inputs 2"]]:
    """Return the most attended module of an omic, and the contribution of each feature along and across its direction.

    Contributions are shares of the module's length, averaged over samples: those along sum to 1, those across to 0.
    """
    is_present = present[:, omic]
    omic_values = values.split(model.config.inputs, -1)[omic][is_present]
    module = int(importances.module_attention(model, values, present)[is_present, omic].mean(0).argmax())
    module_vectors = model.vectors(values[is_present])[:, omic, module]
    direction = F.normalize(module_vectors, dim=-1)
    across = torch.stack([-direction[:, 1], direction[:, 0]], -1)
    contributions = omic_values[..., None] * importances.feature_vectors(model, omic)[module]  # (samples, features, 2)
    frame = torch.stack([direction, across], -1) / module_vectors.norm(dim=-1).clamp(min=1e-12)[:, None, None]
    return module, (contributions @ frame).mean(0)


def _draw_arrows(axes: Any, ends: Float[Tensor, "features 2"], names: list[str]) -> None:
    """Draw arrows from the origin, their projections on the module's axis, and a column of names."""
    reach = 1.1 * float(ends.abs().max())
    axes.annotate("", (reach, 0), (0, 0), arrowprops={"arrowstyle": "-|>", "color": MODULE, "linestyle": "--"})
    lines = ends[:, 1].argsort().tolist()
    for line, row in enumerate(lines):
        x, y = ends[row].tolist()
        height = reach * (2 * (line + 0.5) / len(lines) - 1)
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": FEATURE, "lw": 1.3})
        axes.plot([x, x], [y, 0], ":", color=FEATURE, linewidth=0.8)
        axes.plot([x], [0], "o", color=MODULE, markersize=2.5)
        axes.plot([x, 1.15 * reach], [y, height], color=FAINT, linewidth=0.5)
        axes.text(1.17 * reach, height, names[row], fontsize=7, va="center", color=FEATURE)
    x_min = min(-0.1 * reach, 1.1 * float(ends[:, 0].min()))  # contributions along the module may be negative
    axes.set(xlim=(x_min, 2.0 * reach), ylim=(-1.05 * reach, 1.05 * reach))
    axes.set_xlabel("along the module (share of its length)", fontsize=8)
    axes.set_ylabel("across it", fontsize=8)
    axes.tick_params(labelsize=7)

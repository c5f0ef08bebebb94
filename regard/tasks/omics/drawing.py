"""Features as vectors: how the most important ones pull the module that others look at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from regard.attention.hardware import device_of
from regard.models.omics import MOMA
from regard.tasks.omics import importance as importances
from regard.tasks.omics.samples import Samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.tasks.omics.classifier import OmicsClassifier

SHOWN = 10  # features of an omic
TOWARDS, AGAINST, MODULE = "#1f6feb", "#d1652b", "#1a1a1a"


@torch.no_grad()
def vectors(classifier: OmicsClassifier, samples: Samples) -> Figure:
    """For each omic the module that gets most attention, its direction, and the features that pull it furthest."""
    from matplotlib.figure import Figure

    model, omics = classifier.model, classifier.omics
    if not isinstance(model, MOMA):
        raise ValueError(f"{classifier.name} has no modules to draw vectors on: write its importance as .csv")
    device = device_of(model)
    values, present = torch.from_numpy(omics.scaled(samples)).to(device), torch.from_numpy(samples.present).to(device)
    attended = importances.attention(model, values, present)
    shown = [omic for omic in range(len(omics.names)) if present[:, omic].any()]
    figure = Figure(figsize=(4.6 * len(shown), 4.8), layout="constrained")
    starts = [sum(omics.sizes[:omic]) for omic in range(len(omics.sizes))]
    for axes, omic in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        has = present[:, omic]
        module = int(attended[has, omic].mean(0).argmax())
        own = values[has, starts[omic] : starts[omic] + omics.sizes[omic]]
        pulls = importances.feature_vectors(model, omic)[module]  # (features, 2)
        # The mean of what each feature adds in a sample, which depends on whether it is high or low there.
        lengths = model.vectors(values[has])[:, omic, module]
        direction = torch.nn.functional.normalize(lengths, dim=-1)
        added = own[..., None] * pulls
        share = (added * direction[:, None]).sum(-1).mean(0)
        top = share.abs().argsort(descending=True)[:SHOWN].tolist()
        one = torch.nn.functional.normalize(direction.mean(0), dim=0).cpu()
        _arrows(axes, pulls.cpu(), one, [(row, omics.features[omic][row], float(share[row])) for row in top])
        axes.set_title(f"{omics.names[omic]}, module {module + 1}", fontsize=10)
    figure.suptitle(
        "features as vectors; dashed: the module's mean direction, black dots: their parts along it", fontsize=9
    )
    return figure


def _arrows(axes: object, pulls: torch.Tensor, direction: torch.Tensor, top: list[tuple[int, str, float]]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    reach = 1.3 * max(float(pulls[row].norm()) for row, _, _ in top)
    x, y = (reach * direction).tolist()
    axes.plot([-x, x], [-y, y], "--", color=MODULE, linewidth=1)
    axes.annotate("", (x, y), (0.9 * x, 0.9 * y), arrowprops={"arrowstyle": "-|>", "color": MODULE})
    for row, name, share in top:
        end = pulls[row]
        foot = (end @ direction) * direction
        colour = TOWARDS if share >= 0 else AGAINST
        axes.annotate("", tuple(end.tolist()), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.3})
        axes.plot([float(end[0]), float(foot[0])], [float(end[1]), float(foot[1])], ":", color=colour, linewidth=0.8)
        axes.plot(*foot.tolist(), "o", color=MODULE, markersize=2.5)
        out = end * (1 + 0.06 * reach / max(float(end.norm()), 1e-9))
        side = "left" if float(end[0]) >= 0 else "right"
        axes.text(float(out[0]), float(out[1]), name, fontsize=7, ha=side, va="center", color=colour)
    axes.set(xlim=(-1.5 * reach, 1.5 * reach), ylim=(-1.5 * reach, 1.5 * reach), aspect="equal")
    axes.tick_params(labelsize=7)

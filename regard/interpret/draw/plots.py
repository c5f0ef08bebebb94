"""Plots of attention: alignments, image maps and position tables, drawn without a display."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.functional import interpolate

from regard.interpret.items import SIDES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.interpret.measure.anatomy import Anatomy
    from regard.interpret.trace import Trace

GROUND = "#dde5ef"  # background between small images, none of their shades
DARK = 0.15  # brightness of a region without attention
ACROSS = 7  # filters per row
PLACES = 7  # query positions per row
POSITIONS_ACROSS = 5  # encodings of positions per row
WIDE = 0.095  # average width of a character of a title in inches
WORDS = 16  # of a caption, at most
LINES = 12  # queries, at most
SIDEWAYS = 26  # characters per line of a label beside an image
LINE, COLUMN = 0.36, 0.42  # height of a row and width of a column of a matrix in inches
LONGEST = 12.0  # inches of a side of a matrix; a longer one has narrower rows and fewer labels
CLOSEST = 0.2  # minimum distance of two labels in inches
COLOURS = ("#ffb000", "#64b5ff", "#ff6f91", "#7ee081")  # of boxes


def alignment(
    weights: Float[Tensor, "query key"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    sides: tuple[str, str] = ("target", "source"),
) -> Figure:
    """Plot an attention matrix with one row per query; `sides` are the names of the query and key lists."""
    from matplotlib.figure import Figure

    rows, columns = weights.shape
    height, width = min(LINE * rows, LONGEST), min(COLUMN * columns, LONGEST)
    figure = Figure(figsize=(max(3.5, width + 1.8), max(2.5, height + 1.4)), layout="constrained")
    axes = figure.add_subplot()
    shown = axes.imshow(weights.float().numpy(), cmap="cividis", vmin=0.0, vmax=max(float(weights.max()), 1e-6))
    axes.set_aspect("auto" if LONGEST in (height, width) else "equal")
    axes.set_xticks(*_thin_labels(keys, width / columns), rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(*_thin_labels(queries, height / rows))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlabel(SIDES.get(sides[1], sides[1]))
    axes.xaxis.set_label_position("top")
    axes.set_ylabel(SIDES.get(sides[0], sides[0]))
    figure.colorbar(shown, ax=axes, shrink=0.8, label="attention weight")
    set_title(figure, title)
    return figure


def plot_on_picture(trace: Trace, *, name: str | None = None, head: int | None = None, title: str = "") -> Figure:
    """Plot the image, and for each query a row of images lit by the weights of each attention, or of one."""
    from matplotlib.figure import Figure

    [(side, picture)] = trace.pictures.items()
    looks = [attention for attention in trace.weights if attention.key == side and attention.query != side]
    looks = [
        attention
        for attention in looks
        if (attention.query == looks[-1].query if name is None else attention.name == name)
    ]
    if not looks:
        raise ValueError(f"{name}: a picture has no room for every region that looks: give a page, -o page.html")
    items = trace.items[looks[-1].query]
    queries = [number for number, item in enumerate(items) if not item.special]
    if len(queries) > LINES:
        warnings.warn(f"{len(queries) - LINES} more lines are not drawn: give a page, -o page.html", stacklevel=2)
    queries = queries[:LINES]
    size = 2 * len(looks) + 2, 2 * len(queries) + 0.6
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(queries), len(looks) + 1, squeeze=False)
    shades = picture.float().numpy() / 255
    regions = [(number, item.box) for number, item in enumerate(trace.items[side]) if item.box is not None]
    for row, number in enumerate(queries):
        grid[row][0].imshow(shades.squeeze(), cmap="gray", vmin=0, vmax=1)
        grid[row][0].set_ylabel("\n".join(textwrap.wrap(visible_text(items[number].text), SIDEWAYS, max_lines=3)))
        for axes, attention in zip(grid[row][1:], looks, strict=True):
            weights = attention.values.float()
            values = (weights.mean(0) if head is None else weights[head])[number]
            axes.imshow((shades * light_mask(values, regions, picture.shape)).squeeze(), cmap="gray", vmin=0, vmax=1)
            axes.set_title(attention.name if row == 0 else "", fontsize=9)
            most = max(float(values[place]) for place, _ in regions)
            axes.set_xlabel(f"highest {most:.1%}", fontsize=8)
        grid[row][0].set_xlabel(f"all alike: {1 / len(regions):.1%}", fontsize=8)
    for axes in grid.flat:
        outline_crops(axes, trace.facts.get("crops", ()), picture.shape)
        axes.set(xticks=[], yticks=[])
    set_title(figure, title)
    return figure


def captions(traces: Mapping[str, Trace]) -> Figure:
    """Plot one row per model: the words it wrote about an image, each with the image lit by its last attention."""
    from matplotlib.figure import Figure

    rows = []
    for name, trace in traces.items():
        [(side, picture)] = trace.pictures.items()
        looks = [attention for attention in trace.weights if attention.key == side][-1]
        regions = [(number, item.box) for number, item in enumerate(trace.items[side]) if item.box is not None]
        words = [(item.text, n) for n, item in enumerate(trace.items[looks.query]) if not item.special][:WORDS]
        rows.append((name, picture, looks.values.float().mean(0), regions, words))
    across = max(len(words) for *_, words in rows)
    figure = Figure(figsize=(1.1 * across, 1.5 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), across, squeeze=False)
    for line, (name, picture, weights, regions, words) in zip(grid, rows, strict=True):
        shades = picture.float().numpy() / 255
        for axes, (text, number) in zip(line, words, strict=False):
            light = light_mask(weights[number], regions, picture.shape)
            axes.imshow((shades * light).squeeze(), cmap="gray", vmin=0, vmax=1)
            axes.set_title(visible_text(text), fontsize=10)
        for axes in line[len(words) :]:
            axes.set_axis_off()
        line[0].set_ylabel(name, fontsize=10)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
    return figure


def maps(
    pictures: UInt8[Tensor, "picture channels y x"],
    maps_by_method: Mapping[str, Float[Tensor, "picture rows columns"]],
    *,
    names: Sequence[str],
    boxes: Sequence[Sequence[float]] = (),
) -> Figure:
    """Plot one row per image: the image itself, with its box if there is one, and lit by each of several maps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.25 * (len(maps_by_method) + 1), 1.3 * len(pictures) + 0.3), layout="constrained")
    grid = figure.subplots(len(pictures), len(maps_by_method) + 1, squeeze=False)
    for row, (line, picture) in enumerate(zip(grid, pictures, strict=True)):
        shades = picture.permute(1, 2, 0).float() / 255
        lights = [values[row] / values[row].max().clamp(min=1e-9) for values in maps_by_method.values()]
        fine = [interpolate(light[None, None].float(), picture.shape[-2:])[0, 0, :, :, None] for light in lights]
        shown = [shades, *(shades * (DARK + (1 - DARK) * light) for light in fine)]
        for axes, title, image in zip(line, ["", *maps_by_method], shown, strict=True):
            axes.imshow(image.numpy().squeeze(), cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.set_title(title if row == 0 else "", fontsize=9)
        line[0].set_ylabel(visible_text(names[row]), fontsize=9)
        for x1, y1, x2, y2 in boxes[row : row + 1]:
            corners = [[(x1, y1), (x2, y1), (x2, y2), (x1, y2)]]
            outline_crops(line[0], corners, (*picture.shape[1:], 1))
    return figure


def places(trace: Trace, *, title: str = "") -> Figure:
    """Plot an image with each query position marked, and below each the attention weights of that position."""
    from matplotlib.figure import Figure

    [(side, picture)] = trace.pictures.items()
    [attention] = [candidate for candidate in trace.weights if candidate.key == side and candidate.query != side][-1:]
    items, rows = trace.items[attention.query], len({item.box[1] for item in trace.items[side] if item.box is not None})
    across, bands = min(len(items), PLACES), -(-len(items) // PLACES)
    figure = Figure(figsize=(1.8 * across, 4.4 * bands), layout="constrained")
    whole = figure.subplots(2 * bands, across, squeeze=False)
    for axes in whole.flat:
        axes.set_visible(False)
    for number, (item, values) in enumerate(zip(items, attention.values.float().mean(0), strict=True)):
        assert item.box is not None
        band, column = divmod(number, across)
        grid = whole[2 * band : 2 * band + 2]
        grid[0][column].set_visible(True)
        grid[1][column].set_visible(True)
        x1, y1, x2, y2 = item.box
        corners = [[(x1, y1), (x2, y1), (x2, y2), (x1, y2)]]
        looked = values.unflatten(0, (rows, -1)).numpy()
        height, width = looked.shape
        grid[0][column].imshow(picture.numpy().squeeze(), cmap="gray", vmin=0, vmax=255)
        outline_crops(grid[0][column], corners, picture.shape)
        grid[1][column].imshow(looked, cmap="cividis", vmin=0)
        outline_crops(grid[1][column], corners, (height, width, 1))
        grid[0][column].set_title(visible_text(item.text), fontsize=9)
        caption = f"highest {float(values.max()):.1%} (all alike: {1 / len(values):.1%})"
        grid[1][column].set_xlabel(caption, fontsize=8)
    for axes in whole.flat:
        axes.set(xticks=[], yticks=[])
    set_title(figure, title or attention.name)
    return figure


def outline_crops(axes: Any, crops: Sequence[Sequence[Sequence[float]]], shape: Sequence[int]) -> None:
    """Outline the crops that a model extracts, with a dot at the top left corner of each."""
    height, width, _ = shape
    axes.autoscale(enable=False)  # a crop may reach beyond the image
    for number, corners in enumerate(crops):
        x, y = (
            [width * coordinate - 0.5 for coordinate, _ in corners],
            [height * coordinate - 0.5 for _, coordinate in corners],
        )
        colour = COLOURS[number % len(COLOURS)]
        axes.plot([*x, x[0]], [*y, y[0]], color=colour, linewidth=1.5)
        axes.plot(x[:1], y[:1], "o", color=colour, markersize=3)


def crops(
    pictures: UInt8[Tensor, "picture channels height width"],
    corners: Float[Tensor, "picture crop 4 2"],
    cut: Float[Tensor, "picture crop channels side side"],
    *,
    titles: Sequence[str] = (),
) -> Figure:
    """Plot images with their crops outlined, and the crops below them."""
    from matplotlib.figure import Figure

    count, several = corners.shape[:2]
    figure = Figure(figsize=(1.3 * count, 1.3 * (1 + several) + 0.2), layout="constrained")
    grid = figure.subplots(1 + several, count, squeeze=False)
    for column in range(count):
        shades = pictures[column].permute(1, 2, 0)
        grid[0][column].imshow(shades.numpy().squeeze(), cmap="gray", vmin=0, vmax=255)
        outline_crops(grid[0][column], corners[column].tolist(), shades.shape)
        grid[0][column].set_title(titles[column] if titles else "", fontsize=9)
        for row in range(several):
            crop = cut[column, row] - cut[column, row].min()  # the darkest normalised value becomes black
            light = (crop / crop.max().clamp(min=1e-6)).permute(1, 2, 0).numpy().squeeze()
            grid[1 + row][column].imshow(light, cmap="gray", vmin=0, vmax=1)
            for edge in grid[1 + row][column].spines.values():
                edge.set(color=COLOURS[row % len(COLOURS)], linewidth=2)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
    return figure


def anatomy(vit_anatomy: Anatomy, *, title: str = "") -> Figure:
    """Plot the anatomy of a ViT: patch filters, similarity of positions, and the attention distance of each head."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 4.6), layout="constrained")
    filter_axes, likeness_axes, distance_axes = figure.subplots(1, 3, width_ratios=(1.3, 1, 1.2))
    filter_axes.imshow(
        _tile_pictures(_filter_images(vit_anatomy.filters), across=ACROSS),
        cmap="gray",
        vmin=0,
        vmax=1,
        interpolation="nearest",
    )
    filter_axes.set_title(
        f"patch filters: {vit_anatomy.explained.sum():.0%} of their variance in {len(vit_anatomy.filters)} components"
    )
    if vit_anatomy.likeness is None:
        likeness_axes.text(0.5, 0.5, "no positional encoding\nis added to patches", ha="center", va="center")
        likeness_axes.set_title("likeness of positions")
    else:
        maps = vit_anatomy.likeness.unflatten(1, vit_anatomy.grid)[..., None].numpy()
        shown = likeness_axes.imshow(
            _tile_pictures(maps, across=vit_anatomy.grid[1]), cmap="viridis", vmin=-1, vmax=1, interpolation="nearest"
        )
        likeness_axes.set_title("likeness of positions: each patch with all others")
        figure.colorbar(shown, ax=likeness_axes, shrink=0.8, label="cosine")
    for axes in (filter_axes, likeness_axes):
        axes.set(xticks=[], yticks=[], facecolor=GROUND)
        axes.spines[:].set_visible(False)
    for block, heads in enumerate(vit_anatomy.distances.tolist()):
        distance_axes.scatter([block] * len(heads), heads, s=18, color="C0", alpha=0.7)
    distance_axes.axhline(vit_anatomy.even, color="0.4", linestyle="--", linewidth=1, label="all patches alike")
    highest = 1.1 * max(vit_anatomy.even, float(vit_anatomy.distances.max()))
    distance_axes.set(
        xlabel="block", ylabel="mean distance, pixels", ylim=(0, highest), xticks=range(len(vit_anatomy.distances))
    )
    distance_axes.legend(loc="lower right", frameon=False)
    distance_axes.set_title("attention distance, each head a dot")
    set_title(figure, title)
    return figure


def _filter_images(filters: Float[Tensor, "filter channels y x"]) -> Any:
    """Convert filters to images: 0 is grey, each has full contrast; channels other than one or three are averaged."""
    images = filters if filters.shape[1] in (1, 3) else filters.mean(1, keepdim=True)
    most = images.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12)
    return (0.5 + 0.5 * images / most).permute(0, 2, 3, 1).numpy()


def _tile_pictures(tiles: Any, *, across: int) -> Any:
    """Tile small images, channels last, in rows with gaps."""
    import numpy as np
    from matplotlib.colors import to_rgb

    count, height, width, channels = tiles.shape
    gap, rows = max(1, height // 8), -(-count // across)
    size = rows * (height + gap) - gap, min(count, across) * (width + gap) - gap
    whole = np.full((*size, channels), np.nan) if channels == 1 else np.tile(to_rgb(GROUND), (*size, 1))
    for number, tile in enumerate(tiles):
        top, start = (number // across) * (height + gap), (number % across) * (width + gap)
        whole[top : top + height, start : start + width] = tile
    return whole.squeeze(-1) if channels == 1 else whole


def light_mask(
    values: Tensor, regions: Sequence[tuple[int, tuple[float, float, float, float]]], shape: Sequence[int]
) -> Any:
    """Return the brightness of each pixel: full in the highest region, dim where the weight is zero."""
    import numpy as np

    height, width, _ = shape
    light = np.zeros((height, width, 1))
    most = max([1e-9, *(float(values[number]) for number, _ in regions)])
    for number, (x1, y1, x2, y2) in regions:
        rows, columns = (slice(round(a * side), round(b * side)) for a, b, side in ((y1, y2, height), (x1, x2, width)))
        light[rows, columns] = float(values[number]) / most
    return DARK + (1 - DARK) * light


def positions(panels: Mapping[str, tuple[Float[Tensor, "place number"], str, str]]) -> Figure:
    """Plot encodings of positions as heat maps, each by its title, with labels of its rows and of its columns."""
    from matplotlib.figure import Figure

    across = min(len(panels), POSITIONS_ACROSS)
    lines = -(-len(panels) // across)
    size = (7, 4) if len(panels) == 1 else (3.2 * across, 3 * lines)
    figure = Figure(figsize=size, layout="constrained")
    places = list(figure.subplots(lines, across, squeeze=False).flat)
    for axes, (title, (table, row_label, column_label)) in zip(places, panels.items(), strict=False):
        shown = axes.imshow(table.float().numpy(), aspect="auto", cmap="cividis", interpolation="nearest")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel(column_label)
        axes.set_ylabel(row_label)
        axes.set_title(title, fontsize=10, parse_math=False)
        figure.colorbar(shown, ax=axes)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's ending."""
    formats = figure.canvas.get_supported_filetypes()
    kind = path.suffix.lstrip(".").lower()
    if kind not in formats:
        raise ValueError(f"{path}: cannot draw a {kind or 'nameless'} file, choose png, svg or pdf")
    figure.savefig(path, dpi=150)


def set_title(figure: Figure, title: str) -> None:
    """Wrap the title to the width of the figure; dollar signs are not formulas."""
    room = max(20, int(figure.get_figwidth() / WIDE))
    lines = [line for text in title.split("\n") for line in textwrap.wrap(text, room) or [""]]
    if title:
        figure.suptitle("\n".join(lines), fontsize=10, parse_math=False)


def _thin_labels(texts: Sequence[str], inches: float) -> tuple[list[int], list[str]]:
    """Return ticks and labels of an axis with `inches` per entry: all of them, or every second, fifth, tenth ..."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    step = next((step for step in steps if step * inches >= CLOSEST), steps[-1])
    places = list(range(0, len(texts), step))
    return places, [visible_text(texts[place]) for place in places]


def visible_text(text: str) -> str:
    """Return a token as a label: with visible spaces and escaped dollar signs."""
    return text.replace("$", r"\$").strip() or "␣"

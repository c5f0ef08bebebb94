"""Take the picture of the explain page that the README shows, with the shipped model and a headless Chromium.

    python scripts/make_pictures.py
    python scripts/make_pictures.py --all build/pictures
    python scripts/make_pictures.py --pixels runs/mnist-pixels data/mnist --costs pixels-cost.json
    python scripts/make_pictures.py --made runs/fashion-gan
    python scripts/make_pictures.py --node runs/cora 57
    python scripts/make_pictures.py --memory runs/ntm-copy
    python scripts/make_pictures.py --omics runs/rosmap-moma data/multiomics-rosmap/{1,2,3}_te.csv

The first writes docs/pictures/explain.png. The second writes every screen, light and dark, wide and narrow, to a folder
of your own, to be looked at after a change to the page. Both need playwright and a Chromium (Debian: apt install
chromium). The third writes docs/pictures/pixels.png: completions by a trained model of pixels beside what attention
costs, as `python -m benchmarks.pixels cost --out pixels-cost.json` measured it. The fourth writes made.png and
places.png: pictures that a trained generator makes, and where five places of one look. The fifth writes
neighbourhood.png: where a node of a graph looked, beside equal weights, and what the test nodes owe to looking. The
last two write ntm.png, a copy of 80 vectors with the weights of all heads, and omics-modules.png and omics-vectors.png:
where the modules of a sample look, and what moves them.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from regard import load
from regard.cli import run
from regard.data.images.album import Shape, load_album
from regard.data.images.sources import PictureFile, shelve
from regard.interpret.draw import neighbourhood
from regard.interpret.draw.curves import looks, tidy
from regard.tasks.pixels.image_grid import grey_out_rows

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "explain.png"
TEXT = "My old friend bought a big white house near the sea."
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")
SIZES = {"wide": (1100, 1000), "phone": (375, 740)}
SCREENS = {
    "matrix": "#at=8,6",
    "ribbons": "#view=ribbon&at=8,6",
    "table": "#view=table",
    "heads": "#screen=heads&sort=entropy",
    "step": "#screen=inside&token=8",
    "french": "#lang=fr&at=8,6",
}
COLOURS = 224
BARS = 16  # edges of a node, the strongest
COMPLETED, SAMPLES = 6, 4  # pictures, and completions of each


def main() -> None:
    """Make the page, photograph it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every screen, to a folder, instead of the one")
    parser.add_argument(
        "--pixels", nargs=2, metavar=("RUN", "PICTURES"), help="a model of pixels, pictures to complete"
    )
    parser.add_argument("--costs", type=Path, metavar="JSON", help="what benchmarks/pixels.py measured")
    parser.add_argument(
        "--made", type=Path, metavar="MODEL", help="pictures made by this generator, instead of the page"
    )
    parser.add_argument("--node", nargs=2, metavar=("RUN", "NODE"), help="a model of a graph, and one of its nodes")
    parser.add_argument("--memory", type=Path, metavar="RUN", help="a machine that copies")
    parser.add_argument("--omics", nargs="+", metavar=("RUN", "TABLE"), help="a model of omics, and its tables")
    asked = parser.parse_args()
    if asked.memory is not None:
        raise SystemExit(run(["predict", str(asked.memory), "--length", "80", "-o", str(_at("ntm"))]))
    if asked.omics:
        raise SystemExit(modules(*asked.omics))
    if asked.pixels:
        folder, source = asked.pixels
        return completions(folder, source, asked.costs, PICTURE.parent / "pixels.png")
    if asked.node:
        folder, node = asked.node
        return looked(folder, node, PICTURE.with_name("neighbourhood.png"))
    if asked.made is not None:
        raise SystemExit(made(asked.made))
    folder = asked.all
    with tempfile.TemporaryDirectory() as aside:
        page = Path(aside) / "page.html"
        if run(["explain", "--to", "fr", TEXT, "--output", str(page)]) != 0:
            raise SystemExit(1)
        if folder is None:
            shoot(page, {PICTURE: ("matrix", "wide", "light")})
        else:
            folder.mkdir(parents=True, exist_ok=True)
            looks = [(screen, size, theme) for screen in SCREENS for size in SIZES for theme in ("light", "dark")]
            shoot(page, {folder / f"{'-'.join(look)}.png": look for look in looks})


def _at(name: str) -> Path:
    return PICTURE.with_name(f"{name}.png")


def modules(model: str, *tables: str) -> int:
    """Where the modules of the third sample look, and the genes that move them."""
    looks = ["--attention", "mrna to mirna", "-o", str(_at("omics-modules"))]
    first = run(["explain", model, " ".join([*tables, "sample=3"]), *looks])
    failed = max(first, run(["predict", model, *tables, "--importance", str(_at("omics-vectors"))]))
    for name in ("omics-modules", "omics-vectors"):
        _shrink(_at(name))
    return failed


def made(model: Path) -> int:
    """What a generator makes of every label, and where places of one picture look."""
    ways = {"made": ["draw", "--count", "10"], "places": ["explain"]}
    return max(
        run([command, str(model), *more, "--seed", "3", "-o", str(PICTURE.with_name(f"{name}.png"))])
        for name, (command, *more) in ways.items()
    )


def shoot(page: Path, looks: dict[Path, tuple[str, str, str]]) -> None:
    """Photograph the page as it looks at each address, size and theme."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise SystemExit("no Chromium on this machine (Debian, Ubuntu: apt install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(QUIET))
        for path, (screen, size, theme) in looks.items():
            width, height = SIZES[size]
            settings: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
            context = browser.new_context(**settings, device_scale_factor=2)
            window = context.new_page()
            window.goto(page.as_uri() + SCREENS[screen])
            window.wait_for_selector("html[data-drawn]")
            window.screenshot(path=path, full_page=True)
            context.close()
            _shrink(path)
            print(f"{path}: {path.stat().st_size:,} bytes")
        browser.close()


def completions(folder: str, source: str, costs: Path | None, path: Path) -> None:
    """Test pictures, their upper halves and what a model made of those; beside it time and memory of attention."""
    from matplotlib.figure import Figure

    painter = load(folder, device="auto")
    shape = Shape(painter.tokenizer.size, painter.tokenizer.channels)
    [pictures] = load_album(shelve(PictureFile(path=source), part="test", labelled=False), shape).parts
    figure = Figure(figsize=(10.5 if costs else 6, 6), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.35, 1)) if costs else [figure]
    left, *right = halves
    cells = left.subplots(COMPLETED, 2 + SAMPLES)
    for number, line in enumerate(cells):
        whole = pictures[number].transpose(1, 2, 0)
        whole = whole[..., 0] if whole.shape[-1] == 1 else whole
        drawn = painter.draw(whole, samples=SAMPLES, seed=number)
        shown = [whole, grey_out_rows(whole, drawn[0].kept_rows), *(one.pixels for one in drawn)]
        for axes, picture in zip(line, shown, strict=True):
            axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_axis_off()
    for axes, title in zip(cells[0], ("picture", "kept", *["completed"] * SAMPLES), strict=True):
        axes.set_title(title, fontsize=8)
    if costs:
        draw_costs(right[0], json.loads(costs.read_text(encoding="utf-8")))
    figure.savefig(path, dpi=150)
    print(f"{path}: {path.stat().st_size:,} bytes")


def draw_costs(figure: Any, measured: dict[str, Any]) -> None:
    """Seconds and bytes of one layer over the side of a picture."""
    lines = measured["cost"]
    names = list(dict.fromkeys(one["layer"] for one in lines))
    kinds = looks(names)
    for axes, (what, label, unit) in zip(
        figure.subplots(2, 1, sharex=True),
        (("seconds", "milliseconds", 1e3), ("bytes", "megabytes", 1e-6)),
        strict=True,
    ):
        for name in names:
            points = [(one["side"], one[what] * unit) for one in lines if one["layer"] == name and one[what]]
            axes.plot(*zip(*points, strict=True), **kinds[name])
        axes.loglog()
        sides = sorted({one["side"] for one in lines})
        axes.set_xticks(sides, [f"{side} x {side}" for side in sides], fontsize=8)
        axes.minorticks_off()
        axes.set_ylabel(label)
        tidy(axes)
    figure.axes[0].set_title(f"One layer, forward and backward ({measured['device']})", fontsize=10)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.axes[1].set_xlabel("pixels")


def looked(folder: str, node: str, path: Path) -> None:
    """A node among those it looked at; beside it its weights against equal ones, and test nodes with and without."""
    from matplotlib.figure import Figure

    classifier = load(folder, device="cpu")
    trace = classifier.look(node)
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.45, 1))
    left, right = halves
    neighbourhood.plot_neighbourhood(left.subplots(), trace)
    names = {"equal": "equal weights", "none": "no neighbours"}
    controls = (f"{names[kind]}: {label} ({chance:.3f})" for kind, (label, chance) in trace.facts["controls"].items())
    left.suptitle("; ".join([f"{trace.facts['text']}, answered {trace.facts['answer']}", *controls]), fontsize=10)
    weights, scores = right.subplots(2, 1, height_ratios=(1.6, 1))
    draw_weights(weights, neighbourhood.edges(trace.find(), trace)[:BARS])
    draw_scores(scores, {"learnt": classifier, **classifier.controls()})
    figure.savefig(path, dpi=110)
    _shrink(path)
    print(f"{path}: {path.stat().st_size:,} bytes")


def draw_weights(axes: Any, edges: list[neighbourhood.Edge]) -> None:
    """What a node took from each of those it looked at, and what it would have if all counted alike."""
    names = ["itself" if edge.looked == edge.looking else edge.looked for edge in edges]
    axes.barh(names, [edge.weight for edge in edges], color="#0072b2", height=0.7)
    axes.axvline(edges[0].equal, color="#d55e00", linestyle="--")
    for place, edge in enumerate(edges):
        axes.annotate(f"  {edge.weight:.3f}", (0, place), va="center", fontsize=8, color="white")
    axes.invert_yaxis()
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.set_title(f"Weights of its edges (dashed: equal, {edges[0].equal:.3f})", fontsize=10)
    tidy(axes)


def draw_scores(axes: Any, classifiers: dict[str, Any]) -> None:
    """Test accuracy of the same weights, looking as learnt, at all neighbours alike, and at none."""
    names = {"learnt": "learnt attention", "equal": "equal weights", "none": "no neighbours"}
    for kind, classifier in classifiers.items():
        found = classifier.evaluate()
        score, interval = found.metrics["accuracy, %"], found.intervals["accuracy, %"]
        spread = [[score - interval.low], [interval.high - score]]
        axes.barh(names[kind], score, xerr=spread, color="#0072b2" if kind == "learnt" else "#999999", height=0.6)
        axes.annotate(f" {score:.1f}", (interval.high, names[kind]), va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.set_title(f"Accuracy on {len(found):,} test nodes, % (95 % intervals)", fontsize=10)
    tidy(axes)


def _shrink(path: Path) -> None:
    """A screen has few colours: a palette of them is a quarter of the size and looks the same."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()

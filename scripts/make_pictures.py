"""Take the picture of the explain page that the README shows, with the shipped model and a headless Chromium.

    python scripts/make_pictures.py
    python scripts/make_pictures.py --all build/pictures
    python scripts/make_pictures.py --made runs/fashion-gan

The first writes docs/pictures/explain.png. The second writes every screen, light and dark, wide and narrow, to a folder
of your own, to be looked at after a change to the page. Both need playwright and a Chromium (Debian: apt install
chromium). The third writes docs/pictures/made.png and places.png: pictures that a trained generator makes, and where
five places of one look.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from regard.cli import run

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "explain.png"
TEXT = "My old friend bought a big white house near the sea."
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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


def main() -> None:
    """Make the page, photograph it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every screen, to a folder, instead of the one")
    parser.add_argument(
        "--made", type=Path, metavar="MODEL", help="pictures made by this generator, instead of the page"
    )
    asked = parser.parse_args()
    folder = asked.all
    if asked.made is not None:
        raise SystemExit(made(asked.made))
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


def made(model: Path) -> int:
    """What a generator makes of every label, and where places of one picture look."""
    ways = {"made": ["generate", "--count", "10"], "places": ["explain"]}
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


def _shrink(path: Path) -> None:
    """A screen has few colours: a palette of them is a quarter of the size and looks the same."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()

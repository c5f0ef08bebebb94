"""LibreTranslate's own server over the weights of the translator in the box, one call of CTranslate2 a request.

    PYTHON -m benchmarks.serve_libretranslate --port 8001 --beams 4

PYTHON is the interpreter of an environment with LibreTranslate and with what `regard.load` needs; `benchmarks.serve`
says how to make it. Its own models would be fetched from the internet. Instead argostranslate, which it asks for the
installed languages, names English and French and a translation from one to the other, an object of the kind that
argostranslate has for each model. Everything else is as it is installed: Flask behind waitress, formatting, and four
threads.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.ctranslate import CTranslate2Translator

EXAMPLE = "Where is the station?"


@dataclass(frozen=True)
class Translation:
    """A translation of argostranslate (`ITranslation`), from English to French by the translator in the box."""

    from_lang: Any
    to_lang: Any
    translator: CTranslate2Translator
    beams: int

    def hypotheses(self, input_text: str, num_hypotheses: int = 1) -> list[Any]:
        """Return the translation of a text, once for each hypothesis that is asked for."""
        from argostranslate.translate import Hypothesis

        [text] = self.translator.translate([input_text], self.beams)
        return [Hypothesis(text, 0.0)] * num_hypotheses


def main() -> None:
    """Serve with the settings that LibreTranslate has by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    translator = CTranslate2Translator(arguments.precision)
    translator.translate([EXAMPLE], arguments.beams)
    with tempfile.TemporaryDirectory() as folder:
        keep_offline(Path(folder))
        offer_translation(translator, arguments.beams)
        serve_libretranslate(arguments.port)


def keep_offline(folder: Path) -> None:
    """Let argostranslate keep its files here, with an index of no packages; it reads these variables once."""
    (folder / "index.json").write_text("[]")
    os.environ |= {"ARGOS_PACKAGE_INDEX": f"{folder.as_uri()}/"}
    os.environ |= {f"XDG_{name}_HOME": str(folder) for name in ("DATA", "CONFIG", "CACHE")}


def offer_translation(translator: CTranslate2Translator, beams: int) -> None:
    """Make English and French the installed languages of argostranslate."""
    from argostranslate import translate

    english, french = translate.Language("en", "English"), translate.Language("fr", "French")
    translation = Translation(english, french, translator, beams)
    english.translations_from.append(translation)
    french.translations_to.append(translation)
    translate.get_installed_languages = lambda: [english, french]


def serve_libretranslate(port: int) -> None:
    """Serve as LibreTranslate's own command does, with one more path that says when it is ready."""
    from libretranslate.app import create_app
    from libretranslate.main import get_parser
    from waitress import serve
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    # Languages of which the index has no package: nothing is fetched, also not what splits sentences.
    settings = get_parser().parse_args(["--disable-files-translation", "--load-only", "en,fr"])
    app = DispatcherMiddleware(create_app(settings), {"/readyz": say_ready})
    serve(app, host="127.0.0.1", port=port, threads=settings.threads)


def say_ready(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer any request with the word that the server is ready."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ready"]


if __name__ == "__main__":
    main()

"""The explorer at `/`, with its script and style sheet, and the list of routes at `/docs`, nothing from elsewhere."""

from __future__ import annotations

import functools
import gzip
import hashlib
import html
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.interpret.draw.bundle import explorer_script, explorer_style
from regard.interpret.draw.page import fill_template
from regard.serve.http import reads_gzip

ASSETS = Path(__file__).parent / "assets"
LANGUAGES = ("en", "fr")
POLICY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
HTML = "text/html; charset=utf-8"
SHORTENED = (
    "<p>Each task of a model has a route <code>/v1/{verb}</code>. This server needs a key to tell which there are, and "
    "what each route takes: <code>curl -H 'Authorization: Bearer KEY' .../openapi.json</code></p>"
)


@dataclass(frozen=True)
class StaticFile:
    """A file that is the same for everybody, as it is and compressed."""

    media: str
    data: bytes
    compressed: bytes
    etag: str


def page_router() -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    for path, show in (
        ("/", show_page),
        ("/explorer.js", show_script),
        ("/explorer.css", show_style),
        ("/docs", show_routes),
    ):
        router.add_api_route(path, show, methods=["GET"], response_class=Response)
    return router


async def show_page(request: Request) -> Response:
    """Show the explorer, in the language that is asked for or that the browser prefers."""
    wish = request.query_params.get("lang", "")
    language = wish if wish in LANGUAGES else preferred_language(request.headers.get("accept-language", ""))
    page = write_shell(language, is_fixed=wish in LANGUAGES)
    return Response(page, media_type=HTML, headers=POLICY | {"vary": "accept-language"})


@functools.cache
def write_shell(language: str, *, is_fixed: bool) -> str:
    """Return the document that loads the explorer; if fixed, it keeps its language whatever the browser's is."""
    parts = {
        "lang": f'lang="{language}"' + (f' data-lang="{language}"' if is_fixed else ""),
        "policy": "",
        "title": "Regard",
        "style": '<link rel="stylesheet" href="/explorer.css">',
        "script": '<script type="module" src="/explorer.js"></script>',
    }
    return fill_template(parts)


async def show_script(request: Request) -> Response:
    """Send the script of the explorer."""
    return send_static(request, read_script())


async def show_style(request: Request) -> Response:
    """Send the style sheet of the explorer."""
    return send_static(request, read_style())


@functools.cache
def read_script() -> StaticFile:
    """Return the bundled script, made once in a process."""
    return make_static(explorer_script(), "text/javascript; charset=utf-8")


@functools.cache
def read_style() -> StaticFile:
    """Return the style sheet, read once in a process."""
    return make_static(explorer_style(), "text/css; charset=utf-8")


def make_static(text: str, media: str) -> StaticFile:
    """Return a text as a file to be sent."""
    data = text.encode()
    etag = f'W/"{hashlib.sha256(data).hexdigest()[:32]}"'  # weak: the same for both encodings
    return StaticFile(media, data, gzip.compress(data, 9, mtime=0), etag)


def send_static(request: Request, file: StaticFile) -> Response:
    """Return a file, compressed if the client reads that, or only the word that its copy is still right."""
    headers = {"etag": file.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
    tags = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
    if file.etag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    if reads_gzip(request):
        return Response(file.compressed, media_type=file.media, headers=headers | {"content-encoding": "gzip"})
    return Response(file.data, media_type=file.media, headers=headers)


async def show_routes(request: Request) -> Response:
    """Show every route with what it takes; without a key where keys are needed, none that depends on the models."""
    pages: RoutePages = request.app.state.route_pages
    page = pages.whole if request.scope["has_key"] else pages.public
    return Response(page, media_type=HTML, headers=POLICY)


@dataclass(frozen=True)
class RoutePages:
    """The list of routes for whoever has a key, and for everybody, which is the same whatever models are served."""

    whole: bytes
    public: bytes


def make_route_pages(schema: dict[str, Any], verbs: Iterable[str]) -> RoutePages:
    """Return the pages that list the routes of a schema, of which those of the verbs come from the models."""
    paths = schema["paths"]
    of_models = {f"/v1/{verb}" for verb in verbs}
    parts = [describe_route(path, paths[path], has_bodies=True) for path in paths]
    public = [describe_route(path, paths[path], has_bodies=False) for path in paths if path not in of_models]
    template = (ASSETS / "docs.html").read_text(encoding="utf-8")
    whole, shortened = (
        template.replace("{{note}}", note).replace("{{routes}}", "\n".join(routes)).encode()
        for note, routes in (("", parts), (SHORTENED, public))
    )
    return RoutePages(whole, shortened)


def describe_route(path: str, methods: dict[str, Any], *, has_bodies: bool) -> str:
    """Return the sections of a route, one for each method."""
    sections = []
    for method, operation in methods.items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        body = json.dumps(content.get("schema", {}), indent=1, ensure_ascii=False) if content and has_bodies else ""
        text = operation.get("description") or operation.get("summary", "")
        described = f"<details><summary>body</summary><pre>{html.escape(body)}</pre></details>" if body else ""
        title = html.escape(f"{method.upper()} {path}")
        sections.append(f"<section><h2><code>{title}</code></h2><p>{html.escape(text)}</p>{described}</section>")
    return "\n".join(sections)


def preferred_language(header: str) -> str:
    """Return the first language of an Accept-Language header that the explorer speaks."""
    codes = [part.partition(";")[0].strip().lower()[:2] for part in header.split(",")[:20]]
    return next((code for code in codes if code in LANGUAGES), "en")

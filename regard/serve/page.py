"""The plain page at `/`, in English and French, and the list of routes at `/docs`; nothing comes from elsewhere."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.http import state_of
from regard.serve.payload import reads_pictures

ASSETS = Path(__file__).parent / "assets"
POLICY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
STRINGS: dict[str, dict[str, str]] = {
    "en": {
        "lead": "Models that run on this machine.",
        "model": "Model",
        "input": "Input",
        "picture": "Picture",
        "options": "Options (JSON)",
        "key": "Key",
        "run": "Run",
        "answer": "Answer",
        "routes": "Routes and schemas",
        "other": "En français",
        "otherCode": "fr",
        "needsScript": "This page needs JavaScript; the routes work without it.",
    },
    "fr": {
        "lead": "Des modèles qui tournent sur cette machine.",
        "model": "Modèle",
        "input": "Entrée",
        "picture": "Image",
        "options": "Options (JSON)",
        "key": "Clé",
        "run": "Envoyer",
        "answer": "Réponse",
        "routes": "Routes et schémas (en anglais)",
        "other": "In English",
        "otherCode": "en",
        "needsScript": "Cette page a besoin de JavaScript ; les routes s'en passent.",
    },
}


def page_router() -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    router.add_api_route("/", show_page, methods=["GET"], response_class=Response)
    router.add_api_route("/page.js", show_script, methods=["GET"], response_class=Response)
    router.add_api_route("/docs", show_routes, methods=["GET"], response_class=Response)
    return router


async def show_page(request: Request) -> Response:
    """Show the page in the language that is asked for, or that the browser prefers."""
    language = request.query_params.get("lang") or preferred_language(request.headers.get("accept-language", ""))
    language = language if language in STRINGS else "en"
    state = state_of(request)
    models = [] if state.keys.is_required else describe_models(request)
    facts = {**STRINGS[language], "lang": language, "keyHidden": "" if state.keys.is_required else "hidden"}
    page = (ASSETS / "page.html").read_text(encoding="utf-8")
    for name, text in facts.items():
        page = page.replace(f"{{{{{name}}}}}", html.escape(text))
    page = page.replace("{{models}}", html.escape(json.dumps(models, ensure_ascii=False)))
    return Response(page, media_type="text/html; charset=utf-8", headers=POLICY)


async def show_script(request: Request) -> Response:
    """Show the script of the page."""
    return Response((ASSETS / "page.js").read_bytes(), media_type="text/javascript; charset=utf-8")


async def show_routes(request: Request) -> Response:
    """Show every route with what it takes."""
    schema = request.app.openapi()
    parts = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            body = json.dumps(content.get("schema", {}), indent=1, ensure_ascii=False) if content else ""
            text = operation.get("description") or operation.get("summary", "")
            described = f"<details><summary>body</summary><pre>{html.escape(body)}</pre></details>" if body else ""
            title = f"{method.upper()} {path}"
            parts.append(f"<section><h2><code>{html.escape(title)}</code></h2><p>{html.escape(text)}</p>{described}")
    page = (ASSETS / "docs.html").read_text(encoding="utf-8").replace("{{routes}}", "</section>\n".join(parts))
    return Response(page, media_type="text/html; charset=utf-8", headers=POLICY)


def describe_models(request: Request) -> list[dict[str, Any]]:
    """Return what the page must know of every model."""
    return [
        {
            "name": model.name,
            "verb": model.verb,
            "kind": model.trained.kind,
            "picture": reads_pictures(model.trained),
            "example": model.trained.inputs.example or model.trained.inputs.kind.example,
        }
        for model in state_of(request).catalogue
    ]


def preferred_language(header: str) -> str:
    """Return the first language of an Accept-Language header that the page is in."""
    codes = [part.partition(";")[0].strip().lower()[:2] for part in header.split(",")[:20]]
    return next((code for code in codes if code in STRINGS), "en")

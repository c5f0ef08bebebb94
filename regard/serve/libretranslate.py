"""The routes of LibreTranslate, whose clients send forms, JSON or queries: translate, detect, languages."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from regard.data.language_names import LANGUAGES
from regard.data.languages import identify
from regard.serve.api_schema import (
    STATUS,
    TEXT,
    TEXTS,
    closed_object,
    describe_answer,
    describe_request,
    list_of,
    object_of,
    optional,
)
from regard.serve.catalogue import ServedModel
from regard.serve.http import json_response, read_parameters, state_of, while_connected
from regard.serve.limits import Limits
from regard.serve.payload import check_characters
from regard.serve.refusal import Refusal
from regard.serve.state import ServerState
from regard.serve.strict_json import parse_json
from regard.tasks.translation.documents.glossary import Terms

AUTO = "auto"
MIN_BEAMS = 4  # of a search for alternatives
TRANSLATE_MEMBERS = frozenset({"q", "source", "target", "format", "alternatives", "glossary", "alignment"})
DETECT_MEMBERS = frozenset({"q"})
TRANSLATE_SCHEMA = closed_object(
    *("q", "source", "target"),
    q=TEXTS,
    source=TEXT,
    target=TEXT,
    format={"enum": ["text", "html"]},
    alternatives={"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}]},
    glossary=optional({"anyOf": [{"type": "object", "additionalProperties": TEXT}, TEXT]}),
    alignment={"enum": [True, False, "true", "false"]},
    api_key=optional(TEXT),
)
DETECTED = object_of(
    "confidence", "language", confidence={"type": "number", "minimum": 0, "maximum": 100}, language=TEXT
)
TRANSLATED = object_of("translatedText", translatedText=TEXTS)
LANGUAGE = object_of("code", "name", "targets", code=TEXT, name=TEXT, targets=list_of(TEXT))
DETECT_SCHEMA = closed_object("q", q=TEXTS, api_key=optional(TEXT))

router = APIRouter()


@router.post(
    "/translate",
    response_class=Response,
    responses=describe_answer(TRANSLATED),
    openapi_extra=describe_request([TRANSLATE_SCHEMA]),
)
async def translate(request: Request) -> Response:
    """Translate a text or a list of texts: q, source (or auto), target, format, alternatives, glossary, alignment."""
    state = state_of(request)
    parameters = _check_members(await read_parameters(request, state.limits), TRANSLATE_MEMBERS)
    texts, is_list = _read_texts(parameters, state.limits)
    source, target = _read_code(parameters, "source"), _read_code(parameters, "target")
    detected = [_detect(text) for text in texts] if source == AUTO else []
    model = _pick_model(state, source if source != AUTO else None, target)
    options: dict[str, Any] = {"to": target} if model.targets else {}
    alternatives = _read_count(parameters.get("alternatives", 0), state.limits.beams - 1)
    if alternatives:
        options |= {"nbest": alternatives + 1, "beams": max(MIN_BEAMS, alternatives + 1)}
    if parameters.get("format", "text") not in ("text", "html"):
        raise Refusal(400, "format must be text or html")
    if parameters.get("format") == "html":
        options["html"] = True
    if parameters.get("glossary") not in (None, "", {}):
        options["terms"] = _read_glossary(parameters["glossary"], state.limits)
    if _read_truth(parameters, "alignment"):
        options["alignment"] = True
    answers = await while_connected(request, state.worker.answer(model.key, texts, options))
    translations = [answer.text for answer in answers]
    reply: dict[str, Any] = {"translatedText": translations if is_list else translations[0]}
    if detected:
        reply["detectedLanguage"] = detected if is_list else detected[0]
    if alternatives:
        others = [[other.text for other in answer.alternatives] for answer in answers]
        reply["alternatives"] = others if is_list else others[0]
    alignments = [answer.alignment.plain() for answer in answers if answer.alignment is not None]
    if alignments:
        reply["alignment"] = alignments if is_list else alignments[0]
    return json_response(reply)


@router.post(
    "/detect",
    response_class=Response,
    responses=describe_answer({"type": "array", "items": {"anyOf": [DETECTED, list_of(DETECTED)]}}),
    openapi_extra=describe_request([DETECT_SCHEMA]),
)
async def detect(request: Request) -> Response:
    """Guess the language of a text, with a confidence from 0 to 100."""
    limits = state_of(request).limits
    texts, is_list = _read_texts(_check_members(await read_parameters(request, limits), DETECT_MEMBERS), limits)
    guesses = [[_detect(text)] for text in texts]
    return json_response(guesses if is_list else guesses[0])


@router.get("/languages", response_class=Response, responses=describe_answer(list_of(LANGUAGE)))
async def list_languages(request: Request) -> Response:
    """List the languages, each with those that it can be translated to."""
    state = state_of(request)
    await read_parameters(request, state.limits)
    pairs = [pair for model in state.catalogue if model.verb == "translate" for pair in _directions(model)]
    sources = sorted({source for source, _ in pairs})
    return json_response(
        [
            {
                "code": source,
                "name": LANGUAGES.get(source, source),
                "targets": sorted({target for other, target in pairs if other == source}),
            }
            for source in sources
        ]
    )


@router.get("/frontend/settings", response_class=Response, responses=describe_answer({"type": "object"}))
async def show_settings(request: Request) -> Response:
    """Return what pages and clients ask for before they translate."""
    state = state_of(request)
    await read_parameters(request, state.limits)
    codes = {target for model in state.catalogue if model.verb == "translate" for _, target in _directions(model)}
    target = min(codes, default="en")
    chosen = {
        "source": {"code": AUTO, "name": "Auto Detect"},
        "target": {"code": target, "name": LANGUAGES.get(target, target)},
    }
    return json_response(
        {
            "apiKeys": state.keys.is_required,
            "keyRequired": state.keys.is_required,
            "charLimit": state.limits.characters,
            "frontendTimeout": 500,
            "language": chosen,
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )


@router.get(
    "/health", response_class=Response, responses={**describe_answer(STATUS), **describe_answer(STATUS, status=503)}
)
async def show_health(request: Request) -> Response:
    """Say that the server is well."""
    state = state_of(request)
    await read_parameters(request, state.limits)
    return json_response({"status": "ok" if state.is_ready else "starting"}, 200 if state.is_ready else 503)


def _directions(model: ServedModel) -> list[tuple[str, str]]:
    """Return the pairs of languages of a model; one whose files named none has none."""
    trained: Any = model.trained
    if model.targets:
        reads = trained.reads or model.targets
        return [(source, target) for source in reads for target in model.targets if source != target]
    return [tuple(trained.trained_direction)] if trained.trained_direction else []


def _pick_model(state: ServerState, source: str | None, target: str) -> ServedModel:
    """Return the first model that translates from one language to the other; `source` None: from any."""
    models = [model for model in state.catalogue if model.verb == "translate"]
    if not models:
        state.catalogue.pick(["translate"])
    for model in models:
        pairs = _directions(model)
        if any(target == code and source in (None, other, target) for other, code in pairs):
            return model
        if not pairs and len(models) == 1:
            return model  # it knows one direction, and nobody said which
    known_codes = {code for model in models for pair in _directions(model) for code in pair}
    unknown = next((code for code in (source, target) if code is not None and code not in known_codes), None)
    wish = f"{unknown[:16]} is not supported" if unknown else f"no model translates from {source} to {target}"
    raise Refusal(400, f"{wish}: see /languages")


def _detect(text: str) -> dict[str, Any]:
    guess = identify(text)
    if guess is None:
        return {"confidence": 0.0, "language": "en"}
    return {"confidence": round(100 * guess.probability, 1), "language": guess.code}


def _read_texts(parameters: dict[str, Any], limits: Limits) -> tuple[list[str], bool]:
    value = parameters.get("q")
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    if not texts or (isinstance(value, list) and len(texts) < len(value)):
        raise Refusal(400, "Invalid request: missing q parameter, a text or a list of texts")
    if len(texts) > limits.inputs:
        raise Refusal(400, f"{len(texts)} texts, at most {limits.inputs} in a request: send several")
    check_characters(texts, limits)
    return texts, isinstance(value, list)


def _read_code(parameters: dict[str, Any], name: str) -> str:
    value = parameters.get(name)
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not value.isprintable():
        raise Refusal(400, f"{name} must be the code of a language: see /languages")
    return value.lower().partition("-")[0]


def _read_count(value: Any, most: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 6) or int(text) > most:
        raise Refusal(400, f"alternatives must be a whole number from 0 to {most}")
    return int(text)


def _read_truth(parameters: dict[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise Refusal(400, f"{name} must be true or false")
    return bool(value == "true")


def _read_glossary(value: Any, limits: Limits) -> Terms:
    """Return a glossary that was sent as an object, or as the JSON text of one in a form."""
    if isinstance(value, str):
        try:
            value = parse_json(value.encode())
        except Refusal:
            raise Refusal(400, "glossary must be an object of terms and their translations") from None
    if not isinstance(value, dict) or not all(isinstance(term, str) and term.strip() for term in value.values()):
        raise Refusal(400, "glossary must be an object of terms and their translations")
    check_characters(value, limits)
    return Terms.of([(source, target) for source, target in value.items() if source.strip()])


def _check_members(parameters: dict[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    if unknown := sorted(parameters.keys() - allowed):
        raise Refusal(400, f"unknown parameter {unknown[0][:40]!r}: there is {', '.join(sorted(allowed))}")
    return parameters

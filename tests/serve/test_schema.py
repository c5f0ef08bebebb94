"""What the schema allows and what it forbids is sent to every route: nothing fails, answers are as described (S6)."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest

from tests.packages import require
from tests.serve.harness import Counter, make_eye, serving
from tests.serve.process import PATIENCE

pytestmark = pytest.mark.unchecked
SMALL = {"new_tokens": 8, "characters": 300, "beams": 2, "inputs": 3, "deadline": 600}
SOME, MANY = 3, 120  # requests of each route and kind


@pytest.fixture(scope="module")
def schema(box, tmp_path_factory) -> Any:
    """The schema of a server with a model of every kind of input."""
    schemathesis = require("schemathesis")
    models = {**box, "counter": Counter(), "eye": make_eye()}
    with serving(models, jobs_folder=tmp_path_factory.mktemp("jobs"), **SMALL) as desk:
        yield schemathesis.openapi.from_url(f"{desk.url}/openapi.json")


def ask_route(operation: Any, mode: Any, count: int) -> set[int]:
    """Send requests to a route that its schema allows, or forbids; check each answer and return the statuses."""
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as openapi

    wanted = [checks.not_a_server_error, openapi.content_type_conformance, openapi.response_schema_conformance]
    wanted += [openapi.status_code_conformance, openapi.negative_data_rejection]
    statuses: set[int] = set()
    none = list(hypothesis.HealthCheck)

    @hypothesis.settings(max_examples=count, deadline=None, database=None, derandomize=True, suppress_health_check=none)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call(timeout=PATIENCE)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=wanted)

    ask()
    return statuses


def ask_all(schema: Any, count: int) -> dict[str, set[int]]:
    """Ask every route; return the statuses by route."""
    from schemathesis.generation import GenerationMode

    operations = [result.ok() for result in schema.get_all_operations()]
    return {
        operation.label: ask_route(operation, GenerationMode.POSITIVE, count)
        | (ask_route(operation, GenerationMode.NEGATIVE, count) if operation.body else set())
        for operation in operations
    }


def test_every_route_answers_as_its_schema_says(schema):
    statuses = ask_all(schema, SOME)
    assert len(statuses) > 20
    assert all(statuses.values())


@pytest.mark.faults
def test_every_route_answers_as_its_schema_says_to_many_requests(schema):
    statuses = ask_all(schema, MANY)
    answered = {label for label, seen in statuses.items() if {200, 202} & seen}
    assert {"POST /detect", "POST /v1/measure", "POST /mcp", "GET /readyz"} <= answered
    # at random nearly every request to this one names a model that is not served, or asks for too much
    case = schema["/v1/completions"]["POST"].Case(body={"prompt": "The cat", "max_tokens": 2, "stop": ["x", "yz"]})
    answer = case.call(timeout=PATIENCE)
    case.validate_response(answer)
    assert answer.status_code == 200

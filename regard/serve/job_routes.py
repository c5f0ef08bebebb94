"""`/v1/jobs`: long work is handed in, followed, fetched and called off."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from regard.serve.api_schema import JOB, JSON_LINES, TEXT, closed_object, describe_answer, describe_request
from regard.serve.http import json_response, read_json_body, run_beside, state_of
from regard.serve.jobs import ANSWERS, Jobs, read_beginning
from regard.serve.refusal import Refusal

SCHEMA = closed_object(
    "inputs", model=TEXT, verb=TEXT, inputs={"type": "array", "minItems": 1}, options={"type": ["object", "null"]}
)
router = APIRouter(prefix="/v1/jobs")


@router.post(
    "",
    response_class=Response,
    status_code=202,
    responses=describe_answer(JOB, status=202),
    openapi_extra=describe_request([SCHEMA]),
)
async def submit_job(request: Request) -> Response:
    """Hand in more inputs than one request may have."""
    jobs, limits = _jobs_of(request), state_of(request).limits
    body = await read_json_body(request, limits, limits.job_bytes)
    draft = await run_beside(lambda: jobs.write_draft(body))
    return json_response(jobs.submit(draft).plain(), 202)


@router.get("/{identifier}", response_class=Response, responses=describe_answer(JOB))
async def show_job(request: Request, identifier: str) -> Response:
    """Show how far a job is."""
    return json_response(_jobs_of(request).find(identifier).plain())


@router.get("/{identifier}/result", response_class=Response, responses=describe_answer({}, media=JSON_LINES))
async def show_result(request: Request, identifier: str) -> Response:
    """Return the answers so far, one in each line, in the order of the inputs."""
    place = _jobs_of(request).find(identifier).folder / ANSWERS
    size = place.stat().st_size  # it may grow while it is sent
    headers = {"content-length": str(size)}
    return StreamingResponse(read_beginning(place, size), media_type=JSON_LINES, headers=headers)


@router.delete("/{identifier}", response_class=Response, responses=describe_answer(JOB))
async def cancel_job(request: Request, identifier: str) -> Response:
    """Call a job off; what is answered can still be fetched."""
    return json_response(_jobs_of(request).cancel(identifier).plain())


def _jobs_of(request: Request) -> Jobs:
    jobs = state_of(request).jobs
    if jobs is None:
        raise Refusal(404, "this server takes no jobs: start it with --jobs FOLDER", "not_found")
    return jobs

"""Jobs: more inputs than a request may have, on disk part by part, taken up again after a restart."""

import json

import pytest

from regard.serve.jobs import ANSWERS, INPUTS, PART_INPUTS, REQUEST, Job, append_lines, read_jobs
from tests.serve.harness import Counter, serving

pytestmark = pytest.mark.unchecked


def follow(desk, client, job: dict) -> list[dict]:
    """Wait for the end of a job; its answers."""
    place = f"/v1/jobs/{job['id']}"
    desk.until(lambda: client.get(place).json()["status"] == "finished")
    return [json.loads(line) for line in client.get(f"{place}/result").text.splitlines()]


def test_a_job_is_answered_whole_and_one_that_fails_has_its_line(counter, tmp_path):
    texts = ["x" * (number % 7) for number in range(3 * PART_INPUTS)]
    texts[5], texts[9] = "poison", "bad"
    with serving({"counter": counter}, jobs_folder=tmp_path, inputs=4) as desk, desk.client() as client:
        submitted = client.post("/v1/jobs", json={"verb": "measure", "inputs": texts})
        assert submitted.status_code == 202
        answers = follow(desk, client, submitted.json())
    assert len(answers) == len(texts)
    assert [answer.get("letters") for answer in answers] == [
        None if text in ("poison", "bad") else len(text) for text in texts
    ]
    assert answers[5] == {"error": "the model failed"}
    assert "this word is not liked" in answers[9]["error"]


def test_after_a_crash_each_part_is_done_exactly_once(counter, tmp_path):
    """S19: what was finished is kept, what was cut is done again, and nothing is done twice."""
    texts = ["x" * number for number in range(2 * PART_INPUTS + 3)]
    with serving({"counter": counter}, jobs_folder=tmp_path) as desk, desk.client() as client:
        counter.release.clear()
        job = client.post("/v1/jobs", json={"inputs": [*texts[:PART_INPUTS], "slow", *texts[PART_INPUTS:]]}).json()
        place = tmp_path / job["id"]
        desk.until(lambda: (place / ANSWERS).read_bytes().count(b"\n") == PART_INPUTS)
        before = (place / ANSWERS).read_bytes()
        other = [path for path in tmp_path.iterdir() if path.name.startswith(".") and path.is_dir()]
        counter.release.set()
        follow(desk, client, job)
        whole = (place / ANSWERS).read_bytes()
    assert not other, "no draft is left"
    (place / ANSWERS).write_bytes(before + b'{"lett')  # as after a SIGKILL in the midst of a line
    again = Counter()
    again.release.set()
    with serving({"counter": again}, jobs_folder=tmp_path) as desk, desk.client() as client:
        assert len(follow(desk, client, job)) == job["total"]
    assert (place / ANSWERS).read_bytes() == whole
    answered = [text for batch in again.batches[1:] for text in batch]  # the first one warms up
    assert answered == ["slow", *texts[PART_INPUTS:]]


def test_a_job_is_called_off_and_names_lead_nowhere(counter, tmp_path):
    with serving({"counter": counter}, jobs_folder=tmp_path, job_inputs=40) as desk, desk.client() as client:
        job = client.post("/v1/jobs", json={"inputs": ["slow", *["x"] * 30]}).json()
        assert client.delete(f"/v1/jobs/{job['id']}").json()["status"] == "cancelled"
        counter.release.set()
        assert client.get(f"/v1/jobs/{job['id']}").json()["status"] == "cancelled"
        for name in ("..", "%2e%2e", "x" * 22, "nobody"):
            assert client.get(f"/v1/jobs/{name}/result").status_code == 404
        assert client.post("/v1/jobs", json={"inputs": ["x"] * 41}).status_code == 422
        assert client.post("/v1/jobs", json={"inputs": ["x", 3]}).json()["error"]["message"].startswith("number 2:")
        assert client.post("/v1/jobs", json={"inputs": []}).status_code == 422
        with (
            pytest.raises(ValueError, match="another server keeps its jobs here"),
            serving({"counter": counter}, jobs_folder=tmp_path),
        ):
            pass
    assert [job.is_cancelled for job in read_jobs(tmp_path)] == [True]


def test_no_other_user_of_the_machine_reads_the_texts_of_a_job(counter, tmp_path):
    folder = tmp_path / "jobs"
    with serving({"counter": counter}, jobs_folder=folder) as desk, desk.client() as client:
        follow(desk, client, client.post("/v1/jobs", json={"inputs": ["abc"]}).json())
    assert [path.stat().st_mode & 0o077 for path in (folder, *folder.glob("*/"))] == [0, 0]


def test_jobs_have_a_body_of_their_own_and_the_oldest_finished_one_makes_room(counter, tmp_path):
    """The limits `job_bytes` and `jobs`."""
    limits = {"body_bytes": 100, "job_bytes": 300, "jobs": 2}
    with serving({"counter": counter}, jobs_folder=tmp_path, **limits) as desk, desk.client() as client:
        first, second = (client.post("/v1/jobs", json={"inputs": ["x" * 50] * 4}).json() for _ in range(2))
        assert client.post("/v1/jobs", json={"inputs": ["x" * 300]}).status_code == 413
        long = client.post("/v1/jobs", json={"inputs": ["x", "y" * 150]})
        assert (long.status_code, long.json()["error"]["message"]) == (422, "number 2 has more than 100 characters")
        for job in (first, second):
            follow(desk, client, job)
        slow = [client.post("/v1/jobs", json={"inputs": ["slow"]}) for _ in range(3)]
        assert [answer.status_code for answer in slow] == [202, 202, 429]
        assert int(slow[-1].headers["retry-after"]) >= 1
        for job in (first, second):
            assert client.get(f"/v1/jobs/{job['id']}").status_code == 404
        counter.release.set()


def test_a_server_without_a_folder_takes_no_jobs(desk):
    with desk.client() as client:
        answer = client.post("/v1/jobs", json={"inputs": ["x"]})
        assert answer.status_code == 404
        assert "--jobs FOLDER" in answer.json()["error"]["message"]


def test_a_damaged_job_is_named(tmp_path):
    place = tmp_path / ("a" * 22)
    place.mkdir()
    request = '{"total": 2, "model": "m", "key": "m", "options": {}}'
    for text, inputs in (
        ('{"total": 2', '"x"\n"y"\n'),
        (request, '"x"\n'),
        (request, '"x"\n"y'),
        ("[]", ""),
        ("{}", ""),
    ):
        (place / REQUEST).write_text(text)
        (place / INPUTS).write_text(inputs)
        with pytest.raises(ValueError, match="damaged, remove this folder"):
            list(read_jobs(tmp_path))
    (place / REQUEST).write_text(request)
    (place / INPUTS).write_text('"x"\n"y"\n')
    append_lines(place / ANSWERS, ["{}"])
    [job] = read_jobs(tmp_path)
    assert isinstance(job, Job)
    assert (job.finished, job.total, job.is_over) == (1, 2, False)
    assert job.read_part() == (["y"], 4)


def test_what_was_not_handed_in_whole_is_removed_and_nothing_else(counter, tmp_path):
    """A crash while a job is checked leaves a draft, which nobody knows of."""
    draft, other = tmp_path / f".{'b' * 22}", tmp_path / ".mine"
    for folder in (draft, other):
        folder.mkdir()
        (folder / INPUTS).write_text('"x"\n')
    with serving({"counter": counter}, jobs_folder=tmp_path) as desk, desk.client() as client:
        assert not draft.exists()
        assert other.exists()
        for wrong in ({"inputs": ["x"] * 3, "typo": 1}, {"inputs": ["x", 3]}, {"inputs": ["x"], "model": "?"}):
            assert client.post("/v1/jobs", json=wrong).status_code in (404, 422)
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [other.name], "no draft of theirs"
        follow(desk, client, client.post("/v1/jobs", json={"inputs": ["x"]}).json())
        [job] = desk.server.state.jobs.jobs.values()
        assert "inputs" not in job.request, "they are on disk"

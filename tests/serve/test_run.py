"""`/v1/run`: a run in numbers of bounded size, read as it grows; no path of a client ever reaches the disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard import recipe
from regard.interpret.small_traces import read_traces
from regard.serve.run_records import RecordFile, thin
from regard.serve.run_view import CURVE_POINTS, RunView
from tests.scenario import settings_of
from tests.serve.harness import Running, serving
from tests.serve.process import ROOT, run_server, wait_until
from tests.tasks.every import lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small translator with two evaluations."""
    place = tmp_path_factory.mktemp("run")
    settings = settings_of("translation", lines(place)["translation"])
    training = settings["training"] | {"steps": 4, "eval_every": 2, "save_every": 2}
    recipe.train({**settings, "training": training}, out=place / "small", quiet=True)
    return place / "small"


@pytest.fixture(scope="module")
def shown(folder: Path) -> Iterator[Running]:
    with serving({}, run=RunView(folder)) as running:
        yield running


def get(running: Running, path: str) -> httpx.Response:
    return httpx.get(f"{running.url}{path}", timeout=600, trust_env=False)


def test_a_run_is_described_without_a_model(shown: Running, folder: Path):
    run = get(shown, "/v1/run").json()
    assert (run["name"], run["task"], run["state"]["state"], run["state"]["step"]) == (
        "small", "translation", "finished", 4,
    )  # fmt: skip
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    assert run["curves"]["evaluation"]["step"] == [record["step"] for record in evaluations] == [2, 4]
    assert run["curves"]["evaluation"]["values"]["loss"] == [record["loss"] for record in evaluations]
    assert [entry["step"] for entry in run["samples"]] == run["traces"]["steps"] == [2, 4]
    assert len(run["traces"]["inputs"]) == 3
    assert str(folder.parent) not in json.dumps(run), "folders of this machine stay here"
    explorer = get(shown, "/v1/explorer").json()
    assert (explorer["models"], explorer["run"]["name"]) == ([], "small")


def test_a_trace_is_a_view_with_its_numbers_in_it(shown: Running, folder: Path):
    view = get(shown, "/v1/run/traces/4/1").json()["view"]
    trace = read_traces(folder / "traces" / "step-4.safetensors")[1]
    assert view["attentions"][view["first"]]["name"] == trace.weights[0].name
    assert len(view["attentions"][0]["heads"]) == len(trace.weights[0].values)
    assert view["facts"]["forced"] is True
    assert set(view["means"]) == {entry.name for entry in trace.weights if entry.is_mean}


@pytest.mark.parametrize(
    "path",
    [
        "3/0",
        "4/3",
        "-1/0",
        "4/-1",
        "%2e%2e/0",
        "4/%2e%2e%2f%2e%2e",
        "4/0x1",
        "٤/0",
        "4" * 50 + "/0",
        "4/0/..%2f..",
        "4/",
    ],
)
def test_only_listed_numbers_name_a_trace(shown: Running, path: str):
    assert get(shown, f"/v1/run/traces/{path}").status_code == 404


def test_a_damaged_trace_is_said_to_be(folder: Path, tmp_path: Path):
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "traces" / "step-2.safetensors").write_bytes(b"no")
    with serving({}, run=RunView(tmp_path / "copy")) as running:
        assert get(running, "/v1/run/traces/2/0").status_code == 410
        assert get(running, "/v1/run/traces/4/0").status_code == 200


def test_keys_are_needed_where_there_are_any(folder: Path):
    with serving({}, keys=["a-key-that-nobody-guesses"], run=RunView(folder)) as running:
        assert get(running, "/v1/run").status_code == 401
        assert get(running, "/v1/run/traces/4/0").status_code == 401


def test_a_server_without_a_run_says_how_to_name_one():
    with serving({}) as running:
        answer = get(running, "/v1/run")
    assert answer.status_code == 404
    assert "--run" in answer.json()["error"]["message"]


def test_records_are_read_on_as_they_grow_and_anew_when_they_are_replaced(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    record = '{"step": %d, "kind": "training", "loss": %f}\n'
    path.write_text("".join(record % (step, step) for step in range(1, 4)) + '{"step": 4, "ki')
    records = RecordFile(path)
    records.refresh()
    assert (records.steps("training"), records.unreadable) == ([1, 2, 3], 0)
    with path.open("a") as file:
        file.write('nd": "training", "loss": NaN}\nnonsense\n[]\n' + record % (5, 5))
    records.refresh()
    assert (records.steps("training"), records.unreadable) == ([1, 2, 3, 4, 5], 2)
    assert records.curves(10)["training"]["values"]["loss"] == [1, 2, 3, None, 5]
    new = tmp_path / "new"
    new.write_text(record % (1, 9))
    os.replace(new, path)
    records.refresh()
    assert records.curves(10)["training"]["values"]["loss"] == [9]
    path.unlink()
    records.refresh()
    assert records.curves(10) == {}


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": n, "kind": "training", "loss": n}) + "\n" for n in range(1, 20_001)))
    records = RecordFile(path)
    records.refresh()
    curve = records.curves(CURVE_POINTS)["training"]
    assert (len(curve["step"]), curve["step"][0], curve["step"][-1], curve["of"]) == (CURVE_POINTS, 1, 20_000, 20_000)
    assert curve["step"] == sorted(set(curve["step"]))
    assert thin([1, 2, 3], 3) == [1, 2, 3]


def test_what_is_no_run_is_refused(tmp_path: Path):
    words = [sys.executable, "-m", "regard", "serve", "--run", str(tmp_path), "--check"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert "not a run folder" in done.stderr


def test_serve_shows_a_run_without_loading_a_model(folder: Path, tmp_path: Path):
    with run_server(tmp_path / "log", "--run", str(folder)) as server, server.client() as client:
        assert client.get("/v1/run").json()["state"]["state"] == "finished"
        assert client.get("/v1/models").json()["data"] == []
        assert "small: a run, finished, step 4" in server.log.read_text()


def test_train_open_serves_the_run_in_a_process_that_ends_with_it(tmp_path: Path):
    place = tmp_path / "place"
    place.mkdir()
    settings = settings_of("translation", lines(place)["translation"])
    training = settings["training"] | {"steps": 1_000_000, "eval_every": 5, "save_every": 1_000, "patience": 10**6}
    (place / "recipe.yaml").write_text(json.dumps({**settings, "training": training}))
    browser = place / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {place}/opened\n')
    browser.chmod(0o755)
    words = [sys.executable, "-m", "regard", "train", "recipe.yaml", "--open", "--out", "run"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "BROWSER": str(browser)}
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(words, cwd=place, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        opened = place / "opened"
        wait_until(lambda: (opened.exists() and opened.read_text()) or process.poll() is not None)
        url = opened.read_text()
        assert f"watch the training at {url}" in (place / "log").read_text()
        run: dict[str, Any] = {}

        def has_evaluated() -> bool:
            run.update(httpx.get(f"{url}v1/run", timeout=600, trust_env=False).json())
            return bool(run["traces"]["steps"])

        wait_until(has_evaluated)
        assert run["state"]["state"] == "running"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert httpx.get(f"{url}v1/run", timeout=600, trust_env=False).json()["state"]["state"] == "killed"

        def is_gone() -> bool:
            try:
                httpx.get(f"{url}livez", timeout=600, trust_env=False)
                return False
            except httpx.TransportError:
                return True

        wait_until(is_gone)
    finally:
        process.kill()

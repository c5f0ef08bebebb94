"""The commands that train the models in the box: their order, what fails, what is stopped, what is done already."""

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parent.parent / "scripts" / "make_models.py"), run_name="made")
Job, jobs, work = SCRIPT["Job"], SCRIPT["jobs"], SCRIPT["work"]


def noting(name: str, place: Path, *, after: tuple[str, ...] = (), code: int = 0) -> object:
    """A job that adds its name to a file."""
    told = f"open({str(place / 'order')!r}, 'a').write({name!r} + '\\n'); raise SystemExit({code})"
    return Job(name, ["-c", told], after)


def ran(place: Path) -> list[str]:
    return (place / "order").read_text().split() if (place / "order").exists() else []


def test_a_job_waits_for_those_before_it_and_is_not_done_twice(tmp_path):
    todo = [noting("c", tmp_path, after=("a", "b")), noting("a", tmp_path), noting("b", tmp_path, after=("a",))]
    assert work(todo, tmp_path / "logs", seconds=60, pause=0.01) == []
    assert ran(tmp_path) == ["a", "b", "c"]
    again = [noting("a", tmp_path), noting("d", tmp_path, after=("c",))]
    assert work(again, tmp_path / "logs", seconds=60, pause=0.01) == []
    assert ran(tmp_path) == ["a", "b", "c", "d"]


def test_what_waits_for_a_failed_job_never_begins_and_others_go_on(tmp_path):
    todo = [
        noting("bad", tmp_path, code=3),
        noting("next", tmp_path, after=("bad",)),
        noting("last", tmp_path, after=("next",)),
        noting("other", tmp_path),
    ]
    assert work(todo, tmp_path / "logs", seconds=60, pause=0.01) == ["bad", "next", "last"]
    assert sorted(ran(tmp_path)) == ["bad", "other"]


def test_what_still_runs_at_the_end_of_the_time_is_asked_to_stop(tmp_path):
    told = (
        "import signal, sys, time; place = sys.argv[1]; "
        "signal.signal(signal.SIGTERM, lambda *_: (open(place, 'w').write('saved'), sys.exit(0))); "
        "open(place, 'w').write('began'); time.sleep(60)"
    )
    job = Job("long", ["-c", told, str(tmp_path / "state")])
    assert work([job], tmp_path / "logs", seconds=3, pause=0.01) == ["long"]
    assert (tmp_path / "state").read_text() == "saved"
    assert not (tmp_path / "logs" / "long.done").exists()


def test_a_training_that_was_stopped_is_resumed(tmp_path):
    told = f"import sys; open({str(tmp_path / 'words')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')"
    work([Job("run", ["-c", told], (), tmp_path / "run")], tmp_path / "logs", seconds=60, pause=0.01)
    (tmp_path / "run").mkdir()
    (tmp_path / "logs" / "run.done").unlink()
    work([Job("run", ["-c", told], (), tmp_path / "run")], tmp_path / "logs", seconds=60, pause=0.01)
    assert (tmp_path / "words").read_text() == "\n--resume\n"


def test_the_commands_name_recipes_scripts_and_one_another(tmp_path):
    found = {job.name: job for job in jobs(tmp_path, ["student:training.steps=7"])}
    root = Path(__file__).parent.parent
    for job in found.values():
        assert set(job.after) <= set(found)
        assert all((root / word).exists() for word in job.words if word.startswith(("recipes/", "scripts/")))
    assert found["student"].words[-1] == "training.steps=7"
    with pytest.raises(SystemExit, match="JOB:NAME=VALUE"):
        jobs(tmp_path, ["studnet:training.steps=7"])

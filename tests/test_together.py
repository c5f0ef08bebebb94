"""Jobs of benchmarks side by side: order, room, what waits for what, and a second call that goes on."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks import together

NOTE = "open('{place}/order', 'a').write('{name} '); import time; time.sleep({long})"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Runs jobs, given as name, seconds and what else is said of them: the order they began in, and their ends."""

    def run(*jobs, room=2, seconds=300.0, fails=()):
        listed = []
        for name, long, more in jobs:
            code = NOTE.format(place=tmp_path, name=name, long=long) + (
                "; raise SystemExit(3)" if name in fails else ""
            )
            listed.append({"name": name, "run": f'python -c "{code}"', **more})
        (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(listed))
        given = [str(tmp_path / "jobs.yaml"), "--room", str(room), "--seconds", str(seconds), "--logs", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["together", *given])
        together.main()
        order = tmp_path / "order"
        began = order.read_text().split() if order.exists() else []
        ends = json.loads((tmp_path / "status.json").read_text())
        return began, {name: one["code"] for name, one in ends.items()}

    return run


def test_a_job_waits_for_others_and_a_failed_one_holds_up_only_those_that_need_it(told):
    jobs = [("late", 0, {"after": ["first"]}), ("first", 0, {}), ("never", 0, {"after": ["broken"]}), ("broken", 0, {})]
    began, ends = told(*jobs, fails=("broken",))
    assert began.index("late") > began.index("first")
    assert ends == {"late": 0, "first": 0, "broken": 3, "never": "not begun"}


def test_one_that_needs_the_whole_room_runs_alone_and_a_second_call_goes_on(told, tmp_path):
    jobs = [("a", 0.5, {}), ("alone", 0.3, {"weight": 9}), ("b", 0, {})]
    began, ends = told(*jobs, fails=("b",))
    assert began == ["a", "alone", "b"]
    assert ends["b"] == 3
    (tmp_path / "order").unlink()
    began, ends = told(*jobs)
    assert began == ["b"], "what ended well is not run again"
    assert set(ends.values()) == {0}


def test_what_runs_at_the_deadline_is_ended(told, monkeypatch):
    monkeypatch.setattr(together, "LAST", 0)
    began, ends = told(("long", 600, {}), ("next", 0, {}), room=1, seconds=2.0)
    assert began in (["long"], [])
    assert ends == {"long": "ended at the deadline", "next": "not begun"}


@pytest.mark.parametrize("name", ["vision", "beyond"])
def test_lists_name_only_jobs_recipes_and_benchmarks_that_are_there(name):
    root = Path(__file__).parent.parent
    jobs = [together.Job(**one) for one in yaml.safe_load((root / "benchmarks" / f"{name}.yaml").read_text())]
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    assert {name for job in jobs for name in job.after} <= set(names)
    words = [job.run.split() for job in jobs]
    recipes = {f"recipes/{run[3]}.yaml" for run in words if run[2] == "benchmarks.vision"}
    recipes |= {word for run in words for word in run if word.startswith("recipes/")}
    assert recipes
    assert all((root / recipe).exists() for recipe in recipes)
    modules = {run[2].partition(".")[2] for run in words if run[2].startswith("benchmarks.")}
    assert all((root / "benchmarks" / f"{module}.py").exists() for module in modules)

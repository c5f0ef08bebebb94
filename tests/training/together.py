"""Trainings of several processes that are forked from one that has imported everything, and what became of them.

Run as `python -m tests.training.together '{"key": ["scenario", {"argument": ...}]}'`, away from the threads of a test
run; what the scenarios return is the last line of its output.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from regard import checkpoint, recipe
from regard.data import cache
from regard.training import distributed
from regard.training import run as runs
from regard.training.distributed import Team
from regard.training.loop import TrainingConfig, fit
from regard.training.optim import OptimConfig
from regard.training.resume import NUMBERS
from tests.conftest import sentences
from tests.faults.nursery import Child, Quick, Report, answer, temporary, weights
from tests.test_recipe import TINY
from tests.training.lines import Lines, Narrow, Normed, Numbered, records

PORT = 5  # digits
SETTINGS = {
    "steps": 12,
    "accumulate": 6,
    "log_every": 2,
    "eval_every": 4,
    "save_every": 3,
    "device": "cpu",
    "tensorboard": False,
}


def together(size: int, action: Callable[[Team, Report], Any]) -> list[Child]:
    """Processes that are a team, as torchrun would start them; each reports the error it ends with.

    The store they meet at has a thread, whose locks a fork would copy: it is opened after the last of them is there.
    """
    doors, key = os.pipe()

    def member(rank: int) -> Callable[[Report], None]:
        def act(report: Report) -> None:
            port = os.read(doors, PORT).decode()
            here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
            os.environ.update(here, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
            try:
                with distributed.team() as team:
                    action(team, report)
            except ValueError as error:
                report(f"error {error}")
                os._exit(1)
            except SystemExit:
                os._exit(1)  # it has nothing to say

        return act

    children = [Child(member(rank)) for rank in range(size)]
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    children[0].store = store  # type: ignore[attr-defined] # it stays as long as they
    os.write(key, f"{store.port:0{PORT}}".encode() * size)
    os.close(doors)
    os.close(key)
    return children


def regress(folder: Path, team: Team, task: Any, optim: Any = None, **changes: Any) -> Any:
    """A regression that goes on where the folder stands."""
    run = runs.start(folder, settings={"model": {"width": 5}}, resume=True, team=team)
    with run.log(quiet=True) as log:
        config = TrainingConfig(**(SETTINGS | changes))
        return fit(task, config, optim or OptimConfig(learning_rate=0.05, warmup=2), run, log=log)


def finished(children: list[Child]) -> list[int]:
    """The exit statuses of all of them."""
    return [child.wait() for child in children]


def told(result: Any, task: Any) -> str:
    """What every process of a team should end up with alike."""
    sums = [float(tensor.double().sum()) for tensor in task.model.state_dict().values()]
    return f"{result.step} {result.reason} {result.faults} {result.counts} {result.best} {sums}"


def difference(found: Path, expected: Path) -> float:
    """The largest difference between any two numbers of two runs' last states and best weights."""
    ours, theirs = weights(found), weights(expected)
    assert ours.keys() == theirs.keys()
    return max(float((ours[name].double() - theirs[name].double()).abs().max()) for name in theirs)


def measured(folder: Path) -> list[dict[str, Any]]:
    """What metrics.jsonl says."""
    return records(runs.Run(folder))


def noted(folder: Path) -> list[str]:
    """What train.log says, without what differs between any two runs."""
    lines = [line[20:] for line in (folder / "train.log").read_text().splitlines()]
    passing = ("tokens/s", " parameters on ", "holds no checkpoint", "stopped at step")
    return [line for line in lines if not any(words in line for words in passing)]


def health(folder: Path) -> dict[str, Any]:
    """What the last checkpoint remembers of faults."""
    run = runs.Run(folder)
    return checkpoint.read(run.directory(run.steps()[-1])).json(NUMBERS)["health"]


# Scenarios: each compares trainings by several processes with the same by one.

TASKS: dict[str, Callable[[], Any]] = {
    "plain": lambda: Numbered(dropout=0.0),
    "dropout": lambda: Numbered(dropout=0.2),
    "not a number": lambda: Numbered(bad=[8, 21], hurt=float("nan")),
    "norms": lambda: Normed(bad=[8], hurt=float("nan"), dropout=0.0),
    "again and again": lambda: Numbered(bad=range(39, 60)),
}


def equal(place: str, cases: list[list[Any]]) -> list[dict[str, Any]]:
    """Train a task in one process and in several, with some number of rows a step."""
    answers = []
    for number, (name, size, rows) in enumerate(cases):
        one, many = Path(place) / f"{number}-one", Path(place) / f"{number}-many"
        task, changes = TASKS[name], {"accumulate": rows, "failures": 3, "average": 2}
        regress(one, distributed.ALONE, task(), **changes)

        def train(team: Team, report: Report, many: Path = many, task: Any = task, changes: Any = changes) -> None:
            learner = task()
            if team.rank == 1:
                with torch.no_grad():
                    for parameter in learner.model.parameters():
                        parameter.zero_()  # everybody begins with what process 0 has
            report(told(regress(many, team, learner, **changes), learner))

        children = together(size, train)
        statuses = finished(children)
        answers.append(
            {
                "statuses": statuses,
                "alike": len({tuple(child.lines) for child in children}) == 1,
                "difference": difference(many, one),
                "measured": [measured(many), measured(one)],
                "noted": [noted(many), noted(one)],
                "health": [health(many)["faults"], health(one)["faults"]],
                "steps": [runs.Run(many).steps(), runs.Run(one).steps()],
                "left": temporary(many),
            }
        )
    return answers


def leap(place: str) -> dict[str, Any]:
    """One row of one process leaps after a hundred quiet steps."""
    faults = {}
    for name, size in (("one", 1), ("many", 2)):
        folder = Path(place) / name

        def train(team: Team, report: Report, folder: Path = folder) -> None:
            task = Numbered(bad=[2 * 104 + 1], hurt=1e4, dropout=0.0)
            regress(
                folder, team, task, steps=106, accumulate=2, save_every=200, eval_every=200, log_every=50, spike=8.0
            )

        if size == 1:
            train(distributed.ALONE, print)
        else:
            assert finished(together(size, train)) == [0, 0]
        faults[name] = {"faults": health(folder)["faults"], "noted": noted(folder)}
    return faults | {"difference": difference(Path(place) / "many", Path(place) / "one")}


def crowded(place: str) -> dict[str, Any]:
    """Rows do not fit the memory of one process, while the other two have room."""
    one = Path(place) / "one"
    regress(one, distributed.ALONE, Narrow(most=float("inf"), dropout=0.0))

    def train(team: Team, report: Report) -> None:
        task = Narrow(most=2 if team.rank == 1 else float("inf"), dropout=0.0)
        report(told(regress(Path(place) / "many", team, task), task))

    children = together(3, train)
    statuses = finished(children)
    many = Path(place) / "many"
    return {
        "statuses": statuses,
        "alike": len({tuple(child.lines) for child in children}) == 1,
        "difference": difference(many, one),
        "split": health(many)["faults"]["split"],
        "said": [line for line in noted(many) if "does not fit into memory" in line],
    }


class Eventful(Numbered):
    """A task in whose third step something happens, in one process."""

    def __init__(self, event: Callable[[], None] | None) -> None:
        super().__init__(dropout=0.0)
        self.event = event

    def batch(self, row: int) -> Lines:
        if 12 <= row < 18 and self.event:  # of six rows there is one for every process
            event, self.event = self.event, None
            event()
        return super().batch(row)


def asked(place: str, cases: list[list[int]]) -> list[dict[str, Any]]:
    """Ask one process of a team to stop; then go on with other numbers of processes."""
    whole = Path(place) / "whole"
    regress(whole, distributed.ALONE, Numbered(dropout=0.0))
    return [_asked(Path(place) / str(number), case, whole) for number, case in enumerate(cases)]


def _asked(folder: Path, case: list[int], whole: Path) -> dict[str, Any]:
    size, victim, number, *others = case

    def train(team: Team, report: Report) -> None:
        task = Eventful((lambda: os.kill(os.getpid(), number)) if team.rank == victim else None)
        result = regress(folder, team, task, eval_every=100)
        report(f"ended {result.step} {result.reason}")

    children = together(size, train)
    statuses = finished(children)
    steps = runs.Run(folder).steps()
    resumed = []
    for step, team in enumerate(others, start=2):
        last = {} if step == len(others) + 1 else {"steps": steps[-1] + 3}

        def go_on(team: Team, report: Report, last: Any = last) -> None:
            regress(folder, team, Numbered(dropout=0.0), **last)

        resumed.append(finished(together(team, go_on)))
    return {
        "statuses": statuses,
        "endings": sorted({child.lines[-1] for child in children}),
        "steps": steps,
        "resumed": resumed,
        "difference": difference(folder, whole),
    }


def lost(place: str, how: str, victim: int) -> dict[str, Any]:
    """One process is killed or hangs: the others must end too, and a rerun must end as if nothing had been."""
    whole, folder = Path(place) / "whole", Path(place) / "run"
    assert finished(together(2, lambda team, report: regress(whole, team, Numbered(dropout=0.0)))) == [0, 0]

    def train(team: Team, report: Report) -> None:
        def stuck() -> None:
            report("stuck")
            time.sleep(60)

        regress(folder, team, Eventful(stuck if team.rank == victim else None), save_every=1)

    stall, distributed.STALL = distributed.STALL, 3.0
    children = together(2, train)
    distributed.STALL = stall
    children[victim].listen(60, until="stuck")
    children[victim].kill(signal.SIGSTOP if how == "hangs" else signal.SIGKILL)
    began = time.monotonic()
    status = children[1 - victim].wait()
    seconds = time.monotonic() - began
    children[victim].kill()
    children[victim].wait()
    again = together(2, lambda team, report: regress(folder, team, Numbered(dropout=0.0), save_every=1))
    return {
        "status": status,
        "seconds": seconds,
        "said": children[1 - victim].lines,
        "resumed": finished(again),
        "difference": difference(folder, whole),
    }


def errors(place: str, who: list[list[int]]) -> list[dict[str, Any]]:
    """Some processes fail: all must end, and one must say why."""

    def fail() -> None:
        raise ValueError("train.tsv: lies on a disk that is gone")

    answers = []
    for number, ranks in enumerate(who):

        def train(team: Team, report: Report, number: int = number, ranks: list[int] = ranks) -> None:
            regress(Path(place) / str(number), team, Eventful(fail if team.rank in ranks else None))

        children = together(3, train)
        answers.append({"statuses": finished(children), "said": [child.lines for child in children]})
    return answers


def late(place: str) -> dict[str, Any]:
    """All fail at once, while process 0 takes longer to arrive than the other would wait for its words."""
    group, manners = dist.new_group, distributed.MANNERS

    def slow(*given: Any, **how: Any) -> Any:
        made = group(*given, **how)
        time.sleep(0.6 if os.environ["RANK"] == "0" else 0)
        return made

    def fail(team: Team, report: Report) -> None:
        raise ValueError("train.tsv: lies on a disk that is gone")

    dist.new_group, distributed.MANNERS = slow, 0.2
    children = together(2, fail)
    statuses = finished(children)
    dist.new_group, distributed.MANNERS = group, manners
    return {"statuses": statuses, "said": [child.lines for child in children]}


def seconds(place: str) -> dict[str, Any]:
    """Time is up at the same step for all, however their clocks go."""

    def train(team: Team, report: Report) -> None:
        task = Eventful((lambda: time.sleep(0.1)) if team.rank == 1 else None)
        result = regress(Path(place) / "run", team, task, steps=10**6, seconds=0.3 + team.rank)
        report(f"ended {result.step} {result.reason}")

    children = together(2, train)
    return {"statuses": finished(children), "endings": sorted({child.lines[-1] for child in children})}


def translate(place: str) -> dict[str, Any]:
    """A whole recipe, data and all, by one process and by two that find no cache."""
    for side, texts in zip(("fr", "en"), zip(*sentences(), strict=True), strict=True):
        (Path(place) / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = {"source": f"{place}/train.fr", "target": f"{place}/train.en"}
    changes = ("objective.eval_examples=2", "training.eval_every=4", "training.save_every=3", "training.accumulate=4")
    return alike(place, recipe.settings({**TINY, "data": {**TINY["data"], "train": files}}, *changes))


def classify(place: str) -> dict[str, Any]:
    """The same of texts with labels, with dropout, and more held-out texts than one process looks at in one go."""
    lines = [f"{'very ' * (n % 9)}{'good' if n % 2 else 'bad'} film {n},{'ab'[n % 2]}\n" for n in range(120)]
    (Path(place) / "train.csv").write_text("".join(lines), encoding="utf-8")
    data = {"train": {"path": f"{place}/train.csv"}, "validation_share": 0.3, "batch_tokens": 96}
    training = {
        "steps": 6,
        "accumulate": 4,
        "log_every": 2,
        "eval_every": 3,
        "save_every": 3,
        "device": "cpu",
        "tensorboard": False,
    }
    return alike(place, {"task": "classification", "data": data, "training": training})


def alike(place: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A recipe by one process and by two that find no cache."""
    os.environ["REGARD_CACHE"] = f"{place}/cache-one"
    recipe.train(settings, out=f"{place}/one", quiet=True)
    os.environ["REGARD_CACHE"] = f"{place}/cache-many"

    def train(team: Team, report: Report) -> None:
        publish = cache._publish

        def publishing(*arguments: Path) -> None:
            report(f"made {arguments[1].name.partition('-')[0]}")
            publish(*arguments)

        cache._publish = publishing  # type: ignore[assignment]
        outcome = recipe.train(settings, out=f"{place}/many", quiet=True)
        report(f"ended {outcome.result.step} {outcome.metrics}")

    children = together(2, train)
    return {
        "statuses": finished(children),
        "made": [[line for line in child.lines if line.startswith("made")] for child in children],
        "endings": sorted({child.lines[-1] for child in children}),
        "measured": [measured(Path(place) / name) for name in ("many", "one")],
        "difference": difference(Path(place) / "many", Path(place) / "one"),
        "said once": (Path(place) / "many" / "train.log").read_text().count("training "),
    }


if __name__ == "__main__":
    checkpoint.disk = Quick()
    torch.set_num_threads(1)
    answer(globals())

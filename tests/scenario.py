"""The life of a model of every task: trained, killed and resumed, shared, adapted, used, looked into, damaged.

Run as `python -m tests.scenario FOLDER`, away from the threads of a test run: processes are forked from this one, which
has imported everything. What was seen is the last line of its output.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

import regard
from regard import checkpoint, config, recipe
from regard.decoding.exchange import ExchangeLoop, run_exchange
from regard.metrics.scores import Scores
from regard.tasks import TASKS
from regard.tasks.inputs import describe_inputs
from regard.tasks.trained import Answer, Trained
from tests.faults.nursery import Child, Quick, Report, differing, settle, temporary, weights
from tests.tasks.beside import answer_with_options, call_extras
from tests.tasks.every import Line, lines
from tests.training.together import difference, finished, measured, together

BRIEF = {"steps": 2, "accumulate": 2, "log_every": 1, "eval_every": 2, "save_every": 1, "threads": 1}
BRIEF |= {"device": "cpu", "tensorboard": False}
ONCE = {"training": BRIEF | {"steps": 1, "accumulate": 1, "eval_every": 1}}  # one step shows that a body can be trained
STILL = 1e-20  # a rate at which nothing is learnt
FOLLOWING = ("running_mean", "running_var", ".0.left", ".0.right")  # of norms: they move by data, whatever the rate
SHARED = {"translation": (2, 4), "masked-lm": (2, 4)}  # sizes of teams; two processes train the other tasks


def life(task: str, line: Line, place: Path) -> dict[str, Any]:
    """Everything but what other tasks make of its model."""
    settings = settings_of(task, line)
    seen = {"killed": killed(settings, place), "adapted": adapted(settings, place)}
    return seen | {"shared": shared(task, settings, place), **used(line, place), "damaged": damaged(place)}


def settings_of(task: str, line: Line) -> dict[str, Any]:
    """The recipe of a line; adam would make much of the order in which gradients are added up."""
    optim = {"name": "sgd", "momentum": 0.9, "learning_rate": 0.05, "warmup": 1, "final_learning_rate": 0.01}
    chosen = {name: value for name, value in optim.items() if f"optim.{name}" in known(task)}
    parts = {name.split(".")[1] for name in known(task) if re.fullmatch(r"optim\.\w+\.momentum", name)}
    chosen |= {part: {name: value for name, value in optim.items() if name != "final_learning_rate"} for part in parts}
    rows = max(SHARED.get(task, (BRIEF["accumulate"],)))  # one for every process of the largest team
    return {"task": task, **line.settings, "optim": chosen, "training": BRIEF | {"accumulate": rows}}


@cache
def known(task: str) -> set[str]:
    """The settings of a task."""
    return {field.name for field in config.describe(TASKS[task].task.Recipe)}


def train(settings: Any, out: Path, **how: Any) -> recipe.Outcome:
    return recipe.train(settings, out=out, quiet=True, **how)


def killed(settings: Any, place: Path) -> dict[str, Any]:
    """A training that ends with its first save, by SIGKILL, and goes on, beside one that nobody kills."""
    train(settings, place / "whole")

    def dying(report: Report) -> None:
        write = checkpoint.write

        def last(directory: Path, *arguments: Any, **options: Any) -> None:
            write(directory, *arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        checkpoint.write = last  # type: ignore[assignment]
        train(settings, place / "parts")

    status = Child(dying).wait()
    steps = [path.name for path in (place / "parts" / "checkpoints").iterdir()]
    train(settings, place / "parts", resume=True)
    whole, parts = (weights(place / name) for name in ("whole", "parts"))
    return {
        "status": status,
        "saved": steps,
        "names": sorted(whole),
        "differing": differing(parts, whole),
        "measured": [measured(place / name) for name in ("parts", "whole")],
        "left": temporary(place / "parts"),
    }


def adapted(settings: Any, place: Path) -> dict[str, Any]:
    """One that goes on from the finished model with a rate of nothing: what it had learnt must be there."""
    out, optim = place / "adapted", settings["optim"]
    still = stilled(optim)
    train(bare({**settings, "optim": still}), out, start=place / "whole")
    before, after = (checkpoint.read(folder / "best").tensors() for folder in (place / "whole", out))
    learnt = [name for name in before if not name.endswith(FOLLOWING)]
    apart = [name for name in learnt if not torch.allclose(before[name], after[name], rtol=0, atol=1e-12)]
    return {"said": said(out), "names": sorted(before), "apart": apart}


def stilled(optim: dict[str, Any]) -> dict[str, Any]:
    """The same optimizers, of all parts, at a rate of nothing."""
    return {
        name: stilled(value)
        if isinstance(value, dict)
        else STILL
        if name in ("learning_rate", "final_learning_rate")
        else value
        for name, value in optim.items()
    }


def bare(settings: Any) -> dict[str, Any]:
    """Settings without those that a parent knows."""
    return {name: value for name, value in settings.items() if name not in ("model", "tokenizer")}


def said(folder: Path) -> list[str]:
    """What the log says of where a run began."""
    return [line[20:] for line in (folder / "train.log").read_text().splitlines() if "starting from" in line]


def shared(task: str, settings: Any, place: Path) -> list[dict[str, Any]]:
    """The same by several processes."""
    seen = []
    for size in SHARED.get(task, (2,)):
        out = place / f"by-{size}"
        children = together(size, lambda team, report, out=out: report(str(train(settings, out).metrics)))
        one = {"size": size, "statuses": finished(children), "said": [child.lines for child in children]}
        if set(one["statuses"]) == {0}:
            one["difference"] = difference(out, place / "whole")
            one["measured"] = [measured(out), measured(place / "whole")]
        seen.append(one)
    return seen


def used(line: Line, place: Path) -> dict[str, Any]:
    """What the model says, how it scores and where it looks; the one that was killed must say the same."""
    model, again = (regard.load(place / name, device="cpu") for name in ("whole", "parts"))
    inputs = [model.inputs.parse(text) for text in line.inputs]
    answers = model.answer(inputs)
    scores = model.evaluate(*line.files, **line.options)
    return {
        "faces": [isinstance(model, Trained), isinstance(scores, Scores), *(isinstance(a, Answer) for a in answers)],
        "answers": [[str(a) for a in answers], [str(a) for a in again.answer(inputs)]],
        "plain": [a.plain() for a in answers],
        "types": types_of([answer.plain() for answer in answers]),
        "exchanged": exchanged(model, inputs),
        "described": describe_inputs(model),
        "extras": call_extras(model, line, place),
        "options": answer_with_options(model, line),
        "scores": scores.metrics,
        "task": [model.task, scores.task],
        "looked": looked(model, inputs[0]),
        "card": (place / "whole" / "best" / "README.md").read_text(encoding="utf-8"),
    }


def types_of(answers: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The types of every value of answers as JSON has them, by its name."""
    answers = json.loads(json.dumps(answers, allow_nan=False))
    names = dict.fromkeys(name for answer in answers for name in answer)
    return {name: sorted({type(answer[name]).__name__ for answer in answers}) for name in names}


def exchanged(model: Any, inputs: list[Any]) -> list[list[str]]:
    """The same answers by exchanges: where the model writes, one for all and one for each, over the same engine."""
    engine = model.make_engine()
    if engine is None:
        return [[str(a) for a in run_exchange(None, model.exchange(inputs))]]
    loop = ExchangeLoop(engine)
    asked = [loop.open(model.exchange(some)) for some in (inputs, *([each] for each in inputs))]
    while loop.busy:
        loop.step()
    outcomes = loop.collect()
    for outcome in outcomes.values():
        if outcome.error is not None:
            raise outcome.error
    first, *others = ([str(a) for a in outcomes[number].answer] for number in asked)
    return [first, [alone for [alone] in others]]


def looked(model: Any, given: Any) -> dict[str, Any]:
    """The weights of its attention, or what it says where it has none."""
    try:
        trace = model.look(given)
    except ValueError as error:
        return {"refused": str(error)}
    sums = [float((one.values.sum(-1) - 1).abs().max()) for one in trace.weights]
    return {"weights": [one.name for one in trace.weights], "off": max(sums)}


def damaged(place: Path) -> dict[str, str | None]:
    """What is said to a copy of the checkpoint with one bit of one file turned over, by file."""
    best, seen = place / "whole" / "best", {}
    for path in sorted(best.iterdir()):
        sound = path.read_bytes()
        broken = bytearray(sound)
        broken[len(broken) // 2] ^= 1
        path.write_bytes(broken)
        seen[path.name] = refusal(regard.load, best, device="cpu")
        path.write_bytes(sound)
    return seen


def refusal(action: Callable[..., Any], *given: Any, **how: Any) -> str | None:
    """The one line that it says, or None."""
    try:
        action(*given, **how)
    except ValueError as error:
        return str(error)
    return None


def bodies(table: dict[str, Line], place: Path) -> dict[str, dict[str, Any]]:
    """Every task from the model of every other: what the log says, or what is refused."""
    seen: dict[str, dict[str, Any]] = {}
    for task, line in table.items():
        seen[task] = {}
        for parent in (name for name in table if name != task):
            out = place / task / f"from-{parent}"
            start = place / parent / "whole"
            try:
                no = refusal(train, bare(settings_of(task, line)) | ONCE, out, start=start)
                seen[task][parent] = {"refused": no} if no else {"said": said(out)}
            except Exception:
                seen[task][parent] = {"failed": traceback.format_exc()}
    return seen


def lives(place: Path) -> dict[str, Any]:
    """All of it for every task; a failure is the task's own."""
    seen, table = {}, lines(place)
    for task, line in table.items():
        (place / task).mkdir()
        try:
            seen[task] = life(task, line, place / task)
        except Exception:
            seen[task] = {"failed": traceback.format_exc()}
    alive = {task: line for task, line in table.items() if "failed" not in seen[task]}
    for task, parents in bodies(alive, place).items():
        seen[task]["bodies"] = parents
    return seen


if __name__ == "__main__":
    settle()
    checkpoint.disk = Quick()
    torch.set_num_threads(1)
    os.environ["REGARD_CACHE"] = str(Path(sys.argv[1]) / "cache")
    print(json.dumps(lives(Path(sys.argv[1]))))

"""Train the models that come with Regard from their recipes, side by side on one GPU.

    python scripts/make_corpus.py fra.txt.gz parallel-en-fr data/en-fr --test regard/samples/everyday.tsv
    python scripts/make_copies.py data/en-fr
    python scripts/make_encoder_data.py data/en-fr data/encoder --english BOOKS --french BOOKS
    regard import stories15M.bin runs/stories15m
    python scripts/make_models.py --out runs --seconds 1700

Trains the encoder, and the translator by its teacher, the teacher's pairs and the student; then scores both translators
and writes and learns the stories. Each command logs to OUT/logs/NAME.log. What ended well before is not done again, a
training that was stopped is resumed. After `--seconds` what still runs is asked to stop and keeps what it has.
`-s student:training.steps=30000` changes a setting of a recipe; `--only` names some of the commands. Then
`scripts/ship_model.py` writes each model into the box.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

GRACE = 40.0  # seconds that a training has to save what it learnt
TRAIN = ("-m", "regard", "train")
DATA = "data/en-fr"


@dataclass
class Job:
    """A command of this Python, which begins when those it waits for have ended well."""

    name: str
    words: Sequence[str]
    after: tuple[str, ...] = ()
    run: Path | None = None
    """The folder of a training, which is resumed if it was stopped."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self, logs: Path) -> None:
        """Begin, with all output in a file."""
        words = [*self.words, *(["--resume"] if self.run is not None and self.run.exists() else [])]
        with (logs / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )


def jobs(out: Path, settings: Iterable[str] = ()) -> list[Job]:
    """Every command, with changed settings behind those of the job they name."""

    def trained(name: str, recipe: str, *, after: tuple[str, ...] = (), words: Sequence[str] = ()) -> Job:
        run = out / name
        return Job(name, [*TRAIN, f"recipes/{recipe}.yaml", "--out", str(run), *words], after, run)

    def script(name: str, *words: object, after: tuple[str, ...]) -> Job:
        return Job(name, [f"scripts/{words[0]}.py", *map(str, words[1:])], after)

    def scored(name: str) -> Job:
        told = out / "logs" / f"{name}.json"
        return script(f"{name}-scores", "score_translator", out / name, DATA, "--json", told, after=(name, "pairs"))

    stories = (out / "stories15m", out / "teacher", "data/stories")
    retold = (out / "stories15m", out / "student", "data/stories-french")
    found = [
        trained("encoder", "encoder"),
        trained("teacher", "translator-teacher"),
        trained("matching", "encoder-matching", after=("encoder",), words=["--from", str(out / "encoder")]),
        script("pairs", "make_pairs", DATA, out / "teacher", "--processes", 2, "--beams", 4, after=("teacher",)),
        script("check", "make_corpus", "--check", DATA, after=("pairs",)),
        trained("student", "translator", after=("pairs",)),
        script("drawn", "make_stories", *stories, after=("pairs",)),
        script("joined", "make_stories", "--join", stories[-1], after=("drawn",)),
        trained("stories", "stories", after=("joined",)),
        script("retold", "make_stories", *retold, "--count", 2000, after=("student", "drawn")),
        script("rejoined", "make_stories", "--join", retold[-1], after=("retold",)),
        trained(
            "stories-french", "stories-french", after=("stories", "rejoined"), words=["--from", str(out / "stories")]
        ),
        scored("teacher"),
        scored("student"),
    ]
    named = {job.name: job for job in found}
    for setting in settings:
        name, _, change = setting.partition(":")
        if name not in named or "=" not in change:
            raise SystemExit(f"-s {setting}: say JOB:NAME=VALUE; the jobs are {', '.join(named)}")
        named[name].words = [*named[name].words, change]
    return found


def work(todo: Sequence[Job], logs: Path, *, seconds: float, pause: float = 0.5) -> list[str]:
    """Run all jobs, each as early as possible; the names of those that failed, were stopped or never began.

    A file `NAME.done` beside the logs says that a job ended well.
    """
    logs.mkdir(parents=True, exist_ok=True)
    done = {job.name for job in todo if (logs / f"{job.name}.done").exists()}
    named, lost = {job.name for job in todo}, set[str]()
    began = time.monotonic()
    while left := [job for job in todo if job.name not in done | lost]:
        for job in left:
            if job.process is None and set(job.after) & named <= done:
                _say(began, f"{job.name} begins")
                job.start(logs)
            elif job.process is None and set(job.after) & lost:
                lost.add(job.name)
            elif job.process is not None and (code := job.process.poll()) is not None:
                _say(began, f"{job.name} ended with {code}")
                (done if code == 0 else lost).add(job.name)
                if code == 0:
                    (logs / f"{job.name}.done").touch()
        if time.monotonic() - began > seconds:
            _stop([job.process for job in left if job.process is not None])
            lost |= {job.name for job in left}
        time.sleep(pause)
    return [job.name for job in todo if job.name in lost]


def _say(began: float, text: str) -> None:
    print(f"{time.monotonic() - began:7.0f} s  {text}", flush=True)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask to end, and insist after a while."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.send_signal(signal.SIGTERM)
    end = time.monotonic() + GRACE
    for process in running:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where the runs go, and stories15m lies")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="when to stop what still runs")
    parser.add_argument("--only", nargs="+", metavar="JOB", help="of these commands; what they wait for is there")
    parser.add_argument("-s", "--set", action="append", default=[], metavar="JOB:NAME=VALUE", help="change a recipe")
    asked = parser.parse_args()
    found = jobs(asked.out, asked.set)
    if unknown := sorted(set(asked.only or ()) - {job.name for job in found}):
        parser.error(f"no job is called {unknown[0]}: {', '.join(job.name for job in found)}")
    if server := shutil.which("nvidia-cuda-mps-control"):  # kernels of several processes at the same time
        subprocess.run([server, "-d"], check=False)
    lost = work(
        [job for job in found if not asked.only or job.name in asked.only], asked.out / "logs", seconds=asked.seconds
    )
    if lost:
        raise SystemExit(f"not done: {', '.join(lost)}; {asked.out / 'logs'} says why, the same command continues")


if __name__ == "__main__":
    main()

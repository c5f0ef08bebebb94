"""What a run tells, and where."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

from rich.console import Console

from regard.training.log import Log, drop_records

SAMPLE = {"source": "Le chat " + "très " * 30, "reference": "The cat", "answer": "The\ncat"}


def told(folder: Path, *, terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80, color_system=None, legacy_windows=False)
    with Log(folder, console=console) as log:
        log.note("resuming from step 100")
        values = {"loss": 3.21456, "tokens_per_second": 12345.6, "rate": 0.000698, "skipped": 0}
        log.step(100_000, values, total=200_000, seconds_left=7000.0)
        log.best(19.234)
        log.advance(100_000, 0.5)
        found = {"loss": 2.9, "bleu": 19.234}
        log.evaluation(100_000, found, [SAMPLE] * 5, kind="evaluation", best=True, seconds=12.3456)
        log.note_checkpoint(100_000, folder / "checkpoints" / "step-100000")
    return stream.getvalue()


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    lines = told(tmp_path, terminal=False).splitlines()
    assert lines[0] == "resuming from step 100"
    assert lines[1] == "step 100000 of 200000  loss 3.215 12.3k tokens/s rate 7.0e-04  117 min left"
    assert lines[2] == "step 100000  evaluation: loss 2.9  bleu 19.23  (best so far)"
    assert lines[5] == "    answer    The cat"
    assert max(map(len, lines)) <= 80
    assert len(lines) == 3 + 2 * 3, "two samples are enough for a terminal"
    assert "\x1b" not in "".join(lines)


def test_losses_of_two_networks_share_a_line_of_eighty_columns(tmp_path: Path) -> None:
    stream = io.StringIO()
    values = {"discriminator_loss": 1.3484, "generator_loss": 0.71123, "pictures_per_second": 5689.6, "rate": 0.0004}
    with Log(tmp_path, console=Console(file=stream, width=200)) as log:
        log.step(12_000, values, total=100_000, seconds_left=170.0)
    said = "step 12000 of 100000  loss 1.348/0.7112 5690 pictures/s rate 4.0e-04  3 min left"
    assert (stream.getvalue(), len(said)) == (said + "\n", 80)
    [record] = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert record["generator_loss"] == 0.71123


def test_a_bar_that_fits_eighty_columns_on_a_terminal(tmp_path: Path) -> None:
    text = told(tmp_path, terminal=True)
    bar = [line for line in text.replace("\r", "\n").split("\n") if "━" in line][-1]
    assert "step 100000 loss 3.215 12.3k tokens/s rate 7.0e-04 best 19.23" in bar
    assert "…" not in bar
    assert "evaluation: loss 2.9" in text


def test_the_bar_shows_what_is_prepared_before_training_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("regard.data.progress.LINE_SECONDS", 0.0)
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=True, width=80)
    with Log(tmp_path, console=console) as log:
        log.prepare("pictures read", 256, 1024)
        log._bar.refresh()
        log.prepare("pictures read", 1024, 1024)
    assert "256 of 1,024 pictures read" in heard.getvalue()
    lines = (tmp_path / "train.log").read_text(encoding="utf-8").splitlines()
    assert [line.partition(" 256")[1] for line in lines] == [" 256"]


def test_everything_goes_to_the_files_and_quiet_means_only_there(tmp_path: Path, capsys) -> None:
    told(tmp_path, terminal=False)
    with Log(tmp_path, quiet=True) as log:
        log.note("psst")
        log.step(2, {"loss": float("nan")})
    text = (tmp_path / "train.log").read_text()
    assert "saved checkpoints/step-100000" in text
    assert "psst" in text
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert records[1] == {"step": 100_000, "kind": "evaluation", "loss": 2.9, "bleu": 19.234, "seconds": 12.346}
    assert records[2] == {"step": 2, "kind": "training", "loss": None}
    assert capsys.readouterr() == ("", "")


def test_curves_for_tensorboard_stay_in_the_run_folder(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Log(tmp_path, quiet=True, tensorboard=True) as log:
        log.step(1, {"loss": 2.0})
        log.step(2, {"loss": 1.0})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("training/loss")] == [(1, 2.0), (2, 1.0)]


def test_forgetting_keeps_only_whole_lines_up_to_a_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": step, "kind": kind} for step in (1, 2, 3) for kind in ("training", "evaluation")]
    lines.insert(3, {"step": 2, "kind": "average"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 1, "ki')
    drop_records(path, after=2)
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["kind"]) for line in kept] == [
        (1, "training"),
        (1, "evaluation"),
        (2, "training"),
        (2, "evaluation"),
    ]
    drop_records(tmp_path / "none.jsonl", after=2)


def test_going_back_forgets_what_lay_beyond_and_keeps_what_was_wrong_there(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Log(tmp_path, quiet=True, tensorboard=True) as log:
        for step in (1, 2, 3):
            log.step(step, {"loss": float(step), "skipped": 1})
        time.sleep(1.1)  # files of events are named, and read, by the second
        log.rewind(1, {"skipped": 2, "rolled_back": 1})
        log.step(2, {"loss": 7.0, "skipped": 0})
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(record["step"], record["kind"]) for record in records] == [(1, "training"), (2, "fault"), (2, "training")]
    assert sum(record["skipped"] for record in records) == 3
    drop_records(tmp_path / "metrics.jsonl", after=1)  # resumed there, the run will go back, and say so, once more
    assert "rolled_back" not in (tmp_path / "metrics.jsonl").read_text()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("training/loss")] == [(1, 1.0), (2, 7.0)]


def test_wrong_answers_are_shown_first_and_others_stay_in_their_order(tmp_path: Path) -> None:
    stream = io.StringIO()
    samples = [{"picture": str(n), "truth": "cat", "answer": "dog" if n in (2, 4) else "cat"} for n in range(5)]
    with Log(tmp_path, console=Console(file=stream, width=80, color_system=None, legacy_windows=False)) as log:
        log.evaluation(1, {"loss": 1.0}, samples, kind="evaluation", best=False, seconds=1.0)
        log.evaluation(2, {"loss": 1.0}, samples[:2], kind="evaluation", best=False, seconds=1.0)
    pictures = [line.split()[1] for line in stream.getvalue().splitlines() if line.split()[0] == "picture"]
    assert pictures == ["2", "4", "0", "1"]

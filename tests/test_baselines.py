"""Models compared on texts that none of them saw; what was interrupted goes on; the best is kept and used."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from regard import baselines, load, recipe
from regard.baselines import BaselineComparison, Entry, Interrupted, compare_baselines
from regard.data.holdout import sentence
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.training import history
from regard.training.task import Given

GOOD, BAD = ("fine", "great", "lovely", "superb"), ("poor", "awful", "boring", "dull")
THINGS = ("film", "play", "book", "song", "actor", "story", "scene", "end")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled sentences, and some without labels, among them all the labelled ones once more."""
    folder, chance = tmp_path_factory.mktemp("texts"), random.Random(0)
    rows = []
    for number in range(240):
        label = number % 2
        word = chance.choice((BAD, GOOD)[label])
        rows.append(
            (f"the {chance.choice(THINGS)} was {word} and the {chance.choice(THINGS)} {number} too", "bg"[label])
        )
    (folder / "labelled.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    lines = [f"a {chance.choice(GOOD + BAD)} {chance.choice(THINGS)} number {n}." for n in range(60)]
    lines += [text.upper() for text, _ in rows]
    (folder / "more.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    return folder


SMALL = {"width": 16, "heads": 2, "hidden": 32, "depth": 1, "context": 32, "dropout": 0.0}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Runs of a few steps; which were asked for, with what."""
    train, asked = recipe.train, []

    def shortened(given: Any, **options: Any) -> Any:
        settings = given.settings if isinstance(given, recipe.Order) else given
        asked.append((Path(options["out"]).name, settings))
        steps = {"steps": 6, "eval_every": 6, "save_every": 3, "tensorboard": False, "device": "cpu"}
        changed = {**settings, "training": {**settings.get("training", {}), **steps}}
        if settings["task"] == "masked-lm":
            changed |= {
                "model": {**settings.get("model", {}), **SMALL},
                "data": {**settings["data"], "context": 32, "batch_size": 4},
            }
            changed["tokenizer"] = {"vocab": 400}
        return train(changed, **options)

    monkeypatch.setattr(baselines.recipe, "train", shortened)
    return asked


def order(texts: Path) -> recipe.Order:
    return recipe.order([], "training.device=cpu", inputs=Given((str(texts / "labelled.tsv"),), kind="labelled"))


def test_all_are_scored_on_the_same_texts_which_none_of_them_saw(
    texts: Path, quick: list[tuple[str, Any]], tmp_path: Path
) -> None:
    found = compare_baselines(order(texts), [str(texts / "more.jsonl")], out=tmp_path / "run", quiet=True)
    assert [one.name for one in found.entries] == ["commonest label", "linear", "scratch", "tuned"]
    assert [name for name, _ in quick] == ["linear", "pretrained", "scratch", "tuned"]
    held = [json.loads(line)["text"] for line in (tmp_path / "run/data/held-out.jsonl").read_text().splitlines()]
    learnt = [json.loads(line)["text"] for line in (tmp_path / "run/data/train.jsonl").read_text().splitlines()]
    assert len(held) == 24
    assert not {sentence(text) for text in held} & {sentence(text) for text in learnt}
    assert all([each.given for each in one.scores.examples] == held for one in found.entries)
    [read] = json.loads((tmp_path / "run/pretrained/data.json").read_text())["train"]["corpora"]
    assert read["documents"]["dropped"]["also held out"]["count"] == 24, "the copies in capitals of those held out"
    assert read["documents"]["kept"] == 216 + 60 + 216
    best = load(tmp_path / "run" / "best", device="cpu")
    assert best.classify(["the film was great"])[0].label in ("b", "g")
    told = json.loads((tmp_path / "run/contest.json").read_text())
    assert told["best"] == found.winner.name
    assert found.winner.accuracy == max(one.accuracy for one in found.entries[1:])
    assert [row[0] for row in found.rows()] == list(baselines.DESCRIPTIONS.values())
    assert "pre-training was" in found.verdict


def test_from_scratch_is_the_same_network_at_a_rate_that_suits_its_width(
    texts: Path, quick: list[tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SMALL, "width", 160)
    compare_baselines(order(texts), [str(texts / "more.jsonl")], out=tmp_path / "run", quiet=True)
    known = {name: recipe.open_model(tmp_path / "run" / name).config["model"] for name in ("scratch", "tuned")}
    same = [{name: own[name] for name in ("width", "heads", "hidden", "depth")} for own in known.values()]
    assert same[0] == same[1]
    kinds = [(own["norm"], own["positions"], own["pool"]) for own in known.values()]
    assert kinds == [("pre", "rotary", "mean")] * 2
    assert dict(quick)["scratch"]["optim"]["learning_rate"] == pytest.approx(0.15 / 160)


def test_what_is_done_is_not_done_again_and_what_was_interrupted_goes_on(
    texts: Path, quick: list[tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, train, other = tmp_path / "run", baselines.recipe.train, tmp_path / "other.tsv"
    lines = (texts / "labelled.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    other.write_text("".join(lines[:100]), encoding="utf-8")

    def stopped(settings: Any, **options: Any) -> Any:
        if Path(options["out"]).name == "scratch":
            raise Interrupted("now")
        return train(settings, **options)

    monkeypatch.setattr(baselines.recipe, "train", stopped)
    with pytest.raises(Interrupted):
        compare_baselines(order(texts), [str(texts / "more.jsonl")], out=whole, quiet=True)
    monkeypatch.setattr(baselines.recipe, "train", train)
    with pytest.raises(ValueError, match=r"a comparison that has not finished: go on with the same command and resume"):
        load(whole)
    assert history.summarise_run(whole).reason == "compares models, 2 trained"
    with pytest.raises(ValueError, match="is not empty: add --resume"):
        compare_baselines(order(texts), [str(texts / "more.jsonl")], out=whole, quiet=True)
    quick.clear()
    others = recipe.order([], inputs=Given((str(other),), kind="labelled"))
    with pytest.raises(ValueError, match="compares models on other texts"):
        compare_baselines(others, [str(texts / "more.jsonl")], out=whole, resume=True, quiet=True)
    assert not quick
    found = compare_baselines(order(texts), [str(texts / "more.jsonl")], out=whole, resume=True, quiet=True)
    assert [name for name, _ in quick] == ["scratch", "tuned"]
    assert (whole / "best").is_dir()
    assert load(whole, device="cpu").model.config == load(whole / "best", device="cpu").model.config
    assert len(found.entries) == 4


def scored(name: str, right: int, *, wrong_elsewhere: int = 0, texts: int = 150) -> Entry:
    """An entry that answers so many texts right, some of them others than the first ones."""
    worth = [1.0] * right + [0.0] * (texts - right)
    worth = worth[wrong_elsewhere:] + worth[:wrong_elsewhere]
    examples = [Judged(number, "", "g", "g" if one else "b", one) for number, one in enumerate(worth, start=1)]
    statistics = {"accuracy, %": mean_statistics([100 * one for one in worth])}
    return Entry(name, Scores(name, "classification", statistics, examples), 1.0, Path(name))


def judged(*entries: Entry) -> BaselineComparison:
    beaten = baselines._find_beaten(entries)
    return BaselineComparison(Path("runs/compared"), list(entries), beaten, "regard classify {folder}")


def test_a_lead_of_one_text_in_a_hundred_and_fifty_is_not_beyond_chance() -> None:
    linear, scratch = scored("linear", 128, wrong_elsewhere=9), scored("scratch", 90)
    found = judged(scored("commonest label", 75), linear, scratch, scored("tuned", 129))
    assert [row[1] for row in found.rows()][1::2] == ["85.33 ± 5.7", "86.00 ± 5.3"]
    assert found.winner.name == "tuned"
    assert found.conclusions == [
        "better beyond chance than commonest label and scratch",
        "not beyond chance better than linear",
        "pre-training helped, but is not beyond chance better than the linear model",
    ]
    assert found.plain()["judgement"] == found.conclusions
    assert all(line in found.verdict.splitlines() for line in found.conclusions)


def test_pre_training_is_worth_it_where_it_beats_all_that_cost_less() -> None:
    others = [scored("commonest label", 75), scored("linear", 100), scored("scratch", 90)]
    found = judged(*others, scored("tuned", 140))
    best = "better beyond chance than commonest label, linear and scratch"
    assert found.conclusions == [best, "pre-training was worth it"]
    level = judged(*others[:2], scored("scratch", 99, wrong_elsewhere=20), scored("tuned", 98))
    assert level.winner.name == "linear"
    assert level.conclusions[1:] == [
        "not beyond chance better than scratch and tuned",
        "pre-training was not worth it beyond chance",
    ]


def test_the_command_prints_a_table_and_either_kind_of_text_works_alone(
    texts: Path, quick: list[tuple[str, Any]], tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from regard.cli import app

    names = [str(texts / "labelled.tsv"), "--unlabelled", str(texts / "more.jsonl"), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["train", "--labelled", *names, "--device", "cpu"], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert "24 held-out texts" in done.stdout
    assert all(name in done.stdout for name in ("linear:", "scratch:", "tuned:"))
    assert f"regard classify {tmp_path / 'run' / 'best'}" in done.stdout.replace("\n", "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if str(tmp_path) not in line)
    assert "beyond chance" in done.stdout
    for words in (
        ["evaluate", str(tmp_path / "run"), str(texts / "labelled.tsv"), "--device", "cpu"],
        ["classify", str(tmp_path / "run"), "the film was great", "--device", "cpu"],
        ["cost", str(tmp_path / "run")],
    ):
        used = CliRunner().invoke(app, words)
        assert used.exit_code == 0, used.output
    listed = json.loads(CliRunner().invoke(app, ["runs", "--in", str(tmp_path), "--json"]).stdout)
    assert [(run["run"], run["state"]) for run in listed] == [(str(tmp_path / "run"), "finished")]
    assert listed[0]["why"].startswith("4 compared, the best is ")
    inside = json.loads(CliRunner().invoke(app, ["runs", "--in", str(tmp_path / "run"), "--json"]).stdout)
    assert [Path(run["run"]).name for run in inside] == ["linear", "pretrained", "scratch", "tuned"]
    alone = ["train", "--unlabelled", str(texts / "more.jsonl"), "--out", str(tmp_path / "read"), "--device", "cpu"]
    done = CliRunner().invoke(app, alone)
    assert done.exit_code == 0, done.output
    assert quick[-1][0] == "read"
    assert load(tmp_path / "read", device="cpu").fill("the [MASK] was great")


def test_nothing_is_lost_and_nothing_trained_before_all_files_are_there(
    texts: Path, quick: list[tuple[str, Any]], tmp_path: Path
) -> None:
    mine = tmp_path / "letters"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear reader", encoding="utf-8")
    for how in ({"overwrite": True}, {"resume": True}, {}):
        with pytest.raises(ValueError, match="holds something else than a comparison"):
            compare_baselines(order(texts), [str(texts / "more.jsonl")], out=mine, quiet=True, **how)
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]
    with pytest.raises(ValueError, match="nowhere"):
        compare_baselines(order(texts), ["nowhere.txt"], out=tmp_path / "run", quiet=True)
    assert not quick
    assert not (tmp_path / "run").exists()

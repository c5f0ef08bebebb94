"""Files and folders have the names that people give them: every command reads, trains, writes and prints them whole."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli import run
from tests.conftest import sentences
from tests.data.images.drawing import fill

NAMES = ["été-à-Noël", "-commence=par.un.tiret", "deux mots", "l'an [2] (copie)", 'dit "non"', "100% & prêt; #1"]
"""Names that a shell, a pattern, a setting or an option may mistake for something else."""

TRAINING = "training.steps=2 training.eval_every=2 training.save_every=2 training.tensorboard=false --device cpu"
CLASSIFIER = "data.batch_tokens=64 model.name=rnn-encoder model.width=8 model.embedding=8 model.pool=attention"
TRANSLATOR = "data.batch_tokens=256 tokenizer.vocab=320 model.width=16 model.heads=2 model.hidden=16 model.encoder=1"
TRANSLATOR += " model.decoder=1 objective.eval_examples=2 decoding.longest=12"
PICTURES = "data.batch_size=4 data.size=8 model.width=16 model.heads=2 model.hidden=16 model.depth=1 model.patch=4"

pytestmark = [pytest.mark.unchecked, pytest.mark.parametrize("name", NAMES)]


class Walk:
    """Commands that somebody types one after the other in a folder of any name."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def answer(self, *words: str) -> str:
        """Run a command that must answer, and return what it printed."""
        status = run(list(words))
        out, errors = self.capsys.readouterr()
        assert status == 0, f"regard {shlex.join(words)}: {errors}"
        return out

    def train(self, *words: str) -> Path:
        """Train a model into the folder that is chosen for it and return that; the command shown for it names it."""
        *_, hint = self.answer("train", *words).splitlines()
        [run_folder] = (self.folder / "runs").iterdir()
        shown = subprocess.run(
            ["sh", "-c", f"printf '%s\\n' {hint.partition(': ')[2]}"], capture_output=True, text=True
        )
        assert f"runs/{run_folder.name}" in shown.stdout.splitlines(), f"cannot be pasted into a shell: {hint}"
        return Path("runs") / run_folder.name

    def look_at_the_run(self, model: Path) -> None:
        """What every run can be asked."""
        assert self.answer("cost", str(model), "--json")
        assert json.loads(self.answer("runs", "--json"))
        assert self.answer("runs", "diff", str(model), str(model))


@pytest.fixture
def walk(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Walk:
    folder = tmp_path / f"dossier {name}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Walk(folder, capsys)


def plain(answers: Any) -> list[Any]:
    """Answers as JSON has them."""
    return [json.loads(json.dumps(answer.plain())) for answer in answers]


def test_a_classifier_of_texts_is_trained_used_scored_and_explained(name: str, walk: Walk):
    table, texts = f"./{name}.csv", f"./{name}.txt"
    rows = [f"{word} film {n},{word}" for n in range(20) for word in ("good", "bad")]
    Path(table).write_text("\n".join(["text,label", *rows, ""]), encoding="utf-8")
    Path(texts).write_text("good film\nbad film\n", encoding="utf-8")
    model = walk.train("--labelled", table, *TRAINING.split(), *CLASSIFIER.split())
    expected = plain(regard.load(model, device="cpu").answer(["good film", "bad film"]))
    for command in (["classify", str(model), "-i", texts], ["classify", str(model), "good film", "bad film"]):
        answers = [json.loads(line) for line in walk.answer(*command, "--json", "--device", "cpu").splitlines()]
        assert [answer["label"] for answer in answers] == [answer["label"] for answer in expected]
    walk.answer("predict", str(model), "-i", texts, "-o", f"./{name}.jsonl", "--device", "cpu")
    assert len(Path(f"./{name}.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert json.loads(walk.answer("evaluate", str(model), table, "--json", "--device", "cpu"))
    walk.answer("explain", str(model), "good film", "-o", f"./{name}.html", "--device", "cpu")
    assert Path(f"./{name}.html").stat().st_size > 0
    walk.look_at_the_run(model)


def test_a_translator_is_trained_used_scored_and_explained(name: str, walk: Walk):
    french, english = f"./{name}.fr", f"./{name}.en"
    for path, side in ((french, 0), (english, 1)):
        Path(path).write_text("".join(f"{pair[side]}\n" for pair in sentences()), encoding="utf-8")
    model = walk.train(french, english, *TRAINING.split(), *TRANSLATOR.split())
    asked = [pair[0] for pair in sentences()[:3]]
    Path(f"./{name}.txt").write_text("".join(f"{text}\n" for text in asked), encoding="utf-8")
    expected = regard.load(model, device="cpu").translate(asked)
    assert walk.answer("translate", str(model), *asked, "--device", "cpu").splitlines() == expected
    walk.answer("translate", str(model), "-i", f"./{name}.txt", "-o", f"./{name}.out", "--device", "cpu")
    assert Path(f"./{name}.out").read_text(encoding="utf-8").splitlines() == expected
    assert json.loads(walk.answer("evaluate", str(model), french, english, "--json", "--device", "cpu"))
    walk.answer("explain", str(model), asked[0], "-o", f"./{name}.html", "--device", "cpu")
    assert Path(f"./{name}.html").stat().st_size > 0
    walk.look_at_the_run(model)


def test_a_classifier_of_pictures_is_trained_used_scored_and_explained(name: str, walk: Walk):
    photos = f"./{name}"
    fill(Path(photos), 6, ("blue", "red"))
    (Path(photos) / "red").rename(Path(photos) / f"rouge {name}")
    picture = f"{photos}/rouge {name}/00.png"
    model = walk.train("--pictures", photos, *TRAINING.split(), *PICTURES.split())
    [expected] = plain(regard.load(model, device="cpu").answer([picture]))
    for command in ("classify", "predict"):
        answer = json.loads(walk.answer(command, str(model), picture, "--json", "--device", "cpu"))
        assert answer["label"] == expected["label"]
        assert answer["label"] in ("blue", f"rouge {name}")
    assert json.loads(walk.answer("evaluate", str(model), photos, "--json", "--device", "cpu"))
    walk.answer("explain", str(model), picture, "-o", f"./{name}.png", "--device", "cpu")
    assert Path(f"./{name}.png").stat().st_size > 0
    walk.look_at_the_run(model)

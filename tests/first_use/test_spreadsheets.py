"""Tables as a French spreadsheet saves them: a byte order mark or Latin-1, semicolons, decimal commas, CRLF."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli import run
from tests.data.images.drawing import fill
from tests.first_use.kinds import sentences, tmx
from tests.tasks.graphs import small as graphs

UTF8, LATIN1 = "utf-8-sig", "cp1252"
Rows = Sequence[Sequence[str]]
TRAINING = "training.steps=1 training.tensorboard=false --out run --device cpu"
READER = "data.batch_tokens=64 model.name=rnn-encoder model.width=8 model.embedding=8 model.pool=attention"
TRANSLATOR = "data.batch_tokens=256 tokenizer.vocab=320 model.width=16 model.heads=2 model.hidden=16 model.encoder=1"
TRANSLATOR += " model.decoder=1 objective.eval_examples=2 decoding.longest=12"
VIT = "data.batch_size=4 data.size=8 model.width=16 model.heads=2 model.hidden=16 model.depth=1 model.patch=4"
CAPTIONER = "data.batch_size=4 data.size=8 data.max_length=12 model.width=8 model.embedding=8 model.encoder.name=vit"
CAPTIONER += " model.encoder.width=16 model.encoder.heads=2 model.encoder.hidden=16 model.encoder.depth=1"
CAPTIONER += " model.encoder.patch=4"

pytestmark = pytest.mark.unchecked


def decimal(number: float) -> str:
    """Write a number as it is written in French."""
    return f"{number:.2f}".replace(".", ",")


def reviews() -> Rows:
    """Forty opinions; commas are part of them, and one has a semicolon and a quotation mark."""
    rows = [[f"Un film à voir, numéro {n}", "réussi" if n % 2 else "raté"] for n in range(39)]
    return [["Critique", "Étiquette"], *rows, ['"Il a dit ""bravo"" ; et voilà"', "réussi"]]


def captions() -> Rows:
    return [["path", "caption"], *([f"photos/{label}/0{n}.png", f"un mur {label}, l'été"] for n, label in pictures())]


def labelled_pictures() -> Rows:
    return [["path", "label"], *([f"photos/{label}/0{n}.png", label] for n, label in pictures())]


def pictures() -> list[tuple[int, str]]:
    return [(n, label) for n in range(4) for label in ("blue", "red")]


def choices() -> Rows:
    rows = ([french, "Il dort", "Il court déjà", str(n % 2)] for n, (_, french) in enumerate(sentences()))
    return [["premise", "choice1", "choice2", "label"], *rows]


def nodes() -> Rows:
    features = ([decimal(row[0]), decimal(row[1])] for row in graphs.features().tolist())
    return [["id", "label", "a", "b"], *([f"n{n}", graphs.GROUPS[n % 2], *row] for n, row in enumerate(features))]


def edges() -> Rows:
    return [["source", "target"], *([f"n{one}", f"n{other}"] for one, other in graphs.pairs())]


def omic(name: str) -> Rows:
    rows = ([f"s{n}", decimal(n % 2 * 3 + 0.1 * n), decimal(0.2 * n)] for n in range(24))
    return [["sample", f"{name}1", f"{name}2"], *rows]


def states() -> Rows:
    return [["sample", "label"], *([f"s{n}", "malade" if n % 2 else "guéri"] for n in range(24))]


def ratings() -> Rows:
    rows = ([english, french, decimal(n % 5 + 0.5)] for n, (english, french) in enumerate(sentences()))
    return [["text1", "text2", "score"], *rows]


def questions() -> Rows:
    rows = (
        [f"Où est l'animal n° {n} ?", french, french.split()[-1].rstrip(".")]
        for n, (_, french) in enumerate(sentences())
    )
    return [["question", "context", "answer"], *rows]


class Desk:
    """A folder of tables from a spreadsheet, and commands that are typed there."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def save(self, name: str, rows: Rows, encoding: str = UTF8) -> str:
        """Save a table as the spreadsheet does."""
        Path(name).write_bytes("".join(f"{';'.join(row)}\r\n" for row in rows).encode(encoding))
        return name

    def run(self, *words: str) -> tuple[int, str, str]:
        """Return the status of a command, what it answered and what it said."""
        return run(list(words)), *self.capsys.readouterr()

    def answer(self, *words: str) -> str:
        """Return what a command answers that must."""
        status, out, errors = self.run(*words)
        assert status == 0, f"{' '.join(words)}: {errors}"
        return out

    def train(self, *words: str) -> Any:
        """Train a tiny model and load it."""
        self.answer("train", *words, *TRAINING.split())
        return regard.load("run", device="cpu")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(capsys)


@pytest.mark.parametrize("said", [["--labelled"], []])
def test_labelled_texts_are_read_in_their_columns(desk: Desk, said: list[str]):
    model = desk.train(*said, desk.save("avis.csv", reviews()), *READER.split())
    [verdict] = model.answer(["Un film raté"])
    assert set(verdict.all) == {"réussi", "raté"}
    assert json.loads(desk.answer("evaluate", "run", "avis.csv", "--json", "--device", "cpu"))


def test_pictures_and_captions_are_read_in_their_columns(desk: Desk):
    fill(Path("photos"), 4, ("blue", "red"))
    model = desk.train("--captions", desk.save("légendes.csv", captions()), *CAPTIONER.split())
    assert len(model.answer(["photos/red/00.png"])) == 1
    desk.answer("evaluate", "run", "légendes.csv", "--device", "cpu")


def test_pictures_and_labels_are_read_in_their_columns(desk: Desk):
    fill(Path("photos"), 4, ("blue", "red"))
    model = desk.train("--pictures", desk.save("images.csv", labelled_pictures()), *VIT.split())
    [verdict] = model.answer(["photos/red/00.png"])
    assert set(verdict.all) == {"blue", "red"}
    desk.answer("evaluate", "run", "images.csv", "--device", "cpu")


def test_choices_are_read_in_their_columns(desk: Desk):
    desk.train("--choices", desk.save("choix.csv", choices()), *READER.split())
    desk.answer("evaluate", "run", "choix.csv", "--device", "cpu")


def save_and_name(desk: Desk, kind: str, encoding: str = UTF8) -> list[str]:
    """Save the tables of a kind and return the words that train on them."""
    tables: dict[str, Callable[[], list[str]]] = {
        "labelled": lambda: ["--labelled", desk.save("avis.csv", reviews(), encoding)],
        "captions": lambda: ["--captions", desk.save("légendes.csv", captions(), encoding)],
        "choices": lambda: ["--choices", desk.save("choix.csv", choices(), encoding)],
        "ratings": lambda: ["--rated", desk.save("notes.csv", ratings(), encoding)],
        "questions": lambda: ["--questions", desk.save("questions.csv", questions(), encoding)],
        "pairs": lambda: ["--pairs", desk.save("paires.csv", [["English", "French"], *sentences()], encoding)],
        "graph": lambda: [
            *("--edges", desk.save("arêtes.csv", edges(), encoding)),
            *("--nodes", desk.save("nœuds.csv", nodes(), encoding)),
        ],
        "omics": lambda: [
            *("--tables", *(desk.save(f"{name}.csv", omic(name), encoding) for name in ("adn", "arn"))),
            *("--labels", desk.save("états.csv", states(), encoding)),
        ],
    }
    fill(Path("photos"), 4, ("blue", "red"))
    return tables[kind]()


def spread(words: list[str]) -> list[str]:
    """Repeat an option before each of its files, as the command line wants it."""
    option, spread_words = "", []
    for word in words:
        if word.startswith("--"):
            option = word
        else:
            spread_words += [option, word]
    return spread_words


@pytest.mark.parametrize("kind", ["graph", "omics", "ratings", "questions"])
def test_decimal_commas_and_semicolons_are_read_or_refused_by_their_place(kind: str, desk: Desk):
    words = spread(save_and_name(desk, kind))
    status, _, errors = desk.run("train", *words, *TRAINING.split())
    if status != 0:
        assert errors.count("\n") == 1
        assert any(f"{file}:{line}" in errors for file in words[1::2] for line in (1, 2)), errors


@pytest.mark.parametrize("kind", ["labelled", "captions", "choices", "questions", "pairs"])
def test_latin_1_is_read_with_its_accents_or_refused_for_what_it_is(kind: str, desk: Desk):
    words = spread(save_and_name(desk, kind, LATIN1))
    status, _, errors = desk.run("train", *words, *TRAINING.split())
    if status == 0:
        assert kind != "labelled" or "réussi" in regard.load("run").answer(["Un film"])[0].all
    else:
        assert errors.count("\n") == 1
        assert "UTF-8" in errors


def measures() -> Rows:
    rows = ([decimal(n + 0.5), decimal(n % 5 + 0.25), decimal(3 * n + 0.75)] for n in range(24))
    return [["Longueur", "Largeur", "Prix"], *rows]


def pairs() -> Rows:
    return [["English", "French"], *sentences()]


@pytest.mark.parametrize("said", [["--table"], []])
def test_numbers_with_decimal_commas_are_numbers(desk: Desk, said: list[str]):
    table = desk.save("mesures.csv", measures())
    model = desk.train(*said, table, "model.hidden=[8]")
    assert model.task == "regression"
    predicted = desk.answer("predict", "run", "-i", table, "--json", "--device", "cpu").splitlines()
    assert len(predicted) == 24
    assert all(isinstance(json.loads(line)["value"], float) for line in predicted)
    scores = json.loads(desk.answer("evaluate", "run", table, "--json", "--device", "cpu"))
    assert (scores["task"], scores["rows"]) == ("regression", 24)


@pytest.mark.parametrize("command", ["classify", "predict"])
def test_a_table_of_texts_is_labelled_row_by_row_without_its_heading_and_its_labels(desk: Desk, command: str):
    table = desk.save("avis.csv", reviews())
    model = desk.train(table, *READER.split())
    texts = [row[0] for row in reviews()[1:-1]] + ['Il a dit "bravo" ; et voilà']
    expected = [verdict.label for verdict in model.answer(texts)]
    answers = desk.answer(command, "run", "-i", table, "--json", "--device", "cpu").splitlines()
    assert [json.loads(answer)["label"] for answer in answers] == expected


@pytest.mark.parametrize("said", [["--pairs"], []])
def test_pairs_in_a_table_are_read_without_their_heading(desk: Desk, said: list[str]):
    model = desk.train(*said, desk.save("paires.csv", pairs()), *TRANSLATOR.split())
    assert model.task == "translation"
    assert len(model.translate(["The cat is in the house."])) == 1
    assert "20 good pairs" in desk.answer("data", "check", "paires.csv")
    assert json.loads(desk.answer("evaluate", "run", "paires.csv", "--json", "--device", "cpu"))["sentences"] == 20


def test_the_heading_of_pairs_between_tabs_is_not_trained_on(desk: Desk):
    Path("pairs.tsv").write_bytes(b"\xef\xbb\xbf" + "".join("\t".join(row) + "\r\n" for row in pairs()).encode())
    assert "20 good pairs" in desk.answer("data", "check", "pairs.tsv")


@pytest.mark.parametrize("command", [["data", "check"], ["data", "check", "--pairs"]])
def test_a_translation_memory_is_read_as_pairs(desk: Desk, command: list[str]):
    Path("mémoire.tmx").write_bytes(tmx())
    assert "can be trained on" in desk.answer(*command, "mémoire.tmx")


def test_a_translation_memory_is_no_running_text(desk: Desk):
    Path("mémoire.tmx").write_bytes(tmx())
    status, _, errors = desk.run("train", "--text", "mémoire.tmx")
    assert status == 1
    assert errors.startswith("regard: mémoire.tmx is a translation memory (TMX), whose tags would be learnt: train a")


@pytest.mark.filterwarnings("ignore:.* is a heading and left out")
@pytest.mark.parametrize("encoding", [UTF8, LATIN1])
def test_a_glossary_is_obeyed_or_refused_for_its_encoding(desk: Desk, encoding: str):
    terms = desk.save("glossaire.csv", [["English", "French"], ["house", "demeure dorée"]], encoding)
    status, out, errors = desk.run(*f"translate --to fr --device cpu --terms {terms}".split(), "The house is old.")
    if encoding == LATIN1 and status == 1:
        assert errors.count("\n") == 1
        assert "UTF-8" in errors
    else:
        assert status == 0, errors
        assert "demeure dorée" in out


TRAINED_ON = {
    "texts": (lambda desk: [desk.save("avis.csv", reviews())], READER),
    "table": (lambda desk: [desk.save("mesures.csv", measures())], "model.hidden=[8]"),
    "pairs": (lambda desk: [desk.save("paires.csv", pairs())], TRANSLATOR),
}


@pytest.mark.parametrize("kind", TRAINED_ON)
def test_a_score_on_the_file_that_was_trained_on_says_so(desk: Desk, kind: str):
    save, settings = TRAINED_ON[kind]
    files = save(desk)
    desk.train(*files, *settings.split())
    status, out, errors = desk.run("evaluate", "run", *files, "--device", "cpu")
    assert status == 0, errors
    assert "trained on" in out + errors

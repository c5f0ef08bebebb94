"""Files of pairs whose heading names languages: measured, trained on and validated on in the direction it says."""

from pathlib import Path

import pytest

import regard
from regard import config
from regard.cli import run
from regard.data.pair_headings import is_pair_heading, language_columns, named_language
from regard.data.readers import Corpus
from regard.data.testset import read
from regard.tasks.recognition import choose_task
from regard.tasks.translation.directions import Direction
from regard.tasks.translation.pairs import PairsConfig
from regard.training.task import Given

pytestmark = pytest.mark.unchecked  # whole runs, whose parts are checked elsewhere

SHORT = ["training.steps=2", "training.tensorboard=false", "training.device=cpu"]
PAIRS = [(f"the cat {n} sees", f"le chat {n} voit") for n in range(40)]
ORDERS = {
    "english.tsv": ("English\tFrench", "{0}\t{1}"),
    "french.tsv": ("French\tEnglish", "{1}\t{0}"),
    "numbered.tsv": ("id\tEnglish\tFrench", "7\t{0}\t{1}"),
    "codes.csv": ("Langue cible (FR);Langue source (EN)", "{1};{0}"),
    "three.csv": ("German,French,English", "die Katze,{1},{0}"),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same pairs in files that are laid out in different ways."""
    monkeypatch.chdir(tmp_path)
    for name, (heading, line) in ORDERS.items():
        text = "".join(f"{row}\n" for row in [heading, *(line.format(*pair) for pair in PAIRS)])
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


def sources(name: str, direction: Direction, to: str | None = None) -> str:
    columns, _ = direction.choose_columns(name, to)
    return "English" if read(Corpus(path=name, columns=columns)) == PAIRS else "French"


@pytest.mark.parametrize("name", ORDERS)
def test_a_test_file_is_translated_into_the_language_that_is_asked_for(files, name):
    two = Direction(("en", "fr"), reads=("en", "fr"))
    assert sources(name, two, "fr") == sources(name, Direction(trained=("en", "fr"))) == "English"
    assert sources(name, Direction(("fr",), reads=("en",))) == "English"
    assert sources(name, two, "en") == sources(name, Direction(trained=("fr", "en"))) == "French"


def test_where_nobody_asks_a_file_is_translated_from_its_first_language_to_its_second(files):
    two = Direction(("en", "fr"))
    assert two.choose_columns("french.tsv", None) == ((1, 2), "en")
    assert two.choose_columns("numbered.tsv", None) == ((2, 3), "fr")
    assert Direction().choose_columns("numbered.tsv", None) == ((2, 3), None)


@pytest.mark.parametrize(
    ("direction", "to"),
    [
        (Direction(("en", "es"), reads=("en", "es"), name="small"), "es"),
        (Direction(trained=("en", "es"), name="small"), None),
        (Direction(("es", "de"), name="small"), None),
    ],
)
def test_a_file_of_other_languages_is_refused_with_the_option_that_names_columns(files, direction, to):
    with pytest.raises(ValueError, match=r"english\.tsv has columns of en and fr.* with --columns$"):
        direction.choose_columns("english.tsv", to)


def test_a_translator_of_one_direction_knows_it_and_leaves_the_heading_out(files, capsys):
    regard.train("english.tsv", *SHORT, out="run", quiet=True)
    regard.train("french.tsv", *SHORT, "training.seed=1", out="back", quiet=True)
    for name in ORDERS:
        assert [e.given for e in regard.load("run").evaluate(name).examples] == [source for source, _ in PAIRS], name
        assert [e.given for e in regard.load("back").evaluate(name).examples] == [target for _, target in PAIRS], name
    Path("answers.txt").write_text("x\n" * len(PAIRS))
    judged = regard.load("back").judge("answers.txt", "numbered.tsv", name="answers", to="en")
    assert [(example.given, example.right) for example in judged.examples] == [pair[::-1] for pair in PAIRS]
    capsys.readouterr()
    assert run(["evaluate", "run", "numbered.tsv", "--against", "answers.txt"]) == 0


def test_training_and_validation_files_go_in_the_direction_of_the_first(files):
    for given in (
        Given(("english.tsv", "french.tsv"), valid=("codes.csv", "french.tsv", "numbered.tsv")),
        Given(("french.tsv",), valid=("english.tsv",), to="fr"),
    ):
        _, claim = choose_task(given)
        data = config.build(PairsConfig, claim.data, where="data")
        assert all(read(corpus) == PAIRS for corpus in (*data.train, *data.valid))


def test_training_files_of_other_languages_are_refused(files):
    Path("german.tsv").write_text("German\tFrench\n" + "die Katze sieht\tle chat voit\n" * 3)
    with pytest.raises(ValueError, match=r"german\.tsv has columns of de and fr, and english\.tsv those of en and fr"):
        choose_task(Given(("english.tsv", "german.tsv")))
    with pytest.raises(ValueError, match=r"english\.tsv has columns of en and fr, and de is asked for"):
        choose_task(Given(("english.tsv",), to="de"))


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        (("Langue source (EN)", "Langue cible (FR)"), (1, 2)),
        (("id", "Target language: French", "Source language: English"), (3, 2)),
        (("source_en", "target_fr"), (1, 2)),
        (("Text (EN)", "Texte (FR)"), (1, 2)),
        (("the source of the river", "la cible (FR)"), None),
        (("source text", "texte source"), None),
        (("open (en)", "ouvrir (fr)"), None),
    ],
)
def test_headings_with_sides_and_codes_are_told_from_pairs(cells, columns):
    assert language_columns(cells) == columns
    assert is_pair_heading(*cells[-2:]) == (columns is not None)
    assert named_language("Source (EN)") == named_language("English (US)") == "en"

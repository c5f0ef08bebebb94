"""Files are seen for what they are; what could be two things is asked, with the words that decide."""

import gzip
import json
import random
from pathlib import Path

import pytest

from regard import recipe
from regard.tasks import TASKS
from regard.training.task import Given, Task
from tests.conftest import sentences

PAIRS = sentences()[:40]
WORDS = "the/DET cat/NOUN sleeps/VERB\na/DET dog/NOUN runs/VERB\n" * 3
BLANKS = "\t_" * 6
CONLL = "the\tDET\ncat\tNOUN\n\na\tDET\ndog\tNOUN\nruns\tVERB\n\n" * 4
UNIVERSAL = "".join(f"# sent_id = {i}\n1\tthe\tthe\tDET{BLANKS}\n2\tcat{i}\tcat\tNOUN{BLANKS}\n\n" for i in range(8))
NAMES = [(f"Dupont{i}", ("French", "Polish", "Italian")[i % 3]) for i in range(20)]
PROSE = "It was a dark night.\n\nNobody slept, and nobody spoke.\n" * 8
REVIEWS = [(f"This film, number {i}, was {'good' if i % 2 else 'bad'}.", f"{i % 2}") for i in range(30)]


def lines(rows) -> str:
    return "".join(f"{row}\n" for row in rows)


def objects(*names: str, rows=PAIRS) -> str:
    return lines(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)


def quoted(*rows: tuple[str, ...], mark: str = ",") -> str:
    return lines(mark.join(f'"{cell}"' for cell in row) for row in rows)


SOURCE, TARGET = (lines(side) for side in zip(*PAIRS, strict=True))
TSV = lines("\t".join(row) for row in PAIRS)
NUMBERS = lines(f"{i},{i * 2},{i % 3}.5" for i in range(20))

ASKED = lines(  # beside a label that repeats, which alone would make pairs of them
    json.dumps({"question": f"Who is {n}?", "context": f"{n} is me.", "answers": [], "is_impossible": n % 2 == 0})
    for n in range(20)
)
PARAGRAPHS = [{"context": f"I am {n}.", "qas": [{"question": "Who?", "answers": []}]} for n in range(4)]
SQUAD = json.dumps({"data": [{"paragraphs": PARAGRAPHS}]}, indent=1)

SEEN = {
    "two files named alike": ({"a.fr": SOURCE, "a.en": TARGET}, "translation", {"source": "a.fr", "target": "a.en"}),
    "two texts of as many lines": (
        {"one.txt": SOURCE, "two.txt": TARGET},
        "translation",
        {"source": "one.txt", "target": "two.txt"},
    ),
    "two columns of text": ({"a.tsv": TSV}, "translation", {"path": "a.tsv"}),
    "two columns of text under another name": ({"a.txt": TSV}, "translation", {"path": "a.txt"}),
    "gzipped": ({"a.tsv.gz": TSV}, "translation", {"path": "a.tsv.gz"}),
    "source and target": ({"a.jsonl": objects("source", "target")}, "translation", {"path": "a.jsonl"}),
    "languages": ({"a.jsonl": objects("fr", "en")}, "translation", {"path": "a.jsonl", "fields": ["fr", "en"]}),
    "translation by language": (
        {"a.jsonl": lines(json.dumps({"id": i, "translation": {"fr": f, "en": e}}) for i, (f, e) in enumerate(PAIRS))},
        "translation",
        {"path": "a.jsonl", "fields": ["translation.fr", "translation.en"]},
    ),
    "letters and sounds": ({"a.tsv": lines(f"word{i}\tW {i} D" for i in range(30))}, "translation", {"path": "a.tsv"}),
    "text, label": ({"r.csv": quoted(*REVIEWS)}, "classification", {"path": "r.csv"}),
    "two texts, label": (
        {"p.tsv": lines(["premise\thypothesis\tlabel", *(f"{f}\t{e}\t{i % 2}" for i, (f, e) in enumerate(PAIRS))])},
        "classification",
        {"path": "p.tsv", "text": ["premise", "hypothesis"], "label": "label"},
    ),
    "two texts, score": (
        {"p.tsv": lines(["text1\ttext2\tscore", *(f"{f}\t{e}\t{i % 5}.5" for i, (f, e) in enumerate(PAIRS))])},
        "similarity",
        {"path": "p.tsv", "text": ["text1", "text2"], "label": "score"},
    ),
    "questions and choices": (
        {"q.csv": lines(["premise,choice1,choice2,label", *(f"{f},{e},no,{i % 2}" for i, (f, e) in enumerate(PAIRS))])},
        "choice",
        {"path": "q.csv"},
    ),
    "questions with a context": (
        {
            "q.jsonl": lines(
                json.dumps({"context": f, "question": "why", "options": [e, "no"], "answer": i % 2})
                for i, (f, e) in enumerate(PAIRS)
            )
        },
        "choice",
        {"path": "q.jsonl"},
    ),
    "questions in XML": (
        {
            "q.xml": "<all>"
            + lines(
                f'<item most-plausible-alternative="{1 + i % 2}"><p>{f}</p><a1>{e}</a1><a2>no</a2></item>'
                for i, (f, e) in enumerate(PAIRS)
            )
            + "</all>"
        },
        "choice",
        {"path": "q.xml"},
    ),
    "label, text": (
        {"r.csv": quoted(*(row[::-1] for row in REVIEWS))},
        "classification",
        {"path": "r.csv", "columns": [2, 1]},
    ),
    "heading": ({"r.csv": "review,stars\n" + quoted(*REVIEWS)}, "classification", {"path": "r.csv", "heading": True}),
    "labels in a TSV": ({"r.tsv": lines("\t".join(row) for row in REVIEWS)}, "classification", {"path": "r.tsv"}),
    "names": ({"n.tsv": lines("\t".join(row) for row in NAMES)}, "classification", {"path": "n.tsv"}),
    "text and label by name": (
        {"r.jsonl": objects("text", "label", rows=REVIEWS)},
        "classification",
        {"path": "r.jsonl"},
    ),
    "other names": (
        {"r.jsonl": objects("review", "stars", rows=REVIEWS)},
        "classification",
        {"path": "r.jsonl", "fields": ["review", "stars"]},
    ),
    "questions by line": ({"q.jsonl": ASKED}, "question-answering", {"path": "q.jsonl"}),
    "questions as in SQuAD": ({"q.json.gz": SQUAD}, "question-answering", {"path": "q.json.gz"}),
    "word/tag": ({"t.txt": WORDS}, "tagging", {"path": "t.txt"}),
    "CoNLL": ({"t.conll": CONLL}, "tagging", {"path": "t.conll"}),
    "CoNLL under another name": ({"t.txt": CONLL}, "tagging", {"path": "t.txt", "form": "columns"}),
    "CoNLL-U": ({"t.conllu": UNIVERSAL}, "tagging", {"path": "t.conllu", "columns": [2, 4]}),
    "prose": ({"story.txt": PROSE}, "causal-lm", {"path": "story.txt"}),
    "prose without an ending": ({"story": PROSE}, "causal-lm", {"path": "story"}),
    "texts in JSON": (
        {"s.jsonl": objects("text", rows=[(row[0],) for row in REVIEWS])},
        "causal-lm",
        {"path": "s.jsonl"},
    ),
    "numbers": ({"n.csv": "a,b,c\n" + NUMBERS}, "regression", {"path": "n.csv"}),
    "semicolons": ({"n.csv": "a;b;c\n" + NUMBERS.replace(",", ";")}, "regression", {"path": "n.csv"}),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def laid(files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        Path(name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return list(files)


@pytest.mark.parametrize("what", SEEN)
def test_what_files_hold_is_seen_and_said_in_one_line(what: str, here: Path):
    files, task, section = SEEN[what]
    order = recipe.order(laid(files))
    assert order.settings["task"] == task
    assert order.settings["data"]["train"] == section
    [note] = order.notes
    assert note.startswith(next(iter(files)))
    assert ": training " in note
    assert "\n" not in note
    kind, resolved = recipe.resolve(order.settings)
    assert kind.prepare(resolved, None).report, "and it can be read as it was taken for"


@pytest.mark.parametrize(
    ("files", "flags"),
    [
        ({"a.tsv": "bonjour\thello\nmerci\tthanks\n"}, ("--pairs", "--labelled")),
        ({"a.csv": "1,2\n3,4\n"}, ("--pairs", "--labelled", "--text", "--tagged", "--table")),
        ({"a.jsonl": '{"a": 1}\n'}, ("--pairs", "--labelled", "--text")),
        ({"a.fr": SOURCE, "b.csv": NUMBERS}, ("--pairs", "--table")),
    ],
)
def test_what_could_be_several_things_or_none_is_asked_with_the_flags_that_decide(files, flags, here: Path):
    with pytest.raises(ValueError, match=r"(say which|name it) with") as error:
        recipe.order(laid(files))
    assert all(flag in str(error.value) for flag in flags)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "task"),
    [("pairs", "translation"), ("labelled", "classification"), ("text", "causal-lm"), ("tagged", "tagging")],
)
def test_what_is_said_counts_more_than_looks(kind: str, task: str, here: Path):
    files = laid({"a.tsv": "bonjour\thello\nmerci\tthanks\n"})
    order = recipe.order([], inputs=Given(tuple(files), kind=kind))
    assert order.settings == {"task": task, "data": {"train": {"path": "a.tsv"}}}


def test_a_task_that_is_named_learns_from_files_of_its_kind_and_from_no_others(here: Path):
    [story] = laid({"story.txt": PROSE})
    assert recipe.order(story, "task=word2vec").settings["task"] == "word2vec"
    with pytest.raises(ValueError, match="--pairs is not for word2vec: give --text"):
        recipe.order(story, "task=word2vec", inputs=Given((), kind="pairs"))
    with pytest.raises(ValueError, match="counting is not trained on files"):
        recipe.order(story, "task=counting")
    with pytest.raises(ValueError, match="did you mean language"):
        recipe.order(story, "task=langage")
    with pytest.raises(ValueError, match="unknown kind 'pair', did you mean pairs"):
        recipe.order(story, inputs=Given((), kind="pair"))
    with pytest.raises(ValueError, match="--to names the language of translations"):
        recipe.order(story, inputs=Given((), to="fr"))


def test_files_of_one_label_each_are_told_by_their_names(here: Path):
    files = laid({f"{name}.txt": lines(f"{name} {i}" for i in range(5)) for name in ("French", "Polish", "Dutch")})
    train = recipe.order(files, inputs=Given((), kind="labelled")).settings["data"]["train"]
    assert train == [{"path": f"{name}.txt", "label": name} for name in ("French", "Polish", "Dutch")]
    assert recipe.order(files).settings["data"]["train"] == [{"path": name} for name in files], "else they are prose"


def test_files_to_measure_on_are_read_like_those_to_learn_from(here: Path):
    both = {"a.fr": SOURCE, "a.en": TARGET, "v.fr": SOURCE, "v.en": TARGET}
    files = laid(both)
    data = recipe.order(files[:2], inputs=Given((), valid=tuple(files[2:]), to="en")).settings["data"]
    assert data["valid"] == {"source": "v.fr", "target": "v.en", "tag": "en"}
    swapped = laid({name: quoted(*(row[::-1] for row in REVIEWS)) for name in ("r.csv", "v.csv")})
    data = recipe.order(swapped[0], inputs=Given((), valid=("v.csv",))).settings["data"]
    assert data["valid"] == {"path": "v.csv", "columns": [2, 1]}


def test_settings_reach_into_what_was_seen_and_files_take_the_place_of_a_recipes(here: Path):
    laid({"a.fr": SOURCE, "a.en": TARGET, "r.yaml": "data: {train: old.tsv, longest: 32}\nmodel: {width: 64}\n"})
    order = recipe.order(["r.yaml", "a.fr", "a.en"], "data.train.tag=en", "model.heads=2")
    assert order.name == "r"
    assert order.settings["data"] == {"train": {"source": "a.fr", "target": "a.en", "tag": "en"}, "max_length": 32}
    assert order.settings["model"] == {"width": 64, "heads": 2}
    with pytest.raises(ValueError, match="two recipes"):
        recipe.order(["r.yaml", "s.yaml"])


def test_a_column_that_is_named_decides_what_is_predicted(here: Path):
    rows = random.Random(0)
    table = "a,kind,b\n" + lines(f"{rows.random()},{'xy'[i % 2]},{i}" for i in range(20))
    [path] = laid({"n.csv": table})

    def columns(*changes: str):
        task, resolved = recipe.resolve(recipe.order(path, *changes).settings)
        return task.prepare(resolved, None).columns

    seen, named = columns(), columns("data.target=kind")
    assert (seen.target, seen.inputs, seen.classes) == ("b", ("a",), ())
    assert (named.target, named.inputs, named.classes) == ("kind", ("a",), ("x", "y")), "b counts the rows"
    with pytest.raises(ValueError, match=r"has no column 'c'; there are a, kind, b: name it by data.target=COLUMN"):
        recipe.order(path, "data.target=c")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(("none.txt",)), "no file none.txt here"),
        (Given(("empty.txt",)), "empty.txt is empty"),
        (Given(("a.fr", "a.fr"), kind="pairs", aligned=True), "no translation of itself"),
        (Given(("a.fr", "b.fr"), kind="pairs", aligned=True, valid=("a.fr",)), "no translation of itself"),
    ],
)
def test_files_that_cannot_be_are_refused_in_one_line(given: Given, said: str, here: Path):
    laid({"empty.txt": "\n", "a.fr": SOURCE})
    with pytest.raises(ValueError, match=said) as error:
        recipe.order([], inputs=given)
    assert "\n" not in str(error.value)


def test_files_named_alike_with_other_numbers_of_lines_are_pairs_that_lack_some(here: Path):
    files = laid({"a.fr": SOURCE, "a.en": TARGET + "one more\n"})
    task, resolved = recipe.resolve(recipe.order(files).settings)
    with pytest.raises(ValueError, match=r"a\.fr has 40 lines but a\.en has 41"):
        task.prepare(resolved, None)


def test_every_task_that_learns_from_files_says_what_it_takes_and_recognises_it():
    assert all((entry.task.recognise is not Task.recognise) == (entry.takes is not None) for entry in TASKS.values())
    filed = {name for name, entry in TASKS.items() if entry.takes is not None}
    told = {
        "word2vec",
        "language",
        "masked-lm",
        "span-corruption",
        "matching",
        "text-to-text",
    }  # what files are for if somebody says so
    told |= {"captions", "gan", "pictures", "pixels"}  # tests/tasks/images: they must be there to be read
    told |= {"node-classification"}  # tests/tasks/graphs
    told |= {"omics"}  # tests/tasks/omics: several tables are one input
    assert {task for _, task, _ in SEEN.values()} | told == filed


def test_a_file_of_one_huge_line_is_not_called_empty(tmp_path):
    (tmp_path / "squad.json").write_text(json.dumps({"data": ["x" * (1 << 20)]}))
    with pytest.raises(
        ValueError, match=r"is one line of more than 1,048,576 bytes: say what it holds, with --text .*--quest"
    ):
        recipe.order([str(tmp_path / "squad.json")])
    told = recipe.order([], inputs=Given((str(tmp_path / "squad.json"),), kind="questions"))
    assert told.settings["task"] == "question-answering"

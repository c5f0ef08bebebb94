"""Questions with choices: read from files of many forms, aligned in packed rows, answered whatever lies beside them."""

import json
import random

import numpy as np
import pytest
import torch

import regard
from regard import models, recipe
from regard.data.line_report import LineReport
from regard.interop.bert import Bert
from regard.models.encoder_with_head import BERTEncoderConfig
from regard.tasks.text_encoders.examples import Example, LabelledExamples, read_examples
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.choice_columns import ChoiceColumns
from regard.tasks.text_labels.choice_file import ChoiceFile, parse_question
from regard.tasks.text_labels.choice_file import read_questions as questions_of
from regard.tasks.text_labels.files import ChoicesConfig
from regard.tasks.text_labels.preparation import build_dataset, prepare
from tests.models.families import packed, padded, shaken, texts
from tests.models.test_reader import SIZES as SHAPE
from tests.models.test_reader import STILL, bert, marks, poured
from tests.tasks.small import by_heart, halves_add_up

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

SIZES = {"width": 16, "heads": 2, "hidden": 32, "depth": 1, "dropout": 0.0}
MODELS = [
    {"name": "bert-encoder", **SIZES, "head_dropout": 0.0, "context": 16},
    {"name": "gpt-encoder", **SIZES, "head_dropout": 0.0, "context": 16},
    {"name": "transformer-encoder", **SIZES, "embedding": 16},
    {"name": "rnn-encoder", "width": 8, "embedding": 8, "dropout": 0.0},
    {"name": "cnn-encoder", "embedding": 8, "maps": 8, "dropout": 0.0},
]
TRAINING = {"steps": 3, "log_every": 3, "eval_every": 3, "save_every": 3, "device": "cpu", "tensorboard": False}
QUESTIONS = [("it rains", ("wet", "dry"), 0), ("it shines", ("cold", "warm"), 1), ("it snows", ("hot", "white"), 1)]
named = pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])


def asked(path, model):
    data = {"train": {"path": str(path)}, "batch_tokens": 128}
    reads = {"kind": "words", "max_length": 16}
    return {"task": "choice", "data": data, "model": model, "tokenizer": reads, "training": TRAINING}


@pytest.fixture
def table(tmp_path):
    """Questions of many lengths, whose right answer holds the first word of what is given."""
    chance, rows = random.Random(0), []
    for _ in range(90):
        given = chance.sample("abcdefgh", chance.randint(1, 7))
        choices = [chance.sample("ijklmnop", chance.randint(1, 5)) for _ in range(3)]
        right = chance.randrange(3)
        choices[right].append(given[0])
        rows.append("\t".join(map(" ".join, [given, *choices])) + f"\t{right}\n")
    (tmp_path / "a.tsv").write_text("premise\tchoice1\tchoice2\tchoice3\tlabel\n" + "".join(rows))
    return tmp_path / "a.tsv"


def made(path, model, **how):
    kind, found = recipe.resolve(asked(path, model))
    data = kind.prepare(found)
    torch.manual_seed(0)
    found = kind.fill_sizes(found, data)
    return kind(found, data, models.build(found.model), **how)


def seen(path, **how):
    """What a file holds: questions, and the numbers of their right answers from 1."""
    found = read_examples([ChoiceFile(path=str(path), **how)], {}, 0.0)
    return [(example.texts[0], example.texts[1:], int(example.labels[0]) - 1) for example in found.examples]


def lines(*rows):
    return "".join(f"{row}\n" for row in rows)


def objects(form):
    return lines(*(json.dumps(form(*question)) for question in QUESTIONS))


FORMS = {
    "a table": (
        "a.tsv",
        lines("label\tpremise\tchoice1\tchoice2", *(f"{r}\t{g}\t{a}\t{b}" for g, (a, b), r in QUESTIONS)),
    ),
    "counted from 1": (
        "a.csv",
        lines("question,option_a,option_b,answer", *(f'"{g}",{a},{b},{r + 1}' for g, (a, b), r in QUESTIONS)),
    ),
    "letters": ("a.csv", lines("question;A;B;answer", *(f"{g};{a};{b};{'AB'[r]}" for g, (a, b), r in QUESTIONS))),
    "its text": (
        "a.tsv",
        lines("goal\tsol1\tsol2\tlabel", *(f"{g}\t{a}\t{b}\t{(a, b)[r]}" for g, (a, b), r in QUESTIONS)),
    ),
    "columns that stand in another order": (
        "a.tsv",
        lines("ending1\tending0\tctx\tlabel", *(f"{b}\t{a}\t{g}\t{r}" for g, (a, b), r in QUESTIONS)),
    ),
    "a list": ("a.jsonl", objects(lambda given, choices, right: {"ctx": given, "endings": choices, "label": right})),
    "a list inside": (
        "a.jsonl",
        objects(
            lambda given, choices, right: {"question": given, "choices": {"text": choices}, "answerKey": "AB"[right]}
        ),
    ),
    "a list in a cell": (
        "a.tsv",
        lines("context\tendings\tlabel", *(f"{g}\t{json.dumps(c)}\t{r}" for g, c, r in QUESTIONS)),
    ),
    "several given": (
        "a.tsv",
        lines(
            "InputSentence1\tInputSentence2\tRandomFifthSentenceQuiz1\tRandomFifthSentenceQuiz2\tAnswerRightEnding",
            *(f"it\t{g[3:]}\t{a}\t{b}\t{r + 1}" for g, (a, b), r in QUESTIONS),
        ),
    ),
    "XML": (
        "a.xml",
        lines(
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<!DOCTYPE corpus SYSTEM "corpus.dtd">',
            "<corpus>",
            *(
                f'<item id="{n}" most-plausible-alternative="{r + 1}"><p>{g}</p>\n<a1>{a}</a1><a2> {b} </a2></item>'
                for n, (g, (a, b), r) in enumerate(QUESTIONS)
            ),
            "</corpus>",
        ),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_columns_and_numbers_are_recognised_and_known_again(form, tmp_path):
    name, text = FORMS[form]
    (tmp_path / name).write_text(text)
    assert seen(tmp_path / name) == QUESTIONS
    like = ChoiceFile(path=str(tmp_path / name)).shared_settings()
    assert seen(tmp_path / name, **like) == QUESTIONS
    known = ChoiceColumns(like["given"], like["choices"], like["label"])
    assert questions_of(tmp_path / name, known) == [(given, *choices) for given, choices, _ in QUESTIONS]


def test_columns_are_named_or_numbered_by_settings(tmp_path):
    (tmp_path / "a.tsv").write_text(lines(*(f"{r}\t{a}\t{g}\t{b}" for g, (a, b), r in QUESTIONS)))
    assert seen(tmp_path / "a.tsv", given=(3,), choices=(2, 4), label=1) == QUESTIONS
    (tmp_path / "b.tsv").write_text(lines("t\tx\ty\tz", *(f"{r}\t{a}\t{g}\t{b}" for g, (a, b), r in QUESTIONS)))
    assert seen(tmp_path / "b.tsv", given=("y",), choices=("x", "z"), label="t") == QUESTIONS
    with pytest.raises(ValueError, match=r"which column holds the text that .* \(t, x, y, z\): name it, as given"):
        seen(tmp_path / "b.tsv")
    with pytest.raises(ValueError, match=r"has no column 'w'"):
        seen(tmp_path / "b.tsv", given=("w",), choices=("x", "z"), label="t")
    with pytest.raises(ValueError, match=r"'x' is named twice"):
        ChoiceFile(path="b.tsv", given=("x",), choices=("x", "z"), label="t")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"choices": ["a", "b", "c"]}, "with 3 choices where others have 2"),
        ({"label": 2}, "with a label that is none of its choices"),
        ({"label": "-1"}, "with a label that is none of its choices"),
        ({"choices": ["a", " "]}, "with an empty choice"),
        ({"choices": ["a"]}, "with fewer than two choices"),
        ({"choices": "a"}, "without a list of texts named choices"),
        ({"premise": None}, "without a text named premise"),
        ({"premise": "\u200b"}, "with nothing given"),
        ({"label": None}, "without a label named label"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_line(bad, said, tmp_path):
    more = [*QUESTIONS, ("it blows", ("chilly", "calm"), 0)]
    rows = [{"premise": given, "choices": choices, "label": right} for given, choices, right in more]
    rows.insert(1, {**rows[0], **bad})
    (tmp_path / "a.jsonl").write_text(lines(*(json.dumps(row) for row in rows)))
    with pytest.raises(ValueError, match=rf"1 {said} \(.*a\.jsonl:2\); mend"):
        seen(tmp_path / "a.jsonl")
    kept = read_examples([ChoiceFile(path=str(tmp_path / "a.jsonl"))], {}, 0.5)
    assert [example.place[1] for example in kept.examples] == [1, 3, 4, 5]


def test_broken_xml_and_entities_are_refused(tmp_path):
    (tmp_path / "a.xml").write_text("<corpus>\n<item>\n<p>a</q></item></corpus>\n")
    with pytest.raises(ValueError, match=r"a\.xml:3: broken XML \(mismatched tag\): mend it"):
        seen(tmp_path / "a.xml")
    (tmp_path / "a.xml").write_text('<!DOCTYPE c [<!ENTITY lol "lol">]>\n<c><item><p>&lol;</p></item></c>\n')
    with pytest.raises(ValueError, match="declares the entity lol"):
        seen(tmp_path / "a.xml")


def test_labels_that_may_count_from_zero_or_from_one_are_not_guessed(tmp_path):
    (tmp_path / "a.tsv").write_text(lines("premise\tchoice1\tchoice2\tlabel", "a\tb\tc\t1", "d\te\tf\t1"))
    with pytest.raises(ValueError, match="may count from zero or from one: say which with numbering: zero"):
        seen(tmp_path / "a.tsv")
    assert [right for *_, right in seen(tmp_path / "a.tsv", numbering="zero")] == [1, 1]
    assert [right for *_, right in seen(tmp_path / "a.tsv", numbering="one")] == [0, 0]


def test_files_that_differ_in_the_number_of_choices_are_named(tmp_path):
    (tmp_path / "a.tsv").write_text(
        lines("premise\tchoice1\tchoice2\tlabel", *(f"a {n}\tb\tc\t{n % 2}" for n in range(9)))
    )
    (tmp_path / "b.tsv").write_text(
        lines("premise\tchoice1\tchoice2\tchoice3\tlabel", "a\tb\tc\td\t0", "a\tb\tc\td\t2")
    )
    both = tuple(ChoiceFile(path=str(tmp_path / name)) for name in ("a.tsv", "b.tsv"))
    for config in (ChoicesConfig(train=both), ChoicesConfig(train=both[:1], valid=both[1:])):
        with pytest.raises(ValueError, match=r"b\.tsv:2: 3 choices where others have 2: give files whose"):
            prepare(config, TextTokenizerConfig(kind="words"))


def test_a_question_is_on_one_side_and_counted_where_it_is_on_both(tmp_path):
    rows = [f"story {n // 2}\tgood {n}\tbad {n}\t{n % 2}" for n in range(80)]
    (tmp_path / "a.tsv").write_text(lines("premise\tchoice1\tchoice2\tlabel", *rows))
    (tmp_path / "b.tsv").write_text(
        lines("premise\tchoice1\tchoice2\tlabel", "story 3\tbad 7\tgood 7\t0", "x\ty\tz\t1")
    )
    train, valid = (ChoiceFile(path=str(tmp_path / name)) for name in ("a.tsv", "b.tsv"))
    found = prepare(ChoicesConfig(train=(train,), validation_share=0.3), TextTokenizerConfig(kind="words"))
    sides = [{words[0] for words in side.texts} for side in (found.train, found.valid)]
    assert all(sides)
    assert not sides[0] & sides[1]
    summary = prepare(ChoicesConfig(train=(train,), valid=(valid,)), TextTokenizerConfig(kind="words")).summary
    assert any("1 of the texts measured on are also trained on" in line and "b.tsv:2" in line for line in summary)
    with pytest.raises(ValueError, match="choices are called by their texts: leave names out"):
        ChoicesConfig(train=(train,), names={"1": "first"})


@named
def test_a_row_holds_every_question_with_its_own_choices_and_label(table, model):
    """Each answer read alone, in float64 cross entropy by hand, against the loss of packed rows."""
    task = made(table, model)
    shaken(task.model)
    rows = {
        tuple(words): int(right) for *words, right in (line.split("\t") for line in table.read_text().splitlines()[1:])
    }
    tokenizer, style = task.prepared.tokenizer, task.recipe.model.input_style
    for task.fixed in (False, True):
        for number in range(2):
            batch = task.batch(number)
            wanted = 0.0
            for example in batch.examples.tolist():
                words = task.prepared.train.texts[example]
                scores = [alone(task.model, tokenizer, style, words[0], choice) for choice in words[1:]]
                wanted += np.log(np.exp(scores).sum()) - scores[rows[words]]
            step = task.step(batch, "model")
            assert int(step.weight) == len(batch.examples) > 1
            assert step.loss.item() == pytest.approx(wanted, rel=1e-4)


def alone(model, tokenizer, style, given, choice) -> float:
    """The score of one answer that nothing lies beside."""
    found = LabelledExamples(("a",), [Example((given, choice, choice), ("1",), (0, 1))], [], False, num_choices=2)
    side = build_dataset(found, tokenizer, ["1", "2"], style)
    with torch.no_grad():
        first, second = side.batch(np.array([0])).forward(model)[0].double().tolist()
    assert first == pytest.approx(second, abs=1e-5)
    return first


@named
def test_one_row_is_learnt_by_heart_and_its_halves_add_up(table, model):
    task = made(table, model)
    assert task.prepared.train.sequences_per_example == 3
    halves_add_up(task)
    assert by_heart(task, steps=60, rate=0.02) < 0.5


@named
def test_rows_of_fixed_shape_teach_the_same_and_have_one_shape(table, model):
    task = made(table, model)
    steps, shapes = [], {}
    for task.fixed in (False, True):
        task.model.zero_grad()
        step = task.step(task.batch(1), "model")
        step.loss.backward()
        gradients = [weight.grad.clone() for weight in task.model.parameters() if weight.grad is not None]
        steps.append((step.loss.detach(), torch.as_tensor(step.weight), *gradients))
    for bare, fixed in zip(*steps, strict=True):
        torch.testing.assert_close(bare, fixed, atol=1e-4, rtol=1e-4)
    for number in range(task.rows):
        batch = task.batch(number)
        assert batch.row.longest <= 16, "what all choices of a question have together is no bound of one"
        assert int(batch.row.place.max()) < 16
        shapes.setdefault(batch.row.longest, set()).add(
            (batch.tokens.shape, batch.row.offsets.shape, batch.labels.shape)
        )
    assert {size for found in shapes.values() for size, _, _ in found} == {(128,)}
    assert len({offsets for found in shapes.values() for _, offsets, _ in found}) == 1


@named
def test_answers_depend_on_nothing_beside_the_question(table, model, tmp_path):
    out = recipe.train(asked(table, model), out=tmp_path / "run", quiet=True).folder
    trained = regard.load(out, device="cpu")
    trained.temperature = 0.7
    questions = [("a b", "c d e", "a"), ("h g f e d c b", "c d", "e", "f g h i"), ("a", "b", "c", "d", "e")]
    together = trained.choose(questions)
    choices = [answer for question in questions for answer in trained._encode(question)]
    assert sum(map(trained.count_tokens, questions)) == sum(len(answer.tokens) for answer in choices)
    for question, choice in zip(questions, together, strict=True):
        assert trained.choose(question)[0].probabilities == pytest.approx(choice.probabilities, abs=1e-5)
        assert sum(choice.probabilities) == pytest.approx(1)
        turned = trained.choose((question[0], *question[:0:-1]))[0]
        assert turned.probabilities[::-1] == pytest.approx(choice.probabilities, abs=1e-5)
        assert turned.answer == choice.answer == choice.choices[choice.number - 1]
    scores = trained.evaluate(str(table))
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    told = [choice.number - 1 for choice in trained.choose([tuple(row[:-1]) for row in rows])]
    right = [number == int(row[-1]) for number, row in zip(told, rows, strict=True)]
    assert scores.metrics["accuracy, %"] == pytest.approx(100 * np.mean(right))
    assert scores.measures["chance"] == "33.33%"
    truth = {row[0] + row[1]: row[1 + int(row[-1])] for row in rows}
    assert sorted(truth.values()) == sorted(one.right for one in scores.examples)


def test_a_bert_chooses_as_that_of_transformers():
    torch.manual_seed(0)
    theirs = bert("BertForMultipleChoice")
    shape = BERTEncoderConfig(**{**SHAPE, "classes": 1}, **STILL)
    ours = poured(shape, theirs, Bert, "classifier")
    lines = texts([7, 12, 3, 5, 9, 4], 31)
    tokens, grid = padded(lines)
    shaped = [each.unflatten(0, (2, 3)) for each in (tokens, grid.filled.long(), padded(marks(lines))[0])]
    labels = torch.tensor([2, 0])
    with torch.no_grad():
        wanted = theirs(*shaped, labels=labels)
        scores = ours(*packed(lines), torch.cat(marks(lines))).reshape(-1, 3)
    torch.testing.assert_close(scores, wanted.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(torch.nn.functional.cross_entropy(scores, labels), wanted.loss, atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    """A small BERT and a small GPT that have read a little."""
    place = tmp_path_factory.mktemp("bodies")
    (place / "plain.txt").write_text("a b c d e f g h i j k l m n o p\n" * 30)
    for task, name in (("masked-lm", "bert"), ("causal-lm", "gpt")):
        data = {"train": [str(place / "plain.txt")], "context": 32, "batch_size": 4, "document": "line"}
        model = {"name": name, **SIZES, "context": 32}
        settings = {"task": task, "data": data, "model": model, "tokenizer": {"kind": "characters"}}
        recipe.train({**settings, "training": TRAINING}, out=place / name, quiet=True)
    return place


@pytest.mark.parametrize("body", ["bert", "gpt"])
@pytest.mark.parametrize("way", ["full", "frozen", "lora"])
def test_a_body_is_taken_over_and_tuned_in_every_way(body, way, bodies, table, tmp_path):
    settings = {"task": "choice", "data": {"train": {"path": str(table)}, "batch_tokens": 256}, "training": TRAINING}
    settings |= {"tuning": {"method": way}, "optim": {"learning_rate": 0.01}}
    out = recipe.train(settings, out=tmp_path / "run", start=bodies / body, quiet=True).folder
    trained = regard.load(out, device="cpu")
    assert trained.config.name == f"{body}-encoder"
    before = regard.load(bodies / body, device="cpu").model.state_dict()
    name = next(name for name in before if name.startswith("blocks.0.") and "norm" in name and name.endswith("weight"))
    assert torch.equal(trained.model.state_dict()[f"reader.{name}"], before[name]) is (way != "full")
    read = [item.text for item in trained.look(("a", "b", "c")).items["source"]]
    assert (read[0], read[-1]) == ("<bos>", "<sep>" if body == "bert" else "<extract>")
    again = recipe.train(settings, out=tmp_path / "again", start=out, quiet=True) if way == "full" else None
    assert again is None or "made anew" not in (again.folder / "train.log").read_text()


def test_questions_are_typed_with_tabs_with_bars_or_as_json():
    known = ChoiceColumns(("story",), ("first", "second"), "label")
    wanted = ("it rains", "wet", "dry")
    for text in (
        "it rains\twet\tdry",
        "it rains | wet | dry",
        '{"story": "it rains", "first": "wet", "second": "dry"}',
        '{"premise": "it rains", "choices": ["wet", "dry"]}',
    ):
        assert parse_question(text, known) == wanted
    for text, said in (
        ("it rains", "with fewer than two choices"),
        ("it rains\twet\t", "with an empty choice"),
        ('{"premise": "it rains"}', "without a premise and choices"),
        ('{"premise": ', "invalid JSON"),
    ):
        with pytest.raises(ValueError, match=rf"a question {said}: write"):
            parse_question(text, known)


def test_lines_are_counted_without_the_heading(tmp_path):
    tally = LineReport()
    (tmp_path / "a.tsv").write_text(FORMS["a table"][1])
    assert len(list(ChoiceFile(path=str(tmp_path / "a.tsv")).examples(0, tally))) == tally.read == 3

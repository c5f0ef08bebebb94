"""Answers are learnt by every kind of model, found whatever they are read with, scored, looked into, and typed for."""

import json
import random

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard import models, recipe
from regard.cli import app
from regard.interop.bert import Bert
from regard.models.encoder_with_head import BERTEncoderConfig
from regard.tasks.answering.recognition import recognise_questions
from regard.tasks.recognition import choose_task
from regard.training.task import Given
from tests.models.families import packed, padded, shaken, texts
from tests.models.test_reader import SIZES as SHAPE
from tests.models.test_reader import STILL, marks, poured
from tests.tasks.small import by_heart, halves_add_up

pytestmark = pytest.mark.unchecked  # shapes are checked where models are tested

SIZES = {"width": 16, "heads": 2, "hidden": 32, "depth": 1, "dropout": 0.0}
MODELS = [
    {"name": "bert-encoder", **SIZES, "head_dropout": 0.0},
    {"name": "gpt-encoder", **SIZES, "head_dropout": 0.0},
    {"name": "transformer-encoder", **SIZES, "embedding": 16},
    {"name": "rnn-encoder", "width": 16, "embedding": 16, "dropout": 0.0},
]
TRAINING = {"steps": 3, "log_every": 3, "eval_every": 3, "save_every": 3, "device": "cpu", "tensorboard": False}
PEOPLE, PLACES = ["Ann", "Bob", "Zoe\u0301", "Dan", "Eve"], ["Paris", "Rome", "Graz", "New  York", "日本"]
named = pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])


@pytest.fixture
def file(tmp_path):
    """Where people live, told in texts that are longer than a window; of one who is not named, nothing is known."""
    chance, rows = random.Random(0), []
    for _ in range(24):
        people, places = chance.sample(PEOPLE, 4), chance.sample(PLACES, 4)
        context = ". ".join(f"{one} lives in {other}" for one, other in zip(people, places, strict=True))
        where = chance.randrange(4)
        known = {"text": [places[where]], "answer_start": [context.index(places[where])]}
        rows.append({"question": f"{people[where]}?", "context": context, "answers": known})
        [missing] = set(PEOPLE) - set(people)
        rows.append({"question": f"{missing}?", "context": context, "answers": {"text": [], "answer_start": []}})
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path / "a.jsonl"


def settings(path, model, **data):
    data = {"train": {"path": str(path)}, "batch_tokens": 128, "window": 16, "stride": 5, **data}
    asked = {"task": "question-answering", "data": data, "training": TRAINING}
    return asked if model is None else {**asked, "model": model}


def made(path, model, **how):
    kind, found = recipe.resolve(settings(path, model))
    data = kind.prepare(found)
    torch.manual_seed(0)
    found = kind.fill_sizes(found, data)
    return kind(found, data, models.build(found.model), **how)


@named
def test_one_row_is_learnt_by_heart_and_its_halves_add_up(file, model):
    task = made(file, model)
    halves_add_up(task)
    assert by_heart(task, steps=60, rate=0.03) < 0.4


def test_nothing_is_said_of_a_temperature_which_answers_have_not(file):
    [note] = made(file, MODELS[0]).notes
    assert note.startswith("an epoch has")


@named
def test_rows_of_fixed_shape_teach_the_same(file, model):
    task = made(file, model)
    steps = []
    for task.fixed in (False, True):
        task.model.zero_grad()
        step = task.step(task.batch(1), "model")
        step.loss.backward()
        gradients = [weight.grad.clone() for weight in task.model.parameters() if weight.grad is not None]
        steps.append((step.loss.detach(), torch.as_tensor(step.weight), *gradients))
    for bare, fixed in zip(*steps, strict=True):
        torch.testing.assert_close(bare, fixed, atol=1e-4, rtol=1e-4)


def test_logits_are_those_of_transformers():
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2}
    shape = transformers.BertConfig(vocab_size=31, max_position_embeddings=32, num_labels=2, **sizes)
    theirs = shaken(transformers.BertForQuestionAnswering(shape))
    ours = poured(BERTEncoderConfig(**{**SHAPE, "classes": 2}, **STILL, per_token=True), theirs, Bert, "qa_outputs")
    lines = texts([7, 12, 3], 31)
    tokens, grid = padded(lines)
    with torch.no_grad():
        wanted = theirs(tokens, grid.filled.long(), padded(marks(lines))[0])
        found = ours(*packed(lines), torch.cat(marks(lines)))
    both = torch.stack([wanted.start_logits, wanted.end_logits], -1)[grid.filled]
    torch.testing.assert_close(found, both, atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A model that knows a few questions by heart, and their file."""
    place = tmp_path_factory.mktemp("learnt")
    contexts = [
        "Zoe\u0301 was  born in 日本 and moved to New\t York, “the city”… 👩‍👧 is her sign.",
        "Bob lives in  Rome: nobody knows why, except for his aunt Ann who had sent him there long ago, in winter.",
    ]
    asked = [
        ("where born?", 0, "日本"),
        ("where now?", 0, "New\t York"),
        ("what sign?", 0, "👩‍👧"),
        ("who?", 0, "Zoe\u0301"),
    ]
    asked += [
        ("where born?", 1, None),
        ("whose aunt?", 1, "Ann"),
        ("when?", 1, "long ago, in winter"),
        ("price?", 0, None),
    ]
    rows = [
        {
            "question": question,
            "context": contexts[number],
            "answers": [] if answer is None else [{"text": answer, "answer_start": contexts[number].index(answer)}],
        }
        for question, number, answer in asked
    ]
    file = place / "few.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    model = {"name": "bert-encoder", **SIZES, "width": 32, "head_dropout": 0.0}
    plan = {
        **settings(file, model, valid={"path": str(file)}, window=20, stride=6),
        "optim": {"learning_rate": 0.01, "warmup": 5},
    }
    plan["training"] = {**TRAINING, "steps": 150, "eval_every": 50, "save_every": 150, "log_every": 50}
    recipe.train(plan, out=place / "run", quiet=True)
    return regard.load(place / "run", device="cpu"), file, rows, place / "run"


def test_questions_learnt_by_heart_are_all_answered_in_the_characters_of_the_original(learnt):
    model, file, rows, _ = learnt
    scores = model.evaluate(str(file))
    assert scores.metrics == {"EM, %": 100, "F1, %": 100}
    assert scores.tables[0].rows == [
        ("with an answer", "6", "100.0%", "100.0%", "100.0%"),
        ("without an answer", "2", "0.0%", "100.0%", "100.0%"),
    ]
    replies = model.ask([(row["question"], row["context"]) for row in rows])
    for row, found in zip(rows, replies, strict=True):
        if row["answers"]:
            assert found.answer == row["answers"][0]["text"] == row["context"][found.start : found.end]
            assert found.start == row["answers"][0]["answer_start"]
        else:
            assert (found.answer, found.start, found.end) == (None, None, None)
            assert found.probability == found.no_answer > 0.5


def test_what_is_read_beside_a_question_never_changes_its_answer(learnt):
    model, _, rows, _ = learnt
    pairs = [(row["question"], row["context"]) for row in rows]
    pairs += [("who?", "Ann. " * 80), ("who?", "x"), ("when?", pairs[5][1] * 3)]
    together = model.ask(pairs)
    for pair, found in zip(pairs, together, strict=True):
        [alone] = model.ask(pair)
        assert (alone.answer, alone.start) == (found.answer, found.start)
        assert alone.probability == pytest.approx(found.probability, abs=1e-5)
        assert alone.no_answer == pytest.approx(found.no_answer, abs=1e-5)


def test_options_bound_the_answer_and_demand_one(learnt):
    model, _, rows, _ = learnt
    [short] = model.ask((rows[6]["question"], rows[6]["context"]), answer=1, always=True)
    assert len(short.answer.split()) == 1
    [forced] = model.ask((rows[4]["question"], rows[4]["context"]), always=True)
    assert forced.answer is not None
    assert forced.probability < forced.no_answer
    with pytest.raises(ValueError, match=r"unknown setting options\.alway, did you mean always"):
        model.ask(("a", "b"), alway=True)


def test_a_model_shows_where_it_looked_in_the_window_of_its_answer(learnt):
    model, _, rows, _ = learnt
    trace = model.look(model.parse(json.dumps(rows[6])))
    assert trace.facts["answer"] == "long ago, in winter"
    shown = "".join(item.text for item in trace.items["source"])
    assert "when" in shown
    assert "winter" in shown
    assert "Rome" not in shown, "another window"
    assert trace.weights
    assert trace.steps().attentions


@pytest.mark.filterwarnings("ignore:.*question is question, context is context; id is left out")
def test_questions_are_typed_piped_and_read_from_files(learnt, tmp_path):
    *_, rows, run = learnt
    runner = CliRunner()
    typed = f"{rows[0]['question']}\t{rows[0]['context']}".replace("\tYork", " York")
    asked = ["predict", str(run), "--device", "cpu"]
    result = runner.invoke(app, [*asked, json.dumps(rows[0]), json.dumps(rows[7]), "--json"])
    assert result.exit_code == 0, result.output
    first, last = map(json.loads, result.stdout.splitlines())
    assert (first["answer"], rows[0]["context"][first["start"] : first["end"]]) == ("日本", "日本")
    assert (last["answer"], last["start"], last["end"]) == (None, None, None)
    assert last["no_answer"] == last["probability"]
    piped = runner.invoke(app, [*asked, "-"], input=f"{typed}\n")
    assert piped.stdout.startswith("日本\t")
    whole = {"data": [{"paragraphs": [{"context": row["context"], "qas": [row]} for row in rows]}]}
    (tmp_path / "squad.json").write_text(json.dumps(whole))
    (tmp_path / "lines.tsv").write_text(f"{typed}\n")
    question, context = typed.split("\t", 1)
    (tmp_path / "headed.tsv").write_text(f"id\tquestion\tcontext\n1\t{question}\t{' '.join(context.split())}\n")
    quoted = f'"{question}","{context}"'
    (tmp_path / "headed.csv").write_text(f"Question,Context\n{quoted}\n")
    for name, count in (("squad.json", 8), ("lines.tsv", 1), ("headed.tsv", 1), ("headed.csv", 1)):
        found = runner.invoke(app, [*asked, "-i", str(tmp_path / name)])
        assert found.exit_code == 0, found.output
        assert len(found.stdout.splitlines()) == count
        assert found.stdout.startswith("日本\t")
    told = runner.invoke(
        app, ["evaluate", str(run), str(tmp_path / "squad.json"), "--device", "cpu", "-s", "always=true"]
    )
    assert told.exit_code == 0, told.output
    assert "75" in told.stdout
    for wrong, said in (
        ("who?", r"is a question without its context: write them with a tab between"),
        ('{"question": "who?"}', "without a text named context"),
        ("\tsome text", "an empty question"),
    ):
        failed = runner.invoke(app, [*asked, wrong])
        assert said in str(failed.exception or failed.output)


@pytest.mark.parametrize("way", ["frozen", "lora"])
def test_a_body_is_tuned_in_every_way_under_a_new_head(file, learnt, tmp_path, way):
    *_, run = learnt
    labels = tmp_path / "labels.tsv"
    labels.write_text("".join(f"{word} film {n}\t{word}\n" for n in range(20) for word in ("good", "bad")))
    other = {"task": "classification", "data": {"train": {"path": str(labels)}}, "training": TRAINING}
    body = recipe.train(other, out=tmp_path / "body", start=run, quiet=True).folder
    plan = {**settings(file, None, window=24), "tuning": {"method": way}}
    folder = recipe.train(plan, out=tmp_path / "run", start=body, quiet=True).folder
    model, before = (regard.load(place, device="cpu").model for place in (folder, body))
    same = torch.equal(model.reader.embedding.weight, before.reader.embedding.weight)
    assert same, "the body does not change"
    assert model.output.weight.shape == (2, 32)
    assert "learn (" in (folder / "train.log").read_text()


def test_files_of_questions_are_known_by_their_fields(file, tmp_path):
    name, claim = choose_task(Given((str(file),)))
    assert name == "question-answering"
    assert claim.data == {"train": {"path": str(file)}}
    (tmp_path / "s.json").write_text(json.dumps({"data": [{"paragraphs": [{"context": "a", "qas": []}]}]}, indent=1))
    assert choose_task(Given((str(tmp_path / "s.json"),)))[0] == "question-answering"
    rows = [{"question": f"q{n}", "context": f"c {n}", "label": "yes" if n % 2 else "no"} for n in range(30)]
    (tmp_path / "l.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert recognise_questions(Given((str(tmp_path / "l.jsonl"),))) is None
    assert choose_task(Given((str(tmp_path / "l.jsonl"),)))[0] == "classification"


def test_a_window_that_a_model_cannot_hold_is_refused_before_data_is_read(file):
    with pytest.raises(ValueError, match=r"data\.window is 16 tokens, more than model\.context, 8"):
        recipe.resolve(settings(file, {**MODELS[0], "context": 8}))
    with pytest.raises(ValueError, match="stride must be below window, 16, not 16"):
        recipe.resolve(settings(file, None, stride=16))
    kind, _ = recipe.resolve(settings(file, None))
    assert kind.limit_lengths({"name": "bert-encoder", "context": 96})["data"] == {"window": 96, "stride": 32}

"""Templates: texts in their places once, examples in front, and one line for what is wrong."""

from importlib import resources
from pathlib import Path

import pytest

from regard.tasks.prompting.files import read as read_file
from regard.tasks.prompting.template import Texts, build, list_templates, read, shipped_paths

SAMPLES = Path(str(resources.files("regard"))) / "samples" / "prompts"
GOOD = {"text": "Review: [X]\nIt was [Z].", "answers": {"positive": ["good", "great"], "negative": "bad"}}
PAIR = {"text": "[X] So [Y]? [Z]", "answers": {"yes": "yes", "no": "no"}}


def test_texts_are_put_into_their_places_once():
    gap = build(PAIR).gap(Texts("a [Z] and [Y]", "b\n[X]"))
    assert gap.before == "a [Z] and [Y] So b [X]? "
    assert (gap.after, gap.candidates) == ("", ("yes", "no"))
    assert build(GOOD).gap(Texts("fine")).before == "Review: fine\nIt was "
    assert build(GOOD).gap(Texts("fine")).after == "."
    assert build(GOOD).candidates == ("good", "great", "bad")


def test_examples_stand_in_front_with_the_first_word_of_their_label():
    shots = [{"x": "Fun [X]", "z": "positive"}, {"x": "Dull", "z": "negative"}]
    gap = build({**GOOD, "examples": shots, "between": "\n--\n"}).gap(Texts("Well"))
    assert gap.before == ("Review: Fun [X]\nIt was good.\n--\nReview: Dull\nIt was bad.\n--\nReview: Well\nIt was ")
    written = build(
        {"text": "[X] =", "kind": "write", "examples": []} | {"text": "[X] = [Z]", "examples": [{"x": "a", "z": "b"}]}
    )
    assert written.gap(Texts("c")).before == "a = b\n\nc = "


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**GOOD, "text": "It was [Z]."}, r"mine: text has no \[X\]: write it where the text belongs"),
        ({**GOOD, "text": "It was [X]."}, r"mine: text has no \[Z\]: write it where the answer belongs"),
        ({**GOOD, "text": "[X] [Z] [Z]"}, r"mine: text has 2 \[Z\]: there is one place for the answer"),
        ({**GOOD, "answers": {"positive": "good"}}, "answers has 1 of them: give two labels at least"),
        ({**GOOD, "answers": {"a": "good", "b": " Good"}}, "answers.b: ' Good' is also an answer of a: choose words"),
        ({**GOOD, "answers": {"a": ["x", "x"], "b": "y"}}, "answers.a: 'x' is also an answer of a"),
        ({**GOOD, "answers": {"a": "good", "b": " "}}, "answers.b is empty: give it a word"),
        ({**GOOD, "answers": {"a": "good", "b": []}}, "answers.b is empty: give it a word"),
        ({**GOOD, "answers": {"a": "good", "b": 3}}, "mine: answers.b must be "),
        ({**GOOD, "anwsers": {}}, "mine: unknown setting anwsers, did you mean answers"),
        ({**GOOD, "examples": [{"x": "a", "z": "fine"}]}, r"examples\[0\].z is 'fine', which has no answer"),
        ({**PAIR, "examples": [{"x": "a", "z": "yes"}]}, r"examples\[0\] has no y"),
        ({**GOOD, "kind": "write"}, "answers are for kind: choose, and this is write"),
        ({**GOOD, "empty": []}, "empty has no input: give one at least"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(settings, said):
    with pytest.raises(ValueError, match=said) as caught:
        build(settings, name="mine")
    assert "\n" not in str(caught.value)


def test_eight_kinds_are_in_the_box_in_two_forms_and_two_languages(tmp_path):
    every = dict(list_templates())
    kinds = {"sentiment", "topic", "intent", "aspect", "entailment", "summary", "translation"}
    kinds |= {f"cloze-{kind}" for kind in (*kinds, "entity")} | {"entities"}
    assert set(every) == kinds | {f"{kind}-fr" for kind in kinds}
    assert all(one.about for one in every.values())
    assert every["entailment"].pair
    between = {name for name, one in every.items() if one.text_after_answer}
    assert between == {"cloze-entailment", "cloze-entailment-fr"}  # a GPT can use each of the others
    assert len(shipped_paths()) == len(every)
    with pytest.raises(ValueError, match=r"no template named sentimant, did you mean sentiment.*: give a YAML file"):
        read("sentimant")
    (tmp_path / "mine.yaml").write_text("text: '[X] [Z]'\nanswers: {a: b, c: d}\ncut: start\n")
    assert read(tmp_path / "mine.yaml", ["cut=end"]).cut == "end"
    with pytest.raises(ValueError, match=r"gone.yaml: no such file"):
        read(tmp_path / "gone.yaml")


def test_labels_of_files_find_their_answers():
    template = build({**GOOD, "names": {"1": "positive"}})
    assert [template.label(each) for each in ("1", "POSITIVE", "negative", "0")] == [
        "positive",
        "positive",
        "negative",
        None,
    ]


FILES = {
    "a.csv": 'label,text\n1,"good, fine\nand more"\n0,bad\n',
    "a.tsv": "good, fine and more\t1\nbad\t0\n",
    "a.jsonl": '{"review": "good, fine and more", "label": 1}\n{"review": "bad", "label": "0"}\n',
    "b.csv": "id;review;other;sentiment\n9;good, fine and more;x;1\n9;bad;y;0\n",
}


@pytest.mark.parametrize("name", FILES)
def test_labelled_files_are_read_by_their_columns(name, tmp_path):
    path = tmp_path / name
    path.write_text(FILES[name])
    found, notes = read_file(str(path), build({**GOOD, "names": {"1": "positive", "0": "negative"}}))
    assert [" ".join(one.texts.x.split()) for one in found] == ["good, fine and more", "bad"]
    assert [one.right for one in found] == ["positive", "negative"]
    last = {"a.csv": 4, "a.tsv": 2, "a.jsonl": 2, "b.csv": 3}[name]
    assert found[-1].place == f"{path}:{last}"
    left_out = [f"{path}: text is review, label is sentiment; id, other are left out"]
    assert notes == (left_out if name == "b.csv" else [])


@pytest.mark.parametrize(
    ("name", "text", "changes", "said"),
    [
        ("a.tsv", "fine\tpositive\nwell\tneutral\n", {}, "a.tsv:2: the label 'neutral' has no answer: name one of"),
        ("a.tsv", "text\tlabel\nfine\n", {}, "a.tsv:2: 1 column, wanted column 2"),
        ("a.tsv", "text\tlabel\n", {}, "a.tsv: no text with a label"),
        ("a.tsv", "", {}, "a.tsv is empty"),
        (
            "a.csv",
            "a,label\nx,positive\n",
            {},
            r"holds the text \(a, label\): name it, as columns.x=COLUMN",
        ),
        (
            "a.csv",
            "a,label\nx,positive\n",
            {"columns": {"x": "b"}},
            "no column 'b'; there are a, label: name it",
        ),
        ("a.jsonl", '{"text": "a"}\n', {}, r"which column holds the label \(text\): name it, as columns.label=COLUMN"),
        ("a.jsonl", '{"text": "a", "label": "positive"}\n[]\n', {}, "a.jsonl:2: no JSON object"),
        ("a.jsonl", "hello\n", {}, "a.jsonl:1: invalid JSON"),
    ],
)
def test_a_bad_file_is_named_with_its_line(name, text, changes, said, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read_file(str(tmp_path / name), build({**GOOD, **changes}))


def test_texts_with_other_labels_are_left_out_and_counted_where_that_is_asked_for(tmp_path):
    (tmp_path / "a.tsv").write_text("fine\tpositive\nwell\tneutral\nno\tnegative\n")
    found, notes = read_file(str(tmp_path / "a.tsv"), build({**GOOD, "others": "leave"}))
    assert [one.texts.x for one in found] == ["fine", "no"]
    assert notes == [f"{tmp_path / 'a.tsv'}: 1 text left out: no answer for its label"]


def test_every_sample_of_prompts_has_a_template_that_knows_its_labels():
    forms = {name for name, _ in list_templates() if name.startswith("cloze-") and not name.endswith("-fr")}
    samples = {f"cloze-{path.stem}": path for path in SAMPLES.glob("*.tsv")}
    assert samples.keys() == forms
    for name, path in samples.items():
        template = read(name)
        examples, notes = read_file(str(path), template)
        assert not notes, "nothing is left out"
        assert len(examples) >= 8
        assert not template.labels or {example.right for example in examples} == set(template.labels)
        french = read(f"{name}-fr")
        assert {french.label(label) for label in template.labels} == set(french.labels)

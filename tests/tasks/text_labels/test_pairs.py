"""Pairs of texts: found in files, laid out for every kind of model, learnt, and answered as somebody gives them."""

import json

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models as kinds
from tokenizers import pre_tokenizers, processors
from typer.testing import CliRunner

import regard
from regard import recipe
from regard.cli import app
from regard.data.tokenizers import Tokenizer
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.input_format import add_format_tokens, build_format, encode_texts, truncated_lengths
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.classification import Classification
from regard.tasks.text_labels.files import LabelsConfig
from regard.tasks.text_labels.preparation import prepare
from regard.tasks.text_labels.recognition import recognise_labelled_texts
from regard.tasks.text_labels.text_pairs import pair_column_names, parse_pair, read_pairs
from regard.training.task import Given

SIZES = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "dropout": 0.0}
BERT = {"name": "bert-encoder", **SIZES, "head_dropout": 0.0}
GPT = {"name": "gpt-encoder", **SIZES, "head_dropout": 0.0}
PLAIN = {"name": "transformer-encoder", **SIZES, "embedding": 16}
TRAINING = {"steps": 4, "log_every": 4, "eval_every": 4, "save_every": 4, "device": "cpu", "tensorboard": False}


def told(word: str, other: str) -> str:
    return "same" if word == other else "other"


@pytest.fixture
def table(tmp_path):
    """Pairs that are the same if their last words are."""
    words = ["cat", "dog", "king", "bird"]
    rows = [(f"a {one} {n}", f"the {two} {n}", told(one, two)) for n in range(6) for one in words for two in words[:3]]
    path = tmp_path / "pairs.tsv"
    path.write_text("id\tpremise\thypothesis\tgold_label\n" + "".join("0\t" + "\t".join(row) + "\n" for row in rows))
    return path


def settings(path, model):
    data = {"train": {"path": str(path)}, "batch_tokens": 256}
    return {
        "task": "classification",
        "data": data,
        "model": model,
        "tokenizer": {"kind": "words"},
        "training": TRAINING,
    }


def words(special: bool, *names: str) -> Tokenizer:
    """A tokenizer of words, maybe with a template of its own."""
    vocab = {name: number for number, name in enumerate((*names, "<unk>", *"abcdef"))}
    engine = Engine(kinds.WordLevel(vocab, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.add_special_tokens([*names, "<unk>"])
    if special:
        first, last = names[0], names[1]
        engine.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}",
            pair=f"{first} $A {last} {last} $B {last}",
            special_tokens=[(first, 0), (last, 1)],
        )
    return Tokenizer(engine, TextTokenizerConfig(kind="words", max_length=8))


def spelled(own: Tokenizer, style: str, *texts: str) -> tuple[str, int]:
    own = add_format_tokens(own, style, pairs=len(texts) > 1)
    [laid] = encode_texts(own, build_format(own, style, pairs=len(texts) > 1), [texts])
    return " ".join(piece.strip() for piece in own.pieces(laid.tokens)), laid.second_start


def test_every_kind_of_model_has_its_format():
    own = words(False, "[CLS]", "[SEP]")
    assert spelled(own, "bert", "a b") == ("[CLS] a b [SEP]", 4)
    assert spelled(own, "bert", "a b", "c") == ("[CLS] a b [SEP] c [SEP]", 4)
    assert spelled(own, "plain", "a b", "c") == ("a b [SEP] c", 2)
    assert spelled(own, "plain", "a b") == ("a b", 2)
    assert spelled(words(False, "<bos>", "<eos>"), "gpt", "a b", "c")[0] == "<bos> a b <delimiter> c <extract>"
    assert spelled(words(False, "<|endoftext|>"), "gpt", "a")[0] == "<|endoftext|> a <extract>"
    assert spelled(words(False, "<pad>"), "bert", "a", "b") == ("<bos> a <sep> b <sep>", 3)


def test_the_template_of_a_tokenizer_is_kept():
    own = words(True, "<s>", "</s>")
    assert spelled(own, "bert", "a", "b c")[0] == "<s> a </s> </s> b c </s>"
    assert spelled(own, "bert", "a")[0] == "<s> a </s>"


@pytest.mark.parametrize(
    ("one", "other", "room", "kept"),
    [(2, 3, 5, (2, 3)), (9, 2, 6, (4, 2)), (2, 9, 6, (2, 4)), (9, 8, 7, (4, 3)), (4, 9, 7, (4, 3)), (1, 1, 2, (1, 1))],
)
def test_the_longer_text_is_cut_first(one, other, room, kept):
    assert truncated_lengths(one, other, room) == kept


def test_a_context_too_short_for_the_format_is_named():
    own = words(False, "[CLS]", "[SEP]").with_text_config(TextTokenizerConfig(kind="words", max_length=4))
    with pytest.raises(ValueError, match="max_length is 4 tokens, and 3 stand around two texts: raise it to 5"):
        build_format(own, "bert", pairs=True)
    assert build_format(own, "bert", pairs=False).num_special_tokens(1) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "sentence1\tsentence2\tlabel\na b\tc\tyes\nd\te\tno\n"),
        ("a.csv", 'label,question,passage\nyes,"a b",c\nno,d,e\n'),
        (
            "a.jsonl",
            '{"premise": "a b", "hypothesis": "c", "label": "yes"}\n'
            '{"premise": "d", "hypothesis": "e", "label": "no"}\n',
        ),
        (
            "a.tsv",
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            "1\ta b\tc\t3.5\tyes\n2\td\te\t1\tno\n",
        ),
    ],
)
def test_pairs_are_recognised_by_their_names(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    found = read_examples([LabelledFile(path=str(path))], {}, 0.0)
    assert found.pairs
    assert [(example.texts, example.labels) for example in found.examples] == [
        (("a b", "c"), ("yes",)),
        (("d", "e"), ("no",)),
    ]


def test_pairs_are_named_by_settings_and_known_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n,left,right,verdict\n1,a b,c,yes\n2,d,e,no\n")
    file = LabelledFile(path=str(path), text=("left", "right"), label="verdict")
    assert [example.texts for example in read_examples([file], {}, 0.0).examples] == [("a b", "c"), ("d", "e")]
    numbered = LabelledFile(path=str(path), columns=(2, 3, 4), heading=True)
    assert [example.labels for example in read_examples([numbered], {}, 0.0).examples] == [("yes",), ("no",)]
    with pytest.raises(ValueError, match="both texts of a pair are 'left'"):
        LabelledFile(path="a", text=("left", "left"))


def test_a_pair_without_its_second_text_is_refused_with_its_place(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("premise\thypothesis\tlabel\na\tb\tyes\nc\t \tno\n")
    with pytest.raises(ValueError, match=r"1 a pair without its second text \(.*a\.tsv:3\)"):
        read_examples([LabelledFile(path=str(path))], {}, 0.0)


def test_a_file_of_pairs_is_claimed_by_its_heading(table):
    claim = recognise_labelled_texts(Given((str(table),)))
    assert claim.data["train"]["text"] == ["premise", "hypothesis"]
    assert "pairs of premise and hypothesis, the label in gold_label" in claim.sentence


@pytest.mark.parametrize("model", [BERT, GPT, PLAIN], ids=lambda model: model["name"])
def test_segments_and_labels_go_with_their_tokens_in_every_row(table, model):
    _, found = recipe.resolve(settings(table, model))
    data = prepare(found.data, found.tokenizer, style=found.model.input_style)
    packing = data.train.packing(64, 0)
    for fixed in (None, packing):
        chosen, bound = packing.row(1)
        batch = data.train.batch(chosen, bound, fixed=fixed)
        assert (batch.segments is not None) is (model is BERT)
        for number, tokens, label, place in zip(
            chosen.tolist(),
            batch.tokens.split(batch.row.lengths.tolist()),
            batch.labels,
            batch.row.offsets,
            strict=False,
        ):
            first, second = data.train.texts[number]
            text = data.tokenizer.decode(tokens.tolist())
            assert text == f"{first} {second}"
            assert data.classes[label] == told(first.split()[1], second.split()[1])
            if batch.segments is not None:
                own = batch.segments[place : place + len(tokens)]
                assert data.tokenizer.decode(tokens[own == 1].tolist()) == second
                assert data.tokenizer.pieces(tokens[own == 0].tolist()[-1:]) == ["<sep>"]


@pytest.mark.filterwarnings("ignore:.*second text is hypothesis; n is left out")
@pytest.mark.parametrize("model", [BERT, GPT, PLAIN], ids=lambda model: model["name"])
def test_a_classifier_of_pairs_is_trained_asked_and_scored(table, model, tmp_path):
    out = recipe.train(settings(table, model), out=tmp_path / "run", quiet=True).folder
    trained = regard.load(out, device="cpu")
    asked = [("a cat 1", "the dog 2"), ("the dog 2", "a cat 1"), ("a king", "the king of the birds and dogs")]
    together = trained.classify(asked)
    for pair, verdict in zip(asked, together, strict=True):
        [alone] = trained.classify(pair)
        assert alone.probability == pytest.approx(verdict.probability, abs=1e-6)
    assert together[0].probability != pytest.approx(together[1].probability, abs=1e-9), "order matters"
    assert trained.evaluate(str(table)).details["labels"].keys() == {"same", "other"}
    assert trained.look(asked[0]).facts["text"] == "a cat 1 | the dog 2"
    listed = {"a.jsonl": '{"hypothesis": "the dog 2", "premise": "a cat 1"}\n', "a.txt": "a cat 1\tthe dog 2\n"}
    listed |= {"a.csv": "hypothesis,n,premise\nthe dog 2,7,a cat 1\n"}
    for name, text in listed.items():
        (tmp_path / name).write_text(text)
        said = CliRunner().invoke(app, ["classify", str(out), "-i", str(tmp_path / name), "--json", "--device", "cpu"])
        told = json.loads(said.stdout)
        assert told["texts"] == ["a cat 1", "the dog 2"]
        assert told["probability"] == pytest.approx(together[0].probability, abs=1e-5)
    said = CliRunner().invoke(app, ["classify", str(out), "a cat 1\tthe dog 2", "--device", "cpu"])
    assert said.stdout.split("\t")[0] == together[0].label


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a cat", "'a cat' has no second text, and this model reads pairs: write them with a tab"),
        ("a\tb\tc", "has 3 texts"),
        ("a\t ", "one text of the pair 'a' is empty"),
        ('{"a": "x", "b": "y", "c": "z"}', "no pair of texts in"),
        ('{"a": ', "invalid JSON"),
    ],
)
def test_what_is_no_pair_is_refused_in_a_line(text, said):
    with pytest.raises(ValueError, match=said) as error:
        parse_pair(text)
    assert "\n" not in str(error.value)


def test_a_file_of_single_texts_cannot_score_a_model_of_pairs(table, tmp_path):
    (tmp_path / "texts.tsv").write_text(
        "".join(f"text {n}\t{label}\n" for n, label in enumerate(["same", "other"] * 9))
    )
    out = recipe.train(settings(table, PLAIN), out=tmp_path / "run", quiet=True).folder
    with pytest.raises(ValueError, match="holds single texts, and this model reads pairs of texts"):
        regard.load(out, device="cpu").evaluate(str(tmp_path / "texts.tsv"), columns=(1, 2))


def test_texts_that_are_learnt_from_and_measured_on_are_counted(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{name if n % 3 else 'both'} {n}\t{n % 2}\n" for n in range(9)))
    files = {name: (LabelledFile(path=str(tmp_path / f"{name}.tsv")),) for name in ("train", "valid")}
    data = prepare(LabelsConfig(**files), TextTokenizerConfig())
    [line] = [line for line in data.summary if "also trained on" in line]
    assert line.startswith("3 of the texts measured on are also trained on (")
    assert "valid.tsv:1, " in line


def test_pairs_are_checked_before_training(table):
    _, found = recipe.resolve(settings(table, PLAIN))
    report = Classification.check(found, tokens=True)
    assert not report.problems
    assert report.lengths["tokens"].plain()["most"] == 7, "three words twice, and what stands between"


def test_a_table_of_pairs_is_read_by_the_names_of_training(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\ufeffid;erste;zweite;urteil\n1;"a; b";c;yes\n2;d;e;no\n', encoding="utf-8")
    with pytest.warns(UserWarning, match="text is erste, second text is zweite; id, urteil are left out"):
        assert read_pairs(path, ["erste", "zweite"], (2, 3)) == [("a; b", "c"), ("d", "e")]
    assert pair_column_names({"file": {"columns": [2, 3, 4]}, "text_columns": ["erste", "zweite"]}) == [
        "erste",
        "zweite",
    ]
    path.write_text("a;b\nc;d\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="no columns named x and y as in training: first text is column 1, second"):
        assert read_pairs(path, ["x", "y"]) == [("a", "b"), ("c", "d")]


def test_a_line_that_cannot_be_read_is_never_passed_over(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("premise,hypothesis\na,b\nun été,c\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"1 invalid UTF-8 .*it looks like Latin-1: iconv"):
        read_pairs(path)

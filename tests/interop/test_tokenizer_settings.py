"""tokenizer_config.json beside a tokenizer.json: the tokens are those of `transformers`, or one line says why not."""

import json
import warnings

import pytest

from regard.interop.tokenizers import read
from tests.interop.vocabularies import HARD, byte_pairs, parsed, word_pieces

BERT = {"tokenizer_class": "BertTokenizer"}
GPT2 = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def settle(folder, settings):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def make_whole(folder, kind):
    """Write the tokenizer of a folder as tokenizer.json alone."""
    text = read(folder, kind=kind)
    for path in folder.iterdir():
        path.unlink()
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def bert(tmp_path):
    return make_whole(word_pieces(tmp_path / "bert", lowercase=True), "bert")


@pytest.fixture
def gpt2(tmp_path):
    return make_whole(byte_pairs(tmp_path / "gpt2", ["<|endoftext|>"]), "gpt2")


def check_parity(folder, kind, name):
    import transformers

    ours, theirs = parsed(folder, kind), getattr(transformers, name).from_pretrained(folder)
    for text in HARD:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False), text
    return ours, theirs


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": None, "tokenize_chinese_chars": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["BertTokenizer", "BertTokenizerFast", None])
def test_letters_of_a_bert_are_cut_as_its_settings_say(name, settings, bert):
    settle(bert, {**settings, **({"tokenizer_class": name} if name else {})})
    check_parity(bert, "bert", "BertTokenizer")


@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
@pytest.mark.parametrize("prefix", [True, False])
def test_a_text_begins_with_a_blank_where_the_settings_say_so(kind, prefix, tmp_path):
    special = ROBERTA if kind == "roberta" else ["<|endoftext|>"]
    folder = make_whole(byte_pairs(tmp_path / kind, special), kind)
    name = "RobertaTokenizer" if kind == "roberta" else "GPT2Tokenizer"
    settle(folder, {"tokenizer_class": name, "add_prefix_space": prefix})
    check_parity(folder, kind, name)


@pytest.mark.parametrize("begin", [True, False])
def test_a_begin_token_stands_before_a_text_where_the_settings_say_so(begin, tmp_path):
    folder = byte_pairs(tmp_path / "gpt2", ["<|endoftext|>"])
    settle(folder, {**GPT2, "add_bos_token": begin})
    ours, theirs = check_parity(folder, "gpt2", "GPT2Tokenizer")
    assert ours.opens == begin
    assert (theirs.encode("a dog")[0] == ours.begin) == begin
    make_whole(folder, "gpt2")
    settle(folder, {**GPT2, "add_bos_token": not begin})
    with pytest.warns(
        UserWarning, match=r"add_bos_token is .*, and tokenizer\.json, which counts, (puts|does not put)"
    ):
        ours, theirs = check_parity(folder, "gpt2", "GPT2Tokenizer")
    assert ours.opens == begin
    assert (theirs.encode("a dog")[0] == ours.begin) == begin


def test_an_end_token_after_every_text_is_refused(tmp_path):
    folder = byte_pairs(tmp_path / "gpt2", ["<|endoftext|>"])
    settle(folder, {**GPT2, "add_eos_token": True})
    with pytest.raises(ValueError, match="add_eos_token is true, and nothing is put after a text here"):
        read(folder, kind="gpt2")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"},
            "do_lower_case is false for PreTrained",
        ),
        ({**BERT, "do_basic_tokenize": False}, "do_basic_tokenize must be true or null, not false"),
        ({**BERT, "never_split": ["a"]}, r'never_split must be null or \[\], not \["a"\]'),
        ({**BERT, "do_lower_case": "yes"}, 'do_lower_case must be true or false, not "yes"'),
        ({**BERT, "auto_map": {"AutoTokenizer": ["x.Y", None]}}, "auto_map is .*, code of its own, which is never run"),
        ({"tokenizer_class": 3}, "tokenizer_class must be a name, not 3"),
    ],
    ids=str,
)
def test_settings_that_are_not_understood_are_refused_in_one_line(settings, message, bert):
    settle(bert, settings)
    with pytest.raises(ValueError, match=message) as caught:
        read(bert, kind="bert")
    assert str(caught.value).startswith(f"{bert / 'tokenizer_config.json'}: ")
    assert "\n" not in str(caught.value)


def test_a_default_that_contradicts_the_tokenizer_is_refused(tmp_path):
    cased = make_whole(word_pieces(tmp_path / "bert", lowercase=False), "bert")
    assert parsed(cased, "bert").encode("The") != parsed(cased, "bert").encode("the"), "alone it is as it is"
    settle(cased, BERT)
    message = (
        "do_lower_case is not said, so true for BertTokenizer, and false in the tokenizer itself: set do_lower_case"
    )
    with pytest.raises(ValueError, match=message):
        read(cased, kind="bert")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"add_prefix_space": True, "tokenizer_class": "PreTrainedTokenizerFast"},
            "add_prefix_space is true for PreTr",
        ),
        ({"do_lower_case": True}, "do_lower_case is true for GPT2Tokenizer, and false in the tokenizer itself"),
    ],
    ids=str,
)
def test_settings_that_contradict_a_tokenizer_of_bytes_are_refused(settings, message, gpt2):
    settle(gpt2, settings)
    with pytest.raises(ValueError, match=message):
        read(gpt2, kind="gpt2")


def test_a_setting_that_nobody_knows_is_reported_and_one_that_changes_no_token_is_not(gpt2):
    settle(gpt2, {**GPT2, "chat_template": "x", "model_max_length": 10**30, "padding_side": "left"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(gpt2, kind="gpt2")
    settle(gpt2, {**GPT2, "keep_accents": True, "zig": 1})
    with pytest.warns(UserWarning, match=r"tokenizer_config\.json: keep_accents, zig: not known here, so not followed"):
        read(gpt2, kind="gpt2")

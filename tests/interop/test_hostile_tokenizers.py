"""Tokenizers that panic, abort, take all memory or never end: each is refused in one line and harms nothing here."""

import json

import pytest

from regard import checkpoint
from regard.cli import run
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.limits import MOST_ADDED, MOST_MERGES, check_added_tokens, check_merges
from regard.interop.tokenizer_trial import try_tokenizer
from regard.interop.tokenizers import read
from tests.interop.making import engine, lay


def replacing(times, content="a" * 50):
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": content}
    return {"type": "Sequence", "normalizers": [step] * times}


def framed(*names, listed=("<|endoftext|>",)):
    """Return a post-processor that puts tokens before every text and lists some of them."""
    template = [
        *({"SpecialToken": {"id": name, "type_id": 0}} for name in names),
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    special = {name: {"id": name, "ids": [0], "tokens": [name]} for name in listed}
    pair = [*template, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": template, "pair": pair, "special_tokens": special}


SOUND = json.loads(engine().to_str())
HOSTILE = {
    "takes all memory": ({"normalizer": replacing(6)}, "the tokenizer takes more than 0.5 GiB of memory"),
    "takes a minute for a text": ({"normalizer": replacing(4)}, "(the tokenizer takes more than|its normalizer makes)"),
    "makes a text long": ({"normalizer": replacing(2)}, r"its normalizer makes [\d,]+ characters of 64"),
    "grows where few letters do": (
        {
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Replace", "pattern": {"String": "xyzzy"}, "content": "q" * 50},
                    {"type": "Replace", "pattern": {"String": "qq"}, "content": "z" * 100},
                ],
            }
        },
        "its normalizer makes 2,500 characters of 5",
    ),
    "writes long texts": (
        {"decoder": {"type": "Sequence", "decoders": [SOUND["decoder"], *replacing(3)["normalizers"]]}},
        r"its decoder makes [\d,]+ characters of",
    ),
    "panics": ({"post_processor": framed("<s>")}, "the tokenizer cannot be used: .*"),
    "frames texts": ({"post_processor": framed(*["<|endoftext|>"] * 1000)}, "more than 64 tokens around every text"),
    "is never the same": ({"model": {**SOUND["model"], "dropout": 0.5}}, "the same text other tokens every time"),
    "has a vocabulary of another kind": ({"model": {**SOUND["model"], "type": "Unigram"}}, "cannot be used: "),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_tokenizer_that_does_harm_is_refused_in_one_line(case, tmp_path, capfd):
    changes, message = HOSTILE[case]
    (tmp_path / "tokenizer.json").write_text(json.dumps({**SOUND, **changes}), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, kind="gpt2")
    assert str(caught.value).startswith(f"{tmp_path / 'tokenizer.json'}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert capfd.readouterr() == ("", ""), "nothing of what the library says comes through"


def test_a_tokenizer_that_does_no_harm_passes():
    try_tokenizer(json.dumps(SOUND))


def test_the_command_says_one_line_and_leaves_nothing_behind(tmp_path, capfd):
    lay(tmp_path / "gpt")
    (tmp_path / "gpt" / "tokenizer.json").write_text(json.dumps({**SOUND, "post_processor": framed("<s>")}))
    capfd.readouterr()
    assert run(["import", str(tmp_path / "gpt"), str(tmp_path / "out")]) == 1
    said = capfd.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"vocab": {"a": 0, "b": 1}, "merges": ["a b"]}, 'a merge joins "a" and "b", and the vocabulary lacks "ab"'),
        ({"vocab": {"a": 0, "ab": 1}, "merges": [["a", "b"]]}, 'the vocabulary lacks "b"'),
        ({"vocab": {"a": 0}, "merges": [["a"]]}, r'a merge must name two pieces, not be \["a"\]'),
        (
            {"vocab": {"a": 0}, "merges": ["a a"] * (MOST_MERGES + 1)},
            "has 2,000,001 merges, and 2,000,000 are possible",
        ),
    ],
)
def test_merges_must_fit_the_vocabulary_and_be_so_many(model, message):
    with pytest.raises(ValueError, match=message):
        check_merges(model)


def test_merges_may_have_a_prefix_in_the_middle_of_words():
    check_merges({"vocab": {"a": 0, "##b": 1, "ab": 2}, "merges": ["a ##b"], "continuing_subword_prefix": "##"})


def test_added_tokens_are_so_many_and_none_is_there_twice():
    token = {"id": 0, "content": "<a>"}
    with pytest.raises(ValueError, match='added_tokens lists "<a>" twice'):
        check_added_tokens({"added_tokens": [token, {**token, "id": 1}]})
    with pytest.raises(ValueError, match="lists 100,001 tokens, and 100,000 are possible"):
        check_added_tokens({"added_tokens": [token] * (MOST_ADDED + 1)})


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A checkpoint that nobody has touched."""
    here = tmp_path_factory.mktemp("imported")
    lay(here / "gpt")
    assert run(["import", str(here / "gpt"), str(here / "model")]) == 0
    return here / "model"


def tampered(checkpoint_folder, place, changes):
    """Return a copy of a checkpoint with another tokenizer, whose manifest fits, as somebody may hand it on."""
    known = checkpoint.read(checkpoint_folder)
    contents = {name: known.data(name) for name in known.files}
    contents["tokenizer.json"] = json.dumps({**json.loads(contents["tokenizer.json"]), **changes}).encode()
    checkpoint.write(place, contents, facts=known.manifest["facts"])
    return place


INSIDE = {
    "takes all memory": "its normalizer can make a text 15,625,000,000 times as long",
    "takes a minute for a text": "its normalizer can make a text 6,250,000 times as long",
    "makes a text long": "its normalizer can make a text 2,500 times as long",
    "grows where few letters do": "its normalizer can make a text 500 times as long",
    "writes long texts": "its decoder can make a text 125,000 times as long",
    "panics": 'its template puts in the token "<s>", which it does not list',
    "frames texts": "its template puts more than 64 tokens around every text",
    "is never the same": "its model has dropout",
    "has a vocabulary of another kind": "not a tokenizer.json: ",
    "merges what it lacks": 'a merge joins "a" and "b", and the vocabulary lacks',
    "fills texts up": "its padding must be null",
    "doubles texts": "has more than 2 ByteLevel steps",
    "repeats texts": "its template repeats a text",
    "is nested": "has 100 steps, and 32 are possible",
    "has no end": "which may take exponential time",
}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
TWICE = {"Sequence": {"id": "A", "type_id": 0}}
MORE = {
    "merges what it lacks": {
        "model": {**SOUND["model"], "vocab": {"a": 0, "b": 1, "<|endoftext|>": 2}, "merges": ["a b"]}
    },
    "fills texts up": {
        "padding": {
            "strategy": {"Fixed": 10**12},
            "direction": "Right",
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "a",
        }
    },
    "doubles texts": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES] * 20}},
    "repeats texts": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [TWICE, TWICE],
            "pair": [TWICE, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {},
        }
    },
    "is nested": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 100}},
    "has no end": {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}},
}


@pytest.mark.parametrize("case", INSIDE)
def test_a_checkpoint_with_a_hostile_tokenizer_is_refused_in_one_line_though_its_manifest_fits(
    case, imported, tmp_path, capfd
):
    folder = tampered(imported, tmp_path / "model", MORE.get(case) or HOSTILE[case][0])
    capfd.readouterr()
    assert run(["generate", str(folder), "The dog", "--device", "cpu"]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert "\n" not in said.err.rstrip("\n")
    assert INSIDE[case] in said.err
    assert str(folder) in said.err


def test_a_checkpoint_that_nobody_has_touched_is_read(imported, capfd):
    assert run(["generate", str(imported), "The dog", "--device", "cpu", "-s", "length=2"]) == 0


def test_a_nesting_without_end_is_refused():
    with pytest.raises(ValueError, match="nested too deeply"):
        Tokenizer.parse('{"model": {}, "normalizer": ' + "[" * 100_000 + "]" * 100_000 + "}")

"""Whatever bytes are in the files: through the whole preparation, pairs never shift and every line is accounted for."""

import json
import os
import random
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, seed, settings
from hypothesis import strategies as st

from regard import models, recipe
from regard.data import readers
from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig, train
from regard.tasks.translation.pairs import PairsConfig, Prepared, prepare

TOKENIZER = train(["un chat", "deux chiens"], TokenizerConfig(vocab=300, normalise="none"))
LINE = 40
UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\xad\u200b-\u200f\ufeff]")
BAD = [b"\xff", b"\xc3", b"\0", b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"x" * (LINE + 1)]
ODD = [
    b"\r",
    b"\xef\xbb\xbf",
    "\u2028".encode(),
    "\u2029".encode(),
    "\x85".encode(),
    b"\x0b",
    b"\x0c",
    b"\x1c",
    b"\x1a",
]
GOOD = [b"chat", b"un chien", "d\u00e9j\u00e0".encode(), "e\u0301".encode(), "\U0001f600".encode(), b"<eos>", b" "]

piece = st.sampled_from(GOOD) | st.sampled_from(ODD) | st.sampled_from(BAD + GOOD) | st.binary(max_size=6)
line = st.lists(st.sampled_from(GOOD) | st.sampled_from(ODD), min_size=1, max_size=3) | st.lists(piece, max_size=3)
side = st.lists(line.map(b"".join), min_size=1, max_size=12)


@st.composite
def sides(draw) -> tuple[bytes, bytes]:
    """Two files, mostly of as many lines; some begin with a byte order mark, some end without a newline."""
    source = draw(side)
    target = draw(st.lists(line.map(b"".join), min_size=len(source), max_size=len(source)) | side)
    begins, ends = st.sampled_from([b"", b"", b"\xef\xbb\xbf"]), st.sampled_from([b"\n", b"\n", b""])
    return tuple(draw(begins) + b"\n".join(lines) + draw(ends) for lines in (source, target))


def read(data: bytes) -> list[str | None]:
    """The lines of a file read in another way: None where one must be refused."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] == b"" and (len(lines) > 1 or not data):
        lines.pop()
    texts: list[str | None] = []
    for line in (line.removesuffix(b"\r") for line in lines):
        text = unicodedata.normalize("NFC", line.decode(errors="ignore")).strip()
        valid = line == line.decode(errors="ignore").encode()
        seen = UNSEEN.sub("", text).strip()
        texts.append(text if valid and seen and b"\0" not in line and len(line) <= LINE else None)
    return texts


def files(folder: Path, source: bytes, target: bytes) -> Corpus:
    (folder / "a.fr").write_bytes(source)
    (folder / "a.en").write_bytes(target)
    return Corpus(source=str(folder / "a.fr"), target=str(folder / "a.en"))


def prepared(corpus: Corpus, cache: Path, **settings) -> Prepared:
    config = PairsConfig(train=(corpus,), **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "LINE", LINE)
        return prepare(config, TokenizerConfig(), seed=0, cache=cache, tokenizers=(TOKENIZER, TOKENIZER))


def decoded(prepared: Prepared) -> dict[int, tuple[str, str]]:
    """Every training pair by the line it says it is from."""
    pairs = prepared.train
    found = {}
    for example, place in enumerate(pairs.places(np.arange(len(pairs)))):
        both = (pairs.shards.gather(side, np.array([example]))[0] for side in ("source", "target"))
        found[int(place.rpartition(":")[2])] = tuple(TOKENIZER.decode(tokens.tolist()) for tokens in both)
    return found


shares = st.sampled_from([0.0, 0.2, 0.5, 1.0])


@settings(max_examples=60)
@given(sides(), shares)
def test_every_pair_is_the_text_of_its_line_and_every_line_is_accounted_for(tmp_path, sides, reject):
    accounted(tmp_path, sides, reject)


@pytest.mark.faults
def test_every_line_of_thousands_of_files_is_accounted_for(tmp_path):
    chosen = int(os.environ.get("REGARD_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"REGARD_FAULT_SEED={chosen}")

    @seed(chosen)
    @settings(derandomize=False, max_examples=2000)
    @given(sides(), shares)
    def whatever(sides, reject):
        accounted(tmp_path, sides, reject)

    whatever()


def accounted(tmp_path: Path, sides: tuple[bytes, bytes], reject: float) -> None:
    """Prepare two files, and compare with reading them in another way."""
    left, right = map(read, sides)
    corpus = files(tmp_path, *sides)
    if any(data.startswith(b"\x1f\x8b") for data in sides):
        return
    if len(left) != len(right):
        event("different lengths")
        with pytest.raises(ValueError, match=rf"a\.fr has {len(left)} lines but .*a\.en has {len(right)}:"):
            prepared(corpus, tmp_path / "cache", reject=reject)
        return
    good = {n: pair for n, pair in enumerate(zip(left, right, strict=True), start=1) if None not in pair}
    bad = len(left) - len(good)
    if bad > reject * len(left) or not good:
        event("too many bad lines")
        complaint = rf"^{bad} of {len(left)} lines|^no usable pair in" if left else "is empty"
        with pytest.raises(ValueError, match=complaint) as error:
            prepared(corpus, tmp_path / "cache", reject=reject)
        places = re.findall(r"a\.(fr|en):(\d+)", str(error.value))
        assert places or not left
        assert all((left if name == "fr" else right)[int(number) - 1] is None for name, number in places)
        return
    valid = files_of_one_pair(tmp_path)
    event("trained on")
    found = prepared(corpus, tmp_path / "cache", reject=reject, valid=(valid,), max_length=256)
    assert decoded(found) == good
    (report,) = found.report["train"]["corpora"]
    assert report["read"] == len(left)
    assert report["kept"] == len(good)
    assert sum(one["count"] for one in report["refused"].values()) == bad
    for place in (place for one in report["refused"].values() for place in one["places"]):
        name, number = re.fullmatch(r".*a\.(fr|en):(\d+)", place).groups()
        assert (left if name == "fr" else right)[int(number) - 1] is None


def files_of_one_pair(folder: Path) -> Corpus:
    (folder / "valid.tsv").write_text("un\tone\n")
    return Corpus(path=str(folder / "valid.tsv"))


escapes = st.sampled_from(
    ["\\ud800", "\\udfff", "\\ud83d\\ude00", "\\u0000", "\\u2028", "\\n", "\\ufeff", "a", "\u00e9", " "]
)
values = st.lists(escapes, max_size=4).map("".join)


@settings(max_examples=25)
@given(st.lists(st.tuples(values, values), min_size=1, max_size=8))
def test_escapes_in_json_are_refused_where_they_are_no_text(tmp_path, pairs):
    path = tmp_path / "a.jsonl"
    lines = [f'{{"source": "{source}", "target": "{target}"}}' for source, target in pairs]
    path.write_text("\n".join(lines), encoding="utf-8")

    def text(value: str) -> str:
        value = unicodedata.normalize("NFC", json.loads(f'"{value}"')).strip()
        unusable = "\0" in value or re.search("[\ud800-\udfff]", value) or not UNSEEN.sub("", value).strip()
        return "" if unusable else value

    cleaned = enumerate(((text(source), text(target)) for source, target in pairs), start=1)
    good = {number: pair for number, pair in cleaned if all(pair)}
    valid = files_of_one_pair(tmp_path)
    config = PairsConfig(train=(Corpus(path=str(path)),), valid=(valid,), reject=1.0)
    if not good:
        with pytest.raises(ValueError, match="no usable pair"):
            prepare(config, TokenizerConfig(), seed=0, cache=tmp_path / "cache", tokenizers=(TOKENIZER, TOKENIZER))
        return
    found = prepare(config, TokenizerConfig(), seed=0, cache=tmp_path / "cache", tokenizers=(TOKENIZER, TOKENIZER))
    assert decoded(found) == good


def test_a_stricter_share_stops_also_what_is_already_in_the_cache(tmp_path):
    corpus = files(tmp_path, b"un\n\xff\n" + b"deux\n" * 8, b"one\n" * 10)
    valid = (files_of_one_pair(tmp_path),)
    before = prepared(corpus, tmp_path / "cache", reject=0.1, valid=valid)
    assert len(before.train) == 9
    with pytest.raises(ValueError, match=r"1 of 10 lines .*more than the allowed 9\.00%.*a\.fr:2"):
        prepared(corpus, tmp_path / "cache", reject=0.09, valid=valid)


@pytest.mark.parametrize(
    ("source", "target", "settings", "complaint"),
    [
        (b"", b"", {}, "is empty"),
        (b"\xef\xbb\xbf", b"\xef\xbb\xbf", {}, "1 of 1 lines"),
        (b"\n \n\t\n", b"\n \n\t\n", {}, "3 of 3 lines"),
        (b"\n \n\t\n", b"\n \n\t\n", {"reject": 1.0}, "no usable pair"),
        (b"a\n" * 9, b"b b b b\n" * 9, {"ratio": 2.0}, "no pair is left for train: 9 over 2 times"),
        (
            b"a b c d e f g h\n" * 9,
            b"x\n" * 9,
            {"max_length": 4, "valid": True},
            "no pair is left for train: 9 longer than 4",
        ),
        (b"a\nb\n", b"a\n", {}, "has 2 lines but .* has 1"),
        (b"\xff\xfea\0\n\0", b"\xff\xfea\0\n\0", {}, "it looks like UTF-16: iconv -f UTF-16"),
    ],
)
def test_what_cannot_be_trained_on_is_an_error_before_a_model_is_built(
    tmp_path, monkeypatch, source, target, settings, complaint
):
    def build(*arguments):
        raise AssertionError("a model was built")

    monkeypatch.setattr(models, "build", build)
    corpus = files(tmp_path, source, target)
    data = {"train": {"source": corpus.source, "target": corpus.target}, **settings}
    if settings.get("valid"):
        data["valid"] = {"path": files_of_one_pair(tmp_path).path}
    with pytest.raises(ValueError, match=complaint) as error:
        recipe.train({"data": data}, out=tmp_path / "run", quiet=True)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "config.yaml").exists()

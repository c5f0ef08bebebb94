"""From documents to tokens: what is held out, left out and counted, and that cutting a document changes no token."""

import json
import time

import numpy as np
import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.readers import TextFile
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import UnitsConfig
from regard.tasks.pretraining import selection, tokenising
from regard.tasks.pretraining.corpus import Corpus, Prepared, prepare, read
from regard.tasks.pretraining.documents import DocumentsConfig
from regard.tasks.pretraining.tokenising import encode, opening_token, split_text

CHARACTERS = UnitsConfig()
HARD = (
    'Un été à Nürnberg.\n\n  漢字、仮名。\nשלום  עולם\t🙂👨‍👩‍👧\r x\x01y\u2028z\n\n\n"Don\'t!" she said...\n  - 1984\n'
    * 40
)


def files(*paths) -> tuple[TextFile, ...]:
    return tuple(TextFile(path=str(path)) for path in paths)


def texts(corpus: Corpus, own: Tokenizer) -> list[str]:
    """The documents as text; every one is closed by the end token."""
    found = [corpus.tokens[a:b].tolist() for a, b in zip(corpus.starts, corpus.starts[1:], strict=False)]
    assert all(tokens[-1] == own.end for tokens in found)
    return [own.decode(tokens[:-1]) for tokens in found]


def written(tmp_path, documents: list[str], name: str = "a.jsonl"):
    (tmp_path / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return tmp_path / name


def stories(count: int) -> list[str]:
    return [f"story {number} of the {'wolf' * (number % 5)}\nand its end" for number in range(count)]


def test_of_many_documents_a_share_is_held_out_by_content_whatever_their_order(tmp_path):
    told = stories(100)
    one = prepare(DocumentsConfig(train=files(written(tmp_path, told))), CHARACTERS)
    other = prepare(DocumentsConfig(train=files(written(tmp_path, told[::-1], "b.jsonl"))), CHARACTERS)
    held = [texts(each.valid, each.tokenizer) for each in (one, other)]
    assert sorted(held[0]) == sorted(held[1])
    assert len(held[0]) == 10
    assert sorted([*texts(one.train, one.tokenizer), *held[0]]) == sorted(told)
    place = one.valid.place(0)
    assert place == f"{tmp_path / 'a.jsonl'}:{told.index(held[0][0]) + 1}"
    assert any("10 documents held out for validation" in line and place in line for line in one.summary)


def test_of_few_documents_the_last_characters_are_held_out(tmp_path):
    text = "first line\nsecond line\n\nfourth\n"
    (tmp_path / "a.txt").write_text(text)
    made = prepare(DocumentsConfig(train=files(tmp_path / "a.txt"), validation_share=0.5), UnitsConfig(kind="bpe"))
    cut = int(len(text) * 0.5)
    assert texts(made.train, made.tokenizer) == [text[:cut]]
    assert texts(made.valid, made.tokenizer) == [text[cut:-1]]  # its last line end is the document's
    assert made.valid.characters == made.valid.bytes == len(text) - cut
    several = prepare(DocumentsConfig(text="ab\ncd\nef", document="line", validation_share=0.5), CHARACTERS)
    assert texts(several.train, several.tokenizer) == ["ab", "c"]
    assert several.valid.unknown == 3  # of "d" and "ef", which what is learnt from does not have


def test_named_files_are_measured_on_whole_and_what_they_share_is_not_learnt(tmp_path):
    (tmp_path / "valid.txt").write_text(
        "Story 3, of the: wolf wolf wolf\n\nstory 3 of the wolfwolfwolf\nand its END!\n"
    )
    train = written(tmp_path, [*stories(30), "held"])
    conf = DocumentsConfig(train=files(train), valid=files(tmp_path / "valid.txt"), document="blank")
    made = prepare(conf, CHARACTERS)
    assert made.valid.documents == 2
    assert made.train.documents == 30
    assert stories(4)[3] not in texts(made.train, made.tokenizer)
    assert any(line == f"  left out: 1 document also held out ({train}:4)" for line in made.summary)
    leaked = made.report["train"]["corpora"][0]["documents"]["dropped"]["also held out"]
    assert leaked == {"count": 1, "places": [f"{train}:4"]}


@pytest.mark.parametrize("many", [True, False])
def test_repeated_documents_are_counted_named_and_left_out_unless_kept(tmp_path, many):
    told = stories(30 if many else 5)
    train = written(tmp_path, [*told, told[2], "Other", told[2], told[1]])
    first = len(told) + 1
    made = prepare(DocumentsConfig(train=files(train)), CHARACTERS)
    places = f"{train}:{first}, {train}:{first + 2}, {train}:{first + 3}"
    assert f"  left out: 3 documents repeating an earlier one ({places})" in made.summary
    kept = prepare(DocumentsConfig(train=files(train), duplicates="keep"), CHARACTERS)
    assert any("kept: 3 documents repeating" in line for line in kept.summary)
    both = [texts(each.train, made.tokenizer) for each in (made, kept)]
    if many:
        assert len(both[0]) == len(set(both[0])) == 28
        assert made.train.documents + made.valid.documents == 31
        assert kept.train.documents + kept.valid.documents == 34
        assert not {*both[1]} & {*texts(kept.valid, kept.tokenizer)}


def test_many_keys_wait_on_disk_and_nothing_changes(tmp_path, monkeypatch):
    train = written(tmp_path, [*stories(200), *stories(20)])
    before = prepare(DocumentsConfig(train=files(train)), CHARACTERS)
    monkeypatch.setattr("regard.data.dedup.ROWS", 16)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    after = prepare(DocumentsConfig(train=files(train)), CHARACTERS)
    assert after.report == before.report
    assert np.array_equal(after.train.tokens, before.train.tokens)
    monkeypatch.setattr(selection, "MANY", 10)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "other"))
    guessed = prepare(DocumentsConfig(train=files(train)), CHARACTERS)
    assert 5 < guessed.valid.documents < 40


def test_bad_lines_are_told_with_their_place_and_too_many_stop(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" * 50 + b"\xff\xfe\n" + b"nul\0\n" + b"good\n" * 48)
    made = prepare(DocumentsConfig(train=files(path), reject=0.5), CHARACTERS)
    assert any("a.txt:51" in line and "invalid UTF-8" in line for line in made.summary)
    for _ in range(2):  # built, and found in the cache
        with pytest.raises(ValueError, match=r"2 of 100 lines .*a\.txt:51.*data\.reject"):
            prepare(DocumentsConfig(train=files(path)), CHARACTERS)


def test_a_text_of_the_recipe_may_be_measured_on_itself_and_words_count_line_ends():
    made = prepare(DocumentsConfig(text="a b\n\nc a\n", validation_share=0.0), UnitsConfig(kind="words"))
    own = made.tokenizer
    assert own.decode_lines(made.train.tokens.tolist()) == "a b\n\nc a\n"
    assert made.train.words == len(made.train.tokens) == 7
    assert np.array_equal(made.train.tokens, made.valid.tokens)
    assert made.train.characters == made.train.bytes == 9
    assert (made.train.opening, opening_token(own)) == (own.begin, own.begin)


def test_known_tokens_are_used_as_they_are_and_new_ones_get_what_is_asked_for():
    first = prepare(DocumentsConfig(text="masse", validation_share=0.0), CHARACTERS, special=["<mask>", "<sep>"])
    assert first.fresh
    assert None not in (first.tokenizer.mask, first.tokenizer.separator)
    second = prepare(DocumentsConfig(text="messe", validation_share=0.0), CHARACTERS, first.tokenizer)
    assert not second.fresh
    assert second.tokenizer.json() == first.tokenizer.json()
    assert texts(second.train, second.tokenizer) == ["messe"]
    for kind in ("bpe", "unigram", "words"):
        own = prepare(
            DocumentsConfig(text="a b a b", validation_share=0.0), UnitsConfig(kind=kind), special=["<mask>"]
        ).tokenizer
        assert own.find_special("<mask>") == own.mask == 4
        assert own.find_special("<sep>") is None


def test_what_is_read_without_the_cache_is_the_same(tmp_path):
    path = written(tmp_path, stories(5))
    made = prepare(DocumentsConfig(train=files(path), validation_share=0.0), UnitsConfig(kind="bpe"))
    corpus = read([str(path)], made.tokenizer)
    for name in ("tokens", "starts", "origins"):
        assert np.array_equal(getattr(corpus, name), getattr(made.train, name))
    assert (corpus.bytes, corpus.characters, corpus.words) == (
        made.train.bytes,
        made.train.characters,
        made.train.words,
    )
    assert encode(made.tokenizer, stories(1)[0]) == corpus.tokens[: corpus.starts[1] - 1].tolist()


def gpt2(text: str) -> Tokenizer:
    """Bytes without a blank in front, the signs of GPT-2 and a few merges."""
    own = units.train([text], UnitsConfig(kind="bpe", vocab=400), characters=len(text))
    engine = Engine.from_str(own.json())
    engine.normalizer = None
    engine.decoder = decoders.ByteLevel()
    return Tokenizer(engine)


def llama(text: str) -> Tokenizer:
    """One long word with blanks written ▁, one in front, and bytes for what is not known."""
    pieces = {f"<0x{byte:02X}>": byte + 3 for byte in range(256)}
    letters = sorted({each for each in text if each.isalnum()} | {"▁", "a", "s", "h", "e"})
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **pieces, **{each: 259 + n for n, each in enumerate(letters)}}
    merges = [("s", "h"), ("sh", "e"), ("▁", "she"), ("▁", "a")]
    vocab |= {a + b: len(vocab) + n for n, (a, b) in enumerate(merges)}
    engine = Engine(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    engine.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(engine)


def marked(text: str) -> Tokenizer:
    """Words with a mark for the blank in front of each, as sentencepiece has them."""
    words = {f"▁{word}": -1.0 for word in text.split()}
    engine = Engine(models.Unigram([("<unk>", 0.0), *words.items(), *((each, -9.0) for each in sorted(set(text)))], 0))
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.add_special_tokens(["<unk>", "</s>"])
    return Tokenizer(engine)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "words", "gpt2", "llama", "marked"])
def test_a_document_that_is_cut_has_the_tokens_of_the_whole(kind, monkeypatch):
    made = {"gpt2": gpt2, "llama": llama, "marked": marked}.get(kind)
    own = made(HARD) if made else units.train(split_text([HARD]), UnitsConfig(kind=kind), characters=len(HARD))
    whole = encode(own, HARD)
    assert whole == (own.encode_lines(HARD) if kind == "words" else own.encode_normal([HARD])[0])
    for size in (200, 331, 1000):
        monkeypatch.setattr(tokenising, "PIECE", size)
        parts = list(split_text([HARD[:70], HARD[70:71], HARD[71:]]))
        assert len(parts) > len(HARD) // size
        assert "".join(parts) == HARD
        assert encode(own, HARD) == whole


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "words"])
def test_a_megabyte_without_a_blank_takes_no_more_than_its_length(kind):
    text = "abcdefghij" * 100_000
    begin = time.process_time()
    own = units.train(split_text(["ab cd ef " * 50, text[:30_000]]), UnitsConfig(kind=kind), characters=len(text))
    short = encode(own, text[: len(text) // 8])
    middle = time.process_time()
    found = encode(own, text)
    end = time.process_time()
    assert end - middle < 60
    assert middle - begin < 60
    if kind != "words":
        assert b"".join(own.token_bytes[token] or b"" for token in found).decode().lstrip() == text
        assert len(found) >= 7 * len(short)


def test_a_changed_file_is_another_entry_and_its_name_is_not(tmp_path):
    one, two = written(tmp_path, stories(25)), written(tmp_path, stories(25), "b.jsonl")
    reports = [prepare(DocumentsConfig(train=files(path)), CHARACTERS).report for path in (one, two)]
    assert reports[0]["train"]["fingerprint"] == reports[1]["train"]["fingerprint"]
    written(tmp_path, stories(26), "b.jsonl")
    again: Prepared = prepare(DocumentsConfig(train=files(two)), CHARACTERS)
    assert again.report["train"]["fingerprint"] != reports[0]["train"]["fingerprint"]
    assert again.valid.place(0).startswith(str(two))


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("", {}, "none is left for training"),
        ("a", {"validation_share": 0.5}, "none is left for validation"),
    ],
)
def test_a_text_of_which_nothing_is_left_is_refused(text, settings, said):
    with pytest.raises(ValueError, match=said):
        prepare(DocumentsConfig(text=text, **settings), CHARACTERS)


def test_empty_files_are_refused_and_an_empty_one_among_others_is_not(tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt is empty"):
        prepare(DocumentsConfig(train=files(tmp_path / "empty.txt")), CHARACTERS)
    (tmp_path / "full.txt").write_text("some text that is long enough")
    made = prepare(DocumentsConfig(train=files(tmp_path)), CHARACTERS)
    assert made.train.place(0) == f"{tmp_path / 'full.txt'}:1"


def test_a_text_too_short_to_hold_anything_out_is_named(tmp_path):
    (tmp_path / "one.txt").write_text("abc")
    with pytest.raises(ValueError, match=r"one\.txt: too little text, .* none is left for validation: add text"):
        prepare(DocumentsConfig(train=(TextFile(path=str(tmp_path / "one.txt")),)), UnitsConfig())

"""Tokenizer files of other people's: the same tokens as `transformers`, on hard text, from whatever files there are."""

import base64
import json
import math
import os
import shutil
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.data.tokenizers import Tokenizer
from regard.interop.sentencepiece import Piece, Type
from regard.interop.tokenizers import read
from tests.interop.spelling import BEGIN, BYTES, END, UNKNOWN, charsmap, llama2c, model

HARD = [
    "Hello world! It's a test, isn't it?",
    "naïve café déjà-vu Straße İstanbul",
    unicodedata.normalize("NFD", "naïve café déjà-vu Ünïcödé"),
    "日本語のテキスト、漢字かな交じり文。 中文 한국어",
    "مرحبا بالعالم שלום עולם \u200fعربي\u200e",
    "😀 👨‍👩‍👧‍👦 🇫🇷 👍🏽 x😀y",
    "a\u0001b\u0007c\u007fd\u0085e \ufeffbom soft\u00adhyphen zero\u200bwidth",
    "  two  blanks\tand\ttabs\n newlines\r\n\n end ",
    "…ellipsis “quotes” «fr»\u00a0!\u202f? ½ ² ™ ﬁ ＦＵＬＬ\u3000ＷＩＤＴＨ 𝕳𝖊𝖑𝖑𝖔",
    "don't 3.14 1,000,000 x=y+z; <html> [CLS / foo@bar.com #tag _under_score",
    "ALL CAPS and MiXeD",
    "",
    "x",
]
ENDLESS = ("abcdefghij😀é" * 25_000)[: 1 << 18]
TEXTS = [*HARD, "the quick brown fox jumps over the lazy dog", "the cat sat on the mat and the dog did not sit"] * 4
FOLDED = {
    **{chr(code): " " for code in (9, 10, 13, 0x85, 0xA0, 0x200B, 0x202F, 0x3000, 0xFEFF)},
    **{chr(code): "" for code in (1, 7, 0x7F)},
    **{old: unicodedata.normalize("NFKC", old) for old in "…½²™ﬁＦＵＬＷＩＤＴＨ𝕳𝖊𝖑𝖔"},
    **{unicodedata.normalize("NFD", new): new for new in "ïéàÜö"},
}
DATA = Path(os.environ.get("REGARD_DATA", "data"))


def there(name: str) -> Path:
    """Real files, where REGARD_DATA has them."""
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not under REGARD_DATA")
    return DATA / name


def same(ours: Tokenizer, theirs, texts=HARD) -> None:
    """Whether both give the same tokens, and whether a long text without a blank takes a bounded time."""
    for text in texts:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False), text
    start = time.perf_counter()
    ids = ours.encode(ENDLESS)
    assert time.perf_counter() - start < 120
    assert ids == theirs.encode(ENDLESS, add_special_tokens=False)


def trained(model, trainer, normalizer=None, pre_tokenizer=None) -> dict:
    """The model of a tokenizer of TEXTS, as its tokenizer.json has it."""
    engine = Engine(model)
    if normalizer is not None:
        engine.normalizer = normalizer
    if pre_tokenizer is not None:
        engine.pre_tokenizer = pre_tokenizer
    engine.train_from_iterator(TEXTS, trainer)
    return json.loads(engine.to_str())["model"]


def pairs(folder: Path, vocab: dict[str, int], merges: list) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def byte_pairs(folder: Path, special: list[str]) -> Path:
    """Files as GPT-2 and RoBERTa have them."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=level.alphabet(), show_progress=False
    )
    found = trained(models.BPE(), trainer, pre_tokenizer=level)
    return pairs(folder, found["vocab"], found["merges"])


def first_pairs(folder: Path) -> Path:
    """Files as GPT-1 has them."""
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    unit = models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    found = trained(unit, trainer, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    return pairs(folder, found["vocab"], found["merges"])


def word_pieces(folder: Path, *, lowercase: bool = True) -> Path:
    """Files as BERT has them."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    found = trained(models.WordPiece(unk_token="[UNK]"), trainer, normalizer, pre_tokenizers.BertPreTokenizer())
    folder.mkdir(exist_ok=True)
    names = sorted(found["vocab"], key=found["vocab"].__getitem__)
    (folder / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    return folder


def scored() -> list[Piece]:
    """Pieces of a unigram model of TEXTS, without special ones; some characters have none."""
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    found = trained(models.Unigram(), trainer, Engine.from_str(json.dumps(shell())).normalizer, cut)
    rare = set("漢字🇫🇷ש½")
    return [Piece(name, round(score, 4)) for name, score in found["vocab"] if name != "<unk>" and not rare & set(name)]


def joined(size: int = 700) -> tuple[list[Piece], list]:
    """Pieces of a byte-pair model as Llama's, and the merges that made them."""
    special = [UNKNOWN, BEGIN, END, *BYTES]
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[piece.name for piece in special], limit_alphabet=60, show_progress=False
    )
    cut = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("[^ ]+| +"), "isolated"),
            pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
        ]
    )
    found = trained(models.BPE(unk_token="<unk>"), trainer, pre_tokenizer=cut)
    names = sorted(found["vocab"], key=found["vocab"].__getitem__)[len(special) :]
    singles = [name for name in names if len(name) == 1]
    longer = [name for name in names if len(name) > 1]
    order = [*longer, *singles, *([] if "▁" in singles else ["▁"])]
    return [*special, *(Piece(name, -float(rank)) for rank, name in enumerate(order))], found["merges"]


def shell(**parts) -> dict:
    """A tokenizer.json around nothing much."""
    folding = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(FOLDED)).decode()}
    empty = dict.fromkeys(("truncation", "padding", "pre_tokenizer", "post_processor", "decoder"))
    unit = {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"}
    return {"version": "1.0", "added_tokens": [], "normalizer": folding, **empty, "model": unit, **parts}


def parsed(folder: Path, kind: str, **options) -> Tokenizer:
    return Tokenizer.parse(read(folder, kind=kind, **options))


def roles(tokenizer: Tokenizer) -> dict[str, str]:
    """The names of special tokens by role."""
    found = {name: getattr(tokenizer, name) for name in ("pad", "begin", "end", "unknown", "mask", "separator")}
    return {name: tokenizer.pieces([id])[0] for name, id in found.items() if id is not None}


BERT = {"pad": "[PAD]", "begin": "[CLS]", "end": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]", "separator": "[SEP]"}
ROBERTA = {"pad": "<pad>", "begin": "<s>", "end": "</s>", "unknown": "<unk>", "mask": "<mask>", "separator": "</s>"}


def test_byte_pairs_of_gpt2(tmp_path):
    from transformers import GPT2Tokenizer

    folder = byte_pairs(tmp_path / "gpt2", ["<|endoftext|>"])
    ours = parsed(folder, "gpt2")
    same(ours, GPT2Tokenizer.from_pretrained(folder))
    assert roles(ours) == {"begin": "<|endoftext|>", "end": "<|endoftext|>"}
    for text in HARD:
        assert ours.decode(ours.encode(text)) == text
    assert ours.end not in ours.encode("<|endoftext|>"), "typed text is no command"


def test_byte_pairs_of_roberta(tmp_path):
    from transformers import RobertaTokenizer

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    folder = byte_pairs(tmp_path / "roberta", special)
    (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}', encoding="utf-8")
    ours, theirs = parsed(folder, "roberta"), RobertaTokenizer.from_pretrained(folder)
    same(ours, theirs)
    assert roles(ours) == ROBERTA
    framed = Engine.from_str(read(folder, kind="roberta"))
    assert framed.encode("a dog").ids == theirs.encode("a dog")
    assert framed.encode("a dog", "a cat").ids == theirs.encode("a dog", "a cat")


def test_first_pairs_of_gpt1(tmp_path):
    from transformers import OpenAIGPTTokenizer

    folder = first_pairs(tmp_path / "gpt1")
    ours = parsed(folder, "openai-gpt")
    same(ours, OpenAIGPTTokenizer.from_pretrained(folder))
    assert roles(ours) == {"unknown": "<unk>"}
    assert ours.decode(ours.encode("The dog sat")) == "the dog sat"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": False, "tokenize_chinese_chars": False},
    ],
)
def test_word_pieces_of_bert(settings, tmp_path):
    from transformers import BertTokenizer

    folder = word_pieces(tmp_path / "bert", lowercase=settings.get("do_lower_case", True))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    ours, theirs = parsed(folder, "bert"), BertTokenizer.from_pretrained(folder, **settings)
    same(ours, theirs)
    assert roles(ours) == BERT
    framed = Engine.from_str(read(folder, kind="bert"))
    assert framed.encode("a dog", "a cat").ids == theirs.encode("a dog", "a cat")
    assert framed.encode("a dog", "a cat").type_ids == theirs("a dog", "a cat")["token_type_ids"]


def test_a_vocabulary_with_capitals_is_read_with_them(tmp_path):
    folder = word_pieces(tmp_path / "bert", lowercase=False)
    ours = parsed(folder, "bert")
    assert "H" in (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    assert ours.decode(ours.encode("Hello")) == "Hello"


def test_pieces_of_t5(tmp_path):
    from transformers import T5Tokenizer

    front = [Piece("<pad>", 0.0, Type.CONTROL), END, UNKNOWN]
    pieces = [*front, *scored()]
    (tmp_path / "spiece.model").write_bytes(model(pieces, charsmap=charsmap(FOLDED)))
    ours = parsed(tmp_path, "t5")
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in range(99, -1, -1)]
    vocab = [*((piece.name, piece.score) for piece in pieces), *sentinels]
    same(ours, T5Tokenizer(vocab=vocab, _spm_precompiled_charsmap=charsmap(FOLDED)))
    assert roles(ours) == {"pad": "<pad>", "end": "</s>", "unknown": "<unk>", "separator": "</s>"}
    assert ours.begin is None
    assert ours.opening == ours.pad, "T5's decoder begins with pad"
    assert ours.pieces([len(pieces), len(pieces) + 99]) == ["<extra_id_99>", "<extra_id_0>"]
    assert ours.decode(ours.encode("the  dog sat")) == "the dog sat"
    typed = ours.encode("a </s> <unk> <pad> <extra_id_7> b")
    assert not set(typed) & ours.special - {ours.unknown}, "typed text is no command"


def test_pieces_of_camembert_make_way_for_four_tokens(tmp_path):
    from transformers import CamembertTokenizer

    pieces = [UNKNOWN, BEGIN, END, *scored()]
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model(pieces, charsmap=charsmap(FOLDED)))
    ours = parsed(tmp_path, "camembert")
    front = [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0), ("<unk>NOTUSED", -100.0)]
    vocab = [*front, *((piece.name, piece.score) for piece in pieces[1:]), ("<mask>", 0.0)]
    theirs = CamembertTokenizer(vocab=vocab, _spm_precompiled_charsmap=charsmap(FOLDED))
    same(ours, theirs)
    assert roles(ours) == ROBERTA
    assert [ours.begin, ours.pad, ours.end, ours.unknown, ours.mask] == [5, 1, 6, 3, len(vocab) - 1]
    framed = Engine.from_str(read(tmp_path, kind="camembert"))
    assert framed.encode("a dog", "a cat").ids == theirs.encode("a dog", "a cat")


def test_pieces_of_llama(tmp_path):
    from transformers import LlamaTokenizer

    pieces, _ = joined()
    (tmp_path / "tokenizer.model").write_bytes(model(pieces, bpe=True, byte_fallback=True, squeeze=False))
    ours = parsed(tmp_path, "llama")
    document = json.loads(read(tmp_path, kind="llama"))["model"]
    merges = [tuple(pair) for pair in document["merges"]]
    theirs = LlamaTokenizer(vocab=document["vocab"], merges=merges)
    same(ours, theirs, [text for text in HARD if not text.startswith(" ")])  # where Metaspace adds no second blank
    assert roles(ours) == {"begin": "<s>", "end": "</s>", "unknown": "<unk>", "separator": "</s>"}
    for text in HARD:
        assert ours.decode(ours.encode(text)) == text
        assert ours.encode(text) == by_score(pieces, text)
    assert ours.words(ours.encode("the dog 😀 sat"), "the dog 😀 sat")[-1] == 3


def by_score(pieces: list[Piece], text: str) -> list[int]:
    """As llama2.c encodes: characters or their bytes, then the two neighbours of highest score become one."""
    ids = {piece.name: id for id, piece in enumerate(pieces) if piece.type is Type.NORMAL}
    byte = {piece.name: id for id, piece in enumerate(pieces) if piece.type is Type.BYTE}
    found: list[tuple[str, int]] = []
    for letter in ("▁" + text if text else "").replace(" ", "▁"):
        bytewise = [(f"<0x{each:02X}>", byte[f"<0x{each:02X}>"]) for each in letter.encode()]
        found += [(letter, ids[letter])] if letter in ids else [("\0" + name, id) for name, id in bytewise]
    while True:
        joints = [
            (pieces[ids[a + b]].score, -place) for place, ((a, _), (b, _)) in enumerate(pairwise(found)) if a + b in ids
        ]
        if not joints:
            return [id for _, id in found]
        place = -max(joints)[1]
        name = found[place][0] + found[place + 1][0]
        found[place : place + 2] = [(name, ids[name])]


@pytest.mark.parametrize("early", [False, True])
def test_the_vocabulary_of_llama2c_is_that_of_llama(early, tmp_path):
    pieces, _ = joined()
    (tmp_path / "tokenizer.bin").write_bytes(llama2c(pieces, early=early))
    ours = parsed(tmp_path, "llama")
    assert roles(ours) == {"begin": "<s>", "end": "<s>", "unknown": "<unk>"}, "the next text begins where one ends"
    assert ours.special == {0, 1, 2}
    for text in (*HARD, " leading", "a" * 300):
        assert ours.encode(text) == by_score(pieces, text)


def best(pieces: dict[str, float], text: str) -> list[str]:
    """The likeliest pieces of a text, found by looking at all of them; None of a piece is the unknown."""
    penalty = min(pieces.values()) - 10
    found: list[tuple[float, list[str]]] = [(0.0, [])]
    for end in range(1, len(text) + 1):
        ways = [
            (found[start][0] + pieces[text[start:end]], [*found[start][1], text[start:end]])
            for start in range(max(0, end - 20), end)
            if text[start:end] in pieces
        ]
        if text[end - 1] not in pieces:
            ways.append((found[end - 1][0] + penalty, [*found[end - 1][1], "<unk>"]))
        found.append(max(ways, key=lambda way: way[0]))
    words = found[-1][1]
    return [word for place, word in enumerate(words) if word != "<unk>" or place == 0 or words[place - 1] != "<unk>"]


def test_the_two_sides_of_marian_share_ids_and_no_pieces(tmp_path):
    every = scored()
    sides = {"source": every[::2] + [each for each in every if len(each.name) == 1 and ord(each.name) < 128]}
    sides["target"] = [each for each in every if each not in sides["source"] or len(each.name) == 1]
    sides["source"] = list(dict.fromkeys(sides["source"]))
    for name, pieces in sides.items():
        (tmp_path / f"{name}.spm").write_bytes(model([UNKNOWN, BEGIN, END, *pieces], charsmap=charsmap(FOLDED)))
    names = sorted({piece.name for pieces in sides.values() for piece in pieces}, key=lambda name: (len(name), name))
    ids = {name: id for id, name in enumerate(["</s>", "<unk>", ">>fr<<", *names, "<pad>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    texts = ["the quick brown dog", "the cat sat on the mat", "naïve 漢字 café 日本", "½ dogs and the cat"]
    for name, pieces in sides.items():
        ours = parsed(tmp_path, "marian", target=name == "target")
        scores = {piece.name: piece.score for piece in pieces}
        for text in texts:
            plain = "▁" + "".join(FOLDED.get(each, each) for each in text).replace(" ", "▁")
            assert ours.encode(text) == [ids[piece] for piece in best(scores, plain)], text
        assert roles(ours) == {"pad": "<pad>", "end": "</s>", "unknown": "<unk>", "separator": "</s>"}
        assert ours.opening == ids["<pad>"]
        assert ours.tags == {"fr": 2}
        written = [ids[name] for name in names[:200]]
        assert ours.decode(written) == "".join(names[:200]).replace("▁", " ").removeprefix(" ")
        assert "".join(ours.pieces(written)) == "".join(names[:200]).replace("▁", " ")


def test_symbols_of_users_are_always_one_piece(tmp_path):
    spoken = Piece("[INST]", 0.0, Type.USER)
    for folder, data in {
        "unigram": model([UNKNOWN, BEGIN, END, spoken, *scored()]),
        "bpe": model([*joined()[0], spoken], bpe=True, byte_fallback=True),
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tokenizer.model").write_bytes(data)
        ours = parsed(tmp_path / folder, "llama")
        pieces = ours.pieces(ours.encode("[INST]the dog[INST] sat"))
        assert pieces.count("[INST]") == 2
        assert pieces[0] == " "
        assert "".join(pieces) == " [INST]the dog[INST] sat"


def test_against_sentencepiece_itself(tmp_path):
    library = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed, and nothing needs it")
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 20), encoding="utf-8")
    cases = {
        "unigram": {"model_type": "unigram", "hard_vocab_limit": False},
        "bytes": {"model_type": "unigram", "byte_fallback": True, "hard_vocab_limit": False},
        "bpe": {"model_type": "bpe", "user_defined_symbols": ["[INST]", "<sep>"]},
        "llama": {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
    }
    for name, settings in cases.items():
        (tmp_path / name).mkdir()
        library.SentencePieceTrainer.train(
            input=str(tmp_path / "text.txt"),
            model_prefix=str(tmp_path / name / "tokenizer"),
            vocab_size=600,
            character_coverage=0.98,
            minloglevel=2,
            **settings,
        )
        theirs = library.SentencePieceProcessor(model_file=str(tmp_path / name / "tokenizer.model"))
        ours = parsed(tmp_path / name, "llama")
        for text in [*HARD, "[INST] hi <sep>x", " lead", "▁", "   "]:
            assert ours.encode(text) == theirs.encode(text), (name, text)


@pytest.mark.parametrize(
    ("kind", "name", "files"),
    [
        ("gpt2", "GPT2Tokenizer", {"vocab.json": "gpt2-bpe/encoder.json", "merges.txt": "gpt2-bpe/vocab.bpe"}),
        (
            "openai-gpt",
            "OpenAIGPTTokenizer",
            {"vocab.json": "gpt1-bpe/encoder_bpe_40000.json.gz", "merges.txt": "gpt1-bpe/vocab_40000.bpe"},
        ),
        ("bert", "BertTokenizer", {"vocab.txt": "bert-wordpiece/bert-base-uncased-vocab.txt"}),
    ],
)
def test_real_vocabularies(kind, name, files, tmp_path):
    import gzip

    import transformers

    for to, source in files.items():
        data = (there("vocab") / source).read_bytes()
        (tmp_path / to).write_bytes(gzip.decompress(data) if source.endswith(".gz") else data)
    same(parsed(tmp_path, kind), getattr(transformers, name).from_pretrained(tmp_path))


def test_a_real_tokenizer_json_neither_cuts_nor_fills_up_texts(tmp_path):
    from transformers import AutoTokenizer

    folder = there("minilm")
    assert json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["truncation"]["max_length"] == 128
    ours, theirs = parsed(folder, "bert"), AutoTokenizer.from_pretrained(folder)
    for text in HARD:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False)
    assert len(ours.encode("dog " * 1000)) == 1000
    assert roles(ours) == BERT
    shutil.copy(folder / "vocab.txt", tmp_path)
    assert all(parsed(tmp_path, "bert").encode(text) == ours.encode(text) for text in HARD)


def test_the_real_vocabulary_of_llama2c():
    ours = parsed(there("stories15m"), "llama")
    assert ours.vocab == 32000
    assert ours.encode("Once upon a time, there was a little girl named Lily.") == [
        9038, 2501, 263, 931, 29892, 727, 471, 263, 2217, 7826, 4257, 365, 2354, 29889,
    ]  # fmt: skip
    for text in HARD:
        assert ours.decode(ours.encode(text)) == text


def test_tokens_that_were_added_later_have_their_ids(tmp_path):
    folder = byte_pairs(tmp_path / "gpt2", ["<|endoftext|>"])
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    (folder / "added_tokens.json").write_text(json.dumps({"<sep>": size + 1, "<pad>": size}), encoding="utf-8")
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"pad_token": "<pad>", "sep_token": {"content": "<sep>"}, "mask_token": "<nowhere>"}),
        encoding="utf-8",
    )
    ours = parsed(folder, "gpt2")
    assert (ours.pad, ours.separator, ours.mask, ours.vocab) == (size, size + 1, None, size + 2)
    (folder / "added_tokens.json").write_text(json.dumps({"<pad>": 5}), encoding="utf-8")
    with pytest.raises(ValueError, match='added token "<pad>" should have id 5'):
        read(folder, kind="gpt2")


def test_explosive_expressions_are_refused(tmp_path):
    cut = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps(shell(pre_tokenizer=cut)), encoding="utf-8")
    with pytest.raises(ValueError, match="exponential time"):
        read(tmp_path, kind="gpt2")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no tokenizer"),
        ({"tokenizer.json": b"{"}, "tokenizer.json: cannot be read"),
        ({"tokenizer.json": b"[1]"}, "expected a JSON object"),
        ({"tokenizer.json": b"{}"}, "the tokenizer has no vocabulary"),
        ({"tokenizer.json": b'{"model": {"vocab": {"a": 4000000000}}}'}, "id of \"a\" is 4000000000"),
        ({"tokenizer.json": b'{"model": {"vocab": {"a": 1, "b": 1}}}'}, "two tokens have the same id"),
        ({"tokenizer.json": b'{"model": {"vocab": {"a": 1}}}'}, "not a tokenizer.json"),
        ({"tokenizer.json": b"[" * 100_000}, "too deep"),
        ({"vocab.json": b'{"a": 0}'}, "merges.txt: no such file"),
        ({"vocab.json": b'{"a": 0}', "merges.txt": b"a b c\n"}, "merges.txt:1: expected two pieces"),
        ({"vocab.json": b'{"a": 0}', "merges.txt": b"a b\n"}, "not a tokenizer.json"),
        ({"vocab.json": b'{"a": "b"}', "merges.txt": b""}, 'the id of "a" is "b"'),
        ({"vocab.txt": b"a\na\n"}, '"a" is there twice'),
        ({"vocab.txt": b"\xff\n"}, "is not UTF-8"),
        ({"vocab.txt": b"a\n", "tokenizer_config.json": b'{"do_lower_case": 3}'}, "do_lower_case must be true"),
        ({"vocab.txt": b"a\n", "tokenizer_config.json": b'{"pad_token": 3}'}, "must be a text"),
        ({"vocab.txt": b"a\n", "tokenizer_config.json": b'{"added_tokens_decoder": {"x": "<a>"}}'}, "is no id"),
        ({"tokenizer.model": b""}, "0 pieces stand for the unknown"),
        ({"tokenizer.model": b"\x0a\xff"}, "ends in the middle"),
        ({"tokenizer.model": b"\xff" * 20}, "has no end"),
        ({"spiece.model": b"\x00" * (1 << 24) + b"\x00"}, "larger than"),
        ({"tokenizer.bin": b"\x01\x00\x00\x00\x00\x00\xc0\x7f\x01\x00\x00\x00a"}, "no finite number"),
        ({"tokenizer.bin": b"\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}, "length of -1"),
        ({"source.spm": b""}, "0 pieces stand for the unknown"),
    ],
)  # fmt: skip
def test_bad_files_are_answered_with_one_line(files, message, tmp_path):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, kind="gpt2")
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_scores_must_be_finite(score, tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(model([UNKNOWN, Piece("a", score)]))
    with pytest.raises(ValueError, match="the score of 'a' is no finite number"):
        read(tmp_path, kind="llama")


def test_a_damaged_map_of_characters_is_refused_wherever_it_stands(tmp_path):
    sound = charsmap(FOLDED)
    size = int.from_bytes(sound[:4], "little")
    for bad in (
        sound[:-1],  # the last replacement has no end
        sound[:4] + b"\xff\xff\x1f\xff" + sound[8:],  # the trie leads out of itself
        (size + 2).to_bytes(4, "little") + sound[4:],
        (1 << 30).to_bytes(4, "little") + sound[4:],
        sound[: 4 + size],
    ):
        (tmp_path / "spiece.model").write_bytes(model([UNKNOWN, Piece("a", -1.0)], charsmap=bad))
        with pytest.raises(ValueError, match="map of characters is damaged"):
            read(tmp_path, kind="t5")
        folding = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bad).decode()}
        nested = {"type": "Sequence", "normalizers": [folding]}
        other = tmp_path / "other"
        other.mkdir(exist_ok=True)
        (other / "tokenizer.json").write_text(json.dumps(shell(normalizer=nested)), encoding="utf-8")
        with pytest.raises(ValueError, match="map of characters is damaged"):
            read(other, kind="t5")


def test_a_panic_of_the_library_is_one_line_too():
    folding = {"type": "Precompiled", "precompiled_charsmap": "="}
    with pytest.raises(ValueError, match=r"not a tokenizer\.json"):
        Tokenizer.parse(json.dumps(shell(normalizer=folding)))


@pytest.mark.parametrize("name", ["spiece.model", "tokenizer.model", "tokenizer.bin", "tokenizer.json"])
def test_changed_bytes_give_a_tokenizer_or_one_line(name, tmp_path):
    from random import Random

    small = charsmap({"\u00a0": " ", "é": "e"})
    sound = {
        "spiece.model": model([UNKNOWN, END, *scored()[:40]], charsmap=small),
        "tokenizer.model": model(joined(330)[0], bpe=True, byte_fallback=True),
        "tokenizer.bin": llama2c(joined(330)[0]),
    }
    (tmp_path / "sound").mkdir()
    (tmp_path / "sound" / "spiece.model").write_bytes(sound["spiece.model"])
    data = sound.get(name) or read(tmp_path / "sound", kind="t5").encode()
    random, kinds = Random(13), {"spiece.model": "t5"}
    path = tmp_path / name
    answers = set()
    start = time.perf_counter()
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(random.choice((1, 1, 2, 8))):
            place = random.randrange(len(changed))
            how = random.random()
            if how < 0.6:
                changed[place] = random.randrange(256)
            elif how < 0.8:
                del changed[place : place + random.randrange(1, 9)]
            else:
                changed[place:place] = bytes(random.randrange(256) for _ in range(random.randrange(1, 9)))
        path.write_bytes(changed[: random.randrange(len(changed))] if random.random() < 0.1 else changed)
        try:
            tokenizer = parsed(tmp_path, kinds.get(name, "llama"))
        except ValueError as error:
            lines = str(error).split("\n")
            answers.add(len(lines) > 1)
            continue
        assert all(0 <= id < tokenizer.vocab for text in HARD for id in tokenizer.encode(text))
        answers.add("a tokenizer")
        if len(answers) > 1 and time.perf_counter() - start > 3:
            break
    assert answers == {False, "a tokenizer"}, "an error has one line"

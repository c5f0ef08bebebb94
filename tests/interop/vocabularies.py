"""Small tokenizer files as other people's models have them, and texts that are hard to cut."""

import base64
import json
import os
import time
import unicodedata
from pathlib import Path

import pytest
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.data.tokenizers import Tokenizer
from regard.interop.sentencepiece import Piece
from regard.interop.tokenizers import read
from tests.interop.spelling import BEGIN, BYTES, END, UNKNOWN, charsmap

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
    start = time.process_time()
    ids = ours.encode(ENDLESS)
    assert time.process_time() - start < 120
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

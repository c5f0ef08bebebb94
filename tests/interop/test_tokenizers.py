"""Tokenizer files of other people's: the same tokens as `transformers`, on hard text, from whatever files there are."""

import json
import shutil
from itertools import pairwise

import pytest
from tokenizers import Tokenizer as Engine

from regard.interop.sentencepiece import Piece, Type
from regard.interop.tokenizers import read
from tests.interop.spelling import BEGIN, END, UNKNOWN, charsmap, llama2c, model
from tests.interop.vocabularies import (
    FOLDED,
    HARD,
    TEXTS,
    byte_pairs,
    first_pairs,
    joined,
    parsed,
    roles,
    same,
    scored,
    there,
    word_pieces,
)

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

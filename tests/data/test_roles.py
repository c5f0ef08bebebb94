"""One tokenizer for all: roles by name, and words by the places in the text, for the families others train."""

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.data import tokenizers
from regard.data.normalise import TextConfig
from regard.data.tokenizers import WORD, Tokenizer, TokenizerConfig

TEXTS = [
    "The cat doesn't sleep over there.",
    "A dog eats at school, naïve as it is!",
    "Well-known dogs don't eat cats; they sleep.",
] * 8
TEXT = "The well-known cat doesn't eat, it sleeps!"


def trained(model, trainer, **parts) -> Engine:
    engine = Engine(model)
    for name, part in parts.items():
        setattr(engine, name, part)
    engine.train_from_iterator(TEXTS, trainer)
    return engine


def byte_level() -> Engine:
    """As GPT-2's: no unknown, no pad, one token that begins and ends."""
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return trained(
        models.BPE(),
        trainer,
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
        post_processor=processors.ByteLevel(trim_offsets=False),
    )


def word_piece() -> Engine:
    """As BERT's: small letters, ## inside words, [CLS] and [SEP] around."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False),
        normalizer=normalizers.BertNormalizer(lowercase=True),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
    )


def metaspace() -> Engine:
    """As T5's: ▁ before words, no token to begin with."""
    special = ["<pad>", "</s>", "<unk>"]
    return trained(
        models.Unigram(),
        trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token="<unk>", show_progress=False),
        normalizer=normalizers.NFKC(),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Metaspace(),
    )


def spelled() -> Engine:
    """As Llama's: ▁ before words, bytes spelled <0xE2>."""
    special = ["<unk>", "<s>", "</s>"]
    engine = trained(
        models.BPE(unk_token="<unk>", byte_fallback=True),
        trainers.BpeTrainer(
            vocab_size=380,
            special_tokens=[*special, *(f"<0x{byte:02X}>" for byte in range(256))],
            show_progress=False,
        ),
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    )
    text = (
        engine.to_str()
        .replace('"special":true', '"special":false', 259)
        .replace('"special":false', '"special":true', 3)
    )
    engine = Engine.from_str(text)
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return engine


FAMILIES = {"gpt": byte_level, "bert": word_piece, "t5": metaspace, "llama": spelled}
ROLES = {
    "gpt": {"pad": None, "begin": "<|endoftext|>", "end": "<|endoftext|>", "unknown": None, "mask": None},
    "bert": {"pad": "[PAD]", "begin": "[CLS]", "end": "[SEP]", "separator": "[SEP]", "unknown": "[UNK]"}
    | {"mask": "[MASK]"},
    "t5": {"pad": "<pad>", "begin": None, "end": "</s>", "unknown": "<unk>", "mask": None},
    "llama": {"pad": None, "begin": "<s>", "end": "</s>", "unknown": "<unk>", "mask": None},
}


@pytest.fixture(params=FAMILIES)
def family(request) -> tuple[str, Tokenizer, Engine]:
    engine = FAMILIES[request.param]()
    return request.param, Tokenizer.parse(engine.to_str()), engine


def test_special_tokens_are_known_by_their_roles(family):
    name, tokenizer, engine = family
    for role, token in ROLES[name].items():
        assert getattr(tokenizer, role) == (None if token is None else engine.token_to_id(token)), role
        if token is None:
            with pytest.raises(ValueError, match=f"no {role} token"):
                tokenizer.role(role)
        else:
            assert tokenizer.role(role) == engine.token_to_id(token)
    assert tokenizer.filler == (tokenizer.pad or 0)
    assert tokenizer.vocab == engine.get_vocab_size()
    typed = tokenizer.encode("a </s> [SEP] <|endoftext|> b" if name != "t5" else "a [SEP] b")  # Unigram lists its own
    assert not {tokenizer.end, tokenizer.begin, tokenizer.separator} & set(typed), "typed text is no command"


def test_words_are_those_of_the_text_by_its_own_places(family):
    name, tokenizer, engine = family
    coded = engine.encode(TEXT, add_special_tokens=False)
    ids = tokenizer.encode(TEXT)
    assert ids == coded.ids
    spans = [match.span() for match in WORD.finditer(TEXT)]
    visible = [end - len(TEXT[begin:end].lstrip()) for begin, end in coded.offsets]
    expected = [next(number for number, (_, end) in enumerate(spans) if place < end) for place in visible]
    framed = [tokenizer.end, *ids, tokenizer.end]
    assert tokenizer.words(framed, TEXT) == [None, *expected, None]
    assert [WORD.findall(TEXT)[number] for number in dict.fromkeys(expected)] == WORD.findall(TEXT)
    spelled = tokenizer.words(ids)  # nobody told the text
    if name != "bert":  # which forgets the blanks around signs
        assert spelled == expected
    assert len(spelled) == len(ids)


def test_pieces_spell_the_text(family):
    name, tokenizer, _ = family
    joined = "".join(tokenizer.pieces(tokenizer.encode(TEXT)))
    assert joined.replace(" ", "") == (TEXT.lower() if name == "bert" else TEXT).replace(" ", "")
    assert tokenizer.decode(tokenizer.encode("it sleeps")) == "it sleeps"


def test_a_word_nobody_knows_still_belongs_to_its_place():
    tokenizer = Tokenizer.parse(word_piece().to_str())
    ids = tokenizer.encode("the 漢 cat")
    assert tokenizer.unknown in ids
    words = tokenizer.words(ids, "the 漢 cat")
    assert words[ids.index(tokenizer.unknown)] == 1


def test_ours_tell_the_same_words_with_and_without_the_text():
    for kind in ("bpe", "unigram", "words", "characters"):
        own = tokenizers.train(TEXTS, TokenizerConfig(kind=kind, vocab=400), tags=["fr"])
        for text in (TEXT, "  naïve 😀 don’t", "« a »\u202f!"):
            ids = [own.tag("fr"), *own.encode(text), own.end]
            assert own.words(ids, text) == own.words(ids)
            assert own.decode(ids) == TextConfig().normal(text)


def test_a_read_text_and_a_written_one_differ_in_typography_alone():
    own = tokenizers.train(TEXTS, TokenizerConfig(vocab=400))
    assert own.encode("it doesn’t\u00a0eat") == own.encode("it doesn't eat")
    assert own.decode(own.encode("it doesn’t\u00a0\u200beat", written=True)) == "it doesn’t\u00a0eat"
    assert own.encode("\u200b") == []

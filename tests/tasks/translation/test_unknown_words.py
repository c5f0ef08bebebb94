"""Unknown words of answers: what a closed list does not have is replaced by the source word attention looked at."""

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers

import regard
from regard.config import build
from regard.data.tokenizers import Tokenizer, TokenizerConfig
from regard.data.tokenizers.units import UnitsConfig, train
from regard.decoding.exchange import run_exchange
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translation.alignment import looks
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.translator import Translator
from regard.tasks.translation.unknown_words import join_tokens

WORDS = ["le chat noir dort .", "le chien blanc mange .", "the black cat sleeps .", "the white dog eats ."]
SIZES = {"width": 16, "encoder": 1, "decoder": 2, "dropout": 0.0, "context": 64}
MODELS = {
    "transformer": lambda vocab: Transformer(TransformerConfig(vocab=vocab, heads=2, hidden=16, **SIZES)),
    "seq2seq": lambda vocab: Seq2Seq(Seq2SeqConfig(vocab=vocab, embedding=16, attention="bahdanau", **SIZES)),
}


def make_translator(kind, **changes):
    torch.manual_seed(1)
    tokenizer = train(WORDS, UnitsConfig(kind="words"), characters=100)
    model = Seq2Seq(Seq2SeqConfig(vocab=tokenizer.vocab, **changes)) if changes else MODELS[kind](tokenizer.vocab)
    for weight in model.parameters():
        weight.data *= 3  # so that attention prefers some words to others
    return Translator(model.eval(), (tokenizer, tokenizer), DecodingConfig(beams=2, ratio=0.5), kind)


@pytest.mark.parametrize("kind", MODELS)
def test_an_unknown_word_becomes_the_source_word_with_the_largest_weight(kind):
    translator = make_translator(kind)
    texts = ["le chat Zorak dort .", "Marie mange le Brouk noir .", "chien blanc"]
    settings = {"prefix": "Qux the Qux"}  # of which the list knows only the middle
    plain = translator.answers(texts, **settings)
    replaced = translator.answers(texts, replace_unknown=True, **settings)
    exchanged = run_exchange(translator.make_engine(), translator.exchange(texts, replace_unknown=True, **settings))
    assert [answer.text for answer in exchanged] == [answer.text for answer in replaced]
    sources = translator.encode_many(texts)
    written = [translator.target.encode(answer.text) for answer in plain]
    weights = dict(looks(translator, sources, written))
    for number, (text, before, after) in enumerate(zip(texts, plain, replaced, strict=True)):
        assert before.text.startswith("<unk> the <unk>")
        assert after.score == before.score
        words = text.split()
        means = weights[number].mean(0)[:, : len(words)]
        expected = [
            words[int(means[place].argmax())] if word == "<unk>" else word
            for place, word in enumerate(before.text.split())
        ]
        assert after.text.split() == expected
    assert len({answer.text.split()[0] for answer in replaced}) > 1  # not the same word of every source


def test_a_model_without_attention_and_a_list_of_pieces_are_refused():
    blind = make_translator("seq2seq", attention="none", embedding=16, **SIZES)
    with pytest.raises(ValueError, match=r"has no attention from answers to sources.*leave replace_unknown out"):
        blind.translate("le chat", replace_unknown=True)
    with pytest.raises(ValueError, match="spell: false is for words"):
        build(TokenizerConfig, {"kind": "bpe", "spell": False})


def test_a_word_that_pieces_leave_out_stands_between_blanks():
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁the", -1.0), ("▁cat", -1.0), ("s", -2.0)]
    engine = Engine(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    engine.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer = Tokenizer(engine)
    tokens = tokenizer.encode("the 猫 cats")
    assert join_tokens(tokenizer, tokens, {tokens.index(tokenizer.unknown): "neko"}) == "the neko cats"


def test_translation_learns_with_a_closed_list_of_words(corpus, tmp_path):
    settings = {
        "data": {"train": {"source": str(corpus.source), "target": str(corpus.target)}, "max_length": 64},
        "tokenizer": {"kind": "words", "spell": False, "min_frequency": 5},
        "model": {"heads": 2, "hidden": 16, **SIZES},
        "training": {"steps": 2, "tensorboard": False, "device": "cpu"},
        "decoding": {"ratio": 0, "replace_unknown": True},
    }
    folder = regard.train(settings, out=tmp_path / "run", quiet=True).folder
    translator = regard.load(folder, device="cpu")
    assert translator.source.closed
    assert translator.source.encode("Le Zorak")[1] == translator.source.unknown
    assert "<unk>" not in translator.translate("Le chat Zorak dort .", prefix="Qux")

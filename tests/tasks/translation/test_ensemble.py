"""Ensembles: models that share a vocabulary decode together, by the mean of their probabilities."""

import shutil
from dataclasses import replace

import pytest
import torch

import regard
from regard.attention.masks import Grid
from regard.cli import run
from regard.decoding.exchange import run_exchange
from regard.interpret.watch import watch
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translation.ensemble import combine_translators
from regard.tasks.translation.translator import Translator

TEXTS = ["Le chat noir dort.", "Le roi mange !", "Le garçon français court vite.", "Le loup dort !"]


@pytest.fixture(scope="module")
def first(trained) -> Translator:
    return regard.load(trained, device="cpu")


@pytest.fixture(scope="module")
def others(first) -> list[Translator]:
    """Two models of other kinds and sizes with the vocabulary of the first, which have learnt nothing."""
    torch.manual_seed(3)
    sizes = {"vocab": first.source.vocab, "width": 16, "encoder": 1, "decoder": 1, "dropout": 0.0, "context": 64}
    models = (
        Transformer(TransformerConfig(heads=2, hidden=16, **sizes)),
        Seq2Seq(Seq2SeqConfig(attention="luong_general", embedding=16, **sizes)),
    )
    tokenizers = first.source, first.target
    return [Translator(model.eval(), tokenizers, first.decoding, model.config.name) for model in models]


def read_sources(translator):
    return [[*translator.source.encode(text), translator.end] for text in TEXTS]


@torch.no_grad()
def mean_log_probabilities(members, source, fed):
    """The logarithm of the mean probability of every next token, from one pass of each model over the whole answer."""
    layouts = tuple(Grid(torch.tensor([len(side)]), len(side)) for side in (source, fed))
    inputs = torch.tensor([source]), torch.tensor([fed])
    each = [member.model.logits(member.model(*inputs, layouts=layouts))[0].softmax(-1) for member in members]
    return torch.stack(each).mean(0).log()


def test_twice_the_same_model_gives_its_answers_and_scores(first, trained):
    twice = regard.load([trained, trained], device="cpu")
    for settings in ({"beams": 1}, {"beams": 3, "nbest": 3}, {"sample": True, "seed": 5}):
        for alone, together in zip(first.answers(TEXTS, **settings), twice.answers(TEXTS, **settings), strict=True):
            assert alone.text == together.text
            assert together.score == pytest.approx(alone.score, abs=1e-4)
            assert [other.text for other in alone.alternatives] == [other.text for other in together.alternatives]


def test_scores_are_those_of_the_mean_probability_by_hand(first, others):
    members = [first, *others]
    ensemble = combine_translators(members)
    sources = read_sources(first)
    searched = ensemble.hypotheses(sources, range(len(sources)), replace(first.decoding, beams=3, nbest=2))
    assert sum(len(hypotheses) for hypotheses in searched) == 2 * len(TEXTS)
    for source, hypotheses in zip(sources, searched, strict=True):
        for hypothesis in hypotheses:
            written = [*hypothesis.tokens, *[first.end] * hypothesis.finished]
            expected = mean_log_probabilities(members, source, [first.begin, *written[:-1]])
            total = sum(float(expected[place, token]) for place, token in enumerate(written))
            assert hypothesis.score == pytest.approx(total, abs=1e-3)


def test_an_engine_answers_and_scores_as_the_search_does(first, others):
    ensemble = combine_translators([first, *others])
    exchanged = run_exchange(ensemble.make_engine(), ensemble.exchange(TEXTS))
    assert [answer.text for answer in exchanged] == [answer.text for answer in ensemble.answers(TEXTS)]
    written = [first.target.encode(text) for text in ("The black cat sleeps.", "The king eats!")]
    sources = read_sources(first)[:2]
    for number, scores in ensemble.teacher.scores(sources, written):
        expected = mean_log_probabilities([first, *others], sources[number], [first.begin, *written[number]])
        tokens = torch.tensor([*written[number], first.end])
        torch.testing.assert_close(scores, expected.gather(1, tokens[:, None])[:, 0], rtol=1e-3, atol=1e-3)


def test_the_attention_of_every_model_can_be_watched(first, others):
    ensemble = combine_translators([first, *others])
    with watch(ensemble.model) as seen:
        ensemble.answers(TEXTS[:1], beams=1)
    assert {name.split(".")[1] for name in seen} == {"0", "1", "2"}


def test_other_vocabularies_and_directions_are_refused(first, others, trained):
    with pytest.raises(ValueError, match=r"different source vocabularies \(320 and .* tokens\)"):
        regard.load([trained, "en-fr"], device="cpu")
    there, back = (combine_translators([first]) for _ in range(2))
    there.trained_direction, back.trained_direction = ["fr", "en"], ["en", "fr"]
    with pytest.raises(ValueError, match="different directions, fr to en and en to fr"):
        combine_translators([there, back])
    with pytest.raises(ValueError, match="only translators decode together"):
        regard.load(["stories", "stories"], device="cpu")
    with pytest.raises(ValueError, match="an ensemble of no models"):
        regard.load([])


def test_models_named_one_after_the_other_translate_together(trained, tmp_path, capsys):
    copies = [tmp_path / name for name in ("a", "b")]
    for copy in copies:
        shutil.copytree(trained / "best", copy)
    words = ["translate", *map(str, copies), "--device", "cpu"]
    [expected] = regard.load(trained, device="cpu").answers(TEXTS[:1])
    assert run([*words, TEXTS[0]]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{expected}\n"
    assert f"translating with 2 models together: {copies[0]} + {copies[1]}" in shown.err

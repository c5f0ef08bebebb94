"""A trained translator: answers do not depend on the company, scores are true, white space survives."""

import gc
import json
import math
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import checkpoint, cli
from regard.attention.masks import Grid
from regard.interpret.watch import watch
from regard.models.inference import fast_path
from regard.tasks.translation.translator import Translator

TEXTS = ["Le chat noir dort.", "Le roi mange !", "Le garçon français court vite.", "Le loup dort !"]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained, device="cpu")


def test_it_has_learnt_the_grammar(translator: Translator):
    expected = ["The black cat sleeps.", "The king eats!", "The French boy runs fast.", "The wolf sleeps!"]
    assert translator.translate(TEXTS, beams=1) == expected


def test_a_text_alone_and_in_a_batch_has_the_same_answer(translator: Translator):
    for settings in ({"beams": 1}, {"beams": 3}, {"beams": 3, "nbest": 3}):
        together = translator.answers(TEXTS, **settings)
        small = translator.answers(TEXTS, tokens=1, **settings)
        for text, one, other in zip(TEXTS, together, small, strict=True):
            [alone] = translator.answers(text, **settings)
            assert alone.text == one.text == other.text
            assert alone.score == pytest.approx(one.score, abs=1e-4)
            assert [answer.text for answer in alone.alternatives] == [answer.text for answer in one.alternatives]


@torch.no_grad()
def test_scores_are_log_probabilities_of_the_whole_answer(translator: Translator):
    read = [[*translator.source.encode(text), translator.end] for text in TEXTS]
    found = translator.hypotheses(read, range(len(read)), replace(translator.decoding, beams=3, nbest=2))
    for source, hypotheses in zip(read, found, strict=True):
        for one in hypotheses:
            fed = [translator.begin, *one.tokens]
            layouts = (Grid(torch.tensor([len(side)]), len(side)) for side in (source, fed))
            features = translator.model(torch.tensor([source]), torch.tensor([fed]), layouts=tuple(layouts))
            truth = translator.model.logits(features).log_softmax(-1)[0]
            total = sum(float(truth[place, token]) for place, token in enumerate([*one.tokens, translator.end]))
            assert one.finished
            assert one.score == pytest.approx(total, abs=1e-3)


def test_white_space_survives_and_sentences_are_translated_one_by_one(translator: Translator):
    text = "\n  Le roi dort.  Le loup mange !\n\n\tLe chien court vite.\n"
    assert translator.translate(text) == "\n  The king sleeps.  The wolf eats!\n\n\tThe dog runs fast.\n"


@given(st.lists(st.sampled_from([*TEXTS, "", " ", "\n", "\t ", "\u2028"]), max_size=6))
def test_nothing_in_nothing_out_and_counts_match(translator: Translator, texts: list[str]):
    answers = translator.translate(texts, beams=1)
    assert len(answers) == len(texts)
    for text, answer in zip(texts, answers, strict=True):
        if not text.strip():
            assert answer == text


def test_a_text_far_longer_than_the_context_is_translated_in_parts(translator: Translator):
    endless = "Le chat noir dort " * 400
    answer = translator.translate(endless, beams=1, ratio=0.5)
    assert answer.endswith(" ")
    assert len(answer) > 100


def test_a_whole_text_longer_than_the_context_is_refused_with_the_remedy(translator: Translator):
    with pytest.raises(ValueError, match="split"):
        translator.translate("Le chat noir dort " * 400, split=False)


def test_constraints_are_obeyed(translator: Translator):
    forced = translator.translate("Le chat noir dort.", force=["white"], beams=4)
    assert "white" in forced
    forbidden = translator.translate("Le chat noir dort.", forbid=["black", "cat"], beams=4)
    assert not {"black", "cat"} & set(forbidden.split())
    begun = translator.translate("Le chat noir dort.", prefix="The tired", beams=2)
    assert begun.startswith("The tired")
    long = translator.translate("Le roi dort.", minimum=12)
    assert len(translator.target.encode(long)) >= 12


def test_a_text_gives_a_text_and_a_list_a_list(translator: Translator):
    assert translator.translate(TEXTS[0]) == translator.translate(TEXTS[:1])[0]
    assert translator.translate([]) == []


def test_a_list_of_the_best_holds_no_text_twice(translator: Translator):
    for settings in ({"beams": 8, "nbest": 8}, {"beams": 12, "nbest": 12}):
        read = [translator.encode(text) for text in TEXTS]
        spelled = translator.hypotheses(read, range(len(read)), replace(translator.decoding, **settings))
        listed = [[translator.target.decode(one.tokens) for one in found] for found in spelled]
        answers = translator.answers(TEXTS, **settings)
        for texts, answer in zip(listed, answers, strict=True):
            shown = [one.text for one in (answer, *answer.alternatives)]
            assert shown == list(dict.fromkeys(texts))


def test_sampling_repeats_from_its_seed_and_only_from_it(translator: Translator):
    settings = {"sample": True, "temperature": 3.0, "top_k": 50, "top_p": 0.99, "min_p": 0.0001}
    one = translator.translate(TEXTS, seed=1, **settings)
    assert translator.translate(TEXTS, seed=1, **settings) == one
    assert translator.translate(TEXTS, seed=2, **settings) != one


def test_every_line_of_a_file_is_sampled_with_a_seed_of_its_own(translator: Translator, trained: Path, tmp_path: Path):
    lines, (read, written) = ["Le chat noir dort."] * 300, (tmp_path / "lines.fr", tmp_path / "lines.en")
    read.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ["-s", "sample=true", "-s", "temperature=3.0", "--json", "--input", str(read), "--output", str(written)]
    assert cli.run(["translate", str(trained), *words]) == 0
    answers = [json.loads(line)["translation"] for line in written.read_bytes().split(b"\n")[:-1]]
    assert answers == translator.translate(lines, sample=True, temperature=3.0)
    assert answers[256:] != answers[: 300 - 256], "the 257th line is drawn as the first was"
    assert len(set(answers)) > 250


@pytest.fixture
def fast(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A translator that takes the fast path here, too, and at once."""
    monkeypatch.setattr(fast_path, "pays", lambda device: True)
    translator = regard.load(trained, device="cpu")
    translator.ready.warm()
    return translator


SETTINGS = [
    {"beams": 1},
    {"beams": 3, "nbest": 2},
    {"beams": 4, "force": ["white"]},
    {"forbid": [" black"], "minimum": 8},
    {"prefix": "The tired", "no_repeat": 2},
    {"sample": True, "temperature": 2.0, "top_p": 0.9, "nbest": 2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_fast_path_answers_as_the_plain_one(translator: Translator, fast: Translator, settings: dict):
    for plain, other in zip(translator.answers(TEXTS, **settings), fast.answers(TEXTS, **settings), strict=True):
        ranked = [(each.text, pytest.approx(each.score, abs=1e-3)) for each in (plain, *plain.alternatives)]
        assert [(each.text, each.score) for each in (other, *other.alternatives)] == ranked
    assert fast.ready(0).tables, "nothing was decoded in rows"


def test_one_sentence_is_decoded_in_one_row_and_many_in_as_many_as_fit(fast: Translator):
    for count, rows in ((1, 1), (3, 4), (300, 320), (600, 512)):
        fast.translate((TEXTS * 150)[:count], beams=2)
        assert fast.ready(0).tables[-1].rows == rows


def test_rows_take_a_share_of_a_small_device_and_their_memory_is_known(fast: Translator, monkeypatch):
    fast.translate(TEXTS * 75, beams=2)
    copy, state = fast.ready(0), fast.ready(0).tables[-1]._state
    held = sum(part.nbytes for group in (*state.caches, *state.memories) for part in group)
    past, source = state.caches[0].keys.shape[2], state.memories[0].keys.shape[2]
    row = copy.row_bytes(beams=1, written=past, read=source)
    assert held == 320 * row
    monkeypatch.setattr(type(copy), "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8 * 200 * row))
    assert [copy.count_rows(most, row) for most in (1, 100, 512)] == [1, 100, 192]
    assert copy.count_rows(512, 100 * row) == 64


def test_garbage_is_collected_again_after_an_answer(translator: Translator):
    assert gc.isenabled()
    translator.translate("Le roi dort.")
    with pytest.raises(ValueError, match="one direction"):
        translator.translate("Le roi dort.", to="de")
    assert gc.isenabled()


def test_evaluations_with_changing_weights_hold_one_copy_and_nothing_outlives_the_translator(fast: Translator):
    copies = set()
    for _ in range(3):
        with torch.no_grad():
            for weight in fast.model.parameters():
                weight.mul_(1.0)
        fast.translate(TEXTS, beams=2)
        copies.add(fast.ready(0))
    [copy] = copies
    assert len(copy.tables) == 1
    held = weakref.ref(copy), weakref.ref(copy.tables[0]), weakref.ref(copy.stack.prediction)
    del copy, fast.ready
    copies.clear()
    assert [each() for each in held] == [None] * 3


def test_a_precision_that_cannot_hold_the_scores_leads_back_to_the_plain_path(translator: Translator, fast: Translator):
    fast.ready(1).stack.embedding.weight.fill_(float("inf"))
    with pytest.warns(UserWarning, match="half precision cannot hold its scores"):
        assert fast.translate(TEXTS, beams=2) == translator.translate(TEXTS, beams=2)


def test_a_sentence_that_half_precision_cannot_hold_is_searched_by_the_model_itself(
    translator: Translator, fast: Translator, monkeypatch: pytest.MonkeyPatch
):
    copy = fast.ready(1)
    start = copy.start

    def broken(*inputs, **settings):
        logits, state = start(*inputs, **settings)
        rows = torch.arange(len(logits))
        return logits.masked_fill((rows == 1)[:, None, None], math.nan), state

    monkeypatch.setattr(copy, "start", broken)
    assert fast.translate(TEXTS, beams=2) == translator.translate(TEXTS, beams=2)
    assert fast.ready(0) is copy, "the fast path was given up for one sentence"


def test_an_unknown_setting_is_answered_with_the_nearest(translator: Translator):
    with pytest.raises(ValueError, match=r"decoding\.beems.*beams"):
        translator.translate("Le roi dort.", beems=3)


def test_a_language_is_refused_by_a_model_of_one_direction(translator: Translator):
    with pytest.raises(ValueError, match="one direction"):
        translator.translate("Le roi dort.", to="de")


def test_a_trace_holds_every_attention_of_the_winning_beam(translator: Translator):
    trace = translator.look("Le chat noir dort.")
    assert [one.name for one in trace.weights] == ["encoder.0.attention", "decoder.0.attention", "decoder.0.cross"]
    cross = trace.find("decoder.0.cross")
    assert cross.values.shape == (4, len(trace.items["target"]), len(trace.items["source"]))
    assert torch.allclose(cross.values.sum(-1), torch.ones(()), atol=1e-5)
    assert "".join(item.text for item in trace.items["target"][:-1]).strip() == trace.facts["answer"]
    assert trace.items["source"][-1].special


def test_hooks_are_gone_after_looking(translator: Translator):
    translator.look("Le roi dort.")
    with watch(translator.model) as seen:
        translator.translate("Le roi dort.", beams=1)
    assert len(seen) == 3
    assert not any(module._forward_hooks for module in translator.model.modules())


def test_a_loaded_model_is_the_saved_one_and_draws_nothing_at_random(trained: Path):
    before = torch.get_rng_state()
    translator = regard.load(trained, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    kept = checkpoint.read(trained / "best").tensors()
    state = translator.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in kept.items())

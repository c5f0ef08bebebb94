"""Windows hold every token of a context, as those of transformers do; answers keep their places in them."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.masks import Row
from regard.data.tokenizers import Tokenizer
from regard.metrics.likelihood import IGNORE
from regard.tasks.answering.questions import AnswerSpan, Question
from regard.tasks.answering.spans import WindowLogits, best_span, span_log_odds, span_loss
from regard.tasks.answering.windows import PassageConfig, PassageEncoder, index_windows, window_bounds
from regard.tasks.text_encoders.input_format import EXTRACT, add_format_tokens
from regard.tasks.text_encoders.text_tokenizer import train_tokenizer

CONTEXT = (
    "the king of  the north was Ann, and that of the so\u0301uth was Bob; nobody knew where Bob had been born before."
)
STYLES = ("bert", "gpt", "plain")


def reader(style="bert", window=20, stride=4, kind="words") -> PassageEncoder:
    how = PassageConfig(kind=kind, pattern=r"\w+|[^\w\s]" if kind == "words" else None)
    own = train_tokenizer([how.normal(CONTEXT), "who was the king ?"], how)
    return PassageEncoder(add_format_tokens(own, style, pairs=True), style, window, stride)


def question(answer: str | None, words="who was the king?") -> Question:
    return Question(words, CONTEXT, () if answer is None else (AnswerSpan(answer, CONTEXT.rindex(answer)),), "here")


@given(st.integers(0, 60), st.integers(1, 20), st.data())
def test_every_token_is_in_a_window_and_windows_overlap_as_they_should(count, room, data):
    stride = data.draw(st.integers(0, room - 1))
    found = window_bounds(count, room, stride)
    assert {place for first, last in found for place in range(first, last)} == set(range(count))
    assert all(last - first <= room for first, last in found)
    for (_, end), (begin, last) in pairwise(found):
        assert end - begin >= stride
        assert last > end, "a window that has nothing new is not read"
    for first in range(count):  # an answer no longer than what windows share is whole in one of them
        for last in range(first, min(first + stride, count)):
            assert any(begin <= first and last < end for begin, end in found)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("answer", ["Ann", "Bob had", "so\u0301uth", None])
def test_an_answer_is_marked_where_it_is_whole_and_elsewhere_the_place_of_none(style, answer):
    read = reader(style)
    [passage] = read.encode([question(answer)])
    assert len(passage.windows) > 2
    whole = 0
    for window in passage.windows:
        marks = np.array(window.answer_marks(passage.answer))
        tokens = np.array(window.encoded.tokens)
        inside = np.arange(window.context_start, window.context_start + window.size)
        assert set(np.flatnonzero(marks != IGNORE)) == {*inside.tolist(), window.no_answer_position}
        assert tokens[inside].tolist() == passage.located.ids[window.first_token : window.first_token + window.size]
        [first], [last] = (np.flatnonzero((marks != IGNORE) & (marks & bit > 0)) for bit in (1, 2))
        if passage.answer is not None and window.contains(passage.answer):
            whole += 1
            places = [window.first_token + int(place) - window.context_start for place in (first, last)]
            begin, end = passage.located.characters(*places)
            assert CONTEXT[begin:end] == answer
        else:
            assert first == last == window.no_answer_position
        special = {
            "bert": read.tokenizer.begin,
            "gpt": read.tokenizer.find_special(EXTRACT),
            "plain": read.tokenizer.separator,
        }[style]
        assert tokens[window.no_answer_position] == special
    assert bool(whole) == (answer is not None)


def test_windows_segments_and_characters_are_those_of_transformers():
    import transformers
    from tokenizers import Tokenizer as Engine
    from tokenizers import models, normalizers, pre_tokenizers, processors

    names = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *"abcdefghijklmnopqrstuvwxyz,;.?",
        *(f"##{c}" for c in "abdeghknoprstuvwy"),
    ]
    engine = Engine(models.WordPiece({name: n for n, name in enumerate(names)}, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    engine.add_special_tokens(names[:4])
    own = Tokenizer(engine, PassageConfig(normalise="none", kind="words"))
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Engine.from_str(own.json()), cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]"
    )
    asked = question("Ann")
    wanted = theirs(
        asked.question,
        asked.context,
        truncation="only_second",
        max_length=40,
        stride=7,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    [passage] = PassageEncoder(own, "bert", 40, 7).encode([asked])
    assert len(passage.windows) == len(wanted["input_ids"]) > 2
    for n, window in enumerate(passage.windows):
        assert window.encoded.tokens == wanted["input_ids"][n]
        kinds = [int(place >= window.encoded.second_start) for place in range(len(window.encoded.tokens))]
        assert kinds == wanted["token_type_ids"][n]
        spans = wanted["offset_mapping"][n][window.context_start : window.context_start + window.size]
        own_spans = passage.located.spans[window.first_token : window.first_token + window.size]
        for (begin, end), (first, last) in zip(own_spans, spans, strict=True):
            assert begin == first
            assert CONTEXT[begin:end].rstrip("\u0301") == CONTEXT[first:last].rstrip("\u0301")  # which they drop


def test_a_question_that_leaves_no_room_says_where_and_what_to_do():
    with pytest.raises(
        ValueError, match=r"^here: the question has 5 tokens, so that a window of 12 .* raise data\.window"
    ):
        list(reader(window=12).encode([question("Ann")]))
    with pytest.raises(ValueError, match="has room for 0 of the context"):
        list(reader(window=7).encode([question("Ann")]))


def test_answers_without_tokens_are_counted_not_learnt():
    read = reader()
    lost = Question("who?", f"a b \u200b {CONTEXT}", (AnswerSpan("\u200b", 4),), "there")
    found = index_windows(read.encode([lost, question("Ann")]), "bert")
    assert found["lost"] == ["there"]
    assert found["question_places"] == ["here"]
    with pytest.raises(ValueError, match="there: no answer has tokens"):
        index_windows(read.encode([lost]), "bert")


def told(passage, score):
    """Logits that are far above others at the tokens of an answer, in the windows that have it."""
    found = []
    for window in passage.windows:
        first, last = np.zeros(window.size), np.zeros(window.size)
        if passage.answer is not None and window.contains(passage.answer):
            first[passage.answer[0] - window.first_token] = last[passage.answer[1] - window.first_token] = score
        found.append(WindowLogits(first.tolist(), last.tolist(), 5.0))
    return found


@pytest.mark.parametrize("answer", ["Ann", "Bob had", "the north was Ann, and"])
def test_the_likeliest_span_over_all_windows_is_found_with_its_probability(answer):
    [passage] = reader().encode([question(answer)])
    logits = told(passage, 9.0)
    found = best_span(logits, passage, max_length=6)
    assert found.span == passage.answer
    odds = {  # one by one, over all windows and spans
        (window.first_token + one, window.first_token + other): said.first[one] + said.last[other] - said.no_answer
        for window, said in zip(passage.windows, logits, strict=True)
        for one in range(window.size)
        for other in range(one, min(one + 6, window.size))
    }
    for window, said in zip(passage.windows, logits, strict=True):
        for (one, other), value in odds.items():
            if window.contains((one, other)):
                again = said.first[one - window.first_token] + said.last[other - window.first_token] - said.no_answer
                odds[one, other] = max(value, again)
    total = 1 + sum(np.exp(value) for value in odds.values())
    assert found.probability == pytest.approx(np.exp(odds[passage.answer]) / total)
    assert found.no_answer == pytest.approx(1 / total)
    assert found.loss == pytest.approx(-np.log(found.probability))
    assert (
        best_span(logits, passage, max_length=passage.answer[1] - passage.answer[0] or 1).span != passage.answer
        or answer == "Ann"
    )
    assert np.isneginf(span_log_odds(logits, passage, 6)[-1, 1:]).all(), "no span goes beyond the end"


def test_no_answer_is_the_answer_when_it_is_likelier_than_any_unless_one_is_demanded():
    [passage] = reader().encode([question(None)])
    found = best_span(told(passage, 0.0), passage, max_length=4)
    assert found.span is None
    assert found.probability == found.no_answer
    assert found.loss == pytest.approx(-np.log(found.no_answer))
    assert best_span(told(passage, 0.0), passage, max_length=4, always=True).span is not None
    [blank] = reader().encode([Question("who?", "\u200b", (), "here")])
    silent = [WindowLogits([], [], 0.0)]
    assert best_span(silent, blank, max_length=4, always=True).span is None


def test_blanks_that_are_tokens_never_begin_or_end_an_answer():
    [passage] = reader(kind="characters", window=60).encode([question("Ann")])
    logits = []
    for window in passage.windows:
        spans = passage.located.spans[window.first_token : window.first_token + window.size]
        high = [9.0 if not CONTEXT[begin:end].strip() else 0.0 for begin, end in spans]
        logits.append(WindowLogits(high, high, 0.0))
    found = best_span(logits, passage, max_length=9, always=True)
    begin, end = passage.located.characters(*found.span)
    assert CONTEXT[begin:end].strip() == CONTEXT[begin:end]


@pytest.mark.parametrize("fixed", [False, True])
def test_the_loss_of_a_row_is_that_of_every_window_alone(fixed):
    torch.manual_seed(0)
    marks = [[-100, 0, 1, 2, 0], [3, -100, -100, 0], [0, 3]]
    logits = [torch.randn(len(each), 2, requires_grad=True) for each in marks]
    wanted = torch.zeros(())
    for each, scores in zip(marks, logits, strict=True):
        places = [n for n, mark in enumerate(each) if mark != -100]
        for side, bit in enumerate((1, 2)):
            right = [n for n, place in enumerate(places) if each[place] & bit]
            wanted = wanted - scores[places, side].log_softmax(0)[right].sum() / 2
    shape = {"size": 20, "segments": 9, "most": 4, "longest": 6} if fixed else {}
    row = Row.of([len(each) for each in marks], **shape)
    room = shape.get("size", 11) - 11
    flat = torch.cat([*logits, torch.full((room, 2), 7.0)])
    told = torch.tensor([mark for each in marks for mark in each] + [-100] * room)
    found = span_loss(flat, told, row)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(torch.autograd.grad(found, logits), torch.autograd.grad(wanted, logits), strict=True):
        torch.testing.assert_close(one, other)

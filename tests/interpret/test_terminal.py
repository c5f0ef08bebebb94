"""Attention in a terminal: it fits, it says what it shows, and links are where the weights are."""

import pytest
import torch

from regard.interpret.draw import terminal
from regard.interpret.draw.terminal import Style
from regard.interpret.steps import Prediction, Step
from regard.interpret.trace import Item, Trace, Weights
from regard.interpret.words import group_items

SOURCE = [
    Item(" Le", word=0),
    Item(" ch", word=1),
    Item("at", word=1),
    Item(" noir", word=2),
    Item("<eos>", special=True),
]
TARGET = [Item(" The", word=0), Item(" black", word=1), Item(" cat", word=2), Item("<eos>", special=True)]
WEIGHTS = torch.tensor(
    [[0.9, 0.05, 0.0, 0.05, 0.0], [0.1, 0.1, 0.1, 0.6, 0.1], [0.04, 0.5, 0.3, 0.16, 0.0], [0.0, 0.0, 0.0, 0.1, 0.9]]
)


def trace() -> Trace:
    items = {"source": SOURCE, "target": TARGET}
    other = Weights("encoder.0.attention", "source", "source", torch.full((2, 5, 5), 0.2))
    return Trace("demo", "translation", items, [Weights("decoder.0.cross", "target", "source", WEIGHTS[None]), other])


def long_trace(words: int) -> Trace:
    items = [Item(f" parole{number}", word=number) for number in range(words)]
    weights = [Weights("decoder.0.cross", "target", "source", torch.eye(words)[None])]
    return Trace("demo", "translation", {"source": items, "target": items}, weights)


def test_the_matrix_shows_words_in_shades_without_special_tokens():
    title, head, *lines, legend = terminal.alignment(trace()).splitlines()
    assert title == "decoder.0.cross, the only head: where each line looked, not why"
    assert head.split() == ["Le", "chat", "noir"]
    assert [line.split()[0] for line in lines] == ["The", "black", "cat"]
    assert lines[0] == "The   ██ ░░░░ ░░░░"
    assert lines[2] == "cat      ████ ░░░░"
    assert "█ from 75 %" in legend


def test_pieces_and_special_tokens_are_shown_when_asked_for():
    lines = terminal.alignment(trace(), level="subword", specials=True, head=0).splitlines()
    assert lines[1].split() == ["Le", "ch", "at", "noir", "<eos>"]
    assert lines[-2].startswith("<eos>")


def test_numbers_replace_shades_and_ascii_is_ascii():
    lines = terminal.alignment(trace(), style=Style(numbers=True)).splitlines()
    assert lines[2].split() == ["The", "90", "5", "5"]
    foreign = Trace("demo", "x", {"a": [Item("Öl"), Item("猫")]}, [Weights("own", "a", "a", torch.eye(2)[None])])
    text = terminal.alignment(foreign, level="subword", style=Style(ascii=True))
    assert text.isascii()
    assert "Ol" in text


def test_lines_of_the_shared_weight_add_up_to_a_hundred():
    lines = terminal.alignment(trace(), renormalise=True, style=Style(numbers=True)).splitlines()
    assert sum(map(int, lines[3].split()[1:])) == 100


@pytest.mark.parametrize("words", [12, 40, 90])
@pytest.mark.parametrize("width", [40, 80])
def test_a_long_sentence_wraps_and_stays_inside_the_terminal(words, width):
    _title, *lines = terminal.alignment(long_trace(words), style=Style(width=width)).splitlines()
    *lines, _legend = lines
    assert max(map(terminal.columns, lines)) <= width
    assert sum("█" in line for line in lines) == words
    assert max(len(line.rstrip()) for line in lines) == max(map(len, lines))


def test_a_very_long_word_is_cut_short():
    items = [Item("anticonstitutionnellement", word=0), Item(" ok", word=1)]
    text = terminal.matrix(torch.eye(2), group_items(items), group_items(items))
    assert "anticonstitutio…" in text


def test_wide_letters_keep_the_columns_straight():
    items = [Item("猫", word=0), Item("黒い猫", word=1), Item("e\u0301", word=2)]
    _, *lines, _ = terminal.matrix(torch.eye(3), group_items(items), group_items(items)).splitlines()
    starts = [terminal.columns(line[: line.index("█")]) for line in lines]
    assert starts == [7, 10, 17]


def test_links_go_from_each_written_word_to_the_word_it_looked_at_most():
    assert terminal.pharaoh(WEIGHTS, TARGET, SOURCE) == "0-0 1-2 2-1"
    assert terminal.pharaoh(WEIGHTS, TARGET, SOURCE, threshold=0.7) == "0-0 1-2"
    assert terminal.links(WEIGHTS, TARGET, SOURCE, threshold=0.85) == [(0, 0)]
    assert terminal.pharaoh(torch.ones(1, 1), [Item("<eos>", special=True)], [Item("a", word=0)]) == ""


def test_the_last_cross_attention_is_meant_when_none_is_named():
    assert trace().find().name == "decoder.0.cross"
    assert trace().find("encoder.0.attention").name == "encoder.0.attention"
    with pytest.raises(ValueError, match="nothing was watched"):
        Trace("demo", "x", {}, []).find()


def test_a_head_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="heads 0 to 0, not 3"):
        terminal.alignment(trace(), head=3)


def test_only_special_tokens_make_no_matrix():
    assert "special" in terminal.matrix(torch.ones(0, 0), [], [])


def test_a_step_is_written_in_the_order_of_its_computation():
    step = Step(
        attention="decoder.0.cross",
        head=1,
        place=0,
        formula="q . k / sqrt(2)",
        query=torch.tensor([1.0, 2.0]),
        keys=torch.ones(5, 2),
        values=torch.ones(5, 8),
        raw=torch.tensor([3.0, 1.0, 0.0, 0.0, 0.0]),
        scale=0.5,
        bias=torch.tensor([0.25, 0.0, 0.0, 0.0, 0.0]),
        scores=torch.tensor([1.75, 0.5, 0.0, 0.0, 0.0]),
        visible=torch.tensor([True, True, True, True, False]),
        weights=torch.tensor([0.9, 0.1, 0.0, 0.0, 0.0]),
        mixed=torch.ones(8),
        contribution=torch.tensor([3.0, 4.0]),
        difference=3e-7,
    )
    prediction = Prediction([(" The", 0.75), ("é", 0.2)], " The", 0.75, 0)
    text = terminal.step(step, SOURCE, token=" The", prediction=prediction)
    lines = text.splitlines()
    assert lines[0] == "decoder.0.cross, head 1, token 0 The"
    assert "Le       3.000    1.500    0.250     -   0.9000  ███████████" in lines
    assert "<eos>    0.000    0.000    0.000   hid   0.0000" in lines
    assert "recomputed = the model's weights to 3e-07" in text
    assert "length 5.0000" in text
    assert '█████████     75.0%  " The"' in text
    assert max(map(len, lines)) <= 80
    assert terminal.step(step, SOURCE, prediction=prediction, style=Style(ascii=True)).isascii()

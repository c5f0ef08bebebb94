"""Tables in a terminal: they fit, numbers stay whole and stand on the right, and text is never taken for markup."""

import pytest
from rich.console import Console

from regard.cli.tables import FittedTable


def lines(table: FittedTable, width: int = 80) -> list[str]:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as caught:
        console.print(table)
    return [line.rstrip() for line in caught.get().splitlines()]


def test_numbers_stand_on_the_right_and_words_on_the_left():
    table = FittedTable(
        ("name", "how many", "share"), [("a", 1234567, 0.5), ("long name", 8, None)], "A title", "A note."
    )
    title, heading, rule, first, second, note = lines(table)
    assert title == "A title"
    assert heading == "name        how many  share"
    assert set(rule) == {"─"}
    assert first == "a          1,234,567  0.500"
    assert second == "long name          8      -"
    assert note == "A note."


@pytest.mark.parametrize("width", [30, 44, 80])
def test_what_is_too_wide_folds_its_words_and_then_goes_on_below(width):
    columns = ("what it is called", *(f"column {n}" for n in range(9)))
    rows = [("some words that may be folded anywhere", *(f"{n + 0.125:.3f}" for n in range(9)))]
    shown = lines(FittedTable(columns, rows), width)
    assert max(map(len, shown)) <= width
    for number in range(9):
        assert sum(f"{number}.125" in line.split() for line in shown) == 1, "no number is cut"
    text = " ".join(" ".join(shown).split())
    assert all(word in text for word in ("some", "words", "folded", "anywhere"))


def test_a_path_longer_than_the_line_is_broken_and_nothing_is_lost():
    path = "runs/" + "very-long-name/" * 8
    shown = lines(FittedTable(("run", "step"), [(path, 12)]), 60)
    assert max(map(len, shown)) <= 60
    assert "".join(line.split("  ")[0].strip() for line in shown[2:]).startswith(path)


def test_brackets_are_text_and_a_table_without_headings_has_none():
    shown = lines(FittedTable(("", ""), [("[bold]", "[/oops]")]))
    assert shown == ["[bold]  [/oops]"]


def test_a_table_of_nothing_says_only_its_title():
    for width in (80, 20):
        assert lines(FittedTable(("what", "runs/a-long-name", "runs/another-one"), [], "no runs"), width) == ["no runs"]


def test_what_a_terminal_would_obey_is_shown_as_a_dot():
    assert lines(FittedTable(("text",), [("a\x02b\x1bc",)]))[-1] == "a·b·c"

"""What happened to the lines of a corpus is reported in plain sentences."""

from regard.data.line_report import HELD, LineReport


def test_pairs_held_out_are_named_as_such_and_not_as_left_out():
    report = LineReport(read=5, kept=1)
    report.refuse("invalid UTF-8", 0, 1)
    report.drop(HELD, 0, 2)
    report.drop(HELD, 0, 3)
    report.drop("longer than 9 tokens", 1, 4)
    assert report.lines(["a.fr", "a.en"]) == [
        "a.fr and a.en: 1 of 5 pairs kept",
        "  refused: 1 invalid UTF-8 (a.fr:1)",
        "  2 pairs held out for validation (a.fr:2, a.fr:3)",
        "  left out: 1 pair longer than 9 tokens (a.en:4)",
    ]

"""Long commands are not silent, in a log either."""

import time

from regard.cli import progress


def test_what_takes_long_is_said_in_a_line_where_there_is_no_terminal(monkeypatch, capfd):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    with progress.announce("drawing pictures"):
        deadline = time.monotonic() + 60
        message = ""
        while "\n" not in message and time.monotonic() < deadline:
            message += capfd.readouterr().err
    assert message == "regard: drawing pictures ...\n"


def test_what_is_done_at_once_says_nothing(capfd):
    with progress.announce("drawing pictures"):
        pass
    assert capfd.readouterr().err == ""

"""The pages about serving are true: the limits are those of the code, every curl line is answered."""

import re
import shlex

import pytest

from regard.serve.limits import describe_limits
from tests.documents import ROOT, blocks

pytestmark = pytest.mark.unchecked
PAGE = ROOT / "docs" / "serve.md"
LINES = [line for block in blocks(PAGE, "console") for line in block.lines if line.startswith("curl ")]


def test_the_page_has_every_limit_with_its_default_and_meaning():
    page = PAGE.read_text(encoding="utf-8")
    rows = [f"| `{name}` | {default} | {help} |" for name, default, help in describe_limits()]
    assert "\n".join(rows) in page


@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\W+", "-", line[27:60]))
def test_every_curl_line_is_answered(shop, line):
    """The words of curl as a request: -d is a form unless a header says otherwise."""
    words = shlex.split(line)[1:]
    headers, data, urls = {}, [], []
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            data.append(words.pop(0))
        elif word != "-N":
            urls.append(word)
    [url] = urls
    headers = {"content-type": "application/x-www-form-urlencoded", **headers} if data else headers
    with shop.client() as client:
        path = url.removeprefix("http://127.0.0.1:8000")
        answer = client.request(
            "POST" if data else "GET", path, content="&".join(data).encode() or None, headers=headers
        )
    assert answer.status_code == 200
    assert "error" not in answer.text
    expected = re.search(r"The first answers `(\{.+\})`", PAGE.read_text(encoding="utf-8"))[1]
    if line == LINES[0]:
        assert answer.text == expected

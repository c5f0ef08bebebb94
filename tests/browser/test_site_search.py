"""The site opened from a disk: its search answers, and asks no other host."""

from pathlib import Path
from typing import Any

from tests.browser.conftest import AT_HOME
from tests.documents import build_site

SEARCH = "input[data-md-component=search-query]"


def test_the_search_of_a_site_on_a_disk_leads_to_the_right_sections(browser: Any, tmp_path: Path) -> None:
    site = build_site(tmp_path / "site")
    context = browser.new_context()
    requests: list[str] = []
    errors: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "commands" / "lab.html").as_uri())
    for words, place in (("permutation", "courses.html#permutation"), ("croisée", "courses.fr.html")):
        page.fill(SEARCH, "")
        page.type(SEARCH, words)  # key by key: the site listens to keys
        page.wait_for_selector(f".md-search-result__item a[href*='{place}']", state="attached")
    assert any("worker" in request for request in requests)
    assert not [request for request in requests if not request.startswith(AT_HOME)]
    assert not errors
    context.close()

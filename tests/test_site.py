"""The documentation builds as a site without a broken link."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents import ROOT, build_site


class Links(HTMLParser):
    """Collects what a page links to, and the names it can be linked by."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.names |= {value for key in ("id", "name") if (value := values.get(key))}
        self.targets += [value for key in ("href", "src") if (value := values.get(key))]


def read_links(page: Path) -> Links:
    """Return the links of a page."""
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    return build_site(tmp_path_factory.mktemp("site"))


def test_every_link_of_the_site_leads_to_a_file_and_a_place_in_it(site: Path) -> None:
    pages = {page: read_links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    broken = []
    for page, links in pages.items():
        for link in links.targets:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            missing = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names
            if not target.exists() or missing:
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "fonts.googleapis.com" not in text, page
        assert 'src="http' not in text, page
        assert "unpkg.com" not in text, page

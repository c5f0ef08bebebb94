"""The bundle of scripts: every export arrives, and what is unknown is refused."""

import re
from pathlib import Path

import pytest

from regard.interpret.draw.bundle import WEB, order_modules, read_module, write_bundle

EXPORTS = re.compile(r"(?m)^export (?:async )?(?:function\*? ?|class |const )([\w$]+)")


def make_folder(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def test_every_module_is_bundled_with_every_export():
    modules = {module.name: module for module in order_modules()}
    assert set(modules) == {path.relative_to(WEB).with_suffix("").as_posix() for path in WEB.rglob("*.js")}
    for name, module in modules.items():
        text = (WEB / f"{name}.js").read_text(encoding="utf-8")
        assert set(EXPORTS.findall(text)) <= set(module.exports), name
        assert len(re.findall(r"(?m)^export\b", text)) <= len(module.exports) + len(module.spreads), name
        assert module.write() in write_bundle()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("export let n = 1;\n", r"main.js:1: cannot bundle 'export let n = 1;': what imports it would keep"),
        ("\nexport default 3;\n", "main.js:2"),
        ("export const { a } = b;\n", "by name"),
        ('import a from "./a.js";\n', "by name"),
        ('import { a } from "https://example.org/a.js";\n', "by name"),
        ('const a = await import("./a.js");\n', "cannot load modules later"),
        ("// a comment\nconst a = import.meta.url;\n", "main.js:2"),
    ],
)
def test_what_a_bundle_cannot_hold_is_refused_with_its_line(text, words):
    with pytest.raises(ValueError, match=words):
        read_module("main", text)


def test_circles_missing_files_and_missing_names_are_refused(tmp_path):
    circle = make_folder(
        tmp_path, main='import { a } from "./one.js";\n', one='import { b } from "./two.js";\nexport const a = 1;\n'
    )
    with pytest.raises(ValueError, match=r"one.js imports ./two.js, and there is no such file"):
        order_modules(circle)
    make_folder(tmp_path, two='import { a } from "./one.js";\nexport const b = 1;\n')
    with pytest.raises(ValueError, match="in a circle: main -> one -> two -> one"):
        order_modules(circle)
    make_folder(tmp_path, two="export const c = 1;\n")
    with pytest.raises(ValueError, match=r"one.js imports b from ./two.js, which does not export it"):
        order_modules(circle)


def test_comments_are_dropped_where_they_have_their_lines_and_strings_stay():
    text = r"""// First.
/** Of a
 *  function. */
export function write(value) { // kept beside code
  // dropped
  const address = "https://a.b/"; /* kept */ const pattern = `
// a line of a text
`;
  return value + address + pattern;
}
"""
    assert read_module("some", text).body.splitlines() == [
        "",
        "",
        "function write(value) { // kept beside code",
        "  ",
        '  const address = "https://a.b/"; /* kept */ const pattern = `',
        "// a line of a text",
        "`;",
        "  return value + address + pattern;",
        "}",
    ]
    assert not re.search(r"(?m)^\s*(/\*\*|//)", write_bundle())

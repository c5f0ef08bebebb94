"""The bundle of scripts: every export of every module arrives, in an order that works, and what is unknown is refused."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.interpret.draw.bundle import WEB, order_modules, read_module, variable, write_bundle

EXPORTS = re.compile(r"(?m)^export (?:async )?(?:function\*? ?|class |const )([\w$]+)")
node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def make_folder(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def run_node(script: str) -> str:
    return subprocess.run(
        ["node", "--input-type=module", "-"], input=script, capture_output=True, text=True, check=True
    ).stdout


def test_every_module_is_bundled_with_every_export():
    modules = {module.name: module for module in order_modules()}
    assert set(modules) == {path.relative_to(WEB).with_suffix("").as_posix() for path in WEB.rglob("*.js")}
    for name, module in modules.items():
        text = (WEB / f"{name}.js").read_text(encoding="utf-8")
        assert set(EXPORTS.findall(text)) <= set(module.exports), name
        assert len(re.findall(r"(?m)^export\b", text)) <= len(module.exports) + len(module.spreads), name
        assert module.write() in write_bundle()


@node
def test_the_bundle_and_every_module_in_it_are_well_formed(tmp_path):
    for name, script in [("all", write_bundle()), *((module.name, module.write()) for module in order_modules())]:
        path = tmp_path / f"{variable(name)}.mjs"
        path.write_text(script, encoding="utf-8")
    check = "import {readdirSync, readFileSync} from 'fs'; import vm from 'vm';" + (
        f"for (const file of readdirSync('{tmp_path}')) new vm.Script('async () => {{' + readFileSync('{tmp_path}/' + file) + '}}');"
    )
    run_node(check)


@node
def test_all_that_modules_may_contain_works_in_a_bundle(tmp_path):
    folder = make_folder(
        tmp_path,
        parts='let count = 0;\nexport async function wait() { return count; }\nexport function* walk() { yield 1; }\n'
        "export class Box {\n  size = 2;\n}\nexport const three = 3;\nfunction step() { count += 1; }\n"
        "export { step, three as also };\n",
        again='export { Box as Crate, wait } from "./parts.js";\nexport * from "./more.js";\n',
        more='export const four = 4; // export const five\nexport const text = `\\nimport "x"\\n`;\n',
        main='import {\n  wait,\n  Crate as Case, four,\n} from "./again.js";\nimport * as parts from "./parts.js";\n'
        'import "./more.js";\nparts.step();\n'
        "console.log(await wait(), new Case().size, four, parts.also, [...parts.walk()].length);\n",
    )
    assert run_node(write_bundle(folder).replace("(() => {\nconst { wait", "await (async () => {\nconst { wait")) == "1 2 4 3 1\n"
    assert [module.name for module in order_modules(folder)] == ["parts", "more", "again", "main"]


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
    circle = make_folder(tmp_path, main='import { a } from "./one.js";\n', one='import { b } from "./two.js";\nexport const a = 1;\n')
    with pytest.raises(ValueError, match=r"one.js imports ./two.js, and there is no such file"):
        order_modules(circle)
    make_folder(tmp_path, two='import { a } from "./one.js";\nexport const b = 1;\n')
    with pytest.raises(ValueError, match="in a circle: main -> one -> two -> one"):
        order_modules(circle)
    make_folder(tmp_path, two="export const c = 1;\n")
    with pytest.raises(ValueError, match=r"one.js imports b from ./two.js, which does not export it"):
        order_modules(circle)

"""The bundled scripts in a browser: every module is well formed, and all that modules may contain works."""

from pathlib import Path
from typing import Any

from regard.interpret.draw.bundle import order_modules, write_bundle
from tests.interpret.test_bundle import make_folder


def test_every_module_of_the_bundle_is_well_formed(browser: Any):
    window = browser.new_page()
    parse = "body => { new Function(`return async () => {\\n${body}}`); return true; }"
    assert all(window.evaluate(parse, module.write()) for module in order_modules())
    window.close()


def test_all_that_modules_may_contain_works_in_a_bundle(browser: Any, tmp_path: Path):
    folder = make_folder(
        tmp_path,
        parts="let count = 0;\nexport async function wait() { return count; }\nexport function* walk() { yield 1; }\n"
        "export class Box {\n  size = 2;\n}\nexport const three = 3;\nfunction step() { count += 1; }\n"
        "export { step, three as also };\n",
        again='export { Box as Crate, wait } from "./parts.js";\nexport * from "./more.js";\n',
        more='export const four = 4; // export const five\nexport const text = `\\nimport "x"\\n`;\n',
        main='import {\n  wait,\n  Crate as Case, four,\n} from "./again.js";\nimport * as parts from "./parts.js";\n'
        'import "./more.js";\nparts.step();\n'
        "const size = new Case().size;\n"
        "wait().then((n) => { window.seen = [n, size, four, parts.also, [...parts.walk()].length]; });\n",
    )
    assert [module.name for module in order_modules(folder)] == ["parts", "more", "again", "main"]
    window = browser.new_page()
    window.add_script_tag(type="module", content=write_bundle(folder))
    window.wait_for_function("window.seen")
    assert window.evaluate("window.seen") == [1, 2, 4, 3, 1]
    window.close()

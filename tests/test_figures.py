"""Figures of the models in the box are of the models in the box: recorded with their weights, on every page alike."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from benchmarks.translate import EVERYDAY, sentences
from regard import shipped
from regard.cli import run
from tests.documents import DOCUMENTS, ROOT, Block, regards
from tests.figures import Figure, compute_digest, main, read_record

RECORD = read_record()
FIGURES: list[Figure] = RECORD["figures"]
WATCHED = [(page, heading) for page, headings in RECORD["watched"].items() for heading in headings]
OUTPUTS = [(page, heading) for page, headings in RECORD["outputs"].items() for heading in headings]
BLANKS = str.maketrans("\u00a0\u202f", "  ")
NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+| \d{3}(?!\d))*")
UNIT = re.compile(r" ?(?:%|(?:ms|s|MB|Mo|GB|minutes|seconds|sentences|phrases)\b)")
ASIDE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)|(?:version|PyTorch|torch) [\d.]+")  # code, links, versions
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```sh\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```$", re.MULTILINE)
ASKED = ("evaluate", "explain", "fill", "models", "search", "translate")  # commands that take a model in the box


def read_page(page: str) -> str:
    """Return a page with plain blanks in place of those that do not break."""
    return (ROOT / page).read_text(encoding="utf-8").translate(BLANKS)


def split_sections(text: str) -> dict[str, str]:
    """Return the text below every heading, up to the next heading of any level."""
    headings = list(re.finditer(r"^#+ (.+)$", FENCED.sub(blank, text), re.MULTILINE))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return {heading[1]: text[heading.end() : end] for heading, end in zip(headings, ends, strict=True)}


def blank(match: re.Match[str]) -> str:
    """Return as many blanks as a match has characters, in as many lines."""
    return re.sub(r".", " ", match[0])


def find_figures(prose: str) -> Iterator[re.Match[str]]:
    """Find the numbers of a text that were measured: not years, versions, code, links or small counts."""
    bare = ASIDE.sub(blank, prose)
    for number in NUMBER.finditer(bare):
        text = number[0]
        year = re.fullmatch(r"(?:19|20)\d\d", text)
        if UNIT.match(bare, number.end()) or (len(text) > 2 and not year):
            yield number


def recorded_texts(page: str) -> list[re.Pattern[str]]:
    """Return patterns of all that is recorded of a page."""
    own = [re.escape(text.translate(BLANKS)) for figure in FIGURES for text in figure.pages.get(page, [])]
    records = [*RECORD["others"], *RECORD["experiments"]]
    others = [text.translate(BLANKS) for record in records for text in record["pages"].get(page, [])]
    return [re.compile(text) for text in (*own, *(re.escape(text).replace("…", ".*") for text in others))]


def unrecorded(prose: str, texts: list[re.Pattern[str]]) -> list[str]:
    """Return the figures of a text that lie in no recorded one."""
    spans = [match.span() for text in texts for match in text.finditer(prose)]
    return [
        number[0]
        for number in find_figures(prose)
        if not any(begin <= number.start() and number.end() <= end for begin, end in spans)
    ]


def name_figure(figure: Figure) -> str:
    """Return a name for a test."""
    return f"{figure.model}, {figure.kind}: {figure.data}"


# The record.


@pytest.mark.parametrize("figure", FIGURES, ids=name_figure)
def test_a_figure_was_measured_with_the_model_that_is_shipped(figure: Figure):
    now = compute_digest(shipped.models()[figure.model])
    assert figure.weights == now, f"{figure.model} has changed: measure again by `{figure.command}`, and record {now}"


@pytest.mark.parametrize("figure", FIGURES, ids=name_figure)
def test_a_figure_stands_on_its_pages_and_says_how_it_was_measured(figure: Figure):
    missing = [(page, text) for page, texts in figure.pages.items() for text in texts if text not in read_page(page)]
    assert not missing
    assert figure.data
    assert figure.command
    assert re.match(r"\d{4}-\d\d-\d\d", figure.measured)
    assert figure.machine or figure.kind != "speed"


def test_what_is_recorded_of_other_models_stands_on_its_pages():
    for other in RECORD["others"]:
        for page, texts in other["pages"].items():
            assert not [text for text in texts if text.removesuffix("…") not in read_page(page)], other["of"]


@pytest.mark.parametrize("experiment", RECORD["experiments"], ids=lambda experiment: experiment["command"][:60])
def test_what_an_experiment_printed_stands_on_its_pages(experiment: dict[str, Any]):
    assert set(experiment) <= {"command", "measured", "machine", "pages"}
    assert regards(experiment["command"])
    assert re.match(r"\d{4}-\d\d-\d\d", str(experiment["measured"]))
    missing = [
        (page, text) for page, texts in experiment["pages"].items() for text in texts if text not in read_page(page)
    ]
    assert not missing


def test_every_model_in_the_box_has_figures():
    assert {figure.model for figure in FIGURES} == set(shipped.models())


def test_a_model_that_changes_makes_its_figures_fail(tmp_path: Path):
    model = shipped.models()["stories"]
    changed = shipped.ShippedModel("stories", tmp_path / "stories")
    shutil.copytree(model.path, changed.path, ignore=shutil.ignore_patterns("*.safetensors"))
    assert compute_digest(changed) == compute_digest(model)
    manifest = changed.path / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    card, weights = (
        re.search(rf'"{name}": {{\s*"sha256": "(\w+)"', text)[1] for name in ("README.md", "model.safetensors")
    )
    manifest.write_text(text.replace(card, "0" * 64), encoding="utf-8")
    assert compute_digest(changed) == compute_digest(model)
    manifest.write_text(text.replace(weights, "0" * 64), encoding="utf-8")
    assert compute_digest(changed) != compute_digest(model)


def test_the_commands_of_one_kind_of_figure_can_be_printed(capsys: pytest.CaptureFixture[str]):
    main("speed", "en-fr")
    told = capsys.readouterr().out
    assert f"en-fr: {compute_digest(shipped.models()['en-fr'])}" in told
    assert "python -m benchmarks.translate" in told
    assert "score_translator" not in told


# The pages.


@pytest.mark.parametrize(("page", "heading"), WATCHED)
def test_no_figure_in_a_watched_section_is_unrecorded(page: str, heading: str):
    section = split_sections(read_page(page))[heading]
    assert not unrecorded(FENCED.sub(blank, section), recorded_texts(page))


@pytest.mark.parametrize(("page", "heading"), WATCHED + OUTPUTS)
def test_output_in_a_watched_section_is_run_by_a_test_or_recorded(page: str, heading: str):
    section, texts = split_sections(read_page(page))[heading], recorded_texts(page)
    shown = {shown[2] for shown in SHOWN.finditer(section)}
    outputs = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert not [output for output in outputs if output not in shown and not any(text.search(output) for text in texts)]


def test_an_unrecorded_figure_would_be_found():
    texts = [re.compile(re.escape("BLEU 54.7 on 2,000 pairs"))]
    prose = "BLEU 54.7 on 2,000 pairs, 6,076 a second, 12 ms, 2 900 phrases, 98 % in `1.5` of 2016 with PyTorch 2.11."
    assert unrecorded(prose, texts) == ["6,076", "12", "2 900", "98"]


def read_numbers(page: str) -> list[list[str]]:
    """Return the numbers of every section of a page but its code, as English writes them."""
    found = []
    for section in split_sections(read_page(page)).values():
        bare = re.sub(r"\]\([^)\n]*\)", "", FENCED.sub("", section))
        if page.endswith(".fr.md"):
            bare = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", bare)
            bare = re.sub(r"(?<=\d),(?=\d)", ".", bare)
        else:
            bare = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", bare)
        found.append(sorted(re.findall(r"\d+(?:\.\d+)*", bare)))
    return found


def test_the_readme_has_the_same_figures_in_both_languages():
    english, french = split_sections(read_page("README.md")), split_sections(read_page("README.fr.md"))
    pairs = zip(english, french, read_numbers("README.md"), read_numbers("README.fr.md"), strict=True)
    assert not [(here, there, ours, theirs) for here, there, ours, theirs in pairs if ours != theirs]


# What can be measured at once.


@pytest.mark.parametrize("name", shipped.models())
def test_sizes_are_those_of_the_files(name: str):
    model = shipped.models()[name]
    weights = load_file(model.path / "model.safetensors")
    count = sum(tensor.size for key, tensor in weights.items() if not key.endswith("|scale"))
    assert f"{count:,} parameters, {model.size / 1e6:.1f} MB" in read_page("docs/results.md")


def test_speed_is_measured_on_sentences_of_the_samples():
    tatoeba, everyday = sentences(501), sentences(201, EVERYDAY)
    assert (len(set(tatoeba)), len(set(everyday))) == (500, 200)
    assert (tatoeba[500], everyday[200]) == (tatoeba[0], everyday[0])
    assert "\t" not in "".join(tatoeba + everyday)


def test_all_models_together_have_the_size_that_the_comparison_gives():
    total = sum(model.size for model in shipped.models().values()) / 1e6
    assert f"| three, {total:.0f} MB;" in read_page("README.md")


def examples() -> list[tuple[str, list[str], str]]:
    """Return the commands of the documents that ask models in the box, and the output shown below them, each once."""
    found: dict[tuple[str, str], tuple[str, list[str], str]] = {}
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in SHOWN.finditer(text):
            place = f"{path.relative_to(ROOT).as_posix()}:{text.count(chr(10), 0, match.start()) + 1}"
            lines = Block("sh", match[1], place).lines
            commands = [words for line in lines if (words := regards(line))]
            verbs = {words[0] for words in commands}
            if path.parent != ROOT and verbs and verbs <= set(ASKED) and "runs/" not in match[1]:
                found.setdefault((match[1], match[2]), (place, lines, match[2]))
    return list(found.values())


def test_the_score_in_the_readme_is_that_of_the_page_about_evaluating():
    [score] = re.findall(r"BLEU \(([\d.]+) on these 100 pairs\)", read_page("README.md"))
    outputs = [re.search(r"^BLEU +([\d.]+) ±", output, re.MULTILINE) for _, _, output in examples()]
    assert [f"{float(found[1]):.1f}" for found in outputs if found] == [score]


def comparable_lines(output: str) -> list[str]:
    """Return the lines of an output, but blank ones and how long it took."""
    return [line.rstrip() for line in output.splitlines() if line.strip() and not line.startswith("time ")]


@pytest.mark.unchecked
@pytest.mark.parametrize(("place", "lines", "shown"), examples(), ids=[place for place, _, _ in examples()])
def test_what_is_shown_of_a_model_in_the_box_is_what_it_answers(place, lines, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "regard").symlink_to(ROOT / "regard")
    for line in lines:
        if (words := regards(line)) is not None:
            assert run(words if words[0] == "models" else [*words, "--device", "cpu"]) == 0
        else:
            written = re.fullmatch(r"printf '(.*)' > (\S+)", line)
            Path(written[2]).write_text(written[1].replace("\\n", "\n").replace("\\t", "\t"), encoding="utf-8")
    expected = comparable_lines(shown)
    assert comparable_lines(capsys.readouterr().out)[: len(expected)] == expected

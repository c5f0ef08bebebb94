"""Numbers on the pages are those of the results that come with the package."""

import re

from regard.cli.lab.tables import format_number
from regard.lab.agreement.course_experiment import NetworkResult, read_results
from regard.lab.gradients import recall
from tests.documents import ROOT

AGREEMENT = ROOT / "docs" / "agreement.md"


def read_rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below the first line that begins with the heading."""
    table = page[page.index(f"\n{heading}") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().split("\n")[2:]]


def write_errors(result: NetworkResult, *, clauses: int, attractor: bool) -> str:
    """Return the errors of each seed as the page has them."""
    [point] = [point for point in result.points if (point.clauses, point.attractor) == (clauses, attractor)]
    return ", ".join(f"{error:.1f}" for error in point.errors)


def test_the_table_of_agreement_is_that_of_the_kept_results():
    rows = read_rows(AGREEMENT.read_text(encoding="utf-8"), "| clauses | last noun |")
    results = read_results()
    assert len(rows) == len(results[0].points)
    for clauses, gender, *cells in rows:
        expected = [write_errors(each, clauses=int(clauses), attractor=gender == "other gender") for each in results]
        assert cells == expected


def test_the_claims_about_agreement_stand_beside_the_kept_results():
    rows = read_rows(AGREEMENT.read_text(encoding="utf-8"), "| network | the claim |")
    results = {result.network: result for result in read_results()}
    assert [row[0] for row in rows] == list(results)
    for network, _, short, long, *_ in rows:
        assert short == write_errors(results[network], clauses=0, attractor=False)
        assert long == write_errors(results[network], clauses=4, attractor=True)


def test_the_long_distances_beside_the_claims_are_those_of_the_table_above():
    page = AGREEMENT.read_text(encoding="utf-8")
    above = {row[0]: row for row in read_rows(page[page.index("## When all distances are long") :], "| words between")}
    for network, *cells in read_rows(page, "| network | the claim |"):
        expected = above.get(f"{network}, attractors", ["not trained"] * 7)
        assert cells[3] == expected[6]  # at 16 words


def test_the_table_of_gradients_after_training_is_that_of_the_kept_results():
    page = (ROOT / "docs" / "commands" / "lab.md").read_text(encoding="utf-8")
    rows = read_rows(page, "| | gradient by the first input, untrained |")
    results = recall.read_results()
    assert [row[0] for row in rows] == [result.name for result in results]
    for row, result in zip(rows, results, strict=True):
        gradients = [format_number(result.untrained[-1]), format_number(result.trained[-1])]
        assert row[1:3] == gradients
        assert re.fullmatch(r"[\d.]+", row[3])
        assert float(row[3]) == round(100 * result.accuracy, 1)

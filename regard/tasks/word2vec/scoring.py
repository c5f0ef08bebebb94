"""Word vectors held against tests of them, as every task tells its scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import averaged
from regard.tasks.word2vec import word_benchmarks

if TYPE_CHECKING:
    from regard.tasks.word2vec.vectors import WordVectors


def scores(vectors: WordVectors, files: Sequence[str], name: str) -> Scores:
    """Analogies by section, and Spearman's correlation with people's judgements of pairs."""
    measures: dict[str, str] = {}
    details: dict[str, Any] = {}
    tables: list[Table] = []
    examples: list[Judged] = []
    for file in files:
        if word_benchmarks.is_analogies(file):
            sections = word_benchmarks.analogies(file)
            found = vectors.analogies(sections)
            rows = [(one.name, f"{one.share:.1%}", f"{one.known:,} of {one.asked:,}") for one in found]
            tables.append(Table(file, ("section", "right", "words known"), rows))
            examples += _examples(vectors, [question for each in sections.values() for question in each], len(examples))
        else:
            own = vectors.agreement(word_benchmarks.similarity(file))
            measures[f"Spearman, {file}"] = f"{own.rho:.3f} over {own.known:,} of {own.asked:,} pairs"
            details[file] = {"spearman": own.rho, "known": own.known, "asked": own.asked}
    if not files:
        raise ValueError("nothing to measure by: give a file of judged pairs or of analogies")
    right = {"analogies, %": averaged([100 * one.score for one in examples])} if examples else {}
    return Scores(name, "word2vec", right, examples, measures=measures, tables=tables, details=details, unit="question")


def _examples(vectors: WordVectors, questions: Sequence[Sequence[str]], first: int) -> list[Judged]:
    """Every question whose words are known, with its answer."""
    judged: list[Judged] = []
    for one, two, three, four in questions:
        if all(vectors.find(word) is not None for word in (one, two, three, four)):
            [(answer, _)] = vectors.analogy(one, two, three, count=1)
            number = first + len(judged) + 1
            judged.append(Judged(number, f"{one} : {two} = {three} : ?", four, answer, float(answer == four)))
    return judged

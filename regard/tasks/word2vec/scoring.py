"""Word vectors held against tests of them, as every task tells its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.word2vec import word_benchmarks
from regard.tasks.word2vec.word_benchmarks import Agreement, Question, SectionScore


@runtime_checkable
class ComparableVectors(Protocol):
    """Word vectors that answer the questions of benchmarks."""

    def find(self, word: str) -> int | None:
        """Return the index of a word; None if it has no vector."""

    def analogy(self, first: str, second: str, third: str, *, count: int) -> list[tuple[str, float]]:
        """Return the answers d to the analogy a : b = c : d, best first, with their cosines."""

    def analogies(self, sections: Mapping[str, Sequence[Question]]) -> list[SectionScore]:
        """Count the right answers in every section."""

    def agreement(self, pairs: Sequence[word_benchmarks.Judged]) -> Agreement:
        """Return Spearman's correlation between cosines and human similarity judgements."""


def score_vectors(vectors: ComparableVectors, files: Sequence[str], name: str) -> Scores:
    """Score word vectors on files of analogies (accuracy) and of judged word pairs (Spearman's correlation)."""
    measures: dict[str, str] = {}
    details: dict[str, Any] = {}
    tables: list[Table] = []
    examples: list[Judged] = []
    for file in files:
        if word_benchmarks.is_analogies(file):
            sections = word_benchmarks.read_analogies(file)
            section_scores = vectors.analogies(sections)
            rows = [
                (scored.name, f"{scored.share:.1%}", f"{scored.known_count:,} of {scored.asked_count:,}")
                for scored in section_scores
            ]
            tables.append(Table(file, ("section", "right", "words known"), rows))
            examples += _examples(
                vectors,
                [question for section_questions in sections.values() for question in section_questions],
                len(examples),
            )
        else:
            agreement = vectors.agreement(word_benchmarks.read_similarity(file))
            measures[f"Spearman, {file}"] = (
                f"{agreement.rho:.3f} over {agreement.known_count:,} of {agreement.asked_count:,} pairs"
            )
            details[file] = {"spearman": agreement.rho, "known": agreement.known_count, "asked": agreement.asked_count}
    if not files:
        raise ValueError("nothing to measure by: give a file of judged pairs or of analogies")
    right = {"analogies, %": mean_statistics([100 * scored.score for scored in examples])} if examples else {}
    return Scores(name, "word2vec", right, examples, measures=measures, tables=tables, details=details, unit="question")


def _examples(vectors: ComparableVectors, questions: Sequence[Sequence[str]], first: int) -> list[Judged]:
    """Return every question whose words are all known, with the answer of the vectors."""
    judged: list[Judged] = []
    for first_word, second_word, third_word, right_word in questions:
        if all(vectors.find(word) is not None for word in (first_word, second_word, third_word, right_word)):
            [(answer, _)] = vectors.analogy(first_word, second_word, third_word, count=1)
            number = first + len(judged) + 1
            judged.append(
                Judged(
                    number,
                    f"{first_word} : {second_word} = {third_word} : ?",
                    right_word,
                    answer,
                    float(answer == right_word),
                )
            )
    return judged

"""Files of tagged sentences: `word/tag` with one sentence per line, or CoNLL with one word per line."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from regard.config.ranges import Column
from regard.config.resuming import Free
from regard.data.line_report import LineReport
from regard.data.readers import Refusal, clean_text, records, suffix
from regard.data.source_file import Unit
from regard.metrics.entities import are_entities, is_orphan_tag
from regard.tasks.text_encoders.examples import Example, ExampleFile

TaggedWord = tuple[str, str, int]  # word, tag, line
BROKEN_ENTITY = "with an I- tag that continues no entity: begin it with B-, or set bio: false,"
WORD_FILE_SUFFIXES = (".conll", ".conllu", ".tsv")  # endings of files with one word per line


@dataclass(frozen=True, kw_only=True)
class TaggedFile(ExampleFile):
    """A file of tagged sentences; it may be gzipped."""

    per_token: ClassVar[bool] = True

    path: Free[str]
    """A sentence in each line, as the/DET cat/NOUN; or a word in each line if named .conll, .conllu or .tsv."""
    form: Literal["auto", "lines", "columns"] = "auto"
    """A sentence in each line, or a word in each; auto goes by the file's name."""
    separator: str = "/"
    """Separator of a word and its tag where a line is a sentence; the last one in a word counts."""
    columns: tuple[Column, Column] = (1, 2)
    """Columns of word and tag, between tabs, where a line is a word; 2 and 4 in CoNLL-U."""
    blank: str = "_"
    """Tag of a word that is read but not scored."""
    bio: bool = True
    """Whether tags of entities (B-, I- and O) must keep their rule: I- continues an entity of its type."""

    def __post_init__(self) -> None:
        if not self.separator or self.separator.isspace():
            raise ValueError("separator must be a sign such as /, not a blank")

    @property
    def example_unit(self) -> Unit:  # type: ignore[override]
        """The unit of an example in comparisons of files: a line, or the lines between blank lines."""
        return "sentences" if self.word_per_line else "lines"

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings with which other files of the same kind are read."""
        return {name: value for name, value in vars(self).items() if name != "path"}

    @property
    def word_per_line(self) -> bool:
        """True if lines are words, with empty lines between sentences."""
        return self.form == "columns" or (self.form == "auto" and suffix(self.path) in WORD_FILE_SUFFIXES)

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """Yield the sentences of this file, which is number `number`."""
        if self.word_per_line:
            sentences = list(self._read_columns(tally))
        else:
            tagged_lines = records(self.path, tally, self._parse_sentence)
            sentences = [[(word, tag, line) for word, tag in pairs] for line, pairs in tagged_lines if pairs]
        check_entities = self.bio and are_entities(
            list({tag for words in sentences for _, tag, _ in words} - {self.blank})
        )
        for words in sentences:
            if check_entities and (line := self._find_orphan_tag(words)) is not None:
                tally.refuse(BROKEN_ENTITY, 0, line)
            else:
                yield self._make_example(words, number)

    def _parse_sentence(self, line: str) -> list[tuple[str, str]]:
        pairs = []
        for cell in unicodedata.normalize("NFC", line).split():
            word, separator, tag = cell.rpartition(self.separator)
            if not (separator and word and tag):
                raise Refusal(f"with a word without {self.separator} and a tag")
            pairs.append((word, tag))
        return pairs

    def _read_columns(self, tally: LineReport) -> Iterator[list[TaggedWord]]:
        """Yield the sentences of a file with one word per line; a sentence with an unusable line is left out."""
        num_refused_before, words = 0, list[TaggedWord]()
        for line, pair in records(self.path, tally, self._parse_word):
            num_refused = sum(refusals.count for refusals in tally.refused.values())
            if pair is not None:
                words.append((*pair, line))
                continue
            if words and num_refused == num_refused_before:
                yield words
            num_refused_before, words = num_refused, []
        if words and sum(refusals.count for refusals in tally.refused.values()) == num_refused_before:
            yield words

    def _find_orphan_tag(self, words: Sequence[TaggedWord]) -> int | None:
        """Return the line of the first tag (I-) that continues an entity without a beginning, or None."""
        before: str | None = None
        for _, tag, line in words:
            if is_orphan_tag(before, tag):
                return line
            before = tag
        return None

    def _parse_word(self, line: str) -> tuple[str, str] | None:
        """Parse a word and its tag; return None for empty lines and comments."""
        if not line.strip() or (line.startswith("#") and "\t" not in line):
            return None
        cells = line.split("\t")
        if len(cells) < max(self.columns):
            raise Refusal(f"fewer than {max(self.columns)} columns")
        word, tag = ("".join(clean_text(cells[column - 1]).split()) for column in self.columns)
        return word, tag

    def _make_example(self, tagged_words: Sequence[TaggedWord], number: int) -> Example:
        words, tags, lines = zip(*tagged_words, strict=True)
        return Example(words, tuple(None if tag == self.blank else tag for tag in tags), (number, lines[0]))

"""A trained tagger: labels the words of a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from regard.interpret.items import Item
from regard.interpret.trace import Trace
from regard.tasks.inputs import SENTENCE, TEXT, InputKind, Inputs, check_input, list_inputs
from regard.tasks.text_encoders.input_format import EncodedText
from regard.tasks.text_encoders.text_tokenizer import tokenizer_config
from regard.tasks.text_encoders.trained_encoder import LABEL_ITEMS
from regard.tasks.text_labels.fixed_labels import FixesLabels, LabelledText
from regard.tasks.text_labels.sentence_chunks import encode_sentences
from regard.tasks.text_labels.tagged_file import WORD_FILE_SUFFIXES, TaggedFile
from regard.tasks.text_labels.text_labeller import TextLabeller
from regard.tasks.trained import resolve_options


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence, with the most probable tag of each and its probability."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def plain(self) -> dict[str, Any]:
        """Return the sentence as JSON."""
        rounded = [round(probability, 6) for probability in self.probabilities]
        return {"words": self.words, "tags": self.tags, "probabilities": rounded}


class Tagger(FixesLabels, TextLabeller):
    """Tags the words of sentences."""

    file = TaggedFile
    task: ClassVar[str] = "tagging"
    verb: ClassVar[str] = "tag"
    kind: ClassVar[str] = "a tagger"
    input_kind: ClassVar[InputKind] = SENTENCE

    @property
    def inputs(self) -> Inputs:
        """Sentences; files with one word per line are not accepted."""
        return Inputs(kind=self.input_kind, parse=self.parse, word_files=WORD_FILE_SUFFIXES)

    def answer(self, inputs: Sequence[str | Sequence[str]], **options: Any) -> list[TaggedSentence]:
        """Tag the words of sentences."""
        resolve_options(self, options)
        return self.tag(inputs)

    def tag(self, sentences: str | Sequence[str | Sequence[str]]) -> list[TaggedSentence]:
        """Tag sentences, given as texts or as lists of words."""
        sentence_list = list_inputs(sentences, SENTENCE, verb=self.verb)
        words_of_sentences = [
            self.split_words(sentence) if isinstance(sentence, str) else list(sentence) for sentence in sentence_list
        ]
        chunks_of_sentences = encode_sentences(self.tokenizer, words_of_sentences, self.format)
        encoded = [EncodedText(tokens, len(tokens)) for chunks in chunks_of_sentences for _, tokens in chunks]
        probabilities = iter(self._compute_outputs(encoded))
        return [
            self._read_tags(words, [(positions, next(probabilities)) for positions, _ in chunks])
            for words, chunks in zip(words_of_sentences, chunks_of_sentences, strict=True)
        ]

    def split_words(self, sentence: str) -> list[str]:
        """Split a sentence into words: by the pattern in the tokenizer's settings, or at spaces."""
        pattern = tokenizer_config(self.tokenizer).pattern
        return re.findall(pattern, sentence) if pattern else sentence.split()

    def look(self, sentence: str) -> Trace:
        """Tag a sentence and return the weights of all attentions."""
        words = self.split_words(check_input(sentence, TEXT, verb="look"))
        if not words:
            raise ValueError("an empty sentence has no words to tag: give at least one")
        [[(positions, tokens), *_]] = encode_sentences(self.tokenizer, [words], self.format)
        probabilities, weights = self._watch_attention(EncodedText(tokens, len(tokens)))
        tagged = self._read_tags(words[: len(positions)], [(positions, probabilities)])
        labels = [Item(tag, word=number) for number, tag in enumerate(tagged.tags)]
        items = {"source": self._list_items(tagged.words, tokens), LABEL_ITEMS: labels}
        facts = {"text": " ".join(tagged.words), "answer": str(tagged)}
        return self._build_trace(EncodedText(tokens, len(tokens)), weights, items, facts)

    def label_text(self, sentence: str | Sequence[str]) -> LabelledText:
        """Return a sentence, or as much of it as is read at once, with the most probable tags."""
        words = self.split_words(sentence) if isinstance(sentence, str) else list(sentence)
        [[(positions, tokens), *_]] = encode_sentences(self.tokenizer, [words], self.format)
        encoded = EncodedText(tokens, len(tokens))
        [probabilities] = self._compute_outputs([encoded])
        places = [position for _, position in positions]
        tags = [int(probabilities[place].argmax()) for place in places]
        return LabelledText(encoded, self._list_items(words[: len(positions)], tokens), tags, places)

    def _list_items(self, words: Sequence[str], tokens: Sequence[int]) -> list[Item]:
        """Return the tokens of a sentence as items."""
        by_word = tokenizer_config(self.tokenizer).kind == "words" and self.style == "plain"
        shown_tokens = words if by_word else self.tokenizer.pieces(tokens)
        return self._items(tokens, shown_tokens if self.style == "plain" else [])

    def _read_tags(self, words: list[str], chunks: Iterable[tuple[list[tuple[int, int]], Tensor]]) -> TaggedSentence:
        rows = [probabilities[position] for positions, probabilities in chunks for _, position in positions]
        best = [int(row.argmax()) for row in rows]
        return TaggedSentence(
            words, [self.classes[n] for n in best], [float(row[n]) for row, n in zip(rows, best, strict=True)]
        )

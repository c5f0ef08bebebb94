"""Replacement of unknown words in answers by the source words with the highest attention (Luong et al. 2015, PosUnk).

Only a closed vocabulary of words, or subwords that lack some characters, has <unk>; all other tokenizers spell every
word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from regard.data.tokenizers import WORD
from regard.tasks.translation.answers import Answer, rank_answers
from regard.tasks.translation.model_calls import CodedPair, Hypothesis, LookCall, Steps

if TYPE_CHECKING:
    from regard.data.tokenizers import Tokenizer
    from regard.tasks.translation.text_side import TextSide

BETWEEN_BLANKS = re.compile(r"\S+")


class UnknownWords:
    """A collector of hypotheses, whose unknown words are replaced once all have been added."""

    def __init__(self, translator: TextSide, texts: Sequence[str]) -> None:
        if not translator.crossing:
            raise ValueError(
                f"{translator.name} has no attention from answers to sources, which would say what an unknown word "
                "stands for: leave replace_unknown out"
            )
        self.translator, self.texts = translator, texts
        self._hypotheses: dict[int, Sequence[Hypothesis]] = {}

    def add_hypotheses(self, numbers: Iterable[int], hypotheses: Sequence[Sequence[Hypothesis]]) -> None:
        """Add hypotheses for some of the texts."""
        self._hypotheses |= dict(zip(numbers, hypotheses, strict=True))

    def replace(self, to: str | None, *, drawn: bool = False) -> Steps[dict[int, Answer]]:
        """Return the answers by the numbers of their texts; scores stay those of the model's output."""
        target = self.translator.target
        written = [(number, hypothesis) for number, ranked in self._hypotheses.items() for hypothesis in ranked]
        decoded = target.decode_many([hypothesis.tokens for _, hypothesis in written])
        places = [place for place, (_, hypothesis) in enumerate(written) if target.unknown in hypothesis.tokens]
        if places:
            sources = [self.texts[written[place][0]] for place in places]
            replaced = yield from self._look_up(sources, [written[place][1].tokens for place in places], to)
            for place, text in zip(places, replaced, strict=True):
                decoded[place] = text
        answers = rank_answers(decoded, list(self._hypotheses.values()), drawn=drawn)
        return dict(zip(self._hypotheses, answers, strict=True))

    def _look_up(self, sources: Sequence[str], written: Sequence[list[int]], to: str | None) -> Steps[list[str]]:
        """Return the text of answers, with unknown tokens replaced by the source words with the highest mean weight."""
        tokenizer = self.translator.source
        normal = [tokenizer.how.normal(source) for source in sources]
        pattern = BETWEEN_BLANKS if tokenizer.between else WORD
        spans = [[match.span() for match in pattern.finditer(text)] for text in normal]
        read = tokenizer.encode_words(normal, spans=spans)
        pairs = [
            CodedPair(ids, words, tokens, list(range(len(tokens))))
            for (ids, words), tokens in zip(read, written, strict=True)
        ]
        looks = yield LookCall(pairs, to)
        weights = {number: table for batch in looks for number, table in batch.collect()}
        texts = []
        for number, tokens in enumerate(written):
            words = [normal[number][slice(*span)] for span in spans[number]]
            chosen = {
                place: words[int(weights[number][place].argmax())]
                for place, token in enumerate(tokens)
                if token == self.translator.target.unknown and number in weights and words
            }
            texts.append(join_tokens(self.translator.target, tokens, chosen))
        return texts


def join_tokens(tokenizer: Tokenizer, tokens: Sequence[int], replacements: Mapping[int, str]) -> str:
    """Return the text of an answer with some of its tokens replaced by words."""
    text, unseen = "", tokenizer.special - {tokenizer.unknown}
    for place, (token, piece) in enumerate(zip(tokens, tokenizer.pieces(tokens), strict=True)):
        if token in unseen:
            continue
        blank = tokenizer.between if text else ""
        if place in replacements and text and not text.endswith(" "):
            blank = " "
        text += blank + replacements.get(place, piece)
    return text.strip(" ")

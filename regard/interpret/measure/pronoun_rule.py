"""Which noun a pronoun stands for, by a rule for English and French that needs no parser.

A noun is a word between a determiner and a function word or a mark ("the box was"). It is singular or plural, and
masculine or feminine, as far as its determiner shows it (French: un, la, les) or its form and the words for men and
women do (English). A pronoun stands for the nearest noun before it that agrees. The rule reads no meaning: it is wrong
where another noun is meant, and where a pronoun stands for nothing (it is late). So heads are measured on sentences
written for it, whose nouns were checked by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.metrics.alignment import Gold
from regard.metrics.gender import WORDS

SHIPPED = Path(__file__).parent.parent.parent / "samples" / "pronouns" / "pairs.tsv"
WORD = re.compile(r"[\w'’-]+|[^\w\s]+")
MASCULINE, FEMININE, THING = "masculine", "feminine", "thing"
SINGULAR, PLURAL = "singular", "plural"
IRREGULAR_PLURALS = frozenset(["children", "people", "men", "women", "feet", "teeth", "mice"])
IMPERSONAL = frozenset(["y", "faut", "pleut", "neige", "semble", "suffit"])
"""Words after which a French "il" stands for nothing."""

ENGLISH_PRONOUNS = {
    "it": (SINGULAR, THING), "he": (SINGULAR, MASCULINE), "him": (SINGULAR, MASCULINE), "she": (SINGULAR, FEMININE),
    "they": (PLURAL, None), "them": (PLURAL, None),
}  # fmt: skip
FRENCH_PRONOUNS = {
    "il": (SINGULAR, MASCULINE), "elle": (SINGULAR, FEMININE), "ils": (PLURAL, None), "elles": (PLURAL, None),
}  # fmt: skip
ENGLISH_DETERMINER_LIST = "the a an this that these those my your his her its our their every each some any no"
ENGLISH_OTHERS = (
    "i you we me us who which what of to in on at by for from with without into onto over under about after before "
    "because but and or so if when while where than as until since though although through during is are was were be "
    "been am do does did don't doesn't didn't has have had hasn't haven't hadn't can could can't couldn't will would "
    "won't wouldn't shall should shouldn't may might must isn't aren't wasn't weren't not never there here"
)
FRENCH_OTHERS = (
    "je tu nous vous on me te se lui y en qui que quoi dont où de à dans sur sous par pour avec sans chez vers entre "
    "après avant depuis pendant car mais et ou donc si quand lorsque lorsqu'il lorsqu'elle parce puisque comme est "
    "sont était étaient fut furent sera seront a ont avait avaient aura auront n'est n'a n'avait n'était n'avaient "
    "n'étaient ne n'y s'est va vont peut peuvent doit doivent pas jamais plus"
)
ENGLISH_DETERMINERS = frozenset(ENGLISH_DETERMINER_LIST.split())
FRENCH_DETERMINERS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("un", "le", "ce", "cet", "du", "au"), (SINGULAR, MASCULINE)),
    **dict.fromkeys(("une", "la", "cette", "ma", "ta", "sa"), (SINGULAR, FEMININE)),
    **dict.fromkeys(("mon", "ton", "son", "notre", "votre", "leur", "chaque"), (SINGULAR, None)),
    **dict.fromkeys(("les", "des", "ces", "mes", "tes", "ses", "nos", "vos", "leurs", "aux"), (PLURAL, None)),
}
ENGLISH_FUNCTION_WORDS = ENGLISH_DETERMINERS | {*ENGLISH_PRONOUNS, *ENGLISH_OTHERS.split()}
FRENCH_FUNCTION_WORDS = frozenset({*FRENCH_DETERMINERS, *FRENCH_PRONOUNS, *FRENCH_OTHERS.split()})


@dataclass(frozen=True)
class Noun:
    """A noun by its place, with its number and its gender, where they are known."""

    place: int
    number: str
    gender: str | None


def read_pairs(path: Path = SHIPPED) -> list[Gold]:
    """Return the sentence pairs of a file, by default those shipped: English and French, without links."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        source, target = line.split("\t")
        words = tuple(WORD.findall(source)), tuple(WORD.findall(target))
        pairs.append(Gold(source, target, *words, sure=frozenset(), possible=frozenset()))
    return pairs


def find_antecedents(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of pronouns and of the nouns they stand for."""
    texts = _fold(words)
    pronouns = FRENCH_PRONOUNS if _is_french(texts) else ENGLISH_PRONOUNS
    nouns, pairs = list_nouns(words), []
    for place, text in enumerate(texts):
        if text not in pronouns or (text == "il" and set(texts[place + 1 : place + 2]) & IMPERSONAL):
            continue
        number, gender = pronouns[text]
        before = [noun for noun in nouns if noun.place < place and _agrees(noun, number, gender)]
        if before:
            pairs.append((place, before[-1].place))
    return pairs


def list_nouns(words: Sequence[str]) -> list[Noun]:
    """Return the nouns that the rule knows, in order."""
    texts = _fold(words)
    french = _is_french(texts)
    describe = _describe_french if french else _describe_english
    return [
        Noun(place, *describe(texts[place], texts[place - 1])) for place in _follow_determiners(texts, french=french)
    ]


def _fold(words: Sequence[str]) -> list[str]:
    """Return words as the lists have them."""
    return [word.lower().replace("’", "'") for word in words]


def _is_french(texts: Sequence[str]) -> bool:
    """Return True if more words are French function words than English ones."""
    french = sum(text in FRENCH_FUNCTION_WORDS or text[:2] in ("l'", "d'") for text in texts)
    return french > sum(text in ENGLISH_FUNCTION_WORDS for text in texts)


def _is_determiner(text: str, *, french: bool) -> bool:
    return text in (FRENCH_DETERMINERS if french else ENGLISH_DETERMINERS)


def _follow_determiners(texts: Sequence[str], *, french: bool) -> Iterator[int]:
    """Yield the places of words between a determiner and a function word or a mark."""
    function_words = FRENCH_FUNCTION_WORDS if french else ENGLISH_FUNCTION_WORDS
    for place in range(1, len(texts)):
        text, after = texts[place], texts[place + 1] if place + 1 < len(texts) else "."
        ends = after in function_words or not after[0].isalnum()
        if (
            _is_determiner(texts[place - 1], french=french)
            and text not in function_words
            and text[0].isalnum()
            and ends
        ):
            yield place


def _describe_english(text: str, determiner: str) -> tuple[str, str | None]:
    """Return number and gender as the form of a noun and the lists of words for people show them."""
    plural = text in IRREGULAR_PLURALS or (text.endswith("s") and not text.endswith(("ss", "us", "is")))
    gender = MASCULINE if text in WORDS["man"] else FEMININE if text in WORDS["woman"] else THING
    return PLURAL if plural and determiner not in ("a", "an", "this", "that", "every", "each") else SINGULAR, gender


def _describe_french(text: str, determiner: str) -> tuple[str, str | None]:
    """Return number and gender as the determiner of a noun shows them."""
    return FRENCH_DETERMINERS[determiner]


def _agrees(noun: Noun, number: str, gender: str | None) -> bool:
    return noun.number == number and (gender is None or noun.gender == gender)

"""Detection of names and made-up words that a translation has lost: words that the source tokenizer splits finely."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from regard.data.tokenizers import Tokenizer
from regard.tasks.translation.lost_text import inspect_chunk, says_plainly

Span = tuple[int, int]
WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
OPENING = re.compile(r"^\W*$|[!?:]\W*$")  # the text before the first word of a sentence
POSSESSIVE = re.compile(r"'s?$|^(?:qu|[cdjlmnst])'", re.IGNORECASE)
SHORTEST = 4  # letters of a word that can be judged
NAME = (3, 2.8)  # minimum pieces of a name, maximum letters per piece
ALIKE = 0.7  # minimum similarity of a word and its rendering
RARE = (4, 1.7)  # of any other word, which may merely be rare
REMEMBERED = 1 << 16  # words whose pieces are cached

SPACED = re.compile(r"\d\s+[\dh]")  # a number or a time with spaces in it

EXONYMS = re.compile(  # names that are spelt differently in each language, by their beginnings
    r"""(?:afri[ck]|al[ck]ora|alger|al+em|aleman|amazon|ameri|amér|angl|antar|antil|antwer|anvers|arab|argent|armen
    |armén|asia|asie|atheni|athen|athèn|atlant|austr|autrich|autric|balti|barcel|bavar|bavi|belg|berl|bohem|bolog|bord
    |brazi|brési|brit|brux|brus|bulga|bulg|burg|califor|canad|cast|catal|cathol|chin|christ|chré|chypr|colog|corn|corse
    |corsi|cracov|croat|cypr|danem|danis|danub|denm|dresd|dutch|dun|écoss|edinb|édimb|egyp|égyp|engl|espa|esto|euro
    |finl|finn|flan|flem|floren|franc|french|francf|gallo|gaul|genev|genèv|géor|georg|germ|grec|greec|greek|hag|hamb
    |holl|hong|hung|iceland|ind|irel|irish|irland|islam|islan|israel|isra|ital|jap|jew|juif|jér|jerus|latv|lett|lib
    |lisb|lith|litu|lond|louvain|luxem|maced|macéd|madr|maroc|medit|médit|mexic|mexiq|milan|mongol|moroc|mosc|muni|munich
    |musul|muslim|naple|napol|nether|norm|norw|norv|nouv|pacif|palest|paris|pays|pekin|pékin|pers|pol[ao]|pologn|pomér
    |portug|prag|protest|pruss|pyrén|pyren|rhin|rhén|rom[ae]|roum|ruman|russ|sard|savo|saxo|scand|scot|serb|sibér|siber
    |sicil|silés|slov|soviet|sovi|spain|span|sued|suèd|suéd|suis|swed|swis|switz|syri|tchè|tcheco|thail|thaï|tuni
    |turk|turq|tusc|tosc|ukrai|unit|vars|warsaw|veni|venise|vene|vien|viet|viêt|welsh|wales|york|yougo|yugo|zéland|zeal
    |monday|tuesday|wednes|thurs|friday|satur|sunday|januar|februar|march|april|june|july|august|septem|octob|novem
    |decem|monsieur|madame|mademoi|mister|presid|présid|minist|parlia|parlem|commis|council|consei|king|queen|prince|roi
    |reine|saint|internet|email|easter|pâque|halloween|columb|colomb|korea|corée|democ|démoc|repub|répub|social|seoul|séoul
    |ira[kqn]|kenya|budd?h|boudd|hindu|hindou|afghan|bagda|baghd|beij|bosni|carib|caraï|caucas|chech|tché|czech|cuba|damas
    |haïti|haiti|jord|kaboul|kabul|koso|kurd|leban|liba|liby|nigér|nigeri|olymp|ouzb|pakist|pérou|peru|philip|rwand|saoud
    |saudi|somal|soud|sudan|tehran|téhér|uzbek|yemen|yémen
    |\w+(?:ian|ese|ish|ism|ist|ien|ienne|ique)s?$|\w+(?:crat)?ic$)""",
    re.IGNORECASE | re.VERBOSE,
)


class Risk(NamedTuple):
    """The parts of a text that an answer could lose."""

    words: Sequence[str] = ()
    """Names and rare words, without clitics."""
    numbers: Sequence[str] = ()
    copied: Sequence[str] = ()
    """Addresses, emoji, links and codes."""
    has_braces: bool = False
    """Whether there may be a placeholder with blanks in it."""

    @property
    def has_signs(self) -> bool:
        """True if there is anything besides words."""
        return bool(self.numbers or self.copied or self.has_braces)

    def may_lose_signs(self, text: str, answer: str) -> bool:
        """Return False if the answer evidently has all codes and numbers."""
        if self.has_braces:
            return True
        if self.copied and any(answer.count(code) < text.count(code) for code in self.copied):
            return True
        if not self.numbers:
            return False
        return not all(says_plainly(answer, number) for number in self.numbers) or SPACED.search(text) is not None


NO_RISK = Risk()


class Lexicon:
    """The words of texts with their number of tokens; each is looked up once, in batches."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._pieces: dict[str, int] = {}
        self._harmless: set[str] = set()  # chunks of text without anything that could be lost
        self._risks: dict[str, Risk] = {}  # chunks with something that could be lost

    def look_up(self, words: Iterable[str]) -> None:
        """Count the pieces of these words, in one call of the tokenizer for all new ones."""
        new = [word for word in dict.fromkeys(words) if word not in self._pieces]
        if new:
            if len(self._pieces) + len(new) > REMEMBERED:
                self._pieces.clear()
            self._pieces |= dict(zip(new, map(len, self.tokenizer.encode_many(new)), strict=True))

    def count_pieces(self, word: str) -> int:
        """Return the number of tokens of a word."""
        if word not in self._pieces:
            self.look_up([word])
        return self._pieces[word]

    def is_spelt_out(self, word: str, *, as_name: bool) -> bool:
        """Return True if the tokenizer splits a word or a part of it finely, as it does with names and rare words.

        Words in capitals are abbreviations, which have translations.
        """
        least, most = NAME if as_name else RARE
        for part in word.split("-"):
            if len(part) >= SHORTEST and not part.isupper():
                pieces = min(self.count_pieces(part), self.count_pieces(part.lower()))
                if pieces >= least and len(part) <= most * pieces and not is_exonym(part):
                    return True
        return False

    def screen(self, texts: Sequence[str]) -> list[Risk]:
        """Return what an answer to each text could lose; for most texts nothing.

        Texts are examined by chunks between spaces, most of which are cached.
        """
        harmless, risks = self._harmless, self._risks
        chunks: list[Collection[str]] = [set(text.split()).difference(harmless) for text in texts]
        new = {chunk for text_chunks in chunks for chunk in text_chunks if chunk not in risks}
        if len(harmless) + len(risks) + len(new) > REMEMBERED:
            harmless.clear()
            risks.clear()
            new = {chunk for text in texts for chunk in text.split()}
            chunks = [set(text.split()) for text in texts]
        if new:
            self._judge_chunks(new)
        return [self._add_up(text_chunks) if text_chunks else NO_RISK for text_chunks in chunks]

    def _judge_chunks(self, chunks: Collection[str]) -> None:
        """Classify each chunk by whether it has a name, a rare word or a sign that could be lost."""
        bare = {chunk: [strip_clitics(word) for word in WORD.findall(chunk)] for chunk in chunks}
        words = {word for chunk_words in bare.values() for word in chunk_words}
        parts = {part for word in words for part in word.split("-") if len(part) >= SHORTEST}
        self.look_up(form for part in parts for form in (part, part.lower()))
        rare = {word for word in words if self._could_be_lost(word)}
        for chunk, chunk_words in bare.items():
            contents = inspect_chunk(chunk)
            risk = Risk(
                tuple(word for word in chunk_words if word in rare),
                contents.numbers,
                contents.copied,
                contents.has_braces,
            )
            if risk == NO_RISK:
                self._harmless.add(chunk)
            else:
                self._risks[chunk] = risk

    def _add_up(self, chunks: Iterable[str]) -> Risk:
        risks = [self._risks[chunk] for chunk in chunks if chunk in self._risks]
        if len(risks) < 2:
            return risks[0] if risks else NO_RISK
        words, numbers, copied = list[str](), list[str](), list[str]()
        braces = False
        for chunk_words, chunk_numbers, chunk_copied, has_braces in risks:
            words += chunk_words
            numbers += chunk_numbers
            copied += chunk_copied
            braces = braces or has_braces
        return Risk(words, numbers, copied, braces)

    def _could_be_lost(self, word: str) -> bool:
        if word in given_names():
            return True
        return len(word) >= SHORTEST and self.is_spelt_out(word, as_name=word[:1].isupper())


def find_lost_names(text: str, answer: str, risk: Risk, lexicon: Lexicon) -> list[Span]:
    """Return the spans of names and made-up words of a text that its answer has lost.

    A name is a common first name, or split into more than two pieces and not spelt differently in other languages. Any
    other word must be split as finely as no common word is. If most words are strange, none is reported.
    """
    missing = [word for word in dict.fromkeys(risk.words) if word not in answer]
    if not missing:
        return []
    folded = answer.casefold()
    absent = {
        word
        for word in missing
        if len(word) >= SHORTEST and word.casefold() not in folded and not _is_rendered(word, answer, lexicon)
    }
    wanted = absent if given_names().isdisjoint(missing) else absent | given_names().intersection(risk.words)
    if not wanted:
        return []
    lost: dict[Span, None] = {}
    first_names: list[Span] = []
    matches = list(WORD.finditer(text))
    for match in matches:
        word = match[0]
        if word not in wanted and ("'" not in word or (word := strip_clitics(word)) not in wanted):
            continue
        begin = match.start() + match[0].index(word)
        span = begin, begin + len(word)
        if word in given_names() and _is_first_name(text, match, word, lexicon):
            first_names.append(span)
        if word in absent and lexicon.is_spelt_out(word, as_name=is_name(text, match, word)):
            lost[span] = None
    if any(text[slice(*span)] not in answer for span in first_names):
        written = {strip_clitics(word) for word in WORD.findall(answer)}
        words = {strip_clitics(match[0]) for match in matches}
        if given_names().isdisjoint(written - words):  # Sophie may stand for Sophia
            lost |= {span: None for span in first_names if text[slice(*span)] not in written}
    if lost and 2 * len(lost) > max(2, len(matches)):
        return []
    return sorted(lost)


def find_alike(word: str, answer: str, least: float = ALIKE) -> list[tuple[float, re.Match[str]]]:
    """Return the words of an answer with a similar spelling, with their similarity, the most similar first."""
    small = word.lower()
    pairs, enough = _pairs(small), 2 if len(small) > SHORTEST else 1
    alike = []
    for match, other, others in _words_of(answer):
        if pairs.isdisjoint(others):  # true for most words, and the cheapest test
            continue
        bound = 2 * min(len(small), len(other)) / (len(small) + len(other))
        if bound >= least and len(pairs & others) >= enough:
            likeness = compare_words(small, other)
            if likeness >= least:
                alike.append((likeness, match))
    return sorted(alike, key=lambda pair: -pair[0])


@lru_cache(maxsize=REMEMBERED)
def compare_words(word: str, other: str) -> float:
    """Return the similarity of the spellings of two words, from 0 to 1."""
    return SequenceMatcher(None, word, other, autojunk=False).ratio()


@lru_cache(maxsize=4096)
def _words_of(answer: str) -> list[tuple[re.Match[str], str, frozenset[str]]]:
    """Return the words of an answer, each with its lowercase form without clitics and its letter bigrams."""
    return [(match, *_letters(match[0])) for match in WORD.finditer(answer)]


@lru_cache(maxsize=REMEMBERED)
def _letters(word: str) -> tuple[str, frozenset[str]]:
    """Return a word in lower case without clitics, and its letter bigrams."""
    small = strip_clitics(word).lower()
    return small, _pairs(small)


@lru_cache(maxsize=REMEMBERED)
def _pairs(word: str) -> frozenset[str]:
    """Return the letter bigrams of a word."""
    return frozenset(word[place : place + 2] for place in range(len(word) - 1))


def strip_clitics(word: str) -> str:
    """Return a word without an article or ending separated by an apostrophe."""
    if "'" not in word:
        return word
    return POSSESSIVE.sub("", POSSESSIVE.sub("", word)) or word


def is_name(text: str, match: re.Match[str], word: str) -> bool:
    """Return True if a word is written as a name, with a capital that is not at the start of a sentence."""
    if not word[:1].isupper() or is_exonym(word):
        return False
    return not OPENING.search(text[: match.start()].rstrip())


@lru_cache(maxsize=REMEMBERED)
def is_exonym(word: str) -> bool:
    """Return True if a word begins or ends like names that are spelt differently in each language."""
    return EXONYMS.match(word) is not None


@cache
def given_names() -> frozenset[str]:
    """Return first names that are common in English or French and the same in both."""
    return frozenset((resources.files("regard") / "data" / "given_names.txt").read_text(encoding="utf-8").split())


def _is_rendered(word: str, answer: str, lexicon: Lexicon) -> bool:
    """Return True if an answer has a rendering of this word.

    That is a similar word that is not split finely (Colomb for Columbus), or one that differs in accents and ending
    only (Éthiopie for Ethiopia).
    """
    stem = _stem(word)
    return any(
        lexicon.count_pieces(match[0]) < NAME[0] or (len(stem) > 2 and _stem(strip_clitics(match[0])) == stem)
        for _, match in find_alike(word, answer)
    )


def _stem(word: str) -> str:
    """Return a word in lower case without accents and without the final vowels that differ between languages."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).rstrip("aeiouys")


def _is_first_name(text: str, match: re.Match[str], word: str, lexicon: Lexicon) -> bool:
    """Return True if a word is a first name here; at the start of a sentence only if it is no other word."""
    return not OPENING.search(text[: match.start()].rstrip()) or lexicon.count_pieces(word.lower()) > 1

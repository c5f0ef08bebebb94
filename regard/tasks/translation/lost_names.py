"""Names and made-up words that a translation has lost: those that the tokenizer of the source has to spell out."""

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
OPENING = re.compile(r"^\W*$|[!?:]\W*$")  # what stands before the first word of a sentence
POSSESSIVE = re.compile(r"'s?$|^(?:qu|[cdjlmnst])'", re.IGNORECASE)
SHORTEST = 4  # letters of a word that can be told to be spelt out
NAME = (3, 2.8)  # least pieces of a name, most letters a piece
ALIKE = 0.7  # the least likeness of a word and its rendering
RARE = (4, 1.7)  # of any other word, which may be one that is only rare
REMEMBERED = 1 << 16  # words whose pieces are kept

SPACED = re.compile(r"\d\s+[\dh]")  # a number or a time with blanks in it

EXONYMS = re.compile(  # names that languages spell each in its own way, by how they begin
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
    """What an answer could lose of a text."""

    words: Sequence[str] = ()
    """Names and rare words, without clitics."""
    numbers: Sequence[str] = ()
    copied: Sequence[str] = ()
    """Addresses, emoji, links and codes."""
    has_braces: bool = False
    """Whether there may be a placeholder with blanks in it."""

    @property
    def has_signs(self) -> bool:
        """Whether there is anything but words."""
        return bool(self.numbers or self.copied or self.has_braces)

    def may_lose_signs(self, text: str, answer: str) -> bool:
        """Whether to look closer: not where the answer plainly has all codes and numbers."""
        if self.has_braces:
            return True
        if self.copied and any(answer.count(code) < text.count(code) for code in self.copied):
            return True
        if not self.numbers:
            return False
        return not all(says_plainly(answer, number) for number in self.numbers) or SPACED.search(text) is not None


NO_RISK = Risk()


class Lexicon:
    """The words of texts as a tokenizer sees them; each is looked up once, and many together."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._pieces: dict[str, int] = {}
        self._harmless: set[str] = set()  # chunks of text without anything that could be lost
        self._risks: dict[str, Risk] = {}  # and those with something

    def look_up(self, words: Iterable[str]) -> None:
        """Count the pieces of these words, all that are new in one call of the tokenizer."""
        new = [word for word in dict.fromkeys(words) if word not in self._pieces]
        if new:
            if len(self._pieces) + len(new) > REMEMBERED:
                self._pieces.clear()
            self._pieces |= dict(zip(new, map(len, self.tokenizer.encode_many(new)), strict=True))

    def count_pieces(self, word: str) -> int:
        """Into how many tokens a word is cut."""
        if word not in self._pieces:
            self.look_up([word])
        return self._pieces[word]

    def is_spelt_out(self, word: str, *, as_name: bool) -> bool:
        """Whether the tokenizer spells a word out, or a part of it, as it does with names and with rare words.

        Capitals are abbreviations, which have a translation.
        """
        least, most = NAME if as_name else RARE
        for part in word.split("-"):
            if len(part) >= SHORTEST and not part.isupper():
                pieces = min(self.count_pieces(part), self.count_pieces(part.lower()))
                if pieces >= least and len(part) <= most * pieces and not is_exonym(part):
                    return True
        return False

    def screen(self, texts: Sequence[str]) -> list[Risk]:
        """Return what an answer to each text could lose at all; most texts have nothing of the kind.

        Texts are looked at by their chunks between blanks, most of which were met before.
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
        """Remember of each chunk whether it has a name, a rare word or a sign that could be lost."""
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
    """Return where names and made-up words stand in a text that its answer has lost.

    A name is one of people's first names, or spelt out in more than two pieces and has no spelling of its own in other
    languages. Any other word must be in pieces as small as no common word's. Where most words are strange, none is
    reported.
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
    """Return the words of an answer that are spelt much like this one, with their likeness, the likest first."""
    small = word.lower()
    pairs, enough = _pairs(small), 2 if len(small) > SHORTEST else 1
    alike = []
    for match, other, others in _words_of(answer):
        if pairs.isdisjoint(others):  # most words are, and this is the cheapest way to see it
            continue
        bound = 2 * min(len(small), len(other)) / (len(small) + len(other))
        if bound >= least and len(pairs & others) >= enough:
            likeness = compare_words(small, other)
            if likeness >= least:
                alike.append((likeness, match))
    return sorted(alike, key=lambda pair: -pair[0])


@lru_cache(maxsize=REMEMBERED)
def compare_words(word: str, other: str) -> float:
    """Return how alike two words are spelt, from 0 to 1."""
    return SequenceMatcher(None, word, other, autojunk=False).ratio()


@lru_cache(maxsize=4096)
def _words_of(answer: str) -> list[tuple[re.Match[str], str, frozenset[str]]]:
    """Return the words of an answer, each in small letters without clitics, and with its pairs of letters."""
    return [(match, *_letters(match[0])) for match in WORD.finditer(answer)]


@lru_cache(maxsize=REMEMBERED)
def _letters(word: str) -> tuple[str, frozenset[str]]:
    """Return a word in small letters without clitics, and its pairs of letters."""
    small = strip_clitics(word).lower()
    return small, _pairs(small)


@lru_cache(maxsize=REMEMBERED)
def _pairs(word: str) -> frozenset[str]:
    """Return the pairs of letters in a row of a word."""
    return frozenset(word[place : place + 2] for place in range(len(word) - 1))


def strip_clitics(word: str) -> str:
    """Return a word without the article or ending that an apostrophe sets apart."""
    if "'" not in word:
        return word
    return POSSESSIVE.sub("", POSSESSIVE.sub("", word)) or word


def is_name(text: str, match: re.Match[str], word: str) -> bool:
    """Whether a word is written as a name, with a capital that no sentence begins by."""
    if not word[:1].isupper() or is_exonym(word):
        return False
    return not OPENING.search(text[: match.start()].rstrip())


@lru_cache(maxsize=REMEMBERED)
def is_exonym(word: str) -> bool:
    """Whether a word begins or ends as names do that languages spell each in its own way."""
    return EXONYMS.match(word) is not None


@cache
def given_names() -> frozenset[str]:
    """First names of people, common in English or French and the same in both."""
    return frozenset((resources.files("regard") / "data" / "given_names.txt").read_text(encoding="utf-8").split())


def _is_rendered(word: str, answer: str, lexicon: Lexicon) -> bool:
    """Whether an answer has a word for this one: one much like it that is not spelt out (Colomb for Columbus), or one
    that differs in accents and its ending only (Éthiopie for Ethiopia).
    """
    stem = _stem(word)
    return any(
        lexicon.count_pieces(match[0]) < NAME[0] or (len(stem) > 2 and _stem(strip_clitics(match[0])) == stem)
        for _, match in find_alike(word, answer)
    )


def _stem(word: str) -> str:
    """Return a word in small letters without accents and without the vowels that languages end it with."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).rstrip("aeiouys")


def _is_first_name(text: str, match: re.Match[str], word: str, lexicon: Lexicon) -> bool:
    """Whether a first name is one here; where a sentence begins, one that is no other word: James, not Will."""
    return not OPENING.search(text[: match.start()].rstrip()) or lexicon.count_pieces(word.lower()) > 1

"""Words that a translator garbles: names, and made-up words, which its tokenizer has to spell out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.data.tokenizers import Tokenizer

WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
OPENING = re.compile(r"^\W*$|[!?:]\W*$")  # what stands before the first word of a sentence
POSSESSIVE = re.compile(r"'s?$|^(?:qu|[cdjlmnst])'", re.IGNORECASE)
SHORTEST = 4  # letters of a word that can be told to be spelt out
NAME = (3, 2.8)  # least pieces of a name, most letters a piece
ALIKE = 0.7  # the least likeness of a word and its rendering
RARE = (4, 1.7)  # of any other word, which may be one that is only rare

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
    |ira[kqn]|kenya|budd?h|boudd|hindu|hindou
    |\w+(?:ian|ese|ish|ism|ist|ien|ienne|ique)s?$|\w+(?:crat)?ic$)""",
    re.IGNORECASE | re.VERBOSE,
)


def unseen(text: str, answer: str, tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Where names and made-up words stand that an answer has lost; none where most words are strange.

    A name is one of people's first names, or spelt out in more than two pieces and has no spelling of its own in other
    languages. Any other word must be in pieces as small as no common word's.
    """
    found = list(WORD.finditer(text))
    words = [_bare(match[0]) for match in found]
    said = {_bare(word) for word in WORD.findall(answer)}
    people = {n for n, word in enumerate(words) if word not in said and _first_name(text, found[n], word, tokenizer)}
    people = people if said.isdisjoint(given_names() - set(words)) else set()  # Sophie may stand for Sophia
    missing = [n for n, word in enumerate(words) if len(word) >= SHORTEST and word.casefold() not in answer.casefold()]
    spelt = [n for n in missing if _spelt(words[n], tokenizer, named=_named(text, found[n], words[n]))]
    lost = sorted({n for n in spelt if not _rendered(words[n], answer, tokenizer)} | people)
    if 2 * len(lost) > max(2, len(words)):
        return
    for number in lost:
        begin = found[number].start() + found[number][0].index(words[number])
        yield begin, begin + len(words[number])


def _rendered(word: str, answer: str, tokenizer: Tokenizer) -> bool:
    """Whether an answer has a word much like this one that it did not have to spell out: Colomb for Columbus."""
    near = [own for own in WORD.findall(answer) if SequenceMatcher(None, word.lower(), own.lower()).ratio() >= ALIKE]
    return any(len(ids) < NAME[0] for ids in tokenizer.encode_many(near)) if near else False


def _bare(word: str) -> str:
    """A word without the article or ending that an apostrophe sets apart."""
    return POSSESSIVE.sub("", POSSESSIVE.sub("", word)) or word


def _named(text: str, match: re.Match[str], word: str) -> bool:
    """Whether a word is written as a name, with a capital that no sentence begins by."""
    before = text[: match.start()].rstrip()
    return word[:1].isupper() and not OPENING.search(before) and not EXONYMS.match(word)


@cache
def given_names() -> frozenset[str]:
    """First names of people, common in English or French and the same in both."""
    return frozenset((resources.files("regard") / "data" / "given_names.txt").read_text(encoding="utf-8").split())


def _first_name(text: str, match: re.Match[str], word: str, tokenizer: Tokenizer) -> bool:
    """Whether a word is somebody's first name; where a sentence begins, one that is no other word: James, not Will."""
    if word not in given_names():
        return False
    return not OPENING.search(text[: match.start()].rstrip()) or len(tokenizer.encode(word.lower())) > 1


def _spelt(word: str, tokenizer: Tokenizer, *, named: bool) -> bool:
    """Whether a tokenizer spells a word out, or a part of it; capitals are abbreviations, which have a translation."""
    least, most = NAME if named else RARE
    for part in word.split("-"):
        if len(part) >= SHORTEST and not part.isupper() and not EXONYMS.match(part):
            pieces = min(map(len, tokenizer.encode_many([part, part.lower()])))
            if pieces >= least and len(part) <= most * pieces:
                return True
    return False

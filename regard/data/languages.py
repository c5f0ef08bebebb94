"""A guess at the language of a text, from its small words and letters; enough to tell a few languages apart."""

from __future__ import annotations

import re
from collections.abc import Collection

WORDS = {
    "en": "the a an and or of to in is are was were be been it he she they you we i this that these those with for on "
    "at not do does did have has had will would can could what who where when why how my your his her our their from "
    "by but if there no yes me him them us so very some any one all about don't i'm it's you're didn't can't that's",
    "fr": "le la les l un une des du de d et ou à au aux en est sont était être ai as a avons avez ont ce c cette ces "
    "qui que qu quoi où quand pourquoi comment je j tu il elle on nous vous ils elles ne n pas plus mon ma mes ton ta "
    "tes son sa ses notre votre leur dans pour par sur avec sans mais si me m te t se s lui y très tout tous suis es "
    "êtes fait veux peux oui non",
    "de": "der die das ein eine einen einem einer und oder von zu im in ist sind war waren sein es er sie wir ihr ich "
    "du nicht kein mit für auf an bei was wer wo wann warum wie mein dein sein unser euer aber wenn ja nein mich dich "
    "sich den dem des auch sehr hat haben habe wird werden kann",
}
LETTERS = {"en": "", "fr": "àâçéèêëîïôùûœ«»", "de": "äöüß"}
TOKEN = re.compile(r"[^\W\d_]+(?:'t|'m|'s|'re)?", re.IGNORECASE)
_SETS = {code: frozenset(words.split()) for code, words in WORDS.items()}


def guess(text: str, among: Collection[str]) -> str | None:
    """The likeliest of the languages, or None when nothing tells them apart."""
    known = [code for code in among if code in _SETS]
    tokens = TOKEN.findall(text.casefold().replace("’", "'"))
    whole = text.casefold()
    scores = {
        code: sum(token in _SETS[code] for token in tokens) + 2 * sum(whole.count(each) for each in LETTERS[code])
        for code in known
    }
    ranked = sorted(scores.values(), reverse=True)
    if not ranked or ranked[0] == 0 or (len(ranked) > 1 and ranked[0] == ranked[1]):
        return None
    return max(scores, key=scores.__getitem__)

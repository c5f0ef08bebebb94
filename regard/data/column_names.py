"""What columns of tables and fields of JSON lines are usually called, in English and French."""

from __future__ import annotations

from collections.abc import Sequence

TEXTS = (
    *("text", "texts", "sentence", "review", "content", "body", "comment", "message", "tweet", "post", "document"),
    *("description", "headline", "title", "question", "query", "utterance", "input", "name", "word", "abstract"),
    *("texte", "phrase", "avis", "commentaire", "contenu", "titre", "mot", "nom"),
)
LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "stars", "rating", "score", "topic", "intent"),
    *("emotion", "language", "lang", "tag", "polarity", "stance", "genre", "type", "output", "y"),
    *("classe", "catégorie", "categorie", "étiquette", "etiquette", "note", "langue", "thème", "theme"),
)
PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("text1", "text2")),
    *(("sentence_a", "sentence_b"), ("text_a", "text_b"), ("question1", "question2"), ("question", "passage")),
    *(("question", "sentence"), ("question", "context"), ("query", "passage"), ("query", "document")),
    *(("#1 string", "#2 string"), ("s1", "s2"), ("text", "hypothesis"), ("phrase1", "phrase2")),
)
"""What columns are called that hold the two texts of a pair."""
FIRST_TEXTS = (*TEXTS, "sentence1", "sentence_a", "premise", "source")
SECOND_TEXTS = ("second", "sentence2", "sentence_b", "hypothesis", "text2", "aspect", "response")
VERDICTS = ("gold_label", "entailment_judgment", "quality", "is_duplicate", "entailment", "answer", "paraphrase")
"""What the label of a pair may be called too."""
DEGREES = ("relatedness_score", "similarity", "similarity_score", "score", "relatedness", "degree", "similarité")
"""What a number is called that says how alike the texts of a pair are."""
REFERENCES = (*LABELS, *VERDICTS, "summary", "translation", "reference", "entities")
"""What the column of labels, or of texts that are right, may be called."""
CHOICE_LISTS = ("choices", "endings", "options", "answers", "alternatives", "candidates")
"""What a column is called that holds a list of answers to choose from."""
PICTURE_FILES = ("path", "file", "filename", "file_name", "image", "picture", "photo", "img")
"""What a column of picture files is usually called."""


def find_name(names: Sequence[str], usual: Sequence[str]) -> int | None:
    """Return the place of the first of some usual names that is there, whatever its capitals."""
    folded = [name.strip().casefold() for name in names]
    candidates = (name.strip().casefold() for name in usual)
    return next((folded.index(name) for name in candidates if name in folded), None)


def find_names(names: Sequence[str], required: Sequence[str]) -> tuple[int, ...]:
    """Return the places of all of these names, whatever their capitals; none unless all of them are there."""
    places = tuple(find_name(names, [name]) for name in required)
    return tuple(place for place in places if place is not None) if None not in places else ()


def find_pair(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of the two texts of a pair by their usual names."""
    for first, second in (find_names(names, pair) or (None, None) for pair in PAIRS):
        if first is not None and second is not None:
            return first, second
    return None


def can_be_heading(cells: Sequence[str]) -> bool:
    """True if cells can name columns: all there, all different, no numbers; a spreadsheet may leave the last blank."""
    names = list(cells)
    while names and not names[-1]:
        names.pop()
    return all(names) and len(set(names)) == len(names) and not any(map(_is_number, names))


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True

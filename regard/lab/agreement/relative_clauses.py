"""French sentences built as those of the courses: a relative clause with *dont* between a subject and its participle.

"La présidente fut réélue", and "La présidente dont les réformes des dernières années ont transformé le gouvernement fut
réélue": the noun next to the verb may have the gender of the subject or the other one (an attractor), and a further
clause may hang on it. Sentence `number` is a pure function of (seed, number). One participle in five never follows a
subject while learning: those pairs are tested, and the pair of the courses is among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from regard.lab.agreement.sentences import (
    AUXILIARIES,
    DETERMINERS,
    ENDINGS,
    GENDERS,
    NOUNS,
    PARTICIPLES,
    PEOPLE,
    PLURAL,
    SINGULAR,
    Gender,
    Sentence,
    noun,
    other_gender,
    participle,
)

PAIRS = [(subject, verb) for subject in range(PEOPLE) for verb in range(len(PARTICIPLES))]  # places in the lists
TESTED = [pair for pair in PAIRS if sum(pair) % 5 == 1]  # président(e) with réélu(e) is one of them
LEARNT = [pair for pair in PAIRS if sum(pair) % 5 != 1]
# Nouns of plural form, which do what a clause says; people are not among them, nor among the objects.
CAUSES: dict[Gender, tuple[str, ...]] = {
    "f": ("réformes", "décisions", "lois", "promesses", "dépenses", "victoires"),
    "m": ("projets", "discours", "travaux", "succès", "voyages", "choix"),
}
PERIODS: dict[Gender, tuple[str, ...]] = {
    "f": ("des dernières années", "des premières semaines"),
    "m": ("des derniers mois", "des premiers jours"),
}
OBJECTS: dict[Gender, tuple[str, ...]] = {
    "m": ("gouvernement", "pays", "parti", "village", "royaume", "club"),
    "f": ("compagnie", "nation", "région", "ville", "province", "banque"),
}
CHANGES = ("transformé", "changé", "renforcé", "divisé", "sauvé", "ruiné")  # with avoir: they agree with no subject
CLAUSES_LEARNT = (0, 1, 2)
CLAUSES_TESTED = (0, 1, 2, 3, 4)
CLAUSE_WEIGHTS = (3, 2, 1)  # how often each of the first is learnt from


class CourseSentence(NamedTuple):
    """A sentence of the courses as far as its participle, right and wrong."""

    beginning: str
    right: str
    wrong: str
    words_between: int


_CLAUSE = "La présidente dont les réformes des dernières années ont transformé"
COURSE_SENTENCES = (
    CourseSentence("La présidente fut", "réélue", "réélu", 1),
    CourseSentence(f"{_CLAUSE} le gouvernement fut", "réélue", "réélu", 11),
    CourseSentence(f"{_CLAUSE} la compagnie fut", "réélue", "réélu", 11),
)


def sentence(seed: int, number: int, *, clauses: int, attractor: bool | None = None, testing: bool = False) -> Sentence:
    """Return sentence `number` of this seed; its participle agrees with the subject in half of the cases.

    The last noun before the verb has the gender of the subject, the other one (`attractor`), or, by None, any; all
    other nouns in between have any. Without a clause there is no such noun.
    """
    if attractor and not clauses:
        raise ValueError("without a clause there is no noun between subject and participle: give clauses of 1 or more")
    chance = Random(f"dont/{seed}/{number}/{clauses}/{attractor}/{testing}")
    gender: Gender = chance.choice(GENDERS)
    plural = chance.randrange(2)
    subject, verb = chance.choice(TESTED if testing else LEARNT)
    words = [_choose_determiner(chance, gender, plural), noun(NOUNS[gender][subject], plural)]
    start, attractors = len(words), 0
    for clause in range(clauses):
        last = clause == clauses - 1
        wanted = attractor if last else None
        other = chance.random() < 0.5 if wanted is None else wanted
        added, genders = _clause(chance, other_gender(gender) if other else gender)
        words += added
        attractors += sum(noun_gender != gender for noun_gender in genders)
    words += chance.choice(AUXILIARIES)[plural]
    right = chance.random() < 0.5
    place = len(words)
    words += [participle(PARTICIPLES[verb], gender if right else other_gender(gender), plural)]
    words += [*chance.choice(ENDINGS).split(), "."]
    words[0] = words[0].capitalize()
    return Sentence(tuple(words), place, () if right else (place,), place - start, attractors)


def sentences(seed: int, count: int) -> Iterator[Sentence]:
    """Yield training sentences; nouns in between have any gender."""
    for number in range(count):
        [clauses] = Random(f"dont/{seed}/{number}").choices(CLAUSES_LEARNT, CLAUSE_WEIGHTS)
        yield sentence(seed, number, clauses=clauses)


def _clause(chance: Random, object_gender: Gender) -> tuple[list[str], list[Gender]]:
    """Return the words of a clause such as *dont les réformes ont transformé le pays*, and its nouns' genders."""
    cause_gender = chance.choice(GENDERS)
    words = ["dont", "les", chance.choice(CAUSES[cause_gender])]
    genders = [cause_gender]
    if chance.random() < 0.5:
        period_gender = chance.choice(GENDERS)
        words += chance.choice(PERIODS[period_gender]).split()
        genders.append(period_gender)
    words += ["ont", chance.choice(CHANGES), _choose_determiner(chance, object_gender, SINGULAR)]
    words.append(chance.choice(OBJECTS[object_gender]))
    return words, [*genders, object_gender]


def _choose_determiner(chance: Random, gender: Gender, number: int) -> str:
    return chance.choice([plural if number == PLURAL else singular[gender] for singular, plural in DETERMINERS])

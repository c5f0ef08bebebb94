"""French sentences whose participle agrees with a subject far away, or does not, from a small grammar of real forms.

"La présidente du club fut réélue" is right, "La présidente du club fut réélu" is wrong, and only the subject can tell:
the verb has its number and not its gender, and nouns in between may be of either gender. Sentence `number` is a pure
function of (seed, number). A subject is never met with one participle in five while learning: those pairs are tested.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from regard.config.ranges import Small

Gender = Literal["m", "f"]
GENDERS: tuple[Gender, Gender] = ("m", "f")
RIGHT, WRONG = "right", "wrong"
SINGULAR, PLURAL = 0, 1
SETS = {"train": 20_000, "valid": 1_000}


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Singular forms; plurals take an s, or the x of -eau and -eu.
NOUNS: dict[Gender, tuple[str, ...]] = {
    "m": _split_words(
        "président directeur conseiller candidat délégué voisin cousin chanteur danseur boulanger berger meunier "
        "vendeur sorcier prince comte roi duc neveu frère père garçon facteur pompier soldat village quartier parti "
        "royaume club bureau château"
    ),
    "f": _split_words(
        "présidente directrice conseillère candidate déléguée voisine cousine chanteuse danseuse boulangère bergère "
        "meunière vendeuse sorcière princesse comtesse reine duchesse nièce sœur mère fille factrice pompière "
        "soldate ville région mairie province troupe banque ferme"
    ),
}
PEOPLE = 25  # the first of them: who can be elected
PARTICIPLES = _split_words(
    "élu réélu choisi invité nommé reçu salué félicité entendu attendu battu vaincu conduit séduit trahi puni guéri "
    "retrouvé remercié applaudi"
)
PAIRS = [(subject, verb) for subject in range(PEOPLE) for verb in range(len(PARTICIPLES))]  # places in the lists
TESTED = [pair for pair in PAIRS if sum(pair) % 5 == 0]  # who never meet in a sentence to learn from
LEARNT = [pair for pair in PAIRS if sum(pair) % 5]
DETERMINERS: tuple[tuple[dict[Gender, str], str], ...] = (
    ({"m": "le", "f": "la"}, "les"),
    ({"m": "un", "f": "une"}, "des"),
    ({"m": "ce", "f": "cette"}, "ces"),
    ({"m": "notre", "f": "notre"}, "nos"),
)
AUXILIARIES = (
    (("fut",), ("furent",)),
    (("est",), ("sont",)),
    (("sera",), ("seront",)),
    (("a", "été"), ("ont", "été")),
    (("avait", "été"), ("avaient", "été")),
)
PREPOSITIONS = ("devant", "avec", "chez", "sans", "derrière", "pour")
SEEING = (("admirait", "admiraient"), ("connaissait", "connaissaient"), ("cherchait", "cherchaient"))
DOING = (("chantait", "chantaient"), ("dormait", "dormaient"), ("partait", "partaient"), ("riait", "riaient"))
ADVERBS = ("hier", "enfin", "ensuite", "pourtant", "souvent", "bientôt", "partout", "encore")
TURNS = ("malgré tout", "sans doute", "peu après", "dès lors", "par hasard", "depuis longtemps")
OPENINGS = ("hier", "en mars", "ce jour-là", "comme prévu")
SPEAKERS = ("selon", "malgré", "avec", "comme")  # of an opening with a noun
PIECES = {
    "adverb": 1,
    "described": 1,
    "turn": 2,
    "doing": 2,
    "of": 2,
    "about": 3,
    "beside": 3,
    "seen": 4,
    "seeing": 5,
}  # their words
NOMINAL = ("of", "about", "beside", "seen", "seeing")  # those that have a noun
AFTER_NOUN = tuple(PIECES)
AFTER_OTHERS = ("adverb", "turn", "beside")
ENDINGS = ("", "hier", "en juin", "sans attendre", "par surprise", "une fois encore")


@dataclass(frozen=True, kw_only=True)
class Practice:
    """What is learnt from."""

    shortest: Small = 1
    """Fewest words between subject and participle."""
    longest: Small = 16
    """Most of them; a distance d times as long is d times as rare."""
    described: bool = True
    """Whether nouns in between may have a participle beside them, which agrees with them or does not."""

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(f"shortest must be from 1 to longest, {self.longest}, not {self.shortest}")


@dataclass(frozen=True)
class Sentence:
    """A generated sentence and its labels."""

    words: tuple[str, ...]
    place: int
    """Which of the words is the participle, counted from 0."""
    wrong: tuple[int, ...]
    """Which of the words do not agree: it, or a participle beside a noun in between."""
    distance: int
    """Words between the subject and the participle."""
    attractors: int
    """Nouns between them that have the other gender."""

    def __str__(self) -> str:
        return " ".join(self.words)

    @property
    def tags(self) -> list[str]:
        """Return a tag for every word: right, or wrong if it does not agree."""
        return [WRONG if number in self.wrong else RIGHT for number in range(len(self.words))]

    @property
    def right(self) -> bool:
        """True if the participle agrees with its subject."""
        return self.place not in self.wrong

    @property
    def with_tags(self) -> str:
        """Return the sentence as `word/tag` pairs."""
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


def noun(word: str, number: int) -> str:
    """Return a noun in the singular or the plural."""
    return word if number == SINGULAR else word + ("x" if word.endswith(("eau", "eu")) else "s")


def participle(word: str, gender: Gender, number: int) -> str:
    """Return the form of a participle for this gender and number."""
    return word + ("e" if gender == "f" else "") + ("s" if number == PLURAL else "")


def sentence(
    seed: int,
    number: int,
    *,
    distance: int,
    attractors: bool | None = None,
    described: bool = True,
    testing: bool = False,
) -> Sentence:
    """Return sentence `number` of this seed, with `distance` words between subject and participle.

    Nouns in between have the gender of the subject, the other one (`attractors`), or, by None, any. With attractors
    there is at least one, for which there must be room: 3 words.
    """
    if distance < (3 if attractors else 1):
        raise ValueError(f"{distance} words have no room for {'a noun and ' * bool(attractors)}a verb: give more")
    chance = Random(f"{seed}/{number}/{distance}/{attractors}/{testing}")
    gender: Gender = chance.choice(GENDERS)
    plural = chance.randrange(2)
    subject, verb = chance.choice(TESTED if testing else LEARNT)
    writer = _Writer(chance, gender, plural, attractors, described)
    auxiliaries = [forms for forms in AUXILIARIES if len(forms[0]) <= distance - 2 * bool(attractors)]
    auxiliary = chance.choice(auxiliaries)[plural]
    writer.fill(distance - len(auxiliary))
    right = chance.random() < 0.5
    shown: Gender = gender if right else other_gender(gender)
    head = [*_opening(chance), _determiner(chance, gender, plural), noun(NOUNS[gender][subject], plural)]
    before = [*head, *writer.words, *auxiliary]
    words = [*before, participle(PARTICIPLES[verb], shown, plural), *chance.choice(ENDINGS).split(), "."]
    words[0] = words[0].capitalize()
    wrong = [*(len(head) + place for place in writer.wrong), *([] if right else [len(before)])]
    return Sentence(tuple(words), len(before), tuple(wrong), distance, writer.attractors)


def sentences(seed: int, count: int, practice: Practice) -> Iterator[Sentence]:
    """Yield training sentences; nouns in between have either gender."""
    distances = range(practice.shortest, practice.longest + 1)
    for number in range(count):
        [distance] = Random(f"{seed}/{number}").choices(distances, [1 / length for length in distances])
        yield sentence(seed, number, distance=distance, described=practice.described)


def write(folder: Path, practice: Practice, *, seed: int = 0, counts: Mapping[str, int] = SETS) -> list[Path]:
    """Write `train.txt.gz` and `valid.txt.gz`, with one tagged sentence per line, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part, (name, count) in enumerate(counts.items()):
        lines = "".join(f"{example.with_tags}\n" for example in sentences(2 * seed + part, count, practice))
        path = folder / f"{name}.txt.gz"
        aside = path.with_name(f".{path.name}.part")
        aside.write_bytes(gzip.compress(lines.encode(), mtime=0))  # the same bytes for the same seed
        aside.replace(path)
        written.append(path)
    return written


@dataclass
class _Writer:
    """Writes the words between a subject and its verb, phrase by phrase."""

    chance: Random
    gender: Gender
    """Of the subject."""
    last: int
    """Number of the noun that stands last, which a relative clause belongs to."""
    wanted: bool | None
    described: bool
    words: list[str] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    attractors: int = 0
    after_noun: bool = True
    nearest: Gender = "m"
    """Gender of the noun that stands last."""

    def fill(self, room: int) -> None:
        """Add phrases of `room` words in total; the first one has a noun if there is room."""
        while room:
            kinds = AFTER_NOUN if self.after_noun else AFTER_OTHERS
            fitting = [kind for kind in kinds if PIECES[kind] <= room]
            if not (self.described and self.words):  # the subject stands alone
                fitting = [kind for kind in fitting if kind != "described"]
            longer = [kind for kind in fitting if kind in NOMINAL or (self.words and kind != "adverb")]
            kind = self.chance.choice(longer or fitting)
            added = self._piece(kind)
            self.words += added
            self.after_noun = kind in ("of", "about", "beside", "seeing")
            room -= len(added)

    def _piece(self, kind: str) -> list[str]:
        chance = self.chance
        if kind == "adverb":
            return [chance.choice(ADVERBS)]
        if kind == "described":
            return [self._describe()]
        if kind == "turn":
            return chance.choice(TURNS).split()
        if kind == "doing":
            return ["qui", chance.choice(DOING)[self.last]]
        if kind == "of":
            return self._of()
        if kind == "about":
            return ["de", *self._phrase(("un", "une", "des", "le", "les"))]  # which would melt with it
        if kind == "beside":
            return [chance.choice(PREPOSITIONS), *self._phrase()]
        if kind == "seen":
            return ["que", *self._phrase(("un", "une")), chance.choice(SEEING)[self.last]]
        assert kind == "seeing", kind
        verb = chance.choice(SEEING)[self.last]
        return ["qui", verb, "souvent", *self._phrase()]

    def _describe(self) -> str:
        """Return a participle that modifies the last noun, with wrong agreement in half of the cases."""
        right = self.chance.random() < 0.5
        if not right:
            self.wrong.append(len(self.words))
        gender = self.nearest if right else other_gender(self.nearest)
        return participle(self.chance.choice(PARTICIPLES), gender, self.last)

    def _of(self) -> list[str]:
        """Return a noun with the contracted article *du* or *des*, as two words."""
        gender, number = self._choose_noun()
        if number == SINGULAR and gender == "f":
            number = self.last = PLURAL
        return ["des" if number == PLURAL else "du", self._noun(gender, number)]

    def _phrase(self, without: Sequence[str] = ()) -> list[str]:
        gender, number = self._choose_noun()
        return [_determiner(self.chance, gender, number, without), self._noun(gender, number)]

    def _choose_noun(self) -> tuple[Gender, int]:
        """Choose gender and number of the next noun, and return them."""
        other = self.chance.random() < 0.5 if self.wanted is None else self.wanted
        self.attractors += other
        self.last = self.chance.randrange(2)
        self.nearest = other_gender(self.gender) if other else self.gender
        return self.nearest, self.last

    def _noun(self, gender: Gender, number: int) -> str:
        return noun(self.chance.choice(NOUNS[gender]), number)


def _determiner(chance: Random, gender: Gender, number: int, without: Sequence[str] = ()) -> str:
    forms = [plural if number == PLURAL else singular[gender] for singular, plural in DETERMINERS]
    return chance.choice([form for form in forms if form not in without])


def _opening(chance: Random) -> list[str]:
    """Return words before the subject: none, an adverbial, or a prepositional phrase."""
    kind = chance.randrange(4)
    if kind < 2:
        return []
    if kind == 2:
        return [*chance.choice(OPENINGS).split(), ","]
    gender: Gender = chance.choice(GENDERS)
    plural = chance.randrange(2)
    word = noun(chance.choice(NOUNS[gender]), plural)
    return [chance.choice(SPEAKERS), _determiner(chance, gender, plural), word, ","]


def other_gender(gender: Gender) -> Gender:
    """Return the opposite gender."""
    return "f" if gender == "m" else "m"


def show(examples: Sequence[Sentence]) -> list[str]:
    """Return sentences as text, with stars around words that do not agree."""
    return [
        " ".join(f"*{word}*" if tag == WRONG else word for word, tag in zip(example.words, example.tags, strict=True))
        for example in examples
    ]

"""Masked rows: exactly the asked places, drawn from the row's number; words stay whole; specials stay in sight."""

import re
from dataclasses import replace

import numpy as np
import pytest

from regard.data.mlm_masking import SPAN_LENGTH_CDF, TokenMasking
from regard.data.tokenizers.units import UnitsConfig
from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.corpus import prepare
from regard.tasks.pretraining.documents import DocumentsConfig
from regard.tasks.pretraining.masking import SPECIAL, MaskedRows, MaskingConfig
from regard.tasks.pretraining.sentences import Sentences
from tests.tasks.pretraining.small import prepared

UNITS = ("tokens", "words", "spans")


def rows(kind="bpe", context=24, windows=6, seed=1, *, fixed=False, **how) -> MaskedRows:
    made = prepared(kind)
    return MaskedRows(made.train, made.tokenizer, context, windows, seed, how=MaskingConfig(**how), fixed=fixed)


def sequences(batch) -> list[list[int]]:
    """What stood in every sequence before anything was hidden."""
    tokens, real = batch.tokens.clone(), batch.labels != IGNORE
    tokens[batch.places[real]] = batch.labels[real]
    offsets = batch.row.offsets.tolist()
    return [tokens[offsets[n] : offsets[n + 1]].tolist() for n in range(int(batch.row.count))]


@pytest.mark.parametrize(
    ("context", "windows", "unit", "fixed", "kind"),
    [
        (9, 30, "tokens", False, "bpe"),
        (24, 7, "words", True, "words"),
        (64, 1, "spans", False, "bpe"),
        (300, 9, "spans", True, "words"),
        (4, 200, "words", True, "words"),
    ],
)
def test_in_an_epoch_every_token_of_every_document_is_read_once(context, windows, unit, fixed, kind):
    given, own = rows(kind, context, windows, unit=unit, fixed=fixed), prepared(kind).tokenizer
    corpus = given.corpus
    for epoch in (0, 2):
        found: list[list[tuple[int, list[int]]]] = [[] for _ in range(corpus.documents)]
        for number in range(epoch * given.rows, (epoch + 1) * given.rows):
            batch = given.batch(number)
            for document, sequence in zip(batch.documents.tolist(), sequences(batch), strict=True):
                assert (sequence[0], sequence[-1]) == (own.begin, own.separator)
                assert len(sequence) <= context
                found[document].append((number, sequence[1:-1]))
        for document, parts in enumerate(found):
            text = corpus.tokens[corpus.starts[document] : corpus.starts[document + 1] - 1].tolist()
            assert sorted(token for _, part in parts for token in part) == sorted(text)
            spelled = ",".join(map(str, text))
            assert all(",".join(map(str, part)) in spelled for _, part in parts)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["bpe", "characters", "words"])
def test_exactly_the_asked_share_of_what_may_be_hidden_is(unit, kind):
    given, own = rows(kind, unit=unit), prepared(kind).tokenizer
    for number in range(2 * given.rows):
        batch = given.batch(number)
        flat = np.array([token for sequence in sequences(batch) for token in sequence])
        allowed = ~np.isin(flat, sorted(own.special))
        count = max(1, round(0.15 * int(allowed.sum())))
        assert len(batch.places) == len(set(batch.places.tolist())) == len(batch.labels)
        assert len(batch.places) == count if unit == "tokens" else 0 <= count - len(batch.places) < 8
        assert allowed[batch.places].all()  # begin, separators and the unknown are never hidden
        assert batch.places.tolist() == sorted(batch.places.tolist())


def test_a_row_is_the_same_again_and_hidden_anew_in_every_epoch():
    given, again = rows(), rows()
    for number in (0, 3, given.rows * 2):
        one, other = given.batch(number), again.batch(number)
        assert one.tokens.equal(other.tokens)
        assert one.places.equal(other.places)
    assert not rows(seed=2).batch(0).places.equal(given.batch(0).places)
    large = rows(context=64, windows=10**4)
    assert large.rows == 1
    assert not large.batch(0).places.equal(large.batch(1).places)


@pytest.mark.parametrize("unit", UNITS)
def test_of_what_is_hidden_four_fifths_are_masks_a_tenth_is_random_and_a_tenth_stays(unit):
    given, own = rows(windows=50, unit=unit), prepared().tokenizer
    kinds = np.zeros(3)
    random = []
    for number in range(120):
        batch = given.batch(number)
        seen, truth = batch.tokens[batch.places], batch.labels
        masked, kept = seen == own.mask, seen == truth
        kinds += [int(masked.sum()), int((~masked & ~kept).sum()), int(kept.sum())]
        random += seen[~masked & ~kept].tolist()
    total, spread = kinds.sum(), 4 if unit != "spans" else 12  # tokens of a span are alike, so shares vary more
    for found, share in zip(kinds, (0.8, 0.1, 0.1), strict=True):
        assert abs(found - share * total) < spread * np.sqrt(total * share * (1 - share)) + 0.002 * total
    assert not own.special & set(random)
    assert len(set(random)) > 0.8 * (own.vocab - len(own.special))


@pytest.mark.parametrize("unit", ["words", "spans"])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
def test_words_are_hidden_whole_or_not_at_all(unit, kind):
    given, own = rows(kind, unit=unit, context=40), prepared(kind).tokenizer
    checked = 0
    for number in range(2 * given.rows):
        batch = given.batch(number)
        hidden = np.zeros(len(batch.tokens), bool)
        hidden[batch.places] = True
        at = 0
        for sequence in sequences(batch):
            text, owners = b"", []
            for place, token in enumerate(sequence, start=at):
                piece = own.token_bytes[token] or b""
                text, owners = text + piece, owners + [place] * len(piece)
            at += len(sequence)
            for match in re.finditer(rb"[A-Za-z0-9]+", text):
                fates = {hidden[place] for place in owners[match.start() : match.end()]}
                assert len(fates) == 1, match[0]
                checked += 1
    assert checked > 100


def test_ideographs_are_words_of_their_own_and_parts_of_a_character_belong_together():
    own = prepared().tokenizer
    masking = TokenMasking(own, 0.15, "words")
    tokens = np.array(own.encode("Nürnberg 漢 a"))
    spelled, words = [own.token_bytes[token] for token in tokens], masking.number_words(tokens).tolist()
    assert b"".join(spelled) == " Nürnberg 漢 a".encode()
    joined = {word: b"".join(p for p, w in zip(spelled, words, strict=True) if w == word) for word in words}
    assert b" N\xc3\xbcrnberg" in joined.values()
    assert any("漢".encode() in part for part in joined.values())


def test_spans_are_geometric_with_a_mean_of_3_8_words():
    shares = np.diff(np.r_[0, SPAN_LENGTH_CDF])
    assert SPAN_LENGTH_CDF[-1] == pytest.approx(1)
    assert shares[1:] / shares[:-1] == pytest.approx(0.8)
    assert (shares * np.arange(1, 11)).sum() == pytest.approx(3.8, abs=0.05)


@pytest.mark.parametrize(
    ("context", "windows", "unit", "pairs"),
    [(9, 30, "tokens", True), (24, 7, "words", False), (64, 1, "spans", True), (300, 9, "spans", False)],
)
def test_fixed_rows_have_one_shape_and_the_same_content(context, windows, unit, pairs):
    fixed, free = (
        rows(context=context, windows=windows, unit=unit, next_sentence=pairs, fixed=each) for each in (True, False)
    )
    shapes = set()
    for number in range(fixed.rows + 4):
        batch, other = fixed.batch(number), free.batch(number)
        follows = None if batch.following is None else len(batch.following)
        shapes.add((len(batch.tokens), len(batch.row.offsets), batch.row.most, len(batch.places), follows))
        assert sequences(batch) == sequences(other)
        real = batch.labels != IGNORE
        assert batch.places[real].equal(other.places)
        assert batch.tokens[: len(other.tokens)].equal(other.tokens)
    assert len(shapes) == 1


def test_the_second_text_follows_the_first_or_is_of_another_document_about_as_often():
    given, own = rows(windows=20, next_sentence=True), prepared().tokenizer
    corpus = given.corpus
    texts = [corpus.tokens[a : b - 1].tolist() for a, b in zip(corpus.starts, corpus.starts[1:], strict=False)]
    spelled = ["," + ",".join(map(str, text)) + "," for text in texts]
    counts = {0: 0, 1: 0, IGNORE: 0}
    for number in range(40):
        batch = given.batch(number)
        segments, offsets = batch.segments, batch.row.offsets
        both = zip(batch.documents.tolist(), sequences(batch), batch.following.tolist(), strict=True)
        for place, (document, sequence, following) in enumerate(both):
            kinds = segments[offsets[place] : offsets[place + 1]].tolist()
            cut = kinds.index(1) if 1 in kinds else len(kinds)
            assert kinds == [0] * cut + [1] * (len(kinds) - cut)
            first, second = sequence[1 : cut - 1], sequence[cut:-1]
            assert sequence[cut - 1] == sequence[-1] == own.separator
            counts[following] += 1
            if following == IGNORE:
                assert not second
                continue
            assert first
            assert second
            joined = "," + ",".join(map(str, first + second if following == 0 else first)) + ","
            assert joined in spelled[document]
            other = "," + ",".join(map(str, second)) + ","
            if following == 1:
                assert any(other in text for number, text in enumerate(spelled) if number != document)
    total = counts[0] + counts[1]
    assert total > 500
    assert abs(counts[1] - total / 2) < 4 * np.sqrt(total / 4)


PROSE = [
    f'Story {n}. He said: "No, {n}.5 is not {n}!" Then (it was late.) he went\nhome to sleep. Why? Nobody knows it. '
    f"The end of story {n} came soon after, and all were\nhappy. So they say"
    for n in range(1, 41)
]
VERSE = [f"the {n} wolves howl\nand the moon is {n}\nall alone\nin the night of {n}" for n in range(1, 41)]
SENTENCE, LINE = r"[.!?][\")]*\s+", r"\n"


@pytest.mark.parametrize(
    ("texts", "end", "kind"),
    [(PROSE, SENTENCE, kind) for kind in ("bpe", "characters", "words")] + [(VERSE, LINE, "bpe")],
    ids=["pieces", "characters", "words", "lines"],
)
def test_texts_of_a_pair_meet_where_a_sentence_or_else_a_line_ends(texts, end, kind):
    how, gap = UnitsConfig(kind=kind, vocab=None if kind in ("characters", "words") else 330), ""
    if kind == "words":
        texts, gap = [text.replace("\n", " ") for text in texts], " "
    data = DocumentsConfig(text="\n\n".join(texts), document="blank", validation_share=0.0)
    made = prepare(data, how, special=SPECIAL)
    asked, context = MaskingConfig(next_sentence=True), {"characters": 90, "words": 24}.get(kind, 40)
    given = MaskedRows(made.train, made.tokenizer, context, 8, 1, how=asked)

    def spelled(tokens: list[int]) -> str:
        return gap.join((made.tokenizer.token_bytes[token] or b"?").decode() for token in tokens)

    begun = [text[match.end() :].strip() for text in texts for match in re.finditer(f"^|{end}", text)]
    counts = {(following, met): 0 for following in (0, 1) for met in (False, True)}
    for number in range(4 * given.rows):
        for first, second, following in pairs(given.batch(number)):
            if following == IGNORE:
                continue
            one, other = spelled(first) + gap, spelled(second)
            met = re.search(f"(?:{end})$", f"{one} " if other.startswith(" ") else one) is not None
            counts[following, met] += 1
            if following == 0:
                assert any((one + other).strip() in text for text in texts), (one, other)
                assert met or not re.search(rf"(?:{end})\S", one + other), (one, other)
            assert not met or any(text.startswith(other.strip()) for text in begun), (one, other)
    assert counts[0, True] > 60
    assert counts[1, True] > 60


@pytest.mark.parametrize(
    ("kind", "text", "sentences", "lines"),
    [
        ("bpe", 'It is 3.5 ("or so.") He left… Why', ["He", "Why"], []),
        ("bpe", "one two\nthree. four", ["four"], ["three"]),
        ("characters", "Yes! No.\nwell", ["No", "well"], ["well"]),
        ("characters", "何。次は", ["次"], []),
        ("words", "Yes it is.\nNo\nwell", ["No"], ["No", "well"]),
        ("words", "a b c", [], []),
    ],
)
def test_sentences_and_lines_begin_where_a_reader_says(kind, text, sentences, lines):
    made = prepare(
        DocumentsConfig(text=f"{text}\n" * 30, validation_share=0.0), UnitsConfig(kind=kind), special=SPECIAL
    )
    tokens, spelled = np.asarray(made.train.tokens[:-1]).astype(np.int64), made.tokenizer.token_bytes
    tokens = tokens[: len(tokens) // 30]
    for asked, expected in ((False, sentences), (True, lines)):
        places = np.flatnonzero(Sentences(made.tokenizer).begins(tokens, lines=asked))
        rest = [b"".join(spelled[token] or b"\n" for token in tokens[place:]).decode().strip() for place in places]
        assert len(rest) == len(expected)
        assert all(found.startswith(word) for found, word in zip(rest, expected, strict=True)), rest


def test_a_text_without_sentences_is_cut_anywhere():
    given, places = rows(windows=20, next_sentence=True, seed=4), set()
    for number in range(10):
        places |= {len(first) for first, second, _ in pairs(given.batch(number)) if second}
    assert len(places) > 15, "of 21"


def pairs(batch) -> list[tuple[list[int], list[int], int]]:
    """Both texts of every sequence, and whether the second follows."""
    found, offsets = [], batch.row.offsets
    for place, (sequence, following) in enumerate(zip(sequences(batch), batch.following.tolist(), strict=True)):
        kinds = batch.segments[offsets[place] : offsets[place + 1]].tolist()
        cut = kinds.index(1) if 1 in kinds else len(kinds)
        found.append((sequence[1 : cut - 1], sequence[cut:-1], following))
    return found


@pytest.mark.parametrize("pairs", [True, False])
def test_halves_hold_the_same_sequences_and_hidden_places(pairs):
    batch = rows(next_sentence=pairs, fixed=True).batch(0)
    halves = batch.halves()
    assert len(halves) == 2
    assert [sequence for half in halves for sequence in sequences(half)] == sequences(batch)
    assert sum(len(half.places) for half in halves) == int((batch.labels != IGNORE).sum())
    if pairs:
        assert [each for half in halves for each in half.following.tolist()] == batch.following[
            : int(batch.row.count)
        ].tolist()
    assert batch.to("cpu").tokens.equal(batch.tokens)


def test_what_cannot_be_is_said_in_one_line():
    made = prepared()
    with pytest.raises(ValueError, match="a context of 2 has no room for text"):
        MaskedRows(made.train, made.tokenizer, 2, 4, 0)
    alone = replace(made.train, starts=made.train.starts[[0, -1]])
    with pytest.raises(ValueError, match="at least two documents"):
        MaskedRows(alone, made.tokenizer, 16, 4, 0, how=MaskingConfig(next_sentence=True))
    bare = prepare(DocumentsConfig(text="a b c", validation_share=0.0), UnitsConfig())
    with pytest.raises(ValueError, match="no separator token"):
        MaskedRows(bare.train, bare.tokenizer, 16, 4, 0)

"""Every attention of every model has a name in words, and every term and measure a sentence, in both languages."""

from __future__ import annotations

import re
from typing import Any

import pytest

import regard
from regard import config
from regard.interpret.draw.bundle import write_bundle
from regard.interpret.measure import alignment_scores, map_checks, maps, patterns, relations, summary
from regard.interpret.watch import attention_names
from regard.metrics import alignment
from regard.models import MODELS
from regard.models.weights import Unfilled
from tests.interpret.looking import CHECKPOINT
from tests.models.test_registry import SHAPES

pytestmark = pytest.mark.unchecked
ALSO = [
    {"name": "vit", "pooling": "attention", "pooler": False},
    {"name": "captioner", "attention": "hard"},
    {"name": "transformer-encoder", "pool": "attention"},
    {"name": "axial", "above": 2, "depth": 3},
]
"""Models with settings that give them attentions of other names."""
SIDES = [
    ("source", "source"), ("target", "source"), ("target", "fed"), ("label", "source"), ("asked", "source"),
    ("target", "left"), ("above", "row"), ("above", "above"), ("step", "place"), ("asked", "1 away"),
    ("omics", "omics"),
]  # fmt: skip
TERMS = """attention head layer score softmax mask entropy diagonality AER rollout gradient cam gradcam deletion
insertion control silenced permuted beam log-probability perplexity BLEU query key value scaled bias sum projection
probability rank token temperature even diagonal random curves faithfulness pruned loss"""
TRACE = """([stacks, sides]) => stacks.map((names) => [{}, { source: {} }].flatMap((pictures) =>
  ["en", "fr"].flatMap((lang) => {
    $strings.speak(lang);
    return sides.map(([query, key]) => {
      const trace = { attentions: names.map((name) => ({ name, query, key })), pictures };
      const { describe, describeKind, kindOf } = $names;
      return names.map((name) => [lang, name, describe(name, trace), describeKind(kindOf(name), trace)]);
    });
  })))"""


def attentions_of(name: str, **settings: Any) -> list[str]:
    """The names of the attentions of a small model."""
    kind, shape = MODELS[name]
    with Unfilled():
        return attention_names(kind(config.build(shape, SHAPES[name] | settings)))


def evaluate(browser: Any, entry: str, script: str, argument: Any) -> Any:
    """What a module says in the browser, without a page around it."""
    tab = browser.new_page()
    try:
        tab.add_script_tag(content=f"{write_bundle(entry=entry)}\nwindow.answer = {script};")
        return tab.evaluate("argument => window.answer(argument)", argument)
    finally:
        tab.close()


def test_every_attention_of_every_model_has_a_name_in_words(browser: Any):
    models = [(name, {}) for name in MODELS] + [(other.pop("name"), other) for other in map(dict, ALSO)]
    stacks = [names for name, settings in models if (names := attentions_of(name, **settings))]
    assert len(stacks) >= 15
    spoken: dict[str, set[str]] = {}
    for looks in evaluate(browser, "names", TRACE, [stacks, SIDES]):
        for look in looks:
            assert len({words for _, _, words, _ in look}) == len(look), "no two of a model are called the same"
            for language, name, words, kind in look:
                assert words != name
                assert not re.search(r"[._{]", words), (language, words)
                assert kind != re.sub(r"\.\d+", "", name)
                spoken.setdefault(words, set()).add(language)
    assert all(len(languages) == 1 for languages in spoken.values()), "each language has words of its own"


def test_every_map_of_a_picture_has_a_name_in_words(browser: Any):
    looks = evaluate(browser, "names", TRACE, [[list(maps.METHODS)], [("asked", "source")]])
    words = {words for look in looks for names in look for _, _, words, _ in names}
    assert not words & set(maps.METHODS)
    assert len(words) >= 2 * len(maps.METHODS)


def test_every_term_and_every_measure_has_a_sentence_and_says_what_is_good(browser: Any, watched: Any):
    reader = regard.load(CHECKPOINT).extras["alignments"].call(to="en")
    golds = [gold.swap_languages() for gold in alignment.read()][:2]
    sent = summary.measures_for_page(alignment_scores.examples(reader, golds), summary.silence_heads(reader, golds[:1]))
    measures = {name.removesuffix(summary.CONTROL) for name in sent} | {"entropy", "diagonality"}
    measures |= {name for head in patterns.measure_heads([watched[0]]) for name in head.relations}
    measures |= {
        "AER of this sentence",
        "AER of the diagonal",
        *relations.RELATIONS,
        *map_checks.REMOVALS,
        *maps.METHODS,
    }
    assert {"AER", "silenced", "previous token", "AER, permuted"} <= measures
    script = """names => names.map(name => ["en", "fr"].map(lang => {
      $strings.speak(lang);
      return [$glossary.termOf(name), $glossary.explainTerm(name)];
    }))"""
    names = [*TERMS.split(), "length penalty", *measures]
    for name, entries in zip(names, evaluate(browser, "glossary", script, names), strict=True):
        for term, sentence in entries:
            assert term, name
            assert sentence.count(".") >= 1, name
            assert not re.search(r"[{}]", sentence), name
        assert entries[0][1] != entries[1][1], name
    for name in measures:  # a measure says what counts as good
        assert all(sentence.count(". ") >= 1 for _, sentence in entries), name
    shown = evaluate(
        browser,
        "strings",
        "names => names.map(name => ['en', 'fr'].map(lang => { $strings.speak(lang); return $strings.say(name); }))",
        sorted(measures - set(maps.METHODS)),
    )
    same = {english for english, french in shown if english == french}
    assert same <= {"AER", "insertion"}, "the same word in both languages"

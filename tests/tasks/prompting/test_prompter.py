"""Prompted answers: what the model says of each answer, corrected by an empty input, against numpy."""

import json

import numpy as np
import pytest

import regard
from regard.tasks.promptable import Gap
from regard.tasks.prompting.prompter import Prompter
from regard.tasks.prompting.scoring import calibrate, probabilities, score_labels
from regard.tasks.prompting.template import Texts, build
from tests.tasks.pretraining.making import made

pytestmark = pytest.mark.unchecked

HOW = {"text": "[X] is [Z]", "answers": {"wolf": ["old", "wolf"], "dog": "dog", "horse": "a horse"}}
TEXTS = ["the dog", "why", "an old wolf"]
ROOM = ["model.context=40", "data.context=40"]


@pytest.fixture(scope="module")
def gpt():
    return made("causal-lm", *ROOM).writer()


@pytest.fixture(scope="module")
def bert():
    return made("masked-lm", *ROOM).filler()


@pytest.fixture(scope="module")
def t5():
    return made("span-corruption", *ROOM).restorer()


def logs(face, text: str, answer: str) -> list[float]:
    return face.score_candidates([Gap(f"{text} is ", "", (answer,))])[0][0]


def test_scores_and_correction_are_those_of_the_formula():
    tokens = [[[-1.0, -2.0], [-0.5], [-4.0]], [[-3.0, -0.2], [-2.5], [-0.1]]]
    empty = [[[-2.0, -2.0], [-1.0], [-0.3]], [[-1.0, -1.0], [-3.0], [-2.0]]]
    chances = np.exp([[-3.0, -0.5, -4.0], [-3.2, -2.5, -0.1]])
    labels = np.column_stack([chances[:, :2].mean(1), chances[:, 2]])
    np.testing.assert_allclose(score_labels(tokens, [2, 1]), np.log(labels))
    plain = labels / labels.sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities(score_labels(tokens, [2, 1])), plain)
    without = np.exp([[-4.0, -1.0, -0.3], [-2.0, -3.0, -2.0]])
    without = np.column_stack([without[:, :2].mean(1), without[:, 2]])
    prior = (without / without.sum(1, keepdims=True)).mean(0)
    wanted = plain / prior
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(calibrate(score_labels(tokens, [2, 1]), score_labels(empty, [2, 1])), wanted)
    means = score_labels(tokens, [1, 1, 1], per_token=True)
    np.testing.assert_allclose(means, [[-1.5, -0.5, -4.0], [-1.6, -2.5, -0.1]])


@pytest.mark.parametrize("family", ["gpt", "bert", "t5"])
@pytest.mark.parametrize("per_token", [False, True])
def test_every_family_answers_by_its_log_probabilities(family, per_token, request):
    face = request.getfixturevalue(family)
    found = regard.prompt(face, HOW, TEXTS, per_token=per_token)
    join = np.mean if per_token else np.sum

    def chances(text: str) -> np.ndarray:
        words = [[join(logs(face, text, word)) for word in some] for some in (["old", "wolf"], ["dog"], ["a horse"])]
        each = np.array([np.exp(some).mean() for some in words])
        return each / each.sum()

    prior = chances("")
    for text, answer in zip(TEXTS, found, strict=True):
        plain = chances(text)
        wanted = plain / prior / (plain / prior).sum()
        np.testing.assert_allclose(list(answer.uncorrected.values()), plain, rtol=1e-3)
        np.testing.assert_allclose(list(answer.corrected.values()), wanted, rtol=1e-3)
        assert answer.label == list(answer.corrected)[int(wanted.argmax())]
        assert answer.plain()["text"] == text
    assert regard.prompt(face, HOW, TEXTS[0], correct=False).label == max(chances_of(face), key=chances_of(face).get)


def chances_of(face) -> dict[str, float]:
    return regard.prompt(face, HOW, TEXTS[0]).uncorrected


@pytest.mark.parametrize("family", ["gpt", "bert", "t5"])
def test_other_texts_never_change_an_answer(family, request):
    face = request.getfixturevalue(family)
    together = regard.prompt(face, HOW, TEXTS)
    for text, answer in zip(TEXTS, together, strict=True):
        alone = regard.prompt(face, HOW, text)
        np.testing.assert_allclose(list(alone.corrected.values()), list(answer.corrected.values()), rtol=1e-4)


@pytest.mark.parametrize("family", ["gpt", "bert", "t5"])
@pytest.mark.parametrize("cut", ["end", "start"])
def test_a_long_text_is_cut_and_the_template_and_its_examples_never(family, cut, request):
    face = request.getfixturevalue(family)
    shots = {"examples": [{"x": "a", "z": "dog"}], "between": "; "}
    prompter = Prompter(face, build({**HOW, **shots, "cut": cut}))
    words = ["why", "the", "old", "dog", "runs", "after", "a", "wolf", "and", "an", "old", "horse", "sleeps"]
    [[gap]] = prompter._fit_prompts([Texts(" ".join(words))], ["here"])
    assert gap.before.startswith("a is dog; ")
    assert gap.before.endswith(" is ")
    kept = gap.before.removeprefix("a is dog; ").removesuffix(" is ").split()
    assert 0 < len(kept) < len(words)
    assert kept == (words[: len(kept)] if cut == "end" else words[-len(kept) :])
    longer = words[: len(kept) + 1] if cut == "end" else words[-len(kept) - 1 :]
    assert face.sizes([gap])[0] <= face.reach < face.sizes([prompter.template.gap(Texts(" ".join(longer)))])[0]


def test_of_two_texts_the_longer_is_cut(gpt):
    prompter = Prompter(gpt, build({"text": "[X], [Y] [Z]", "answers": {"a": "dog", "b": "wolf"}, "cut": "end"}))
    [[gap]] = prompter._fit_prompts([Texts("an old dog", "why a dog runs after a horse and the old wolf")], ["here"])
    assert gap.before.startswith("an old dog, why a")


def test_what_is_too_long_is_said_with_its_place(gpt, tmp_path):
    (tmp_path / "a.tsv").write_text(f"why\tdog\n{'the dog ' * 20}\tdog\n")
    with pytest.raises(ValueError, match=r"a.tsv:2: \d+ tokens with the template, .* reads 40: shorten .*cut=end"):
        regard.prompt(gpt, HOW).evaluate(tmp_path / "a.tsv")
    with pytest.raises(ValueError, match=r"the template alone has \d+ tokens, .* reads 40: shorten it"):
        regard.prompt(gpt, {**HOW, "text": f"[X] {'dog ' * 20} [Z]"}, "a", cut="end")


def test_answers_that_a_model_cannot_tell_apart_are_refused(gpt, bert):
    unknown = {"text": "[X] is [Z]", "answers": {"a": "dög", "b": "däg"}}
    with pytest.raises(ValueError, match=r"answers: 'dög' and 'däg' are the same tokens to .*: choose words"):
        regard.prompt(gpt, unknown)
    begins = {"text": "[X] is [Z]", "answers": {"a": "old dog", "b": "old"}}
    with pytest.raises(ValueError, match="answers: 'old dog' begins with 'old' and can never be likelier"):
        regard.prompt(gpt, begins)
    assert regard.prompt(bert, begins, "the dog").label in ("a", "b")  # as many masks as tokens: both can win


def test_a_model_that_reads_onwards_needs_the_answer_last(gpt, bert):
    first = {"text": "[Z]: [X]", "answers": {"a": "dog", "b": "wolf"}}
    with pytest.raises(ValueError, match=r"\[X\] follows \[Z\], and .* reads from left to right alone: put \[Z\] last"):
        regard.prompt(gpt, first)
    one, other = (regard.prompt(bert, first, text) for text in ("the dog runs", "why"))
    assert one.uncorrected != other.uncorrected


def test_only_language_models_are_prompted():
    with pytest.raises(ValueError, match="is a translator; a prompt needs a language model"):
        regard.prompt(regard.load(), HOW)


def test_labels_of_a_file_are_measured_beside_chance_and_the_commonest(gpt, tmp_path):
    texts = [*TEXTS, "the horse", "the old dog", "a wolf"]
    right = ["dog", "dog", "dog", "horse", "wolf", "wolf"]
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, right, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    prompter = regard.prompt(gpt, HOW)
    found, answers = prompter.evaluate(tmp_path / "a.jsonl"), prompter.answer(texts)
    assert found.metrics["commonest label"] == 0.5
    for name, shares in (("corrected", "corrected"), ("plain", "uncorrected")):
        said = [max(getattr(one, shares), key=getattr(one, shares).get) for one in answers]
        assert found.metrics[name] == np.mean([one == other for one, other in zip(said, right, strict=True)])
    assert {"plain, per token", "corrected, per token"} <= set(found.metrics)  # answers differ in length
    assert set(found.intervals) == set(found.metrics)
    assert found.details["chance"] == pytest.approx(1 / 3)
    assert sum(found.details["answered"].values()) == 6
    plain = np.array([list(one.uncorrected.values()) for one in answers])
    level = (plain / plain.mean(0)).argmax(1)
    wanted = np.mean([HOW_LABELS[best] == one for best, one in zip(level, right, strict=True)])
    assert found.metrics["corrected by the texts"] == wanted


HOW_LABELS = list(HOW["answers"])


@pytest.mark.parametrize("family", ["gpt", "t5"])
def test_what_is_written_is_measured_beside_a_copy(family, request, tmp_path):
    from sacrebleu import corpus_chrf

    face = request.getfixturevalue(family)
    (tmp_path / "a.tsv").write_text("the old dog sleeps\tan old dog\nwhy runs a wolf\ta wolf\n")
    prompter = regard.prompt(face, {"text": "[X]; [Z]", "kind": "write", "length": 8, "words": 2})
    said = [str(one) for one in prompter.answer(["the old dog sleeps", "why runs a wolf"])]
    found = prompter.evaluate(tmp_path / "a.tsv").metrics
    references = [["an old dog", "a wolf"]]
    assert found["chrF, written"] == pytest.approx(corpus_chrf(said, references).score)
    copied = corpus_chrf(["the old", "why runs"], references).score
    assert found["chrF, copy of the first 2 words"] == pytest.approx(copied)


def test_lists_are_measured_by_their_names(gpt, tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_text("an Old dog\tOld\nwhy\tnone\na Wolf runs\ta, b\n")
    prompter = regard.prompt(gpt, {"text": "[X]: [Z]", "kind": "list", "length": 4})
    monkeypatch.setattr(prompter, "write", lambda given, places: ["old, dog", "none", "b"])
    found = prompter.evaluate(tmp_path / "a.tsv").metrics
    assert found["F1, written"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["F1, every word with a capital"] == pytest.approx(2 * 1 / (2 + 3))


def test_a_bert_cannot_write(bert):
    with pytest.raises(ValueError, match="is a masked language model and cannot write: give a template with answers"):
        regard.prompt(bert, {"text": "[X] [Z]", "kind": "write"}, "a")

"""Trained models of plain text in use: they write, fill and restore as their logits say, and show where they looked."""

import re
from dataclasses import replace

import pytest
import torch

from regard import models, recipe
from regard.attention.masks import Grid
from regard.interpret.draw import page
from regard.tasks.pretraining.filler import Filler
from regard.tasks.pretraining.tokenising import encode_parts
from tests.models.families import shaken
from tests.tasks.pretraining.making import LINES, made, settings

LETTERS = sorted({letter for line in LINES for letter in line})


@pytest.fixture(scope="module")
def writer():
    return made("causal-lm", "model.tied=false").writer()


@pytest.fixture(scope="module")
def filler():
    return made("masked-lm").filler()


@pytest.fixture(scope="module")
def restorer():
    return made("span-corruption").restorer()


@torch.no_grad()
def scores(writer, fed):
    """The logits of what comes after these tokens, read at once."""
    grid = Grid(torch.tensor([len(fed)]), len(fed))
    return writer.model.logits(writer.model(torch.tensor([fed]), layout=grid))[0, -1]


def by_hand(writer, prompt: str, length: int):
    """The likeliest letters one by one; where the model is full, it reads the last half of what it can hold."""
    own, context = writer.tokenizer, writer.context
    whole = [own.begin, *own.encode(prompt)]
    window, total, first = whole, 0.0, len(whole)
    if len(window) >= context:
        window = whole[-(context // 2) :]
    while len(whole) - first < length:
        if len(window) == context:
            window = whole[-(context // 2) :]
        found = scores(writer, window)
        chances = found.log_softmax(-1)
        found[[token for token in own.special if token != own.end]] = float("-inf")
        best = int(found.argmax())
        total += float(chances[best])
        if best == own.end:
            break
        whole, window = [*whole, best], [*window, best]
    return own.decode(whole), total


@pytest.mark.parametrize("prompt", ["", "the", "an old dog runs after the wolf, the"])
@pytest.mark.parametrize("length", [3, 31])
def test_a_text_goes_on_past_the_context_as_stepping_by_hand_does(writer, prompt, length):
    [written] = writer.write(prompt, temperature=0.0, length=length, samples=1)
    text, score = by_hand(writer, prompt, length)
    assert written.text == text
    assert written.score == pytest.approx(score, rel=1e-4)


def test_texts_that_are_long_enough_are_among_them(writer):
    assert len(by_hand(writer, "the", 31)[0]) > 2 * writer.context


@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"seed": 3}, {"seed": 4, "top_k": 5, "temperature": 2.0}])
def test_what_is_streamed_is_what_is_written(writer, how):
    [written] = writer.write("the", length=30, samples=1, **how)
    pieces = list(writer.stream("the", length=30, **how))
    assert "".join(pieces) == written.text
    assert len(pieces) > 5
    assert writer.answer(["the"], length=30, **how) == [written]


def test_samples_begin_alike_differ_and_repeat_themselves(writer):
    three = writer.write("the ", length=25, samples=3, seed=1)
    assert three == writer.write("the ", length=25, samples=3, seed=1)
    assert len({text.text for text in three}) == 3
    assert all(text.text.startswith("the ") and text.score < 0 for text in three)


def test_a_stop_sequence_ends_a_text_before_it(writer):
    how = {"length": 30, "temperature": 0.0}
    whole = writer.write("the", samples=1, **how)[0].text
    stop, at = next((whole[n : n + 2], n) for n in range(5, len(whole)) if whole.index(whole[n : n + 2], 3) == n)
    [stopped] = writer.write("the", samples=1, stop=stop, **how)
    assert stopped.text == whole[:at]
    assert "".join(writer.stream("the", stop=stop, **how)) == stopped.text
    several = writer.write("the", samples=3, seed=3, length=30, stop=stop)
    assert all(stop not in text.text[3:] for text in several)
    assert writer.write("the", samples=1, stop="QQ", **how)[0].text == whole
    assert "".join(writer.stream("the", stop="QQ", **how)) == whole
    assert writer.write("the", samples=1, stop="he", **how)[0].text == whole, "what was given ends nothing"


def test_the_end_token_ends_a_text():
    writer = made("causal-lm").writer()
    model, end = writer.model, writer.tokenizer.end
    with torch.no_grad():
        model.norm.weight.zero_()
        model.norm.bias.copy_(50 * model.embedding.weight[end])
    for texts in (writer.write("the", samples=2), writer.write("the", samples=1, stop="x")):
        assert {text.text for text in texts} == {"the"}
        assert all(text.score == pytest.approx(float(scores(writer, [1]).log_softmax(-1)[end])) for text in texts)
    assert list(writer.stream("the")) == ["the"]
    trace = writer.look("the")
    assert [item.text for item in trace.items["target"]][-1] == writer.tokenizer.pieces([end])[0]
    writer.look("")


@pytest.mark.parametrize(
    ("prompt", "changes", "said"),
    [
        ("thé", {}, "never seen 'é': begin with characters of its text"),
        ("Z", {}, "never seen 'Z'"),
        ("", {"length": 0}, r"writing\.length must be a whole number from 1"),
        ("", {"top_p": 1.5}, r"writing\.top_p must be a number above 0 and at most 1, not 1\.5"),
        ("", {"lenght": 3}, "did you mean length"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(writer, prompt, changes, said):
    for how in (writer.write, lambda *one, **all: list(writer.stream(*one, **all))):
        with pytest.raises(ValueError, match=said) as error:
            how(prompt, **changes)
        assert "\n" not in str(error.value)


def test_a_text_is_measured_like_the_file_that_holds_it(writer, tmp_path):
    text = "\n".join(LINES)
    (tmp_path / "text.txt").write_text(f"{text}\n")
    scored, found = writer.evaluate(tmp_path / "text.txt"), writer.measure(text)
    assert scored.details["loss"] == pytest.approx(found.loss)
    assert found.tokens == found.bytes == len(text) + 1
    assert scored.details["bits_per_byte"] == pytest.approx(found.bits_per_byte)
    nearer = writer.evaluate(tmp_path / "text.txt", stride=3)
    assert nearer.details["loss"] != scored.details["loss"]
    assert nearer.measures["tokens"] == scored.measures["tokens"]
    with pytest.raises(ValueError, match="stride is 13, the model reads 12 tokens"):
        writer.evaluate(tmp_path / "text.txt", stride=13)
    for nothing in (writer.evaluate, lambda: writer.measure("")):
        with pytest.raises(ValueError, match=r"give at least one"):
            nothing()


@torch.no_grad()
def test_gaps_are_filled_with_what_the_logits_say(filler):
    own, model = filler.tokenizer, filler.model
    [answer] = filler.answer(["o[MASK] d[MASK]g"], top=1000)
    assert len(answer.gaps) == 2
    ids = [own.begin, *own.encode("o"), own.mask, *own.encode(" d"), own.mask, *own.encode("g"), own.separator]
    logits = model.logits(model(torch.tensor([ids]), layout=Grid(torch.tensor([len(ids)]), len(ids))))[0]
    ordinary = [token for token in range(own.vocab) if token not in own.special]
    for gap, place in zip(answer.gaps, (2, 5), strict=True):
        expected = dict(zip(own.pieces(ordinary), logits[place, ordinary].softmax(-1).tolist(), strict=True))
        assert sum(share for _, share in gap) == pytest.approx(1, abs=1e-5)
        assert [share for _, share in gap] == sorted((share for _, share in gap), reverse=True)
        assert {word.replace("' '", " "): share for word, share in gap} == pytest.approx(expected, abs=1e-5)
    best = [gap[0][0] for gap in answer.gaps]
    assert answer.filled == f"o{best[0]} d{best[1]}g"
    assert [len(gap) for gap in filler.fill("o[MASK] d[MASK]g", top=3).gaps] == [3, 3]
    assert answer.plain()["gaps"][0][0]["token"] == best[0]


@pytest.mark.parametrize(
    ("kind", "read"), [("characters", [*"the og"]), ("bpe", [" the", "og"]), ("words", ["the", "og"])]
)
def test_a_blank_before_a_gap_belongs_to_it_unless_it_is_a_token(kind, read):
    own = made("masked-lm", f"tokenizer.kind={kind}", text="the og the og\n" * 40).prepared.tokenizer
    first, second = encode_parts(own, ["the ", "og"])
    assert own.pieces([*first, *second]) == read


def test_other_texts_in_a_batch_never_change_an_answer(filler):
    texts = ["a [MASK]og", "[MASK]", "the [MASK]orse", "w[MASK][MASK]", "an old [MASK]o"]
    together, alone = filler.fill(texts), [filler.fill(text) for text in texts]
    assert [one.text for one in together] == texts
    for one, other in zip(together, alone, strict=True):
        assert one.filled == other.filled
        assert [word for gap in one.gaps for word, _ in gap] == [word for gap in other.gaps for word, _ in gap]
        shares = [[share for gap in each.gaps for _, share in gap] for each in (one, other)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-6)
    assert filler.fill("a <mask>og").gaps == alone[0].gaps


@pytest.mark.parametrize("task", ["causal-lm", "masked-lm"])
def test_tokens_that_only_the_model_counts_are_never_said(task):
    """As in models of others, whose tables have rows to spare."""
    narrow = made(task)
    own = narrow.prepared.tokenizer
    wide = shaken(models.build(replace(narrow.recipe.model, vocab=own.vocab + 3)))
    with torch.no_grad():
        wide.embedding.weight[-3:] = 30.0
    if task == "causal-lm":
        narrow.model = wide
        assert set(narrow.writer().write("the", length=9, samples=1)[0].text) <= set(LETTERS)
        return
    with torch.no_grad():
        wide.bias[-3:] = 1e4
    [gap] = Filler(wide, own).fill("a [MASK]", top=1000).gaps
    assert sorted(word.replace("' '", " ") for word, _ in gap) == LETTERS
    assert sum(share for _, share in gap) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a dog", r"no gap in 'a dog': write \[MASK\] where a word is missing"),
        ("", "no gap in ''"),
        ("the old wolf s[MASK]", "17 tokens in one text, the model reads 12: split it"),
    ],
)
def test_what_cannot_be_filled_is_said_in_one_line(filler, text, said):
    with pytest.raises(ValueError, match=said) as error:
        filler.fill(text)
    assert "\n" not in str(error.value)


def test_a_body_without_its_head_fills_nothing_and_can_be_looked_into():
    task = made("masked-lm")
    bare = type(task.model)(type(task.recipe.model)(**{**vars(task.recipe.model), "masked": False}))
    filler = Filler(bare, task.prepared.tokenizer)
    with pytest.raises(ValueError, match="is a BERT without the head that guesses masked tokens"):
        filler.fill("a [MASK]")
    trace = filler.look("a dog")
    assert trace.facts["answer"] == "a dog"
    assert {one.name for one in trace.weights} == {f"blocks.{n}.attention" for n in range(bare.config.depth)}


@torch.no_grad()
def test_a_text_is_restored_as_its_logits_say(restorer):
    own, model = restorer.tokenizer, restorer.model
    answer = restorer.restore("a <extra_id_0>og", length=6)
    read = [*own.encode("a "), own.find_special("<extra_id_0>"), *own.encode("og"), own.end]
    written, total = [own.pad], 0.0
    while len(written) < 7 and written[-1] != own.end:
        grids = tuple(Grid(torch.tensor([len(ids)]), len(ids)) for ids in (read, written))
        chances = model.logits(model(torch.tensor([read]), torch.tensor([written]), layouts=grids))[0, -1]
        written.append(int(chances.argmax()))
        total += float(chances.log_softmax(-1)[written[-1]])
    assert answer.text == "a <extra_id_0>og"
    shown = [name for name in own.pieces([id for id in written[1:] if id != own.end]) if name.strip()]
    assert re.sub(r"\s", "", answer.answer) == re.sub(r"\s", "", "".join(shown))
    assert answer.score == pytest.approx(total, rel=1e-4)
    assert restorer.answer(["a <extra_id_0>og", "w<extra_id_0>"], length=6)[0].answer == answer.answer
    assert restorer.restore("a <extra_id_0>og", length=6, beams=3).score >= answer.score - 1e-4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a <extra_id_999>", "knows no <extra_id_999>: number gaps from <extra_id_0> on"),
        ("the old wolf sleeps", "20 tokens in one text, the model reads 12: split it"),
    ],
)
def test_what_cannot_be_restored_is_said_in_one_line(restorer, text, said):
    with pytest.raises(ValueError, match=said) as error:
        restorer.restore(text)
    assert "\n" not in str(error.value)


LOOKED = {
    "writer": ("the", {"blocks.0.attention": ("target", "fed")}),
    "filler": ("a d[MASK]g", {"blocks.0.attention": ("source", "source")}),
    "restorer": (
        "a <extra_id_0>og",
        {
            "encoder.0.attention": ("source", "source"),
            "decoder.0.attention": ("target", "fed"),
            "decoder.0.cross": ("target", "source"),
        },
    ),
}


@pytest.mark.parametrize("kind", LOOKED)
def test_where_every_head_looked_adds_up_to_one_and_makes_a_page(kind, request):
    face = request.getfixturevalue(kind)
    text, names = LOOKED[kind]
    trace = face.look(text)
    assert {one.name: (one.query, one.key) for one in trace.weights} == names
    for one in trace.weights:
        assert one.values.shape == (2, len(trace.items[one.query]), len(trace.items[one.key]))
        torch.testing.assert_close(one.values.sum(-1), torch.ones(one.values.shape[:-1]))
        if one.key == "fed":
            assert torch.equal(one.values, one.values.tril()), "nothing that is written later is seen"
    assert (trace.task, trace.facts["text"]) == (face.task, text)
    shown = page.render(trace, lang="en")
    assert "<html" in shown
    steps = trace.steps()
    assert steps is not None
    assert steps.attentions
    for inner in steps.attentions.values():
        assert inner.difference < 1e-4, "the vectors give the weights again"
    if kind == "filler":
        assert trace.facts["answer"] == face.fill(text).filled
    else:
        assert steps.predictions
        assert "".join(item.text for item in trace.items["target"])


def test_a_writer_looks_at_what_it_writes(writer):
    trace = writer.look("the", length=5)
    [written] = writer.write("the", temperature=0.0, length=5, samples=1)
    assert trace.facts["answer"] == written.text
    assert "".join(item.text for item in trace.items["target"]) == written.text
    assert len(writer.look("the old wolf sleeps").items["target"]) < 12


@pytest.mark.parametrize("kind", ["filler", "restorer"])
def test_what_is_cut_out_for_measuring_is_always_the_same_with_a_seed(kind, request, tmp_path):
    face = request.getfixturevalue(kind)
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES * 3))
    one, again, other = (face.evaluate(tmp_path / "text.txt", seed=seed) for seed in (0, 0, 1))
    assert one.details == again.details != other.details
    assert one.task == face.task
    assert one.details["loss"] > 0
    assert "nats per token" in one.metrics
    with pytest.raises(ValueError, match="give at least one file"):
        face.evaluate()


def test_a_gap_is_a_word_that_is_shown(filler):
    trace = filler.look("the [MASK] dog[MASK]")
    items = trace.items["source"]
    gaps = [item for item, id in zip(items, trace.facts["read"], strict=True) if id == filler.tokenizer.mask]
    assert len(gaps) == 2
    assert not any(gap.special for gap in gaps)
    words = [item.word for item in items if item.word is not None]
    assert words == sorted(words)
    assert len({gap.word for gap in gaps}) == 2
    assert [item.word for item in items if item.special] == [None, None]  # begin and separator


@pytest.mark.unchecked
def test_documents_end_in_evaluation_where_they_did_in_training(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES * 4), encoding="utf-8")
    asked = settings("causal-lm", "training.steps=2", train={"path": str(tmp_path / "text.txt")})
    found = recipe.train(asked, out=tmp_path / "run", quiet=True)
    trained = recipe.load(found.folder, device="cpu")
    scores = trained.evaluate(tmp_path / "text.txt")
    assert scores.details["loss"] == pytest.approx(found.metrics["loss"], abs=1e-5)
    assert trained.evaluate(tmp_path / "text.txt", document="file").details["loss"] != pytest.approx(
        found.metrics["loss"], abs=1e-4
    )
    with pytest.raises(ValueError, match=r"document is 'page': choose file, line, blank"):
        trained.evaluate(tmp_path / "text.txt", document="page")

"""Going on from a model: the body is the parent's to the bit, the head is new where it must be, the rest is refused."""

import pytest
import torch

from regard import models, recipe
from regard.attention.masks import Row
from regard.tasks.text_encoders.text_tokenizer import encode_truncated

TRAINING = {"steps": 2, "eval_every": 2, "save_every": 2, "device": "cpu", "tensorboard": False}
SIZES = {
    "rnn-encoder": {"width": 8, "embedding": 12, "depth": 2},
    "cnn-encoder": {"widths": [1, 2], "maps": 6, "embedding": 12},
    "transformer-encoder": {"width": 8, "embedding": 8, "heads": 2, "hidden": 16, "depth": 1, "positions": "learned"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("transfer")
    lines = [(f"le chat {n} dort {'bien' if n % 3 else 'mal'}", "un" if n % 3 else "deux") for n in range(40)]
    (place / "texts.csv").write_text("".join(f"{text},{label}\n" for text, label in lines))
    (place / "others.csv").write_text("".join(f"{text},{label.upper()}\n" for text, label in lines))
    (place / "tags.txt").write_text("".join(f"le/D chat/N {n}/X dort/V\n" for n in range(40)))
    (place / "text.txt").write_text("".join(f"{text}\n" for text, _ in lines))
    (place / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text, _ in lines))
    return place


def settings(folder, task, name=None, file=None, **model):
    files = {"classification": "texts.csv", "tagging": "tags.txt", "language": "text.txt", "translation": "pairs.tsv"}
    path = str(folder / (file or files[task]))
    data = {"train": [path] if task == "language" else {"path": path}}
    if task == "language":
        data |= {"window": 8, "batch_size": 2, "valid": [path]}
    model = {**({"name": name, **SIZES[name]} if name in SIZES else {}), **model}
    found = {"task": task, "data": data, "training": TRAINING, **({"model": model} if model else {})}
    return {**found, "tokenizer": {"vocab": 320}} if task == "translation" else found


def trained(folder, task, name, **more):
    out = folder / f"{task}-{name or 'own'}"
    if not out.exists():
        recipe.train(settings(folder, task, name, **more), out=out, quiet=True)
    return out


def begun(given, parent):
    """The task of a run that goes on from a parent, before its first step, and what is said of it."""
    before = recipe.open_model(parent)
    task, found = recipe.resolve(given)
    data = task.prepare(found, before)
    found = task.resolve(given, data, before)
    model = models.build(found.model)
    lines = task.adopt(model, before, data)
    return model, before, lines, data


def same(model, before, pairs):
    """How many weights under these prefixes are the parent's."""
    state, tensors, count = model.state_dict(), before.tensors(), 0
    for own, theirs in pairs.items():
        names = [name for name in state if name == own or name.startswith(f"{own}.")]
        assert names, own
        for name in names:
            other = tensors[theirs + name.removeprefix(own)]
            assert torch.equal(state[name][: len(other)], other[: len(state[name])]), name
            count += 1
    return count


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("one", "other"), [("classification", "tagging"), ("tagging", "classification")])
def test_a_classifier_becomes_a_tagger_and_a_tagger_a_classifier(folder, one, other, name):
    parent = trained(folder, one, name)
    model, before, [said], data = begun(settings(folder, other), parent)
    assert same(model, before, {"embedding": "embedding", "reader": "reader"}) > 1
    assert model.output.weight.shape[0] == len(data.classes)
    assert model.config.per_token == (other == "tagging")
    assert data.tokenizer.json() == before.text("tokenizer.json")
    assert said.endswith("tensors taken over, made anew: output")
    outcome = recipe.train(settings(folder, other), out=folder / f"{one}-to-{other}-{name}", start=parent, quiet=True)
    assert outcome.result.step == 2
    assert said in (outcome.folder / "train.log").read_text()


def test_the_encoder_of_a_translator_becomes_that_of_a_classifier(folder):
    sizes = {"width": 16, "heads": 2, "hidden": 32, "encoder": 2, "decoder": 1, "positions": "learned"}
    parent = trained(folder, "translation", None, **sizes)
    model, before, [said], data = begun(
        {**settings(folder, "classification"), "model": {"name": "transformer-encoder", "pool": "class"}}, parent
    )
    assert (model.config.name, model.config.depth, model.config.heads) == ("transformer-encoder", 2, 2)
    roles = {"embedding": "embedding", "reader.encoder": "encoder", "reader.positions": "encoder_positions"}
    assert same(model, before, roles) > 20
    assert said.endswith("made anew: output, reader")  # the class token and a place for it
    assert data.tokenizer.how.kind == "bpe"
    theirs = recipe.load(parent, device="cpu")
    text = "le chat 3 dort bien"
    [tokens] = encode_truncated(data.tokenizer, [text])
    plain, before, _, _ = begun(settings(folder, "classification"), parent)
    row, ids = Row.of([len(tokens)]), torch.tensor(tokens)
    features = plain.eval().reader(plain.embedding(ids), row).features
    torch.testing.assert_close(features, theirs.model.encode(ids, row), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_texts_are_cut_to_what_a_gpt_holds_unless_somebody_says_how_long_they_are(folder, task):
    text = folder / "text.txt"
    gpt = {"name": "gpt", "width": 8, "heads": 2, "hidden": 16, "depth": 1, "context": 4}
    data = {"train": [str(text)], "context": 4, "batch_size": 8, "document": "line"}
    parent = folder / "gpt"
    if not parent.exists():
        asked = {"task": "causal-lm", "data": data, "model": gpt, "tokenizer": {"kind": "words"}, "training": TRAINING}
        recipe.train(asked, out=parent, quiet=True)
    outcome = recipe.train(settings(folder, task), out=folder / f"gpt-{task}", start=parent, quiet=True)
    labeller = recipe.load(outcome.folder, device="cpu")
    assert labeller.tokenizer.how.max_length == labeller.model.config.context == 4
    asked = {**settings(folder, task), "tokenizer": {"max_length": 5}}
    with pytest.raises(ValueError, match=r"tokenizer\.max_length is 5 tokens, more than model\.context, 4: lower"):
        recipe.train(asked, out=folder / f"gpt-{task}-longer", start=parent, quiet=True)
    shorter = {**settings(folder, task), "tokenizer": {"max_length": 3}}
    outcome = recipe.train(shorter, out=folder / f"gpt-{task}-shorter", start=parent, quiet=True)
    assert recipe.load(outcome.folder, device="cpu").tokenizer.how.max_length == 3


@pytest.mark.parametrize("task", ["language", "translation"])
def test_recurrent_layers_become_those_of_a_classifier_and_read_the_same(folder, task):
    sizes = {"width": 8, "embedding": 12} | ({"depth": 2} if task == "language" else {"name": "seq2seq", "encoder": 2})
    parent = folder / f"{task}-recurrent"
    recipe.train({**settings(folder, task), "model": sizes}, out=parent, quiet=True)
    model, before, [said], _ = begun(settings(folder, "classification"), parent)
    assert (model.config.name, model.config.depth, model.config.embedding) == ("rnn-encoder", 2, 12)
    assert model.config.bidirectional == (task == "translation")
    theirs = "layers.{}.layers.0" if task == "language" else "encoder.layers.{}"
    assert same(model, before, {f"reader.layers.layers.{n}": theirs.format(n) for n in range(2)}) >= 8
    scale = 1.0 if task == "language" else 12**0.5
    torch.testing.assert_close(model.embedding.weight.detach(), before.tensors()["embedding.weight"] * scale)
    assert said.endswith("made anew: output")


def test_the_same_labels_go_on_as_they_are_and_others_get_a_new_head(folder):
    parent = trained(folder, "classification", "cnn-encoder")
    model, before, [said], _ = begun(settings(folder, "classification"), parent)
    assert said == f"starting from {before.directory}"
    assert same(model, before, {"embedding": "embedding", "reader": "reader", "output": "output"})
    model, before, [said], data = begun(settings(folder, "classification", file="others.csv"), parent)
    assert data.classes == ["DEUX", "UN"]
    assert same(model, before, {"embedding": "embedding", "reader": "reader"})
    assert not torch.equal(model.output.weight, before.tensors()["output.weight"]), "as many labels, but not the same"
    assert said.endswith("made anew: output")


@pytest.mark.parametrize(
    ("one", "name", "other", "model", "said"),
    [
        ("classification", "cnn-encoder", "language", {}, "whose body no model for language has"),
        (
            "classification",
            "rnn-encoder",
            "language",
            {},
            r"\(bidirectional\), which .* for language has not",
        ),
        ("classification", "rnn-encoder", "tagging", {"width": 9}, "model.width is 8 in .*, not 9"),
        (
            "classification",
            "rnn-encoder",
            "tagging",
            {"name": "transformer-encoder"},
            "model.name is .*, not transformer-encoder",
        ),
    ],
)
def test_a_body_that_does_not_fit_is_refused_in_one_line(folder, one, name, other, model, said):
    parent = trained(folder, one, name)
    with pytest.raises(ValueError, match=said) as error:
        begun(settings(folder, other, **model), parent)
    assert "\n" not in str(error.value)

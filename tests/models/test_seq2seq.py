"""The recurrent encoder-decoder: its equations, its laws, and proof that it learns."""

import random

import pytest
import torch
from safetensors.torch import load, save
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard import checkpoint
from regard.decoding.beam import Beam, search
from regard.interpret.watch import watch
from regard.models import MODELS
from regard.models.parts.cells import CELLS, Fused, StepwiseLayer
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.training.device import compiles
from tests.models.test_stepping import Beams
from tests.models.test_transformer import packed_features, padded_features, sequences

TINY = {"vocab": 19, "width": 8, "reading": 4, "embedding": 6, "dropout": 0.0, "context": 24}
WAYS = {
    "none": {"attention": "none"},
    "bahdanau": {"attention": "bahdanau"},
    "luong dot": {"attention": "luong_dot"},
    "luong general": {"attention": "luong_general"},
    "luong concat": {"attention": "luong_concat"},
    "luong fed": {"attention": "luong_general", "feed": True},
}
SHAPES = {
    **WAYS,
    "rnn": {"cell": "rnn"},
    "lstm": {"cell": "lstm", "encoder": 2, "decoder": 2},
    "lstm without attention": {"cell": "lstm", "attention": "none", "decoder": 2},
    "reset before": {"cell": "gru_before", "attention": "luong_general"},
    "one direction": {"bidirectional": False, "reading": None, "attention": "luong_dot", "encoder": 2},
    "nothing shared": {"share": "none", "target_vocab": 19},
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def build(**settings):
    """A tiny model with weights large enough for every path to be felt."""
    model = Seq2Seq(Seq2SeqConfig(**(TINY | settings)))
    for number in model.parameters():
        if number.dim() > 1:
            torch.nn.init.normal_(number, std=0.5)
    return model


def test_the_registry_knows_it():
    assert MODELS["seq2seq"] == (Seq2Seq, Seq2SeqConfig)


@each_shape
def test_packed_padded_filled_up_and_alone_agree_in_outputs_and_gradients(shape):
    model = build(**shape).double()
    sources, targets = sequences([4, 1, 6]), sequences([3, 5, 2])
    ways = [
        lambda: packed_features(model, sources, targets),
        lambda: padded_features(model, sources, targets),
        lambda: packed_features(model, sources, targets, tails=(7, 3)),
        lambda: packed_features(model, sources, targets, tails=(2, 9)),
        lambda: packed_features(model, sources, targets, tails=(2, 9), most=3),
        lambda: packed_features(model, sources, targets, tails=(7, 3), most=4),
        lambda: torch.cat([packed_features(model, [s], [t]) for s, t in zip(sources, targets, strict=True)]),
    ]
    expected = None
    for way in ways:
        features = way()
        loss = (model.logits(features) * torch.linspace(-1, 1, 19)).sum()
        outcome = [features, *torch.autograd.grad(loss, [*model.parameters()])]
        expected = expected or outcome
        for mine, theirs in zip(outcome, expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-8)


@each_shape
def test_stepping_is_reading_at_once_whatever_the_reordering(shape):
    generator = random.Random(0)
    beams = Beams(build(**{**shape, "vocab": 23, "target_vocab": 23}).double().eval(), [4, 1, 3])
    beams.check()
    for _ in range(4):
        beams.step(generator)
        beams.check()
        beams.reorder(generator)


@each_way
@pytest.mark.parametrize("seed", range(2))
def test_any_history_of_steps_reorderings_departures_arrivals_and_branches_is_reading_at_once(way, seed):
    generator, model = random.Random(seed), build(**way, vocab=23).double().eval()
    beams = Beams(model, [3, 5], limit=4)
    for _ in range(6):
        if int(beams.state.where.taken.max()) < beams.state.where.slots.shape[2]:
            branch = beams.copy()
            branch.step(generator)
            beams.step(generator)
            beams.check()
            branch.check()
        match generator.choice(["reorder", "reorder", "join", "keep"]):
            case "reorder":
                beams.reorder(generator)
            case "join":
                fresh = Beams(model, [generator.randrange(1, 7)], limit=generator.randrange(2, 7))
                for _ in range(generator.randrange(3)):
                    fresh.step(generator)
                    fresh.reorder(generator)
                beams.join(fresh)
            case "keep" if len(beams.texts) > 1:
                beams.keep(generator.sample(range(len(beams.texts)), len(beams.texts) - 1))
        beams.check()


@each_way
def test_an_empty_source_is_answered_in_finite_numbers_and_leaves_its_neighbours_alone(way):
    beams = Beams(build(**way, vocab=23).double().eval(), [3, 0])
    beams.step(random.Random(0))
    assert beams.logits.isfinite().all()
    beams.keep([0])
    beams.check()


@each_way
def test_everybody_may_leave_and_somebody_may_come(way):
    model = build(**way, vocab=23).double().eval()
    nobody = Beams(model, [3, 2]).state.keep(torch.tensor([], dtype=torch.int64))
    logits, nobody = model.step(torch.zeros(0, 3, dtype=torch.int64), nobody)
    assert logits.shape == (0, 3, 23)
    arrived = Beams(model, [4])
    arrived.state = nobody.join(arrived.state)
    arrived.step(random.Random(0))
    arrived.check()


@each_way
def test_the_future_cannot_change_the_past_nor_one_pair_another(way):
    model, (sources, targets) = build(**way), (sequences([4, 3]), sequences([3, 5]))
    before = packed_features(model, sources, targets)
    targets[1][2] = 4 + (targets[1][2] - 3) % 15
    changed = (packed_features(model, sources, targets) - before).abs().amax(-1).gt(1e-6).nonzero()[:, 0]
    assert changed.tolist() == [5, 6, 7]
    sources[0][1] = 4 + (sources[0][1] - 3) % 15
    after = packed_features(model, sources, targets)
    assert after[:3].sub(before[:3]).abs().amax(-1).gt(1e-6).all()


# Equations.


def read(model, source):
    """What the encoder shows of a sentence, and the decoder's first state, without attention's machinery."""
    seen, state = model.encoder((model.embedding.weight[source] * 6**0.5)[None])
    return seen[0], torch.tanh(model.bridge(state.flatten(1)))[0]


def test_bahdanau_looks_before_it_steps():
    model, (source,), (target,) = build(cell="gru_before"), sequences([4]), sequences([3])
    [decoder] = model.decoder
    [cell], score = decoder.layers.layers[0].cells, decoder.cross.score
    memory, h = read(model, source)
    expected = []
    for x in model.embedding.weight[target] * 6**0.5:
        scores = torch.tanh(h @ score.query[0] + memory @ score.key[0]) @ score.vector[0]
        context = scores.softmax(0) @ memory
        h = cell(torch.cat([x, context])[None], h[None, None])[0, 0]
        expected.append(torch.tanh(decoder.output(torch.cat([h, context, x]))))
    assert torch.allclose(packed_features(model, [source], [target]), torch.stack(expected), atol=1e-5)


@pytest.mark.parametrize("feed", [False, True])
@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_luong_steps_before_it_looks(score, feed):
    model, (source,), (target,) = build(attention=f"luong_{score}", feed=feed), sequences([4]), sequences([3])
    [decoder] = model.decoder
    [cell] = decoder.layers.to_stepwise().layers[0].cells
    memory, h = read(model, source)
    own = decoder.cross.score
    scores = {
        "dot": lambda h: memory @ h,
        "general": lambda h: memory @ (h @ own.weight[0]),
        "concat": lambda h: torch.tanh(torch.cat([h.expand(4, -1), memory], 1) @ stacked(own)) @ own.vector[0],
    }[score]
    expected, a = [], torch.zeros(6 if feed else 0)
    for x in model.embedding.weight[target] * 6**0.5:
        h = cell(torch.cat([x, a])[None], h[None, None])[0, 0]
        seen = torch.tanh(decoder.output(torch.cat([scores(h).softmax(0) @ memory, h])))
        expected.append(seen)
        a = seen if feed else a
    assert torch.allclose(packed_features(model, [source], [target]), torch.stack(expected), atol=1e-5)


def stacked(score):
    """One matrix for query and key side by side, as Luong writes it."""
    return torch.cat([score.query[0], score.key[0]])


def test_without_attention_all_that_is_known_of_the_source_is_its_end():
    model, (source,), (target,) = build(attention="none"), sequences([5]), sequences([3])
    [decoder] = model.decoder
    [cell] = decoder.layers.to_stepwise().layers[0].cells
    _, h = read(model, source)
    end = model.encoder.last(model.encoder((model.embedding.weight[source] * 6**0.5)[None])[1])[0]
    expected = []
    for x in model.embedding.weight[target] * 6**0.5:
        h = cell(torch.cat([x, end])[None], h[None, None])[0, 0]
        expected.append(torch.tanh(decoder.output(torch.cat([h, end, x]))))
    assert torch.allclose(packed_features(model, [source], [target]), torch.stack(expected), atol=1e-5)


def test_layers_are_fused_where_nothing_is_fed_back():
    kinds = {}
    for name, way in WAYS.items():
        model = build(**way)
        kinds[name] = type(model.encoder.layers[0]), type(model.decoder[0].layers.layers[0])
    assert {reader for reader, _ in kinds.values()} == {Fused}
    assert [name for name, (_, writer) in kinds.items() if writer is StepwiseLayer] == ["bahdanau", "luong fed"]
    assert type(build(cell="gru_before").encoder.layers[0]) is StepwiseLayer


# Looking.


@each_way
def test_its_looks_are_seen_example_by_example(way):
    model, (sources, targets) = build(**way).eval(), (sequences([4, 2]), sequences([3, 5]))
    if way["attention"] == "none":
        with pytest.raises(ValueError, match="this model has no attention"), watch(model):
            packed_features(model, sources, targets)
        return
    found = []
    for read_all in (packed_features, padded_features):
        with watch(model) as seen:
            read_all(model, sources, targets)
        assert list(seen) == ["decoder.0.cross"]
        found.append(seen["decoder.0.cross"])
    for one, other, shape in zip(*found, [(1, 3, 4), (1, 5, 2)], strict=True):
        assert one.shape == shape
        assert torch.allclose(one.sum(-1), torch.ones(shape[:2]))
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("way", [way for way in WAYS.values() if way["attention"] != "none"], ids=str)
def test_looks_along_the_winning_beam_are_those_of_reading_its_text_at_once(way):
    model = build(**way).eval()
    sources = sequences([5, 3])
    batch, lengths = pad_sequence(sources, batch_first=True), torch.tensor([5, 3])
    inputs = batch, lengths, torch.ones(2, 1, dtype=torch.int64)
    with watch(model) as seen:
        found = search(model, inputs, Beam(beams=3), limit=6, eos=2)
    best = [answers[0] for answers in found]
    along = seen.along(best)["decoder.0.cross"]
    for source, answer, weights in zip(sources, best, along, strict=True):
        fed = torch.tensor([1, *answer.tokens][: len(answer.path) + 1])
        with watch(model) as again:
            packed_features(model, [source], [fed])
        assert torch.allclose(weights, again["decoder.0.cross"][0], atol=1e-5)


@pytest.mark.parametrize("attention", ["bahdanau", "luong_general"])
def test_weights_can_be_put_in_the_place_of_others(attention):
    model, (sources, targets) = build(attention=attention).eval(), (sequences([4]), sequences([3]))
    before = packed_features(model, sources, targets)
    handle = model.decoder[0].cross.weights.register_forward_hook(lambda tap, inputs, weights: weights * 0)
    assert not torch.allclose(packed_features(model, sources, targets), before, atol=1e-3)
    handle.remove()
    assert torch.equal(packed_features(model, sources, targets), before)


# Learning, keeping, running.


@pytest.mark.unchecked
@each_shape
def test_a_model_learns_one_batch_by_heart_and_recites_it(shape):
    sizes = {"width": 32, "reading": 32 if shape.get("bidirectional") is False else 16, "embedding": 32}
    model = Seq2Seq(Seq2SeqConfig(**(TINY | shape | sizes)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    sources, answers = sequences([5, 3, 6, 2]), sequences([4, 6, 2, 5])
    targets = [F.pad(answer, (1, 0), value=1) for answer in answers]
    labels = torch.cat([F.pad(answer, (0, 1), value=2) for answer in answers])
    for _ in range(200):
        loss = F.cross_entropy(model.logits(packed_features(model, sources, targets)), labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if loss < 0.02:
            break
    assert loss < 0.05
    batch, lengths = pad_sequence(sources, batch_first=True), torch.tensor([*map(len, sources)])
    inputs = batch, lengths, torch.ones(4, 1, dtype=torch.int64)
    found = search(model.eval(), inputs, Beam(beams=1), limit=8, eos=2)
    assert [own[0].tokens for own in found] == [answer.tolist() for answer in answers]


@each_shape
def test_weights_share_no_memory_and_survive_safetensors(shape):
    model, again = build(**shape), build(**shape)
    weights = checkpoint.weights(model)
    assert sum(tensor.numel() for tensor in weights.values()) == sum(number.numel() for number in model.parameters())
    checkpoint.fill(again, load(save(weights)))
    sources, targets = sequences([4, 2]), sequences([3, 3])
    assert torch.equal(packed_features(model, sources, targets), packed_features(again, sources, targets))


@pytest.mark.parametrize("share", ["target", "none"])
def test_source_and_target_may_have_vocabularies_of_their_own(share):
    model = build(share=share, target_vocab=11)
    assert model.logits(packed_features(model, sequences([4]), sequences([3], vocab=11))).shape == (3, 11)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_vocab": 11}, r"model\.share: all needs one vocabulary"),
        ({"attention": "luong_dot", "reading": 8}, "the encoder has 16 features and the decoder 8: set reading to 4"),
        ({"feed": True}, "feed belongs to Luong's attention, not to bahdanau"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


@each_way
def test_dropout_acts_in_training_only(way):
    model = Seq2Seq(Seq2SeqConfig(**(TINY | way | {"dropout": 0.5})))
    sources, targets = sequences([4, 2]), sequences([3, 3])
    assert not torch.equal(packed_features(model, sources, targets), packed_features(model, sources, targets))
    model.eval()
    assert torch.equal(packed_features(model, sources, targets), packed_features(model, sources, targets))


@pytest.mark.parametrize("cell", CELLS)
def test_it_stays_in_full_precision_where_others_are_halved(cell):
    model, (sources, targets) = build(cell=cell), (sequences([4, 2]), sequences([3, 3]))
    expected = packed_features(model, sources, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(packed_features(model, sources, targets), expected)


def test_its_rows_are_recorded_and_never_compiled():
    assert not Seq2Seq.traits.compilable
    assert compiles(torch.device("cuda"), "auto", build())

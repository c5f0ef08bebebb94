"""Captioners: a picture in regions, writers with and without attention, and proof that they learn."""

import math
import random

import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard import config
from regard.attention.masks import Grid
from regard.decoding.beam import Beam, search
from regard.decoding.constraints import NoRepeat
from regard.interpret.watch import watch
from regard.models import build, config_of, revive
from regard.models.captioner import everywhere
from regard.models.inference.cpu import LeanDecoder
from tests.models.test_stepping import Beams

EYE = {"name": "vit", "size": 8, "patch": 4, "width": 12, "heads": 2, "hidden": 16, "depth": 1, "channels": 1}
SMALL = {"vocab": 23, "encoder": EYE, "dropout": 0.0, "context": 24}
WHOLE = {"name": "vgg", "size": 8, "channels": 1, "depths": [1, 1], "widths": [4, 6], "hidden": 10}
RECURRENT = {"name": "captioner", "width": 8, "embedding": 6, **SMALL}
BLOCKS = {"name": "transformer-captioner", "width": 8, "heads": 2, "hidden": 16, "decoder": 2, **SMALL}
WRITERS = {
    "none": {**RECURRENT, "attention": "none"},
    "none, from hidden layers": {**RECURRENT, "attention": "none", "begins": "hidden", "encoder": WHOLE},
    "soft": {**RECURRENT, "attention": "soft"},
    "soft, no gate": {**RECURRENT, "attention": "soft", "gated": False, "decoder": 2},
    "hard": {**RECURRENT, "attention": "hard"},
    "hard, mean": {**RECURRENT, "attention": "hard", "use": "mean", "cell": "gru"},
    "decoder": BLOCKS,
    "encoder and decoder": {**BLOCKS, "reader": 1},
}
each_writer = pytest.mark.parametrize("settings", WRITERS.values(), ids=WRITERS)


def made(settings, **more):
    """A tiny captioner in use, with weights large enough for every path to be felt."""
    torch.manual_seed(0)
    model = build(config_of({**settings, **more})).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.5)
    return model


def pictures(count):
    """Normalised pixels."""
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))


class Captions(Beams):
    """A search over pictures beside what every beam of every picture has really been fed."""

    def __init__(self, model, count, *, beams=3, limit=6, prompt=2):
        self.model, self.sources = model, list(model.regions(pictures(count).double()))
        prompts = torch.randint(4, 23, (count, prompt))
        self.logits, self.state = model.start(torch.stack(self.sources), prompts, beams=beams, limit=limit)
        self.texts = [[list(text) for _ in range(beams)] for text in prompts.tolist()]

    def check(self):
        """Every beam's logits are those of reading its own text from the start."""
        regions = torch.stack([each for each, texts in zip(self.sources, self.texts, strict=True) for _ in texts])
        targets = [torch.tensor(text) for texts in self.texts for text in texts]
        grid = Grid(torch.tensor([*map(len, targets)]), max(map(len, targets)))
        with torch.no_grad():
            features, _ = self.model(regions, pad_sequence(targets, batch_first=True), grid)
            read = self.model.logits(features[torch.arange(len(targets)), grid.lengths - 1])
        assert torch.allclose(self.logits.flatten(0, 1), read, atol=1e-8)


@each_writer
def test_stepping_is_reading_at_once_and_beams_may_be_reordered_kept_and_joined(settings):
    generator = random.Random(0)
    torch.manual_seed(0)
    beams = Captions(made(settings).double(), 3)
    beams.check()
    for _ in range(2):
        beams.step(generator)
        beams.reorder(generator)
        beams.check()
    beams.keep([2, 0])
    beams.join(Captions(beams.model, 2))
    beams.step(generator)
    beams.check()


@each_writer
def test_searches_are_those_of_translation_with_their_constraints(settings):
    model = made(settings)
    inputs = model.regions(pictures(3)), torch.full((3, 1), 1)
    several = search(model, inputs, Beam(beams=3), limit=8, eos=2)
    for number in range(3):
        own = search(model, [each[number : number + 1] for each in inputs], Beam(beams=3), limit=8, eos=2)
        assert own[0][0].tokens == several[number][0].tokens
    free = search(model, inputs, Beam(beams=3), limit=8, eos=2, constraints=[NoRepeat(1)])
    assert all(len(set(best[0].tokens)) == len(best[0].tokens) for best in free)


@pytest.mark.parametrize(
    "name", ["none", "soft", *(pytest.param(each, marks=pytest.mark.slow) for each in ("hard", "decoder"))]
)
def test_it_learns_to_tell_pictures_apart(name):
    """Four pictures, four captions; the encoder stays as it was."""
    torch.manual_seed(0)
    sizes = {"width": 32} if name == "decoder" else {"width": 32, "embedding": 24}
    model = build(config_of({**WRITERS[name], **sizes})).train()
    regions, captions = (
        model.regions(pictures(4)),
        torch.tensor([[1, 5, 6, 7], [1, 8, 9, 5], [1, 9, 9, 6], [1, 7, 5, 8]]),
    )
    labels, grid = F.pad(captions[:, 1:], (0, 1), value=2), Grid(torch.full((4,), 4), 4)
    before = {name: weight.clone() for name, weight in model.encoder.state_dict().items()}
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, 0.005 if name == "decoder" else 0.02)
    for _ in range(80):
        features, _ = model(regions, captions, grid)
        loss = F.cross_entropy(model.logits(features).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    found = search(model, (regions, captions[:, :1]), Beam(beams=1), limit=6, eos=2)
    assert [best[0].tokens for best in found] == captions[:, 1:].tolist()
    assert all(torch.equal(weight, before[name]) for name, weight in model.encoder.state_dict().items())


def test_a_frozen_encoder_has_no_gradient_and_a_tuned_one_has():
    for tuned in (False, True):
        model = made(WRITERS["soft"], tuned=tuned).train()
        assert model.encoder.training == tuned
        features, _ = model(
            model.regions(pictures(2)), torch.ones(2, 3, dtype=torch.int64), Grid(torch.tensor([3, 2]), 3)
        )
        features.sum().backward()
        assert all((weight.grad is not None) == tuned for weight in model.encoder.blocks.parameters())


def test_a_picture_as_a_whole_is_what_the_head_of_its_encoder_would_read():
    model = made(WRITERS["none, from hidden layers"])
    whole = build(config_of({**WHOLE, "classes": 3})).eval()
    whole.load_state_dict({**whole.state_dict(), **model.encoder.state_dict()})
    seen = model.regions(pictures(2))
    assert seen.shape == (2, 1, 10) == (2, *model.config.read)
    assert model.grid == (1, 1)
    assert torch.allclose(whole.head(seen[:, 0]), whole(pictures(2)), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": "soft"}, "model.begins=hidden is one vector, and soft attention looks at regions"),
        ({"encoder": {**WHOLE, "hidden": 0}}, "a VGG of 2 convolutions, 6 features, has none: set model.begins=mean"),
        ({"encoder": {"name": "vit", "size": 8, "patch": 4, "channels": 1}}, "such as a whole VGG16, and a ViT"),
    ],
)
def test_an_encoder_without_hidden_layers_below_a_head_cannot_begin_with_them(change, message):
    with pytest.raises(ValueError, match=message):
        config_of({**WRITERS["none, from hidden layers"], **change})


@pytest.mark.parametrize("name", ["soft", "hard", "decoder"])
def test_where_it_looked_is_seen_word_by_word_along_the_best_caption(name):
    """The weights along a search are those of reading its caption at once."""
    model = made(WRITERS[name])
    regions, prompt = model.regions(pictures(2)), torch.full((2, 1), 1)
    with watch(model) as seen:
        found = [best[0] for best in search(model, (regions, prompt), Beam(beams=3), limit=5, eos=2)]
    along = seen.along(found)
    cross = [one for one in along if "cross" in one]
    assert cross == {"soft": ["decoder.0.cross"], "hard": ["decoder.0.cross", "decoder.0.cross.chosen"]}.get(
        name, ["decoder.0.cross", "decoder.1.cross"]
    )
    for number, best in enumerate(found):
        fed = torch.tensor([[1, *best.tokens[: len(best.path)]]])
        with watch(model) as read:
            model(regions[number : number + 1], fed, Grid(torch.tensor([fed.shape[1]]), fed.shape[1]))
        for one in cross:
            assert along[one][number].shape == (model.decoder[0].cross.heads, fed.shape[1], 4)
            assert torch.allclose(along[one][number], read[one][0], atol=1e-6)


def test_hard_attention_draws_in_training_from_the_seed_and_not_in_use():
    model, regions = made(WRITERS["hard"], softened=0.0), made(WRITERS["hard"]).regions(pictures(6))
    tokens, grid = torch.randint(4, 23, (6, 5)), Grid(torch.full((6,), 5), 5)

    def features(seed):
        torch.manual_seed(seed)
        return model(regions, tokens, grid)

    model.train()
    (first, looks), (again, _), (other, _) = features(3), features(3), features(4)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert looks.log_probability.shape == looks.entropy.shape == (6, 5)
    assert (looks.log_probability < 0).all()
    model.eval()
    assert torch.equal(features(3)[0], features(4)[0])


def test_soft_attention_answers_with_its_weights_to_learn_from():
    model = made(WRITERS["soft"]).train()
    _, looks = model(model.regions(pictures(2)), torch.randint(4, 23, (2, 5)), Grid(torch.tensor([5, 3]), 5))
    assert looks.weights.shape == (2, 5, 4)
    assert torch.allclose(looks.weights.sum(-1), torch.ones(2, 5))


@each_writer
def test_padding_never_changes_a_caption(settings):
    model = made(settings).double()
    regions, tokens = model.regions(pictures(2).double()), torch.randint(4, 23, (2, 6))
    both, _ = model(regions, tokens, Grid(torch.tensor([6, 3]), 6))
    alone, _ = model(regions[1:], tokens[1:, :3], Grid(torch.tensor([3]), 3))
    assert torch.allclose(both[1, :3], alone[0], atol=1e-9)


def test_its_config_and_its_weights_come_back_and_the_baseline_is_no_weight():
    for settings in WRITERS.values():
        model = made(settings)
        kept = {name: weight for name, weight in model.state_dict().items() if name != "baseline"}
        twin = revive(config.plain(model.config), kept)
        assert twin.config == model.config
        regions = model.regions(pictures(1))
        tokens, grid = torch.tensor([[1, 4, 5]]), Grid(torch.tensor([3]), 3)
        assert torch.equal(twin(regions, tokens, grid)[0], model(regions, tokens, grid)[0])


def test_the_transformers_decoder_takes_the_fast_path_for_a_cpu():
    model = made(WRITERS["encoder and decoder"])
    inputs = model.regions(pictures(3)), torch.full((3, 1), 1)
    fast, plain = (search(each, inputs, Beam(beams=3), limit=8, eos=2) for each in (LeanDecoder(model), model))
    assert [best[0].tokens for best in fast] == [best[0].tokens for best in plain]
    assert everywhere(inputs[0]).lengths.tolist() == [4, 4, 4]


def test_the_baseline_follows_the_cost_of_steps_that_count():
    model, yes, no = made(WRITERS["hard"]), torch.tensor(True), torch.tensor(False)
    assert model.expected_loss == pytest.approx(math.log(23))
    model.update_expected_loss(torch.tensor(float("nan")), veto=yes)
    model.update_expected_loss(torch.tensor(3.0), veto=no)
    assert model.expected_loss == 3.0
    model.update_expected_loss(torch.tensor(2.0), veto=no)
    assert model.expected_loss == pytest.approx(2.9)

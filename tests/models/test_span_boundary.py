"""The span-boundary objective: tokens of a masked span predicted from the two beside it, as in SpanBERT's equations."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.config import build
from regard.metrics.likelihood import IGNORE
from regard.models.bert import BERT, BERTConfig
from regard.models.parts.span_boundary import LONGEST_SPAN, find_boundaries
from regard.tasks.pretraining.masking import MaskingConfig
from tests.tasks.pretraining.making import made

SIZES = {"vocab": 30, "width": 8, "heads": 2, "hidden": 16, "depth": 1, "context": 16, "dropout": 0.0}


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def layer_norm(x, norm):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + norm.eps) * norm.weight.detach().numpy() + norm.bias.detach().numpy()


def test_the_boundaries_of_spans_are_the_tokens_beside_them():
    places = torch.tensor([2, 3, 4, 7, 10, 11, 0, 0])  # the last two fill a row of fixed shape
    masked = torch.tensor([True] * 6 + [False] * 2)
    found = find_boundaries(places, masked=masked, tokens=14)
    assert found.left[:6].tolist() == [1, 1, 1, 6, 9, 9]
    assert found.right[:6].tolist() == [5, 5, 5, 8, 12, 12]
    assert found.position[:6].tolist() == [0, 1, 2, 0, 0, 1]
    assert all(0 <= place < 14 for place in (*found.left.tolist(), *found.right.tolist()))
    long = torch.arange(1, LONGEST_SPAN + 5)
    assert find_boundaries(long, masked=long > 0, tokens=200).position.max() == LONGEST_SPAN - 1


def test_predictions_are_those_of_the_equations():
    model = BERT(BERTConfig(span_boundary=True, **SIZES)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    features, places = torch.randn(12, 8), torch.tensor([3, 4, 5, 9])
    boundaries = find_boundaries(places, masked=places > 0, tokens=12)
    predicted = model.predict_spans(features, boundaries) @ model.prediction.T + model.bias
    head, x = model.boundary, features.numpy()
    table = head.positions.weight.detach().numpy()
    for row, (first, last, place) in enumerate([(3, 5, 3), (3, 5, 4), (3, 5, 5), (9, 9, 9)]):
        h = np.concatenate([x[first - 1], x[last + 1], table[place - first]])
        for linear, norm in ((head.inner, head.inner_norm), (head.outer, head.outer_norm)):
            h = layer_norm(gelu(linear.weight.detach().numpy() @ h + linear.bias.detach().numpy()), norm)
        expected = model.embedding.weight.detach().numpy() @ h + model.bias.detach().numpy()
        np.testing.assert_allclose(predicted[row].detach().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_what_stands_inside_a_span_is_not_looked_at():
    model = BERT(BERTConfig(span_boundary=True, **SIZES)).eval()
    features, places = torch.randn(12, 8), torch.tensor([3, 4, 5])
    boundaries = find_boundaries(places, masked=places > 0, tokens=12)
    changed = features.clone()
    changed[3:6] += 1.0
    assert torch.equal(model.predict_spans(features, boundaries), model.predict_spans(changed, boundaries))


@pytest.mark.parametrize("fixed", [False, True])
def test_the_loss_of_training_is_the_sum_of_both_objectives(fixed):
    task = made("masked-lm", "objective.unit=spans", "objective.span_boundary=true", "model.dropout=0.0")
    task.model.eval()
    batch = task._rows(task.prepared.train, 0, fixed=fixed).batch(0)
    both = task.step(batch, "model")
    plain = replace(task.recipe, objective=replace(task.recipe.objective, span_boundary=False))
    task.recipe, recipe = plain, task.recipe
    masked_only = task.step(batch, "model")
    task.recipe = recipe
    with torch.no_grad():
        features = task.model(batch.tokens, layout=batch.row, segments=batch.kinds(task.model))
        total, hidden = 0.0, set(batch.places[batch.labels != IGNORE].tolist())
        for place, label in zip(batch.places.tolist(), batch.labels.tolist(), strict=True):
            if label == IGNORE:
                continue
            first = max(at for at in range(place + 1) if at - 1 not in hidden)
            last = min(at for at in range(place, len(batch.tokens)) if at + 1 not in hidden)
            x = torch.cat(
                [features[first - 1], features[last + 1], task.model.boundary.positions.weight[place - first]]
            )
            head = task.model.boundary
            h = head.outer_norm(
                torch.nn.functional.gelu(head.outer(head.inner_norm(torch.nn.functional.gelu(head.inner(x)))))
            )
            total -= float((task.model.prediction @ h + task.model.bias).log_softmax(-1)[label])
    assert both.weight == masked_only.weight
    assert (both.loss - masked_only.loss).item() == pytest.approx(total, rel=1e-3)


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="span_boundary is learnt of spans: set unit: spans"):
        build(MaskingConfig, {"span_boundary": True})
    with pytest.raises(ValueError, match=r"model.span_boundary needs model.masked"):
        BERTConfig(span_boundary=True, masked=False, next_sentence=False, **SIZES)
    config = BERTConfig(span_boundary=True, **SIZES)
    assert config.parameters == sum(weight.numel() for weight in BERT(config).parameters())

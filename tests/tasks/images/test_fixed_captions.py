"""Captions read again while the captioner is disturbed: the checks of where it looked."""

import numpy as np
import pytest
import torch
from PIL import Image

from regard.decoding.teacher_forcing import read_written
from regard.interpret.measure.fixed_answers import check_answers
from regard.tasks.captions.fixed_captions import score_caption, weigh_regions
from tests.data.images.drawing import fill
from tests.tasks.images import captioning

pytestmark = pytest.mark.usefixtures("own_cache")
STEP = 1e-4
SHAPES = {
    "gru": {"attention": "soft"},
    "blind": {"attention": "none"},
    "transformer": {"name": "transformer-captioner", "width": 16, "heads": 2, "hidden": 16, "decoder": 2},
}


@pytest.fixture(scope="module", params=SHAPES)
def captioner(request, tmp_path_factory):
    photos = fill(tmp_path_factory.mktemp("pictures") / "photos", 6)
    lines = (f"{path.relative_to(photos)},a {path.parent.name} thing" for path in sorted(photos.rglob("*.png")))
    (photos / "captions.csv").write_text("\n".join(["path,caption", *lines]), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        asked = captioning.settings(photos, model=SHAPES[request.param])
        if request.param == "transformer":
            del asked["model"]["embedding"]
        trained = captioning.prepare_task(asked).make_writer()
    for weights in trained.model.decoder.parameters():
        torch.nn.init.normal_(weights, std=0.4)
    pictures = [np.asarray(Image.open(path)) for path in sorted(photos.rglob("*.png"))[:3]]
    return request.param, trained, pictures


def test_a_captioner_is_checked_as_far_as_it_looks(captioner):
    kind, trained, pictures = captioner
    counted = []
    answers = trained.fix_answers(pictures, tell=counted.append)
    report = check_answers(answers)
    assert sum(counted) == answers.count
    found = {(finding.method, finding.check) for finding in report.findings}
    reasons = {(gap.method, gap.check): gap.reason for gap in report.gaps}
    assert reasons["rollout", "deletion"] == ("no_attention" if kind == "blind" else "no_layers")
    assert ("gradient", "deletion") in found
    assert (("attention", "permuted") in found) == (kind != "blind")
    assert (("attention", "deletion") in found) == (kind != "blind")
    assert (("attention", "silenced") in found) == (kind == "transformer")
    assert all(
        set(finding.controls) == {"permuted", "centre"} for finding in report.findings if finding.check == "deletion"
    )


def test_a_caption_read_in_one_pass_has_the_scores_of_one_token_after_the_other(captioner):
    _, trained, pictures = captioner
    regions = trained.regions(pictures[:1])
    best = trained.search_caption(regions, trained.decoding)
    written = [*best.tokens, trained.tokenizer.role("end")]
    caption = [trained.tokenizer.opening, *written]
    logits = read_written(trained.model, (regions, torch.tensor([caption[:1]])), written)
    expected = logits.log_softmax(-1)[range(len(written)), written]
    with torch.no_grad():
        torch.testing.assert_close(score_caption(trained.model, regions, caption)[0], expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_region_is_that_of_finite_differences(captioner):
    _, trained, pictures = captioner
    regions, model = trained.regions(pictures[:1]).double(), trained.model.double()
    caption = [trained.tokenizer.opening, 5, 6, trained.tokenizer.role("end")]
    norms, place = weigh_regions(model, regions, caption), 1
    products = torch.zeros(regions.shape[-1], dtype=torch.float64)
    for feature in range(regions.shape[-1]):
        shift = torch.zeros_like(regions)
        shift[0, place, feature] = STEP
        with torch.no_grad():
            rise = score_caption(model, regions + shift, caption) - score_caption(model, regions - shift, caption)
        products[feature] = rise.sum() / (2 * STEP) * regions[0, place, feature]
    trained.model.float()
    assert float(norms[place]) == pytest.approx(float(products.norm()), rel=1e-4)

"""S20: a new, damaged or other model in a watched run folder is taken over or refused, and no request is lost.

And several devices: each has a worker, requests go to the one with the fewest open calls.
"""

import asyncio
import threading
from pathlib import Path

import pytest

from regard import checkpoint, models, shipped
from regard.models.vit import ViTConfig
from regard.serve.catalogue import load_models
from regard.serve.limits import Limits
from regard.serve.watching import check_same_kind
from regard.serve.worker import Worker
from regard.serve.worker_group import WorkerGroup
from regard.tasks.images.classifier import ImageClassifier
from tests.serve.harness import Counter, catalogue_of, make_eye, serving

pytestmark = pytest.mark.unchecked
SMALL = Path(__file__).parent.parent / "checkpoints" / "format-1"
TEXT = {"inputs": "le chat dort"}


def save_best(run: Path, *, factor: float = 1.0) -> None:
    """Write the best checkpoint of a run: a small translator whose last layer is multiplied."""
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    saved = checkpoint.read(SMALL)
    tensors = {name: tensor.clone() for name, tensor in saved.tensors().items()}
    name = next(name for name in reversed(tensors) if tensors[name].ndim == 2)
    tensors[name] *= factor
    files = {name: saved.data(name) for name in saved.files if not name.endswith(".safetensors")}
    checkpoint.write(run / "best", {**files, "model.safetensors": tensors}, facts={"step": saved.step})


def damage(run: Path) -> None:
    """Write a new checkpoint, one byte of whose weights is wrong."""
    save_best(run, factor=1.5)
    path = run / "best" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def put_other_model(run: Path) -> None:
    """Write another model: one that embeds texts."""
    saved = checkpoint.read(shipped.models()["encoder"].path)
    files = {name: saved.data(name) for name in saved.files}
    checkpoint.write(run / "best", files, facts={"step": 1})


def test_a_new_version_takes_over_between_two_requests(tmp_path):
    run = tmp_path / "run"
    save_best(run)
    catalogue = load_models([str(run)], device="cpu")
    with serving(catalogue, watched_devices=["cpu"], watch_seconds=0.05) as running:
        answers, is_over = [], threading.Event()

        def ask_again_and_again() -> None:
            with running.client() as client:
                while not is_over.is_set():
                    answer = client.post("/v1/translate", json=TEXT)
                    answers.append((answer.status_code, answer.json()["answers"][0]["score"]))

        askers = [threading.Thread(target=ask_again_and_again) for _ in range(2)]
        for asker in askers:
            asker.start()
        running.until(lambda: len(answers) > 2)
        old = answers[0][1]
        save_best(run, factor=1.25)
        running.until(lambda: answers[-1][1] != pytest.approx(old, abs=1e-5))
        running.until(lambda: "run: a new version has taken over" in running.lines)
        with running.client() as client:
            new = client.post("/v1/translate", json=TEXT).json()["answers"][0]["score"]
            trace = client.post("/v1/explain", json=TEXT).json()["trace"]
        is_over.set()
        for asker in askers:
            asker.join(600)
        assert {status for status, _ in answers} == {200}, "no request was lost"
        [alone] = catalogue.trained_models["run"].answer(["le chat dort"])
        assert new == pytest.approx(alone.score, abs=1e-4)
        assert trace["facts"]["score"] == pytest.approx(alone.score, abs=1e-4)
        assert all(min(abs(score - old), abs(score - new)) < 1e-4 for _, score in answers)


@pytest.mark.parametrize(
    ("change", "reason"), [(damage, "model.safetensors"), (put_other_model, "instead of a translator")]
)
def test_a_damaged_or_another_model_is_refused_once_and_the_old_one_stays(tmp_path, change, reason):
    run = tmp_path / "run"
    save_best(run)
    with (
        serving(load_models([str(run)], device="cpu"), watched_devices=["cpu"], watch_seconds=0.05) as running,
        running.client() as client,
    ):
        before = client.post("/v1/translate", json=TEXT).json()
        change(run)
        running.until(lambda: any("refused" in line for line in running.lines))
        assert client.post("/v1/translate", json=TEXT).json() == before
        save_best(run, factor=1.25)
        running.until(lambda: "run: a new version has taken over" in running.lines)
        said = [line for line in running.lines if "refused" in line]
        assert len(said) == 1
        assert said[0].startswith("run: the new version is refused, the old one stays: ")
        assert reason in said[0]
        assert client.post("/v1/translate", json=TEXT).json() != before


def test_another_architecture_is_another_model():
    wider = ViTConfig(size=16, patch=4, width=32, heads=2, hidden=16, depth=1, classes=2)
    other = ImageClassifier(models.build(wider).eval(), ["red", "blue"], {"mean": [0.5] * 3, "std": [0.5] * 3}, "eye")
    check_same_kind(make_eye(), make_eye())
    with pytest.raises(ValueError, match=r"another model: model.width changed"):
        check_same_kind(make_eye(), other)
    with pytest.raises(ValueError, match="instead of a counter"):
        check_same_kind(Counter(), make_eye())


def test_requests_go_to_the_device_with_the_fewest_open_calls():
    first, second = Counter(), Counter()
    with serving({"counter": first}, copies=[catalogue_of({"counter": second})]) as running:
        slow: list[int] = []

        def ask_slowly() -> None:
            with running.client() as client:
                slow.append(client.post("/v1/measure", json={"inputs": "slow"}).status_code)

        thread = threading.Thread(target=ask_slowly)
        thread.start()
        running.until(lambda: ["slow"] in first.batches + second.batches)
        busy, free = (first, second) if ["slow"] in first.batches else (second, first)
        with running.client() as client:
            for text in ("one", "two", "three"):
                assert client.post("/v1/measure", json={"inputs": text}).json()["answers"][0]["letters"] == len(text)
            assert free.batches[-3:] == [["one"], ["two"], ["three"]], "the other device is busy"
            assert client.get("/readyz").status_code == 200
            assert "regard_open_calls 1" in client.get("/metrics").text
        busy.release.set()
        thread.join(600)
        assert slow == [200]


def test_engines_on_several_devices_answer_and_stream_as_one_does(box):
    text = "Where is the old station?"
    copies = load_models(["en-fr"], device="cpu").trained_models

    async def ask() -> tuple[list[str], list[str]]:
        group = WorkerGroup([Worker({"en-fr": box["en-fr"]}, Limits()), Worker(copies, Limits())])
        group.start()
        try:
            answers = await asyncio.gather(*(group.answer("en-fr", [text], {"to": "fr"}) for _ in range(4)))
            pieces = [piece async for piece, _ in group.stream("en-fr", text, {"to": "fr", "beams": 1})]
            assert group.count_rows() == {"en-fr": 0}
            assert [worker.finished > 0 for worker in group.workers] == [True, True]
            return [answer.text for [answer] in answers], pieces
        finally:
            group.stop()
            assert not group.alive

    answers, pieces = asyncio.run(ask())
    assert answers == [box["en-fr"].translate(text, to="fr")] * 4
    assert pieces[-1] == box["en-fr"].translate(text, to="fr", beams=1)
    assert len(pieces) > 2


def test_if_one_device_cannot_take_a_new_model_over_all_keep_the_old_one():
    class Broken(Counter):
        def answer(self, inputs: list[str], **options: object) -> list:
            raise RuntimeError("it never answers")

    first, second = Counter(), Counter()
    group = WorkerGroup([Worker({"counter": first}, Limits()), Worker({"counter": second}, Limits())])

    async def replace() -> None:
        with pytest.raises(RuntimeError, match="it never answers"):
            await group.replace("counter", [Counter(), Broken()])

    group.start()
    try:
        asyncio.run(replace())
        assert [worker.models["counter"] for worker in group.workers] == [first, second]
    finally:
        group.stop()

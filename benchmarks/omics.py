"""MOMA and DeePROG beside logistic regression (scikit-learn) on ROSMAP and on breast cancer, all in one run.

    python -m benchmarks.omics DATA --out omics.json

DATA holds multiomics-rosmap and multiomics-breast-tcga. Nothing is chosen by test samples: the penalty of the
regression by five folds inside the training samples, how long a network trains by a fifth of them held out.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import regard
from regard.attention.multihead import MultiHead
from regard.models import omics as networks
from regard.tasks.omics import importance as importances
from regard.tasks.omics import samples as sample_data

MODELS = ("moma", "deeprog")
STEPS = (100, 150)  # of training, one of which is chosen
WHOLE = 4  # times five folds in which single omics and uniform attention are measured too
PENALTIES = [1e-3, 1e-2, 1e-1, 1.0]
SECTIONS = ("public", "folds", "breast")
Score = dict[str, float]


class Cohort(NamedTuple):
    """Samples by omic, and their classes."""

    names: tuple[str, ...]
    tables: list[np.ndarray]
    labels: np.ndarray

    def some(self, rows: np.ndarray) -> Cohort:
        """These rows only."""
        return Cohort(self.names, [table[rows] for table in self.tables], self.labels[rows])


def main() -> None:
    """Measure what was asked for, print it line by line and write all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, nargs="+", default=list(range(10)), help="which times five folds")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    begun, found = time.perf_counter(), dict[str, Any]()
    train, test = rosmap(asked.data, "tr"), rosmap(asked.data, "te")
    if "public" in asked.sections:
        found["public"] = public(train, test, range(asked.seeds))
    if "folds" in asked.sections:
        both = [np.concatenate(pair) for pair in zip(train.tables, test.tables, strict=True)]
        everybody = Cohort(train.names, both, np.concatenate([train.labels, test.labels]))
        found["folds"] = folds(everybody, asked.repeats)
    if "breast" in asked.sections:
        found["breast"] = public(breast(asked.data, "train"), breast(asked.data, "test"), range(asked.seeds), hide=0.25)
    found["seconds"] = round(time.perf_counter() - begun)
    print(f"{found['seconds']} s")
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def public(train: Cohort, test: Cohort, seeds: Sequence[int], *, hide: float | None = None) -> dict[str, Any]:
    """The published split: regressions once, networks with every seed, their importance judged."""
    found: dict[str, Any] = {}
    both = [place for place, table in enumerate(test.tables) if table.size]
    for name, places in [("all", both), *((train.names[place], [place]) for place in both)]:
        found[f"regression, {name}"] = told(f"regression, {name}", [regression(train, test, places)])
    for model in MODELS:
        scores, judged, alone = [], [], []
        for seed in seeds:
            steps = chosen(train, model, seed=seed, hide=hide)
            trained = fitted(train, model, steps=steps, seed=seed, hide=hide)
            samples = given(test, trained.omics)
            scores.append(measured(trained.probabilities(samples).numpy(), test.labels) | {"steps": steps})
            judged.append(judgement(trained, samples))
            alone.append({train.names[place]: one_omic(trained, samples, place) for place in both})
        found[model] = told(model, scores)
        found[model]["importance"] = {name: spread([each[name] for each in judged]) for name in judged[0]}
        ways = [name for name in judged[0] if name not in ("all", "random")]
        found[model]["fell more"] = {way: sum(each[way] < each["random"] for each in judged) for way in ways}
        found[model]["one omic given"] = {name: spread([each[name] for each in alone]) for name in alone[0]}
        print(f"  {found[model]['importance']} {found[model]['fell more']} of {len(judged)}", flush=True)
    return found


def judgement(trained: Any, samples: sample_data.Samples) -> dict[str, float]:
    """AUC with all features, without 20 random ones, and without the 20 top ones by every way to rank them."""
    ways: list[importances.Way] = ["gradient", "along"] if isinstance(trained.model, networks.MOMA) else ["gradient"]
    each = {way: importances.judge(trained.model, samples, trained.omics, way=way) for way in ways}
    one = each["gradient"]
    found = {way: found.without_top for way, found in each.items()}
    return {"all": one.all_features, "random": float(np.mean(one.without_random)), **found}


def folds(cohort: Cohort, repeats: Sequence[int]) -> dict[str, Any]:
    """Ten times five folds: all systems on the same ones; a score is that of all samples, answered once a repeat."""
    beside = [*(f"regression, {name}" for name in cohort.names), *(f"{model}, uniform attention" for model in MODELS)]
    scores: dict[str, list[Score]] = {name: [] for name in ("regression, all", *MODELS, *beside)}
    everything = list(range(len(cohort.names)))
    for repeat in repeats:
        whole = repeat < WHOLE
        answers = {name: np.zeros((len(cohort.labels), 2)) for name in scores if whole or name not in beside}
        splits = StratifiedKFold(5, shuffle=True, random_state=repeat).split(cohort.labels, cohort.labels)
        for fold, (inside, outside) in enumerate(splits):
            train, test, seed = cohort.some(inside), cohort.some(outside), 5 * repeat + fold
            answers["regression, all"][outside] = regressed(train, test, everything)
            for place, name in enumerate(cohort.names if whole else ()):
                answers[f"regression, {name}"][outside] = regressed(train, test, [place])
            for model in MODELS:
                steps = chosen(train, model, seed=seed)
                ways = {model: attentive, f"{model}, uniform attention": uniform}
                for name, how in list(ways.items())[: 1 + whole]:
                    with how():
                        trained = fitted(train, model, steps=steps, seed=seed)
                        found = trained.probabilities(given(test, trained.omics)).numpy()
                    answers[name][outside] = found
        for name, each in answers.items():
            scores[name].append(measured(each, cohort.labels))
            print(f"repeat {repeat}, {name}: {scores[name][-1]}", flush=True)
    return {name: told(name, each) | {"each": each} for name, each in scores.items() if each}


def chosen(train: Cohort, model: str, *, seed: int, hide: float | None = None) -> int:
    """How many steps to train, by the AUC on a fifth of the training samples as it is after so many."""
    with tempfile.TemporaryDirectory() as place:
        settings = asked_for(train, model, Path(place), steps=STEPS[-1], seed=seed, hide=hide)
        settings["data"] |= {"validation_share": 0.2}
        settings["training"] |= {"eval_every": 50}
        folder = regard.train(settings, out=Path(place) / "run", quiet=True).folder
        told = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        areas = {each["step"]: each["auc"] for each in told if "auc" in each}
    return max(STEPS, key=lambda steps: areas[steps])


def fitted(train: Cohort, model: str, *, steps: int, seed: int, hide: float | None = None) -> Any:
    """A model trained on all these samples."""
    with tempfile.TemporaryDirectory() as place:
        settings = asked_for(train, model, Path(place), steps=steps, seed=seed, hide=hide)
        outcome = regard.train(settings, out=Path(place) / "run", quiet=True)
        return regard.load(outcome.folder, device="cpu")


def asked_for(
    train: Cohort, model: str, folder: Path, *, steps: int, seed: int, hide: float | None
) -> dict[str, dict[str, Any] | Any]:
    """The settings of the recipes, for these samples."""
    return {
        "task": "omics",
        "data": {**written(train, folder), "validation_share": 0, "columns": "keep", "seed": seed},
        "model": {"name": model} if hide is None else {"name": model, "hide": hide},
        "optim": {"name": "adamw", "learning_rate": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1}
        | {"warmup": 10, "schedule": "cosine"},
        "training": {"steps": steps, "seed": seed, "eval_every": steps, "save_every": steps, "log_every": steps}
        | {"device": "cpu", "threads": 1, "tensorboard": False},
    }


def written(cohort: Cohort, folder: Path) -> dict[str, Any]:
    """The samples as files, and the data section that names them."""
    for name, table in zip(cohort.names, cohort.tables, strict=True):
        head = ",".join(f"{name}.{number}" for number in range(table.shape[1]))
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", fmt="%.9g", header=head, comments="")
    np.savetxt(folder / "labels.csv", cohort.labels, fmt="%d")
    train = [{"path": str(folder / f"{name}.csv")} for name in cohort.names]
    return {"train": train, "labels": str(folder / "labels.csv")}


def given(cohort: Cohort, omics: sample_data.Omics) -> sample_data.Samples:
    """Samples as a model takes them; an omic without columns is missing."""
    count = len(cohort.labels)
    there = [table.size > 0 for table in cohort.tables]
    full = [
        table if has else np.zeros((count, size))
        for table, has, size in zip(cohort.tables, there, omics.sizes, strict=True)
    ]
    names = tuple(map(str, range(count)))
    return sample_data.Samples(names, np.concatenate(full, 1), np.tile(there, (count, 1)), cohort.labels)


def one_omic(trained: Any, samples: sample_data.Samples, place: int) -> float:
    """The accuracy of the same model when all but one omic are missing."""
    present = np.zeros_like(samples.present)
    present[:, place] = True
    chances = trained.probabilities(sample_data.Samples(samples.names, samples.values, present)).numpy()
    return float((chances.argmax(1) == samples.targets).mean())


def regression(train: Cohort, test: Cohort, places: Sequence[int]) -> Score:
    """How good the regression on these omics is."""
    return measured(regressed(train, test, places), test.labels)


def regressed(train: Cohort, test: Cohort, places: Sequence[int]) -> np.ndarray:
    """What L2 logistic regression on scaled features answers."""
    before, after = (np.concatenate([cohort.tables[place] for place in places], 1) for cohort in (train, test))
    inner = StratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": PENALTIES}, cv=inner, scoring="neg_log_loss")
    return make_pipeline(StandardScaler(), search).fit(before, train.labels).predict_proba(after)


def measured(chances: np.ndarray, labels: np.ndarray) -> Score:
    """Accuracy and AUC, of several classes the mean of each against the others."""
    scores = chances[:, 1] if chances.shape[1] == 2 else chances
    area = float(roc_auc_score(labels, scores, multi_class="ovr"))
    return {"accuracy": round(float((chances.argmax(1) == labels).mean()), 4), "auc": round(area, 4)}


def told(name: str, scores: Sequence[Score]) -> dict[str, Any]:
    """Mean and standard deviation of every score, printed."""
    found = {metric: spread([each[metric] for each in scores]) for metric in scores[0]}
    print(f"{name}: {found}", flush=True)
    return found


def spread(values: Sequence[float]) -> list[float]:
    """Mean, and standard deviation where there are several."""
    deviation = [round(float(np.std(values, ddof=1)), 4)] if len(values) > 1 else []
    return [round(float(np.mean(values)), 4), *deviation]


@contextmanager
def uniform() -> Iterator[None]:
    """Networks built meanwhile look everywhere alike: every score is zero, in training and afterwards."""
    plain = networks.dot, networks.MultiHead
    networks.dot, networks.MultiHead = flat, partial(MultiHead, score=flat)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        networks.dot, networks.MultiHead = plain  # type: ignore[misc]


@contextmanager
def attentive() -> Iterator[None]:
    """Networks as they are."""
    yield


def flat(query: Tensor, key: Tensor) -> Tensor:
    """A score that fits every key alike."""
    return 0.0 * (query @ key.mT)


def rosmap(data: Path, part: str) -> Cohort:
    """Alzheimer's disease: mRNA, methylation and miRNA."""
    read = partial(np.loadtxt, delimiter=",")
    tables = [read(data / "multiomics-rosmap" / f"{place}_{part}.csv") for place in (1, 2, 3)]
    labels = read(data / "multiomics-rosmap" / f"labels_{part}.csv").astype(np.int64)
    return Cohort(("mrna", "methylation", "mirna"), tables, labels)


def breast(data: Path, part: str) -> Cohort:
    """Breast cancer; the test samples have no protein table."""
    folder, names = data / "multiomics-breast-tcga", ("mrna", "mirna", "protein")
    subtypes = (folder / f"{part}_subtype.csv").read_text(encoding="utf-8").split()
    labels = np.array([("Basal", "Her2", "LumA").index(subtype) for subtype in subtypes])
    paths = [folder / f"{part}_{name}.csv.gz" for name in names]
    tables = [numbers(path) if path.exists() else np.zeros((len(labels), 0)) for path in paths]
    return Cohort(names, tables, labels)


def numbers(path: Path) -> np.ndarray:
    """A table without the names of its samples and features."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return np.array([row[1:] for row in list(csv.reader(file))[1:]], dtype=np.float64)


if __name__ == "__main__":
    main()

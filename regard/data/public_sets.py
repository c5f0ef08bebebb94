"""Sources of the public datasets that recipes name, for the message that a file is missing."""

from __future__ import annotations

from pathlib import PurePath

GUIDE = 'docs/data.md, "Where public data comes from"'
SETS = {
    "tatoeba-eng-fra": "Tatoeba, fra.txt in fra-eng.zip of manythings.org/anki, gzipped",
    "multi30k": "Multi30k, data/task1 of github.com/multi30k/dataset, gzipped",
    "imdb": "IMDB, aclImdb_v1.tar.gz of ai.stanford.edu/~amaas, made into lines by scripts/imdb_lines.py",
    "ptb": "the Penn Treebank extract of Mikolov's simple-examples.tgz, gzipped",
    "tinyshakespeare": "tiny Shakespeare, data/tinyshakespeare of github.com/karpathy/char-rnn",
    "tinymoliere": "tiny Molière, data/tinymoliere.txt of github.com/grll/tiny-moliere as input.txt",
    "wikitext-2": "WikiText-2, word_language_model/data of github.com/pytorch/examples, renamed",
    "names": "surnames, data/names of the archive of PyTorch's tutorial on classifying names",
    "flickr8k": "Flickr8k, which its authors give on request: captions.csv.gz with image,caption and the folder images",
    "planetoid": "Cora and Citeseer of github.com/kimiyoung/planetoid, saved as arrays by yourself: docs/graphs.md",
    "multiomics-rosmap": "ROSMAP, the CSV files in the folder ROSMAP of github.com/txWang/MOGONET",
    "multiomics-breast-tcga": "breast.TCGA of the R package mixOmics, its tables saved as CSV by yourself",
    "mnist": "MNIST, its four idx files",
    "fashion-mnist": "Fashion-MNIST, data/fashion of github.com/zalandoresearch/fashion-mnist",
    "cifar10.npz": "CIFAR-10, cifar-10-binary.tar.gz made into arrays by scripts/make_cifar10.py",
}


def describe_source(name: str) -> str | None:
    """Return the public dataset of a missing file and its source, or None if it belongs to none."""
    parts = [part for part in PurePath(name).parts if part != "."]
    first = parts[1] if len(parts) > 1 and parts[0] == "data" else parts[0] if parts else ""
    return f"it belongs to {SETS[first]} (see {GUIDE})" if first in SETS else None

"""Kinds of training files: a description of each, and the option that names it."""

from __future__ import annotations

from typing import NamedTuple


class FileKind(NamedTuple):
    """A kind of files, selected by `--NAME` on the command line and `kind="NAME"` in Python."""

    words: str
    """What it is, in a sentence."""
    help: str
    metavar: str = "FILE"


FILE_KINDS: dict[str, FileKind] = {
    "pairs": FileKind("pairs of texts", "Pairs of texts: TSV, CSV, JSON lines, or two files."),
    "labelled": FileKind("labelled texts", "Texts with labels: CSV, TSV, JSON lines."),
    "tagged": FileKind("tagged words", "Words with tags: CoNLL, or word/tag."),
    "rated": FileKind("rated pairs", "Pairs of texts with a score."),
    "choices": FileKind("questions with choices", "Questions with answers to choose from."),
    "questions": FileKind("questions about texts", "Questions with answers in a text: SQuAD, JSON lines."),
    "text": FileKind("plain text", "Plain text: files, folders."),
    "pictures": FileKind(
        "labelled pictures", "Pictures with labels: a folder for each class, a table of paths, idx, npz.", "FOLDER"
    ),
    "captions": FileKind("pictures with captions", "Pictures with captions: CSV, JSON lines, Flickr8k's token file."),
    "graph": FileKind("a graph", "A graph with labelled nodes: npz."),
    "table": FileKind("a table", "A table of numbers, its columns named."),
    "tables": FileKind("several tables of the same samples", "Tables of the same samples, one per omic."),
}

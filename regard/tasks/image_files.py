"""Recognition of folders and files of labelled images."""

from __future__ import annotations

from pathlib import Path

from regard.data.images.image_tables import label_role, lists_pictures
from regard.data.sniff import array_names, is_folder
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SENTENCE = "labelled pictures: training a classifier"


def claim_labelled_images(inputs: Given) -> Claim | None:
    """Claim files that are declared as pictures, arrays of images, and tables with columns of paths and labels."""
    if inputs.to is not None:
        return None
    if not inputs.is_declared and not all(
        _holds_image_arrays(name) or (not is_folder(name) and lists_pictures(name, label_role()))
        for name in inputs.files
    ):
        return None
    train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
    return Claim(data_section(train, valid), SENTENCE, SURE if inputs.is_declared else NAMED)


def _holds_labelled_images(name: str) -> bool:
    """True if a file holds arrays of images, or names image files and their labels."""
    return _holds_image_arrays(name) or (not is_folder(name) and lists_pictures(name, label_role()))


def _holds_image_arrays(name: str) -> bool:
    """True if a file has the name of image arrays: npz or MNIST's idx."""
    return (Path(name).suffix.lower() == ".npz" and "edges" not in array_names(name)) or "idx3-ubyte" in Path(name).name

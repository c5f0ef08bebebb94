"""Whether files hold pictures with captions."""

from __future__ import annotations

from regard.data.column_names import CAPTIONS
from regard.data.columns import Role
from regard.data.images.image_tables import label_role, lists_pictures
from regard.data.sniff import FilePreview, is_folder
from regard.tasks.captions.files import is_token_line
from regard.training.task import NAMED, SURE, Claim, Given, data_section

CAPTION_ROLE = Role(name="caption", usual=CAPTIONS, required=False)
SENTENCE = "pictures with captions: training a captioner"


def recognise(inputs: Given) -> Claim | None:
    """Claim files that are declared to be captions, and tables with columns of image paths and captions."""
    if inputs.to is not None:
        return None
    if not inputs.is_declared and not all(
        not is_folder(name) and _lists_captioned_images(name) for name in inputs.files
    ):
        return None
    train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
    return Claim(data_section(train, valid), SENTENCE, SURE if inputs.is_declared else NAMED)


def _lists_captioned_images(name: str) -> bool:
    """True if a file names image files and their captions."""
    preview = FilePreview.read(name)
    if preview.lines and is_token_line(preview.lines[0]):
        return True
    return lists_pictures(name, CAPTION_ROLE) and not lists_pictures(name, label_role())

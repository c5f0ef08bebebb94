"""Detection of files in formats that are not supported, with how to save them as text."""

from __future__ import annotations

import os
from pathlib import Path

SAVE_PAIRS = "export it as tab-separated text, one pair in each line (docs/commands/train.md has a command for it)"
SAVE_MESSAGES = "export it as tab-separated text, one pair in each line (po2csv of the Translate Toolkit writes CSV)"
SAVE_TEXT = "save it as plain text (UTF-8)"
SAVE_TABLE = "save it as CSV (UTF-8)"
BY_SUFFIX = {
    ".tmx": ("a translation memory (TMX)", "train a translator on it with --pairs, or evaluate one on it"),
    ".xliff": ("a translation file (XLIFF)", SAVE_PAIRS),
    ".xlf": ("a translation file (XLIFF)", SAVE_PAIRS),
    ".sdlxliff": ("a translation file (XLIFF)", SAVE_PAIRS),
    ".mqxliff": ("a translation file (XLIFF)", SAVE_PAIRS),
    ".docx": ("a Word document", SAVE_TEXT),
    ".doc": ("a Word document", SAVE_TEXT),
    ".odt": ("an OpenDocument text", SAVE_TEXT),
    ".rtf": ("an RTF document", SAVE_TEXT),
    ".epub": ("an EPUB book", SAVE_TEXT),
    ".pdf": ("a PDF document", SAVE_TEXT),
    ".xlsx": ("an Excel spreadsheet", SAVE_TABLE),
    ".xls": ("an Excel spreadsheet", SAVE_TABLE),
    ".ods": ("an OpenDocument spreadsheet", SAVE_TABLE),
    ".parquet": ("a Parquet table", SAVE_TABLE),
    ".zip": ("a ZIP archive", "unpack it"),
}
BY_BEGINNING = {
    b"%PDF-": BY_SUFFIX[".pdf"],
    b"{\\rtf": BY_SUFFIX[".rtf"],
    b"PAR1": BY_SUFFIX[".parquet"],
    b"\xd0\xcf\x11\xe0": ("a document of an old Office", SAVE_TEXT),
    b"\x89PNG": ("a picture", "give texts, or pictures with --pictures"),
    b"\xff\xd8\xff": ("a picture", "give texts, or pictures with --pictures"),
}
ARCHIVE = b"PK\x03\x04"
ARRAYS = (".npz", ".npy")  # archives that other readers can open
MEMORY = ("a translation memory (TMX)", "give it a name that ends in .tmx")
MARKUP = {b"<tmx": MEMORY, b"<!doctype tmx": MEMORY, b"<xliff": BY_SUFFIX[".xliff"]}
PAGE = ("a web page (HTML), whose tags would be learnt", SAVE_TEXT)
PAGE_BEGINNINGS = ("<!doctype html", "<html")
MARKS_LEARNT = {
    **dict.fromkeys((".po", ".pot"), ("a catalogue of messages (PO), whose keywords would be learnt", SAVE_MESSAGES)),
    **dict.fromkeys(
        (".srt", ".vtt"),
        ("subtitles, whose numbers and times would be learnt", "keep only their lines of text, in a .txt file"),
    ),
    **dict.fromkeys((".html", ".htm", ".xhtml", ".shtml", ".mhtml", ".mht"), PAGE),
    ".tmx": ("a translation memory (TMX), whose tags would be learnt", "train a translator on it with --pairs"),
    ".xml": ("XML, whose tags would be learnt", SAVE_TEXT),
    ".ipynb": ("a notebook, whose JSON would be learnt", "export it, as jupyter nbconvert --to markdown does"),
}
"""Text between marks that nobody wants a language model to write."""


def describe_marks(name: str, beginning: str = "") -> str | None:
    """Return why a file is not plain text to train on, judged by its name or its beginning, and what to do.

    None if it may be plain text.
    """
    description = MARKS_LEARNT.get(Path(name.removesuffix(".gz")).suffix.lower())
    if description is None and beginning.lstrip("\ufeff \t\r\n").lower().startswith(PAGE_BEGINNINGS):
        description = PAGE
    return None if description is None else f"{name} is {description[0]}: {description[1]}"


def describe_marked_folder(folder: Path) -> str | None:
    """Return why a folder holds no plain text, if no file in it may be plain text; None if one may."""
    reason = None
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            marks = None if name.startswith(".") else describe_marks(str(Path(place) / name))
            if marks is None and not name.startswith("."):
                return None
            reason = reason or marks
    return reason


def refuse_foreign_format(name: str, beginning: bytes) -> None:
    """Raise ValueError for a file that is no text, or text in markup, judged by its name and first bytes."""
    ending = Path(name.removesuffix(".gz")).suffix.lower()
    if ending in ARRAYS:
        return
    description = BY_SUFFIX.get(ending) or next(
        (what for mark, what in BY_BEGINNING.items() if beginning.startswith(mark)), None
    )
    if description is None and beginning.startswith(ARCHIVE):
        description = ("an archive or an Office document", SAVE_TEXT)
    if description is None:
        start = beginning[:2000].lower()
        description = (
            next((what for mark, what in MARKUP.items() if mark in start), None) if b"<" in start[:8] else None
        )
    if description is not None:
        what, remedy = description
        raise ValueError(f"{name} is {what}, which is not read as it is: {remedy}")

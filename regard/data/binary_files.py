"""Detection of binary files such as Word documents, spreadsheets and archives, with what to do instead."""

from __future__ import annotations

from pathlib import Path

from regard.data.encodings import guess_encoding

HEAD = 1 << 13  # first bytes of a file, by which its kind is recognised
AS_TEXT = "save it as text (.txt) or HTML"
AS_TABLE = "save the sheet as CSV (UTF-8)"
KINDS = {
    **dict.fromkeys(("docx", "doc"), ("a Word document", AS_TEXT)),
    **dict.fromkeys(("odt", "rtf"), ("a text document of an office program", AS_TEXT)),
    **dict.fromkeys(("xlsx", "xls", "ods"), ("a spreadsheet", AS_TABLE)),
    **dict.fromkeys(("pptx", "ppt", "odp"), ("a presentation", AS_TEXT)),
    "pdf": ("a PDF document", "copy its text into a .txt file, with pdftotext for instance"),
    "epub": ("an e-book", AS_TEXT),
    **dict.fromkeys(("zip", "7z", "rar"), ("an archive", "unpack it and give the files in it")),
    **dict.fromkeys(("bz2", "xz", "zst"), ("a compressed file", "unpack it first, or compress it with gzip")),
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp", "tif", "tiff", "bmp"), ("a picture", "give a text file")),
    "parquet": ("a Parquet table", "write it as JSON lines or CSV"),
}
"""What files of these endings are, and the remedy."""
OFFICE = frozenset(("docx", "doc", "odt", "rtf", "xlsx", "xls", "ods", "pptx", "ppt", "odp", "epub"))
PACKED = frozenset(("zip", "7z", "rar", "gz", "bz2", "xz", "zst"))
ARRAYS = (".npz", ".npy")  # arrays of pictures and graphs, which some tasks read
SIGNATURES = {
    b"PK\x03\x04": "zip",
    b"\xd0\xcf\x11\xe0": "doc",
    b"{\\rtf": "rtf",
    b"%PDF-": "pdf",
    b"7z\xbc\xaf": "7z",
    b"Rar!": "rar",
    b"BZh": "bz2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"\x89PNG": "png",
    b"\xff\xd8\xff": "jpg",
    b"GIF8": "gif",
    b"PAR1": "parquet",
}
MEMBERS = {b"word/": "docx", b"xl/": "xlsx", b"ppt/": "pptx", b"opendocument.text": "odt", b"epub+zip": "epub"}
TEXT_CONTROLS = frozenset(b"\t\n\r\f\v\b\x1a\x1b")
MOST_CONTROLS = 0.02  # largest share of control bytes in what may still be damaged text
FEW_CONTROLS = 8  # largest number of them in a small file


def refuse_binary(head: bytes, name: str) -> None:
    """Raise ValueError, with a remedy, for a file whose first bytes are not text."""
    kind = binary_kind(head, name)
    if kind is not None and Path(name).suffix.lower() not in ARRAYS:
        what, remedy = KINDS.get(kind, ("a binary file", "give a text file"))
        raise ValueError(f"{name} is {what}, not text: {remedy}")


def binary_kind(head: bytes, name: str) -> str | None:
    """Return the usual file ending of a binary file, "" if its kind is unknown, None for text."""
    signature = next((kind for start, kind in SIGNATURES.items() if head.startswith(start)), None)
    ending = Path(name).suffix.lstrip(".").lower()
    if signature in ("zip", "doc"):
        member = next((kind for part, kind in MEMBERS.items() if part in head), None)
        return ending if ending in OFFICE else member or signature
    if signature is not None:
        return signature
    if not _is_binary(head):
        return None
    return ending if ending in KINDS else ""


def _is_binary(head: bytes) -> bool:
    """True if bytes are in no text encoding and have more control characters than damaged text would."""
    if not head or guess_encoding(head) is not None:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 3:  # the last character was cut off
            return False
    else:
        return False
    controls = sum(byte < 0x20 and byte not in TEXT_CONTROLS for byte in head)
    return controls > max(FEW_CONTROLS, MOST_CONTROLS * len(head))

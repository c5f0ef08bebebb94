"""Records of an XML file: the elements below the outermost one."""

from __future__ import annotations

from collections.abc import Iterator
from xml.parsers import expat

from regard.data.line_report import LineReport
from regard.data.readers import lines


class _RecordParser:
    """Collects the attributes of each element below the root, and the text of every element in it."""

    def __init__(self, path: str) -> None:
        self.path, self.depth, self.name = path, 0, ""
        self.line, self.fields = 0, dict[str, str]()
        self.records: list[tuple[int, dict[str, str]]] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._refuse

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth == 2:
            self.line, self.fields = self.parser.CurrentLineNumber, dict(attributes)
        elif self.depth == 3:
            self.name = name

    def _end(self, name: str) -> None:
        if self.depth == 2:
            self.records.append((self.line, self.fields))
        self.depth -= 1

    def _text(self, text: str) -> None:
        if self.depth > 2:
            self.fields[self.name] = self.fields.get(self.name, "") + text

    def _refuse(self, name: str, *rest: object) -> None:
        raise ValueError(f"{self.path} declares the entity {name}, which is not read: write out what it stands for")


def read_xml_records(path: str, tally: LineReport) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, attributes and texts by name) of every element below the root."""
    record_parser = _RecordParser(path)
    try:
        for number, line in enumerate(lines(path), start=1):
            if line is None:
                raise ValueError(f"{path}:{number}: a line that is too long for a file of questions: break it")
            record_parser.parser.Parse(line + b"\n")
            for record in record_parser.records:
                tally.read += 1
                yield record
            record_parser.records.clear()
        record_parser.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise ValueError(f"{path}:{error.lineno}: broken XML ({expat.ErrorString(error.code)}): mend it") from None

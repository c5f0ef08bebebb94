"""The files of a recipe as they were found: their contents decide what is cached, and must not change meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tokenizers as library

from regard.config.former_names import restore_former_names
from regard.data import cache
from regard.data.encodings import find_file
from regard.data.readers import Corpus, digest, has_heading
from regard.data.shards import SIDES
from regard.data.tokenizers import Tokenizer, TokenizerConfig
from regard.tasks.translation import indexing
from regard.tasks.translation.indexing import Rules, Survey, Watch


@dataclass(frozen=True)
class Sources:
    """Corpora, the rules that decide over their pairs, and what their files hold."""

    train: tuple[Corpus, ...]
    valid: tuple[Corpus, ...]
    rules: Rules
    digests: dict[str, list[list[str]]]
    """SHA-256 of every file of every corpus to train on and to measure on."""
    stamps: dict[str, tuple[int, int]]
    """Size and time of every file before it was first read."""
    notes: list[str] = field(default_factory=list)
    """What the user should hear about the cache."""

    @classmethod
    def find(cls, train: tuple[Corpus, ...], valid: tuple[Corpus, ...], rules: Rules) -> Sources:
        """Look for every file and read it once."""
        stamps = _file_stamps((*train, *valid))
        groups = {"train": train, "valid": valid}
        digests = {
            name: [[digest(file) for file in corpus.files] for corpus in group] for name, group in groups.items()
        }
        return cls(train, valid, rules, digests, stamps)

    @property
    def contents(self) -> dict[str, Any]:
        """Return what determines the texts used: hashes of the files and how they are read, but no file names."""

        def describe_corpus(corpus: Corpus, digests: list[str]) -> dict[str, Any]:
            read: dict[str, Any] = {
                "form": corpus.form,
                "columns": corpus.columns,
                "fields": corpus.fields,
                "tag": corpus.tag,
            }
            read |= {"heading": True} if has_heading(corpus) else {}
            return {"files": digests, **read, **({"prefix": corpus.prefix} if corpus.prefix else {})}

        groups = {"train": self.train, "valid": self.valid}
        sets = {name: list(map(describe_corpus, group, self.digests[name])) for name, group in groups.items()}
        apart = [] if self.rules.apart == "both" else [self.rules.apart]
        holdout = None if self.valid else [self.rules.held, self.rules.held_share, *apart]
        return {**sets, "held": holdout, "filters": [self.rules.ratio, self.rules.duplicates]}

    def survey(self, home: Path, watch: Watch | None = None) -> Survey:
        """Look at every line; `home` is the cache folder."""
        return indexing.survey(self.train, self.valid, self.rules, scratch=home, watch=watch)

    def tokenizers(
        self, config: TokenizerConfig, home: Path, survey: Callable[[], Survey]
    ) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of these texts, from the cache or trained now."""

        def train(place: Path) -> None:
            trained = indexing.tokenizers(self.train, survey(), config)
            for side, tokenizer in zip(SIDES, trained, strict=True):
                (place / f"{side}.json").write_text(tokenizer.json(), encoding="utf-8")
            self.check_unchanged()

        settings = restore_former_names(asdict(config), where="tokenizer")
        recipe = cache.key(**self.contents, tokenizer=settings, library=library.__version__)
        cached = cache.ensure_entry(home, f"tokenizers-{recipe}", train)
        self.notes.extend(cached.notes)
        source, target = (Tokenizer.parse((cached.place / f"{side}.json").read_text("utf-8"), config) for side in SIDES)
        return source, source if config.joint else target

    def check_unchanged(self) -> None:
        """Stop if a file is not as it was before it was first read."""
        for name, stamp in _file_stamps((*self.train, *self.valid)).items():
            if stamp != self.stamps[name]:
                raise ValueError(f"{name} changed while it was read: start again once it is complete")


def _file_stamps(corpora: tuple[Corpus, ...]) -> dict[str, tuple[int, int]]:
    stats = {name: find_file(name).stat() for corpus in corpora for name in corpus.files}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}

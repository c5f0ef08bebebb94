"""Experiments on writing: lab forcing, lab beams."""

from __future__ import annotations

from regard.cli.grammar import Json, Picture
from regard.cli.lab.options import RandomSeed
from regard.cli.lab.results import present, print_file_written
from regard.cli.text_io import PICTURE_FORMATS, check_writable


def forcing(seed: RandomSeed = 0, output: Picture = None, as_json: Json = False) -> None:
    """Teacher forcing against free running: how errors grow when a network reads its own answers."""
    from regard.lab.forcing import compare_forcing

    check_writable(output, PICTURE_FORMATS)
    present(compare_forcing(seed=seed), output, as_json=as_json)


def beams(seed: RandomSeed = 0, output: Picture = None, as_json: Json = False) -> None:
    """Greedy search against beams: a tree of words, and how often each misses the likeliest text."""
    from regard.interpret.draw import plots
    from regard.lab.beams import compare_searches, draw_search

    check_writable(output, PICTURE_FORMATS)
    demonstration = compare_searches(seed=seed)
    present(demonstration, None, as_json=as_json)
    if output is not None:
        plots.save(draw_search(demonstration), output)
        print_file_written(output, "the tree of words, and texts missed against beams", as_json)

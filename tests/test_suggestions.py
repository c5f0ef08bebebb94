"""What was probably meant: a known name is proposed where a typing mistake leads to it, and nowhere else."""

import pytest

from regard.config import words


@pytest.mark.parametrize(
    ("typed", "names", "meant"),
    [
        ("warmpu", ["rate", "warmup"], "warmup"),
        ("widht", ["maps", "widths"], "widths"),
        ("trian", ["train", "trial"], "train"),
        ("loar", ["full", "lora"], "lora"),
        ("sentimnt", ["topic", "sentiment"], "sentiment"),
        ("translate", ["language", "translation"], "translation"),
        ("smooth", ["smoothing"], "smoothing"),
        ("gpt-2", ["gpt3", "gpt2"], "gpt2"),
        ("Label", ["text", "label"], "label"),
        ("weight decay", ["weight_decay"], "weight_decay"),
        ("groupe", ["age", "group"], "group"),
        ("aa", ["a", "b"], "a"),
        ("alexnet", ["resnet", "vgg", "vit"], None),
        ("label", ["groupe", "age", "taille"], None),
        ("groupe", ["label", "age"], None),
        ("vit-base", ["t5-base", "bert-base", "base"], None),
        ("lang", ["longest", "beams"], None),
        ("gat", ["gpt", "vit"], None),
        ("", ["a"], None),
        ("nothing", [], None),
    ],
)
def test_what_was_meant_is_proposed_only_where_it_is_near(typed: str, names: list[str], meant: str | None):
    assert words.closest(typed, names) == meant


def test_typing_mistakes_are_counted_as_edits_are_and_two_letters_swapped_once():
    for typed, meant in (("warmpu", "warmup"), ("kitten", "sitting"), ("", "abc"), ("abc", "abc"), ("ca", "abc")):
        assert words.count_typos(typed, meant) == words.count_typos(meant, typed)
    assert [words.count_typos("trian", name) for name in ("train", "trial", "brain", "rain")] == [1, 1, 2, 2]
    assert words.count_typos("kitten", "sitting") == 3

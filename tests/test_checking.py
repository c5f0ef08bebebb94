"""Wrong shapes and wrong types are found in every test, but in those that ask for none of it."""

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError

from regard.attention.attend import attend
from regard.decoding.beam import Beam
from tests.checking import plain
from tests.conftest import unchecked

QUERY, KEY, OTHER = (torch.zeros(1, 2, length, 4) for length in (3, 5, 6))


def test_axes_of_one_name_must_have_one_length():
    with pytest.raises(TypeCheckError, match="value"):
        attend(QUERY, KEY, OTHER)
    with unchecked():
        attend(QUERY, KEY, OTHER)  # torch itself does not mind


def test_arguments_without_tensors_must_have_their_types():
    with pytest.raises(BeartypeCallHintViolation, match="beams"):
        Beam(beams="4")
    with unchecked(), pytest.raises(TypeError, match="'<=' not supported"):  # as without any check
        Beam(beams="4")


def test_a_signature_that_might_name_tensors_is_left_to_jaxtyping():
    from jaxtyping import Float

    def known(x: "int | None", *more: str) -> list[str]: ...
    def named(x: "Floats") -> int: ...
    def given(x: Float[torch.Tensor, "a"]) -> int: ...
    def within(x: int) -> tuple[int, Float[torch.Tensor, "a"]]: ...

    assert plain(known)
    assert not any(map(plain, (named, given, within)))

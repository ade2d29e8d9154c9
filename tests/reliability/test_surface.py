"""Hostile arguments for every public name: taken, or refused by an error that names them."""

import pytest

import surface


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", sorted(surface.subjects()))
def test_hostile_arguments_are_taken_or_named(name):
    if name in surface.REFUSING:
        with pytest.raises(ValueError, match="has no density"):
            surface.called(name, {})
        return
    surface.called(name, {})  # What fits is taken: otherwise the argument at fault could not be told.
    complaints = [surface.complaint(case) for case in surface.cases() if case.name == name]
    assert [each for each in complaints if each] == []

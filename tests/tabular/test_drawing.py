"""Small charts: numbers beside an axis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.tabular.drawing import _number

UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_beside_an_axis_is_short(value):
    assert len(_number(value)) <= 7


@given(st.floats(1e-3, 1e11), st.sampled_from([-1, 1]))
def test_a_number_beside_an_axis_has_three_digits(size, sign):
    shown = _number(sign * size)
    unit = UNITS.get(shown[-1], 1.0)
    assert float(shown.rstrip("kMG")) * unit == pytest.approx(sign * size, rel=0.006)

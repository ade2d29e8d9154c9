"""Angles and unit vectors are one thing in two forms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmcl.directions import from_vectors, tangents, to_vectors, unit_vectors, vector_directions

ANGLES = st.tuples(st.floats(-3.14, 3.14), st.floats(-1.5, 1.5))


@given(ANGLES, st.floats(1e-3, 1e3))
def test_there_and_back_at_any_length(angles, length):
    angles = torch.tensor(angles, dtype=torch.float64)
    torch.testing.assert_close(from_vectors(length * to_vectors(angles)), angles, rtol=0, atol=1e-9)
    torch.testing.assert_close(from_vectors(to_vectors(angles), least=1e-6), angles, rtol=0, atol=1e-9)


@given(ANGLES)
def test_arrays_are_as_tensors(angles):
    angles = np.array(angles)
    vectors = to_vectors(torch.from_numpy(angles))
    np.testing.assert_allclose(unit_vectors(angles), vectors.numpy(), atol=1e-15)
    np.testing.assert_allclose(vector_directions(vectors.numpy()), from_vectors(vectors).numpy(), atol=1e-15)


@given(ANGLES)
def test_tangents_complete_an_orthonormal_frame(angles):
    angles = torch.tensor(angles, dtype=torch.float64)
    frame = torch.stack([to_vectors(angles), *tangents(angles)])
    torch.testing.assert_close(frame @ frame.T, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(torch.linalg.det(frame), torch.tensor(1.0, dtype=torch.float64))


def test_gradients_at_the_pole_are_finite_with_a_least_radius():
    pole = torch.tensor([0.0, 0.0, 1.0], requires_grad=True)
    assert torch.autograd.grad(from_vectors(pole, least=1e-6).sum(), pole)[0].isfinite().all()


@pytest.mark.parametrize(
    ("function", "value", "message"),
    [
        (unit_vectors, np.zeros((4, 3)), r"directions must be \(\*batch, 2\), got \(4, 3\)"),
        (vector_directions, np.zeros((3, 2)), r"vectors must be \(\*batch, 3\), got \(3, 2\)"),
        (unit_vectors, np.float64(1.0), r"directions must be \(\*batch, 2\), got \(\)"),
    ],
)
def test_other_numbers_of_coordinates_are_refused(function, value, message, unchecked):
    with pytest.raises(ValueError, match=message):
        function(value)

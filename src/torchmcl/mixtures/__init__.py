"""Mixtures of kernels around the hypotheses: smooth predictive densities."""

from torchmcl.mixtures.kernels import (
    GaussianKernel,
    Kernel,
    LaplaceKernel,
    StudentKernel,
    VonMisesFisherKernel,
    kernel_named,
)
from torchmcl.mixtures.mixture import KernelMixture

__all__ = [
    "GaussianKernel",
    "Kernel",
    "KernelMixture",
    "LaplaceKernel",
    "StudentKernel",
    "VonMisesFisherKernel",
    "kernel_named",
]

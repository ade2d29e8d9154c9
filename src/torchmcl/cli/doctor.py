"""What is installed, what the machine has, and how to get what is missing."""

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

__all__ = ["OPTIONAL", "Part", "explain_missing", "report"]

REQUIRED = ("torch", "lightning", "torchmetrics", "numpy", "scipy", "scikit-learn", "POT", "hydra-core")


@dataclass(frozen=True)
class Part:
    """Something that works only when a module of an extra is installed."""

    module: str
    extra: str
    purpose: str

    @property
    def present(self) -> bool:
        """Whether the module can be imported."""
        return find_spec(self.module) is not None

    @property
    def remedy(self) -> str:
        """One sentence for who lacks it."""
        return f"{self.purpose} needs {self.module}: pip install 'torchmcl[{self.extra}]'"


OPTIONAL = (
    Part("soundfile", "audio", "reading and writing sound"),
    Part("tensorboard", "audio", "the log of a training run"),
    Part("ray", "cluster", "a study on many machines"),
)


def report() -> str:
    """Everything that a bug report should begin with, a line each.

    >>> report().split()[0]
    'torchmcl'
    """
    import torch

    import torchmcl

    lines = [f"torchmcl {torchmcl.__version__}", f"Python {platform.python_version()}, {sys.executable}"]
    lines.append(f"{platform.system()} {platform.release()}, {platform.machine()}")
    lines += [f"{name} {_version(name)}" for name in REQUIRED]
    lines.append(f"cores {os.cpu_count()}, threads of torch {torch.get_num_threads()}{_limits()}")
    lines.append(f"GPUs {torch.cuda.device_count()}")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    lines.append(f"Chromium {browser}" if browser else "Chromium missing: only tests of pages need it")
    lines += [
        f"{part.module} {_version(part.module)}: {part.purpose}"
        if part.present
        else f"missing: {part.remedy}"
        for part in OPTIONAL
    ]
    return "\n".join(lines)


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """The sentence for an import that failed, or `None` where no extra would mend it.

    >>> explain_missing(ModuleNotFoundError("No module named 'soundfile'", name="soundfile"))
    "reading and writing sound needs soundfile: pip install 'torchmcl[audio]'"
    """
    found = (
        part
        for part in OPTIONAL
        if (error.name.split(".")[0] == part.module if error.name else part.module in str(error))
    )
    return next((part.remedy for part in found), None)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _limits() -> str:
    named = [
        f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ
    ]
    return f" ({', '.join(named)})" if named else ""

"""The command `doctor`: what is installed, what the machine has, and how to get what is missing."""

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

__all__ = ["COMMANDS", "OPTIONAL", "OptionalModule", "doctor", "explain_missing", "report"]

REQUIRED = (
    "torch",
    "lightning",
    "torchmetrics",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "POT",
    "hydra-core",
)


@dataclass(frozen=True)
class OptionalModule:
    """A module of an extra, and what it is needed for."""

    module: str
    extra: str
    purpose: str

    @property
    def installed(self) -> bool:
        """Whether the module can be imported."""
        return find_spec(self.module) is not None

    @property
    def remedy(self) -> str:
        """How to install it, in one sentence."""
        return f"{self.purpose} needs {self.module}: pip install 'torchmcl[{self.extra}]'"


OPTIONAL = (
    OptionalModule("soundfile", "audio", "reading and writing sound"),
    OptionalModule("sofar", "audio", "reading measured room responses (SOFA)"),
    OptionalModule("tensorboard", "audio", "the log of a training run"),
    OptionalModule("pyarrow", "tables", "reading Parquet files"),
    OptionalModule("fastapi", "web", "the page of torchmcl serve"),
    OptionalModule("uvicorn", "web", "the server of torchmcl serve"),
    OptionalModule("python_multipart", "web", "uploads to torchmcl serve"),
    OptionalModule("websockets", "web", "live sound on the page of torchmcl serve"),
    OptionalModule("onnx", "export", "writing ONNX files"),
    OptionalModule("onnxscript", "export", "translating networks to ONNX"),
    OptionalModule("onnxruntime", "export", "running ONNX files"),
    OptionalModule("huggingface_hub", "hub", "sharing models on the Hugging Face Hub"),
    OptionalModule("ray", "cluster", "a study on many machines"),
    OptionalModule("ngboost", "bench", "NGBoost in the study of tables"),
    OptionalModule("zuko", "bench", "normalizing flows in the study of tables"),
    OptionalModule("lightgbm", "bench", "quantile boosting in the study of tables"),
    OptionalModule("mapie", "bench", "conformal calibration in the study of tables"),
)


def doctor() -> None:
    """Report what is installed, what the machine has, and how to install what is missing.

    Example: `torchmcl doctor`

    Writes nothing; paste the output into a bug report.

    Read more: docs/tutorials/start.md
    """
    print(report())


COMMANDS = (doctor,)


def report() -> str:
    """The versions, the machine and the optional modules, a line each.

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
        f"{optional.module} {_version(optional.module)}: {optional.purpose}"
        if optional.installed
        else f"missing: {optional.remedy}"
        for optional in OPTIONAL
    ]
    return "\n".join(lines)


def explain_missing(error: ModuleNotFoundError) -> str | None:
    """The sentence for an import that failed, or `None` where no extra provides the module.

    >>> explain_missing(ModuleNotFoundError("No module named 'soundfile'", name="soundfile"))
    "reading and writing sound needs soundfile: pip install 'torchmcl[audio]'"
    """
    matching = (
        optional
        for optional in OPTIONAL
        if (error.name.split(".")[0] == optional.module if error.name else optional.module in str(error))
    )
    return next((optional.remedy for optional in matching), None)


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

"""Sound source localization: first-order Ambisonics, scenes, data sets, features and networks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchmcl.audio.localizer import BUNDLED_MODEL, Localizer
    from torchmcl.audio.predictions import Localization

__all__ = ["BUNDLED_MODEL", "Localization", "Localizer"]

# Imported when used: simulating scenes needs no network.
_LATE = {"BUNDLED_MODEL": "localizer", "Localization": "predictions", "Localizer": "localizer"}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"torchmcl.audio.{_LATE[name]}"), name)
    raise AttributeError(f"module 'torchmcl.audio' has no attribute {name!r}")

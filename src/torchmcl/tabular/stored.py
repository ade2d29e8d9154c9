"""Estimators that are saved to a folder, read again, and shared."""

from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from sklearn.utils.validation import check_is_fitted

from torchmcl.sharing.cards import check_own
from torchmcl.sharing.hub import Shared, fetched

__all__ = ["Stored"]

Kind = TypeVar("Kind", bound="Stored")


class Stored(Shared):
    """The methods of an estimator with a module that has `save` and `load` of its own."""

    @staticmethod
    def _storage() -> ModuleType:
        raise NotImplementedError

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder: `model.safetensors`, `config.json` and a card, `README.md`.

        Args:
            folder: Made where it is missing; an earlier model in it is replaced.
        """
        check_is_fitted(self)
        check_own(folder)
        self._storage().save(self, Path(folder))

    @classmethod
    def load(cls: type[Kind], folder: str | Path, network: Any = None) -> Kind:
        """Read a model that `save` wrote; its predictions are equal to the last bit.

        Args:
            folder: That of `save`.
            network: What made the network, for a model with a network of its own: code is never stored.
        """
        return cast("Kind", cls._storage().load(cls, Path(folder), network))

    @classmethod
    def from_pretrained(
        cls: type[Kind], source: str | Path, network: Any = None, *, revision: str | None = None
    ) -> Kind:
        """Read a model from a folder or from the Hugging Face Hub (extra `hub`).

        Only weights, JSON and the card are fetched; nothing of them can run.

        Args:
            source: A folder, or `"owner/name"` on the Hub.
            network: As for `load`.
            revision: A branch, tag or commit on the Hub.
        """
        return cls.load(fetched(source, revision), network)

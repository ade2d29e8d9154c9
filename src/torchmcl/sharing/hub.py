"""Models on the Hugging Face Hub: fetched by name, and pushed; only weights, JSON and the card ever travel."""

import re
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torchmcl.errors import UserError
from torchmcl.sharing.cards import CARD

__all__ = ["FILES", "Shared", "fetched"]

FILES = ("config.json", "model.safetensors", "calibration.json", CARD)
"""The only files that are fetched and pushed. None of them can run."""

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def fetched(source: str | Path, revision: str | None = None) -> Path:
    """The folder of a model: a folder itself, or what a name on the Hub stands for.

    A string that is an existing folder is that folder; a `Path` is never a name.

    Args:
        source: A folder, or `"owner/name"`.
        revision: A branch, tag or commit on the Hub; its main branch if `None`.

    Returns:
        The folder; that of a name is in the cache of `huggingface_hub`.
    """
    if not isinstance(source, str | PathLike):
        raise TypeError(f"folder must be a path or a name on the Hub, got {type(source).__name__}")
    if not isinstance(source, str) or Path(source).is_dir() or not NAME.fullmatch(source):
        if revision is not None:
            raise UserError(f"{source}: revision is for names on the Hub, and this is a folder")
        return Path(source)
    hub = _client()
    try:
        return Path(hub.snapshot_download(source, revision=revision, allow_patterns=list(FILES)))
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{source}: is no folder here, and could not be fetched from the Hub ({reason})"
        ) from None


class Shared:
    """A model that can be pushed to the Hub; its class has a method `save`."""

    def push_to_hub(self, name: str, *, private: bool = True, revision: str | None = None) -> str:
        """Push the model and its card to the Hugging Face Hub; needs the extra `hub` and a login.

        Args:
            name: `"owner/name"`; made where it is missing.
            private: Whether a repository that is made can be seen by its owner only.
            revision: The branch to push to; the main one if `None`.

        Returns:
            The address of the repository.
        """
        if not NAME.fullmatch(name):
            raise UserError(f"name is {name!r}, must be 'owner/name'")
        hub = _client()
        with TemporaryDirectory() as folder:
            self.save(folder)  # type: ignore[attr-defined]
            try:
                client = hub.HfApi()
                address = client.create_repo(name, private=private, exist_ok=True)
                client.upload_folder(
                    repo_id=name,
                    folder_path=folder,
                    allow_patterns=list(FILES),
                    revision=revision,
                    commit_message="Model and card, written by torchmcl",
                )
            except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
                reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
                raise UserError(f"{name}: could not be pushed to the Hub ({reason})") from None
        return str(address)


def _client() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ModuleNotFoundError:
        raise UserError(
            "sharing models on the Hugging Face Hub needs huggingface_hub: pip install 'torchmcl[hub]'"
        ) from None
    return huggingface_hub

"""Scenes and settings that the tests of this folder share."""

import pytest

from torchmcl.audio.scenes import SceneSettings
from torchmcl.audio.simulate import simulate


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """A folder of the scenes of scale=smoke."""
    folder = tmp_path_factory.mktemp("reliability") / "scenes"
    settings = SceneSettings(condition="anechoic", recordings=5, duration=2.0, sample_rate=16000)
    simulate(folder, settings)
    return folder


@pytest.fixture
def smoke(scenes, tmp_path):
    """The words of a small run in `tmp_path / NAME`."""

    def words(name, *more):
        return [
            "scale=smoke", "trainer.threads=1", "trainer.accelerator=cpu", f"data.folder={scenes}",
            f"run={tmp_path / name}", *more,
        ]  # fmt: skip

    return words

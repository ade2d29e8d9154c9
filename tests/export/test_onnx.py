"""ONNX files: answers of onnxruntime are those of PyTorch, and nothing of ours is needed to open them."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

import torchmcl
from export import models
from shape_types import no_shape_types
from torchmcl.audio.exporting import ProductFeatures
from torchmcl.audio.features import StftFeatures
from torchmcl.cli import main
from torchmcl.errors import UserError
from torchmcl.export import Graph, Value, write_onnx
from torchmcl.export.onnx import uninterrupted
from torchmcl.toy.exporting import toy_graph
from torchmcl.toy.presets import PAPER
from torchmcl.trajectories import Forecaster
from torchmcl.trajectories.exporting import ForecasterGraph

KINDS = {
    "regressor": "MCLRegressor",
    "directions": "MCLRegressor",
    "classifier": "MCLClassifier",
    "forecaster": "Forecaster",
    "localizer": "Localizer",
    "seldnet": "Localizer",
    "toy": "toy",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of model, written and compared by `models.py`."""
    place = tmp_path_factory.mktemp("onnx")
    with no_shape_types():
        models.main(place)
    return place


@pytest.mark.parametrize("name", KINDS)
def test_files_open_without_torch_and_say_what_they_hold(files, name):
    program = (
        "import sys, json; sys.modules.update(torch=None, torchmcl=None); import onnxruntime\n"
        f"session = onnxruntime.InferenceSession({str(files / name) + '.onnx'!r})\n"
        "names = [[v.name for v in values] for values in (session.get_inputs(), session.get_outputs())]\n"
        "print(json.dumps([names, session.get_modelmeta().custom_metadata_map]))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    (inputs, outputs), about = json.loads(out)
    assert (about["kind"], about["version"]) == (KINDS[name], torchmcl.__version__)
    assert list(json.loads(about["inputs"])) == inputs
    assert list(json.loads(about["outputs"])) == outputs
    assert isinstance(json.loads(about["details"]), dict)


@pytest.mark.parametrize("content", ["magnitude_phase", "log_magnitude_phase", "intensity", "band_intensity"])
def test_the_transform_as_a_product_has_the_same_features(content):
    features = StftFeatures(8000, nfft=512, stride=2, bins=60, content=content)
    waves = 0.1 * torch.randn(2, 4, 160 * 7, generator=torch.Generator().manual_seed(0))
    one, other = features(waves), ProductFeatures(features)(waves)
    if "phase" in content:  # the phase of a value near zero is rounding error
        one, other = one[:, :4], other[:, :4]
    torch.testing.assert_close(one, other, rtol=0, atol=2e-4)


def test_the_bundled_forecaster_answers_alike_with_neighbors_in_all_slots():
    forecaster = Forecaster.from_pretrained()
    random = torch.Generator().manual_seed(0)
    observed = torch.randn(40, 8, 2, generator=random).double().cumsum(1) / 3
    frames = torch.arange(40) // 15
    points, probs, widths = ForecasterGraph(forecaster).eval()(observed, frames)
    expected = forecaster(observed, frames=frames)
    torch.testing.assert_close(points.flatten(-2), expected.points, rtol=0, atol=1e-4)
    torch.testing.assert_close(probs.double(), expected.probs, rtol=0, atol=1e-4)
    torch.testing.assert_close(widths.double(), forecaster.widths(observed), rtol=0, atol=1e-4)


def refused(*words: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["torchmcl", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 2


def test_a_folder_without_a_model_is_refused(tmp_path, capsys):
    refused("export", tmp_path, tmp_path / "x.onnx")
    assert "holds no trained model that can be exported" in capsys.readouterr().err
    refused("export", tmp_path / "nothing", tmp_path / "x.onnx")
    assert "is no folder, and none of the bundled models forecaster, localizer" in capsys.readouterr().err
    refused("export", "forecaster", tmp_path / "x.txt")
    assert "must end in .onnx" in capsys.readouterr().err
    refused("export", "forecaster", tmp_path / "x.onnx", "--coverage", "1")
    assert "--coverage 1.0: must be above 0 and below 1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [{"units": "x"}, {"units": 10**12}, {"units": 0}, {"hypotheses": 10**9}, {"scores": 3}, {"more": 1}],
)
def test_settings_of_no_toy_model_are_refused(change, tmp_path):
    plain = {"method": "rmcl", "settings": asdict(PAPER) | change}
    (tmp_path / "settings.json").write_text(json.dumps(plain))
    with pytest.raises(UserError, match=r"settings\.json: does not describe a toy model"):
        toy_graph(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_waits_for_the_tracer(number):
    """PyTorch would end the process where Python raises an exception inside of its tracer."""
    after, received = [], []
    before = signal.signal(number, lambda *_: received.append(number))
    try:
        with uninterrupted():
            signal.raise_signal(number)
            after.append(list(received))
        assert (after, received) == ([[]], [number])
        signal.raise_signal(number)
        assert received == [number, number]
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("module", ["onnx", "onnxruntime", "onnxscript"])
def test_without_the_extra_one_sentence_says_how_to_get_it(tmp_path, capsys, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    refused("export", "forecaster", tmp_path / "x.onnx")
    assert f"needs {module}: pip install 'torchmcl[export]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


class Drift(torch.nn.Module):
    def forward(self, *inputs):
        return (inputs[0] + (0.0 if torch.compiler.is_exporting() else 1e-3),)


def test_a_file_that_differs_is_not_written(tmp_path, unchecked):
    """The comparison before writing is real: a graph whose answer changes between calls is refused."""
    inputs, outputs = (Value("x", ("rows",), "anything"),), (Value("y", ("rows",), "more"),)
    dynamic = {"rows": torch.export.Dim("rows")}
    graph = Graph("drift", Drift(), inputs, outputs, dynamic, ((torch.ones(3),),))
    said = "y of onnxruntime is 0.001.* away from that of PyTorch, the file is not written"
    with pytest.raises(UserError, match=said):
        write_onnx(graph, tmp_path / "x.onnx")
    assert list(tmp_path.iterdir()) == []

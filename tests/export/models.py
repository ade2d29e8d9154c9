"""Write every kind of model as ONNX and compare it with its own answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import torch

from torchmcl import MCLClassifier, MCLRegressor, great_circle
from torchmcl.audio.exporting import sound_graph
from torchmcl.audio.pretrained import NetworkDescription, save_pretrained
from torchmcl.directions import unit_vectors
from torchmcl.export import write_onnx
from torchmcl.runs import RunFolder
from torchmcl.tabular.exporting import classifier_graph, regressor_graph
from torchmcl.toy.exporting import toy_graph
from torchmcl.toy.models import build
from torchmcl.toy.presets import PAPER
from torchmcl.trajectories import Forecaster
from torchmcl.trajectories.exporting import forecaster_graph
from torchmcl.trajectories.network import Architecture, FutureNetwork

random = np.random.default_rng(0)


def answers(path, **inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def near(one, other, scale=1.0):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=0, atol=1e-4 * scale)


def table(rows):
    """Large numbers, gaps, categories that are known, absent and unknown."""
    X = pd.DataFrame({"x": random.normal(size=rows), "kind": random.choice(["a", "b"], rows)})
    X["far"] = 1e6 + X["x"] * 3 + random.normal(size=rows)
    X.loc[::7, "x"], X.loc[::9, "kind"] = np.nan, None
    return X, 1e4 + 50 * (X["far"] - 1e6) + 20 * random.normal(size=rows)


def columns(X, known):
    codes = [
        known.index(each if isinstance(each, str) else None) if each != "c" else -1 for each in X["kind"]
    ]
    return {"numbers": X[["x", "far"]].to_numpy(), "codes": np.array(codes)[:, None]}


def regressor(path):
    X, y = table(300)
    model = MCLRegressor(3, members=2, hidden=(16,), max_epochs=10, random_state=0, progress=False).fit(X, y)
    graph = regressor_graph(model, coverage=0.8)
    write_onnx(graph, path)
    X, _ = table(37)
    X.loc[1, "kind"], X.loc[2, "far"] = "c", 1e9
    found, scale = (
        answers(path, **columns(X, graph.details["categories"]["kind"])),
        model.model_.units.scale[0],
    )
    near(found["mean"][:, 0], model.predict(X), scale)
    near(found["std"][:, 0], model.predict_std(X), scale)
    near(found["interval"][..., 0], model.predict_interval(X, 0.8), scale)
    mixture = model.predict_dist(X)
    near(found["probs"], mixture.hypotheses.probs)
    near(found["points"], mixture.hypotheses.points, scale)
    near(found["widths"][..., 0], mixture.hypotheses.widths, scale)


def directions(path):
    X, y = random.normal(size=(60, 2)), random.uniform(-1, 1, (60, 2))
    settings = {
        "loss": "rmcl",
        "distance": great_circle,
        "scores": "sigmoid",
        "hidden": (8,),
        "max_epochs": 2,
    }
    model = MCLRegressor(3, **settings, random_state=0, progress=False).fit(X, y)
    write_onnx(regressor_graph(model), path)
    found = answers(path, numbers=X[:7])
    assert set(found) == {"points", "probs", "mean"}
    near(unit_vectors(found["points"]), unit_vectors(model.predict_hypotheses(X[:7]).points.numpy()))
    near(unit_vectors(found["mean"]), unit_vectors(model.predict(X[:7])))


def classifier(path):
    X, y = table(300)
    labels = np.where(y > 1e4, "high", "low")
    model = MCLClassifier(3, loss="rmcl", hidden=(16,), max_epochs=5, random_state=0, progress=False).fit(
        X, labels
    )
    graph = classifier_graph(model)
    write_onnx(graph, path)
    X, _ = table(37)
    found = answers(path, **columns(X, graph.details["categories"]["kind"]))
    near(found["probs"], model.predict_proba(X))
    assert [graph.details["classes"][each] for each in found["label"]] == model.predict(X).tolist()
    near(found["logits"], model.predict_hypotheses(X).points, 10)


def forecaster(path):
    torch.manual_seed(0)
    model = Forecaster(FutureNetwork(Architecture(hypotheses=6, width=16, blocks=1, attention=8, heads=2)))
    model.adjustment = replace(model.adjustment, temperature=1.3)
    write_onnx(forecaster_graph(model), path)
    for agents, steps in ((1, 2), (30, 5), (3, 20)):
        observed = torch.from_numpy(random.normal(size=(agents, steps, 2)).cumsum(1) / 2 + 1e3)
        observed[0] = torch.arange(steps)[:, None] * torch.tensor([0.5, 0.1])  # straight ahead, alone
        observed[-1, :-2] = torch.nan
        frames = torch.arange(agents) // 14
        frames[0] = -1
        found = answers(path, observed=observed.numpy(), frames=frames.numpy())
        expected = model(observed, frames=frames)
        near(found["points"].reshape(agents, -1, 24), expected.points)
        near(found["probs"], expected.probs)
        near(found["widths"], model.widths(observed))


def sound(path, architecture, lengths, content, layers):
    torch.manual_seed(0)
    description = NetworkDescription(
        "rmcl", 8000, 3, nfft=512, stride=2, bins=32, content=content, filters=4, pools=(4, 2), units=6, layers=layers,
        architecture=architecture,
    )  # fmt: skip
    network = description.build(spread=True)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    folder = path.with_suffix("")
    save_pretrained(folder, description, network)
    write_onnx(sound_graph(folder), path)
    for windows, frames in lengths:
        waves = torch.from_numpy(random.normal(0, 0.1, (windows, 4, 160 * frames)).astype(np.float32))
        with torch.no_grad():
            expected = network.eval()(waves)
        found = answers(path, sound=waves.numpy())
        near(unit_vectors(found["directions"]), unit_vectors(expected.points.numpy()))
        near(found["scores"], expected.scores)
        if architecture == "RoomNet":
            near(found["counts"], expected.counts.softmax(-1))


def toy(path):
    settings = replace(PAPER, units=16, hypotheses=3)
    for method in ("rmcl", "ie"):
        folder = path.with_name(method)
        network = build(method, settings)
        with RunFolder.open(folder, {"method": method, "seed": 0, "settings": vars(settings)}) as run:
            run.save_model(network)
        write_onnx(toy_graph(folder), path)
        times = torch.rand(37, 1)
        found, expected = answers(path, time=times.numpy()), network(times)
        near(found["points"], expected.points.detach())
        near(found["probs"], expected.probs.detach())


def main(folder: Path) -> None:
    regressor(folder / "regressor.onnx")
    directions(folder / "directions.onnx")
    classifier(folder / "classifier.onnx")
    forecaster(folder / "forecaster.onnx")
    sound(folder / "localizer.onnx", "RoomNet", ((1, 2), (7, 31)), "band_intensity", layers=2)
    sound(folder / "seldnet.onnx", "SELDNet", ((1, 25), (4, 25)), "log_magnitude_phase", layers=1)
    toy(folder / "toy.onnx")

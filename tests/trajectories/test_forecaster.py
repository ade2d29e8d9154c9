"""Forecasters: symmetry, histories, frame rates, learning, saving."""

import json
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from torchmcl import trajectories
from torchmcl.errors import UserError
from torchmcl.trajectories.forecaster import Forecaster, resampled
from torchmcl.trajectories.network import Architecture, FutureNetwork
from torchmcl.trajectories.pose import completed
from torchmcl.trajectories.recipe import AugmentedBatches, Recipe, augment, forecasting_loss, look
from torchmcl.trajectories.windows import windows_of
from trajectories.conftest import walkers


def walks(count: int = 30, steps: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    heading = (torch.rand(count, 1, generator=generator) * 6) + (
        0.15 * torch.randn(count, steps, generator=generator)
    ).cumsum(1)
    speed = torch.rand(count, 1, generator=generator) * 0.6 + 0.05
    moves = torch.stack([heading.cos(), heading.sin()], -1) * speed[..., None]
    return moves.cumsum(1) + 10 * torch.rand(count, 1, 2, generator=generator)


TURNS = st.tuples(st.floats(0, 2 * math.pi), st.booleans(), st.floats(-50, 50), st.floats(-50, 50))


@settings(max_examples=20)
@given(TURNS, st.booleans(), st.integers(3, 8))
def test_the_answer_follows_the_scene(untrained, turn, together, steps):
    angle, mirror, *shift = turn
    cos, sin, side = math.cos(angle), math.sin(angle), -1.0 if mirror else 1.0
    matrix = torch.tensor([[cos, -sin * side], [sin, cos * side]], dtype=torch.float64)
    place = torch.tensor(shift, dtype=torch.float64)
    observed, frames = walks()[:, -steps:].double(), torch.arange(30) // 10 if together else None
    moved, still = untrained(observed @ matrix.T + place, frames=frames), untrained(observed, frames=frames)
    expected = still.points.unflatten(-1, (12, 2)) @ matrix.T + place
    torch.testing.assert_close(moved.points.unflatten(-1, (12, 2)), expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(moved.probs, still.probs, rtol=0, atol=1e-4)


def test_a_straight_walk_has_a_symmetric_set(untrained):
    """A straight line has no left and no right."""
    ahead = torch.arange(-7.0, 1.0)[:, None] * torch.tensor([0.5, 0.0])
    for walk in (ahead, ahead[-3:]):
        futures = untrained(walk[None]).points[0].unflatten(-1, (12, 2))
        mirrored = futures * torch.tensor([1.0, -1.0])
        distance = (futures[:, None] - mirrored).norm(dim=-1).amax(-1)
        assert distance.amin(1).max() < 1e-5
        assert len(futures) == 20


def test_pedestrians_without_frames_are_alone(untrained):
    observed = walks()
    together = untrained(observed, frames=torch.zeros(30, dtype=torch.long))
    alone = untrained(observed, frames=torch.arange(30))
    torch.testing.assert_close(alone.points, untrained(observed).points)
    one = torch.cat([untrained(observed[i : i + 1]).points for i in range(30)])
    torch.testing.assert_close(one, alone.points, rtol=0, atol=1e-4)
    assert not torch.allclose(together.points, alone.points, atol=1e-2)


def test_the_order_of_pedestrians_does_not_matter(untrained):
    observed, frames, order = walks(), torch.arange(30) % 4, torch.randperm(30)
    torch.testing.assert_close(
        untrained(observed[order], frames=frames[order]).points,
        untrained(observed, frames=frames).points[order],
        rtol=0,
        atol=1e-4,
    )


def test_shorter_histories_are_those_with_nan(untrained):
    observed = walks()
    late = observed.clone()
    late[:, :5] = torch.nan
    torch.testing.assert_close(untrained(late).points, untrained(observed[:, 5:]).points)
    torch.testing.assert_close(untrained(walks(steps=11)).points, untrained(walks(steps=11)[:, 3:]).points)
    assert not torch.allclose(untrained(late).points, untrained(observed).points, atol=1e-2)


def test_unknown_positions_are_extrapolated():
    walk = torch.tensor([[[float(step), 2.0 * step] for step in range(8)]])
    late = walk.clone()
    late[:, :6] = torch.nan
    torch.testing.assert_close(completed(late), walk)


@pytest.mark.parametrize("step", [0.04, 1 / 30, 0.1, 0.2, 0.4, 0.8, 1.0])
def test_frame_rates_of_straight_walks_agree(untrained, step):
    velocity = torch.tensor([[1.1, 0.3], [-0.2, 0.9], [0.0, -1.4]], dtype=torch.float64)

    def walk(step: float, count: int) -> torch.Tensor:
        times = (torch.arange(count, dtype=torch.float64) - count + 1) * step
        return velocity[:, None] * times[:, None] + 5

    count = math.ceil(2.8 / step - 1e-9) + 1
    torch.testing.assert_close(untrained(walk(step, count), step=step).points, untrained(walk(0.4, 8)).points)


def test_resampling_leaves_a_gap_unknown():
    observed = torch.arange(16, dtype=torch.float64)[None, :, None].expand(1, 16, 2).clone()
    observed[:, :5] = torch.nan
    found = resampled(observed, 0.2)[0, :, 0]
    assert found.isnan().tolist() == [True] * 2 + [False] * 6
    assert found[2:].tolist() == [5.0, 7.0, 9.0, 11.0, 13.0, 15.0]


def test_double_precision_is_kept(untrained):
    far = walks().double() + 4.5e6
    near = untrained(walks().double())
    torch.testing.assert_close(untrained(far).points - 4.5e6, near.points, rtol=0, atol=1e-4)


def test_wrong_arguments(untrained, unchecked):
    broken = walks()
    broken[4, 3] = torch.nan
    with pytest.raises(ValueError, match=r"observed\[4\] must have its last two"):
        untrained(broken)
    with pytest.raises(ValueError, match="must be \\(agents, at least 2 steps, 2\\)"):
        untrained(walks()[:, :1])
    with pytest.raises(ValueError, match=r"observed covers less than one step of 0\.4 s"):
        untrained(walks()[:, -2:], step=0.1)
    with pytest.raises(ValueError, match="step is -1"):
        untrained(walks(), step=-1)
    with pytest.raises(ValueError, match="frames has shape"):
        untrained(walks(), frames=torch.zeros(3))
    with pytest.raises(UserError, match="has not learned yet"):
        Forecaster()(walks())


def test_nobody_has_no_future(untrained):
    assert untrained(torch.zeros(0, 8, 2)).points.shape == (0, 20, 24)


def test_the_density_at_a_step_is_that_of_the_widths(untrained):
    observed = walks(3)
    answers = untrained(observed)
    there = untrained.at_steps(answers, observed)
    assert there.points.shape == (3, 12, 20, 2)
    torch.testing.assert_close(there.points[:, 4], answers.points[..., 8:10])
    torch.testing.assert_close(there.widths[:, 4, 0], untrained.widths(observed)[:, 4])
    torch.testing.assert_close(there.probs[:, 4], answers.probs)


def test_learning_is_repeatable_and_resumes(tiny, tmp_path):
    tracks = [walkers(0), walkers(1)]
    first = Forecaster().fit(tracks, recipe=tiny, seed=1)
    again = Forecaster().fit(tracks, recipe=tiny, seed=1)
    other = Forecaster().fit(tracks, recipe=tiny, seed=2)
    observed = walks()
    torch.testing.assert_close(first(observed).points, again(observed).points, rtol=0, atol=0)
    assert first.adjustment == again.adjustment
    assert not torch.equal(first(observed).points, other(observed).points)
    first.save(tmp_path / "model", note="a test")
    loaded = Forecaster.from_pretrained(tmp_path / "model")
    torch.testing.assert_close(loaded(observed).points, first(observed).points, rtol=0, atol=0)
    torch.testing.assert_close(loaded(observed).probs, first(observed).probs, rtol=0, atol=0)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["note"] == "a test"


def test_learning_lowers_the_loss():
    train = windows_of(walkers(0, people=12))
    recipe = Recipe(architecture=Architecture(width=32, blocks=1), steps=60, batch_size=64)
    before = FutureNetwork(recipe.architecture).eval()
    after = Forecaster().fit_windows(train, train, recipe=recipe).network
    seen, pose = look(train.observed, train.neighbors)
    target = pose.turn(train.future).flatten(1)[:, None]
    assert forecasting_loss(after(seen), target) < 0.8 * forecasting_loss(before(seen), target)


def test_nothing_to_learn_from(tiny):
    short = walkers(0)
    none = type(short)(short.frames[:5], short.agents[:5], short.positions[:5], short.names)
    with pytest.raises(UserError, match="tracks: nobody is present in 20 successive frames"):
        Forecaster().fit(none, recipe=tiny)


def test_broken_models_are_refused(tmp_path, untrained):
    with pytest.raises(UserError, match="is missing"):
        Forecaster.from_pretrained(tmp_path)
    untrained.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change, message in (
        ({"format": "other"}, "format is 'other'"),
        ({"architecture": {"width": 8}}, "is not as the network of config.json has it"),
        ({"architecture": {"wide": 8}}, "architecture.wide is unknown"),
        ({"architecture": {"width": "x"}}, "architecture.width is 'x', must be int"),
        ({"architecture": {"width": 10**30}}, "holds a whole number of more than 64 bits"),
        ({"architecture": {"width": 10**6}}, "width must be at most 10000"),
        ({"architecture": {"width": 10_000, "blocks": 100}}, "parameters, at most 200000000 are read"),
        ({"architecture": {"attention": 64, "heads": 5}}, "must be a multiple of heads"),
        ({"architecture": None}, "architecture is missing"),
        ({"adjustment": {}}, "adjustment.temperature is missing"),
        ({"adjustment": {"temperature": 0.0, "widths": [1.0] * 12}}, "temperature must be between"),
        ({"adjustment": {"temperature": 1.0, "widths": [1.0]}}, "widths has 1 numbers, must have 12"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(UserError, match=message):
            Forecaster.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"config\.json: "):
        Forecaster.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        Forecaster.from_pretrained(tmp_path)


def test_weights_that_are_no_numbers_are_refused(tmp_path, untrained):
    untrained.save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["steps.bias"][0] = torch.nan
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors: steps\.bias holds values that are not finite"):
        Forecaster.from_pretrained(tmp_path)


def test_augmentation_repeats_with_the_epoch(tiny):
    batches = AugmentedBatches(windows_of(walkers(0)), tiny, seed=5)
    first, second = list(batches), list(batches)
    assert len(first) == len(batches)
    assert not torch.equal(first[0][1], second[0][1])
    batches.set_epoch(0)
    for (seen, target, _), (again, twin, _) in zip(first, batches, strict=True):
        assert all(torch.equal(*pair) for pair in zip(seen, again, strict=True))
        assert torch.equal(target, twin)


def test_augmentation_keeps_the_present_and_the_scale_of_the_future():
    made = windows_of(walkers(0))
    seen, future = augment(made, Recipe().augmentation, torch.Generator().manual_seed(0))
    positions = seen.walk[:, :16].unflatten(-1, (8, 2)) * seen.unit[:, None, None]
    assert positions[:, -1].abs().max() == 0
    assert positions[:, -2, 1].abs().max() < 1e-4
    ratio = future[:, -1].norm(dim=-1) / made.future[:, -1].norm(dim=-1)
    assert ratio.log().std() == pytest.approx(0.2, rel=0.2)
    assert (seen.walk[:, 31] > 0).double().mean() == pytest.approx(0.1, abs=0.08)


def test_import_is_light():
    program = "import sys; from torchmcl.trajectories import Forecaster, read_tracks; print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not {"hydra", "ray", "lightning", "matplotlib", "sklearn"} & loaded


def test_every_public_name_is_there():
    assert all(getattr(trajectories, name) is not None for name in trajectories.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = trajectories.nothing


def test_the_bundled_model_is_small_and_less_sure_of_shorter_histories():
    forecaster = Forecaster.from_pretrained()
    assert (trajectories.BUNDLED / "model.safetensors").stat().st_size < 2e6
    assert (trajectories.BUNDLED / "README.md").exists()
    observed = windows_of(walkers(3, people=20)).observed
    spread = [float(forecaster(observed[:, -steps:]).std.mean()) for steps in (8, 4, 2)]
    assert spread[0] < min(spread[1:])


def test_the_bundled_model_turns_with_the_walk():
    forecaster = Forecaster.from_pretrained()
    turn = torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
    expected = forecaster(walks()).points.unflatten(-1, (12, 2)) @ turn.T
    torch.testing.assert_close(
        forecaster(walks() @ turn.T).points.unflatten(-1, (12, 2)), expected, rtol=0, atol=1e-4
    )


@pytest.mark.usefixtures("unchecked")
def test_arguments_of_other_types_are_named(untrained, tmp_path):
    walk = torch.rand(2, 8, 2)
    for call, message in (
        (lambda: untrained(walk.tolist()), "observed must be a tensor"),
        (lambda: untrained(walk.numpy()), "observed must be a tensor"),
        (lambda: untrained(walk + 0j), "observed must be a tensor of real numbers"),
        (lambda: untrained(walk.to_sparse()), "observed must be a dense tensor"),
        (lambda: untrained(walk, frames=[1, 1]), "frames must be a tensor"),
        (lambda: untrained(walk, step="0.4"), "step must be a number"),
        (lambda: Forecaster().fit(None), "tracks must be Tracks or a list of them, got NoneType"),
        (lambda: Forecaster().fit([]), "tracks is empty"),
        (lambda: Forecaster().fit(walkers(seed=0), held_out="x"), "held_out must be Tracks"),
        (lambda: Forecaster().fit(walkers(seed=0), recipe="noise"), "recipe must be a Recipe, got str"),
        (lambda: Forecaster().fit(walkers(seed=0), seed="a"), "seed must be an integer"),
        (lambda: Forecaster.from_pretrained(3), "folder must be a path or a name on the Hub, got int"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_weights_are_saved_last(tmp_path, untrained, monkeypatch):
    """A folder that has weights counts as complete when a run goes on."""

    def killed(tensors):
        raise KeyboardInterrupt

    monkeypatch.setattr("torchmcl.trajectories.forecaster.save", killed)
    with pytest.raises(KeyboardInterrupt):
        untrained.save(tmp_path)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    untrained.save(tmp_path)
    Forecaster.from_pretrained(tmp_path)


def test_a_program_in_double_precision_reads_the_same_network():
    observed = walks()
    expected = Forecaster.from_pretrained()(observed).points
    torch.set_default_dtype(torch.float64)
    try:
        found = Forecaster.from_pretrained()(observed).points
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(found, expected)

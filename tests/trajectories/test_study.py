"""The study: folds that do not look at their own scene, runs that continue, and tables."""

import json
import re

import pytest
import torch

from torchmcl.errors import UserError
from torchmcl.trajectories import command, folds, study
from torchmcl.trajectories.command import Study
from torchmcl.trajectories.evaluation import MEASURED, constant_velocity, evaluate
from torchmcl.trajectories.folds import HELD_OUT, SCENES, every_video, read_windows, shared_rows
from torchmcl.trajectories.measures import min_ade
from torchmcl.trajectories.recipes import DEFAULT, RECIPES, recipe_named
from torchmcl.trajectories.report import PUBLISHED


@pytest.fixture
def own_counts(benchmark, monkeypatch):
    """The counts of the small benchmark in place of those of the real one."""
    made = {name: {} for name in ("filtered", "all")}
    for fold in folds.folds(benchmark):
        found = read_windows(fold.files("test"))
        made["filtered"][fold.scene], made["all"][fold.scene] = int(found.shared.sum()), len(found)
    monkeypatch.setattr(study, "COUNTS", made)
    return made


@pytest.mark.parametrize("scene", SCENES)
def test_no_row_of_the_test_files_is_in_what_the_settings_are_chosen_on(benchmark, scene):
    [fold] = folds.folds(benchmark, [scene])
    found = study.judges(benchmark, scene)
    assert found
    for judge, train, measured in found:
        assert judge != scene
        temperature = fold.files("val", without=[scene, judge])
        assert shared_rows([*train, *temperature, *measured], fold.files("test")) == 0
        assert not set(train) & set(measured)
        names = {path.stem.rsplit("_", 1)[0] for path in measured}
        assert names == set(folds.VIDEOS[judge])
        assert not names & {path.stem.rsplit("_", 1)[0] for path in train}


@pytest.mark.parametrize("scene", SCENES)
def test_the_train_rows_of_a_scene_are_in_its_test_files(benchmark, scene):
    """So that the test above can fail: other folds hold these rows."""
    [fold] = folds.folds(benchmark, [scene])
    own = [
        path
        for path in every_video(benchmark, "train")
        if path.stem.removesuffix("_train") in folds.VIDEOS[scene]
    ]
    assert shared_rows(own, fold.files("test")) > 0


def test_a_row_of_the_test_file_stops_the_choice(benchmark, tmp_path):
    import shutil

    data = tmp_path / "data"
    shutil.copytree(benchmark, data)
    with (data / "eth" / "train" / "students001_train.txt").open("a") as stream:
        stream.write((data / "eth" / "test" / "biwi_eth.txt").read_text().splitlines()[0] + "\n")
    with pytest.raises(UserError, match="1 rows of the test files are in the train and val files"):
        study.judges(data, "eth")


def test_both_scenes_of_a_pair_are_left_out_of_one_network(benchmark):
    for first, second in HELD_OUT:
        for own, other in ((first, second), (second, first)):
            [train] = [train for judge, train, _ in study.judges(benchmark, own) if judge == other]
            [twin] = [train for judge, train, _ in study.judges(benchmark, other) if judge == own]
            assert [path.name for path in train] == [path.name for path in twin]
            assert [path.read_bytes() for path in train] == [path.read_bytes() for path in twin]


def test_every_fold_has_a_judge():
    assert {scene for pair in HELD_OUT for scene in pair} == set(SCENES)


def test_every_video_once(benchmark):
    names = [path.name for path in every_video(benchmark, "train")]
    assert len(names) == len(set(names)) == 8


def test_a_run_is_read_again_and_continues(benchmark, tiny, tmp_path, own_counts):
    [fold] = folds.folds(benchmark, ["zara1"])
    run = tmp_path / "run"
    first = study.run_scene(fold, tiny, 0, run)
    weights = (run / "model.safetensors").read_bytes()
    assert study.run_scene(fold, tiny, 0, run) == first
    (run / "metrics.json").unlink()
    assert study.run_scene(fold, tiny, 0, run) == first
    assert (run / "model.safetensors").read_bytes() == weights
    with pytest.raises(UserError, match="seed is 1, this run was made with 0"):
        study.run_scene(fold, tiny, 1, run)
    for protocol, counts in own_counts.items():
        assert first.tests["zara1"][protocol]["pedestrians"] == counts["zara1"]


def test_measures_that_a_finished_run_lacks_are_taken_from_its_model(benchmark, tiny, tmp_path, own_counts):
    [fold] = folds.folds(benchmark, ["zara1"])
    run = tmp_path / "run"
    first = study.run_scene(fold, tiny, 0, run)
    record = json.loads((run / "metrics.json").read_text())
    for values in record["tests"]["zara1"].values():
        del values["calibration_floor"]
    (run / "metrics.json").write_text(json.dumps(record))
    changed = (run / "model.safetensors").stat().st_mtime_ns
    assert study.run_scene(fold, tiny, 0, run) == first
    assert (run / "model.safetensors").stat().st_mtime_ns == changed


def test_results_of_another_scene_are_measured_again(benchmark, tiny, tmp_path, own_counts):
    [fold] = folds.folds(benchmark, ["zara1"])
    run = tmp_path / "run"
    first = study.run_scene(fold, tiny, 0, run)
    record = json.loads((run / "metrics.json").read_text())
    scores = record["tests"]["zara1"]
    for tests in ({}, {"eth": scores}, {"zara1": {"all": scores["all"]}}, {"zara1": {}}):
        (run / "metrics.json").write_text(json.dumps({**record, "tests": tests}))
        assert study.run_scene(fold, tiny, 0, run).tests == first.tests


@pytest.mark.parametrize("seconds", [None, "1", [1], True, -1, 1e200])
def test_a_model_without_the_time_of_its_training_is_refused(seconds, benchmark, tiny, tmp_path, own_counts):
    [fold] = folds.folds(benchmark, ["zara1"])
    run = tmp_path / "run"
    study.run_scene(fold, tiny, 0, run)
    (run / "metrics.json").unlink()
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "seconds": seconds}))
    with pytest.raises(UserError, match=r"config\.json: .*seconds .*must"):
        study.run_scene(fold, tiny, 0, run)


def test_a_choice_needs_errors_to_compare(benchmark, tmp_path, monkeypatch):
    pair = HELD_OUT[0]
    perfect = dict.fromkeys(MEASURED, 0.0)
    tests = {scene: {"filtered": perfect, "all": perfect} for scene in pair}
    monkeypatch.setattr(study, "execute", lambda *_: study.Scores(1.0, tests))
    with pytest.raises(UserError, match=r"run.metrics\.json: .* must be positive"):
        study.run_choice(benchmark, pair, DEFAULT, 2, tmp_path / "run")


def test_a_forecast_without_neighbors_is_that_of_a_lonely_pedestrian(benchmark, untrained):
    test = read_windows(folds.folds(benchmark, ["eth"])[0].files("test"))
    alone = untrained(test.observed.double())
    found = evaluate(untrained, test)["all"]
    assert set(found) == MEASURED
    expected = min_ade(alone, test.future.double()).mean()
    assert found["alone_min_ade"] == pytest.approx(float(expected), rel=1e-4)
    assert found["alone_min_ade"] != pytest.approx(found["min_ade"], rel=1e-4)


def test_other_data_than_the_benchmark_is_refused(benchmark, tiny, tmp_path):
    [fold] = folds.folds(benchmark, ["zara1"])
    with pytest.raises(UserError, match="pedestrians by the protocol 'filtered', the benchmark has 2253"):
        study.run_scene(fold, tiny, 0, tmp_path / "run")


def test_the_study_writes_results_and_tables(benchmark, tmp_path, own_counts):
    settings = command.Study(benchmark, scene="hotel", seeds=1, out=tmp_path / "out", steps=(2,))
    written = command.study(settings)
    assert {path.name for path in written} == {
        "table.md", "table.tex", "table.html", "results.json", "futures.png", "futures.pdf",
    }  # fmt: skip
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results["scenes"]) == {"hotel"}
    needed = {
        "min_ade",
        "min_fde",
        "ade",
        "fde",
        "energy",
        "nll",
        "miss_rate",
        "brier_min_fde",
        "calibration_error",
    }
    for part in (results["mean"], results["scenes"]["hotel"]):
        assert needed <= set(part["filtered"])
        assert needed <= set(part["all"])
    assert [seed["seed"] for seed in results["scenes"]["hotel"]["seeds"]] == [0]
    text = (tmp_path / "out" / "table.md").read_text()
    shown = f"{results['mean']['filtered']['min_ade']:.3f}".removeprefix("0")
    assert re.search(rf"torchmcl, best of 20 \|.*{re.escape(shown)}/", text)
    assert all(each.name in text for each in PUBLISHED)


@pytest.mark.parametrize(("choose", "name"), [(False, "results.json"), (True, "choice.json")])
def test_files_of_a_person_are_found_before_the_work(choose, name, benchmark, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"{name}: is there and was not written by this program"):
        command.study(command.Study(benchmark, scene="hotel", out=tmp_path, choose=choose))
    assert [path.name for path in tmp_path.iterdir()] in ([name], [name, ".lock"], [".lock", name])
    assert (tmp_path / name).read_text() == "mine"


def test_the_bundled_model_learns_from_all_scenes(benchmark, tmp_path):
    [folder] = command.study(command.Study(benchmark, scene="none", seeds=1, out=tmp_path, steps=(1,)))
    settings = json.loads((folder / "settings.json").read_text())
    assert len(settings["train"]) == len(settings["held_out"]) == 8


def test_means_over_seeds_and_scenes():
    def run(value: float, scene: str) -> study.Scores:
        return study.Scores(
            1.0, {scene: {p: {"min_ade": value, "pedestrians": 5} for p in ("filtered", "all")}}
        )

    found = study.summarize(
        {"eth": [run(1.0, "eth"), run(2.0, "eth")], "univ": [run(5.0, "univ"), run(7.0, "univ")]}
    )
    assert found["scenes"]["eth"]["filtered"]["min_ade"] == 1.5
    assert found["mean"]["all"]["min_ade"] == pytest.approx(3.75)


def test_the_choice_is_relative_to_the_first_recipe():
    scores = {
        pair: {name: dict.fromkeys(pair, 2.0 - 0.1 * index) for index, name in enumerate(RECIPES)}
        for pair in HELD_OUT
    }
    table = study.choose(scores)
    assert set(table) == {*SCENES, "mean"}
    for row in table.values():
        assert list(row.values()) == pytest.approx([1.0, 0.95, 0.9, 0.85, 0.8])
        assert min(row, key=row.__getitem__) == DEFAULT


def test_one_recipe_is_compared_at_several_numbers_of_steps(benchmark, tmp_path, monkeypatch):
    folders = set()

    def trained(data, pair, recipe, steps, run, progress):
        assert recipe == "noise"
        folders.add(run.name)
        return dict.fromkeys(pair, 1 / steps)

    monkeypatch.setattr(command, "run_choice", trained)
    monkeypatch.setattr(command, "execute", lambda jobs, on: [command.work(**job.arguments) for job in jobs])
    command.study(command.Study(benchmark, out=tmp_path, recipe="noise", steps=(2, 5), choose=True))
    assert folders == {f"{'-'.join(pair)}-noise-{steps}" for pair in HELD_OUT for steps in (2, 5)}
    made = json.loads((tmp_path / "choice.json").read_text())
    assert list(made["folds"]) == [*SCENES, "mean"]
    assert all(row == {"2 steps": 1.0, "5 steps": pytest.approx(0.4)} for row in made["folds"].values())
    assert "| fold | 2 steps | 5 steps | best |" in (tmp_path / "choice.md").read_text()


def test_constant_velocity_is_what_its_name_says(benchmark):
    test = read_windows(folds.folds(benchmark, ["eth"])[0].files("test"))
    total = ends = 0.0
    for past, future in zip(test.observed.tolist(), test.future.tolist(), strict=True):
        velocity = [past[-1][axis] - past[-2][axis] for axis in (0, 1)]
        error = [
            sum((past[-1][a] + step * velocity[a] - future[step - 1][a]) ** 2 for a in (0, 1)) ** 0.5
            for step in range(1, 13)
        ]
        total, ends = total + sum(error) / 12, ends + error[-1]
    found = constant_velocity(test)
    assert found["last_step_ade"] == pytest.approx(total / len(test), rel=1e-4)
    assert found["last_step_fde"] == pytest.approx(ends / len(test), rel=1e-4)


def test_evaluation_looks_at_the_future_only_to_measure(benchmark, untrained):
    test = read_windows(folds.folds(benchmark, ["eth"])[0].files("test"))
    other = test[torch.arange(len(test))]
    other.future.mul_(-2)
    torch.testing.assert_close(
        untrained.forecast_windows(test).points, untrained.forecast_windows(other).points, rtol=0, atol=0
    )
    assert evaluate(untrained, test) != evaluate(untrained, other)


def test_refusals(benchmark, tmp_path):
    for settings, message in (
        ({"scene": "paris"}, "scene is 'paris', must be one of eth"),
        ({"recipe": "soup"}, "recipe is 'soup', must be one of perceptron"),
        ({"steps": (0,)}, "--steps must be 1 to 10000000, got 0"),
        ({"steps": (5, 0), "choose": True}, "--steps must be 1 to 10000000, got 0"),
        ({"steps": (5, 7)}, "--steps has 2 values, which only --choose compares: give one"),
        ({"on": "moon"}, "--on is 'moon'"),
        ({"address": "here:1"}, "--address is of a Ray cluster"),
    ):
        with pytest.raises(UserError, match=message):
            command.study(command.Study(benchmark, out=tmp_path, **settings))
    with pytest.raises(UserError, match="is no folder; the layout is"):
        command.study(command.Study(tmp_path))


def test_recipes_are_equally_long():
    assert len({recipe.steps for recipe in RECIPES.values()}) == 1
    assert recipe_named(DEFAULT, 7).steps == 7


@pytest.mark.parametrize("settings", [{"seeds": 10**9}, {"seeds": 0}, {"steps": (10**12,)}, {"steps": (0,)}])
def test_studies_that_would_never_end_are_refused(settings, tmp_path):
    [name] = settings
    with pytest.raises(UserError, match=f"^--{name} must be 1 to"):
        Study(tmp_path, **settings)

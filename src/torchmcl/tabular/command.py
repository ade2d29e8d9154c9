"""What the commands `fit` and `predict` do."""

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from torchmcl.errors import UserError
from torchmcl.runs.files import read_json, write_json, write_text
from torchmcl.runs.folder import METRICS, SETTINGS, RunFolder
from torchmcl.runs.outputs import own_file
from torchmcl.runs.records import provenance
from torchmcl.sharing.cards import write_card
from torchmcl.tabular.cards import regressor_card
from torchmcl.tabular.columns import as_labels, first_text, group_labels, is_text, read_numbers
from torchmcl.tabular.files import pieces, read_frame
from torchmcl.tabular.regressor import MCLRegressor
from torchmcl.tabular.settings import check_settings
from torchmcl.tabular.storage import CONFIG, WEIGHTS

__all__ = ["FitSettings", "check_seed", "fit_table", "predict_table"]

SHOWN = 3
"""Answers with probabilities that are written for each row."""
LEAST_ROWS = 20
MANY = 20
"""Different cells of a column of which one would expect that they are numbers, if most look like them."""
NUMBER = re.compile(r"[^\w]{0,3}\d[\d.,'\u2019 _\u00a0\u202f]*([eE][-+]?\d+)?\s*[^\w]{0,2}")
"""A number as people write it: with signs of currency and percent, and anything between thousands."""


@dataclass(frozen=True)
class FitSettings:
    """What is trained on which file.

    Args:
        data: The file.
        targets: Names of the columns to predict.
        group: A column by which intervals are calibrated and coverage is reported.
        test_fraction: The part of the rows that is held out for the report.
        members: As in `MCLRegressor`; `None` for its default.
        hypotheses: K, for each member.
        epochs: At most; `None` for the default by the number of rows.
        target_transform: `"auto"` or `"yeo-johnson"`, as in `MCLRegressor`; `None` for none.
        seed: Of the split and the training.
    """

    data: str
    targets: tuple[str, ...]
    group: str | None = None
    test_fraction: float = 0.2
    members: int | None = None
    hypotheses: int = 10
    epochs: int | None = None
    target_transform: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.target_transform not in (None, "auto", "yeo-johnson"):
            raise UserError(f"--target-transform {self.target_transform}: must be auto or yeo-johnson")


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy does not take.

    Args:
        seed: Of a command.
    """
    if not 0 <= seed < 2**32:
        raise UserError(f"--seed must be 0 to {2**32 - 1}, got {seed}")


def fit_table(settings: FitSettings, out: Path, progress: bool = True) -> dict[str, Any]:
    """Train on a file, measure on held-out rows, write model, `metrics.json` and `report.html`.

    Args:
        settings: What is trained.
        out: The folder of the run; an interrupted one goes on.
        progress: Whether to show a progress bar.

    Returns:
        The measures.
    """
    from torchmcl.tabular.report import measures, report

    path = Path(settings.data)
    frame = read_frame(path)
    X, y, groups = _columns(frame, settings, path)
    train, calibration, test = _parts(len(frame), settings)
    if groups is not None:
        _check_groups(groups[calibration], groups[test], settings, path)
    _named(lambda: check_settings(_estimator(settings)), path)
    stored = {
        **asdict(settings),
        "targets": list(settings.targets),
        "data": path.name,
        "sha256": _digest(path),
    }
    with RunFolder.open(out, stored) as run:
        take = X.iloc[train]
        if not ((out / WEIGHTS).is_file() and (out / CONFIG).is_file()):
            model = _estimator(settings)
            _named(lambda: model.train(take, y[train], checkpoint=run.checkpoint, progress=progress), path)
            if groups is not None:
                _named(
                    lambda: model.calibrate(X.iloc[calibration], y[calibration], groups[calibration]), path
                )
            _check_calibrated(model, path)
            model.save(out)
            run.checkpoint.unlink(missing_ok=True)
        model = MCLRegressor.load(out)
        _check_model(model, take, settings, out)
        own = None if groups is None else groups[test]
        found = measures(model, X.iloc[test], y[test], own, take, y[train], settings)
        write_text(out / "report.html", report(model, found, X.iloc[test], y[test], own, settings, path.name))
        write_card(out, regressor_card(model, *_card_measures(found, path.name), settings.targets))
        write_json(out / METRICS, {**found, "provenance": provenance()})
    _note_texts(X, path)
    return found


def _check_model(model: Any, X: Any, settings: FitSettings, out: Path) -> None:
    """Whether a model that was there already is of this table."""
    columns = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if columns != list(X.columns) or model.model_.dim != len(settings.targets):
        raise UserError(f"{out / CONFIG}: is not of this table; remove it to train from the start")
    _named(lambda: model._inputs(X), out / CONFIG)
    _check_calibrated(model, out / CONFIG)


def _check_calibrated(model: Any, path: Path) -> None:
    """The report is on intervals: refuse a table of two different rows, of which none can be held out."""
    if model.calibration_ is None:
        raise UserError(f"{path}: has too few different rows to hold out some, which calibrate the intervals")


CARD_MEASURES = {"crps": "CRPS", "nll": "NLL", "rmse": "RMSE", "coverage": "coverage of 90 % intervals"}


def _card_measures(found: dict[str, Any], name: str) -> tuple[dict[str, float], str]:
    """The numbers of a card, and what they were measured on."""
    several = len(found["outputs"]) > 1
    numbers = {
        f"{label} of {target}" if several else label: own["model"][key]
        for target, own in found["outputs"].items()
        for key, label in CARD_MEASURES.items()
        if own["model"][key] is not None
    }
    return numbers, f"{found['rows']['test']} held-out rows of {name}"


def predict_table(
    run: Path, data: Path, out: Path, coverage: float, note: Callable[[str], None], overwrite: bool = False
) -> int:
    """Predict the rows of a file piece by piece, so that memory stays bounded.

    Args:
        run: The folder of `fit_table`.
        data: A file with the columns that the model was trained on.
        out: The CSV file to make.
        coverage: Of the intervals.
        note: Called with remarks: on additional columns, on categories that are not known.
        overwrite: Replace a file that this program did not write as well.

    Returns:
        How many rows were written.
    """
    if not 0 < coverage < 1:
        raise UserError(f"--coverage {coverage}: must be above 0 and below 1")
    model = MCLRegressor.load(run)
    targets, group = _asked(run / SETTINGS, model)
    rows, unknown = 0, Counter[str]()
    read = [data, *(run / name for name in (CONFIG, WEIGHTS, SETTINGS))]
    known = _categories(model)
    with own_file(out, overwrite=overwrite, inputs=read) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            for frame in _checked(pieces(data, text=known), model, group, targets, data, note):
                table = _named(partial(_predicted, model, frame, targets, group, coverage, unknown), data)
                table.to_csv(stream, header=rows == 0, index=False)
                rows += len(table)
        if not rows:
            raise UserError(f"{data}: holds no row")
    for name, count in unknown.items():
        note(
            f"{data}: {name!r} is in {count:,} of {rows:,} rows a category that the training did not have, or rarely"
        )
    return rows


def _asked(path: Path, model: Any) -> tuple[list[str], str | None]:
    """The targets and the group that a model was made for."""
    settings = read_json(path)
    if not isinstance(settings, dict) or not isinstance(settings.get("targets"), list):
        raise UserError(f"{path}: does not describe a run of `torchmcl fit`")
    targets, group = settings["targets"], settings.get("group")
    texts = all(isinstance(name, str) for name in [*targets, "" if group is None else group])
    grouped = model.calibration_ is not None and model.calibration_.groups is not None
    named = hasattr(model, "feature_names_in_")
    if not (
        texts
        and named
        and len(set(targets)) == len(targets) == model.model_.dim
        and (group is not None) == grouped
    ):
        raise UserError(f"{path}: does not fit the model beside it, whose targets or group are others")
    return targets, group


def _predicted(
    model: Any, frame: Any, targets: list[str], group: str | None, coverage: float, unknown: Counter[str]
) -> Any:
    import pandas as pd

    for name, labels in _categories(model).items():
        if frame[name].dtype == object:
            frame[name] = as_labels(frame[name], labels)
    inputs = model._inputs(frame[list(model.feature_names_in_)])
    unknown.update(_unknown(model, inputs))
    groups = None if group is None else group_labels(frame[group])
    ends = model._interval_levels(coverage, groups, len(inputs))
    levels = np.insert(ends, 1, 0.5, axis=1)
    # Merged to a few, so that they are different answers, and the probabilities of all of them sum to 1.
    count = min(SHOWN, model.n_hypotheses)
    parts = [
        _columns_of(part.mean(), part.std(), part.quantiles(levels[rows]), part.merged(count), targets)
        for rows, part in model.model_.parts(inputs)
    ]
    return pd.concat([pd.DataFrame(part) for part in parts])


def _categories(model: Any) -> dict[str, tuple[str, ...]]:
    """The columns that held text in training, whose cells are text in each later file, and their categories."""
    columns, names = model.model_.columns, model.feature_names_in_
    texts = (name for name, text in zip(names, columns.categorical, strict=True) if text)
    return dict(zip(texts, columns.categories, strict=True))


def _unknown(model: Any, inputs: Tensor) -> dict[str, int]:
    """The columns with categories that the model does not tell apart, which have zeros, and in how many rows."""
    columns = model.model_.columns
    kinds = zip(model.feature_names_in_, columns.categorical, columns.places, strict=True)
    counts = {name: int((inputs[:, places] == 0).all(1).sum()) for name, text, places in kinds if text}
    return {name: count for name, count in counts.items() if count}


def _columns_of(mean: Any, std: Any, quantiles: Any, answers: Any, targets: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    points, probs = answers.points.numpy(), answers.probs.numpy()
    for axis, name in enumerate(targets):
        before = "" if len(targets) == 1 else f"{name}_"
        lower, median, upper = quantiles[..., axis].T
        found |= {
            f"{before}mean": mean[:, axis], f"{before}std": std[:, axis], f"{before}median": median,
            f"{before}lower": lower, f"{before}upper": upper,
        }  # fmt: skip
        found |= {f"{before}answer_{k + 1}": points[:, k, axis] for k in range(points.shape[1])}
    return found | {f"probability_{k + 1}": probs[:, k] for k in range(probs.shape[1])}


def _checked(
    frames: Iterator[Any],
    model: Any,
    group: str | None,
    targets: list[str],
    path: Path,
    note: Callable[[str], None],
) -> Iterator[Any]:
    first = True
    wanted = [*model.feature_names_in_, *([] if group is None else [group])]
    for frame in frames:
        names = [str(name) for name in frame.columns]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise UserError(f"{path}: the column {missing[0]!r} is missing, which the model was trained on")
        more = [name for name in names if name not in wanted and name not in targets]
        if first and more:
            note(f"{path}: not used: {', '.join(more[:10])}{', ...' if len(more) > 10 else ''}")
        first = False
        yield frame


def _columns(frame: Any, settings: FitSettings, path: Path) -> tuple[Any, Any, Any]:
    for name in (*settings.targets, *([settings.group] if settings.group else [])):
        if name not in frame.columns:
            raise UserError(f"{path}: has no column {name!r}; it has {', '.join(list(frame.columns)[:20])}")
    if not settings.targets:
        raise UserError("--target: name a column")
    if len(set(settings.targets)) < len(settings.targets):
        raise UserError(f"--target: {settings.targets[0]!r} is named twice")
    if settings.group in settings.targets:
        raise UserError(f"--group {settings.group}: is a target, choose another column")
    for name in settings.targets:
        frame[name] = _target(frame[name], name, path)
    for name, column in frame[list(settings.targets)].items():
        for wrong, what in ((column.isna(), "has no value for"), (np.isinf(column), "has infinity as")):
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0]) + 1
                raise UserError(f"{path}: row {row} {what} the target {name!r}, remove such rows")
    others = [name for name in frame.columns if name not in settings.targets]
    if not others:
        raise UserError(f"{path}: has no column beside the target")
    y = frame[list(settings.targets)].to_numpy(dtype=np.float64)
    groups = None if settings.group is None else group_labels(frame[settings.group])
    if groups is not None and len(set(groups)) < 2:
        raise UserError(f"--group {settings.group}: the column holds one group only")
    return frame[others], (y[:, 0] if y.shape[1] == 1 else y), groups


def _target(column: Any, name: str, path: Path) -> Any:
    """A target as numbers; those that a file has as text or as decimals are numbers as well."""
    if column.dtype.kind in "buif":
        return column
    if column.dtype.kind in "mM":
        raise UserError(f"{path}: the column {name!r} holds dates, a target must hold numbers")
    try:
        return read_numbers(name, column.astype(object).where(column.notna(), None))
    except ValueError:
        text = first_text(column.dropna())
        shown = "" if text is None else f" ({text[:40]!r})"
        raise UserError(
            f"{path}: the column {name!r} holds text{shown}, a target must hold numbers"
        ) from None


def _note_texts(X: Any, path: Path) -> None:
    """Tell of columns that seem to be numbers, and are categories because of some cells or signs."""
    for name, column in X.items():
        if column.dtype != object or not is_text(column):
            continue
        cells = set(column.dropna().astype(str))
        if len(cells) >= MANY and sum(NUMBER.fullmatch(cell) is not None for cell in cells) >= len(cells) / 2:
            warnings.warn(
                f"{path}: the column {name!r} is taken for categories, because it holds {first_text(column)!r:.40} "
                "beside numbers: leave out such cells and signs if it shall be numbers",
                UserWarning,
                stacklevel=2,
            )


def _check_groups(calibration: Any, test: Any, settings: FitSettings, path: Path) -> None:
    """Find before the training what calibration and report by group cannot be done with."""
    missing = sorted(set(test) - set(calibration))
    if missing or len(set(calibration)) < 2:
        which = repr(str(missing[0])) if missing else f"all but {str(calibration[0])!r}"
        raise UserError(
            f"{path}: --group {settings.group}: too few rows of {which} to be among those that calibrate; "
            "join small groups, or leave --group out"
        )


def _parts(rows: int, settings: FitSettings) -> tuple[Any, Any, Any]:
    if not 0 < settings.test_fraction < 0.9:
        raise UserError(f"--test-fraction {settings.test_fraction}: must be above 0 and below 0.9")
    if rows < LEAST_ROWS:
        raise UserError(f"{settings.data}: has {rows} rows, at least {LEAST_ROWS} are needed")
    order = np.random.default_rng(settings.seed).permutation(rows)
    held = max(1, round(rows * settings.test_fraction))
    apart = 0 if settings.group is None else max(1, round(rows * 0.2))
    if held + apart > rows - 10:
        raise UserError(
            f"--test-fraction {settings.test_fraction}: leaves too few rows of {rows} for training"
        )
    return order[held + apart :], order[held : held + apart], order[:held]


def _estimator(settings: FitSettings) -> MCLRegressor:
    return MCLRegressor(
        n_hypotheses=settings.hypotheses,
        members=settings.members,
        max_epochs=settings.epochs,
        target_transform=settings.target_transform,
        random_state=settings.seed,
        progress=False,
    )


def _named(call: Callable[[], Any], path: Path) -> Any:
    """Mistakes in a table, as sentences that name its file."""
    try:
        return call()
    except UserError:
        raise
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: {error}") from None


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

"""The command `torchmcl forecast`: futures of the pedestrians of a file."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from torchmcl.errors import UserError
from torchmcl.hypotheses import Hypotheses
from torchmcl.runs.files import atomic, check_file, write_text
from torchmcl.runs.outputs import claim_outputs
from torchmcl.trajectories.forecaster import Forecaster
from torchmcl.trajectories.stream import Instant, Source, instant_at, instants
from torchmcl.trajectories.tracks import STEP, Tracks, check_rate, read_tracks
from torchmcl.trajectories.windows import OBSERVED, PREDICTED

__all__ = ["Forecast", "forecast_all", "forecast_frame", "forecasts"]

TOGETHER = 512
"""Pedestrians that are forecast at once when a whole file is streamed."""

PAGE_INSTANTS = 200
"""Instants that an animated page has at most."""

STEPS = ",".join(f"x{step},y{step}" for step in range(1, PREDICTED + 1))


@dataclass(frozen=True, eq=False)
class Forecast:
    """An instant, the futures of its pedestrians, and the best single answers.

    Args:
        instant: Who was seen; only those with enough history.
        hypotheses: K futures of each.
        answers: One future of each, meters.
    """

    instant: Instant
    hypotheses: Hypotheses
    answers: Tensor


def forecasts(
    forecaster: Forecaster, found: Iterable[Instant], history: int = OBSERVED
) -> Iterator[Forecast]:
    """Forecasts of many instants, some at once.

    Args:
        forecaster: Trained.
        found: Instants; all of their pedestrians are neighbors of each other.
        history: The least number of known positions of a pedestrian whose future is told.

    Yields:
        A forecast for each instant with such a pedestrian.
    """
    waiting: list[Instant] = []
    for instant in found:
        waiting.append(instant)
        if sum(len(each.names) for each in waiting) >= TOGETHER:
            yield from _answered(forecaster, waiting, history)
            waiting = []
    if waiting:
        yield from _answered(forecaster, waiting, history)


def _answered(forecaster: Forecaster, some: list[Instant], history: int) -> Iterator[Forecast]:
    sizes = torch.tensor([len(each.names) for each in some])
    number = torch.repeat_interleave(torch.arange(len(some)), sizes)
    told = forecaster(torch.cat([each.observed for each in some]), frames=number)
    answers = forecaster.answer(told)
    for index, instant in enumerate(some):
        rows = torch.nonzero(number == index)[:, 0]
        kept = instant.observed[..., 0].isfinite().sum(-1) >= history
        if kept.any():
            names = tuple(name for name, keep in zip(instant.names, kept.tolist(), strict=True) if keep)
            short = replace(instant, names=names, observed=instant.observed[kept])
            yield Forecast(short, told[rows[kept]], answers[rows[kept]])


def forecast_frame(
    source: Source,
    out: Path,
    *,
    frame: int | None = None,
    forecaster: Forecaster | None = None,
    history: int = OBSERVED,
) -> list[Path]:
    """Forecast one frame: futures.csv, answers.csv, futures.ndjson (TrajNet++), plan.png and plan.pdf.

    Args:
        source: The file and how to read it.
        out: The folder to write to.
        frame: The present; by default the last frame with a pedestrian whose history is long enough.
        forecaster: The bundled one by default.
        history: The least number of known positions, from 2 to 8.

    Returns:
        What was written.

    Raises:
        UserError: The file is broken, or nobody at the frame has enough history.
    """
    from torchmcl.runs.figures import save_figure
    from torchmcl.trajectories.pictures import DRAWN, plan

    _check_history(history)
    check_rate(source.fps, source.unit)
    tracks = read_tracks(source.path, unit=source.unit, homography=source.homography, columns=source.columns)
    instant = _chosen(tracks, source, frame, history)
    forecaster = forecaster or Forecaster.from_pretrained()
    [made] = forecasts(forecaster, [instant], history)
    names = ("futures.csv", "answers.csv", "futures.ndjson", "plan.png", "plan.pdf")
    claim_outputs(out, names, inputs=[source.path], otherwise="choose another --out")
    write_text(out / "futures.csv", "".join([FUTURES_HEADER, *_future_lines(made, None)]))
    write_text(out / "answers.csv", "".join([ANSWERS_HEADER, *_answer_lines(made)]))
    write_text(out / "futures.ndjson", "".join(_ndjson(made)))
    pictures = save_figure(plan(made, _truth(tracks, made, DRAWN)), out / "plan")
    return [out / "futures.csv", out / "answers.csv", out / "futures.ndjson", *pictures]


def forecast_all(
    source: Source,
    out: Path,
    *,
    forecaster: Forecaster | None = None,
    history: int = OBSERVED,
    top: int | None = None,
    page: bool = False,
    progress: Callable[[float], None] = lambda part: None,
) -> list[Path]:
    """Forecast every instant of a file in one pass: futures.csv and answers.csv, and scene.html if asked.

    Args:
        source: The file, sorted by frame, and how to read it.
        out: The folder to write to.
        forecaster: The bundled one by default.
        history: The least number of known positions, from 2 to 8.
        top: How many of the most probable futures are written; all by default.
        page: Whether to make an animated page of the first 200 instants.
        progress: Called with the part of the file that was done since its last call.

    Returns:
        What was written.
    """
    from torchmcl.trajectories.page import scene_page

    _check_history(history)
    if top is not None and top < 1:
        raise UserError(f"top is {top}, must be at least 1")
    forecaster = forecaster or Forecaster.from_pretrained()
    names = ("futures.csv", "answers.csv", *(["scene.html"] if page else []))
    claim_outputs(out, names, inputs=[source.path], otherwise="choose another --out")
    shown: list[Forecast] = []
    lines, done = _lines(source.path), 0
    with ExitStack() as stack:
        futures, answers = (_opened(stack, out / name) for name in ("futures.csv", "answers.csv"))
        futures.write(FUTURES_HEADER)
        answers.write(ANSWERS_HEADER)
        for made in forecasts(forecaster, instants(source), history):
            futures.writelines(_future_lines(made, top))
            answers.writelines(_answer_lines(made))
            if page and len(shown) < PAGE_INSTANTS:
                shown.append(made)
            progress((made.instant.line - done) / lines)
            done = made.instant.line
        if not done:
            raise UserError(_nobody(source.path, history))
        if done < lines:
            progress((lines - done) / lines)
    written = [out / "futures.csv", out / "answers.csv"]
    if page:
        write_text(out / "scene.html", scene_page(shown, source.path.name))
        written.append(out / "scene.html")
    return written


FUTURES_HEADER = f"frame,id,future,probability,{STEPS}\n"
ANSWERS_HEADER = f"frame,id,{STEPS}\n"


def _check_history(history: int) -> None:
    if not 2 <= history <= OBSERVED:
        raise UserError(f"history is {history}, must be from 2 to {OBSERVED} steps")


def _opened(stack: ExitStack, path: Path) -> IO[str]:
    return stack.enter_context(stack.enter_context(atomic(path)).open("w", encoding="utf-8"))


def _lines(path: Path) -> int:
    check_file(path)
    with path.open("rb") as stream:
        return sum(1 for _ in stream)


def _nobody(path: Path, history: int) -> str:
    return (
        f"{path}, line {_lines(path)}: the file ends, and nobody has {history} positions in successive steps of "
        f"{STEP} s; --history 2 forecasts from two positions on"
    )


def _chosen(tracks: Tracks, source: Source, frame: int | None, history: int) -> Instant:
    if frame is not None and frame not in tracks.frames:
        first, last = tracks.instants[[0, -1]]
        raise UserError(f"{source.path}: has no frame {frame}; its frames are between {first} and {last}")
    for now in reversed(_presents(tracks, source.fps, history)) if frame is None else [frame]:
        instant = instant_at(tracks, now, source.fps)
        if instant is not None and _longest(instant) >= history:
            return instant
    if frame is None:
        raise UserError(_nobody(source.path, history))
    longest = _longest(instant) if instant is not None else 1
    raise UserError(
        f"{source.path}: nobody at frame {frame} has {history} positions in successive steps of {STEP} s; the longest "
        f"history has {longest}"
    )


def _presents(tracks: Tracks, fps: float | None, history: int) -> list[int]:
    """The frames until which somebody walked without a gap for long enough; at others there is nothing to look for."""
    stride = float(tracks.spacing) if fps is None else fps * STEP
    farthest = max(tracks.spacing, stride) * (1 + 1e-5)
    begins = np.append(True, (np.diff(tracks.agents) != 0) | (np.diff(tracks.frames) > farthest))
    began = tracks.frames[np.maximum.accumulate(np.where(begins, np.arange(len(tracks)), 0))]
    long = tracks.frames - began >= (history - 1) * stride * (1 - 1e-5)
    frames: list[int] = np.unique(tracks.frames[long]).tolist()
    return frames


def _longest(instant: Instant) -> int:
    return int(instant.observed[..., 0].isfinite().sum(-1).max())


def _future_lines(made: Forecast, top: int | None) -> Iterator[str]:
    pattern = ",".join(["%.3f"] * (2 * PREDICTED))
    probs, order = made.hypotheses.probs.sort(dim=-1, descending=True, stable=True)
    points = made.hypotheses.points.take_along_dim(order[..., None], 1).numpy()
    for name, chances, futures in zip(made.instant.names, probs.tolist(), points, strict=True):
        label = _quoted(name)
        for number, (chance, future) in enumerate(zip(chances[:top], futures, strict=False), start=1):
            yield f"{made.instant.frame},{label},{number},{chance:.4f},{pattern % tuple(future)}\n"


def _answer_lines(made: Forecast) -> Iterator[str]:
    pattern = ",".join(["%.3f"] * (2 * PREDICTED))
    for name, answer in zip(made.instant.names, made.answers.flatten(1).numpy(), strict=True):
        yield f"{made.instant.frame},{_quoted(name)},{pattern % tuple(answer)}\n"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\r\n') else name


def _ndjson(made: Forecast) -> Iterator[str]:
    """TrajNet++: a scene for each pedestrian, what was observed, and the numbered predictions."""
    now, stride = made.instant.frame, made.instant.stride
    frames = [round(now + stride * step) for step in range(1 - OBSERVED, PREDICTED + 1)]
    probs, order = made.hypotheses.probs.sort(dim=-1, descending=True, stable=True)
    points = made.hypotheses.points.take_along_dim(order[..., None], 1).unflatten(-1, (PREDICTED, 2))
    for scene, name in enumerate(made.instant.names):
        person = _person(name)
        ends = {"s": frames[0], "e": frames[-1], "fps": 1 / STEP}
        yield _line("scene", {"id": scene, "p": person, **ends})
        past = zip(frames, made.instant.observed[scene].tolist(), strict=False)
        for frame, (x, y) in past:
            if np.isfinite(x):
                yield _line("track", {"f": frame, "p": person, "x": round(x, 4), "y": round(y, 4)})
        futures = zip(probs[scene].tolist(), points[scene].tolist(), strict=True)
        for number, (chance, future) in enumerate(futures):
            for frame, (x, y) in zip(frames[OBSERVED:], future, strict=True):
                where = {"f": frame, "p": person, "x": round(x, 4), "y": round(y, 4)}
                which = {"prediction_number": number, "scene_id": scene, "probability": round(chance, 5)}
                yield _line("track", {**where, **which})


def _person(name: str) -> int | str:
    """As a number where that is the same name."""
    try:
        number = int(name)
    except ValueError:
        return name
    return number if str(number) == name else name


def _line(kind: str, value: dict[str, object]) -> str:
    return json.dumps({kind: value}) + "\n"


def _truth(tracks: Tracks, made: Forecast, most: int) -> list[np.ndarray]:
    """What the file knows of the futures, for the picture only."""
    end = made.instant.frame + made.instant.stride * PREDICTED
    later = (tracks.frames >= made.instant.frame) & (tracks.frames <= end)
    codes = [tracks.names.index(name) for name in made.instant.names[:most]]
    return [tracks.positions[later & (tracks.agents == code)] for code in codes]

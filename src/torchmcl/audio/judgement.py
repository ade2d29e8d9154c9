"""How good a localizer is in simulated rooms, and its calibration there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment

from torchmcl.audio.calibration import Calibration, count_evidence, fit_counts, fit_regions, reliability
from torchmcl.audio.foa import unit_vectors
from torchmcl.audio.localizer import DEFAULT, Listening, Localizer
from torchmcl.audio.predictions import OUTPUT, Localization, Source
from torchmcl.audio.room_scenes import RoomScene

__all__ = ["Judgement", "calibrate", "judge"]

WITHIN = 20.0
"""Degrees within which a source is found."""

DECAY = 75
"""Frames of 20 ms after the last sound that belong to its decay."""


@dataclass(frozen=True)
class Judgement:
    """Measures for scenes of one number of sources.

    Attributes:
        sources: Number of sources.
        median: Median error of the active sources that were found within 20 degrees, degrees.
        ninety: Its 90 % quantile.
        recall: Share of the active sources that were found, over all output frames.
        recall_together: The same in the frames in which all sources sound.
        counted: Share of the frames with all sources in which as many sources were told.
        counted_three: Share of the frames with all sources in which three or more were told.
        likeliest: Share of the frames with all sources in which the most probable count is right.
        covered: Share of the told directions whose region holds the nearest active source.
        silence: Share of the frames long before and after all sound in which something was told.
        decay: The same within 1.5 s after the last sound.
        frames: Number of frames with all sources.
    """

    sources: int
    median: float
    ninety: float
    recall: float
    recall_together: float
    counted: float
    counted_three: float
    likeliest: float
    covered: float
    silence: float
    decay: float
    frames: int


@dataclass(frozen=True)
class _Compared:
    """One scene: errors of its active sources, and what was told in the frames with all of them."""

    sources: int
    errors: Float[np.ndarray, "active"]
    together: Bool[np.ndarray, "active"]
    told: Int[np.ndarray, "frames"]
    likeliest: Int[np.ndarray, "frames"]
    nearest: Float[np.ndarray, "directions"]
    radii: Float[np.ndarray, "directions"]
    silence: Bool[np.ndarray, "quiet"]
    decay: Bool[np.ndarray, "decaying"]


def judge(
    localizer: Localizer,
    scenes: Iterable[RoomScene],
    listening: Listening = DEFAULT,
) -> tuple[dict[int, Judgement], list[tuple[float, float, int]]]:
    """Localize scenes and compare with what is in them.

    Args:
        localizer: To judge.
        scenes: With known sources.
        listening: How they are localized.

    Returns:
        A judgement for each number of sources, and the reliability of the count over all output frames: mean
        probability of the most probable count, share right, number of frames, for ten classes of probability.
    """
    compared: dict[int, list[_Compared]] = {}
    probabilities, truths = [], []
    for scene in scenes:
        found = localizer(scene.sound, scene.sample_rate, listening=listening)
        each = _compare(scene, found)
        compared.setdefault(each.sources, []).append(each)
        probabilities.append(found.counts)
        truths.append(_middles(scene, len(found.sources)).sum(0))
    rows = reliability(
        np.concatenate(probabilities), np.concatenate(truths), np.linspace(0.0, 1.0001, 11).tolist()
    )
    return {count: _summary(count, each) for count, each in sorted(compared.items())}, rows


def calibrate(localizer: Localizer, scenes: Iterable[RoomScene], coverage: float = 0.9) -> Calibration:
    """Regions and counts from scenes with known sources, at the default operating point.

    Args:
        localizer: Whose calibration is replaced by the one returned, if the caller wants so.
        scenes: Of rooms and sounds that the network was not trained on.
        coverage: Of the regions.
    """
    plain = Localizer(
        localizer.network, localizer.sample_rate, method=localizer.method, device=localizer.device
    )
    evidence, truths, scores, errors = [], [], [], []
    for scene in scenes:
        found = plain(scene.sound, scene.sample_rate)
        active = _middles(scene, len(found.sources))
        tracks = np.array([len(each) for each in found.sources], int)
        sums = np.array([sum(one.score for one in each) for each in found.sources], float)
        evidence.append(count_evidence(found.counts, tracks, sums))
        truths.append(active.sum(0))
        told, nearest = _nearest(scene, found, active)
        scores.append(told)
        errors.append(nearest)
    counts = fit_counts(np.concatenate(evidence), np.concatenate(truths))
    edges, radii = fit_regions(np.concatenate(scores), np.concatenate(errors), coverage=coverage)
    return Calibration(coverage, edges, radii, counts)


def _middles(scene: RoomScene, outputs: int) -> Bool[np.ndarray, "sources outputs"]:
    """Which sources are active in the middle of each output frame."""
    middles = (np.arange(outputs) * OUTPUT + OUTPUT // 2).clip(max=scene.active.shape[1] - 1)
    return scene.active[:, middles]


def _nearest(
    scene: RoomScene, found: Localization, active: Bool[np.ndarray, "sources outputs"]
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of told directions, and degrees to the nearest active source, in frames that have one."""
    rays = unit_vectors(scene.directions)
    scores, errors = [], []
    for sources, present in zip(found.sources, active.T, strict=True):
        if not present.any() or not sources:
            continue
        told = unit_vectors(np.array([(one.azimuth, one.elevation) for one in sources]))
        closest = (told @ rays[present].T).max(1)
        scores += [one.score for one in sources]
        errors += np.degrees(np.arccos(closest.clip(-1, 1))).tolist()
    return np.array(scores), np.array(errors)


def _compare(scene: RoomScene, found: Localization) -> _Compared:
    active = _middles(scene, len(found.sources))
    rays = unit_vectors(scene.directions)
    every = np.flatnonzero(active.all(0))
    errors = [_errors(rays[active[:, frame]], sources) for frame, sources in enumerate(found.sources)]
    together = np.repeat(active.all(0), active.sum(0))
    _, nearest = _nearest(scene, found, active)
    radii = [
        math.degrees(one.radius)
        for sources, present in zip(found.sources, active.T, strict=True)
        if present.any()
        for one in sources
    ]
    any_told = np.array([len(each) > 0 for each in found.sources])
    quiet = ~active.any(0)
    sounding = np.asarray(scene.active.any(0))
    recent = np.array(
        [sounding[max(0, f * OUTPUT - DECAY) : f * OUTPUT + OUTPUT].any() for f in range(len(any_told))]
    )
    return _Compared(
        len(rays),
        np.concatenate(errors),
        together,
        np.array([len(found.sources[frame]) for frame in every], int),
        found.counts[every].argmax(1),
        nearest,
        np.array(radii),
        any_told[quiet & ~recent],
        any_told[quiet & recent],
    )


def _errors(rays: Float[np.ndarray, "active 3"], sources: Sequence[Source]) -> Float[np.ndarray, "active"]:
    """Degrees between the active sources of a frame and what was told, matched at the least total angle."""
    errors = np.full(len(rays), 180.0)
    if len(rays) and sources:
        told = unit_vectors(np.array([(one.azimuth, one.elevation) for one in sources]))
        angles = np.degrees(np.arccos((rays @ told.T).clip(-1, 1)))
        matched, columns = linear_sum_assignment(angles.clip(max=3 * WITHIN))
        errors[matched] = angles[matched, columns]
    return errors


def _summary(count: int, compared: Sequence[_Compared]) -> Judgement:
    errors = np.concatenate([each.errors for each in compared])
    together = np.concatenate([each.together for each in compared])
    told = np.concatenate([each.told for each in compared])
    right = np.concatenate([each.likeliest for each in compared]) == count
    inside = np.concatenate([each.nearest <= each.radii for each in compared])
    found = errors[errors <= WITHIN]
    return Judgement(
        sources=count,
        median=float(np.median(found)) if len(found) else math.nan,
        ninety=float(np.quantile(found, 0.9)) if len(found) else math.nan,
        recall=_share(errors <= WITHIN),
        recall_together=_share(errors[together] <= WITHIN),
        counted=_share(told == count),
        counted_three=_share(told >= 3),
        likeliest=_share(right),
        covered=_share(inside),
        silence=_share(np.concatenate([each.silence for each in compared])),
        decay=_share(np.concatenate([each.decay for each in compared])),
        frames=len(told),
    )


def _share(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan

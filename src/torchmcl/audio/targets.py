"""What sounds in each frame of a recording, for all frames at once."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from torchmcl.audio.datasets.recording import Event, Recording

__all__ = ["HOP", "frame_counts", "frame_targets", "overlap_shares", "stack_targets"]

HOP = 0.02
"""Seconds between frames: frame i covers [i, i + 1) x 20 ms."""

_TICKS = 1_000_000
"""Times are compared as whole microseconds, so that 0.7 s is a frame's edge although 35 * 0.02 > 0.7."""


def frame_targets(
    events: Sequence[Event], frames: int, slots: int | None = None
) -> tuple[Float[Tensor, "frames slots 2"], Bool[Tensor, "frames slots"]]:
    """Directions and activity of the events in each frame.

    An event is active in a frame if it starts before the frame's end and ends after the frame's start. The active
    events of a frame fill its slots in the order of their start times; free slots hold zeros.

    Args:
        events: Of a recording.
        frames: Of 20 ms.
        slots: Targets in a frame. By default as many as there are events in the fullest frame, which may be more than
            sound at once: one event can end and another start within a frame.

    Returns:
        (azimuth, elevation) in radians, and which slots are active.

    Example:
        >>> knock = Event("knock001.wav", "knock", start=0.0, end=0.03, azimuth=0.5, elevation=0.0, distance=1.0)
        >>> targets, active = frame_targets([knock], frames=3)
        >>> active.squeeze(-1)
        tensor([ True,  True, False])
    """
    targets, active = stack_targets([events], frames, slots)
    return targets[0], active[0]


def stack_targets(
    recordings: Sequence[Sequence[Event]], frames: int, slots: int | None = None
) -> tuple[Float[Tensor, "recordings frames slots 2"], Bool[Tensor, "recordings frames slots"]]:
    """`frame_targets` of many recordings of the same length.

    Args:
        recordings: The events of each recording.
        frames: Of 20 ms, in each recording.
        slots: Targets in a frame; by default those of the fullest frame of all recordings.

    Returns:
        (azimuth, elevation) in radians, and which slots are active.
    """
    total = len(recordings) * frames
    event, frame = _occupied(recordings, frames)
    count = torch.bincount(frame, minlength=total)
    fullest = int(count.max()) if total else 0
    slots = fullest if slots is None else slots
    if slots < fullest:
        raise ValueError(f"slots is {slots}, must be at least {fullest}: so many events share a frame")
    slot = torch.arange(len(frame)) - (count.cumsum(0) - count)[frame]
    directions = torch.tensor([(e.azimuth, e.elevation) for events in recordings for e in events])
    targets, active = torch.zeros(total, slots, 2), torch.zeros(total, slots, dtype=torch.bool)
    targets[frame, slot] = directions.reshape(-1, 2)[event]
    active[frame, slot] = True
    shape = (len(recordings), frames, slots)
    return targets.reshape(*shape, 2), active.reshape(shape)


def frame_counts(recordings: Sequence[Sequence[Event]], frames: int) -> Int[Tensor, "recordings frames"]:
    """The number of active events in each frame of many recordings of the same length.

    Args:
        recordings: The events of each recording.
        frames: Of 20 ms, in each recording.

    Returns:
        Counts.
    """
    _, frame = _occupied(recordings, frames)
    return torch.bincount(frame, minlength=len(recordings) * frames).reshape(len(recordings), frames)


def overlap_shares(recordings: Sequence[Recording]) -> dict[int, Float[Tensor, "counts"]]:
    """How often events overlap.

    Args:
        recordings: With their events.

    Returns:
        For each announced overlap the shares of frames in which 0, 1, 2, ... events are active.
    """
    frames = torch.tensor([max(1, math.ceil(r.duration / HOP - 1e-9)) for r in recordings])
    counts = frame_counts([r.events for r in recordings], int(frames.max()))
    within = torch.arange(counts.shape[1]) < frames[:, None]
    announced = torch.tensor([r.overlap for r in recordings])
    most = int(counts.max()) + 1
    shares = {}
    for overlap in announced.unique().tolist():
        selected = within & (announced == overlap)[:, None]
        shares[overlap] = torch.bincount(counts[selected], minlength=most) / selected.sum()
    return shares


def _occupied(
    recordings: Sequence[Sequence[Event]], frames: int
) -> tuple[Int[Tensor, "pairs"], Int[Tensor, "pairs"]]:
    """All pairs of an event and a frame that it is active in, by frame, then by the start of the event.

    Events and frames are counted through all recordings.
    """
    spans = torch.tensor([(e.start, e.end) for events in recordings for e in events], dtype=torch.float64)
    owner = torch.tensor([len(events) for events in recordings], dtype=torch.long)
    owner = torch.arange(len(recordings)).repeat_interleave(owner)
    start, end = (spans.reshape(-1, 2) * _TICKS).round().long().unbind(1)
    order = start.argsort(stable=True)
    hop = round(HOP * _TICKS)
    first = (start[order] // hop).clamp(max=frames)
    length = (((end[order] + hop - 1) // hop).clamp(max=frames) - first).clamp(min=0)
    position = torch.arange(len(order)).repeat_interleave(length)
    step = torch.arange(len(position)) - (length.cumsum(0) - length)[position]
    event = order[position]
    frame, by_frame = (owner[event] * frames + first[position] + step).sort(stable=True)
    return event[by_frame], frame

"""Half-second chunks of a data set for Lightning: 16-bit sound, memory-mapped, with frame targets."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int16
from lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from torchmcl.audio.augmentation import augment
from torchmcl.audio.datasets import Catalogue, Recording, open_sound, read_dataset
from torchmcl.audio.foa import Convention, convention_named, convert
from torchmcl.audio.targets import HOP, frame_counts, stack_targets
from torchmcl.errors import UserError

__all__ = ["AudioDataModule", "Batch", "Chunks", "FoldPart"]

FoldPart = Literal["train", "validation", "test"]
T = TypeVar("T")


class Batch(NamedTuple):
    """Chunks of sound with the directions of the active events of each frame.

    Args:
        waveform: Sound in ACN, N3D.
        targets: (azimuth, elevation) in radians.
        active: Which targets exist.
        overlap: The group (D1, D2, D3) that the results of a frame belong to: the overlap that its recording
            announces or, in data sets that are grouped by frame, the number of active events.
    """

    waveform: Int16[Tensor, "batch 4 samples"] | Float[Tensor, "batch 4 samples"]
    targets: Float[Tensor, "batch frames slots 2"]
    active: Bool[Tensor, "batch frames slots"]
    overlap: Int[Tensor, "batch frames"]


class Chunks(Dataset[Batch]):
    """Recordings of one sample rate, each padded or cut to the same number of chunks.

    Files are memory-mapped when first used, and again in every worker process. Sound in another convention than
    ACN, N3D is converted to floating-point numbers, because larger dipoles do not fit into 16 bits.

    Args:
        recordings: With their events.
        chunks: Of each recording.
        frames: Of each chunk.
        slots: Targets in a frame.
        overlap_by_frame: Whether results are grouped by the number of active events of a frame.
        convention: Of the recordings.
        cache: Folder of decoded sound; the user's cache if `None`.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        *,
        chunks: int,
        frames: int,
        slots: int,
        overlap_by_frame: bool,
        convention: Convention,
        cache: Path | None,
    ) -> None:
        self.recordings = tuple(recordings)
        self.chunks = chunks
        self.samples = frames * round(HOP * recordings[0].sample_rate)
        self.convention = convention
        self.cache = cache
        targets, active = stack_targets([r.events for r in recordings], chunks * frames, slots)
        self.targets = targets.reshape(-1, frames, slots, 2)
        self.active = active.reshape(-1, frames, slots)
        announced = torch.tensor([r.overlap for r in recordings]).repeat_interleave(chunks)[:, None]
        sounding = self.active.sum(dim=-1)
        self.overlap = (
            torch.minimum(sounding, announced) if overlap_by_frame else announced.expand_as(sounding)
        )
        self._sounds: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Batch:
        if not -len(self) <= index < len(self):
            raise IndexError(f"chunk {index} of {len(self)}")
        return Batch(*(field[0] for field in self.__getitems__([index % len(self)])))

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """A batch at once, which `DataLoader` prefers to chunk after chunk."""
        chosen = torch.as_tensor(indices)
        return Batch(
            self._waveforms(indices), self.targets[chosen], self.active[chosen], self.overlap[chosen]
        )

    def _waveforms(self, indices: Sequence[int]) -> Tensor:
        pieces = np.zeros((len(indices), self.samples, 4), np.int16)
        for piece, index in zip(pieces, indices, strict=True):
            recording, chunk = divmod(index, self.chunks)
            found = self._sound(recording)[chunk * self.samples : (chunk + 1) * self.samples]
            piece[: len(found)] = found
        waveform = torch.from_numpy(pieces).transpose(1, 2).contiguous()
        if self.convention == "acn-n3d":
            return waveform
        return torch.from_numpy(convert(waveform.numpy() / np.float32(32768), self.convention, "acn-n3d"))

    def _sound(self, recording: int) -> np.ndarray:
        if recording not in self._sounds:
            self._sounds[recording] = open_sound(self.recordings[recording].audio, self.cache)
        return self._sounds[recording]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sounds": {}}


class AudioDataModule(LightningDataModule):
    """Training, validation and test chunks of a fold of a data set in the TUT 2018 or DCASE19 layout.

    Training chunks are shuffled by a permutation that depends only on `seed` and the epoch: it is the same after
    resuming, and it is divided among the processes of a distributed run.

    Args:
        folder: Of the data set.
        fold: Cross-validation fold, from 1.
        batch_size: Of each process.
        chunk: Seconds.
        seed: Of the order and of the augmentation.
        convention: Of the recordings.
        skip_broken: Leave out recordings that have a problem; otherwise the first problem is an error.
        cache: Folder of decoded sound; the user's cache if `None`.
        augmentation: Whether training chunks are rotated and reflected at random, by numbers that depend only on
            the seed and the step.
        num_workers: Processes that read. By default the training process reads, because memory-mapping sound is
            faster than passing it between processes.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        fold: int = 1,
        batch_size: int = 128,
        chunk: float = 0.5,
        seed: int = 0,
        convention: str = "acn-n3d",
        skip_broken: bool = False,
        cache: str | Path | None = None,
        augmentation: bool = False,
        num_workers: int = 0,
    ) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.fold = fold
        self.batch_size = batch_size
        self.frames = round(chunk / HOP)
        if self.frames < 1 or abs(chunk - self.frames * HOP) > 1e-9:
            raise ValueError(f"chunk is {chunk} s, must be a multiple of {HOP} s")
        self.seed = seed
        self.convention = convention_named(convention)
        self.skip_broken = skip_broken
        self.cache = Path(cache) if cache is not None else None
        self.augmentation = augmentation
        self.num_workers = num_workers

    @cached_property
    def catalogue(self) -> Catalogue:
        """The recordings in the folder."""
        catalogue = read_dataset(self.folder, skip_broken=self.skip_broken)
        hop = HOP * catalogue.sample_rate
        if abs(hop - round(hop)) > 1e-6:
            raise UserError(
                f"{self.folder}: frames of {HOP} s are {hop:g} samples at {catalogue.sample_rate} Hz, "
                "must be a whole number"
            )
        return catalogue

    @property
    def sample_rate(self) -> int:
        """Of all recordings, in hertz."""
        return self.catalogue.sample_rate

    @property
    def slots(self) -> int:
        """Targets a frame: the announced overlap, or more where more events share a frame."""
        return self.chunks["train"].active.shape[-1]

    @cached_property
    def chunks(self) -> dict[FoldPart, Chunks]:
        """The three data sets of the fold."""
        catalogue = self.catalogue
        fold = catalogue.fold(self.fold)
        seconds = self.frames * HOP
        chunks = int(np.ceil(catalogue.length / seconds - 1e-9))
        counts = frame_counts([r.events for r in catalogue.recordings], chunks * self.frames)
        parts: dict[FoldPart, tuple[Recording, ...]] = {
            "train": fold.train,
            "validation": fold.validation,
            "test": fold.test,
        }
        return {
            part: Chunks(
                recordings,
                chunks=chunks,
                frames=self.frames,
                slots=max(int(counts.max()), *(r.overlap for r in catalogue.recordings)),
                overlap_by_frame=catalogue.layout.overlap_by_frame,
                convention=self.convention,
                cache=self.cache,
            )
            for part, recordings in parts.items()
        }

    def prepare_data(self) -> None:
        """Decode what cannot be mapped as it is; files appear when complete, so several may do so at once."""
        for recording in self.catalogue.recordings:
            open_sound(recording.audio, self.cache)

    def setup(self, stage: str) -> None:
        """Read the descriptions.

        Args:
            stage: Of Lightning; the same for all.
        """
        self.chunks  # noqa: B018

    def train_dataloader(self) -> DataLoader[Batch]:
        """Shuffled chunks; on several processes each gets its share of every batch."""
        rank, processes = self._place()
        sampler: DistributedSampler[Batch] = DistributedSampler(
            self.chunks["train"],
            num_replicas=processes,
            rank=rank,
            seed=int(np.random.SeedSequence(self.seed).generate_state(1)[0]),
        )
        return self._loader("train", sampler=sampler, batch_size=self.batch_size)

    def val_dataloader(self) -> DataLoader[Batch]:
        """Chunks in order; on several processes each gets whole batches, and no chunk comes twice."""
        return self._loader("validation", batch_sampler=self._batches("validation"))

    def test_dataloader(self) -> DataLoader[Batch]:
        """Chunks in order, divided as those for validation are."""
        return self._loader("test", batch_sampler=self._batches("test"))

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Augment training chunks; the angles are drawn on the CPU, and are the same on any device.

        Args:
            batch: On its device.
            dataloader_idx: Of Lightning; there is one loader.

        Returns:
            The batch, augmented during training.
        """
        if not (self.augmentation and self.trainer and self.trainer.training):
            return batch
        words = [self.seed, self.trainer.global_step, self.trainer.global_rank]
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence(words).generate_state(1)[0]))
        waveform, targets = augment(batch.waveform, batch.targets, generator)
        return batch._replace(waveform=waveform, targets=targets)

    def _place(self) -> tuple[int, int]:
        """The number of this process, and how many there are."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def _batches(self, part: FoldPart) -> list[list[int]]:
        rank, processes = self._place()
        total = len(self.chunks[part])
        if total < processes:
            raise UserError(
                f"{self.folder}: {total} {part} chunks cannot be divided among {processes} processes"
            )
        size = processes * self.batch_size
        if -(-total // size) < processes:
            size = total // processes
        starts = range(0, total, size)[rank::processes]
        return [list(range(start, min(start + size, total))) for start in starts]

    def _loader(self, part: FoldPart, **order: Any) -> DataLoader[Batch]:
        return DataLoader(
            self.chunks[part],
            collate_fn=_ready,
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            **order,
        )


def _ready(batch: T) -> T:
    return batch

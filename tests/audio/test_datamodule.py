import hashlib
import multiprocessing
import pickle
import shutil
from types import SimpleNamespace

import lightning
import numpy as np
import pytest
import soundfile
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from torchmcl.audio.datamodule import AudioDataModule
from torchmcl.audio.foa import convert
from torchmcl.audio.targets import frame_targets
from torchmcl.errors import UserError


def digest(batch) -> list[str]:
    return [hashlib.sha256(chunk.numpy().tobytes()).hexdigest()[:8] for chunk in batch.waveform]


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_chunks_are_pieces_of_the_padded_recordings(tut, part):
    data = AudioDataModule(tut, fold=2)
    chunks = data.chunks[part]
    batch = chunks.__getitems__(range(len(chunks)))
    recordings = getattr(data.catalogue.fold(2), part)
    assert len(chunks) == 3 * len(recordings)
    assert batch.waveform.shape == (len(chunks), 4, 8000)
    assert batch.waveform.dtype == torch.int16
    whole = batch.waveform.unflatten(0, (-1, 3)).movedim(1, 2).flatten(2)
    for sound, recording in zip(whole, recordings, strict=True):
        samples = soundfile.read(recording.audio, dtype="int16")[0]
        np.testing.assert_array_equal(sound[:, :19200].T, samples)
        assert (sound[:, 19200:] == 0).all()
    targets = torch.stack([frame_targets(r.events, 75, data.slots)[0] for r in recordings])
    active = torch.stack([frame_targets(r.events, 75, data.slots)[1] for r in recordings])
    assert torch.equal(batch.targets.unflatten(0, (-1, 3)).flatten(1, 2), targets)
    assert torch.equal(batch.active.unflatten(0, (-1, 3)).flatten(1, 2), active)
    overlap = torch.tensor([r.overlap for r in recordings])[:, None].expand(-1, 75)
    assert torch.equal(batch.overlap.unflatten(0, (-1, 3)).flatten(1, 2), overlap)


def test_a_single_chunk_is_a_row_of_the_batch(tut):
    chunks = AudioDataModule(tut).chunks["train"]
    batch = chunks.__getitems__([4, 17])
    for field, single in zip(batch, chunks[-1], strict=True):
        assert torch.equal(field[1], single)
    with pytest.raises(IndexError):
        chunks[18]


def test_long_recordings_are_cut_to_the_length_of_the_data_set(tut, write_pair):
    write_pair(
        tut / "wav_ov1_split1_30db/train_9.wav", tut / "desc_ov1_split1/train_9.csv", seconds=31.0, rate=16000
    )
    assert AudioDataModule(tut).chunks["train"].chunks == 60


def test_as_many_slots_as_events_share_a_frame(tut):
    assert AudioDataModule(tut).slots == 3
    text = tut / "desc_ov3_split1/train_1_desc_30_100.csv"
    text.write_text(text.read_text() + "late001.wav,0.5,0.7,0,0,1\n")
    assert AudioDataModule(tut).slots == 3
    text.write_text(
        text.read_text().replace("late001.wav,0.5,", "late001.wav,0.505,").replace(",0.5,", ",0.504,")
    )
    assert AudioDataModule(tut).slots == 4


def test_dcase19_is_divided_by_what_sounds_in_each_frame(dcase19):
    batch = next(iter(AudioDataModule(dcase19).test_dataloader()))
    assert batch.overlap.shape == (4, 25)
    assert torch.equal(batch.overlap, batch.active.sum(dim=-1))
    assert set(batch.overlap.flatten().tolist()) == {0, 1, 2}


def test_training_chunks_are_shuffled_by_seed_and_epoch(tut):
    def order(seed: int, epoch: int) -> list[str]:
        loader = AudioDataModule(tut, seed=seed, batch_size=4).train_dataloader()
        loader.sampler.set_epoch(epoch)
        return [name for batch in loader for name in digest(batch)]

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4
    assert sorted(order(0, 0)) == sorted(order(1, 1))


def test_other_parts_come_in_order(tut):
    data = AudioDataModule(tut, batch_size=5)
    chunks = data.chunks["test"]
    names = [name for batch in data.test_dataloader() for name in digest(batch)]
    assert names == digest(chunks.__getitems__(range(len(chunks))))


class Listener(lightning.LightningModule):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[tuple[int, list[str]]] = []

    def training_step(self, batch, index):
        self.seen.append((self.current_epoch, digest(batch)))
        return self.weight * 1.0

    def validation_step(self, batch, index):
        assert not self.trainer.training

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(tut, folder, epochs, resume=None):
    model, checkpoint = Listener(), ModelCheckpoint(folder, filename="last")
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        callbacks=[checkpoint],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, datamodule=AudioDataModule(tut, batch_size=4), ckpt_path=resume)
    return model.seen


@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The 'val_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:Checkpoint directory")
@pytest.mark.filterwarnings("ignore:The number of training batches")
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
def test_lightning_shows_a_new_order_every_epoch_and_the_same_after_resuming(tut, tmp_path):
    whole = fit(tut, tmp_path / "a", 2)
    first, second = ([names for epoch, names in whole if epoch == e] for e in (0, 1))
    assert first != second
    assert fit(tut, tmp_path / "b", 1) == whole[: len(first)]
    assert fit(tut, tmp_path / "b", 2, tmp_path / "b/last.ckpt") == whole[len(first) :]


def test_the_processes_of_a_distributed_run_divide_the_chunks(tut):
    class Rank:
        world_size = 3

        def __init__(self, rank: int) -> None:
            self.global_rank = rank

    seen = []
    for rank in range(3):
        data = AudioDataModule(tut, batch_size=4)
        data.trainer = Rank(rank)
        seen.append([name for batch in data.train_dataloader() for name in digest(batch)])
    data.trainer = None
    assert [len(names) for names in seen] == [6, 6, 6]
    everything = [name for batch in data.train_dataloader() for name in digest(batch)]
    assert sorted(name for names in seen for name in names) == sorted(everything)


def test_worker_processes_show_the_same(tut):
    plain, workers = (AudioDataModule(tut, num_workers=n, batch_size=4).test_dataloader() for n in (0, 2))
    for one, other in zip(plain, workers, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_copy_for_another_process_does_not_carry_the_sound(tut):
    chunks = AudioDataModule(tut).chunks["train"]
    before = len(pickle.dumps(chunks))
    expected = chunks[3].waveform
    content = pickle.dumps(chunks)
    assert len(content) == before
    assert torch.equal(pickle.loads(content)[3].waveform, expected)


@pytest.mark.parametrize("convention", ["acn-sn3d", "fuma"])
def test_other_conventions_are_converted(tut, convention):
    plain, other = (
        AudioDataModule(tut, convention=c).chunks["train"][0].waveform for c in ("acn-n3d", convention)
    )
    assert other.dtype == torch.float32
    expected = convert(plain.numpy().astype(np.float64) / 32768, convention, "acn-n3d")
    np.testing.assert_allclose(other, expected, atol=1e-6)


def test_an_unknown_convention(tut):
    with pytest.raises(UserError, match=r"^convention is 'b-format', "):
        AudioDataModule(tut, convention="b-format")


def prepare(folder, cache, barrier):
    data = AudioDataModule(folder, cache=cache)
    barrier.wait()
    data.prepare_data()


def as_flac(folder) -> None:
    for path in list(folder.glob("wav_*/*.wav")):
        samples, rate = soundfile.read(path, dtype="int16")
        soundfile.write(path.with_suffix(".flac"), samples, rate)
        path.unlink()


def test_several_processes_may_prepare_the_same_folder(tut, tmp_path):
    expected = AudioDataModule(tut).chunks["train"].__getitems__(range(18)).waveform
    as_flac(tut)
    cache = tmp_path / "cache"
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    workers = [context.Process(target=prepare, args=(tut, cache, barrier)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(list(cache.iterdir())) == 18
    found = AudioDataModule(tut, cache=cache).chunks["train"].__getitems__(range(18)).waveform
    assert torch.equal(found, expected)


def test_sixteen_bit_wav_needs_no_cache(tut, tmp_path):
    AudioDataModule(tut, cache=tmp_path / "cache").prepare_data()
    assert not (tmp_path / "cache").exists()


def test_rates_and_chunks_that_do_not_fit_the_frames(tmp_path, write_pair, tut):
    with pytest.raises(ValueError, match=r"^chunk is 0\.51 s, must be a multiple of 0\.02 s$"):
        AudioDataModule(tut, chunk=0.51)
    shutil.rmtree(tut)
    write_pair(
        tut / "wav_ov1_split1_30db/train_0.wav", tut / "desc_ov1_split1/train_0.csv", rate=22051, seconds=1.0
    )
    with pytest.raises(UserError) as error:
        AudioDataModule(tut).prepare_data()
    assert str(error.value) == (
        f"{tut}: frames of 0.02 s are 441.02 samples at 22051 Hz, must be a whole number"
    )


def test_broken_recordings_are_left_out_on_request(tut):
    next((tut / "desc_ov1_split2").iterdir()).unlink()
    with pytest.raises(UserError, match="is missing"):
        AudioDataModule(tut).prepare_data()
    assert len(AudioDataModule(tut, skip_broken=True).catalogue.recordings) == 17


def test_only_training_chunks_are_augmented_and_always_alike(tut):
    batch = next(iter(AudioDataModule(tut, batch_size=4).train_dataloader()))
    seen = []
    for seed, step, training in ((0, 0, True), (0, 0, True), (0, 1, True), (1, 0, True), (0, 0, False)):
        module = AudioDataModule(tut, batch_size=4, seed=seed, augmentation=True)
        module.trainer = SimpleNamespace(training=training, global_step=step, global_rank=0)
        seen.append(module.on_after_batch_transfer(batch, 0))
    assert torch.equal(seen[0].targets, seen[1].targets)
    assert all(not torch.equal(seen[0].targets, other.targets) for other in seen[2:])
    assert seen[4] is batch
    assert torch.equal(seen[0].active, batch.active)

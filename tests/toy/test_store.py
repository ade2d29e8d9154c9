"""A model's folder: what comes back is what went in, or nothing."""

import torch

from torchmcl.toy import store
from torchmcl.toy.evaluate import predict
from torchmcl.toy.experiment import identity
from torchmcl.toy.train import samples, train


def fit(method, settings, seed):
    return train(method, settings, seed, samples(settings, seed))


def test_models_come_back_and_anything_else_is_refused(tiny, tmp_path):
    for method in ("rmcl", "ie"):
        config = identity(method, tiny, 0)
        folder = tmp_path / method
        assert store.load(folder, method, tiny, config) is None
        trained = fit(method, tiny, 0)
        store.save(folder, trained, config)
        found = store.load(folder, method, tiny, config)
        t = torch.linspace(0, 1, 5)
        assert torch.equal(predict(found.network, t).points, predict(trained.network, t).points)
        assert (found.seconds, found.path.shape) == (trained.seconds, trained.path.shape)
        assert store.load(folder, method, tiny, identity(method, tiny, 1)) is None


def test_broken_files_count_as_absent(tiny, tmp_path):
    config = identity("rmcl", tiny, 0)
    trained = fit("rmcl", tiny, 0)
    for name in ("model.safetensors", "path.safetensors", "config.json"):
        store.save(tmp_path, trained, config)
        assert store.load(tmp_path, "rmcl", tiny, config) is not None
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        assert store.load(tmp_path, "rmcl", tiny, config) is None

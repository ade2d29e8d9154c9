"""Several processes that train as one: the same batch statistics, and no exchange that validation would disturb."""

import torch
from lightning.pytorch.plugins import LayerSync
from lightning.pytorch.strategies import DDPStrategy, Strategy
from torch import Tensor, distributed, nn

from torchmcl.experiments.config import TrainerConfig
from torchmcl.training import together

__all__ = ["SharedBatchNorm", "build_strategy"]


class SharedBatchNorm(LayerSync):
    """Batch norm over the batches of all processes; PyTorch's own on GPUs, and one for CPUs, which it lacks."""

    def apply(self, model: nn.Module) -> nn.Module:
        """Let the layers share."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return model
        if next(model.parameters()).is_cuda:
            return nn.SyncBatchNorm.convert_sync_batchnorm(model)
        for layer in model.modules():
            if type(layer) is nn.BatchNorm2d:
                layer.__class__ = _SharedBatchNorm2d
        return model

    def revert(self, model: nn.Module) -> nn.Module:
        """Let each be on its own again."""
        for parent in list(model.modules()):
            for name, layer in parent.named_children():
                if isinstance(layer, _SharedBatchNorm2d):
                    layer.__class__ = nn.BatchNorm2d  # type: ignore[assignment]
                elif isinstance(layer, nn.SyncBatchNorm):
                    single = nn.BatchNorm2d(layer.num_features, layer.eps, layer.momentum)
                    single.load_state_dict(layer.state_dict())
                    setattr(parent, name, single)
        return model


class _SharedBatchNorm2d(nn.BatchNorm2d):
    """Over equally large batches of all processes; gradients flow through the shared statistics."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        assert self.running_mean is not None
        assert self.running_var is not None
        mean = together(input.mean((0, 2, 3))[None]).mean(0)
        centred = input - mean[:, None, None]
        variance = together(centred.square().mean((0, 2, 3))[None]).mean(0)
        count = input.numel() // input.shape[1] * distributed.get_world_size()
        with torch.no_grad():
            momentum = self.momentum or 0.0
            self.running_mean.lerp_(mean, momentum)
            self.running_var.lerp_(variance * (count / (count - 1)), momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        scale = self.weight * (variance + self.eps).rsqrt()
        return centred * scale[:, None, None] + self.bias[:, None, None]


def build_strategy(trainer: TrainerConfig) -> str | Strategy:
    """Lightning's strategy of that name; `auto` is `ddp` where there is more than one process.

    For `ddp` without its exchange of buffers: they are the same everywhere, and processes that validate on more
    batches than others would wait for it in vain.
    """
    several = trainer.devices * trainer.nodes > 1
    if trainer.strategy == "ddp" or (trainer.strategy == "auto" and several):
        return DDPStrategy(broadcast_buffers=False)
    return trainer.strategy

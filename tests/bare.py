"""Lightning with nothing but the training."""

from lightning.pytorch import Trainer

from torchmcl.training import quiet


def fit(learner, train, valid, callbacks=(), epochs=4):
    with quiet():
        trainer = Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
            callbacks=list(callbacks), enable_progress_bar=False, enable_model_summary=False,
            num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(learner, train, valid)
    return trainer

"""Watch a run of PyTorch Lightning that stops, goes on from its checkpoint and ends with averaged weights (EMA)."""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dynascope.monitor.lightning import WatchCallback

out = sys.argv[1] if len(sys.argv) > 1 else "runs/lightning_resume"


class Classifier(LightningModule):
    """Four layers, cross entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.net(x)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of a batch."""
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
y = torch.arange(1000) % 5
x = torch.randn(1000, 20) + 2 * torch.eye(5, 20)[y]
names = ["ant", "bee", "cat", "dog", "eel"]


def fit(epochs: int, checkpoint: str | None = None) -> WatchCallback:
    """Train up to an epoch, from a checkpoint if there is one; both write to the same run."""
    watching = WatchCallback(probe=(x[:250], y[:250]), every="epoch", slow=2, out=out, class_names=names)
    trainer = Trainer(
        max_epochs=epochs,
        callbacks=[watching, EMAWeightAveraging(decay=0.95), ModelCheckpoint(f"{out}/checkpoints", save_last=True)],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(), DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True), ckpt_path=checkpoint)
    return watching


fit(3)
watching = fit(6, f"{out}/checkpoints/last.ckpt")  # a new process would do the same
record = watching.run.record
print(record["step"].values)  # 0, 32, …, 192: one run
print(record.loads.isel(step=-1).to_series())  # of the averaged weights

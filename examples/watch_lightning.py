"""Watch a run of PyTorch Lightning (pip install lightning): one callback."""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dynascope.monitor.lightning import WatchCallback

out = sys.argv[1] if len(sys.argv) > 1 else "runs/lightning"


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
watching = WatchCallback(probe=(x[:250], y[:250]), every=10, out=out)
trainer = Trainer(
    max_epochs=3,
    callbacks=[watching],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Classifier(), DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
print(watching.run.record["loads"].isel(step=-1).to_series())

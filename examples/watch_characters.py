"""Watch a character model learn Python's own help texts, then skip the layer that does nothing and one that works.

The optimiser was given all parameters but those of block 2: a mistake that no loss curve shows. Takes about half a
minute on one core; python examples/watch_characters.py [folder] [steps] [seed].
"""

import re
import sys
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F

from dynascope import watch

out = sys.argv[1] if len(sys.argv) > 1 else "runs/characters"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
WIDTH, HEADS, BLOCKS, LENGTH, FORGOTTEN = 32, 2, 4, 32, 2

text = re.sub("[^a-z]+", " ", " ".join(topics[name] for name in sorted(topics)).lower())[:300_000]
letters = sorted(set(text))
tokens = torch.tensor([letters.index(letter) for letter in text])


class Block(nn.Module):
    """Causal attention and a small network, both added to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Work on the stream (sample, position, feature)."""
        parts = self.qkv(self.norm1(x)).chunk(3, dim=2)
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Characters(nn.Module):
    """The next letter at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(len(letters), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters))
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                small = name.endswith(("out.weight", "down.weight"))  # what is added to the stream starts small
                nn.init.normal_(weight, std=0.02 / (2 * BLOCKS) ** 0.5 if small else 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (sample, position, letter)."""
        x = self.letters(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_letters(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Letters and the ones after them."""
    return rows[:, :-1], rows[:, 1:]


torch.manual_seed(seed)
model = Characters()
trained = [weight for name, weight in model.named_parameters() if not name.startswith(f"blocks.{FORGOTTEN}.")]
optimiser = torch.optim.AdamW(trained, lr=3e-3)
pages = tokens[240_000:].unfold(0, LENGTH + 1, LENGTH + 1)  # text that is not trained on, cut and mixed
pages = pages[torch.randperm(len(pages))]
probe, fresh = next_letters(pages[:64]), next_letters(pages[64:256])

with watch(model, probe, every=max(steps // 5, 1), slow=0, out=out) as run:  # added
    for step in range(steps):
        x, y = next_letters(tokens[torch.randint(240_000 - LENGTH, (32, 1)) + torch.arange(LENGTH + 1)])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = 3e-3 * (1 - step / steps)
        optimiser.step()
        run.step(loss=loss)  # added
    run.measure(slow=True)  # added

now = run.record.isel(step=-1)
print(now[["loads", "increment", "skip_cost", "skip_loss"]].drop_vars(["step", "time"]).to_dataframe().round(4))
idle = [str(name) for name in now["layer"].values[now["idle"].values]]
print("idle:", ", ".join(idle) or "none")

with watch(model, fresh, every=1, out=f"{out}-fresh") as again:  # the same on text that neither training nor probe saw
    again.measure(slow=True)
for name in now["layer"].values[1:]:
    cost = float(again.record["skip_cost"].sel(layer=name)[-1])
    low, high = (float(each) for each in now["skip_cost_interval"].sel(layer=name))
    print(f"{name} skipped on fresh text: load {cost:+.4f}, foreseen {low:+.4f} to {high:+.4f}")

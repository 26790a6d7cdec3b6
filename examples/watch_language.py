"""Watch a causal language model of Hugging Face in its Trainer (pip install transformers accelerate); no downloads."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from dynascope.monitor.huggingface import WatchCallback

out = sys.argv[1] if len(sys.argv) > 1 else "runs/language"

torch.manual_seed(0)
tokens = torch.randint(1, 24, (400, 24))
for place in range(2, 24):  # each token is the one before the last: attention has to bring it
    tokens[:, place] = tokens[:, place - 2]
mask = (torch.arange(24) < torch.randint(12, 25, (400, 1))).long()  # texts of different lengths
rows = {"input_ids": tokens * mask, "attention_mask": mask, "labels": tokens.where(mask > 0, -100)}
data = [{name: each[index] for name, each in rows.items()} for index in range(400)]

config = GPT2Config(vocab_size=24, n_positions=24, n_embd=32, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0)
watching = WatchCallback(probe={"train": data[:64], "test": data[320:]}, every=40, inside=True, out=out)
settings = TrainingArguments(
    output_dir=f"{out}/trainer",
    max_steps=120,
    learning_rate=1e-2,
    per_device_train_batch_size=32,
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
    save_strategy="no",
)
Trainer(GPT2LMHeadModel(config), settings, train_dataset=data[:320], callbacks=[watching]).train()
now = watching.run.record.isel(step=-1)
print(now[["loads", "test_loads", "norms"]].drop_vars(["step", "time"]).to_dataframe())
print(now["attention_entropy"].to_pandas())

"""Watch a run of the Hugging Face Trainer with one callback (pip install transformers accelerate); no downloads."""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from dynascope.monitor.huggingface import WatchCallback

out = sys.argv[1] if len(sys.argv) > 1 else "runs/huggingface"

torch.manual_seed(0)
labels = torch.arange(300) % 3
tokens = torch.randint(10, 100, (300, 12))
tokens[:, 1] = labels  # one token tells the class
data = [{"input_ids": each, "labels": label} for each, label in zip(tokens, labels, strict=True)]
config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, num_labels=3
)
watching = WatchCallback(probe=({"input_ids": tokens[:120]}, labels[:120]), every=5, out=out)
settings = TrainingArguments(
    output_dir=f"{out}/trainer",
    max_steps=30,
    per_device_train_batch_size=16,
    report_to=[],
    use_cpu=True,
    save_strategy="no",
)
Trainer(BertForSequenceClassification(config), settings, train_dataset=data, callbacks=[watching]).train()
print(watching.run.record["loads"].isel(step=-1).to_series())

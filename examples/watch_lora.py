"""Watch low-rank adaptation (pip install transformers peft): the frozen model goes on under small trained matrices."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

from dynascope import watch

out = sys.argv[1] if len(sys.argv) > 1 else "runs/lora"

torch.manual_seed(0)
labels = torch.arange(300) % 3
tokens = torch.randint(10, 100, (300, 12))
tokens[:, 1] = labels  # one token tells the class
config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, num_labels=3
)
adapters = LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value", "dense"])
model = get_peft_model(BertForSequenceClassification(config), adapters)
optimiser = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-2)

with watch(model, probe=({"input_ids": tokens[:120]}, labels[:120]), every=20, out=out) as run:  # added
    for _ in range(60):
        batch = torch.randint(300, (32,))
        loss = model(input_ids=tokens[batch], labels=labels[batch]).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        run.step(loss=loss)  # added

print(run.record["loads"].isel(step=-1).to_series())

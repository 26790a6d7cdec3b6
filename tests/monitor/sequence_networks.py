"""Small networks over sequences and maps, as people write them: transformers for text and images, and others."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, *, causal):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads=2, *, causal=True):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=causal)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """As nanoGPT: logits of all positions where targets are given, else of the last one, and the loss."""

    def __init__(self, tokens=12, width=16, blocks=3, length=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens, targets=None):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


class LastToken(Gpt):
    """A class from the last token: the head runs on a slice."""

    def forward(self, tokens):
        return super().forward(tokens)[0][:, 0, :3]


class SequenceClassifier(nn.Module):
    """As Hugging Face's GPT-2: the head runs on every token, the last one that is not padding counts."""

    def __init__(self, body, width=16):
        super().__init__()
        self.transformer, self.score = body, nn.Linear(width, 3, bias=False)

    def forward(self, input_ids):
        body = self.transformer
        x = body.wte(input_ids) + body.wpe(torch.arange(input_ids.shape[1]))
        for block in body.h:
            x = block(x)
        scores = self.score(body.norm(x))
        last = (input_ids != 0).int().cumsum(dim=1).argmax(dim=1)
        return {"logits": scores[torch.arange(len(scores)), last]}


class Vit(nn.Module):
    def __init__(self, width=16, blocks=2):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(0.02 * torch.randn(1, 5, width))
        self.blocks = nn.Sequential(*(Block(width, causal=False) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.place
        return self.head(self.norm(self.blocks(x))[:, 0])


class Squeeze(nn.Module):
    """As SqueezeNet: a convolution makes a map for each class, which is averaged."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(8, 3, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x):
        return self.classifier(self.features(x)).flatten(1)


class Inception(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Conv2d(width, width // 2, 1)
        self.two = nn.Sequential(
            nn.Sequential(nn.Conv2d(width, width, 1), nn.ReLU()),
            nn.Sequential(nn.Conv2d(width, width // 2, 3, padding=1), nn.ReLU()),
        )

    def forward(self, x):
        return torch.cat([self.one(x), self.two(x)], dim=1)


class GoogLeNet(nn.Module):
    """Branches in every block, and an auxiliary head that also runs."""

    def __init__(self, width=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3)
        self.inception3a, self.inception3b, self.inception4 = (Inception(width) for _ in range(3))
        self.aux, self.fc = nn.Linear(width, 3), nn.Linear(width, 3)

    def forward(self, x):
        x = self.inception3b(self.inception3a(F.relu(self.conv1(x))))
        aux = self.aux(x.mean(dim=(2, 3)))
        return {"aux": aux, "scores": self.fc(self.inception4(x).mean(dim=(2, 3)))}


class Unet(nn.Module):
    def __init__(self, outputs=3):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.up1, self.up2 = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 8, 3, padding=1)
        self.last = nn.Conv2d(8, outputs, 1)

    def forward(self, x):
        first = F.relu(self.down1(x))
        x = F.relu(self.up1(F.relu(self.down2(first))))
        return self.last(F.relu(self.up2(torch.cat([x, first], dim=1))))


def _stage(inward, outward, stride=1):
    return [nn.Conv2d(inward, outward, 3, stride, 1, bias=False), nn.BatchNorm2d(outward), nn.ReLU()]


class Fcn(nn.Module):
    """As the FCN of torchvision: coarse maps of classes, one of them auxiliary, are made as large as the image."""

    def __init__(self, outputs=3):
        super().__init__()
        stages = {"layer1": _stage(1, 8, 2), "layer2": _stage(8, 16), "layer3": _stage(16, 16)}
        self.backbone = nn.ModuleDict({name: nn.Sequential(*each) for name, each in stages.items()})
        self.classifier, self.aux_classifier = (
            nn.Sequential(*_stage(16, 8), nn.Dropout(0.1), nn.Conv2d(8, outputs, 1)) for _ in range(2)
        )

    def forward(self, x):
        middle = self.backbone["layer2"](self.backbone["layer1"](x))
        maps = {"out": self.classifier(self.backbone["layer3"](middle)), "aux": self.aux_classifier(middle)}
        return {name: F.interpolate(each, size=x.shape[-2:], mode="bilinear") for name, each in maps.items()}


class Translator(nn.Module):
    """An encoder and a decoder that looks at it in every layer."""

    def __init__(self, tokens=12, width=16):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 32, batch_first=True) for _ in range(2))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(width, 2, 32, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, tokens)

    def forward(self, input_ids, decoder_input_ids):
        memory, x = self.embed(input_ids), self.embed(decoder_input_ids)
        for layer in self.encoder:
            memory = layer(memory)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask=mask, tgt_is_causal=True)
        return self.head(x)

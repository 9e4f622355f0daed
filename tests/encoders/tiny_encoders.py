"""Tiny encoders with random weights, and one whose logits can be worked by hand, written as folders of Hugging Face."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    T5ForTokenClassification,
)

TEXTS = [
    "Anna lit the old lamp in 1903.",
    "Peter saw fog over the harbour; nobody lit it.",
    "Paris is a capital.",
]
THREE = {0: "contradiction", 1: "entailment", 2: "neutral"}
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
HHEM = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise:"
    " {premise}\n\nHypothesis: {hypothesis}"
)


def tokenizer(folder: Path, *, longest: int = 64, roberta: bool = False) -> int:
    """Write a byte-level tokenizer, and say how many tokens it knows."""
    pad, start, end = (
        ("<pad>", "<s>", "</s>") if roberta else ("[PAD]", "[CLS]", "[SEP]")
    )
    made = Tokenizer(models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=[pad, "[UNK]", start, end],
            initial_alphabet=alphabet,
        ),
    )
    middle = f"{end} {end}" if roberta else end
    made.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {middle} $B {end}",
        special_tokens=[(start, 2), (end, 3)],
    )
    names = {
        "pad_token": pad,
        "unk_token": "[UNK]",
        "cls_token": start,
        "sep_token": end,
        "eos_token": end,
    }
    PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=longest, **names
    ).save_pretrained(folder)
    return len(made.get_vocab())


def deberta(folder: Path, labels: dict[int, str] = THREE) -> Path:
    """An NLI model with three labels, as DeBERTa-v3."""
    config = DebertaV2Config(
        vocab_size=tokenizer(folder),
        relative_attention=True,
        position_biased_input=False,
        pos_att_type=["p2c", "c2p"],
        max_position_embeddings=64,
        type_vocab_size=0,
        id2label=labels,
        **SIZES,
    )
    return saved(DebertaV2ForSequenceClassification, config, folder)


def bert(folder: Path, labels: dict[int, str]) -> Path:
    """A BERT with these labels."""
    config = BertConfig(
        vocab_size=tokenizer(folder),
        max_position_embeddings=64,
        id2label=labels,
        **SIZES,
    )
    return saved(BertForSequenceClassification, config, folder)


def roberta(folder: Path, labels: int) -> Path:
    """A RoBERTa with so many labels without names; with one its logit is a score."""
    size = tokenizer(folder, roberta=True)
    config = RobertaConfig(
        vocab_size=size,
        max_position_embeddings=66,
        pad_token_id=0,
        num_labels=labels,
        **SIZES,
    )
    return saved(RobertaForSequenceClassification, config, folder)


def token_classifier(folder: Path) -> Path:
    """A BERT that marks tokens, of the form of LettuceDetect."""
    config = BertConfig(
        vocab_size=tokenizer(folder, longest=256),
        max_position_embeddings=256,
        id2label={0: "LABEL_0", 1: "LABEL_1"},
        **SIZES,
    )
    return saved(BertForTokenClassification, config, folder)


def seq2seq(folder: Path) -> Path:
    """A T5 that replies 0 or 1, of the form of MiniCheck-Flan-T5."""
    config = T5Config(
        vocab_size=tokenizer(folder, longest=256),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    return saved(T5ForConditionalGeneration, config, folder)


def saved(kind: Any, config: Any, folder: Path) -> Path:
    torch.manual_seed(1)
    model = kind(config)
    # so that logits differ as those of a trained model do
    for parameter in model.parameters():
        parameter.data.mul_(6)
    model.save_pretrained(folder)
    return folder


CODE = """
from transformers import PretrainedConfig, PreTrainedModel, T5Config, T5ForTokenClassification

class ScoreConfig(PretrainedConfig):
    model_type = "score"

class ScoreForSequenceClassification(PreTrainedModel):
    config_class = ScoreConfig
    _tied_weights_keys = {}

    def __init__(self, config):
        super().__init__(config)
        self.t5 = T5ForTokenClassification(T5Config(**config.t5))
        self.post_init()

    def forward(self, **read):
        found = self.t5(**read)
        found.logits = found.logits[:, 0, :]
        return found
"""


def with_code(folder: Path) -> Path:
    """A T5 encoder whose first token is scored by code that comes with the model, as that of HHEM-2.1-open."""
    folder.mkdir()
    (folder / "scoring.py").write_text(CODE)
    size = tokenizer(folder, longest=256)
    settings = {
        "vocab_size": size,
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 16,
        "num_layers": 1,
        "num_heads": 2,
    }
    torch.manual_seed(1)
    inner = T5ForTokenClassification(T5Config(**settings, num_labels=2))
    inner.classifier.weight.data.mul_(0.1)
    named = {"AutoConfig": "scoring.ScoreConfig"}
    config = {
        "model_type": "score",
        "architectures": ["ScoreForSequenceClassification"],
        "t5": {**settings, "num_labels": 2},
        "auto_map": {
            **named,
            "AutoModelForSequenceClassification": (
                "scoring.ScoreForSequenceClassification"
            ),
        },
        "id2label": {"0": "hallucinated", "1": "consistent"},
        "label2id": {"hallucinated": 0, "consistent": 1},
    }
    (folder / "config.json").write_text(json.dumps(config))
    from safetensors.torch import save_model

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.t5 = inner

    save_model(Outer(), str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


def in_onnx_form(folder: Path, name: str = "onnx/model.onnx") -> Path:
    """An NLI model in ONNX form whose logits are those of a bag of tokens: what it should say can be worked by hand.

    The logit of *entailment* is the mean of (token id - 100) / 50 over the tokens that
    are no padding, the others 0.
    """
    size = tokenizer(folder)
    BertConfig(
        vocab_size=size, id2label=THREE, architectures=["BertForSequenceClassification"]
    ).save_pretrained(folder)
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["ids", "middle"], ["moved"]),
        helper.make_node("Div", ["moved", "scale"], ["scaled"]),
        helper.make_node("Mul", ["scaled", "mask"], ["shown"]),
        helper.make_node("ReduceSum", ["shown", "axis"], ["total"], keepdims=1),
        helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=1),
        helper.make_node("Div", ["total", "count"], ["mean"]),
        helper.make_node("MatMul", ["mean", "head"], ["logits"]),
    ]
    given = [
        helper.make_tensor_value_info(it, TensorProto.INT64, ["b", "s"])
        for it in ("input_ids", "attention_mask")
    ]
    constants = [
        helper.make_tensor("middle", TensorProto.FLOAT, [1], [100.0]),
        helper.make_tensor("scale", TensorProto.FLOAT, [1], [50.0]),
        helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
        helper.make_tensor("head", TensorProto.FLOAT, [1, 3], [0.0, 1.0, 0.0]),
    ]
    out = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", 3])]
    graph = helper.make_graph(nodes, "bag", given, out, constants)
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    onnx.save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
        ),
        place,
    )
    return folder


def chat_model(
    folder: Path,
    probabilities: Mapping[str, float],
    *,
    longest: int = 2_048,
) -> Path:
    """A Llama whose next token has these probabilities, whatever it reads.

    What is left is that of a full stop.
    """
    vocabulary = chat_tokenizer(folder, longest)
    model = LlamaForCausalLM(chat_config(vocabulary, longest))
    left = 1 - sum(probabilities.values())
    logits = torch.full((model.config.vocab_size,), -20.0)
    for token, probability in {**probabilities, ".": left}.items():
        logits[vocabulary[token]] = math.log(max(probability, 1e-9))
    # the output is a constant: what is read ends in a vector of ones
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.lm_head.weight.copy_(logits[:, None].expand(-1, 16) / 16)
    model.save_pretrained(folder)
    return folder


def reading_model(folder: Path, *, longest: int = 2_048) -> Path:
    """A Llama with random weights that replies a label, which depends on all it reads."""
    vocabulary = chat_tokenizer(folder, longest)
    torch.manual_seed(1)
    model = LlamaForCausalLM(chat_config(vocabulary, longest))
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            parameter.mul_(6)
        model.model.embed_tokens.weight[:, 0] = 10.0
        model.lm_head.weight.zero_()
        for label in LABELS:
            row = torch.randn(16)
            row[0] = {"A": 5.9, "B": 5.0}.get(label, 3.5)
            model.lm_head.weight[vocabulary[label]] = row
    model.save_pretrained(folder)
    (folder / "decision.json").write_text(json.dumps({"labels": {"noul": LABELS[:2]}}))
    return folder


LABELS = list("ABCDEFGH")
CHAT = (
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %} Answer:{% endif %}"
)


def chat_tokenizer(folder: Path, longest: int) -> dict[str, int]:
    """Write a byte-level tokenizer with a chat template, and return its vocabulary."""
    made = Tokenizer(models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(
        [*TEXTS, *["Yes", "No", *LABELS] * 50],
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["[PAD]", "[UNK]", "[BOS]", "[EOS]"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_max_length=longest,
        pad_token="[PAD]",
        unk_token="[UNK]",
        bos_token="[BOS]",
        eos_token="[EOS]",
        chat_template=CHAT,
    ).save_pretrained(folder)
    vocabulary: dict[str, int] = made.get_vocab()
    return vocabulary


def chat_config(vocabulary: Mapping[str, int], longest: int) -> LlamaConfig:
    """A Llama of one layer; the pipeline adds two tokens of its own."""
    return LlamaConfig(
        vocab_size=len(vocabulary) + 8,
        num_key_value_heads=2,
        max_position_embeddings=longest,
        tie_word_embeddings=False,
        **SIZES,
    )

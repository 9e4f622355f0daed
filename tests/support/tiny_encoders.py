"""Tiny encoders with random weights, and one whose logits can be worked by hand, written as folders of Hugging Face."""

from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
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


def saved(kind: Any, config: Any, folder: Path) -> Path:
    torch.manual_seed(1)
    model = kind(config)
    # so that logits differ as those of a trained model do
    for parameter in model.parameters():
        parameter.data.mul_(6)
    model.save_pretrained(folder)
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

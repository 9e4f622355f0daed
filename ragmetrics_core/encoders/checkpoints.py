"""Checkpoints of Hugging Face on this machine: where they lie, how they are loaded and run.

Nothing is fetched. What cannot be known of a checkpoint is refused in a sentence.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

from ragmetrics_core.data import SettingError, import_extra

Kind = Literal["nli", "score", "tokens", "seq2seq"]
Logits = Callable[[Any], Any]
"""Gives for each pair of texts the logits of its labels; of tokens those of each."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What a kind of checkpoint ends in.

    Args:
        in_words: What it is.
        in_architectures: What the name of its architecture holds.
        model_class: The class of transformers that loads it.
    """

    in_words: str
    in_architectures: str
    model_class: str


_CLASSIFIER = _Head(
    "a sequence classifier",
    "SequenceClassification",
    "AutoModelForSequenceClassification",
)
_HEADS: dict[Kind, _Head] = {
    "nli": _CLASSIFIER,
    "score": _CLASSIFIER,
    "tokens": _Head(
        "a token classifier", "TokenClassification", "AutoModelForTokenClassification"
    ),
    "seq2seq": _Head(
        "a sequence-to-sequence model", "ConditionalGeneration", "AutoModelForSeq2SeqLM"
    ),
}
KINDS: tuple[Kind, ...] = tuple(_HEADS)
_SUPPORT = frozenset(
    [
        "entailment",
        "entailed",
        "supported",
        "support",
        "consistent",
        "faithful",
        "grounded",
    ]
)
"""Names of labels that say by themselves that a claim is supported."""
_STATED = 100_000
"""A tokenizer that states no window states a larger one."""
_USUAL_WINDOW = 512
_OWN_POSITIONS = 2
"""Positions that some architectures, such as RoBERTa, keep for themselves."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a checkpoint.

    Args:
        support: The label that means that a claim is supported; of token classifiers
            that a token is; of sequence-to-sequence models the first word of the reply.
        other: The other word of a sequence-to-sequence model; else "".
    """

    support: str
    other: str = ""


KNOWN: dict[str, Labels] = {
    "yaxili96/FactCG-DeBERTa-v3-Large": Labels("LABEL_1"),
    "lytang/MiniCheck-DeBERTa-v3-Large": Labels("LABEL_1"),
    "lytang/MiniCheck-RoBERTa-Large": Labels("LABEL_1"),
    "lytang/MiniCheck-Flan-T5-Large": Labels("1", "0"),
    "KRLabsOrg/lettucedect-base-modernbert-en-v1": Labels("LABEL_0"),
    "KRLabsOrg/lettucedect-large-modernbert-en-v1": Labels("LABEL_0"),
}
"""What the authors of checkpoints say of labels whose names do not tell."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that is loaded.

    Args:
        tokenizer: Its tokenizer.
        logits: Runs it.
        positive: Place of the label that means support.
        window: Most tokens that it reads at once.
        commit: Which weights it has.
        tensors: The form of tensors that it takes: ``pt`` or ``np``.
    """

    tokenizer: Any
    logits: Logits
    positive: int
    window: int
    commit: str
    tensors: str


def load(
    model: str | Path,
    kind: Kind,
    labels: Labels | None,
    *,
    tokenizer: str | Path | None,
    revision: str | None,
    window: int | None,
    device: str | None,
    trust_remote_code: bool,
) -> Checkpoint:
    """Load a checkpoint; ``SettingError`` if it cannot judge, with what to do."""
    transformers = import_extra("transformers", "local", "an encoder")
    folder = folder_of(model, revision)
    is_classifier = kind in ("nli", "score")
    onnx_file = _onnx_file(folder) if device is None and is_classifier else None
    options: dict[str, Any] = {
        "local_files_only": True,
        "trust_remote_code": trust_remote_code,
    }
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        _check_head(model, kind, config.architectures or ())
        own_tokenizer = _tokenizer(transformers, tokenizer, folder, options)
        known = labels or KNOWN.get(str(model))
        positive, places = _places(model, kind, known, config, own_tokenizer)
        if onnx_file is not None:
            logits = _onnx(onnx_file)
        else:
            weights = _weights(transformers, folder, kind, options, model)
            logits = _by_torch(_placed(weights, device), kind, places)
    except SettingError:
        raise
    except (OSError, ValueError) as error:
        raise SettingError(
            f"{model} cannot be loaded as {_HEADS[kind].in_words}: {error}"
        ) from error
    return Checkpoint(
        tokenizer=own_tokenizer,
        logits=logits,
        positive=positive,
        window=window or _window(model, config, own_tokenizer),
        commit=commit_of(folder, onnx_file),
        tensors="pt" if onnx_file is None else "np",
    )


def _tokenizer(
    transformers: Any, tokenizer: str | Path | None, folder: Path, options: Any
) -> Any:
    """The tokenizer that was named, else the model's own."""
    place = folder if tokenizer is None else folder_of(tokenizer, None)
    return transformers.AutoTokenizer.from_pretrained(place, **options)


def _check_head(model: str | Path, kind: Kind, architectures: Sequence[str]) -> None:
    head = _HEADS[kind]
    if not any(head.in_architectures in name for name in architectures):
        named = ", ".join(architectures) or "no architecture"
        raise SettingError(
            f"{model} cannot be loaded as {head.in_words}: its config names {named}; kind="
            " says what it is: nli, score, tokens or seq2seq"
        )


def _weights(
    transformers: Any, folder: Path, kind: Kind, options: dict[str, Any], model: object
) -> Any:
    """The model with its weights; refused if some are missing, such as its head."""
    model_class = getattr(transformers, _HEADS[kind].model_class)
    made, info = model_class.from_pretrained(
        folder, output_loading_info=True, **options
    )
    missing = sorted(info["missing_keys"])
    if missing:
        raise SettingError(
            f"the checkpoint {model} lacks weights ({', '.join(missing[:3])}), such as"
            " those of a head: it would judge by chance; take one that was trained to"
            " judge"
        )
    return made


def _placed(model: Any, device: str | None) -> Any:
    """The model on its device; ``SettingError`` if this machine does not have it."""
    torch = import_extra("torch", "local", "an encoder")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return model.eval().to(place)
    except (RuntimeError, AssertionError) as error:
        raise SettingError(
            f"device={device!r} cannot be used: torch finds no such device on this"
            ' machine; give another one, e.g. device="cpu", or none'
        ) from error


def _window(model: str | Path, config: Any, tokenizer: Any) -> int:
    """Most tokens that a model reads, as its tokenizer and its config state it."""
    by_tokenizer: int = tokenizer.model_max_length
    if by_tokenizer < _STATED:
        return min(_USUAL_WINDOW, by_tokenizer)
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if not positions:
        raise SettingError(
            f"neither the tokenizer nor the config of {model} states how many tokens it"
            " reads: give window=, e.g. window=512"
        )
    return min(_USUAL_WINDOW, positions - _OWN_POSITIONS)


def _places(
    model: str | Path, kind: Kind, labels: Labels | None, config: Any, tokenizer: Any
) -> tuple[int, tuple[int, int]]:
    """The place of the label that means support; of words those of both in the vocabulary."""
    if kind == "seq2seq":
        if labels is None or not labels.other:
            raise SettingError(
                f"which words does {model} reply? Give label=, the one that means that"
                ' a claim is supported, and other_label=, e.g. label="1",'
                ' other_label="0"'
            )
        other = _token_of_reply(model, labels.other, tokenizer)
        support = _token_of_reply(model, labels.support, tokenizer)
        if other == support:
            raise SettingError(
                f"the replies {labels.other!r} and {labels.support!r} of {model} begin"
                " with the same token, so their probabilities cannot be told apart"
            )
        return 1, (other, support)
    names = {int(place): str(name) for place, name in config.id2label.items()}
    return _place(model, names, labels), (0, 0)


def _token_of_reply(model: str | Path, word: str, tokenizer: Any) -> int:
    """The first token of a reply, by which it is told from the other reply.

    Some tokenizers put a sign of a new word first: it may stand for the word. A part
    of the word may not, because other words may begin with it.
    """
    token_ids: list[int] = tokenizer(word, add_special_tokens=False).input_ids
    if not token_ids or tokenizer.unk_token_id in token_ids:
        raise SettingError(
            f"the tokenizer of {model} does not know the reply {word!r}; give the word"
            " that the model replies"
        )
    first: str = tokenizer.decode(token_ids[:1]).strip()
    if len(token_ids) > 1 and first:
        advice = "give the words that the model replies"
        if word.startswith(first):
            advice += f", or {first!r} alone if no other reply begins with it"
        raise SettingError(
            f"the model {model} would reply {word!r} as {len(token_ids)} tokens, and the"
            f" probability of the first alone is read: {advice}"
        )
    return token_ids[0]


def _place(model: str | Path, names: dict[int, str], labels: Labels | None) -> int:
    wanted = _SUPPORT if labels is None else {labels.support.casefold()}
    supporting = [place for place, name in names.items() if name.casefold() in wanted]
    if len(supporting) != 1:
        raise SettingError(
            f"which label of {model} means that a claim is supported? Give label=, of:"
            f" {', '.join(names.values())}"
        )
    return supporting[0]


def folder_of(model: str | Path, revision: str | None) -> Path:
    """Where a model lies: a folder, or that of a commit in Hugging Face's cache."""
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    if str(model).startswith(("~", "/", ".")):
        raise SettingError(f"{model} is no folder on this machine")
    hub = import_extra("huggingface_hub", "local", "an encoder")
    try:
        return Path(
            hub.snapshot_download(str(model), revision=revision, local_files_only=True)
        )
    except (OSError, ValueError) as error:
        pinned = f" --revision {revision}" if revision else ""
        raise SettingError(
            f"{model}{pinned} is no folder and not in Hugging Face's cache on this"
            " machine, and nothing is fetched while judging; fetch it first: hf"
            f" download {model}{pinned}"
        ) from error


def _onnx_file(folder: Path) -> Path | None:
    """The model in ONNX form, if the folder has one."""
    for file in (folder / "onnx" / "model.onnx", folder / "model.onnx"):
        if file.is_file():
            return file
    return None


def name_of(checkpoint: str | Path) -> str:
    """A folder's own name, wherever it lies, or the name of a model in the cache."""
    if Path(checkpoint).expanduser().is_dir():
        return folder_of(checkpoint, None).name
    return str(checkpoint)


def commit_of(folder: Path, onnx_file: Path | None = None) -> str:
    """The commit of a folder in the cache, else a digest of the weights in use."""
    if re.fullmatch("[0-9a-f]{40}", folder.name):
        return folder.name[:12]
    if onnx_file is not None:
        files = [onnx_file]
    else:
        weight_files = ("*.safetensors", "*.bin", "*.gguf")
        files = sorted(path for form in weight_files for path in folder.glob(form))
    digest = sha256()
    for file in files:
        with file.open("rb") as weights:
            digest.update(file_digest(weights, "sha256").digest())
    return digest.hexdigest()[:12]


def _onnx(file: Path) -> Logits:
    """Run a model by ONNX Runtime."""
    runtime = import_extra("onnxruntime", "local", "an encoder in ONNX form")
    providers = [
        name
        for name in runtime.get_available_providers()
        if name.startswith(("CUDA", "CPU"))
    ]
    session = runtime.InferenceSession(str(file), providers=providers)
    inputs = [entry.name for entry in session.get_inputs()]

    def logits(tokens: Any) -> Any:
        outputs = session.run(None, {name: tokens[name] for name in inputs})
        return outputs[0].tolist()

    return logits


def _by_torch(model: Any, kind: Kind, words: tuple[int, int]) -> Logits:
    """Run a model by torch; of one that replies, the logits of these two words count."""
    if kind == "seq2seq":
        return _first_word(model, words, model.config.decoder_start_token_id)
    return _classified(model)


def _classified(model: Any) -> Logits:
    torch = import_extra("torch", "local", "an encoder")

    def logits(tokens: Any) -> Any:
        with torch.inference_mode():
            outputs = model(**tokens.to(model.device)).logits
        return outputs.float().tolist()

    return logits


def _first_word(model: Any, words: tuple[int, int], start: int) -> Logits:
    """Run a sequence-to-sequence model for the logits of the first word of its reply."""
    torch = import_extra("torch", "local", "an encoder")

    def logits(tokens: Any) -> Any:
        tokens = tokens.to(model.device)
        begin = torch.full((len(tokens["input_ids"]), 1), start, device=model.device)
        with torch.inference_mode():
            outputs = model(
                input_ids=tokens["input_ids"],
                attention_mask=tokens["attention_mask"],
                decoder_input_ids=begin,
            ).logits
        return outputs[:, 0, list(words)].float().tolist()

    return logits

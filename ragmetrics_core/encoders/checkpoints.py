"""Checkpoints of Hugging Face on this machine: found, loaded and run.

Nothing is fetched. What cannot be known of a checkpoint is refused in a sentence.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
_NO_STATED_WINDOW = 100_000
"""A tokenizer that knows no window states a number above this one."""
_USUAL_WINDOW = 512
_RESERVED_POSITIONS = 2
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
        support_index: Place of the label that means support, among the logits.
        window: Most tokens that it reads at once.
        commit: Which weights it has.
        tensors: The form of tensors that it takes: ``pt`` or ``np``.
    """

    tokenizer: Any
    logits: Logits
    support_index: int
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
    """Load a checkpoint: a model's weights, its tokenizer, and what its labels mean.

    Example: the folder of an NLI model with the labels "contradiction" (0) and
    "entailment" (1): ``support_index`` is 1. An ONNX file in the folder is run by
    onnxruntime, else the weights by torch.

    Args:
        model: A folder, or a name in Hugging Face's cache.
        kind: What kind of output the model's last layer gives: one of labels, a score,
            a label for each token, or words ("seq2seq").
        labels: Which of its labels means support; None where we know the checkpoint, or
            the names of its labels tell.
        tokenizer: A tokenizer in place of the model's own.
        revision: A commit in the cache.
        window: Most tokens to read at once; None for what the checkpoint states.
        device: Where torch runs it; None for a GPU if there is one, else the CPU.
        trust_remote_code: Whether code of the checkpoint may be run.

    Raises:
        SettingError: If it cannot judge. The message says what to do.
    """
    transformers = import_extra("transformers", "local", "an encoder")
    folder = folder_of(model, revision)
    onnx_file = _onnx_file_to_run(folder, kind, device)
    options: dict[str, Any] = {
        "local_files_only": True,
        "trust_remote_code": trust_remote_code,
    }
    with _as_setting_error(model, kind):
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        _check_head(model, kind, config.architectures or ())
        loaded_tokenizer = _load_tokenizer(transformers, tokenizer, folder, options)
        known_labels = labels or KNOWN.get(str(model))
        outputs = _find_outputs(model, kind, known_labels, config, loaded_tokenizer)
        # ``logits_of`` is a function: it runs the model on the tokens of texts.
        if onnx_file is not None:
            logits_of = _onnx_logits(onnx_file)
        else:
            network = _load_network(transformers, folder, kind, options, model)
            logits_of = _torch_logits(_to_device(network, device), outputs.reply_tokens)
    return Checkpoint(
        tokenizer=loaded_tokenizer,
        logits=logits_of,
        support_index=outputs.support_index,
        window=window or _stated_window(model, config, loaded_tokenizer),
        commit=commit_of(folder, onnx_file),
        tensors="pt" if onnx_file is None else "np",
    )


@contextmanager
def _as_setting_error(model: str | Path, kind: Kind) -> Iterator[None]:
    """Turn what transformers raises for a checkpoint into a ``SettingError``."""
    try:
        yield
    except SettingError:
        raise
    except (OSError, ValueError) as error:
        raise SettingError(
            f"{model} cannot be loaded as {_HEADS[kind].in_words}: {error}"
        ) from error


def _onnx_file_to_run(folder: Path, kind: Kind, device: str | None) -> Path | None:
    """Return the ONNX file that is run instead of the weights; None for the weights.

    Only classifiers are run so, and only where no device is named, which means torch.
    """
    is_classifier = kind in ("nli", "score")
    if device is not None or not is_classifier:
        return None
    return _onnx_file(folder)


def _load_tokenizer(
    transformers: Any, tokenizer: str | Path | None, folder: Path, options: Any
) -> Any:
    """Load the tokenizer that was named, else the model's own."""
    tokenizer_folder = folder
    if tokenizer is not None:
        tokenizer_folder = folder_of(tokenizer, revision=None)
    return transformers.AutoTokenizer.from_pretrained(tokenizer_folder, **options)


def _check_head(model: str | Path, kind: Kind, architectures: Sequence[str]) -> None:
    """Raise ``SettingError`` unless a checkpoint's config fits its kind."""
    head = _HEADS[kind]
    if not any(head.in_architectures in name for name in architectures):
        in_config = ", ".join(architectures) or "no architecture"
        raise SettingError(
            f"{model} cannot be loaded as {head.in_words}: its config names {in_config};"
            " kind= says what it is: nli, score, tokens or seq2seq"
        )


def _load_network(
    transformers: Any, folder: Path, kind: Kind, options: dict[str, Any], model: object
) -> Any:
    """Load the model; refuse it if weights are missing, such as those of its head."""
    model_class = getattr(transformers, _HEADS[kind].model_class)
    network, loading_info = model_class.from_pretrained(
        folder, output_loading_info=True, **options
    )
    missing_weights = sorted(loading_info["missing_keys"])
    if missing_weights:
        examples = ", ".join(missing_weights[:3])
        raise SettingError(
            f"the checkpoint {model} lacks weights ({examples}), such as"
            " those of a head: it would judge by chance; take one that was trained to"
            " judge"
        )
    return network


def _to_device(network: Any, device: str | None) -> Any:
    """Move the model to its device; ``SettingError`` if this machine lacks the device."""
    torch = import_extra("torch", "local", "an encoder")
    best_device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return network.eval().to(device or best_device)
    except (RuntimeError, AssertionError) as error:
        raise SettingError(
            f"device={device!r} cannot be used: torch finds no such device on this"
            ' machine; give another one, e.g. device="cpu", or none'
        ) from error


def _stated_window(model: str | Path, config: Any, tokenizer: Any) -> int:
    """Most tokens that a model reads, at most 512.

    Its tokenizer states them, else its config.
    """
    stated_by_tokenizer: int = tokenizer.model_max_length
    if stated_by_tokenizer < _NO_STATED_WINDOW:
        return min(_USUAL_WINDOW, stated_by_tokenizer)
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if not positions:
        raise SettingError(
            f"neither the tokenizer nor the config of {model} states how many tokens it"
            " reads: give window=, e.g. window=512"
        )
    return min(_USUAL_WINDOW, positions - _RESERVED_POSITIONS)


class _Outputs(NamedTuple):
    """Which outputs of a model count.

    Args:
        support_index: Place of the one that means support, among the logits.
        reply_tokens: Of a model that replies in words: the first token of the word for
            no support, and that of the word for support. Their logits are all that is
            read. None for any other model.
    """

    support_index: int
    reply_tokens: tuple[int, int] | None


def _find_outputs(
    model: str | Path, kind: Kind, labels: Labels | None, config: Any, tokenizer: Any
) -> _Outputs:
    """Find which output of a model means that a claim is supported.

    Example: of the labels {0: "contradiction", 1: "entailment"} it is 1. A model that
    replies "1" or "0" has two outputs: the probability of the token "0", then of "1".

    Args:
        model: Name or folder of the model, for messages.
        kind: What kind of output it gives; "seq2seq" replies in words, all others have
            labels.
        labels: The label that means support, as given or known; None where the names
            in the config tell.
        config: The model's config.
        tokenizer: The model's tokenizer.

    Raises:
        SettingError: If neither the arguments nor the config tell.
    """
    if kind != "seq2seq":
        label_names = {int(index): str(name) for index, name in config.id2label.items()}
        support_index = _index_of_support(model, label_names, labels)
        return _Outputs(support_index, reply_tokens=None)
    if labels is None or not labels.other:
        raise SettingError(
            f"which words does {model} reply? Give label=, the one that means that"
            ' a claim is supported, and other_label=, e.g. label="1",'
            ' other_label="0"'
        )
    other_token = _token_of_reply(model, labels.other, tokenizer)
    support_token = _token_of_reply(model, labels.support, tokenizer)
    if other_token == support_token:
        raise SettingError(
            f"the replies {labels.other!r} and {labels.support!r} of {model} begin"
            " with the same token, so their probabilities cannot be told apart"
        )
    # Only the logits of these two tokens are read; the second one means support.
    return _Outputs(support_index=1, reply_tokens=(other_token, support_token))


def _token_of_reply(model: str | Path, word: str, tokenizer: Any) -> int:
    """Return the first token of a word that a model may reply.

    Only the first token of a reply is looked at, and its probability is taken for that
    of the word. So a part of the word will not do: "supported", written as "sup" and
    "ported", is refused, because "sup" may also begin the reply "superb".

    Raises:
        SettingError: If the tokenizer does not know the word, or splits its letters.
    """
    token_ids: list[int] = tokenizer(word, add_special_tokens=False).input_ids
    if not token_ids or tokenizer.unk_token_id in token_ids:
        raise SettingError(
            f"the tokenizer of {model} does not know the reply {word!r}; give the word"
            " that the model replies"
        )
    first_token = token_ids[0]
    is_whole_word = len(token_ids) == 1
    first_letters: str = tokenizer.decode([first_token]).strip()
    # T5 may write "0" as two tokens: a blank, and "0". The blank will do: the caller
    # makes sure that the other of the two replies, "1", does not begin with it as well.
    is_blank = first_letters == ""
    if not is_whole_word and not is_blank:
        raise _split_word(model, word, first_letters, n_tokens=len(token_ids))
    return first_token


def _split_word(
    model: str | Path, word: str, first_letters: str, n_tokens: int
) -> SettingError:
    """Return the error of a word that a tokenizer splits, "supported" as "sup", "ported"."""
    advice = "give the words that the model replies"
    if word.startswith(first_letters):
        advice += f", or {first_letters!r} alone if no other reply begins with it"
    return SettingError(
        f"the model {model} would reply {word!r} as {n_tokens} tokens, and the"
        f" probability of the first alone is read: {advice}"
    )


def _index_of_support(
    model: str | Path, label_names: dict[int, str], labels: Labels | None
) -> int:
    """Return the index of the label that means support.

    It is the label that was given. Without one it is the label whose name says so.
    Example: {0: "contradiction", 1: "entailment"} gives 1. Upper case and lower case
    are the same.

    Args:
        model: Name or folder of the model, for messages.
        label_names: The names of the model's labels, by their index.
        labels: The label that was given; None if none was.

    Raises:
        SettingError: If no label fits, or several do.
    """
    support_names = _SUPPORT if labels is None else {labels.support.casefold()}
    indices: list[int] = []
    for index, label_name in label_names.items():
        if label_name.casefold() in support_names:
            indices.append(index)
    if len(indices) != 1:
        raise SettingError(
            f"which label of {model} means that a claim is supported? Give label=, of:"
            f" {', '.join(label_names.values())}"
        )
    return indices[0]


def folder_of(model: str | Path, revision: str | None) -> Path:
    """Find where a model lies; nothing is fetched.

    Example: "./my-model" is a folder, and "cross-encoder/nli-deberta-v3-base" is looked
    up in the cache.

    Args:
        model: A folder, or the name of a model in Hugging Face's cache.
        revision: A commit, tag or branch in the cache; None for the default one.

    Raises:
        SettingError: If there is neither such a folder nor such a model in the cache.
        MissingDependency: If the cache is needed and the extra ``local`` is missing.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    # "./my-model" can only be a folder, never a name in the cache
    if str(model).startswith(("~", "/", ".")):
        raise SettingError(f"{model} is no folder on this machine")
    hub = import_extra("huggingface_hub", "local", "an encoder")
    try:
        cached_folder = hub.snapshot_download(
            str(model), revision=revision, local_files_only=True
        )
    except (OSError, ValueError) as error:
        revision_option = f" --revision {revision}" if revision else ""
        raise SettingError(
            f"{model}{revision_option} is no folder and not in Hugging Face's cache on"
            " this machine, and nothing is fetched while judging; fetch it first: hf"
            f" download {model}{revision_option}"
        ) from error
    return Path(cached_folder)


def _onnx_file(folder: Path) -> Path | None:
    """Return the model's ONNX file in a folder; None if there is none."""
    for file in (folder / "onnx" / "model.onnx", folder / "model.onnx"):
        if file.is_file():
            return file
    return None


def name_of(checkpoint: str | Path) -> str:
    """Return the own name of a folder, or the name of a model in the cache."""
    if Path(checkpoint).expanduser().is_dir():
        return folder_of(checkpoint, None).name
    return str(checkpoint)


def commit_of(folder: Path, onnx_file: Path | None = None) -> str:
    """Return twelve digits that name the weights of a model.

    If the folder is named by a commit, as in the cache, they are the first digits of
    the commit, such as "1a2b3c4d5e6f". Else they begin a digest of the weights.

    Args:
        folder: Where the model lies.
        onnx_file: The file that is run; None where torch runs the folder's weights.
    """
    if re.fullmatch("[0-9a-f]{40}", folder.name):
        return folder.name[:12]
    if onnx_file is not None:
        files = [onnx_file]
    else:
        files = []
        for pattern in ("*.safetensors", "*.bin", "*.gguf"):
            files += folder.glob(pattern)
        files.sort()
    digest_of_all = sha256()
    for file in files:
        with file.open("rb") as weights:
            digest_of_all.update(file_digest(weights, "sha256").digest())
    return digest_of_all.hexdigest()[:12]


def _onnx_logits(file: Path) -> Logits:
    """Return the function that runs a model by ONNX Runtime."""
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


def _torch_logits(network: Any, reply_tokens: tuple[int, int] | None) -> Logits:
    """Return a function that runs a network on the tokens of texts.

    Args:
        network: The network.
        reply_tokens: The first tokens of the two replies of a model that replies in
            words ("seq2seq"), such as those of "no" and "yes": only their logits are
            read. None for a classifier.
    """
    if reply_tokens is None:
        return _logits_of_classifier(network)
    return _logits_of_reply(network, reply_tokens)


def _logits_of_classifier(network: Any) -> Logits:
    """Make the function that runs a model by torch, and gives the logits of its labels."""
    torch = import_extra("torch", "local", "an encoder")

    def logits(tokens: Any) -> Any:
        with torch.inference_mode():
            outputs = network(**tokens.to(network.device)).logits
        return outputs.float().tolist()

    return logits


def _logits_of_reply(network: Any, reply_tokens: tuple[int, int]) -> Logits:
    """Make the function that runs a model which replies in words.

    It gives for each pair of texts two logits: how likely the model would begin its
    reply with the one token ("no"), and with the other ("yes"). Nothing is generated.

    Args:
        network: The model, which has an encoder and a decoder.
        reply_tokens: The numbers of the two tokens.
    """
    torch = import_extra("torch", "local", "an encoder")
    start_token = network.config.decoder_start_token_id

    def logits(tokens: Any) -> Any:
        placed_tokens = tokens.to(network.device)
        n_pairs = len(placed_tokens["input_ids"])
        empty_replies = torch.full((n_pairs, 1), start_token, device=network.device)
        with torch.inference_mode():
            outputs = network(
                input_ids=placed_tokens["input_ids"],
                attention_mask=placed_tokens["attention_mask"],
                decoder_input_ids=empty_replies,
            ).logits
        # of each pair, at the first place of the reply
        return outputs[:, 0, list(reply_tokens)].float().tolist()

    return logits

"""Sequence classifiers of Hugging Face on this machine: found, loaded and run.

Nothing is fetched. What cannot be known of a checkpoint is refused in a sentence.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from ragmetrics_core.data import SettingError, import_extra

Logits = Callable[[Any], list[list[float]]]
"""Gives for each pair of texts the logits of the labels."""

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
    label: str | None,
    *,
    revision: str | None,
    window: int | None,
    device: str | None,
) -> Checkpoint:
    """Load a checkpoint: a model's weights, its tokenizer, and what its labels mean.

    Example: the folder of an NLI model with the labels "contradiction" (0) and
    "entailment" (1): ``support_index`` is 1. An ONNX file in the folder is run by
    onnxruntime, else the weights by torch.

    Args:
        model: A folder, or a name in Hugging Face's cache.
        label: Which of its labels means support; None where their names tell.
        revision: A commit in the cache.
        window: Most tokens to read at once; None for what the checkpoint states.
        device: Where torch runs it; None for a GPU if there is one, else the CPU.

    Raises:
        SettingError: If it cannot judge. The message says what to do.
    """
    transformers = import_extra("transformers", "local", "an encoder")
    folder = folder_of(model, revision)
    # a device is one of torch
    onnx_files = (folder / "onnx" / "model.onnx", folder / "model.onnx")
    onnx_file = next((file for file in onnx_files if file.is_file()), None)
    if device is not None:
        onnx_file = None
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        architectures = config.architectures or ()
        if not any("SequenceClassification" in name for name in architectures):
            in_config = ", ".join(architectures) or "no architecture"
            raise SettingError(
                f"{model} is no sequence classifier: its config names {in_config}"
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
        if onnx_file is not None:
            logits = _onnx_logits(onnx_file)
        else:
            network, loading_info = (
                transformers.AutoModelForSequenceClassification.from_pretrained(
                    folder, output_loading_info=True, local_files_only=True
                )
            )
            missing_weights = sorted(loading_info["missing_keys"])
            if missing_weights:
                examples = ", ".join(missing_weights[:3])
                raise SettingError(
                    f"the checkpoint {model} lacks weights ({examples}), such as those"
                    " of a head: it would judge by chance; take one that was trained to"
                    " judge"
                )
            logits = _torch_logits(network, device)
    except SettingError:
        raise
    except (OSError, ValueError) as error:
        raise SettingError(
            f"{model} cannot be loaded as a sequence classifier: {error}"
        ) from error
    return Checkpoint(
        tokenizer=tokenizer,
        logits=logits,
        support_index=_index_of_support(model, config.id2label, label),
        window=window or _stated_window(model, config, tokenizer),
        commit=_commit_of(folder, onnx_file),
        tensors="pt" if onnx_file is None else "np",
    )


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


def _index_of_support(
    model: str | Path, label_names: dict[int, str], label: str | None
) -> int:
    """Return the index of the label that means support.

    It is the label that was given, else the one whose name says so, in upper or lower
    case. Example: {0: "contradiction", 1: "entailment"} gives 1.

    Raises:
        SettingError: If no label fits, or several do.
    """
    support_names = _SUPPORT if label is None else {label.casefold()}
    indices = [
        int(index)
        for index, name in label_names.items()
        if str(name).casefold() in support_names
    ]
    if len(indices) != 1:
        names = ", ".join(map(str, label_names.values()))
        raise SettingError(
            f"which label of {model} means that a claim is supported? Give label=, of:"
            f" {names}"
        )
    return indices[0]


def folder_of(model: str | Path, revision: str | None) -> Path:
    """Find where a model lies; nothing is fetched.

    Example: "./my-model" is a folder, and "cross-encoder/nli-deberta-v3-base" is looked
    up in the cache.

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


def name_of(model: str | Path) -> str:
    """Return the own name of a folder, or the name of a model in the cache."""
    if Path(model).expanduser().is_dir():
        return folder_of(model, None).name
    return str(model)


def _commit_of(folder: Path, onnx_file: Path | None) -> str:
    """Return twelve digits that name the weights of a model.

    If the folder is named by a commit, as in the cache, they are the first digits of
    the commit, such as "1a2b3c4d5e6f". Else they begin a digest of the weights.
    """
    if re.fullmatch("[0-9a-f]{40}", folder.name):
        return folder.name[:12]
    if onnx_file is not None:
        files = [onnx_file]
    else:
        files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
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

    def logits(tokens: Any) -> list[list[float]]:
        outputs = session.run(None, {name: tokens[name] for name in inputs})
        rows: list[list[float]] = outputs[0].tolist()
        return rows

    return logits


def _torch_logits(network: Any, device: str | None) -> Logits:
    """Return the function that runs a model by torch, on a device.

    Raises:
        SettingError: If this machine lacks the device.
    """
    torch = import_extra("torch", "local", "an encoder")
    best_device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        placed = network.eval().to(device or best_device)
    except (RuntimeError, AssertionError) as error:
        raise SettingError(
            f"device={device!r} cannot be used: torch finds no such device on this"
            ' machine; give another one, e.g. device="cpu", or none'
        ) from error

    def logits(tokens: Any) -> list[list[float]]:
        with torch.inference_mode():
            outputs = placed(**tokens.to(placed.device)).logits
        rows: list[list[float]] = outputs.float().tolist()
        return rows

    return logits

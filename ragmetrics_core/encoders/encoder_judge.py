"""The judge that is an encoder: pairs of texts in, probabilities out.

Below it: how a checkpoint on this machine is found, loaded and run. Nothing is fetched.
What cannot be known of a checkpoint is refused in a sentence.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from hashlib import file_digest, sha256
from math import exp, isfinite
from pathlib import Path
from threading import Lock
from typing import Any

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    Weight,
    import_extra,
)
from ragmetrics_core.data.errors import ContextWindowExceeded, JudgeError, SettingError
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical.claims import judge_declining, parts_of
from ragmetrics_core.lexical.declining import user_question_of
from ragmetrics_core.metrics.declined import Declined
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import (
    AdherenceReply,
    Adherent,
    ClaimSupport,
    adherence_reply,
)
from ragmetrics_core.models.threads import call_in_thread

# A window that is cut out may have so many tokens more than it had within the text.
_SLACK = 8
_LARGEST_EXPONENT = 700.0  # exp() overflows a little above
# Most parts of an answer without a claim that the reason quotes.
_SHOWN_OTHERS = 3

Pair = tuple[str, str]
"""A premise, such as a window of the contexts, and a hypothesis, such as a claim."""


@dataclass(eq=False)
class EncoderJudge(Judge):
    """Judges by a small sequence classifier of Hugging Face on this machine.

    It needs no key, makes no call and fetches nothing.

    It says whether contexts support claims, and so answers Context Adherence and, with
    given facts, Retrieval Accuracy, and by fixed phrases whether an answer claims
    nothing; other questions fail, typed. Each claim is set
    against each window of the contexts, and the window that supports it best counts.
    Claims are the sentences of an answer that claim something (no greeting, offer or
    lead-in), or facts. The score of an answer is the probability of its weakest claim:
    above .5 it is adherent. The share of supported claims stands in the reason. An
    answer without a claim abstains. The question is not shown, so that "In 1903." is
    hardly a claim. ``onnxruntime`` runs ``onnx/model.onnx`` or ``model.onnx``, if the
    model has one, else torch the weights.

    Args:
        model: Name of a model in Hugging Face's cache, or a folder.
        label: The label that means that a claim is supported. None where its name says
            so, e.g. *entailment*.
        revision: Commit, tag or branch of a model in the cache; results hold the
            commit, or a digest of a folder's weights.
        window: Most tokens that the model is given at once; None for 512, or fewer if
            it reads no more.
        batch: Most pairs that it reads at once.
        device: Device of torch, e.g. ``"cuda:1"``; also where there is an ONNX file.
            None: CUDA where there is some.

    Raises:
        MissingDependency: If the extra ``local`` is not installed.
        SettingError: If the model is not on this machine, is no sequence classifier,
            lacks its head, states no window, its labels do not tell which one supports
            a claim, or this machine lacks the device.

    Source:
        Windows and their maximum: Laban et al. (2022), SummaC, TACL 10; claim by claim:
        Tang et al. (2024), MiniCheck, arXiv 2404.10774.

    Example, with a model that ``hf download`` has fetched::

        judge = EncoderJudge("cross-encoder/nli-deberta-v3-small")
        ContextAdherence().score(
            contexts=["Anna lit the lamp."], answer="The lamp was lit.", judge=judge
        )
    """

    model: str | Path
    _: KW_ONLY
    label: str | None = None
    revision: str | None = None
    window: int | None = None
    batch: int = 16
    device: str | None = None

    def __post_init__(self) -> None:
        """Check the settings, and load the model and its tokenizer.

        Raises:
            MissingDependency: If the extra ``local`` is not installed.
            SettingError: If a setting is invalid, or the labels do not tell which one
                means support.
        """
        check_number("EncoderJudge(batch=)", self.batch, least=1)
        if self.window is not None:
            check_number("EncoderJudge(window=)", self.window, least=1)
        label = self.label
        if label is not None and not (isinstance(label, str) and label.strip()):
            raise SettingError(
                "EncoderJudge(label=) is the name of a label of the model, e.g."
                f' label="LABEL_1"; got {label!r}'
            )
        is_folder = Path(self.model).expanduser().is_dir()
        self.name = folder_of(self.model, None).name if is_folder else str(self.model)
        self.free = True  # no call costs anything
        self._checkpoint = load(
            self.model,
            self.label,
            revision=self.revision,
            window=self.window,
            device=self.device,
        )
        # special tokens such as "[SEP]" are taken out of the judged texts
        escaped = sorted(
            (re.escape(mark) for mark in self._checkpoint.tokenizer.all_special_tokens),
            key=len,
            reverse=True,
        )
        self._special_tokens = re.compile("|".join(escaped) or r"(?!)")
        # A tokenizer stores the settings of a call in itself: one call at a time.
        self._tokenizer_lock = Lock()
        self._model_lock = Lock()

    def __reduce__(self) -> Any:
        """Make a copy in another process load the model there."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(type(self), **settings), ()

    @property
    def details(self) -> dict[str, str]:
        """Which weights answer, and what they are shown, for signatures.

        Such as ``{"weights": "1a2b3c4d5e6f", "window": "512"}``.
        """
        details = {
            "weights": self._checkpoint.commit,
            "window": str(self._checkpoint.window),
        }
        if self.label:
            details["label"] = self.label
        return details

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question, in a thread of its own.

        An encoder says whether a text supports a claim. Example: "Is this answer
        adherent to its contexts?" is answered so; "Which statements does this answer
        make?" is not supported (``QuestionNotSupported``). If the model raises a judge
        error, that error is the answer.
        """
        answers: dict[object, Callable[[Any], Asked[Any]]] = {
            Adherent: self._adherent,
            FactInContext: self._facts_in_context,
            Declined: judge_declining,
        }
        answer_to = answers.get(type(question))
        if answer_to is None:
            message = (
                f"the encoder {self.name} says whether contexts support claims and"
                f" cannot answer questions of type {type(question).__name__}; use a"
                ' language model instead, e.g. judge="gpt-4o-mini"'
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        computation: Future[Any] = call_in_thread(
            partial(answer_to, question),
            context=copy_context(),
            name=f"ragmetrics {self.name}",
        )
        try:
            return Answer(await asyncio.wrap_future(computation))
        except JudgeError as error:
            return Answer(NotAnswered(error))

    def _adherent(self, question: Adherent) -> Asked[AdherenceReply]:
        """Judge each claim of an answer against the contexts; the weakest claim counts.

        Example: claims of 0.9 and 0.3 give 0.3, and the verdict "no". An answer without
        a claim abstains.
        """
        parts = parts_of(question["answer"], user_question_of(question))
        # parts that claim nothing are listed without a probability
        unjudged = tuple(ClaimSupport(text=text) for text in parts.others)
        if not parts.claims:
            poll = adherence_reply(
                verdict="abstains",
                reason="The answer makes no claim.",
                encoder_claims=unjudged,
            )
            return Asked((poll,))
        contexts = "\n\n".join(question["contexts"])
        probabilities, n_windows = self._support(contexts, parts.claims)
        claims = tuple(
            ClaimSupport(text=claim, probability=probability)
            for claim, probability in zip(parts.claims, probabilities, strict=True)
        )
        weakest = min(probabilities)
        poll = adherence_reply(
            verdict="yes" if is_yes(weakest) else "no",
            reason=_reason(probabilities, parts.others),
            unsupported=tuple(
                claim.text for claim in claims if not is_yes(claim.probability or 0.0)
            ),
            encoder_claims=claims + unjudged,
        )
        # The metric takes the weight for the answer's score.
        weight = Weight(weakest, "encoder")
        # How many windows there were, if there were several.
        windows = (n_windows,) if n_windows > 1 else ()
        return Asked((poll,), weights=(weight,), windows=windows)

    def _facts_in_context(self, question: FactInContext) -> Asked[Any]:
        """Judge whether the context covers each fact: above a probability of .5.

        A question is about several facts (its part "facts") or one (its part "fact").
        Example: probabilities of .9 and .3 say that the first of two facts is covered.
        """
        is_about_several = "facts" in question.parts
        part = question.parts["facts" if is_about_several else "fact"]
        probabilities, n_windows = self._support(question["context"], part.texts)
        verdicts = [
            {
                "label": label,
                "covered": is_yes(probability),
                "reason": f"p = {probability}",
            }
            for label, probability in zip(part.labels, probabilities, strict=True)
        ]
        reply = question.read({"facts": verdicts} if is_about_several else verdicts[0])
        # Beside each verdict stands its probability, for metrics that score it.
        weights = tuple(Weight(probability, "encoder") for probability in probabilities)
        # One number for each fact, if there were several windows.
        windows = (n_windows,) * len(probabilities) if n_windows > 1 else ()
        return Asked((reply,), weights=weights, windows=windows)

    def _support(self, premise: str, claims: Sequence[str]) -> tuple[list[float], int]:
        """Return how probable it is that a text supports each of several claims.

        A text that is too long is read in windows. The best window decides. Example: a
        claim has .1 in the first and .9 in the second window: .9.

        Returns:
            The probabilities in the order of the claims, and the number of windows.
        """
        windows = self.windows(premise, claims)
        # all windows with the first claim, then all with the second, and so on
        pairs = [(window, claim) for claim in claims for window in windows]
        probabilities = self.probabilities(pairs)
        best = [
            max(probabilities[start : start + len(windows)])
            for start in range(0, len(pairs), len(windows))
        ]
        return best, len(windows)

    def windows(self, premise: str, hypotheses: Sequence[str]) -> list[str]:
        """Cut a premise into pieces (windows) that fit into the model.

        The model reads a window and one hypothesis at a time. Each window shares a
        quarter of its tokens with the next one: with room for 400 tokens the windows
        begin at the tokens 0, 300 and 600.

        Args:
            premise: The text to cut: what a claim is checked against.
            hypotheses: The claims that are read beside each window. The longest of them
                must fit.

        Raises:
            ContextWindowExceeded: If a hypothesis leaves less than a quarter of the
                model's tokens for a window.
        """
        room = self._room_beside(hypotheses)
        premise = self._without_special_tokens(premise)
        with self._tokenizer_lock:
            encoding = self._checkpoint.tokenizer(
                premise,
                add_special_tokens=False,
                return_offsets_mapping=True,
                verbose=False,
            )
        spans: list[tuple[int, int]] = encoding["offset_mapping"]
        if not spans:
            return [""]
        overlap = room // 4
        # A window that begins later would only repeat the end of the one before it.
        end_of_starts = max(1, len(spans) - overlap)
        windows: list[str] = []
        for start in range(0, end_of_starts, room - overlap):
            window_spans = spans[start : start + room]
            window_start, _ = window_spans[0]
            _, window_end = window_spans[-1]
            windows.append(premise[window_start:window_end])
        return windows

    def _room_beside(self, hypotheses: Sequence[str]) -> int:
        """Return how many tokens a window may have beside the longest hypothesis.

        A window cut out of a text may have a few tokens more than it had within the
        text; ``_SLACK`` is left free for these.

        Raises:
            ContextWindowExceeded: If that is less than a quarter of the model's tokens.
        """
        most_tokens = self._checkpoint.window
        # with the marks that the model adds
        tokens_of_longest = max(
            len(self._tokenize([("", hypothesis)])["input_ids"][0])
            for hypothesis in hypotheses
        )
        room = most_tokens - tokens_of_longest - _SLACK
        if room < most_tokens // 4:
            raise ContextWindowExceeded(
                f"a claim of {tokens_of_longest} tokens leaves too little room for contexts"
                f" in a window of {most_tokens}; give window=, if the model can read more"
            )
        return room

    def probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """Return how probable it is that each premise supports its hypothesis.

        They are rounded to four places: so they hardly depend on what else is in a
        batch.
        """
        probabilities = [0.0] * len(pairs)
        # A batch is padded to its longest pair, so pairs of like length are put
        # together: the indices of the pairs are sorted by the lengths of the pairs.
        by_length = sorted(
            range(len(pairs)), key=lambda index: sum(map(len, pairs[index]))
        )
        for start in range(0, len(pairs), self.batch):
            indices = by_length[start : start + self.batch]
            tokens = self._tokenize(
                [pairs[index] for index in indices],
                padding=True,
                return_tensors=self._checkpoint.tensors,
            )
            with self._model_lock:
                logits_of_batch = self._checkpoint.logits(tokens)
            for index, logits in zip(indices, logits_of_batch, strict=True):
                positive = logits[self._checkpoint.support_index]
                # The sigmoid is the softmax beside a second output of 0.
                alternatives = [*logits, 0.0] if len(logits) == 1 else logits
                if not all(isfinite(logit) for logit in alternatives):
                    raise JudgeError(
                        f"{self.model} gave no numbers for a pair of texts"
                    )
                exponents = [
                    min(_LARGEST_EXPONENT, logit - positive) for logit in alternatives
                ]
                probabilities[index] = round(
                    1 / sum(exp(exponent) for exponent in exponents), 4
                )
        return probabilities

    def _tokenize(
        self,
        pairs: Sequence[Pair],
        *,
        padding: bool = False,
        return_tensors: str | None = None,
    ) -> Any:
        """Return the tokens of pairs of texts, in the form that the model knows.

        Args:
            pairs: Premise and hypothesis of each pair.
            padding: Whether shorter pairs are padded to the longest.
            return_tensors: The form of the tensors, "pt" or "np"; None for lists.
        """
        shown = [
            (
                self._without_special_tokens(premise),
                self._without_special_tokens(hypothesis),
            )
            for premise, hypothesis in pairs
        ]
        texts = [list(side) for side in zip(*shown, strict=True)]
        with self._tokenizer_lock:
            return self._checkpoint.tokenizer(
                *texts, padding=padding, return_tensors=return_tensors
            )

    def _without_special_tokens(self, text: str) -> str:
        """Return a text without the model's own marks, such as "[SEP]".

        By such a mark a text could pretend to be both texts of a pair.
        """
        return self._special_tokens.sub(" ", text)


def _reason(probabilities: Sequence[float], other_parts: Sequence[str]) -> str:
    """Say how many claims are supported, which is weakest, and what claims nothing.

    Example: "1 of 2 claims are supported by the contexts (50%); the weakest has p =
    0.3; no claim: "Hello!"".

    Args:
        probabilities: Of the claims of the answer; at least one.
        other_parts: Parts of the answer that claim nothing. The first ones are quoted.
    """
    n_supported = sum(map(is_yes, probabilities))
    n_claims = len(probabilities)
    reason = (
        f"{n_supported} of {n_claims} claims are supported by the contexts"
        f" ({n_supported / n_claims:.0%}); the weakest has p = {min(probabilities)}"
    )
    if other_parts:
        shown = ", ".join(f'"{text}"' for text in other_parts[:_SHOWN_OTHERS])
        reason += f"; no claim: {shown}"
    n_more = len(other_parts) - _SHOWN_OTHERS
    if n_more > 0:
        reason += f" and {n_more} more"
    return reason


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

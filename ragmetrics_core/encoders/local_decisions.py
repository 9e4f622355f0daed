"""Typed questions to a model on this machine, by the decision pipeline of transformers.

No key, no call, nothing fetched. The pipeline lacks two checks, which stand here. It
answers texts that are longer than the model reads, without a word. And where the model
would reply something else than a label, it shares out what little the labels have.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from ragmetrics_core.data import SettingError, Usage, import_extra
from ragmetrics_core.data.frozen import check_number
from ragmetrics_core.encoders.checkpoints import commit_of, folder_of, name_of
from ragmetrics_core.judging.probabilities import MASS_FLOOR
from ragmetrics_core.models.chat import ChatReply, ChatRequest, Choice
from ragmetrics_core.models.decision_forms import (
    LABELS_UNLIKELY,
    systemone_choices,
    systemone_fields,
)
from ragmetrics_core.models.decision_model import DecisionModel
from ragmetrics_core.models.threads import call_in_thread

LOCAL = "local/"
"""How the names of these models begin."""

_USED_FOR = "typed questions to a model on this machine"
_TASK = "decision"
_NO_STATED_WINDOW = 100_000
"""A tokenizer that knows no window states a number above this one."""


@dataclass(frozen=True, slots=True, repr=False)
class _QuestionOutcome:
    """What the model gave for one question.

    Args:
        n_tokens: Tokens that the model read.
        failure: Why there is no answer; None if there is one.
        answers: The answer by the name of the question; empty if there is none.
    """

    n_tokens: int = 0
    failure: Choice | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)


class LocalDecisionModel(DecisionModel):
    """A model on this machine that answers typed questions; ``DecisionJudge`` asks it.

    Any chat model can answer, by the probability of its labels as the next token; a
    model that was trained for decisions answers by its own head. Each question is asked
    by itself, so that none depends on those beside it.

    Args:
        model: Name of a model in Hugging Face's cache, or a folder, with weights in
            safetensors or one GGUF file.
        revision: Commit, tag or branch of a model in the cache.
        window: Most tokens of a prompt; None for what tokenizer and config state.
        device: Device of torch, e.g. ``"cuda:1"``. None: CUDA where there is some.

    Raises:
        MissingDependency: If the extra ``local`` is not installed.
        SettingError: If transformers has no such pipeline, the model is not on this
            machine or cannot be loaded, has no chat template, states no window or a
            smaller one, or its labels are not one token each.

    Source:
        The pipeline ``decision`` of transformers 5.23.
    """

    name = ""
    cache_key: str | None = ""
    most_questions = 400
    on_this_machine = True

    def __init__(
        self,
        model: str | Path,
        *,
        revision: str | None = None,
        window: int | None = None,
        device: str | None = None,
    ) -> None:
        """Load the model, and check that it can answer typed questions.

        Example: ``LocalDecisionModel("Qwen/Qwen3-0.6B")`` answers by the probability of
        each label as the next token.

        Raises:
            MissingDependency: If the extra ``local`` is not installed.
            SettingError: As the class says.
        """
        if window is not None:
            check_number("LocalDecisionModel(window=)", window, least=1)
        # what a copy in another process is made with
        self._settings: dict[str, Any] = {
            "model": model,
            "revision": revision,
            "window": window,
            "device": device,
        }
        folder = folder_of(model, revision)
        self._pipeline = _pipeline(folder, device)
        self._window = _window(model, self._pipeline, window)
        # Silences the tokenizer's warning of long texts: a text that is longer than the
        # window is refused, and never given to the model.
        self._pipeline.tokenizer.model_max_length = sys.maxsize
        # the commit of the model in the cache, else a digest of weights and settings
        self._commit = _commit_with_settings(folder)
        self.name = f"{LOCAL}{name_of(model)}"
        self.cache_key = f"{LOCAL}{self._commit}|{self._window}"
        # held while the model answers: it answers one question at a time
        self._model_lock = Lock()
        # what the model gave for the token that follows the last prompt
        self._logits: Any = None
        # A model that was trained for decisions has a head of its own. Any other
        # answers by the probability of a label as the next token.
        self._answers_by_labels = not hasattr(self._pipeline.model, "decide")
        self._pipeline.model.register_forward_hook(self._keep_logits)
        _check_template(model, self._pipeline)
        if self._answers_by_labels:
            _check_labels(model, self._pipeline)

    def __repr__(self) -> str:
        return f"LocalDecisionModel({self.name!r})"

    def __reduce__(self) -> Any:
        """Make a copy in another process load the model there."""
        return partial(type(self), **self._settings), ()

    @property
    def details(self) -> Mapping[str, str]:
        """Which weights answer, and how much they are given at once."""
        return {"commit": self._commit, "window": str(self._window)}

    def prices(self) -> tuple[float, float]:
        """Return prices of 0: nothing is paid."""
        return 0.0, 0.0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer the questions of a request, in a thread of its own.

        A question whose prompt is longer than the window, or whose labels the model
        would hardly reply, has a choice that says so instead of probabilities.
        """
        reply = call_in_thread(
            partial(self._answer_each, request.messages[0].content),
            context=copy_context(),
            name=f"ragmetrics {self.name}",
        )
        return await asyncio.wrap_future(reply)

    def _answer_each(self, request: str) -> ChatReply:
        """Answer each question of a request by itself, one after the other.

        Of three questions the second may fail, as its prompt is too long: two choices
        have probabilities, and one says "length".

        Args:
            request: A state and questions about it, as JSON.

        Returns:
            A choice for each question: its probabilities, or why there are none.
        """
        request_fields = systemone_fields(request)
        answers: dict[str, Any] = {}
        failure_by_index: dict[int, Choice] = {}
        n_tokens = 0
        for index, (name, question) in enumerate(request_fields["questions"].items()):
            single_request = {
                "state": request_fields["state"],
                "questions": {name: question},
            }
            with self._model_lock:
                outcome = self._answer_one(single_request)
            n_tokens += outcome.n_tokens
            if outcome.failure is None:
                answers.update(outcome.answers)
            else:
                failure_by_index[index] = outcome.failure
        # one for each question; those of questions that failed are replaced below
        choices = list(systemone_choices(self.name, request, {"answers": answers}))
        for index, failure in failure_by_index.items():
            choices[index] = failure
        usage = Usage(calls=1, prompt_tokens=n_tokens, cost=0.0)
        return ChatReply(tuple(choices), usage)

    def _answer_one(self, request: Mapping[str, Any]) -> _QuestionOutcome:
        """Return the pipeline's answer to one question, or why there is none.

        There is none if the prompt is longer than the window (5,000 tokens for a window
        of 4,096), which the pipeline does not check. There is none either if the model
        would hardly reply with any of the labels.
        """
        prompts = self._pipeline.preprocess(request)
        n_tokens = _length(prompts)
        if n_tokens > self._window:
            return _QuestionOutcome(failure=Choice(f"{n_tokens} tokens", "length"))
        outputs = self._pipeline.forward(prompts)
        probability_of_labels = self._probability_of_labels(prompts)
        # written so that "not a number" fails, too
        if not probability_of_labels >= MASS_FLOOR:
            failure = Choice(f"{LABELS_UNLIKELY}{probability_of_labels:.3f}", "other")
            return _QuestionOutcome(n_tokens, failure)
        return _QuestionOutcome(n_tokens, answers=self._pipeline.postprocess(outputs))

    def _keep_logits(self, model: Any, inputs: Any, outputs: Any) -> None:
        """Keep what the model gives for the token that follows a prompt."""
        del model, inputs  # as torch hands them over
        self._logits = getattr(outputs, "logits", None)

    def _probability_of_labels(self, prompts: Any) -> float:
        """Return the probability that the next token is any label of the last question.

        1.0 for a model that answers by a head of its own.
        """
        if not self._answers_by_labels:
            return 1.0
        ((_, (question,)),) = prompts["prompts"]
        labels = list(self._pipeline.label_token_ids(tuple(question.labels)))
        probabilities = self._logits[0, 0].float().softmax(-1)
        return float(probabilities[labels].sum())


def _pipeline(folder: Path, device: str | None) -> Any:
    """Load the pipeline of transformers that answers typed questions.

    A typed question names the values that its answer may take, such as yes and no.

    Args:
        folder: Where the model lies.
        device: Where torch runs it; None for a GPU if there is one, else the CPU.

    Raises:
        MissingDependency: If transformers or torch is not installed.
        SettingError: If transformers has no such pipeline, or it cannot be loaded.
    """
    transformers = import_extra("transformers", "local", _USED_FOR)
    torch = import_extra("torch", "local", _USED_FOR)
    if _TASK not in transformers.pipelines.get_supported_tasks():
        raise SettingError(
            f"transformers {transformers.__version__} has no pipeline for typed"
            " questions: install 5.23 or a newer one"
        )
    best_device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return transformers.pipeline(
            _TASK,
            device=device or best_device,
            **_model_and_tokenizer(transformers, folder),
        )
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise SettingError(
            f"{folder.name} cannot be loaded for typed questions: {error}"
        ) from error


def _commit_with_settings(folder: Path) -> str:
    """Return the commit of a folder in the cache, else a digest of weights and settings.

    Labels, templates and the tokenizer change answers as weights do.
    """
    commit = commit_of(folder)
    if folder.name.startswith(commit):
        return commit
    digest = sha256(commit.encode())
    for file in sorted([*folder.glob("*.json"), *folder.glob("*.jinja")]):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _model_and_tokenizer(transformers: Any, folder: Path) -> dict[str, Any]:
    """Return the arguments of the pipeline: the model and its tokenizer.

    The pipeline loads a usual folder by itself, and is given its path. Where a folder
    has no config but one GGUF file, such as "model-q4.gguf", the model is loaded from
    that file here.
    """
    gguf_files = sorted(folder.glob("*.gguf"))
    has_config = (folder / "config.json").is_file()
    if has_config or len(gguf_files) != 1:
        options: dict[str, Any] = {"local_files_only": True}
        return {
            "model": str(folder),
            "tokenizer": transformers.AutoTokenizer.from_pretrained(folder, **options),
        }
    options = {"local_files_only": True, "gguf_file": gguf_files[0].name}
    return {
        "model": transformers.AutoModelForCausalLM.from_pretrained(folder, **options),
        "tokenizer": transformers.AutoTokenizer.from_pretrained(folder, **options),
    }


def _window(model: str | Path, pipeline: Any, wanted_window: int | None) -> int:
    """Return how many tokens a prompt may have at most.

    They are those wanted. Else the tokenizer and the config state them, and the smaller
    number counts: 4,096 of 8,192 and 4,096.

    Args:
        model: Name or folder of the model, for messages.
        pipeline: The pipeline on the model.
        wanted_window: Most tokens, as the user says; None for what is stated.

    Raises:
        SettingError: If more tokens are wanted than the model has positions, or none
            are wanted and none are stated.
    """
    config = pipeline.model.config.get_text_config()
    n_positions: int | None = getattr(config, "max_position_embeddings", None)
    if wanted_window is not None:
        if n_positions and wanted_window > n_positions:
            raise SettingError(
                f"window={wanted_window} is more than {model} reads: it has"
                f" {n_positions:,} positions"
            )
        return wanted_window
    stated_windows: list[int] = []
    for stated_window in (pipeline.tokenizer.model_max_length, n_positions):
        # a tokenizer that knows no window states a huge number
        if stated_window and stated_window < _NO_STATED_WINDOW:
            stated_windows.append(stated_window)
    if not stated_windows:
        raise SettingError(
            f"neither the tokenizer nor the config of {model} states how many tokens it"
            " reads: give LocalDecisionModel(model, window=), e.g. window=4096"
        )
    return min(stated_windows)


def _check_template(model: str | Path, pipeline: Any) -> None:
    """Refuse, by ``SettingError``, a model that says nowhere how it is asked."""
    templates = (
        pipeline.decision_config.chat_template,
        pipeline.tokenizer.chat_template,
    )
    if not any(templates):
        raise SettingError(
            f"{model} has no chat template, so that nobody knows how to ask it: take a"
            " chat model, or add its decision_template.jinja"
        )


def _check_labels(model: str | Path, pipeline: Any) -> None:
    """Raise ``SettingError`` unless each label of a statement is one token."""
    labels = pipeline.decision_config.labels.get("noul") or ["Yes", "No"]
    try:
        pipeline.label_token_ids(tuple(labels))
    except ValueError as error:
        raise SettingError(
            f"{model} cannot answer typed questions: {', '.join(labels)} are not one"
            " token each to its tokenizer; name others in its decision.json, as"
            ' {"labels": {"noul": ["A", "B"]}}'
        ) from error


def _length(prompts: Any) -> int:
    """Count the tokens of the longest prompt."""
    return max(int(inputs["input_ids"].shape[-1]) for inputs, _ in prompts["prompts"])

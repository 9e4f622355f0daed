"""The judge that is an encoder: pairs in, probabilities out.

It is a sequence classifier of Hugging Face on this machine.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from hashlib import file_digest, sha256
from itertools import islice
from math import exp, isfinite
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any, Literal

from ragmetrics_core.data import (
    Answer,
    Asked,
    NotAnswered,
    Question,
    QuestionNotSupported,
    R,
    Weight,
    extra,
)
from ragmetrics_core.data.errors import ContextWindowExceeded, JudgeError, SettingError
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.lexical.declining import asked_question, declines
from ragmetrics_core.lexical.text import split_sentences
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent, Poll
from ragmetrics_core.models.threads import in_thread

# how the label begins that says that a claim is supported
_SUPPORTING_LABEL = {
    "nli": "entail",
    "score": "entail|support|consistent|factual|faithful|grounded",
}
_NAMELESS_LABELS = ["LABEL_0", "LABEL_1"]
_USUAL_WINDOW = 512
_SLACK = 8  # tokens that a window may have more than its part of the whole text
_LARGEST_EXPONENT = 700.0  # exp() overflows a little above

Pair = tuple[str, str]
Logits = Callable[[Any], list[list[float]]]
_Waiting = tuple[Sequence[Pair], Future[list[float]]]


@dataclass(eq=False)
class EncoderJudge(Judge):
    """Judges by a sequence classifier of Hugging Face on this machine.

    It needs no key, makes no call and fetches nothing.

    It says whether contexts support claims, and so answers Context Adherence and, with
    given facts, Retrieval Accuracy; other questions fail, typed. Each claim is set
    against each window of the contexts, and the window that supports it best counts.
    Claims are the sentences of an answer, or facts: an answer is adherent if its
    weakest sentence is supported (.5), and the score is the mean over its sentences. An
    answer that only declines abstains. The question is not shown, so that "In 1903." is
    hardly a claim. ``onnxruntime`` runs ``onnx/model.onnx`` or ``model.onnx``, if the
    model has one, else torch the weights.

    Args:
        model: Name of a model in Hugging Face's cache, or a folder.
        kind: ``"nli"`` takes the probability of the label that begins with *entail*,
            ``"score"`` that of a single output, of a label such as *consistent*, or of
            the second of two without names.
        label: Name of that label, where the model's own names do not tell.
        template: One text for the model instead of a pair, with ``{premise}`` and
            ``{hypothesis}``.
        tokenizer: Name or folder of the tokenizer; None for the model's own.
        revision: Commit, tag or branch of a model in the cache; results hold the
            commit, or a digest of a folder's weights.
        window: Most tokens that the model is given at once; None for 512, or fewer if
            it reads no more.
        batch: Most pairs that it reads at once.
        device: Device of torch, e.g. ``"cuda:1"``; also where there is an ONNX file.
            None: CUDA where there is some.
        trust_remote_code: Run code that comes with the model.

    Raises:
        MissingDependency: If the extra ``local`` is not installed.
        SettingError: If the model is not on this machine, is no sequence classifier,
            brings code that is not trusted, or its labels do not tell which one
            supports a claim.

    Source:
        Windows and their maximum: Laban et al. (2022), SummaC, TACL 10; claim by claim:
        Tang et al. (2024), MiniCheck, arXiv 2404.10774.

    Example, with a model that ``hf download`` has fetched::

        judge = EncoderJudge("cross-encoder/nli-deberta-v3-small")
        ContextAdherence().score(contexts=["Anna lit the lamp."], answer="The lamp was lit.", judge=judge)
    """

    model: str | Path
    _: KW_ONLY
    kind: Literal["nli", "score"] = "nli"
    label: str | None = None
    template: str | None = None
    tokenizer: str | Path | None = None
    revision: str | None = None
    window: int | None = None
    batch: int = 16
    device: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        """Load the model, and find the label that says that a claim is supported."""
        _check_template(self.template)
        transformers = extra("transformers", "local", "an encoder")
        folder = _folder(self.model, self.revision)
        self.name = folder.name if Path(self.model).is_dir() else str(self.model)
        onnx_file = _onnx_file(folder) if self.device is None else None
        self._tensors = "pt" if onnx_file is None else "np"
        try:
            labels = self._load(transformers, folder, onnx_file)
        except (OSError, ValueError) as error:
            raise SettingError(
                f"{self.model} cannot be loaded as a sequence classifier: {error}"
            ) from error
        self.commit = _commit(folder, onnx_file)
        self._positive = self._place(labels)
        self._longest = self.window or min(
            _USUAL_WINDOW, self._tokenizer.model_max_length
        )
        self._mark = _any_of(self._tokenizer.all_special_tokens)
        # a tokenizer keeps the settings of a call in itself
        self._reading = Lock()
        self._running = Lock()
        self._waiting: list[_Waiting] = []

    def _load(
        self, transformers: Any, folder: Path, onnx_file: Path | None
    ) -> dict[int, str]:
        """Load tokenizer and model, and return the labels by their place."""
        options: dict[str, Any] = {
            "local_files_only": True,
            "trust_remote_code": self.trust_remote_code,
        }
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        if not _is_sequence_classifier(config.architectures or ()):
            raise SettingError(f"it is {config.architectures}")
        tokenizer_folder = folder
        if self.tokenizer is not None:
            tokenizer_folder = _folder(self.tokenizer, None)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            tokenizer_folder, **options
        )
        if onnx_file is not None:
            self._run = _onnx(onnx_file)
        else:
            classifier = transformers.AutoModelForSequenceClassification
            self._run = _torch(
                classifier.from_pretrained(folder, **options), self.device
            )
        return dict(config.id2label)

    def __reduce__(self) -> Any:
        """A copy in another process loads the model there."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(type(self), **settings), ()

    @property
    def details(self) -> dict[str, str]:
        """Which weights answer, and what they are shown."""
        details = {
            "kind": self.kind,
            "weights": self.commit,
            "window": str(self._longest),
        }
        if self.template is not None:
            details["template"] = sha256(self.template.encode()).hexdigest()[:6]
        if self.label:
            details["label"] = self.label
        return details

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        ``QuestionNotSupported`` for questions that no supported claim answers.
        """
        answer_to = self._answer_to(type(question))
        if answer_to is None:
            message = (
                f"the encoder {self.name} says whether contexts support claims and"
                f" cannot answer questions of type {type(question).__name__}; use a"
                ' language model instead, e.g. judge="gpt-4o-mini", or both:'
                " CascadeJudge(encoder, model, band=...)"
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        computation: Future[Any] = in_thread(
            partial(answer_to, question),
            context=copy_context(),
            name=f"ragmetrics {self.name}",
        )
        try:
            return Answer(await asyncio.wrap_future(computation))
        except JudgeError as error:
            return Answer(NotAnswered(error))

    def _answer_to(
        self, kind: type[Question[Any]]
    ) -> Callable[[Any], Asked[Any]] | None:
        """What answers questions of a type; None if no supported claim does."""
        if kind is Adherent:
            return self._adherent
        if kind is FactInContext:
            return self._facts_in_context
        return None

    def _adherent(self, question: Adherent) -> Asked[Poll]:
        """Each sentence of the answer against the contexts."""
        claims = [
            sentence
            for sentence in split_sentences(question["answer"])
            if _has_words(sentence)
        ]
        if not claims or declines(question["answer"], asked_question(question)):
            poll = Poll(verdict="abstains", reason="The answer makes no claim.")
            return Asked((poll,))
        contexts = "\n\n".join(question["contexts"])
        probabilities, n_windows = self._supported(contexts, claims)
        unsupported = tuple(
            claim
            for claim, probability in zip(claims, probabilities, strict=True)
            if probability < 0.5
        )
        poll = Poll(
            verdict="no" if unsupported else "yes",
            reason=(
                f"{len(claims) - len(unsupported)} of {len(claims)} sentences are"
                " supported by the contexts; the weakest has p ="
                f" {min(probabilities)}"
            ),
            unsupported=unsupported,
        )
        weight = Weight(round(fmean(probabilities), 4), "encoder")
        return Asked((poll,), weights=(weight,), windows=_where_several(n_windows))

    def _facts_in_context(self, question: FactInContext) -> Asked[Any]:
        """Each fact against the context."""
        part = question.parts.get("facts") or question.parts["fact"]
        probabilities, n_windows = self._supported(question["context"], part.texts)
        verdicts = [
            {
                "label": label,
                "covered": probability >= 0.5,
                "reason": f"p = {probability}",
            }
            for label, probability in zip(part.labels, probabilities, strict=True)
        ]
        reply = question.read({**verdicts[0], "facts": verdicts})
        return Asked(
            (reply,),
            weights=tuple(
                Weight(probability, "encoder") for probability in probabilities
            ),
            windows=_where_several(n_windows) * len(probabilities),
        )

    def _supported(
        self, premise: str, claims: Sequence[str]
    ) -> tuple[list[float], int]:
        """Return for each claim the probability that some window supports it.

        With these comes the number of windows.
        """
        windows = self.windows(premise, claims)
        probabilities = self.probabilities(
            [(window, claim) for claim in claims for window in windows]
        )
        best_by_claim = [
            max(probabilities[start : start + len(windows)])
            for start in range(0, len(probabilities), len(windows))
        ]
        return best_by_claim, len(windows)

    def windows(self, premise: str, hypotheses: Sequence[str]) -> list[str]:
        """Cut a text into windows that fit into the model beside each hypothesis.

        The windows overlap by a quarter.

        ``ContextWindowExceeded`` if a hypothesis leaves too little room for them.
        """
        longest = max(self._count_tokens(text) for text in hypotheses)
        room = self._longest - longest - _SLACK
        if room < self._longest // 4:
            raise ContextWindowExceeded(
                f"a claim of {longest} tokens leaves too little room for contexts in a"
                f" window of {self._longest}; give window=, if the model can read more"
            )
        premise = self._clean(premise)
        spans = self._token_spans(premise)
        if not spans:
            return [""]
        overlap = room // 4
        windows: list[str] = []
        for start in range(0, max(1, len(spans) - overlap), room - overlap):
            window_spans = spans[start : start + room]
            begin, end = window_spans[0][0], window_spans[-1][1]
            windows.append(premise[begin:end])
        return windows

    def _count_tokens(self, hypothesis: str) -> int:
        """Tokens of a hypothesis with what the model puts around it."""
        return len(self._read([("", hypothesis)])["input_ids"][0])

    def _token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends, in characters."""
        with self._reading:
            encoding = self._tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                verbose=False,
            )
        spans: list[tuple[int, int]] = encoding["offset_mapping"]
        return spans

    def probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """Probabilities that premises support hypotheses, in [0, 1].

        Calls from several threads share batches.
        """
        future: Future[list[float]] = Future()
        self._waiting.append((pairs, future))
        with self._running:  # whoever runs the model does so for all who wait
            if not future.done():
                waiting = [*self._waiting]
                self._waiting = []
                # whose pair it was shows where each is asked alone
                with suppress(Exception):
                    self._settle(waiting)
            if not future.done():
                self._settle([(pairs, future)])
        return future.result()

    def _settle(self, waiting: Sequence[_Waiting]) -> None:
        """Compute the pairs of all who wait, and give each the part that is theirs."""
        all_pairs = [pair for pairs, _ in waiting for pair in pairs]
        probabilities = iter(self._probabilities(all_pairs))
        for pairs, future in waiting:
            future.set_result(list(islice(probabilities, len(pairs))))

    def _probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """To four places, which hardly depend on what else is in a batch."""
        probabilities = [0.0] * len(pairs)
        # texts of about the same length need little padding
        places = sorted(range(len(pairs)), key=lambda place: _length(pairs[place]))
        for start in range(0, len(places), self.batch):
            batch = places[start : start + self.batch]
            tokens = self._read(
                [pairs[place] for place in batch],
                padding=True,
                return_tensors=self._tensors,
            )
            for place, logits in zip(batch, self._run(tokens), strict=True):
                probabilities[place] = round(self._probability(logits), 4)
        return probabilities

    def _probability(self, logits: Sequence[float]) -> float:
        """The sigmoid of a single output, the softmax of several."""
        positive = logits[self._positive]
        alternatives = [*logits, 0.0] if len(logits) == 1 else logits
        if not all(isfinite(logit) for logit in alternatives):
            raise JudgeError(f"{self.model} gave no numbers for a pair of texts")
        exponents = [min(_LARGEST_EXPONENT, logit - positive) for logit in alternatives]
        return 1 / sum(exp(exponent) for exponent in exponents)

    def _read(self, pairs: Sequence[Pair], **settings: Any) -> Any:
        """Tokens of pairs, in the form that the model was trained on."""
        premises = [self._clean(premise) for premise, _ in pairs]
        hypotheses = [self._clean(hypothesis) for _, hypothesis in pairs]
        if self.template is None:
            texts = [premises, hypotheses]
        else:
            filled = [
                self.template.format(premise=premise, hypothesis=hypothesis)
                for premise, hypothesis in zip(premises, hypotheses, strict=True)
            ]
            texts = [filled]
        with self._reading:
            return self._tokenizer(*texts, **settings)

    def _clean(self, text: str) -> str:
        """Return a text without the model's own marks.

        Without them it cannot pose as the other text.
        """
        return self._mark.sub(" ", text)

    def _place(self, labels: dict[int, str]) -> int:
        """The place of the label that says that the premise supports the hypothesis."""
        names = list(labels.values())
        if self.kind == "score":
            is_nameless = names == _NAMELESS_LABELS and self.label is None
            if len(names) == 1 or is_nameless:
                return len(names) - 1
        pattern = _SUPPORTING_LABEL[self.kind]
        if self.label is not None:
            pattern = re.escape(self.label) + r"\Z"
        supporting = [
            place
            for place, name in labels.items()
            if re.match(pattern, name, re.IGNORECASE)
        ]
        if len(supporting) != 1:
            raise SettingError(
                f"which label of {self.model} means that a claim is supported? Give"
                f" label=, of: {', '.join(names)}"
            )
        return supporting[0]


def _check_template(template: str | None) -> None:
    if template is None or ("{premise}" in template and "{hypothesis}" in template):
        return
    raise SettingError(
        f"template must hold {{premise}} and {{hypothesis}}; got {template!r}"
    )


def _is_sequence_classifier(architectures: Sequence[str]) -> bool:
    return any("SequenceClassification" in name for name in architectures)


def _any_of(marks: Sequence[str]) -> re.Pattern[str]:
    """A pattern of any of these texts, the longest first; of none if there are none."""
    escaped = sorted((re.escape(mark) for mark in marks), key=len, reverse=True)
    return re.compile("|".join(escaped) or r"(?!)")


def _has_words(sentence: str) -> bool:
    return any(sign.isalnum() for sign in sentence)


def _where_several(n_windows: int) -> tuple[int, ...]:
    """The number of windows as results give it: nothing for a single one."""
    return (n_windows,) if n_windows > 1 else ()


def _length(pair: Pair) -> int:
    premise, hypothesis = pair
    return len(premise) + len(hypothesis)


def _folder(model: str | Path, revision: str | None) -> Path:
    """Where a model lies: a folder, or that of a commit in Hugging Face's cache."""
    if Path(model).is_dir():
        return Path(model).resolve()
    hub = extra("huggingface_hub", "local", "an encoder")
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


def _commit(folder: Path, onnx_file: Path | None) -> str:
    """The commit of a folder in the cache, else a digest of the weights in use."""
    if re.fullmatch("[0-9a-f]{40}", folder.name):
        return folder.name[:12]
    if onnx_file is not None:
        files = [onnx_file]
    else:
        files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    digest = sha256()
    for file in files:
        with file.open("rb") as weights:
            digest.update(file_digest(weights, "sha256").digest())
    return digest.hexdigest()[:12]


def _onnx(file: Path) -> Logits:
    """Run a model by ONNX Runtime."""
    runtime = extra("onnxruntime", "local", "an encoder in ONNX form")
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


def _torch(model: Any, device: str | None) -> Logits:
    """Run a model by torch."""
    torch = extra("torch", "local", "an encoder")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = model.eval().to(place)

    def logits(tokens: Any) -> list[list[float]]:
        with torch.inference_mode():
            outputs = model(**tokens.to(place)).logits
        rows: list[list[float]] = outputs.float().tolist()
        return rows

    return logits

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
from ragmetrics_core.lexical.declining import declines
from ragmetrics_core.lexical.text import split_sentences
from ragmetrics_core.metrics.fact_matrix import FactInContext
from ragmetrics_core.metrics.polls import Adherent, Poll
from ragmetrics_core.models.threads import in_thread

_POSITIVE = {
    "nli": "entail",
    "score": "entail|support|consistent|factual|faithful|grounded",
}
_WINDOW = 512
_SLACK = 8  # tokens that a window may have more than its part of the whole text

Pair = tuple[str, str]
Logits = Callable[[Any], list[list[float]]]


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
        if self.template is not None and not all(
            part in self.template for part in ("{premise}", "{hypothesis}")
        ):
            raise SettingError(
                "template must hold {premise} and {hypothesis}; got"
                f" {self.template!r}"
            )
        transformers = extra("transformers", "local", "an encoder")
        folder = _folder(self.model, self.revision)
        self.name = folder.name if Path(self.model).is_dir() else str(self.model)
        files = [
            file
            for file in (folder / "onnx" / "model.onnx", folder / "model.onnx")
            if file.is_file()
        ][:1]
        self._tensors = "np" if files and self.device is None else "pt"
        given: dict[str, Any] = {
            "local_files_only": True,
            "trust_remote_code": self.trust_remote_code,
        }
        try:
            config = transformers.AutoConfig.from_pretrained(folder, **given)
            if not any(
                "SequenceClassification" in name for name in config.architectures or ()
            ):
                raise SettingError(f"it is {config.architectures}")
            words = folder if self.tokenizer is None else _folder(self.tokenizer, None)
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(words, **given)
            load = transformers.AutoModelForSequenceClassification.from_pretrained
            self._run = (
                _onnx(files[0])
                if self._tensors == "np"
                else _torch(load(folder, **given), self.device)
            )
        except (OSError, ValueError) as error:
            raise SettingError(
                f"{self.model} cannot be loaded as a sequence classifier: {error}"
            ) from error
        if self._tensors == "pt":
            files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
        self.commit = _commit(folder, files)
        self._positive = self._place(dict(config.id2label))
        self._longest = self.window or min(_WINDOW, self._tokenizer.model_max_length)
        marks = sorted(
            map(re.escape, self._tokenizer.all_special_tokens), key=len, reverse=True
        )
        self._mark = re.compile("|".join(marks) or r"(?!)")
        # a tokenizer keeps the settings of a call in itself
        self._reading, self._running = Lock(), Lock()
        self._waiting: list[tuple[Sequence[Pair], Future[list[float]]]] = []

    def __reduce__(self) -> Any:
        """A copy in another process loads the model there."""
        return (
            partial(
                type(self),
                **{field.name: getattr(self, field.name) for field in fields(self)},
            ),
            (),
        )

    @property
    def details(self) -> dict[str, str]:
        """Which weights answer, and what they are shown."""
        shown = {
            "kind": self.kind,
            "weights": self.commit,
            "window": str(self._longest),
        }
        if self.template is not None:
            shown["template"] = sha256(self.template.encode()).hexdigest()[:6]
        return {**shown, "label": self.label} if self.label else shown

    async def answer(self, question: Question[R]) -> Answer[R]:
        """Answer one question.

        ``QuestionNotSupported`` for questions that no supported claim answers.
        """
        kinds: dict[type[Question[Any]], Any] = {
            Adherent: self._adherent,
            FactInContext: self._facts_in_context,
        }
        answered = kinds.get(type(question))
        if answered is None:
            message = (
                f"the encoder {self.name} says whether contexts support claims and"
                " cannot answer questions of type "
                f"{type(question).__name__}; use a language model instead, e.g."
                ' judge="gpt-4o-mini", or both: '
                "CascadeJudge(encoder, model)"
            )
            return Answer(NotAnswered(QuestionNotSupported(message)))
        begun = in_thread(
            partial(answered, question),
            context=copy_context(),
            name=f"ragmetrics {self.name}",
        )
        try:
            return Answer(await asyncio.wrap_future(begun))
        except JudgeError as error:
            return Answer(NotAnswered(error))

    def _adherent(self, question: Adherent) -> Asked[Poll]:
        part, text = question.parts.get("question"), question["answer"]
        asked = None if part is None else part.rewrite or "".join(part.texts)
        claims = [
            sentence
            for sentence in split_sentences(text)
            if any(map(str.isalnum, sentence))
        ]
        if not claims or declines(text, asked):
            return Asked(
                (Poll(verdict="abstains", reason="The answer makes no claim."),)
            )
        chances, windows = self._supported("\n\n".join(question["contexts"]), claims)
        weak = tuple(
            claim for claim, chance in zip(claims, chances, strict=True) if chance < 0.5
        )
        held, least = f"{len(claims) - len(weak)} of {len(claims)}", min(chances)
        reason = (
            f"{held} sentences are supported by the contexts; the weakest has p ="
            f" {least}"
        )
        poll = Poll(verdict="no" if weak else "yes", reason=reason, unsupported=weak)
        weight = Weight(round(fmean(chances), 4), "encoder")
        return Asked((poll,), weights=(weight,), windows=(windows,) * (windows > 1))

    def _facts_in_context(self, question: FactInContext) -> Asked[Any]:
        part = question.parts.get("facts") or question.parts["fact"]
        chances, windows = self._supported(question["context"], part.texts)
        verdicts = [
            {"label": label, "covered": chance >= 0.5, "reason": f"p = {chance}"}
            for label, chance in zip(part.labels, chances, strict=True)
        ]
        reply, weights = (
            question.read({**verdicts[0], "facts": verdicts}),
            (Weight(it, "encoder") for it in chances),
        )
        return Asked(
            (reply,),
            weights=tuple(weights),
            windows=(windows,) * len(chances) * (windows > 1),
        )

    def _supported(
        self, premise: str, claims: Sequence[str]
    ) -> tuple[list[float], int]:
        """Return for each claim the probability that some window supports it.

        With these comes the number of windows.
        """
        windows = self.windows(premise, claims)
        found, count = (
            self.probabilities(
                [(window, claim) for claim in claims for window in windows]
            ),
            len(windows),
        )
        return [
            max(found[at : at + count]) for at in range(0, len(found), count)
        ], count

    def windows(self, premise: str, hypotheses: Sequence[str]) -> list[str]:
        """Cut a text into windows that fit into the model beside each hypothesis.

        The windows overlap by a quarter.

        ``ContextWindowExceeded`` if a hypothesis leaves too little room for them.
        """
        longest = max(
            len(self._read([("", text)])["input_ids"][0]) for text in hypotheses
        )
        room = self._longest - longest - _SLACK
        if room < self._longest // 4:
            raise ContextWindowExceeded(
                f"a claim of {longest} tokens leaves too little room for contexts in a"
                f" window of {self._longest}; give window=, if the model can read more"
            )
        premise = self._clean(premise)
        asked: dict[str, Any] = {
            "add_special_tokens": False,
            "return_offsets_mapping": True,
            "verbose": False,
        }
        with self._reading:
            spans = self._tokenizer(premise, **asked)["offset_mapping"]
        overlap = room // 4
        starts = range(0, max(1, len(spans) - overlap), room - overlap)
        return (
            [premise[spans[at][0] : spans[at : at + room][-1][1]] for at in starts]
            if spans
            else [""]
        )

    def probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """Probabilities that premises support hypotheses, in [0, 1].

        Calls from several threads share batches.
        """
        mine: Future[list[float]] = Future()
        self._waiting.append((pairs, mine))
        with self._running:  # whoever runs the model does so for all who wait
            if not mine.done():
                taken, self._waiting = [*self._waiting], []
                # whose pair it was shows where each is asked alone
                with suppress(Exception):
                    self._settle(taken)
            if not mine.done():
                self._settle([(pairs, mine)])
        return mine.result()

    def _settle(
        self, taken: Sequence[tuple[Sequence[Pair], Future[list[float]]]]
    ) -> None:
        found = iter(self._probabilities([pair for own, _ in taken for pair in own]))
        for own, future in taken:
            future.set_result(list(islice(found, len(own))))

    def _probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        """To four places, which hardly depend on what else is in a batch."""
        found = [0.0] * len(pairs)
        # little padding
        places = sorted(
            range(len(pairs)), key=lambda place: sum(map(len, pairs[place]))
        )
        for start in range(0, len(places), self.batch):
            batch = places[start : start + self.batch]
            read = self._read(
                [pairs[place] for place in batch],
                padding=True,
                return_tensors=self._tensors,
            )
            for place, logits in zip(batch, self._run(read), strict=True):
                found[place] = round(self._probability(logits), 4)
        return found

    def _probability(self, logits: Sequence[float]) -> float:
        """The sigmoid of a single output, the softmax of several."""
        own, others = (
            logits[self._positive],
            [*logits] if len(logits) > 1 else [*logits, 0.0],
        )
        if not all(map(isfinite, others)):
            raise JudgeError(f"{self.model} gave no numbers for a pair of texts")
        return 1 / sum(exp(min(700.0, other - own)) for other in others)

    def _read(self, pairs: Sequence[Pair], **settings: Any) -> Any:
        """Tokens of pairs, in the form that the model was trained on."""
        clean = [
            {"premise": self._clean(one), "hypothesis": self._clean(two)}
            for one, two in pairs
        ]
        texts = [[pair[part] for pair in clean] for part in ("premise", "hypothesis")]
        if self.template is not None:
            texts = [[self.template.format(**pair) for pair in clean]]
        with self._reading:
            return self._tokenizer(*texts, **settings)

    def _clean(self, text: str) -> str:
        """Return a text without the model's own marks.

        Without them it cannot pose as the other text.
        """
        return self._mark.sub(" ", text)

    def _place(self, labels: dict[int, str]) -> int:
        """The place of the label that says that the premise supports the hypothesis."""
        wanted = (
            _POSITIVE[self.kind]
            if self.label is None
            else re.escape(self.label) + r"\Z"
        )
        found = [
            place
            for place, name in labels.items()
            if re.match(wanted, name, re.IGNORECASE)
        ]
        names = ", ".join(labels.values())
        if self.kind == "score" and (
            len(labels) == 1 or (names == "LABEL_0, LABEL_1" and self.label is None)
        ):
            return len(labels) - 1
        if len(found) != 1:
            raise SettingError(
                f"which label of {self.model} means that a claim is supported? Give"
                f" label=, of: {names}"
            )
        return found[0]


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


def _commit(folder: Path, files: Sequence[Path]) -> str:
    """The commit of a folder in the cache, else a digest of the weights."""
    if re.fullmatch("[0-9a-f]{40}", folder.name):
        return folder.name[:12]
    digest = sha256()
    for file in files:
        with file.open("rb") as weights:
            digest.update(file_digest(weights, "sha256").digest())
    return digest.hexdigest()[:12]


def _onnx(file: Path) -> Logits:
    runtime = extra("onnxruntime", "local", "an encoder in ONNX form")
    able = [
        name
        for name in runtime.get_available_providers()
        if name.startswith(("CUDA", "CPU"))
    ]
    session = runtime.InferenceSession(str(file), providers=able)
    names = [entry.name for entry in session.get_inputs()]
    return lambda read: session.run(None, {name: read[name] for name in names})[
        0
    ].tolist()


def _torch(model: Any, device: str | None) -> Logits:
    torch = extra("torch", "local", "an encoder")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = model.eval().to(place)

    def logits(read: Any) -> list[list[float]]:
        with torch.inference_mode():
            found: list[list[float]] = model(**read.to(place)).logits.float().tolist()
        return found

    return logits

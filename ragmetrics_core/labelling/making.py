"""Where a model works on a set: writes questions with the responses expected, labels facts, and is counted."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import islice, product
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from ragmetrics_core.data import (
    Evidence,
    Failed,
    Frozen,
    NotAnswered,
    Sample,
    Scored,
    Silent,
    Undefined,
    Usage,
)
from ragmetrics_core.data.asking import Instructions, Part, Question, ask
from ragmetrics_core.data.errors import InputError, JudgeUnavailable
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import JudgeLike, Run, Show, stream
from ragmetrics_core.labelling.documents import Document
from ragmetrics_core.labelling.sets import Header, digest_of
from ragmetrics_core.metrics.metric import Outcome, metric
from ragmetrics_core.metrics.templates import digest
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)
Making = Callable[[Sample], Generator[Any, Any, T | Failed | Undefined]]
"""A plan whose end is not a score, but what a model made of the sample, or why it made nothing."""

TEMPLATE = (
    files(__package__).joinpath("prompts", "write_question.txt").read_text("utf-8")
)
"""The prompt that has a question and its response written."""

_Stated = Annotated[str, Field(min_length=1)]


class TaggedSentence(Silent, extra="ignore", str_strip_whitespace=True):
    """One sentence of a golden response.

    Args:
        text: The sentence.
        chunk: Label of the chunk that it was taken from: A, B and so on.
    """

    text: _Stated
    chunk: _Stated


class Written(Silent, extra="ignore", str_strip_whitespace=True):
    """A question and its golden response.

    Args:
        question: The question.
        sentences: The response, sentence by sentence; every chunk gave at least one.
    """

    question: _Stated
    sentences: tuple[TaggedSentence, ...]

    @field_validator("sentences")
    @classmethod
    def _from_each(cls, sentences: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, Question):
            known = info.context.parts["chunks"].labels
            if {sentence.chunk for sentence in sentences} != set(known):
                raise ValueError(
                    "it must have at least one sentence from each chunk"
                    f" ({', '.join(known)})"
                )
        return sentences

    @property
    def response(self) -> str:
        """The golden response as one text."""
        return " ".join(sentence.text for sentence in self.sentences)


class WriteQuestion(Question[Written]):
    """Which question is answered by something of each of these chunks, and what is the answer? Parts: chunks."""

    @classmethod
    def about(cls, chunks: Sequence[str], language: str | None = None) -> Self:
        """The question for these chunks, in the order of the document."""
        return cls(
            parts={"chunks": Part("Chunk", tuple(chunks), "letters")},
            instructions=Instructions(TEMPLATE, language=language),
            Reply=Written,
            example=_examples,
        )


def _examples(question: WriteQuestion) -> tuple[Written, Written]:
    """One sentence from each chunk, and three; different for different chunks."""
    own = sha256("\0".join(question["chunks"]).encode(errors="replace")).hexdigest()

    def written(each: int) -> Written:
        tagged = product(question.parts["chunks"].labels, range(each))
        sentences = tuple(
            TaggedSentence(text=f"{own} {own} {n}.", chunk=label) for label, n in tagged
        )
        return Written(question=f"{own}?", sentences=sentences)

    return written(1), written(3)


class Maker:
    """One model at work on a set or on facts; what it does is a run like any other.

    Args:
        judge: A judge, or a name as in ``evaluate``; it must be able to write.
        store: Where replies are kept; None for a store of this session.
        concurrency: Most calls in flight.
        language: Language of questions and responses; None leaves it to the model.
        progress: As in ``evaluate``.

    Attributes:
        name: Name of the model.
        usage: What it cost so far.
        left_out: Per reason, how many candidates gave nothing.
    """

    def __init__(
        self,
        judge: JudgeLike,
        *,
        store: ReplyStore | None = None,
        concurrency: int = 32,
        language: str | None = None,
        progress: Show = False,
    ) -> None:
        self._judge, self._store = (
            resolve_judge(judge),
            MemoryStore() if store is None else store,
        )
        self.name, self.language, self.usage, self.left_out = (
            self._judge.name,
            language,
            Usage(),
            Counter[str](),
        )
        self._concurrency, self._progress = concurrency, progress

    def make(
        self, plan: Making[T], samples: Sequence[Sample]
    ) -> Iterator[T | Failed | Undefined]:
        """What a plan makes of each sample, or why nothing; ``JudgeUnavailable`` if the model will answer nothing."""

        @metric
        def making(sample: Sample) -> Generator[Any, Any, Outcome]:
            item = yield from plan(sample)
            if isinstance(item, (Failed, Undefined)):
                return item
            return Scored(
                metric="making",
                value=1,
                reason="",
                evidence=Evidence.model_validate({"item": item}),
            )

        this = Run(making, self._judge, self._concurrency, self._store)
        for row in stream(this, samples, progress=self._progress, columns={}):
            self.usage += row.usage
            outcome = row.results.get("making")
            # cut off by an interrupt or a limit: the run says so at its end
            if outcome is None:
                continue
            yield (
                cast("Any", outcome.evidence).item
                if isinstance(outcome, Scored)
                else outcome
            )
        if this.interrupted:
            raise KeyboardInterrupt
        if this.stopped:
            raise JudgeUnavailable(this.stopped)

    def until(
        self,
        wanted: int,
        candidates: Iterable[Sample],
        plan: Making[T],
        key: Callable[[T], str],
    ) -> list[T]:
        """Make so many items of candidates in their order.

        Where one gives nothing, the next one is tried.

        Args:
            wanted: How many items; ``InputError`` if there is none at the end.
            candidates: What they are made of, the first ones first.
            plan: Makes an item.
            key: What no two items may share, such as their question.
        """
        found, queue = dict[str, T](), iter(candidates)
        while len(found) < wanted and (
            batch := list(islice(queue, wanted - len(found)))
        ):
            for item in self.make(plan, batch):
                if isinstance(item, (Failed, Undefined)):
                    self.left_out[
                        item.error.type if isinstance(item, Failed) else item.code
                    ] += 1
                elif found.setdefault(key(item), item) is not item:
                    self.left_out["duplicate question"] += 1
        if not found:
            reasons = ", ".join(
                f"{count} {reason}" for reason, count in self.left_out.items()
            )
            raise InputError(
                f"{self.name} gave nothing that could be used ({reasons}); try another"
                " model"
            )
        return list(found.values())


def answered(question: Question[R]) -> Generator[Any, Any, R]:
    """The first reply to a question of a plan.

    Raises the ``JudgeError`` if there is none, which ends the plan.
    """
    (answer,) = yield from ask([question])
    if isinstance(answer, NotAnswered):
        raise answer.error
    return answer.reply


def header(
    kind: Literal["discrete", "continuous"],
    documents: Iterable[Document],
    settings: Frozen,
    source: Iterable[str],
    maker: Maker | None,
    *prompts: str,
    **more: str,
) -> Header:
    """How a set was made; ``maker`` is None where no model was asked, ``more`` are further parameters."""
    parameters, asked = settings.model_dump() | more, dict[str, Any]()
    if maker is not None:
        left_out = dict(sorted(maker.left_out.items()))
        asked = {
            "model": maker.name,
            "prompts": digest(*prompts, maker.language or ""),
            "left_out": left_out,
        }
    seed, corpus = (
        parameters.pop("seed"),
        digest_of(part for own in documents for part in (own.id, own.text)),
    )
    return Header(
        kind=kind,
        source=tuple(source),
        corpus=corpus,
        seed=seed,
        parameters=parameters,
        **asked,
    )

"""Where a model works on a set: writes questions with the responses expected, labels facts, and is counted."""

from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from ragmetrics_core.data.errors import InputError, JudgeError, JudgeUnavailable, QuestionNotSupported
from ragmetrics_core.data.frozen import Frozen, Silent
from ragmetrics_core.data.questions import Instructions, NotAnswered, Part, Question
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.usage import Usage
from ragmetrics_core.datasets.chunking import Document
from ragmetrics_core.datasets.sets import Header, corpus_digest
from ragmetrics_core.endpoints.fitting import gathered
from ragmetrics_core.endpoints.store import MemoryStore, ReplyStore
from ragmetrics_core.engine.resolve import resolve_judge
from ragmetrics_core.engine.run import JudgeLike
from ragmetrics_core.engine.scoring import RunJudge, carry_out
from ragmetrics_core.metrics.metric import Metric, Outcome
from ragmetrics_core.metrics.templates import digest

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)
K = TypeVar("K", bound=Hashable)
Show = Callable[[int, int, Usage], None]
"""Called with how many are done, how many are wanted, and what it cost so far."""


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
                raise ValueError(f"it must have at least one sentence from each chunk ({', '.join(known)})")
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
            instructions=Instructions(template(), language=language),
            Reply=Written,
            example=_examples,
        )


def template() -> str:
    """The prompt that has a question and its response written."""
    return files("ragmetrics_core.datasets").joinpath("prompts", "write_question.txt").read_text(encoding="utf-8")


def _examples(question: WriteQuestion) -> tuple[Written, Written]:
    """One sentence from each chunk, and three; different for different chunks."""
    own = sha256("\0".join(question["chunks"]).encode(errors="replace")).hexdigest()
    short, long = (
        [TaggedSentence(text=f"{own} {own} {n}.", chunk=label) for label in question.parts["chunks"].labels
         for n in range(each)]
        for each in (1, 3)
    )  # fmt: skip
    return Written(question=f"{own}?", sentences=tuple(short)), Written(question=f"{own}?", sentences=tuple(long))


class LeftOut(Exception):
    """A document or question that gave nothing usable; the message is the reason, as a symbol."""


class Maker:
    """One model's session while a set is made.

    Args:
        judge: A judge, or a name as in ``evaluate``; it must be able to write.
        store: Where replies are kept; None for a store of this session.
        concurrency: Most calls in flight.
        language: Language of questions and responses; None leaves it to the model.
        show: Shows progress.

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
        show: Show | None = None,
    ) -> None:
        judge, store = resolve_judge(judge), MemoryStore() if store is None else store
        self.name, self.language, self.usage, self.left_out = judge.name, language, Usage(), Counter[str]()
        self._judge, self._show = RunJudge(judge.session(concurrency=concurrency, store=store)), show

    async def ask(self, question: Question[R]) -> R:
        """The reply to a question, counted; raises the ``JudgeError`` if there is none."""
        answer = await self._judge.session.answer(question)
        self.usage += answer.usage
        if isinstance(answer.reply, NotAnswered):
            raise answer.reply.error
        self._judge.answered += 1
        return answer.reply.reply

    async def write(self, chunks: Sequence[str]) -> Written:
        """A question and its golden response from chunks; ``LeftOut`` if the model gave no usable reply.

        ``JudgeUnavailable`` if it will answer nothing, ``QuestionNotSupported`` if the judge is none that writes.
        """
        try:
            return await self.ask(WriteQuestion.about(chunks, self.language))
        except (JudgeUnavailable, QuestionNotSupported):
            raise
        except JudgeError as error:
            raise LeftOut(type(error).__name__) from None

    async def measure(self, metric: Metric, sample: Sample) -> Outcome:
        """A metric's outcome on a sample; ``LeftOut`` without a score, ``JudgeUnavailable`` as in ``write``."""
        outcome = await carry_out(metric, sample, self._judge)
        self.usage += outcome.usage
        if self._judge.unavailable is not None:
            raise self._judge.unavailable
        if outcome.status != "scored":
            raise LeftOut(outcome.error.type if outcome.status == "failed" else outcome.code)
        return outcome

    def shown(self, done: int, wanted: int) -> None:
        """Show progress."""
        if self._show is not None:
            self._show(min(done, wanted), wanted, self.usage)

    async def until(
        self, wanted: int, candidates: Iterable[K], make: Callable[[K], Coroutine[Any, Any, T]], key: Callable[[T], str]
    ) -> list[T]:
        """Make so many items of candidates in their order; where one gives nothing, the next one is tried.

        Args:
            wanted: How many items; ``InputError`` if there is none at the end.
            candidates: What they are made of, the first ones first.
            make: Makes an item; raises ``LeftOut`` if it cannot.
            key: What no two items may share, such as their question.
        """
        found, queue, done = dict[str, T](), iter(candidates), 0

        async def tried(candidate: K) -> T | LeftOut:
            nonlocal done
            try:
                item = await make(candidate)
            except LeftOut as reason:
                return reason
            done += 1
            self.shown(done, wanted)
            return item

        while len(found) < wanted and (batch := list(islice(queue, wanted - len(found)))):
            for item in await gathered(map(tried, batch), hasty=True):
                if isinstance(item, LeftOut) or key(item) in found:
                    self.left_out[str(item) if isinstance(item, LeftOut) else "duplicate question"] += 1
                else:
                    found[key(item)] = item
        if not found:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
            raise InputError(f"{self.name} gave nothing that could be used ({reasons}); try another model")
        return list(found.values())


def header(
    kind: Literal["discrete", "continuous"], documents: Iterable[Document], settings: Frozen, source: Iterable[str],
    maker: Maker | None, *prompts: str, **more: str,
) -> Header:  # fmt: skip
    """How a set was made; ``maker`` is None where no model was asked, ``more`` are further parameters."""
    parameters, asked = settings.model_dump() | more, dict[str, Any]()
    if maker is not None:
        left_out = dict(sorted(maker.left_out.items()))
        asked = {"model": maker.name, "prompts": digest(*prompts, maker.language or ""), "left_out": left_out}
    seed, corpus = parameters.pop("seed"), corpus_digest(documents)
    return Header(kind=kind, source=tuple(source), corpus=corpus, seed=seed, parameters=parameters, **asked)

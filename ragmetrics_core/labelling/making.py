"""What a model does for a set: it writes questions with responses, and labels facts.

Its calls are counted.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from ragmetrics_core.data import (
    Evidence,
    Failed,
    Frozen,
    NotAnswered,
    Sample,
    Scored,
    SilentData,
    Undefined,
    Usage,
)
from ragmetrics_core.data.asking import Instructions, Part, Question, ask
from ragmetrics_core.data.errors import InputError, JudgeUnavailable
from ragmetrics_core.engine.progress import Show
from ragmetrics_core.engine.resolve import JudgeLike, resolve_judge
from ragmetrics_core.engine.run import Run, stream
from ragmetrics_core.labelling.documents import Document
from ragmetrics_core.labelling.sets import Header, digest_of
from ragmetrics_core.metrics.metric import Outcome, metric
from ragmetrics_core.metrics.templates import digest_of_prompt
from ragmetrics_core.models.reply_store import MemoryStore, ReplyStore

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)
Making = Callable[[Sample], Generator[Any, Any, T | Failed | Undefined]]
"""A plan that ends with what a model made of the sample, or why it made nothing."""

TEMPLATE = (
    files(__package__).joinpath("prompts", "write_question.txt").read_text("utf-8")
)
"""The prompt that has a question and its response written."""

_Stated = Annotated[str, Field(min_length=1)]


class TaggedSentence(SilentData, extra="ignore", str_strip_whitespace=True):
    """One sentence of a golden response.

    Args:
        text: The sentence.
        chunk: Label of the chunk that it was taken from: A, B and so on.
    """

    text: _Stated
    chunk: _Stated


class Written(SilentData, extra="ignore", str_strip_whitespace=True):
    """A question and its golden response.

    Args:
        question: The question.
        sentences: The response, sentence by sentence; every chunk gave at least one.
    """

    question: _Stated
    sentences: tuple[TaggedSentence, ...]

    @field_validator("sentences")
    @classmethod
    def _check_every_chunk(cls, sentences: Any, info: ValidationInfo) -> Any:
        if not isinstance(info.context, Question):
            return sentences
        chunk_labels = info.context.parts["chunks"].labels
        labels_used = {sentence.chunk for sentence in sentences}
        if labels_used != set(chunk_labels):
            raise ValueError(
                "it must have at least one sentence from each chunk"
                f" ({', '.join(chunk_labels)})"
            )
        return sentences

    @property
    def response(self) -> str:
        """The golden response as one text."""
        return " ".join(sentence.text for sentence in self.sentences)


class WriteQuestion(Question[Written]):
    """Which question needs something of each of these chunks, and what is the answer?

    Parts: chunks.
    """

    @classmethod
    def about(cls, chunks: Sequence[str], language: str | None = None) -> Self:
        """Return the question for these chunks, in the order of the document."""
        return cls(
            parts={"chunks": Part("Chunk", tuple(chunks), "letters")},
            instructions=Instructions(TEMPLATE, language=language),
            Reply=Written,
            example=_usual_reply,
        )


def _usual_reply(question: WriteQuestion) -> Written:
    """Return two sentences from each chunk, as long as real ones, for dry runs."""
    chunks = "\0".join(question["chunks"])
    filler = sha256(chunks.encode(errors="replace")).hexdigest()
    sentences = []
    for label in question.parts["chunks"].labels:
        for number in range(2):
            text = f"{filler} {filler} {number}."
            sentences.append(TaggedSentence(text=text, chunk=label))
    return Written(question=f"{filler}?", sentences=tuple(sentences))


class Maker:
    """One model at work on a set; what it does is a run like any other.

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
        self._judge = resolve_judge(judge)
        self._store = MemoryStore() if store is None else store
        self._concurrency = concurrency
        self._progress = progress
        self.name = self._judge.name
        self.language = language
        self.usage = Usage()
        self.left_out = Counter[str]()

    def make(
        self, plan: Making[T], samples: Sequence[Sample]
    ) -> Iterator[T | Failed | Undefined]:
        """Have the model make something of each sample, and yield the products in order.

        A product is what the plan returns, e.g. a question with its answer. It is
        ``Failed`` or ``Undefined`` where the plan made nothing. Example: of 3 chunks
        the model writes 2 questions, and one request fails: two pairs and a ``Failed``.

        Raises:
            JudgeUnavailable: If the model will answer nothing.
            KeyboardInterrupt: If the run was interrupted.
        """

        # The engine carries out metrics, with their limits, store and batches. So the
        # plan becomes a metric: its score says nothing, its evidence is the product.
        @metric
        def making(sample: Sample) -> Generator[Any, Any, Outcome]:
            """Run the plan as a metric; the evidence of its score is the product."""
            product = yield from plan(sample)
            if isinstance(product, (Failed, Undefined)):
                return product
            evidence = Evidence.model_validate({"product": product})
            return Scored(metric="making", value=1, reason="", evidence=evidence)

        run = Run(making, self._judge, self._concurrency, self._store)
        for row in stream(run, samples, progress=self._progress, columns={}):
            self.usage += row.usage
            outcome = row.results.get("making")  # None if the run ended within the row
            if isinstance(outcome, Scored):
                evidence = cast("Any", outcome.evidence)
                yield evidence.product
            elif outcome is not None:
                yield outcome
        if run.interrupted:
            raise KeyboardInterrupt
        if run.stopped:
            raise JudgeUnavailable(run.stopped)

    def until(
        self,
        count: int,
        candidates: Iterable[Sample],
        plan: Making[T],
        key: Callable[[T], str],
    ) -> list[T]:
        """Make as many different products as are wanted, each from one candidate.

        Example: 5 are wanted. The first 5 candidates give 4, so a sixth is tried. A
        product is what the plan makes, e.g. a question with its answer. Where a
        candidate gives none, the reason is counted in ``left_out`` and a further
        candidate is tried. ``key`` returns the question of a product, which no other
        may share.

        Raises:
            InputError: If no candidate gave a product.
            JudgeUnavailable: If the model will answer nothing.
        """
        product_by_key: dict[str, T] = {}
        untried_candidates = iter(candidates)
        while len(product_by_key) < count:
            n_missing = count - len(product_by_key)
            batch = list(islice(untried_candidates, n_missing))
            if not batch:
                break
            for product in self.make(plan, batch):
                if isinstance(product, Failed):
                    self.left_out[product.error.type] += 1
                elif isinstance(product, Undefined):
                    self.left_out[product.code] += 1
                elif key(product) in product_by_key:
                    self.left_out["duplicate question"] += 1
                else:
                    product_by_key[key(product)] = product
        if not product_by_key:
            counts = [f"{count} {reason}" for reason, count in self.left_out.items()]
            raise InputError(
                f"{self.name} gave nothing that could be used ({', '.join(counts)}); try"
                " another model"
            )
        return list(product_by_key.values())


def ask_one(question: Question[R]) -> Generator[Any, Any, R]:
    """Ask one question within a plan, and return the first reply to it.

    If there is none, the ``JudgeError`` is raised, which ends the plan.
    """
    (answer,) = yield from ask([question])
    if isinstance(answer, NotAnswered):
        raise answer.error
    return answer.reply


def make_header(
    kind: Literal["discrete", "continuous"],
    documents: Iterable[Document],
    settings: Frozen,
    source: Iterable[str],
    maker: Maker | None,
    *prompts: str,
    origin_of_questions: Literal["written", "given"] | None = None,
) -> Header:
    """Return the header of a labelled set, which records how the set was made.

    Example: kind "discrete", source ``("faq.md",)``, seed 0, parameters ``{"top": 5,
    "take": 2, …}``, and the model that wrote the questions, if one did.

    Args:
        kind: "discrete" if a label is yes or no, "continuous" if a label is a share.
        documents: The corpus. The header of the set has its digest.
        settings: The settings that the set was made with.
        source: Names of the files.
        maker: The model that wrote texts and labels; None if no model was asked.
        prompts: The prompts. The header of the set has their digest.
        origin_of_questions: Of a discrete set, whether its questions and answers were
            "written" by the model, or "given" by the user.
    """
    parameters = settings.model_dump()
    seed = parameters.pop("seed")
    if origin_of_questions is not None:
        parameters["pairs"] = origin_of_questions  # pairs of a question and an answer
    ids_and_texts: list[str] = []
    for document in documents:
        ids_and_texts += [document.id, document.text]
    set_header = Header(
        kind=kind,
        source=tuple(source),
        corpus=digest_of(ids_and_texts),
        seed=seed,
        parameters=parameters,
    )
    if maker is None:
        return set_header
    fields_of_model = {
        "model": maker.name,
        "prompts": digest_of_prompt(*prompts, maker.language or ""),
        # how many texts the model made nothing of, by the reason
        "left_out": dict(sorted(maker.left_out.items())),
    }
    return set_header.model_copy(update=fields_of_model)

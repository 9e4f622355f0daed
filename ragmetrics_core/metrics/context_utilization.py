"""Context Utilization: are the retrieved chunks useful to arrive at the answer, and do the useful ones come first?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from ragmetrics_core.data.errors import JudgeError, MalformedReply, SettingError
from ragmetrics_core.data.evidence import JudgedChunk, JudgedChunks
from ragmetrics_core.data.frozen import Share, Silent
from ragmetrics_core.data.questions import (
    Asked,
    Bit,
    Comment,
    Grade,
    Instructions,
    NotAnswered,
    Part,
    Question,
    Split,
    Weigh,
    about,
    ask,
    cells,
    in_order,
)
from ragmetrics_core.data.sample import Context, Sample
from ragmetrics_core.metrics.average_precision import (
    average_precision,
    expected_average_precision,
    generalised_average_precision,
    ndcg,
    precisions,
    random_order,
)
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan
from ragmetrics_core.metrics.templates import checked, shipped


class Usefulness(Silent, extra="ignore"):
    """Is a chunk useful to arrive at the answer?"""

    useful: Bit
    reason: Comment = ""


class UsefulGrade(Silent, extra="ignore"):
    """How useful a chunk is: 0 (useless) to 3 (decisive)."""

    grade: Grade
    reason: Comment = ""


class _LabelledUsefulness(Silent, extra="ignore"):
    label: Comment
    useful: Bit
    reason: Comment = ""


class _LabelledGrade(Silent, extra="ignore"):
    label: Comment
    grade: Grade
    reason: Comment = ""


_EACH_ONCE = AfterValidator(lambda items, info: in_order(items, info, "chunks"))


class UsefulnessList(Silent, extra="ignore"):
    """A verdict on each of several chunks."""

    chunks: Annotated[tuple[_LabelledUsefulness, ...], _EACH_ONCE]


class GradeList(Silent, extra="ignore"):
    """A grade of each of several chunks."""

    chunks: Annotated[tuple[_LabelledGrade, ...], _EACH_ONCE]


class Useful(Question[Any]):
    """Which chunks are useful to arrive at the answer, or the reference? Parts: question, answer, chunk or chunks."""


class UtilizationEvidence(JudgedChunks, extra="ignore"):
    """Evidence of Context Utilization.

    Args:
        formula: The formula of the score, in words.
        noise_share: Share of chunks that are not useful.
        duplicates: Number of chunks identical to an earlier one.
        random_order: Average precision expected if the same verdicts stood in random order.
        lift: Score minus ``random_order``.
        ideal: Best value any order of the same verdicts reaches.
        ndcg: Normalised discounted cumulative gain, for graded relevance.
        changed_verdicts: Share of verdicts that changed when the list was shown reversed (``orders=2``).
    """

    kind: Literal["context_utilization"] = "context_utilization"
    formula: str
    noise_share: Share | None = None
    duplicates: int = 0
    random_order: Share | None = None
    lift: float | None = None
    ideal: Share | None = None
    ndcg: Share | None = None
    changed_verdicts: Share | None = None


Verdicts = Mapping[str, JudgedChunk]

_EMPTY = JudgedChunk(rank=0, useful=False, probability=0.0, grade=0, reason="The chunk is empty.")
_REPLIES: dict[tuple[bool, bool], type[BaseModel]] = {  # by graded, listwise
    (False, False): Usefulness,
    (False, True): UsefulnessList,
    (True, False): UsefulGrade,
    (True, True): GradeList,
}
_FORMULAS = {
    "binary": "average precision: sum of P@k over the ranks k of useful chunks / number of useful chunks",
    "probability": "expected average precision over independent verdicts with p(useful) of each chunk",
    "graded": "generalised average precision: sum of P@k · g_k / sum of g_k, with g = grade / 3",
}


class ContextUtilization(Metric):
    """Is each retrieved chunk useful to arrive at the answer? Average precision over the ranks.

    Several published metrics share this name and measure something else, such as the share of a context that
    the answer uses; here it is average precision, and the evidence states the formula.

    Args:
        k: Judge only the first k chunks; None judges all.
        relevance: ``binary`` verdicts; ``probability``: expectation under p(useful) of each chunk; ``graded``:
            grades 0–3 divided by 3.
        against: Judge usefulness for the ``answer``, or for the ``reference``.
        judging: ``pointwise``: one question per chunk; ``listwise``: one for all, in an order that is
            independent of rank.
        orders: 2 asks a listwise question again with the list reversed and averages both scores.
        polls: Judgements per chunk where probabilities are needed and the judge has no log-probabilities.
        template: Replaces the prompt; must hold ``{answer}`` and ``{chunk}`` (listwise ``{chunks}``).

    Returns:
        A score in [0, 1], higher is better: 1.0 if every useful chunk stands before every other; 0.0 if none
        is useful.

    Undefined when:
        Question, contexts, or the answer (or reference) are missing.

    Raises:
        SettingError: If ``orders=2`` without listwise judging, or a template lacks a placeholder.

    Source:
        Average precision: Buckley & Voorhees (2000); per-chunk usefulness judged by a model.

    Example:
        >>> from ragmetrics_core import ScriptedJudge
        >>> judge = ScriptedJudge({Useful: lambda question: {"useful": "Paris" in question["chunk"]}})
        >>> result = ContextUtilization().score(
        ...     question="Capital of France?", answer="Paris", contexts=["Wine.", "Paris."], judge=judge
        ... )
        >>> result.value
        0.5
    """

    version: ClassVar[str] = "3"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (("question",), ("contexts",), ("answer",))

    name: str = Field(default="context_utilization", min_length=1)
    k: int | None = Field(default=None, ge=1)
    relevance: Literal["binary", "probability", "graded"] = "binary"
    against: Literal["answer", "reference"] = "answer"
    judging: Literal["pointwise", "listwise"] = "pointwise"
    orders: Literal[1, 2] = 1
    polls: int = Field(default=5, ge=1)
    examples: str = ""
    template: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ContextUtilization:
        if self.orders == 2 and self.judging != "listwise":
            raise SettingError("orders=2 needs judging='listwise': a chunk judged by itself has no order")
        chunk = frozenset({"chunks" if self.judging == "listwise" else "chunk"})
        checked(self._template, required=chunk | {"answer"}, optional=frozenset({"question"}))
        return self

    @property
    def _template(self) -> str:
        scale = "graded" if self.relevance == "graded" else "binary"
        listing = "list_" if self.judging == "listwise" else ""
        return self.template if self.template is not None else shipped(f"useful_{listing}{scale}")

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """Question, contexts, and what they are judged against."""
        return (("question",), ("contexts",), (self.against,))

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings: dict[str, str] = {"against": self.against, "judging": self.judging, "relevance": self.relevance}
        if self.k is not None:
            settings["k"] = str(self.k)
        if self.orders == 2:
            settings["orders"] = "2"
        if self.relevance == "probability":
            settings["fallback"] = str(self.polls)
        return settings

    def prompts(self) -> tuple[str, ...]:
        """Template and examples."""
        return (self._template, self.examples)

    def plan(self, sample: Sample) -> Plan:
        """Ask for one verdict per distinct chunk and combine them over the ranks."""
        contexts = sample.contexts[: self.k]
        texts = list(dict.fromkeys(context.text for context in contexts if not context.blank))
        if not texts:
            return self.undefined(f"the first {self.k} contexts are blank")
        questions, shown = self._questions(sample, texts)
        replies = yield from ask(questions)
        outcomes = [self._outcome(contexts, verdicts) for verdicts in _by_text(replies, shown, self.orders)]
        if any(isinstance(reply, NotAnswered) for reply in replies):
            error = next(reply.error for reply in replies if isinstance(reply, NotAnswered))
            return self.failed(error, outcomes[0].evidence)
        return _averaged(outcomes) if self.orders == 2 else outcomes[0]

    def _questions(self, sample: Sample, texts: list[str]) -> tuple[list[Useful], list[list[str]]]:
        """The questions, and the chunks that each of them shows."""
        shown = [[text] for text in texts]
        if self.judging == "listwise":
            # An order by digest is independent of rank: a position-biased judge cannot favour early ranks.
            order = sorted(texts, key=lambda text: sha256(f"{sample.question}\0{text}".encode()).digest())
            shown = [order, order[::-1]][: self.orders]
        return [self._question(sample, tuple(chunks)) for chunks in shown], shown

    def _question(self, sample: Sample, chunks: tuple[str, ...]) -> Useful:
        listwise, graded = self.judging == "listwise", self.relevance == "graded"
        target = sample.answer if self.against == "answer" else "\n".join(sample.reference)
        chunk = {"chunks": Part("Chunk", chunks, "letters")} if listwise else {"chunk": Part("Chunk", chunks[0])}
        weigh = Weigh("useful", cell_key="label" if listwise else None, fallback_polls=self.polls)
        return Useful(
            parts={**about(sample), "answer": Part("Answer", target or ""), **chunk},
            instructions=Instructions(self._template, self.examples, self.language),
            Reply=_REPLIES[graded, listwise],
            weigh=weigh if self.relevance == "probability" else None,
            split=Split(next(iter(chunk)), "grade" if graded else "useful"),
            example=_examples,
        )

    def _outcome(self, contexts: Sequence[Context], verdicts: Verdicts) -> Outcome:
        """Combine the verdicts of distinct texts over the ranks of one sample."""
        found = [_EMPTY if context.blank else verdicts.get(context.text) for context in contexts]
        known = [verdict for verdict in found if verdict is not None]
        if len(known) < len(found):
            evidence = UtilizationEvidence(formula=_FORMULAS[self.relevance], chunks=_chunks(contexts, found))
            return self.failed(MalformedReply("the judge gave no verdict for a chunk"), evidence)
        try:
            value, extra = self._value(known)
        except JudgeError as error:
            return self.failed(error)
        useful = sum(bool(verdict.useful) for verdict in known)
        evidence = UtilizationEvidence(
            formula=_FORMULAS[self.relevance],
            chunks=_chunks(contexts, found),
            useful=useful,
            noise_share=(len(known) - useful) / len(known),
            duplicates=len(contexts) - len({context.text for context in contexts}),
            **extra,
        )
        return self.scored(value, _reason(value, useful, known), evidence)

    def _value(self, verdicts: Sequence[JudgedChunk]) -> tuple[float, dict[str, float]]:
        if self.relevance == "graded":
            gains = [(verdict.grade or 0) / 3 for verdict in verdicts]
            if any(verdict.grade is None for verdict in verdicts):
                raise MalformedReply("the judge gave no grades; use relevance='binary' with this judge")
            ideal = generalised_average_precision(sorted(gains, reverse=True))
            return generalised_average_precision(gains), {"ideal": ideal, "ndcg": ndcg(gains)}
        if self.relevance == "probability":
            probabilities = [verdict.probability for verdict in verdicts if verdict.probability is not None]
            if len(probabilities) < len(verdicts):
                raise MalformedReply("the judge gave no probabilities; use relevance='binary' with this judge")
            return expected_average_precision(probabilities), {}
        useful = [bool(verdict.useful) for verdict in verdicts]
        value, baseline = average_precision(useful), random_order(len(useful), sum(useful))
        return value, {"random_order": baseline, "lift": value - baseline, "ideal": float(any(useful))}


def _by_text(replies: Sequence[Asked[Any] | NotAnswered], shown: list[list[str]], orders: int) -> list[Verdicts]:
    """Verdicts by text: one mapping, or one per order in which the list was shown."""
    answered: list[Verdicts] = [
        {} if isinstance(reply, NotAnswered) else dict(zip(texts, _verdicts(reply), strict=True))
        for reply, texts in zip(replies, shown, strict=True)
    ]
    if orders == 2:
        return answered
    return [{text: verdict for verdicts in answered for text, verdict in verdicts.items()}]


def _verdicts(asked: Asked[Any]) -> list[JudgedChunk]:
    """What the judge said of each chunk of a question."""
    return [_verdict(asked, place) for place in range(len(cells(asked.reply)))]


def _verdict(asked: Asked[Any], place: int) -> JudgedChunk:
    polls: list[Any] = [cells(reply)[place] for reply in asked.replies]
    grade = getattr(polls[0], "grade", None)
    weight = asked.weights[place] if asked.weights else None
    said = polls[0].useful if grade is None else grade > 0
    useful = said if weight is None or weight.mode in ("verdict", "lexical") else weight.p > 0.5
    tied = weight is not None and weight.p == 0.5
    agreeing = (poll.reason for poll in polls if tied or grade is not None or poll.useful == useful)
    windows = asked.windows[place] if asked.windows else 1
    return JudgedChunk(
        rank=0,
        useful=useful,
        probability=weight.p if weight else None,
        grade=grade,
        reason=next(agreeing, polls[0].reason),
        mode=weight.mode if weight else "verdict",
        windows=windows if windows > 1 else None,
    )


def _examples(question: Useful) -> tuple[Any, Any]:
    """The best verdict on each chunk, with a short and a long reason."""
    labels = question.parts["chunks"].labels if "chunks" in question.parts else ()
    verdicts = (
        {"useful": 1, "grade": 3, "reason": reason} for reason in ("It says so.", "It says what is asked. " * 4)
    )
    short, long = (
        question.read({**verdict, "chunks": [{**verdict, "label": label} for label in labels]}) for verdict in verdicts
    )
    return short, long


def _chunks(contexts: Sequence[Context], verdicts: Sequence[JudgedChunk | None]) -> tuple[JudgedChunk, ...]:
    first: dict[str, int] = {}
    shares = precisions([verdict is not None and bool(verdict.useful) for verdict in verdicts])
    complete = None not in verdicts
    entries = []
    for rank, (context, verdict, share) in enumerate(zip(contexts, verdicts, shares, strict=True), start=1):
        original = first.setdefault(context.text, rank)
        place = {
            "rank": rank,
            "id": context.id,
            "precision": float(share) if complete else None,
            "duplicate_of": None if original == rank else original,
        }
        entries.append((verdict or JudgedChunk(rank=rank)).model_copy(update=place))
    return tuple(entries)


def _reason(value: float, useful: int, verdicts: Sequence[JudgedChunk]) -> str:
    if useful == 0 and value == 0:
        return f"None of the {len(verdicts)} chunks is useful to arrive at the answer."
    ranks = [str(rank) for rank, verdict in enumerate(verdicts, start=1) if verdict.useful]
    listed = ", ".join(ranks[:10]) + (", …" if len(ranks) > 10 else "")
    return f"{useful} of {len(verdicts)} chunks useful" + (f", at rank {listed}." if ranks else ".")


def _averaged(outcomes: Sequence[Outcome]) -> Outcome:
    """Mean score of both orders, with the share of verdicts that changed."""
    first, second = outcomes
    if first.status != "scored" or second.status != "scored":
        return first if first.status != "scored" else second
    one, two = first.evidence, second.evidence
    assert isinstance(one, UtilizationEvidence)  # noqa: S101  # made by _outcome a few lines above
    assert isinstance(two, UtilizationEvidence)  # noqa: S101  # likewise
    changed = [a.useful != b.useful for a, b in zip(one.chunks, two.chunks, strict=True)]
    value = (first.value + second.value) / 2
    share = sum(changed) / len(changed)
    update = {"changed_verdicts": share, "lift": None if one.random_order is None else value - one.random_order}
    reason = f"{first.reason} Mean of two orders; {sum(changed)} of {len(changed)} verdicts changed with the order."
    return first.model_copy(update={"value": value, "reason": reason, "evidence": one.model_copy(update=update)})

"""Context Utilization: are the retrieved chunks useful, and do the useful come first?

A chunk is useful if it helps to arrive at the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Generic, Literal

from pydantic import BaseModel, Field

from ragmetrics_core.data import (
    Context,
    JudgedChunk,
    JudgedChunks,
    MalformedReply,
    Sample,
    Share,
    Silent,
)
from ragmetrics_core.data.asking import (
    Instructions,
    Part,
    Question,
    Split,
    Weigh,
    about,
    ask,
)
from ragmetrics_core.data.replies import (
    Asked,
    Bit,
    Comment,
    EachOnce,
    Item,
    Labelled,
    NotAnswered,
    Points,
    verdicts_of,
)
from ragmetrics_core.metrics import average_precision as ap
from ragmetrics_core.metrics.ledger_calls import call_table, originals
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan, unanswered
from ragmetrics_core.metrics.templates import prompt


class Usefulness(Silent, extra="ignore"):
    """Is a chunk useful to arrive at the answer?"""

    useful: Bit
    reason: Comment = ""


class UsefulGrade(Silent, extra="ignore"):
    """How useful a chunk is: 0 (useless) to 3 (decisive)."""

    grade: Points
    reason: Comment = ""


class _LabelledUsefulness(Usefulness, Labelled): ...


class _LabelledGrade(UsefulGrade, Labelled): ...


class EachChunk(Silent, Generic[Item], extra="ignore"):
    """A verdict on each of several chunks, or a grade of each."""

    chunks: EachOnce[Item]


class Useful(Question[Any]):
    """Which chunks are useful to arrive at the answer, or the reference?

    Parts: question, answer, chunk or chunks.
    """


class UtilizationEvidence(JudgedChunks, extra="ignore"):
    """Evidence of Context Utilization."""

    kind: Literal["context_utilization"] = "context_utilization"
    formula: str = Field(description="The formula of the score, in words.")
    noise_share: Share | None = Field(
        None, description="Share of chunks that are not useful."
    )
    duplicates: int = Field(
        0, description="Number of chunks identical to an earlier one."
    )
    random_order: Share | None = Field(
        None, description="Average precision expected of the verdicts in random order."
    )
    lift: float | None = Field(None, description="Score minus ``random_order``.")
    ideal: Share | None = Field(
        None, description="Best value any order of the same verdicts reaches."
    )
    ndcg: Share | None = Field(
        None, description="Normalised discounted cumulative gain, for graded relevance."
    )


_UNKNOWN = JudgedChunk.model_construct(rank=0)
_EMPTY = _UNKNOWN.model_copy(
    update={
        "useful": False,
        "probability": 0.0,
        "grade": 0,
        "reason": "The chunk is empty.",
    }
)
_REPLIES: dict[str, type[BaseModel]] = {
    "useful_binary": Usefulness,
    "useful_list_binary": EachChunk[_LabelledUsefulness],
    "useful_graded": UsefulGrade,
    "useful_list_graded": EachChunk[_LabelledGrade],
}
_FORMULAS = {
    "binary": (
        "average precision: sum of P@k over the ranks k of useful chunks / number of"
        " useful chunks"
    ),
    "probability": (
        "expected average precision over independent verdicts with p(useful) of each"
        " chunk"
    ),
    "graded": (
        "generalised average precision: sum of P@k · g_k / sum of g_k, with g ="
        " grade / 3"
    ),
}


class ContextUtilization(Metric):
    """Is each retrieved chunk useful to arrive at the answer?

    Average precision over the ranks.

    Several published metrics share this name and measure something else, such as the
    share of a context that the answer uses; here it is average precision, and the
    evidence states the formula.

    Returns:
        A score in [0, 1], higher is better: 1.0 if every useful chunk stands before
        every other; 0.0 if none is useful.

    Undefined when:
        Question, contexts, or the answer (or reference) are missing.

    Raises:
        SettingError: If a template lacks a placeholder.

    Source:
        Average precision: Buckley & Voorhees (2000); per-chunk usefulness judged by a
        model.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> judge = ScriptedJudge({Useful: lambda question: {"useful": "Paris" in question["chunk"]}})
        >>> result = ContextUtilization().score(
        ...     question="Capital of France?", answer="Paris", contexts=["Wine.", "Paris."], judge=judge
        ... )
        >>> result.value
        0.5
    """

    version: ClassVar[str] = "3"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("question",),
        ("contexts",),
        ("answer",),
    )

    name: str = Field(default="context_utilization", min_length=1)
    k: int | None = Field(
        None, ge=1, description="Judge only the first k chunks; None judges all."
    )
    relevance: Literal["binary", "probability", "graded"] = Field(
        "binary",
        description=(
            "Verdicts; expectation under p(useful) of each chunk; or grades 0–3 divided"
            " by 3."
        ),
    )
    against: Literal["answer", "reference"] = Field(
        "answer", description="What chunks are useful for."
    )
    judging: Literal["pointwise", "listwise"] = Field(
        "pointwise",
        description=(
            "One question per chunk; or one for all, in an order independent of rank."
        ),
    )
    polls: int = Field(
        5,
        ge=1,
        description="Judgements per chunk for probabilities without log-probabilities.",
    )
    examples: str = Field("", description="Few-shot examples, written out.")
    template: str | None = Field(
        None,
        description=(
            "Replaces the prompt; must hold ``{answer}`` and ``{chunk}`` (listwise"
            " ``{chunks}``)."
        ),
    )

    @property
    def _form(self) -> str:
        """Name of the prompt, and of the reply's form."""
        kind = "useful_list" if self.judging == "listwise" else "useful"
        return f"{kind}_graded" if self.relevance == "graded" else f"{kind}_binary"

    def instructions(self) -> tuple[Instructions, ...]:
        """How chunks are judged."""
        required = "chunks answer" if self.judging == "listwise" else "chunk answer"
        return (
            prompt(
                self._form,
                self.template,
                required,
                "question",
                self.examples,
                self.language,
            ),
        )

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """Question, contexts, and what they are judged against."""
        return (("question",), ("contexts",), (self.against,))

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings: dict[str, str] = {
            "against": self.against,
            "judging": self.judging,
            "relevance": self.relevance,
        }
        settings |= {} if self.k is None else {"k": str(self.k)}
        return (
            {**settings, "fallback": str(self.polls)}
            if self.relevance == "probability"
            else settings
        )

    def plan(self, sample: Sample) -> Plan:
        """Ask for one verdict per distinct chunk and combine them over the ranks."""
        contexts = sample.contexts[: self.k]
        texts = tuple(
            dict.fromkeys(context.text for context in contexts if not context.blank)
        )
        if not texts:
            return self.undefined(f"the first {self.k} contexts are blank")
        shown: list[tuple[str, ...]] = [(text,) for text in texts]
        if self.judging == "listwise":
            shown = [_in_order_of_digest(sample, texts)]
        replies = yield from ask([self._question(sample, chunks) for chunks in shown])
        verdicts: dict[str, JudgedChunk] = {}
        for reply, chunks in zip(replies, shown, strict=True):
            verdicts.update(_verdicts(reply, chunks))
        evidence = self._evidence(contexts, verdicts)
        if error := unanswered(replies):
            return self.failed(error, evidence)
        return self._outcome(sample, evidence)

    def _question(self, sample: Sample, chunks: tuple[str, ...]) -> Useful:
        listwise = self.judging == "listwise"
        target = (
            sample.answer if self.against == "answer" else "\n".join(sample.reference)
        )
        chunk = (
            {"chunks": Part("Chunk", chunks, "letters")}
            if listwise
            else {"chunk": Part("Chunk", chunks[0])}
        )
        weigh = Weigh(
            "useful", cell_key="label" if listwise else None, fallback_polls=self.polls
        )
        return Useful(
            parts={**about(sample), "answer": Part("Answer", target or ""), **chunk},
            instructions=self.instructions()[0],
            Reply=_REPLIES[self._form],
            weigh=weigh if self.relevance == "probability" else None,
            split=Split(
                next(iter(chunk)), "grade" if self.relevance == "graded" else "useful"
            ),
            example=_examples,
        )

    def _evidence(
        self, contexts: Sequence[Context], verdicts: Mapping[str, JudgedChunk]
    ) -> UtilizationEvidence:
        """The verdicts of distinct texts at the ranks of one sample."""
        found = [
            _EMPTY if one.blank else verdicts.get(one.text, _UNKNOWN)
            for one in contexts
        ]
        complete = _UNKNOWN not in found
        shares = ap.precisions([bool(verdict.useful) for verdict in found])
        chunks, first = [], originals(contexts)
        for at, (context, verdict, share) in enumerate(
            zip(contexts, found, shares, strict=True)
        ):
            place = {
                "rank": at + 1,
                "id": context.id,
                "precision": float(share) if complete else None,
            }
            place["duplicate_of"] = None if first[at] == at else first[at] + 1
            chunks.append(verdict.model_copy(update=place))
        copies = len(contexts) - len(set(first))
        return UtilizationEvidence(
            formula=_FORMULAS[self.relevance], chunks=tuple(chunks), duplicates=copies
        )

    def _outcome(self, sample: Sample, evidence: UtilizationEvidence) -> Outcome:
        """The score of complete verdicts, and what stands beside it."""
        chunks = evidence.chunks
        ranks = [str(chunk.rank) for chunk in chunks if chunk.useful]
        noise = (len(chunks) - len(ranks)) / len(chunks)
        update: dict[str, Any] = {"useful": len(ranks), "noise_share": noise}
        score: Callable[[Sequence[Any]], float] = ap.average_precision
        said: list[Any] = [bool(chunk.useful) for chunk in chunks]
        if self.relevance == "graded":
            score, said = (
                ap.generalised_average_precision,
                [it.grade / 3 for it in chunks if it.grade is not None],
            )
            update |= {
                "ideal": score(sorted(said, reverse=True)),
                "ndcg": ap.ndcg(said),
            }
        elif self.relevance == "probability":
            score, said = (
                ap.expected_average_precision,
                [it.probability for it in chunks if it.probability is not None],
            )
        if len(said) < len(chunks):
            lacking = "grades" if self.relevance == "graded" else "probabilities"
            return self.failed(
                MalformedReply(
                    f"the judge gave no {lacking}; use relevance='binary' with this"
                    " judge"
                )
            )
        value = score(said)
        if self.relevance == "binary":
            baseline = ap.random_order(len(chunks), len(ranks))
            update |= {
                "random_order": baseline,
                "lift": value - baseline,
                "ideal": float(any(said)),
            }
        if sample.ledger is not None:
            useful = [bool(chunk.useful) for chunk in chunks]
            contexts = sample.contexts[: self.k]
            update["ledger"] = call_table(sample, contexts, useful)
        reason = f"None of the {len(chunks)} chunks is useful to arrive at the answer."
        if ranks or value:
            listed = (
                f", at rank {', '.join(ranks[:10])}{', …' if len(ranks) > 10 else ''}"
                if ranks
                else ""
            )
            reason = f"{len(ranks)} of {len(chunks)} chunks useful{listed}."
        return self.scored(value, reason, evidence.model_copy(update=update))


def _in_order_of_digest(sample: Sample, texts: Sequence[str]) -> tuple[str, ...]:
    """The texts in an order independent of rank.

    So a judge that favours places cannot favour early ranks.
    """

    def digest(text: str) -> bytes:
        return sha256(f"{sample.question}\0{text}".encode()).digest()

    return tuple(sorted(texts, key=digest))


def _verdicts(
    asked: Asked[Any] | NotAnswered, chunks: Sequence[str]
) -> Iterator[tuple[str, JudgedChunk]]:
    """What the judge said of each chunk of a question; nothing if it did not answer."""
    if isinstance(asked, NotAnswered):
        return
    columns: Any = zip(
        chunks, *(verdicts_of(reply) for reply in asked.replies), strict=True
    )
    for place, (text, *polls) in enumerate(columns):
        grade = getattr(polls[0], "grade", None)
        weight = asked.weights[place] if asked.weights else None
        said = polls[0].useful if grade is None else grade > 0
        useful = (
            said
            if weight is None or weight.mode in ("verdict", "lexical")
            else weight.p > 0.5
        )
        # Polls that are tied are explained from the side that counts, which is "not
        # useful".
        agreeing = (
            poll.reason for poll in polls if grade is not None or poll.useful == useful
        )
        windows = asked.windows[place] if asked.windows else 1
        judged = JudgedChunk(
            rank=0,
            useful=useful,
            probability=weight.p if weight else None,
            grade=grade,
            reason=next(agreeing, polls[0].reason),
            mode=weight.mode if weight else "verdict",
            windows=windows if windows > 1 else None,
        )
        yield text, judged


def _examples(question: Useful) -> tuple[Any, Any]:
    """The best verdict on each chunk, with a short and a long reason."""
    labels = question.parts["chunks"].labels if "chunks" in question.parts else ()
    best = (
        {"useful": 1, "grade": 3, "reason": reason}
        for reason in ("It says so.", "It says what is asked. " * 4)
    )
    short, long = (
        question.read({**one, "chunks": [{**one, "label": label} for label in labels]})
        for one in best
    )
    return short, long

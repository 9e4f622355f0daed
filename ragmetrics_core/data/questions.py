"""Questions that metrics ask and the replies that judges give: the seam between the two rooms.

A question is typed by its reply: ``Question[R]`` is answered with ``R`` or ``NotAnswered``. Questions carry
the sample's texts and the instructions (template, examples, language); how they are asked is the judge's
business.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar

from ragmetrics_core.data.errors import JudgeError
from ragmetrics_core.data.frozen import redacted
from ragmetrics_core.data.sample import Turn
from ragmetrics_core.data.usage import Usage

R = TypeVar("R")

Mode = Literal["logprobs", "polls", "conditional", "sequential", "verdict", "lexical"]
"""How a probability was obtained: from log-probabilities of the label token, as the share over polls, after a
reasoning (conditional on it), after other cells of the same reply (sequential), not at all (the bare verdict),
or from word overlap."""

PollVerdict = Literal["yes", "no", "abstains"]


class _Private:
    """Keeps texts out of reprs."""

    def __repr__(self) -> str:
        shown = (f"{f.name}={redacted(f.name, getattr(self, f.name))!r}" for f in fields(self))  # type: ignore[arg-type]  # every subclass is a dataclass
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False)
class Instructions(_Private):
    """What the judge is told.

    Args:
        template: Fixed text with ``{names}``; the part above a line ``---`` is the system message.
        examples: Few-shot examples, already written out; "" for none.
        language: Language of explanations, e.g. ``"German"``; None leaves it to the model.
    """

    template: str
    examples: str = ""
    language: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Question(_Private, Generic[R]):
    """A question to a judge.

    Args:
        instructions: What the judge is told; judges that do not read prompts ignore it.
        question: The user's question; None if unknown.
        standalone_question: The application's own rewrite of it.
        history: Earlier turns.
    """

    kind: ClassVar[str]

    instructions: Instructions
    question: str | None = None
    standalone_question: str | None = None
    history: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ChunkVerdict(_Private):
    """Is one chunk useful to arrive at the answer?

    Args:
        useful: The verdict.
        probability: p(useful) in [0, 1], None where the judge gives none.
        grade: 0 (useless) to 3 (decisive) where grades were asked for.
        reason: The judge's explanation.
        mode: How the probability was obtained.
        mass: Probability that the label tokens cover, for log-probabilities.
        windows: In how many windows a text too long for the judge was judged; None: as a whole.
    """

    useful: bool
    probability: float | None = None
    grade: int | None = None
    reason: str = ""
    mode: Mode = "verdict"
    mass: float | None = None
    windows: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Useful(Question[tuple[ChunkVerdict, ...]]):
    """Which of these chunks are useful to arrive at the answer (or reference) for this question?

    Args:
        chunks: One chunk, or with ``listwise`` several, in the order in which they are to be shown.
        answer: The answer, or the reference, that the chunks are judged against.
        listwise: All chunks in one request under neutral labels.
        scale: ``binary`` verdicts or ``graded`` 0 to 3.
        probabilities: Whether p(useful) is needed; without log-probabilities it is then polled.
        polls: How many polls stand in for missing log-probabilities.
    """

    kind: ClassVar[str] = "useful"

    chunks: tuple[str, ...]
    answer: str
    listwise: bool = False
    scale: Literal["binary", "graded"] = "binary"
    probabilities: bool = False
    polls: int = 5


@dataclass(frozen=True, slots=True, repr=False)
class SentenceSupport(_Private):
    """How far one sentence of the answer is found in the contexts, by word overlap.

    Args:
        sentence: The answer's sentence.
        context: Index of the best matching context, None if nothing matches.
        evidence: The best matching sentence of that context.
        coverage: Share of the sentence's content terms found in the contexts, in [0, 1].
        uncovered: Content terms found nowhere.
        numbers: Numbers of two or more digits found nowhere.
    """

    sentence: str
    context: int | None
    evidence: str
    coverage: float
    uncovered: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Poll(_Private):
    """One judgement whether the answer is based purely on the contexts.

    Args:
        verdict: ``yes``, ``no``, or ``abstains`` where the answer makes no claim.
        reason: The explanation, written before the verdict.
        unsupported: Claims of the answer that no context supports.
        probability: p(yes), only from deterministic judges, which are polled once.
        support: Per sentence, the evidence of a lexical judge.
    """

    verdict: PollVerdict
    reason: str = ""
    unsupported: tuple[str, ...] = ()
    probability: float | None = None
    support: tuple[SentenceSupport, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Polls(_Private):
    """The polls that were answered.

    Args:
        asked: How many were asked; 1 for a deterministic judge.
        answers: Those answered, in order.
        failures: Why the others were not.
        batched: True if one request gave several of them, so that stopping early would save nothing.
        windows: In how many windows contexts too long for the judge were judged; None: as a whole.
    """

    asked: int
    answers: tuple[Poll, ...]
    failures: tuple[JudgeError, ...] = ()
    batched: bool = False
    windows: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Adherent(Question[Polls]):
    """Is the answer based purely on the contexts?

    Args:
        contexts: Texts of the contexts.
        answer: The answer.
        polls: How many independent judgements.
        first_poll: Index of the first of them, so that later rounds get fresh replies.
        temperature: Sampling temperature.
    """

    kind: ClassVar[str] = "adherent"

    contexts: tuple[str, ...]
    answer: str
    polls: int = 1
    first_poll: int = 0
    temperature: float = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class RecallRating(_Private):
    """How well the answer matches the expected answer.

    Args:
        score: In [0, 1].
        reason: The judge's explanation.
        band: The rubric's band that the judge named; "" if it named none.
    """

    score: float
    reason: str = ""
    band: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class RateRecall(Question[RecallRating]):
    """How accurately does the answer match the expected answer, in the light of the contexts?

    Args:
        contexts: Texts of the contexts; () to rate against the reference alone.
        answer: The answer.
        reference: The expected answer.
        bands: Name, lower and upper bound of each band of the rubric, bounds included.
    """

    kind: ClassVar[str] = "rate_recall"

    contexts: tuple[str, ...]
    answer: str
    reference: str
    bands: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ExtractFacts(Question[tuple[str, ...]]):
    """Which distinct facts does the reference state?

    Args:
        reference: The golden response.
        reasoning: Chain of thought before the list ("cot") instead of directly ("io").
    """

    kind: ClassVar[str] = "extract_facts"

    reference: str
    reasoning: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class FactVerdict(_Private):
    """Is one fact fully discussed in one context?

    Args:
        probability: p(1) / (p(0) + p(1)) in [0, 1]; covered iff > 0.5.
        mode: How the probability was obtained.
        mass: Probability that the two label tokens cover, for log-probabilities.
        reason: The judge's explanation, where it gives one.
        windows: In how many windows a context too long for the judge was judged; None: as a whole.
    """

    probability: float
    mode: Mode = "verdict"
    mass: float | None = None
    reason: str = ""
    windows: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class FactInContext(Question[tuple[FactVerdict, ...]]):
    """Are these facts fully discussed in this context? One verdict per fact.

    Args:
        context: Text of the context.
        facts: One fact, or with ``together`` several in one request.
        together: All facts in one request; cells then depend on earlier cells.
        polls: How many polls stand in for missing log-probabilities.
    """

    kind: ClassVar[str] = "fact_in_context"

    context: str
    facts: tuple[str, ...]
    together: bool = False
    polls: int = 3


@dataclass(frozen=True, slots=True, repr=False)
class Sufficiency(_Private):
    """Could the question have been answered?

    Args:
        sufficient: True if the contexts hold what the question asks for.
        on_question: True if the answer answers the question that was asked.
        reason: The judge's explanation.
    """

    sufficient: bool
    on_question: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class Sufficient(Question[Sufficiency]):
    """Can the question be answered from these contexts, and does the answer address it?

    Args:
        contexts: Texts of the contexts.
        answer: The answer.
    """

    kind: ClassVar[str] = "sufficient"

    contexts: tuple[str, ...]
    answer: str


@dataclass(frozen=True, slots=True, repr=False)
class NotAnswered(_Private):
    """A question that the judge did not answer, and why."""

    error: JudgeError


@dataclass(frozen=True, slots=True, repr=False)
class Answer(_Private, Generic[R]):
    """What a judge returns for a question: the reply, or why there is none, and what it cost."""

    reply: R | NotAnswered
    usage: Usage = field(default_factory=Usage)


Batch = tuple[Question[Any], ...]
Replies = tuple[Any, ...]


def ask(questions: Sequence[Question[R]]) -> Generator[Batch, Replies, tuple[R | NotAnswered, ...]]:
    """Ask a batch of questions from within a metric's plan.

    Args:
        questions: Questions of one type; they may be answered in any order, at the same time.

    Returns:
        A reply or ``NotAnswered`` for each question, in order; use it with ``yield from``.
    """
    if not questions:
        return ()
    replies = yield tuple(questions)
    return replies

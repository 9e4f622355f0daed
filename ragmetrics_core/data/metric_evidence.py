"""Evidence behind a score: open to every metric, in shapes that reports understand.

A metric's own evidence is a subclass that names its ``kind``. What is read from a file
becomes the class of its kind where that is loaded, else the shape that its fields have,
else plain fields: a report needs no metric to be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, SerializeAsAny, StrictBool

from ragmetrics_core.data.frozen import Share, SilentData
from ragmetrics_core.data.replies import Comment, Mode
from ragmetrics_core.data.sample_parts import Fact
from ragmetrics_core.data.scalars import is_yes

Needs = Literal["evidence", "earlier", "user", "own", "none"]
"""What a claim rests on.

It is evidence of this turn or of an earlier one, the user's or the assistant's own
words, or nothing.
"""
CallUse = Literal["useful", "repeated", "noise", "unread", "empty", "failed"]
"""What a call was good for.

It brought the first useful context, a useful one again, none that is useful, no judged
context, or nothing; or it failed.
"""

AnsweringCase = Literal[
    "answered", "over_declined", "unbacked", "rightly_declined", "uncertain"
]
"""What an application did with a question, given what its contexts held.

With enough in the contexts it answered or declined all the same. With too little it
answered from elsewhere (``unbacked``) or rightly declined. ``uncertain`` is where the
judge could not tell whether there was enough.
"""
CASES_IN_WORDS: dict[AnsweringCase, str] = {
    "answered": "answered from contexts that were enough",
    "over_declined": "declined, though the contexts were enough",
    "unbacked": "answered from elsewhere, as the contexts were not enough",
    "rightly_declined": "declined, as the contexts were not enough",
    "uncertain": "uncertain whether the contexts were enough",
}
"""What each case means."""


class Evidence(SilentData):
    """What a score rests on: any fields.

    Attributes:
        kind: A name of the metric's own; its default makes a subclass known.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    known: ClassVar[dict[str, type[Evidence]]] = {}

    kind: str = "other"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" in cls.__annotations__:
            Evidence.known[cls.model_fields["kind"].default] = cls

    def verdicts(self) -> list[str]:
        """Return the judge's verdicts for people, a line each."""
        return []


DECLINED = "the answer declines to answer the question, or claims nothing"
"""Why a metric that judges the answer is undefined where the answer declines or claims nothing."""
NO_FACTS = "the reference states no fact"
"""Why a metric that judges by the reference is undefined where that declines."""


class JudgedChunk(SilentData, extra="ignore"):
    """One chunk's verdict.

    Attributes:
        rank: 1 for the first context.
        id: The context's own id, if it has one.
        useful: The verdict; None if the judge did not answer.
        probability: p(useful), where the judge gives one.
        precision: Share of useful ones among the different chunks up to this rank
            (P@k); None for a repeat, and where a verdict is missing.
        reason: The judge's explanation.
        duplicate_of: Rank of the identical chunk whose verdict this is.
        mode: How the probability was obtained.
        windows: In how many windows a too long text was judged; None: as a whole.
    """

    rank: int
    id: str | None = None
    useful: StrictBool | None = None
    probability: Share | None = None
    precision: Share | None = None
    reason: str = ""
    duplicate_of: int | None = None
    mode: Mode = "verdict"
    windows: int | None = None


class CallVerdict(SilentData, extra="ignore"):
    """What a call was good for.

    Attributes:
        call: Place of the call in the ledger, from 0.
        verdict: In one word.
        ranks: Ranks of the judged contexts that it brought, in its own order.
    """

    call: int
    verdict: CallUse
    ranks: tuple[int, ...] = ()


class CallTable(SilentData, extra="ignore"):
    """The calls that retrieved in this turn or brought a judged context.

    The other fields follow from the calls' verdicts.

    Attributes:
        calls: One line per call, in the ledger's order.
        wasted: Share of calls that are not useful.
        repeats: Share of items that an earlier call had brought; None of none.
        first_useful: Number of the first useful call, from 1: late evidence.
        last_useful: Number of the last; calls behind it searched on after it.
        call_ap: Mean average precision inside the calls with a useful context.
    """

    calls: tuple[CallVerdict, ...]
    wasted: Share
    repeats: Share | None
    first_useful: int | None
    last_useful: int | None
    call_ap: Share | None


class JudgedChunks(Evidence):
    """Evidence with a verdict on each chunk.

    Attributes:
        chunks: One entry per chunk, in rank order.
        useful: Number of useful chunks.
        ledger: The calls, where a ledger names them.
    """

    chunks: tuple[JudgedChunk, ...]
    useful: int | None = None
    ledger: CallTable | None = None

    @property
    def useful_known(self) -> int | None:
        """Number of useful chunks, also where the score tells none.

        None if no verdict is known.
        """
        verdicts = [chunk.useful for chunk in self.chunks if chunk.useful is not None]
        return sum(verdicts) if self.useful is None and verdicts else self.useful

    def verdicts(self) -> list[str]:
        """Return a line for each chunk: is it useful, how probably, and why."""
        words = {True: "useful", False: "not useful", None: "not judged"}
        lines = []
        for chunk in self.chunks:
            line = f"chunk {chunk.rank}: {words[chunk.useful]}"
            if chunk.probability is not None:
                line += f", {chunk.probability:.2f}"
            if chunk.reason:
                line += f" ({chunk.reason})"
            lines.append(line)
        return lines


class Claim(SilentData, extra="ignore"):
    """A claim of the answer, and what it needs."""

    claim: Comment
    needs: Annotated[
        Needs,
        BeforeValidator(lambda it: it.strip().lower() if isinstance(it, str) else it),
    ]


class Grounds(SilentData, extra="ignore"):
    """What the claims of an answer rest on.

    That may be more than the evidence of its turn.

    Attributes:
        claims: Per answered poll, each claim with what it needs.
        shares: Share of claims by label, mean over polls with any.
        kept: Items of earlier turns: shown, and known whether shown.
        note: Why claims are not labelled.
    """

    claims: tuple[tuple[Claim, ...], ...] = ()
    shares: dict[Needs, Share] | None = None
    kept: tuple[int, int] | None = None
    note: str = ""

    @classmethod
    def of(
        cls, claims: Sequence[tuple[Claim, ...]], kept: tuple[int, int] | None
    ) -> Grounds:
        """Return the labels of polls and their shares.

        Example: one poll labels two claims "evidence" and "own", another one claim
        "evidence": on average .75 of a poll's claims rest on evidence, .25 on own
        words.

        Args:
            claims: For each poll its claims, with what each of them needs.
            kept: Of the texts of earlier turns, how many the answering prompt still
                held, and of how many that is known.
        """
        needs_by_poll: list[list[Needs]] = []
        for poll_claims in claims:
            if poll_claims:
                needs_by_poll.append([claim.needs for claim in poll_claims])
        shares: dict[Needs, float] | None = None
        if needs_by_poll:
            shares = {}
            for label in get_args(Needs):
                shares_of_polls = [
                    needs.count(label) / len(needs) for needs in needs_by_poll
                ]
                shares[label] = fmean(shares_of_polls)
        return cls(claims=tuple(claims), shares=shares, kept=kept)


class Polled(Evidence):
    """Evidence of a score that is a share of polls.

    Attributes:
        asked: Polls asked; 1 for a deterministic judge.
        declined: Whether the answer declines; None: not known.
        repeatability: Wilson interval over polls: no probability of being right; None:
            deterministic judge.
        ledger: Where an answer may rest on earlier turns.
    """

    asked: int
    declined: bool | None = None
    repeatability: tuple[Share, Share] | None = None
    ledger: Grounds | None = None


class Cell(SilentData, extra="ignore"):
    """One fact × context: the probability that the context fully discusses the fact.

    Attributes:
        probability: In [0, 1]; None if the judge did not answer.
        mode: How it was obtained.
        mass: Probability that the label tokens cover, for log-probabilities.
        reason: The judge's explanation, where it gives one.
        windows: In how many windows a too long text was judged; None: as a whole.
    """

    probability: Share | None
    mode: Mode = "verdict"
    mass: float | None = None
    reason: str = ""
    windows: int | None = None

    @property
    def covered(self) -> bool:
        """True if the probability is above one half."""
        return self.probability is not None and is_yes(self.probability)


class CallGain(SilentData, extra="ignore"):
    """What one call of the ledger adds to the facts covered.

    Attributes:
        call: Place of the call in the ledger, from 0.
        alone: Value over the contexts that it brought.
        gain: What it adds to the value over all before it.
        total: Value over its contexts and all before; that of the last call is the
            score.
    """

    call: int
    alone: Share
    gain: float
    total: Share


def _drop_gone_fields(facts: Any) -> Any:
    """Drop from an earlier file's facts the fields that are gone since."""
    if not isinstance(facts, (list, tuple)):
        return facts
    known_facts: list[Any] = []
    for fact in facts:
        if isinstance(fact, Mapping):
            fact = {name: fact[name] for name in Fact.model_fields if name in fact}
        known_facts.append(fact)
    return known_facts


class FactMatrix(Evidence):
    """Evidence with a probability for each fact in each context.

    Attributes:
        facts: The facts, in order.
        cells: One row per fact, one column per context.
        contexts_value: Value over the contexts shown, where more was judged.
        ledger: The curve by call of a ledger.
    """

    facts: Annotated[tuple[Fact, ...], BeforeValidator(_drop_gone_fields)]
    cells: tuple[tuple[Cell, ...], ...]
    contexts_value: Share | None = None
    ledger: tuple[CallGain, ...] | None = None

    def verdicts(self) -> list[str]:
        """Return a line for each fact: the context that most probably holds it."""
        lines = []
        for number, cells in enumerate(self.cells, 1):
            chances = [cell.probability or 0.0 for cell in cells]
            highest = max(chances, default=0.0)
            place = "in no context"
            if is_yes(highest):
                place = f"in context {chances.index(highest) + 1}"
            lines.append(f"fact {number}: {place}, {highest:.2f}")
        return lines


class Sufficed(Evidence):
    """Evidence whether the contexts were enough, and what was done with them.

    Attributes:
        sufficient: Whether the question can be answered from the contexts alone.
        declined: Whether the answer declines; None if that is not known.
        case: Both together; None if it is not known what was answered.
    """

    sufficient: StrictBool
    declined: StrictBool | None = None
    case: AnsweringCase | None = None


_FIELDS_BY_SHAPE: dict[type[Evidence], tuple[str, ...]] = {
    JudgedChunks: ("chunks",),
    FactMatrix: ("facts", "cells"),
    Polled: ("asked", "repeatability"),
    Sufficed: ("sufficient", "declined", "case"),
}


def _evidence_of_kind(value: Any) -> Any:
    """Return evidence from its fields.

    It gets the class of its kind, else the shape that it has.
    """
    if not isinstance(value, Mapping):
        return value
    shapes = [
        shape for shape, names in _FIELDS_BY_SHAPE.items() if value.keys() >= set(names)
    ]
    shape = shapes[0] if shapes else Evidence
    return Evidence.known.get(str(value.get("kind")), shape).model_validate(value)


AnyEvidence = Annotated[SerializeAsAny[Evidence], BeforeValidator(_evidence_of_kind)]

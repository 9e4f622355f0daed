"""Where a row went wrong: one table of rules over what was judged.

The model has three stages: search, prompt and answer. A rule names a stage only where the
verdicts leave no other; else the fault has none. A score that another fault has spoilt is
not read: what is useful is judged against the answer, so it says nothing of the search
where the answer is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from ragmetrics_core.data import (
    EMBEDDED,
    FactMatrix,
    Failed,
    JudgedChunks,
    Sample,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.data.errors import MetricCrashed, ScoreOutOfRange
from ragmetrics_core.data.metric_evidence import Sufficed
from ragmetrics_core.data.sample import lacks_context
from ragmetrics_core.data.scalars import is_yes

Stage = Literal["search", "prompt", "answer"]
STAGES: tuple[Stage, ...] = ("search", "prompt", "answer")

Kind = Literal["fault", "fine", "unjudged"]
"""Whether something went wrong, nothing did, or nobody can say."""

# the metrics that score no answer which they find to decline
_SCORE_NO_DECLINING = ("context_adherence", "context_utilization", "answer_relevance")
_PARTIAL = 0.35  # the lowest score of the rubric's band of this name
_ERRORS_OF_METRICS = (MetricCrashed.__name__, ScoreOutOfRange.__name__)
_SUFFICIENT_BY_CAUSE = {"reasoning_error": True, "insufficient_context": False}


class Diagnosis(NamedTuple):
    """What became of a row.

    Attributes:
        rule: The rule that holds, in a word or three, e.g. "made up".
        stage: Where it went wrong; None where nothing did, or where nobody can say.
        kind: Whether it is a fault.
        advice: What to look at; "" where there is nothing to mend.
        ranked_low: Whether useful texts stand below useless ones.
        by_words: Whether it is a fault by a comparison of words alone.
    """

    rule: str
    stage: Stage | None
    kind: Kind
    advice: str = ""
    ranked_low: bool = False
    by_words: bool = False

    @property
    def name(self) -> str:
        """The rule as people read it: "made up", and by words alone "made up?"."""
        return f"{self.rule}?" if self.by_words else self.rule


class Judged(NamedTuple):
    """What the verdicts on a row say; None everywhere for what nobody judged.

    Attributes:
        searched: Whether a search ran.
        found: Whether anything was retrieved.
        found_holds: Whether what was found holds the answer to the question: all of its
            facts, or none. What was shown was found.
        shown_holds: Whether what the model was shown holds it, likewise.
        lost_facts: Whether what was found holds all facts, and what was shown fewer.
        all_shown: Whether the model was shown all that was retrieved.
        declined: Whether the answer declines.
        adherent: Whether the answer keeps to what was shown.
        expected: Whether the answer is the expected one.
        partial: Whether it is so in part.
        on_question: Whether it addresses the question.
        ranked_low: Whether useful texts stand below useless ones.
        low: The first metric whose score is a no; "" if none is.
        unsure: Whether the judge calls any of its scores uncertain, or decides nothing
            in the row's language.
        by_words: Whether all scores come from a comparison of words.
    """

    searched: bool | None
    found: bool | None
    found_holds: bool | None
    shown_holds: bool | None
    lost_facts: bool
    all_shown: bool | None
    declined: bool | None
    adherent: bool | None
    expected: bool | None
    partial: bool
    on_question: bool | None
    ranked_low: bool
    low: str
    unsure: bool
    by_words: bool

    @property
    def is_good(self) -> bool:
        """Whether the answer was judged, and nothing speaks against it."""
        verdicts = (self.adherent, self.expected)
        return True in verdicts and False not in verdicts

    @property
    def is_wrong(self) -> bool:
        """Whether the answer does not keep to the text, or is not the expected one."""
        return self.adherent is False or self.expected is False

    @property
    def is_unfound(self) -> bool:
        """Whether no text that was found holds what the model was not shown."""
        return self.found_holds is False or self.all_shown is True

    @property
    def is_unjudged(self) -> bool:
        """Whether nobody judged the answer."""
        return self.adherent is None and self.expected is None


class Rule(NamedTuple):
    """One line of the table: the first rule that holds is the diagnosis.

    Attributes:
        name: What became of the row.
        holds: Whether it did.
        advice: What to look at.
        stage: Where it went wrong.
        kind: Whether it is a fault.
        is_stage_known: Whether the verdicts leave no other stage.
        advice_without_stage: What would tell the stage.
        is_judged: Whether it rests on a judge's verdicts, and not on the record alone.
    """

    name: str
    holds: Callable[[Judged], bool]
    advice: str
    stage: Stage | None = None
    kind: Kind = "fault"
    is_stage_known: Callable[[Judged], bool] = lambda _: True
    advice_without_stage: str = ""
    is_judged: bool = True

    def diagnosis(self, row: Judged) -> Diagnosis:
        """Say what became of a row for which the rule holds."""
        is_stage_known = self.is_stage_known(row)
        return Diagnosis(
            self.name,
            self.stage if is_stage_known else None,
            self.kind,
            self.advice if is_stage_known else self.advice_without_stage,
            row.ranked_low,
            by_words=row.by_words and self.is_judged and self.kind == "fault",
        )


_WHICH_STAGE = (
    "A reference, or ContextSufficiency, would tell whether the text holds it."
)


def _of_answer(name: str, holds: Callable[[Judged], bool], advice: str) -> Rule:
    """A fault of the answer, if the text holds what was wanted; else of unknown stage."""
    return Rule(
        name,
        holds,
        advice,
        "answer",
        is_stage_known=lambda row: row.shown_holds is True,
        advice_without_stage=_WHICH_STAGE,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "did not search",
        lambda row: row.searched is False and row.declined is not True,
        "Let the application search before it answers.",
        "search",
        is_judged=False,
    ),
    Rule(
        "nothing retrieved",
        lambda row: row.found is False,
        "Look for filters or thresholds that empty the list.",
        "search",
        is_judged=False,
    ),
    Rule(
        "dropped",
        lambda row: (
            row.lost_facts
            and not row.is_good
            and (row.shown_holds is False or row.adherent is True)
        ),
        "Look at what stands between search and prompt: rerankers, filters, limits.",
        "prompt",
    ),
    Rule(
        "declined wrongly",
        lambda row: row.declined is True and row.shown_holds is True,
        "Look at what your instructions say about declining; try another model.",
        "answer",
    ),
    Rule(
        "declined rightly",
        lambda row: row.declined is True and row.shown_holds is False,
        "",
        kind="fine",
    ),
    Rule("declined", lambda row: row.declined is True, _WHICH_STAGE, kind="unjudged"),
    Rule(
        "not in the text",
        lambda row: (
            row.shown_holds is False
            and (row.is_wrong or (row.is_unjudged and row.is_unfound))
        ),
        "Check whether the document is in your index; if not, add it, else fix the"
        " search.",
        "search",
        is_stage_known=lambda row: row.is_unfound,
        advice_without_stage=(
            "What was retrieved holds it or not: a reference would tell."
        ),
    ),
    _of_answer(
        "made up",
        lambda row: row.adherent is False,
        "Instruct the model to keep to the text, or try a stronger one.",
    ),
    _of_answer(
        "partial",
        lambda row: row.partial,
        "Instruct the model to answer each part of the question, or try a stronger one.",
    ),
    _of_answer(
        "not as expected",
        lambda row: row.expected is False,
        "Say in the prompt what an answer is to hold, or try a stronger model.",
    ),
    Rule(
        "off the question",
        lambda row: row.on_question is False,
        "Check how the question reaches the model.",
        "answer",
    ),
    Rule(
        "unclear",
        lambda row: bool(row.low) and not row.is_good,
        "Open the row; a reference, or ContextAdherence, would tell more.",
    ),
    Rule(
        "unsure",
        lambda row: row.unsure and row.adherent is not True,
        "Read the unsure rows, or let a stronger model judge.",
        kind="unjudged",
    ),
    Rule("right anyway", lambda row: bool(row.low), "", kind="fine"),
)
"""The rules, in the order in which they are tried."""


def _unjudged(rule: str, advice: str) -> Diagnosis:
    """What became of a row of which nobody can say whether it has a fault."""
    return Diagnosis(rule, None, "unjudged", advice)


NO_FAULT = Diagnosis("no fault found", None, "fine")
_BAD_ROW = _unjudged("unreadable", "Mend the row of the table.")
_APPLICATION_FAILED = _unjudged("application failed", "Its run ended in an error.")
_NOT_JUDGED = _unjudged(
    "not judged", "Run again; if a limit ended the run, raise it before."
)
_JUDGE_FAILED = _unjudged(
    "judge failed", "Check the judge's model, key, address and limits, and run again."
)
_METRIC_FAILED = _unjudged("metric failed", "Its code raised an error, or left [0, 1].")
NO_ANSWER = _unjudged("no answer", "The application answered nothing.")
_NOTHING_TO_JUDGE = ("no_claim", "no_citations", "no_facts")
_NO_INPUT = _unjudged("input missing", "Name the columns of what the metrics need.")


def diagnose(row: SampleResult) -> Diagnosis:
    """Say what became of a row, and at which stage it went wrong.

    Returns:
        The first rule that holds. Where none does: what kept the row from being judged,
        else "no fault found".

    Examples:
        >>> diagnose(SampleResult(index=0, sample=None, problem="no object")).name
        'unreadable'
    """
    sample = row.sample
    if sample is None or row.problem:
        return _BAD_ROW
    if sample.error is not None:
        return _APPLICATION_FAILED
    if not row.results:
        return _NOT_JUDGED
    judged = judged_on(sample, row)
    for rule in RULES:
        if rule.holds(judged):
            return rule.diagnosis(judged)

    # no rule finds a fault
    results = row.results.values()
    if lacks_wanted_answer(sample, row):
        return NO_ANSWER
    # what claims or cites nothing has no score, and no fault
    if any(isinstance(result, Scored) for result in results) or all(
        isinstance(result, Undefined) and result.code in _NOTHING_TO_JUDGE
        for result in results
    ):
        return NO_FAULT._replace(ranked_low=judged.ranked_low)
    errors = [result.error.type for result in results if isinstance(result, Failed)]
    if not errors:
        return _NO_INPUT if row.unfinished is None else _NOT_JUDGED
    if all(error in _ERRORS_OF_METRICS for error in errors):
        return _METRIC_FAILED
    return _JUDGE_FAILED


def lacks_wanted_answer(sample: Sample, row: SampleResult) -> bool:
    """Whether a row has no answer, and some metric had no score for want of its input.

    A run of the application that failed gave none.
    """
    if sample.error is not None:
        return True
    return sample.missing("answer") and _is_undefined(row, "missing")


def _is_undefined(row: SampleResult, code: str) -> bool:
    """Whether some metric has no meaning for a row, for the reason of this code."""
    return any(
        isinstance(result, Undefined) and result.code == code
        for result in row.results.values()
    )


def judged_on(sample: Sample, row: SampleResult) -> Judged:
    """Collect what the verdicts of all metrics say on a row."""
    # where the judge does not know the language, no score of the row is read
    is_unread = is_foreign(row)
    scored = [one for one in row.results.values() if isinstance(one, Scored)]

    # A run that was captured did not search if it says so, and no turn before did. A
    # search that failed was one.
    is_told = sample.capture is not None and "no_search" in sample.capture.doubts
    calls = sample.ledger.calls if sample.ledger else ()
    has_failed = any(call.kind == "retrieval" and call.error for call in calls)
    did_not_search = is_told and not has_failed and sample.missing("ledger")

    # whether a search returned anything; None where that was not recorded
    found: bool | None
    if sample.retrieved is None and sample.contexts is None:
        found = False if lacks_context(sample) else None
    else:
        texts = (*(sample.retrieved or ()), *sample.known_contexts)
        found = any(not text.blank for text in texts)

    # The first score of each kind of evidence, and the first metric whose score is a no.
    # That useful texts stand far down is a note alone, no fault.
    by_kind: dict[str, Scored] = {}
    low = ""
    is_ranked_low = False
    for name, outcome in row.results.items():
        if is_unread or not isinstance(outcome, Scored):
            continue
        evidence = outcome.evidence
        if evidence is not None:
            by_kind.setdefault(evidence.kind, outcome)
        if isinstance(evidence, JudgedChunks) and evidence.useful_known:
            is_ranked_low = is_ranked_low or not is_yes(outcome.value)
        elif _verdict(outcome) is False:
            low = low or name

    found_holds, shown_holds, lost_facts = _what_texts_hold(sample, row, by_kind)
    recall = by_kind.get("context_recall")
    expected = _verdict(recall)
    return Judged(
        searched=False if did_not_search else None,
        found=found,
        found_holds=found_holds,
        shown_holds=shown_holds,
        lost_facts=lost_facts,
        all_shown=_was_all_shown(sample),
        declined=is_declined(row),
        adherent=_verdict(by_kind.get("context_adherence")),
        expected=expected,
        partial=(recall is not None and expected is False and recall.value >= _PARTIAL),
        on_question=_verdict(by_kind.get("answer_relevance")),
        ranked_low=is_ranked_low,
        low=low,
        unsure=is_unread or any(one.uncertain for one in scored),
        by_words={one.judge for one in scored} - {""} == {EMBEDDED},
    )


def _verdict(result: Scored | None) -> bool | None:
    """A score as yes or no; None without one, and where the judge calls it uncertain."""
    if result is None or result.uncertain:
        return None
    return is_yes(result.value)


def is_declined(row: SampleResult) -> bool | None:
    """Whether the answer of a row declines, by whichever metric asked that.

    None where none did, as for a metric that reads no answer, or where it failed.
    """
    if _is_undefined(row, "declined"):
        return True
    asked = False
    for result in row.results.values():
        evidence = result.evidence
        if isinstance(evidence, Sufficed):
            if evidence.declined:
                return True
            asked = asked or evidence.declined is False
        elif isinstance(result, Scored) and evidence is not None:
            asked = asked or evidence.kind in _SCORE_NO_DECLINING
    return False if asked else None


def is_foreign(row: SampleResult) -> bool:
    """Whether a row is in a language in which its judge decides nothing."""
    return _is_undefined(row, "language")


def _was_all_shown(sample: Sample) -> bool | None:
    """Whether the model was shown all that was retrieved; None if it may not have been.

    A sample that tells of contexts alone says of no others.
    """
    if sample.retrieved is None:
        return True
    shown = {context.text for context in sample.known_contexts}
    return True if all(one.text in shown for one in sample.retrieved) else None


def _what_texts_hold(
    sample: Sample, row: SampleResult, by_kind: dict[str, Scored]
) -> tuple[bool | None, bool | None, bool]:
    """Whether what was found, and what was shown, holds the answer to the question.

    The third value says whether what was found holds all facts, and what was shown fewer.

    The facts of the reference tell: all of them, or none; between them nobody knows
    whether those that the question asks for are there. A reference without facts tells
    that nothing could be found. Else whoever judged sufficiency tells, of what was shown
    alone.
    """
    if _is_undefined(row, "no_facts"):
        return None, None, False  # as of the reference "The documents do not say."
    accuracy = by_kind.get("retrieval_accuracy")
    if accuracy is None or not isinstance(accuracy.evidence, FactMatrix):
        return None, _is_sufficient(by_kind), False
    found_share: float | None = None
    if accuracy.evidence.facts and not accuracy.uncertain:
        n_held = 0
        for cells in accuracy.evidence.cells:
            n_held += any(cell.covered for cell in cells)
        found_share = n_held / len(accuracy.evidence.facts)
    found = _all_or_none(found_share)
    if found is False or lacks_context(sample):
        return found, False, found is True
    shown_share = accuracy.evidence.contexts_value
    if _was_all_shown(sample):
        shown_share = found_share
    if shown_share is None:
        return found, _is_sufficient(by_kind), False
    return found, _all_or_none(shown_share), found is True and shown_share < 1


def _all_or_none(share: float | None) -> bool | None:
    """Whether all facts are held, or none; None for some of them."""
    return {1.0: True, 0.0: False}.get(-1.0 if share is None else share)


def _is_sufficient(by_kind: dict[str, Scored]) -> bool | None:
    """Whether the question can be answered from what was shown, where anybody judged it."""
    sufficiency = by_kind.get("context_sufficiency")
    if sufficiency is not None:
        return _verdict(sufficiency)
    adherence = by_kind.get("context_adherence")
    if adherence is None or adherence.evidence is None:
        return None
    fields: dict[str, Any] = dict(adherence.evidence)
    return _SUFFICIENT_BY_CAUSE.get(str(fields.get("cause")))

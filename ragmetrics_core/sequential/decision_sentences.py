"""What a gate of a run until decided says of itself, in one sentence."""

from dataclasses import dataclass

from ragmetrics_core.reporting.gates import VERBS, UntilDecided
from ragmetrics_core.reporting.run_facts import SequentialDecision


@dataclass(frozen=True)
class GateProgress:
    """How far a run has come with one gate.

    Attributes:
        n_rows: All rows; None of an iterator, whose rows nobody has counted.
        n_judged: Rows that count.
        n_scored: Those of them that have a score.
        has_too_few_scores: Whether too few of the rows that count have a score.
        cannot_be_scored: Whether too few of all rows will have a score.
        stop_reason: Why no more rows count; "" if nothing stopped them.
        is_saving_rounded: Whether the number of calls that are saved is rounded.
        evidence_needed: The e-value that decides the gate.
    """

    n_rows: int | None
    n_judged: int
    n_scored: int
    has_too_few_scores: bool
    cannot_be_scored: bool
    stop_reason: str
    is_saving_rounded: bool
    evidence_needed: float

    @property
    def n_rows_left(self) -> int:
        """Rows without a result; 0 of an iterator."""
        return 0 if self.n_rows is None else self.n_rows - self.n_judged


def sentence_of(
    decision: SequentialDecision, progress: GateProgress, until: UntilDecided
) -> str:
    """Word a decision: what was decided, after how many rows, on which evidence."""
    claim = _claim(decision, until)
    rows = _rows_looked_at(decision, progress)
    why_undecided = _why_undecided(decision, progress, until)
    evidence = _evidence(decision, progress)
    bounds = _bounds(decision)
    confidence = f"{100 * (1 - decision.alpha):g} %"
    return (
        f"{decision.metric} {claim}; {rows}{why_undecided}, {evidence},"
        f" bounds {bounds}, each valid with {confidence} whenever one stops."
    )


def _bounds(decision: SequentialDecision) -> str:
    low, high = decision.bounds
    return f"{low:.3f}–{high:.3f}"


def _claim(decision: SequentialDecision, until: UntilDecided) -> str:
    """The verb and the number of what was decided, such as "reaches 0.8".

    With a margin: "reaches 0.8 less the margin of 0.02".
    """
    verb = VERBS[decision.outcome]
    claim = f"{verb} {decision.at_least:g}"
    if decision.outcome == "passed" and until.margin:
        return f"{claim} less the margin of {until.margin:g}"
    return claim


def _rows_looked_at(decision: SequentialDecision, progress: GateProgress) -> str:
    """Say in words how many rows it took to decide a gate, as a part of a sentence.

    Example: "decided after 40 of 100 rows (42 scored with those in flight, 120 calls
    saved)". Without a decision: "undecided after 100 of 100 rows (98 scored)".
    """
    # three parts of the sentence in words: " of 100", "98 scored", ", 120 calls saved"
    n_rows_of_run = "" if progress.n_rows is None else f" of {progress.n_rows:,}"
    n_scored = f"{progress.n_scored:,} scored"
    not_judged = _what_was_not_judged(decision, progress)
    if decision.decided_at is None:
        after = f"undecided after {progress.n_judged:,}"
        return f"{after}{n_rows_of_run} rows ({n_scored}{not_judged})"
    after = f"decided after {decision.decided_at:,}"
    # rows that were in flight at the decision get their scores all the same
    in_parentheses = f"{n_scored} with those in flight{not_judged}"
    return f"{after}{n_rows_of_run} rows ({in_parentheses})"


def _what_was_not_judged(decision: SequentialDecision, progress: GateProgress) -> str:
    """Word what was saved or left out, as ", 120 calls saved"; "" if nothing was."""
    if decision.saved:
        about = "about " if progress.is_saving_rounded else ""
        return f", {about}{decision.saved:,} calls saved"
    if progress.n_rows_left:
        return f", {progress.n_rows_left:,} without a result"
    return ""


def _why_undecided(
    decision: SequentialDecision, progress: GateProgress, until: UntilDecided
) -> str:
    if decision.decided_at is not None:
        return ""
    least = f"{100 * until.min_scored:g} %"
    if progress.cannot_be_scored:
        return (
            f", because so many have no score that {least} of all rows cannot be scored"
        )
    if progress.has_too_few_scores:
        return f", because fewer than {least} of those looked at were scored"
    if progress.stop_reason:
        return f", because {progress.stop_reason}"
    return ""


def _evidence(decision: SequentialDecision, progress: GateProgress) -> str:
    e_value = decision.e_value
    if e_value is None or e_value > 1_000:
        evidence = "over 1,000"
    else:
        evidence = f"{e_value:.3g}"
    needed = f"≥ {progress.evidence_needed:g}"
    if decision.decided_at is None:
        needed += " needed"
    return f"e-value {evidence} ({needed})"

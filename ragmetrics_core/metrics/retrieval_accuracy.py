"""Retrieval Accuracy: which share of the golden response do the contexts cover?

It is the share of the facts that the response states. The contexts are those retrieved.
"""

from collections.abc import Generator, Iterable, Sequence
from hashlib import sha256
from statistics import fmean
from typing import ClassVar, Literal, Self

from pydantic import Field

from ragmetrics_core.data import Asked, Context, Fact, JudgeError, Sample, Undefined
from ragmetrics_core.data.asking import (
    Batch,
    Instructions,
    Part,
    Replies,
    about,
    ask,
)
from ragmetrics_core.metrics import fact_matrix as matrix
from ragmetrics_core.metrics.ledger_calls import curve, originals
from ragmetrics_core.metrics.metric import Metric, Outcome, Plan, unanswered
from ragmetrics_core.metrics.templates import prompt

_POOL = 200


class RetrievalAccuracy(Metric):
    """Which share of the golden response do the retrieved contexts cover?

    Facts are taken from the reference, each fact is judged in each context, and a fact
    is covered if any context covers it (logical OR).

    Returns:
        A score in [0, 1], higher is better: the (weighted) mean over facts. Of several
        references the best counts. Where the embedded judge splits the reference
        itself, a fact counts with its highest probability. ``evidence.combine(subset)``
        gives the value of any subset of contexts without a call.

    Undefined when:
        Contexts, or both reference and facts, are missing; nothing was retrieved; the
        reference states no fact.

    Raises:
        SettingError: If a template lacks a placeholder.

    Source:
        The published retrieval accuracy evaluation: fact extraction, score 0·p(0) +
        1·p(1) from the answer token's log-probabilities, logical OR. Departure: p is
        normalised by p(0) + p(1). ``noisy_or`` departs from the OR: Pearl (1988),
        Probabilistic Reasoning in Intelligent Systems, section 4.3.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> from ragmetrics_core.metrics.fact_matrix import FactInContext
        >>> judge = ScriptedJudge({FactInContext: lambda asked: {"covered": asked["fact"] in asked["context"]}})
        >>> RetrievalAccuracy().score(facts=["a", "b"], contexts=["a.", "c."], judge=judge).value
        0.5
    """

    version: ClassVar[str] = "4"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("reference", "facts"),
        ("retrieved", "contexts"),
    )

    name: str = Field(default="retrieval_accuracy", min_length=1)
    extraction: Literal["io", "cot"] = Field(
        "io", description="Extract facts directly, or with a chain of thought."
    )
    calls: Literal["per_fact", "per_context"] = Field(
        "per_fact",
        description=(
            "One question per fact × context, as published; or per context: cells then"
            " depend."
        ),
    )
    combination: matrix.Combination = Field(
        "or", description="How a fact's cells become one number."
    )
    polls: int = Field(
        3, ge=1, description="Judgements per cell without usable log-probabilities."
    )
    controls: Literal[0, 1] = Field(
        0,
        description=(
            "1: judge a foreign context, too: the judge's false-positive floor."
        ),
    )
    control_contexts: tuple[str, ...] = Field(
        (),
        description=(
            "Contexts to take it from; by default the run's other samples. ``score``"
            " needs them given."
        ),
    )
    examples: str = Field("", description="Few-shot examples, written out.")
    template: str | None = Field(
        None,
        description=(
            "Replaces the prompt of a cell; must hold ``{context}`` and ``{fact}``"
            " (``{facts}``)."
        ),
    )
    extraction_template: str | None = Field(
        None, description="Replaces the extraction; must hold ``{reference}``."
    )

    def instructions(self) -> tuple[Instructions, ...]:
        """How a cell is judged, and how facts are extracted."""
        cell, fact = (
            ("facts_in_context", "facts")
            if self.calls == "per_context"
            else ("fact_in_context", "fact")
        )
        return (
            prompt(
                cell,
                self.template,
                f"context {fact}",
                "question",
                self.examples,
                self.language,
            ),
            prompt(
                f"facts_{self.extraction}",
                self.extraction_template,
                "reference",
                "question",
                "",
                self.language,
            ),
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores."""
        settings = {
            "extraction": self.extraction,
            "calls": self.calls,
            "fallback": str(self.polls),
        }
        return (
            settings
            if self.combination == "or"
            else {**settings, "combination": self.combination}
        )

    def gap(self, sample: Sample) -> Undefined | None:
        """Return why the metric is undefined for a sample, as for every metric.

        In addition, a retrieval that found nothing leaves nothing to judge.
        """
        if (
            sample.error is None
            and sample.retrieved is not None
            and sample.missing("retrieved")
        ):
            return self.undefined("nothing was retrieved")
        return super().gap(sample)

    @property
    def needs_others(self) -> bool:
        """True where a control is wanted and no contexts are given for it."""
        return bool(self.controls) and not self.control_contexts

    def prepare(self, samples: Sequence[Sample]) -> Self:
        """Take control contexts from other samples."""
        if not self.needs_others:
            return self
        pool = [
            sample.contexts[0].text
            for sample in samples[:_POOL]
            if not sample.missing("contexts")
        ]
        return self.model_copy(update={"control_contexts": tuple(dict.fromkeys(pool))})

    def plan(self, sample: Sample) -> Plan:
        """Extract facts where needed, judge each fact in each context, combine by fact.

        Facts are extracted where the sample brings none.
        """
        options = yield from self._facts(sample)
        if isinstance(options, JudgeError):
            return self.failed(options)
        if not any(options):
            return self.undefined("the reference states no fact", "no_facts")
        contexts = sample.retrieved if sample.retrieved is not None else sample.contexts
        facts = list(dict.fromkeys(fact.text for option in options for fact in option))
        texts = list(
            dict.fromkeys(context.text for context in contexts if not context.blank)
        )
        control = self._control(texts) if self.controls else None
        asked = [*texts, control] if control is not None else texts
        told, polls = (
            self.instructions()[0],
            None if self.calls == "per_context" else self.polls,
        )
        questions = [
            it
            for text in asked
            for it in matrix.covering(about(sample), text, facts, told, polls)
        ]
        replies = yield from ask(questions)
        grid = matrix.grid_of(replies, asked, facts)
        outcomes = [
            self._outcome(sample, option, grid, contexts)
            for option in options
            if option
        ]
        best = max(
            outcomes, key=lambda evidence: evidence.combine(range(len(contexts)))
        )
        update: dict[str, object] = {
            "matrix_calls": len(questions) // len(asked) * len(texts)
        }
        if control is not None:
            update["control"] = fmean(
                grid[control, fact.text].covered for fact in best.facts
            )
        best = best.model_copy(update=update)
        if error := unanswered(replies):
            return self.failed(error, best)
        if sample.ledger is not None:
            best = best.model_copy(
                update={"ledger": curve(sample, contexts, best.combine)}
            )
        return self._concluded(best)

    def _facts(
        self, sample: Sample
    ) -> Generator[Batch, Replies, list[tuple[Fact, ...]] | JudgeError]:
        """The sample's own facts, or those of each distinct reference."""
        if sample.facts:
            return [_distinct(sample.facts)]
        told, cot = self.instructions()[1], self.extraction == "cot"
        asked, texts = (
            {"question": Part("Question", sample.question)},
            dict.fromkeys(sample.reference),
        )
        replies = yield from ask(
            [matrix.extraction(text, told, asked, reasoning=cot) for text in texts]
        )
        if error := unanswered(replies):
            return error
        return [
            _distinct(Fact(text=text) for text in it.reply.facts)
            for it in replies
            if isinstance(it, Asked)
        ]

    def _control(self, texts: Sequence[str]) -> str | None:
        """One foreign context, chosen by digest so that equal runs choose alike.

        None if there is none.
        """
        own = set(texts)
        foreign = [
            text for text in self.control_contexts if text not in own and text.strip()
        ]
        key = "\0".join(texts)
        return min(
            foreign,
            key=lambda text: sha256(f"{key}\0{text}".encode()).digest(),
            default=None,
        )

    def _outcome(
        self,
        sample: Sample,
        option: Sequence[Fact],
        grid: matrix.Grid,
        contexts: Sequence[Context],
    ) -> matrix.AccuracyEvidence:
        rows = tuple(
            tuple(
                matrix.EMPTY if c.blank else grid[c.text, fact.text] for c in contexts
            )
            for fact in option
        )
        modes = {cell.mode for row in rows for cell in row if cell is not matrix.EMPTY}
        # Where the embedded judge split the reference itself, its soft mean is nearer
        # to people's labels.
        overlap = self.combination == "or" and not sample.facts and modes == {"lexical"}
        copied = tuple(
            None if first == at else first
            for at, first in enumerate(originals(contexts))
        )
        evidence = matrix.AccuracyEvidence(
            facts=tuple(option),
            facts_from="sample" if sample.facts else self.extraction,
            evaluated="retrieved" if sample.retrieved is not None else "contexts",
            context_ids=tuple(context.id for context in contexts),
            cells=rows,
            extraction_calls=0 if sample.facts else len(set(sample.reference)),
            combination="soft" if overlap else self.combination,
            duplicate_of=copied if self.combination == "noisy_or" else (),
        )
        update: dict[str, float] = {}
        if all(cell.probability is not None for row in rows for cell in row):
            soft = evidence.model_copy(
                update={"combination": "soft", "duplicate_of": ()}
            )
            update["soft"] = soft.combine(range(len(contexts)))
        places = {context.text: column for column, context in enumerate(contexts)}
        shown = {context.text for context in sample.contexts if not context.blank}
        if sample.retrieved is not None and shown and shown <= places.keys():
            update["contexts_value"] = evidence.combine(places[text] for text in shown)
        return evidence.model_copy(update=update)

    def _concluded(self, evidence: matrix.AccuracyEvidence) -> Outcome:
        covered = sum(any(cell.covered for cell in row) for row in evidence.cells)
        reason = (
            f"{covered} of {len(evidence.facts)} facts are covered by at least one"
            " context."
        )
        if self.combination == "noisy_or":
            reason += (
                " The score is the mean of 1 − Π(1 − p): errors in different contexts"
                " are taken as independent."
            )
        if evidence.combination == "soft":
            reason += " The score is the mean of each fact's highest probability"
            reason += (
                ", because the embedded judge split the reference itself."
                if self.combination == "or"
                else "."
            )
        if evidence.control is not None:
            reason += (
                f" In a foreign context the judge finds {evidence.control:.0%} of them."
            )
        elif self.controls:
            reason += (
                " There is no control: no context of another question was there to take"
                " it from."
            )
        return self.scored(
            evidence.combine(range(len(evidence.context_ids))), reason, evidence
        )


def _distinct(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each fact once, whatever its case, spacing and full stop."""
    found: dict[str, Fact] = {}
    for fact in facts:
        found.setdefault(" ".join(fact.text.casefold().split()).rstrip("."), fact)
    return tuple(found.values())

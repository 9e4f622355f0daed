"""Retrieval Accuracy: which share of the golden response do the contexts cover?

It is the share of the facts that the response states. The contexts are those retrieved.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, product
from typing import ClassVar, Literal

from pydantic import Field

import ragmetrics_core.metrics.fact_matrix as matrix
from ragmetrics_core.data import (
    Cell,
    Context,
    Fact,
    JudgeError,
    NotAnswered,
    QuestionNotSupported,
    Sample,
)
from ragmetrics_core.data.asking import (
    Asking,
    Instructions,
    LabelProbability,
    Part,
    Windows,
    ask,
    question_part,
)
from ragmetrics_core.data.metric_evidence import NO_FACTS
from ragmetrics_core.data.replies import failed_with, takes_words
from ragmetrics_core.data.sample_parts import distinct_texts
from ragmetrics_core.data.scalars import composed_text
from ragmetrics_core.metrics.ledger_calls import curve_by_call
from ragmetrics_core.metrics.metric import (
    Metric,
    Plan,
    error_of_unanswered,
    instructions_for_judge,
    why_contexts_are_not_whole,
)

Calls = Literal["per_fact", "per_context"]
"""A question for each fact and context, or one for all facts of a context."""


class RetrievalAccuracy(Metric):
    """Which share of the golden response do the retrieved contexts cover?

    Facts are taken from the reference, each fact is judged in each context, and a fact
    is covered if any context covers it (logical OR).

    Args:
        extraction: Extract facts directly, or with a chain of thought.
        calls: One question per fact × context, as published; or per context: cells then
            depend. A model without log-probabilities is asked per context anyway.
        polls: Judgements per cell whose token does not tell.
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces the prompt of a cell; must hold ``{context}`` and ``{fact}``
            (``{facts}``).
        extraction_template: Replaces the extraction; must hold ``{reference}``.

    Returns:
        A score in [0, 1], higher is better: the (weighted) mean over facts. Of several
        references the best counts. Where the embedded judge splits the reference
        itself, a fact counts with its highest score of words. ``evidence.combine(subset)``
        gives the value of any subset of contexts without a call.

    Undefined when:
        Contexts, or both reference and facts, are missing; nothing was retrieved; the
        reference states no fact; a fact was not found and texts were not recorded.

    Raises:
        SettingError: If a template lacks a placeholder.

    Source:
        The published retrieval accuracy evaluation: fact extraction, score 0·p(0) +
        1·p(1) from the answer token's log-probabilities, logical OR. Departure: p is
        normalised by p(0) + p(1), and a model without log-probabilities is asked once
        for each context about all facts.

    Examples:
        >>> from ragmetrics_core import ScriptedJudge
        >>> from ragmetrics_core.metrics.fact_matrix import FactInContext
        >>> judge = ScriptedJudge({FactInContext: lambda asked: {"covered": asked["fact"] in asked["context"]}})
        >>> RetrievalAccuracy().score(facts=["a", "b"], contexts=["a.", "c."], judge=judge).value
        0.5
    """

    version: ClassVar[str] = "19"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("reference", "facts"),
        ("retrieved", "contexts"),
    )

    name: str = Field(default="retrieval_accuracy", min_length=1)
    extraction: Literal["io", "cot"] = "io"
    calls: Calls = "per_fact"
    polls: int = Field(default=3, ge=1, le=1000)
    examples: str | None = None
    template: str | None = None
    extraction_template: str | None = None

    def instructions(self) -> tuple[Instructions, ...]:
        """Return how a cell is judged, and how facts are extracted."""
        on_facts = instructions_for_judge(
            f"facts_{self.extraction}",
            self.extraction_template,
            "reference",
            "question",
            language=self.language,
        )
        return self._cell_instructions(self.calls), on_facts

    def _cell_instructions(self, calls: Calls) -> Instructions:
        """How a judge is asked whether a context covers a fact, or which facts."""
        name = "fact_in_context"
        required = "context fact"  # the placeholders that a prompt must have
        if calls == "per_context":
            name = "facts_in_context"
            required = "context facts"
        return instructions_for_judge(
            name, self.template, required, "question", self.examples, self.language
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores, for the signature."""
        return {
            "extraction": self.extraction,
            "calls": self.calls,
            "fallback": str(self.polls),
        }

    def plan(self, sample: Sample) -> Plan:
        """Extract missing facts, judge each fact in each context, and score.

        A reference states 4 facts, and the contexts cover 3: .75. Of several references
        the one with the highest value counts.
        """
        contexts = _contexts_to_evaluate(sample)
        texts = distinct_texts(contexts)
        if not texts:
            evidence = None
            if sample.facts:
                # no cell, or those of blank contexts, which hold no fact
                evidence = self._evidence(sample, _distinct_facts(sample.facts), {})
            return self.scored(0.0, "Nothing was retrieved.", evidence)
        # a list of facts for each reference
        fact_lists = yield from self._facts_of_sample(sample)
        if isinstance(fact_lists, JudgeError):
            return self.failed(fact_lists)
        if not fact_lists:
            return self.undefined(NO_FACTS, "no_facts")
        all_facts = chain.from_iterable(fact_lists)
        facts = list(dict.fromkeys(fact.text for fact in all_facts))
        calls = self.calls
        replies = yield from ask(self._questions(sample, texts, facts, calls))
        # A judge that gives no probability of a single fact refuses that question. It is
        # asked about all facts of a text at once.
        is_refused = any(failed_with(reply, QuestionNotSupported) for reply in replies)
        if is_refused and calls != "per_context":
            calls = "per_context"
            replies = yield from ask(self._questions(sample, texts, facts, calls))
        # for each text and fact whether the text covers the fact
        facts_per_question = len(facts) * len(texts) // len(replies)
        cells: list[Cell] = []
        for reply in replies:
            cells += matrix.cells_of_reply(reply, facts_per_question)
        grid = dict(zip(product(texts, facts), cells, strict=True))

        candidates = [self._evidence(sample, facts, grid) for facts in fact_lists]
        evidence = max(candidates, key=_value_over_all_contexts)
        evidence = evidence.model_copy(
            update={"calls": calls, "matrix_calls": len(replies)}
        )
        if error := error_of_unanswered(replies):
            return self.failed(error, evidence)
        # Without a ledger it is not known which call returned which context. With one: a
        # first search covers 2 of 4 facts, a second one a third: gains of .5 and .25.
        if sample.ledger is not None:
            gains = curve_by_call(sample, contexts, evidence.combine)
            evidence = evidence.model_copy(update={"ledger": gains})
        value = _value_over_all_contexts(evidence)
        # a fact that was not found may stand in what was not recorded
        unread = why_contexts_are_not_whole(sample)
        if unread and not all(map(_is_covered, evidence.cells)):
            return self.undefined(unread, evidence=evidence)
        return self.scored(value, self._reason(evidence, sample), evidence)

    def _facts_of_sample(
        self, sample: Sample
    ) -> Asking[list[tuple[Fact, ...]] | JudgeError]:
        """Return the facts to look for, as a list for each distinct reference.

        The sample's own facts are one list. Else the judge extracts the facts of each
        reference: "Anna lit the lamp in 1856." may give 2 facts. A reference that
        states none has no list. Returns the error where the judge did not answer for a
        reference.
        """
        if sample.facts:
            return [_distinct_facts(sample.facts)]
        _, on_facts = self.instructions()
        replies = yield from ask(
            [
                matrix.question_for_facts(
                    reference,
                    on_facts,
                    question_part(sample),
                    reasoning=self.extraction == "cot",
                )
                for reference in dict.fromkeys(sample.reference)
            ]
        )
        fact_lists: list[tuple[Fact, ...]] = []
        for reply in replies:
            if isinstance(reply, NotAnswered):
                return reply.error
            facts = [Fact(text=text) for text in reply.reply.facts]
            if facts:
                fact_lists.append(_distinct_facts(facts))
        return fact_lists

    def _questions(
        self, sample: Sample, texts: Sequence[str], facts: Sequence[str], calls: Calls
    ) -> list[matrix.FactInContext]:
        """Build the questions that ask which facts each text covers.

        Three facts: a question about F1 to F3 for each text, or one about each fact.
        """
        about_all = calls == "per_context"
        if about_all:
            fact_parts = [{"facts": Part("Facts", tuple(facts), "lines")}]
            wanted_probability = LabelProbability(
                "covered", item_id_field="label", fallback_polls=1
            )
        else:
            fact_parts = [{"fact": Part("Fact", fact)} for fact in facts]
            # A judge that gives no probability is asked ``polls`` times instead: facts ×
            # contexts × polls. One question about all facts is the other way; a user's
            # own template has none: it may ask something else.
            wanted_probability = LabelProbability(
                "covered", fallback_polls=self.polls, needs_tokens=self.template is None
            )
        about = question_part(sample)
        instructions = self._cell_instructions(calls)
        return [
            matrix.FactInContext(
                parts={**about, "context": Part("Context", text), **fact_part},
                instructions=instructions,
                Reply=matrix.CoveredList if about_all else matrix.Covered,
                wanted_probability=wanted_probability,
                # a long context is judged in windows: a fact covered in one is covered
                if_too_long=Windows("context", "covered"),
                example={"covered": 1},
            )
            for text, fact_part in product(texts, fact_parts)
        ]

    def _evidence(
        self, sample: Sample, facts: Sequence[Fact], grid: matrix.Grid
    ) -> matrix.AccuracyEvidence:
        """Build the evidence on the facts of one reference: each fact in each context.

        A row is a fact, a column is a context: two facts and three contexts are six
        cells. A fact's cells are combined into the fact's value: by "or" it is 1 if any
        context covers the fact.

        Args:
            sample: The sample.
            facts: The facts of the one reference.
            grid: The verdicts on the facts of all references, in each text.
        """
        contexts = _contexts_to_evaluate(sample)
        rows: list[tuple[Cell, ...]] = []
        modes: set[str] = set()
        has_all_probabilities = True
        for fact in facts:
            cells = [
                matrix.EMPTY if context.blank else grid[context.text, fact.text]
                for context in contexts
            ]
            rows.append(tuple(cells))
            modes.update(cell.mode for cell in cells if cell is not matrix.EMPTY)
            if any(cell.probability is None for cell in cells):
                has_all_probabilities = False
        # where the embedded judge split the reference, the soft mean is nearer to
        # people's labels than counting
        is_soft = modes == {"lexical"} and not sample.facts
        evidence = matrix.AccuracyEvidence(
            facts=tuple(facts),
            facts_from="sample" if sample.facts else self.extraction,
            evaluated="contexts" if sample.retrieved is None else "retrieved",
            context_ids=tuple(context.id for context in contexts),
            cells=tuple(rows),
            # all references count here: the facts of each were asked for
            extraction_calls=0 if sample.facts else len(set(sample.reference)),
            combination="soft" if is_soft else "or",
        )
        # beside the score: the mean of each fact's highest probability, and the value
        # over the contexts that the application kept of what it retrieved
        further_values: dict[str, float] = {}
        if has_all_probabilities:
            soft = evidence.model_copy(update={"combination": "soft"})
            further_values["soft"] = _value_over_all_contexts(soft)
        # unknown where nobody knows what was retrieved, nothing was kept, or a part of
        # a retrieved text
        column_of = {context.text: column for column, context in enumerate(contexts)}
        kept = sample.context_texts if sample.retrieved is not None else ()
        if kept and column_of.keys() >= set(kept):
            columns = [column_of[text] for text in kept]
            further_values["contexts_value"] = evidence.combine(columns)
        return evidence.model_copy(update=further_values)

    def _reason(self, evidence: matrix.AccuracyEvidence, sample: Sample) -> str:
        """Say how many facts are covered, how they were scored, and which are in doubt."""
        n_covered = sum(_is_covered(row) for row in evidence.cells)
        reason = (
            f"{n_covered} of {len(evidence.facts)} facts are covered by at least one"
            " context."
        )
        if evidence.combination == "soft":
            reason += (
                " The score is the mean of each fact's highest score of words, because"
                " the embedded judge split the reference itself."
            )
        if evidence.calls != self.calls:
            reason += (
                " Asked once for each context, as the model gives no log-probabilities."
            )
        # a fact that the judge insisted on may be none, or told in other words
        source = "\n".join((*sample.reference, sample.question or ""))
        texts = [] if sample.facts else [fact.text for fact in evidence.facts]
        foreign = [text for text in texts if not takes_words(text, source)]
        if foreign:
            reason += f" Not in words of the reference: {'; '.join(foreign)}"
        return reason


def _value_over_all_contexts(evidence: matrix.AccuracyEvidence) -> float:
    """Compute the metric over all contexts."""
    return evidence.combine(range(len(evidence.context_ids)))


def _contexts_to_evaluate(sample: Sample) -> Sequence[Context]:
    """Return what was retrieved, and behind it what else was shown.

    A context that is a part of a retrieved text is not asked again. One that is more,
    such as the window around a sentence, is.
    """
    if sample.retrieved is None:
        return sample.known_contexts
    further = [
        context
        for context in sample.known_contexts
        if not any(context.text in found.text for found in sample.retrieved)
    ]
    return (*sample.retrieved, *further)


def _distinct_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return each fact once, whatever its case, spacing and full stop."""
    fact_by_wording: dict[str, Fact] = {}
    for fact in facts:
        wording = composed_text(fact.text).casefold().rstrip(".")
        fact_by_wording.setdefault(wording, fact)
    return tuple(fact_by_wording.values())


def _is_covered(row: Sequence[Cell]) -> bool:
    """Tell whether any context covers a fact, by its cells."""
    return any(cell.covered for cell in row)

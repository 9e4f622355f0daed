"""Context Utilization: are the retrieved chunks useful, and do the useful come first?

A chunk is useful if it helps to arrive at the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import fsum
from typing import Any, ClassVar, Generic, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from ragmetrics_core.data import (
    Context,
    JudgedChunk,
    JudgedChunks,
    Sample,
    Scored,
    Share,
    SilentData,
    Undefined,
    UnusableReply,
)
from ragmetrics_core.data.asking import (
    Asking,
    Instructions,
    LabelProbability,
    Part,
    Question,
    Windows,
    ask,
    order_of_digest,
    question_part,
)
from ragmetrics_core.data.replies import (
    Asked,
    Bit,
    Comment,
    EachOnce,
    Item,
    Labelled,
    verdicts_of,
)
from ragmetrics_core.data.sample import why_undivided
from ragmetrics_core.data.sample_parts import texts_as_shown
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.declined import (
    instructions_on_declining,
    undefined_if_declined,
)
from ragmetrics_core.metrics.ledger_calls import call_table
from ragmetrics_core.metrics.metric import (
    Metric,
    Outcome,
    Plan,
    error_of_unanswered,
    instructions_for_judge,
)
from ragmetrics_core.metrics.retrieval_ranking import average_precision


class Useful(Question[Any]):
    """Which chunks are useful to arrive at the answer, or the reference?

    Parts: question, answer, chunk or chunks.
    """


class ContextUtilization(Metric):
    """Is each retrieved chunk useful to arrive at the answer?

    Average precision over the ranks.

    Several published metrics share this name and measure something else, such as the
    share of a context that the answer uses; here it is average precision, and the
    evidence states the formula.

    Args:
        k: Judge only the first k chunks; None judges all.
        relevance: Verdicts; or the expectation under p(useful) of each chunk.
        against: What chunks are useful for.
        judging: One question per chunk; or one for all, in an order independent of
            rank.
        polls: Judgements per chunk for probabilities without log-probabilities.
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces the prompt; must hold ``{answer}`` and ``{chunk}`` (listwise
            ``{chunks}``).

    Returns:
        A score in [0, 1], higher is better: 1.0 if every useful chunk stands before
        every other; 0.0 if none is useful.

    Undefined when:
        Question, contexts, or the answer (or reference) are missing; nothing is useful
        as it declines; a cell of a table may hold several chunks as one text.

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

    version: ClassVar[str] = "17"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("question",),
        ("contexts",),
        ("answer",),
    )

    name: str = Field(default="context_utilization", min_length=1)
    k: int | None = Field(default=None, ge=1)
    relevance: Literal["binary", "probability"] = "binary"
    against: Literal["answer", "reference"] = "answer"
    judging: Literal["pointwise", "listwise"] = "pointwise"
    polls: int = Field(default=5, ge=1, le=1000)
    examples: str | None = None
    template: str | None = None

    @property
    def _prompt_name(self) -> str:
        """Name of the prompt, e.g. "useful_list_binary"."""
        kind = "useful_list" if self.judging == "listwise" else "useful"
        return f"{kind}_{self.relevance}"

    def instructions(self) -> tuple[Instructions, ...]:
        """Return how chunks are judged."""
        required = "chunks answer" if self.judging == "listwise" else "chunk answer"
        on_chunks = instructions_for_judge(
            self._prompt_name,
            self.template,
            required,
            "question",
            self.examples,
            self.language,
        )
        return on_chunks, instructions_on_declining()

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """Question, contexts, and what they are judged against."""
        return (("question",), ("contexts",), (self.against,))

    def gap(self, sample: Sample) -> Undefined | None:
        """Say why the metric is undefined for a sample; None if it applies."""
        undivided = why_undivided(sample)
        return super().gap(sample) or (
            self.undefined(undivided, "undivided") if undivided else None
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores, for the signature."""
        settings: dict[str, str] = {
            "against": self.against,
            "judging": self.judging,
            "relevance": self.relevance,
        }
        if self.k is not None:
            settings["k"] = str(self.k)
        if self.relevance == "probability":
            settings["fallback"] = str(self.polls)
        return settings

    def plan(self, sample: Sample) -> Plan:
        """Ask which chunks are useful, and combine the verdicts over the ranks.

        Example: of three chunks the first and the third are useful: (1 + 2/3) / 2, or
        .83. Chunks with equal texts are asked about once. Listwise judging is one
        question about all chunks, in an order that does not tell their ranks. Pointwise
        judging is a question for each chunk.
        """
        contexts = sample.known_contexts[: self.k]
        texts = texts_as_shown(contexts)
        if not texts:
            evidence = self._evidence((), {})
            no_use = self.scored(0.0, "There are no contexts.", evidence)
            return (yield from self._unless_declined(no_use, sample))
        # for each question the chunks that it is about
        if self.judging == "listwise":
            chunks_by_question = [order_of_digest(sample.question, texts)]
        else:
            chunks_by_question = [(text,) for text in texts]
        replies = yield from ask(self._questions(sample, chunks_by_question))
        verdict_by_text: dict[str, _Verdict] = {}
        for reply, chunks in zip(replies, chunks_by_question, strict=True):
            if isinstance(reply, Asked):
                verdict_by_text |= _verdicts(reply, chunks)
        evidence = self._evidence(contexts, verdict_by_text)
        if error := error_of_unanswered(replies):
            return self.failed(error, evidence)
        outcome = self._outcome(sample, evidence)
        return (yield from self._unless_declined(outcome, sample))

    def _unless_declined(self, outcome: Outcome, sample: Sample) -> Asking[Outcome]:
        """Return the outcome; undefined if nothing was useful as the answer declines.

        Nothing is useful to arrive at an answer that declines. So only where no chunk
        was useful is the judge asked whether it does, or the reference.
        """
        if not isinstance(outcome, Scored) or outcome.value > 0:
            return outcome
        return (yield from undefined_if_declined(outcome, sample, self.against))

    def _questions(
        self, sample: Sample, chunks_by_question: Iterable[tuple[str, ...]]
    ) -> list[Useful]:
        """Build the questions which chunks are useful to arrive at the answer.

        If ``judging`` is "listwise", three chunks are shown at once with the letters A
        to C, and the reply has a verdict on each. Else one chunk is shown, and the
        reply is the verdict on it.

        Args:
            sample: The sample.
            chunks_by_question: For each question the chunks that it is about: all for
                listwise judging; else a single one.
        """
        is_listwise = self.judging == "listwise"
        answer = sample.answer or ""
        if self.against == "reference":
            answer = "\n".join(sample.reference)
        parts = {**question_part(sample), "answer": Part("Answer", answer)}
        instructions = self.instructions()[0]
        # A verdict on one chunk is decided by the probability of "useful": small models
        # say yes to everything where they explain themselves first.
        wanted: LabelProbability | None = LabelProbability("useful", fallback_polls=1)
        if self.relevance == "probability":
            # the verdicts of a list are told apart by the letters of their chunks
            label_field = "label" if is_listwise else None
            wanted = LabelProbability(
                "useful", item_id_field=label_field, fallback_polls=self.polls
            )
        elif is_listwise:
            wanted = None
        questions = []
        for chunks in chunks_by_question:
            part_name = "chunks" if is_listwise else "chunk"
            part = Part("Passage", chunks[0])
            if is_listwise:
                part = Part("Passage", chunks, "letters")
            questions.append(
                Useful(
                    parts={**parts, part_name: part},
                    instructions=instructions,
                    Reply=_REPLIES[self._prompt_name],
                    wanted_probability=wanted,
                    # a long chunk is judged in pieces: it is useful if one of them is
                    if_too_long=Windows(part_name, "useful"),
                    example=_EXAMPLE,
                )
            )
        return questions

    def _evidence(
        self, contexts: Sequence[Context], verdicts: Mapping[str, _Verdict]
    ) -> UtilizationEvidence:
        """Build the evidence: the verdict on each text, at each rank that the text has.

        Example: the texts A, B and A again are 3 chunks; the third has the verdict on
        A and is a duplicate of rank 1.

        Args:
            contexts: The contexts in their order; several may have one text.
            verdicts: What the judge said, by text. If a text is missing, no precision
                is given, since each depends on the chunks before it.
        """
        verdict_by_rank = [
            _BLANK
            if context.blank
            else verdicts.get(context.text_with_metadata, _NOT_JUDGED)
            for context in contexts
        ]
        is_complete = all(verdict_by_rank)
        first_rank_by_text: dict[str, int] = {}
        n_useful = 0
        chunks: list[JudgedChunk] = []
        for rank, (context, verdict) in enumerate(
            zip(contexts, verdict_by_rank, strict=True), start=1
        ):
            first_rank = first_rank_by_text.setdefault(context.text_with_metadata, rank)
            precision: float | None = None
            if first_rank == rank and is_complete:  # a repeat has none of its own
                n_useful += verdict["useful"]
                precision = n_useful / len(first_rank_by_text)
            chunks.append(
                JudgedChunk(
                    rank=rank,
                    id=context.id,
                    precision=precision,
                    duplicate_of=None if first_rank == rank else first_rank,
                    **verdict,
                )
            )
        return UtilizationEvidence(
            formula=_FORMULAS[self.relevance],
            chunks=tuple(chunks),
            duplicates=len(contexts) - len(first_rank_by_text),
        )

    def _outcome(self, sample: Sample, evidence: UtilizationEvidence) -> Outcome:
        """Score complete verdicts, and add further counts to the evidence.

        Example: 2 of 3 chunks are useful: a noise share of 1/3. The metric fails where
        probabilities are wanted and a chunk has none.
        """
        chunks = [chunk for chunk in evidence.chunks if chunk.duplicate_of is None]
        useful = [bool(chunk.useful) for chunk in chunks]
        n_useful = sum(useful)
        further_fields: dict[str, Any] = {}
        if self.relevance == "binary":
            value = average_precision(useful)
            baseline = random_order(len(useful), n_useful)
            further_fields["random_order"] = baseline
            further_fields["lift"] = value - baseline
            further_fields["ideal"] = float(any(useful))
        else:
            probabilities = [
                chunk.probability for chunk in chunks if chunk.probability is not None
            ]
            if len(probabilities) < len(chunks):
                message = (
                    "the judge gave no probabilities; use relevance='binary' with this"
                    " judge"
                )
                return self.failed(UnusableReply(message))
            value = expected_average_precision(probabilities)
        further_fields["useful"] = n_useful
        further_fields["noise_share"] = (len(chunks) - n_useful) / len(chunks)
        # A ledger names the calls that brought the contexts: then each call is judged,
        # too, such as a second search that found nothing useful.
        if sample.ledger is not None:
            contexts = sample.known_contexts[: self.k]
            useful_by_rank = [bool(chunk.useful) for chunk in evidence.chunks]
            further_fields["ledger"] = call_table(sample, contexts, useful_by_rank)
        evidence = evidence.model_copy(update=further_fields)
        ranks = [str(chunk.rank) for chunk in chunks if chunk.useful]
        if not ranks and value == 0:
            reason = (
                f"None of the {len(chunks)} chunks is useful to arrive at the answer."
            )
            return self.scored(value, reason, evidence)
        reason = f"{len(ranks)} of {len(chunks)} chunks useful"
        if ranks:
            reason += f", at rank {', '.join(ranks[:_MOST_RANKS_LISTED])}"
        if len(ranks) > _MOST_RANKS_LISTED:
            reason += ", …"
        return self.scored(value, f"{reason}.", evidence)


class Usefulness(SilentData, extra="ignore"):
    """Is a chunk useful to arrive at the answer?

    The verdict stands first, as its token's probability is wanted; then the reason.
    """

    useful: Bit
    reason: Comment = ""


class UsefulnessAlone(SilentData, extra="ignore"):
    """The same without a reason."""

    useful: Bit
    reason: SkipJsonSchema[Comment] = ""


class _LabelledUsefulness(Labelled):
    """Of one of several chunks: it is explained before the verdict."""

    reason: Comment = ""
    useful: Bit


class _LabelledUsefulnessAlone(UsefulnessAlone, Labelled): ...


class EachChunk(SilentData, Generic[Item], extra="ignore"):
    """A verdict on each of several chunks."""

    chunks: EachOnce[Item]


_Verdict = Mapping[str, Any]
"""The fields of a ``JudgedChunk`` that depend on its text alone."""


_BLANK: _Verdict = {
    "useful": False,
    "probability": 0.0,
    "reason": "The chunk is empty.",
}


_NOT_JUDGED: _Verdict = {}


# The best verdict on each chunk, with a reason of a usual length, for dry runs.
_EXAMPLE = {"useful": 1, "reason": "It says who lit the lamp, and when."}
_MOST_RANKS_LISTED = 10


# Weights of these modes restate the verdict (1 or 0, or a score of words).
_MODES_OF_VERDICTS = ("verdict", "lexical")


_REPLIES: dict[str, type[BaseModel]] = {
    "useful_binary": Usefulness,
    "useful_list_binary": EachChunk[_LabelledUsefulness],
    "useful_probability": UsefulnessAlone,
    "useful_list_probability": EachChunk[_LabelledUsefulnessAlone],
}


class UtilizationEvidence(JudgedChunks, extra="ignore"):
    """Evidence of Context Utilization.

    Attributes:
        formula: The formula of the score, in words.
        noise_share: Share of chunks that are not useful.
        duplicates: Number of chunks identical to an earlier one.
        random_order: Average precision expected of the verdicts in random order.
        lift: Score minus ``random_order``.
        ideal: Best value any order of the same verdicts reaches.
    """

    kind: Literal["context_utilization"] = "context_utilization"
    formula: str
    noise_share: Share | None = None
    duplicates: int = 0
    random_order: Share | None = None
    lift: float | None = None
    ideal: Share | None = None


_FORMULAS = {
    "binary": (
        "average precision: sum of P@k over the ranks k of useful chunks / number of"
        " useful chunks"
    ),
    "probability": (
        "expected average precision over independent verdicts with p(useful) of each"
        " chunk"
    ),
}


def _verdicts(judge_reply: Asked[Any], chunks: Sequence[str]) -> dict[str, _Verdict]:
    """Return the verdict on each chunk, by the chunk's text.

    Two polls about chunks A and B say (yes, no) and (yes, yes): A has yes and yes, B
    has no and yes. Of chunks with equal texts the verdict on the last one counts.

    Args:
        judge_reply: What the judge replied, once for each time that it was asked (a
            poll). Verdicts, weights and windows are in the order of the chunks.
        chunks: The texts of the chunks that one question was about.
    """
    verdicts_by_poll = [verdicts_of(reply) for reply in judge_reply.replies]
    verdicts_by_chunk = zip(*verdicts_by_poll, strict=True)
    verdict_by_text: dict[str, _Verdict] = {}
    for index, (text, verdicts) in enumerate(
        zip(chunks, verdicts_by_chunk, strict=True)
    ):
        # the probability that the chunk is useful decides; else the first poll's verdict
        weight = judge_reply.weights[index] if judge_reply.weights else None
        is_useful = bool(verdicts[0].useful)
        if weight is not None and weight.mode not in _MODES_OF_VERDICTS:
            is_useful = is_yes(weight.p)
        reasons = [str(it.reason) for it in verdicts if it.useful == is_useful]
        # in how many windows (pieces) a long chunk was judged
        n_windows = judge_reply.windows[index] if judge_reply.windows else 1
        verdict_by_text[text] = {
            "useful": is_useful,
            "probability": weight.p if weight else None,
            "reason": reasons[0] if reasons else "",
            "mode": weight.mode if weight else "verdict",
            "windows": n_windows if n_windows > 1 else None,
        }
    return verdict_by_text


def random_order(count: int, useful: int) -> float:
    """Return the average precision expected of the same verdicts in random order.

    ``count`` is the number of chunks, above 0; ``useful`` of them are useful.

    Returns:
        In [0, 1]; 0.0 if none is useful.

    Source:
        Bestgen (2015), "Exact expected average precision of the random baseline", PBML
        103.

    Examples:
        >>> round(random_order(5, 1), 4)
        0.4567
    """
    if useful == 0 or count == 1:
        return float(useful)
    harmonic_number = sum(Fraction(1, rank) for rank in range(1, count + 1))
    useful_share_of_rest = Fraction(useful - 1, count - 1)
    gain_of_early_ranks = (count - useful) * harmonic_number / (count * (count - 1))
    return float(useful_share_of_rest + gain_of_early_ranks)


def expected_average_precision(probabilities: Sequence[float]) -> float:
    """Return the expected average precision of chunks that are useful with some chance.

    Example: two chunks are useful with a chance of .5 each. The average precision is 1
    if both are useful, 1 if the first is, .5 if the second is, 0 if none is: mean .625.

    ``probabilities`` has for the chunk at each rank the probability that it is useful,
    independently of the others.

    Returns:
        In [0, 1]; equals ``average_precision`` where all probabilities are 0 or 1.

    Source:
        Exact, by Poisson-binomial convolution: the sum over n of E[S · 1{N = n}] / n,
        for N useful chunks with the sum S of the precisions at their ranks.

    Examples:
        >>> expected_average_precision([0.5, 0.5])
        0.625
    """
    # at index n: how probable it is that exactly n of the chunks so far are useful, and
    # the sum of their precisions, weighed by the probability of each way to these n
    chances = [1.0]
    weighted_precisions = [0.0]
    for rank, chance in enumerate(map(float, probabilities), start=1):
        chances.append(0.0)
        weighted_precisions.append(0.0)
        # n are useful now: n were, and this chunk is useless; or n - 1 were, and it is
        # useful. From the highest n down, so that n - 1 is still that of before.
        for n in range(rank, 0, -1):
            if_useful = weighted_precisions[n - 1] + n / rank * chances[n - 1]
            weighted_precisions[n] *= 1 - chance
            weighted_precisions[n] += chance * if_useful
            chances[n] = (1 - chance) * chances[n] + chance * chances[n - 1]
        chances[0] *= 1 - chance
    terms = [weighted_precisions[n] / n for n in range(1, len(weighted_precisions))]
    return min(1.0, fsum(terms))

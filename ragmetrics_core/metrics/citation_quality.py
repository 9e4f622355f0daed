"""Citation Quality: do the citations of an answer hold?

Recall and precision of citations as ALCE defines them, and their harmonic mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from statistics import harmonic_mean
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from ragmetrics_core.data import (
    Evidence,
    Instructions,
    NotAnswered,
    Part,
    Sample,
    Share,
    SilentData,
    Undefined,
)
from ragmetrics_core.data.asking import Asking, ask, ask_side_by_side
from ragmetrics_core.data.citations import (
    UNREAD_FORM,
    CitationsRead,
    CitedStatement,
    Numbering,
    Place,
    cited_statements,
    marks_in,
    may_cite,
    numbering_of_texts,
    read_citations,
)
from ragmetrics_core.data.replies import Mode
from ragmetrics_core.data.sample import (
    is_captured_in_part,
    why_contexts_are_unknown,
    why_undivided,
)
from ragmetrics_core.metrics.citation_support import (
    BLANK,
    EachSentence,
    MakesClaim,
    question_on_support,
    support_of_cited,
)
from ragmetrics_core.metrics.declined import standalone_question_part
from ragmetrics_core.metrics.metric import Metric, Plan, instructions_for_judge

FORMULA = (
    "2PR / (P + R); R = supported sentences / sentences with a claim,"
    " P = precise citations / citations"
)
"""The formula of the score, in words."""


_SENTENCES_BEFORE = 3  # shown so that a statement's words can be read


class CitationQuality(Metric):
    """Do the citations of the answer hold?

    The score is the harmonic mean of two shares, which stand in the evidence. Recall
    is the share of the sentences with a claim that are supported by all they cite,
    taken together. Precision is the share of all citations whose sentence is supported,
    and that support it alone, or without which the others do not support it.

    Args:
        required: Whether answers have to cite: one that cites nothing scores 0. Else it
            is undefined, unless the prompt numbered its sources.
        numbered_from: Number under which the prompt showed the first context, the next
            ones following in order. It counts where the sample does not tell what is
            cited. None: marks of such samples mean nothing.
        polls: Judgements where no token gives the probability.
        examples: Few-shot examples, written out; "" for none, None: those shipped.
        template: Replaces the prompt on support; must hold ``{statement}`` and
            ``{passages}``.

    Returns:
        A score in [0, 1], higher is better. It is 0 where nothing is cited and the
        prompt numbered its sources, which is known where ``Sample.citations`` is ``()`` or
        the contexts have numbers, or where citations are ``required``.

    Undefined when:
        The answer is missing; it is not known what it cites or what was shown; it
        cites nothing (``no_citations``); or it makes no claim (``no_claim``).

    Raises:
        SettingError: If a template lacks a placeholder.

    Source:
        ALCE: Gao et al. (2023), arXiv 2305.14627, section 3. Their harmonic mean is
        ours. Departures: sentences without a claim are left out; a dangling citation
        counts against precision only; all citations of a sentence count, not three;
        precision is undefined without citations; a sentence that one cited context
        supports alone is supported, also where another contradicts it.

    Examples:
        >>> from ragmetrics_core import Sample, ScriptedJudge
        >>> from ragmetrics_core.data.citations import citations_of_marks
        >>> from ragmetrics_core.metrics.citation_support import Supports
        >>> answer = "Anna lit it [1]. It was in May [1][2]."
        >>> sample = Sample(
        ...     contexts=["Anna lit it.", "It was in May."], answer=answer,
        ...     citations=citations_of_marks(answer, {"1": 0, "2": 1}),
        ... )
        >>> def by_last_word(asked):
        ...     last_word = asked["statement"].split()[-1]
        ...     return {"supported": int(last_word in asked["passages"][0])}
        >>> judge = ScriptedJudge({Supports: by_last_word})
        >>> result = CitationQuality().score(sample, judge=judge)
        >>> round(result.value, 3), result.evidence.recall, round(result.evidence.precision, 3)
        (0.8, 1.0, 0.667)
    """

    version: ClassVar[str] = "14"
    requires: ClassVar[tuple[tuple[str, ...], ...]] = (("answer",),)

    name: str = Field(default="citation_quality", min_length=1)
    required: bool = False
    numbered_from: Place | None = None
    polls: int = Field(default=3, ge=1, le=1000)
    examples: str | None = None
    template: str | None = None

    def instructions(self) -> tuple[Instructions, ...]:
        """Return the instructions: for support and for claims."""
        return (
            instructions_for_judge(
                "supports",
                self.template,
                "statement passages",
                "question before",
                self.examples,
                self.language,
            ),
            instructions_for_judge(
                "makes_claim", None, "question sentences", language=self.language
            ),
        )

    def settings(self) -> dict[str, str]:
        """Settings that change scores, for the signature."""
        settings = {"fallback": str(self.polls)}
        if self.required:
            settings["required"] = "yes"
        if self.numbered_from is not None:
            settings["numbered_from"] = str(self.numbered_from)
        return settings

    def gap(self, sample: Sample) -> Undefined | None:
        """Say why the metric is undefined for a sample; None if it is not."""
        gap = super().gap(sample)
        if gap is not None:
            return gap
        citations_read = self._citations_of(sample)
        if citations_read.why_unknown:
            return self.undefined(citations_read.why_unknown)
        if citations_read.citations is None and not self.required:
            return self.undefined(
                f"{sample.citations_unknown}; where answers have to cite, set"
                " required=True",
                "no_citations",
            )
        undivided = why_undivided(sample)
        why = why_contexts_are_unknown(sample) or undivided
        # Of an answer that cites nothing no context is judged. But where its capture
        # broke, a part of it with citations may be lost.
        may_cite_contexts = bool(citations_read.citations) or is_captured_in_part(
            sample
        )
        if why and may_cite_contexts:
            return self.undefined(why, "undivided" if why == undivided else "missing")
        return None

    def _citations_of(self, sample: Sample) -> CitationsRead:
        """Read what a sample's answer cites, or say why that is not known.

        The citations of the sample count first. Else the numbers in the answer are
        read, such as "[1]". Which context has the number 1 is told by the contexts' own
        texts, such as "[1] …"; else by the setting ``numbered_from=1``.
        """
        answer = sample.answer or ""
        if sample.citations is not None:
            # none, but signs of citing: these are in a form that is not read
            is_unread = not sample.citations and may_cite(answer)
            return CitationsRead(sample.citations, UNREAD_FORM if is_unread else "")

        # Capturing a run has looked for numbers in the contexts, and in the prompt.
        numbering: Numbering | None = None
        texts = [context.text for context in sample.known_contexts]
        if sample.capture is None or sample.capture.grade is None:
            numbering = numbering_of_texts(texts)
        elif sample.capture.citations_unknown:
            return CitationsRead(None, sample.capture.citations_unknown)
        if numbering is None and self.numbered_from is not None:
            indices = range(len(sample.known_contexts))
            numbering = {str(index + self.numbered_from): index for index in indices}
        # the row may have citations in a form that is not read
        is_told = sample.capture is not None and bool(sample.capture.citations_unknown)
        if numbering is not None and (marks_in(answer) or not is_told):
            return read_citations(answer, numbering, texts)

        # Nobody knows which context has the number 1. "It is old." has no sign of citing.
        if not may_cite(answer) and not is_told:
            return CitationsRead(None)
        why_unknown = sample.citations_unknown
        if marks_in(answer):
            why_unknown += ", or set numbered_from=1 where the prompt numbered the contexts in order"
        return CitationsRead(None, why_unknown)

    def plan(self, sample: Sample) -> Plan:
        """Judge all sentences side by side, and compute the outcome.

        Example: "It is old [1]. It fell." One plan asks whether context 1 supports the
        first sentence, another whether the second makes a claim.
        """
        citations = self._citations_of(sample).citations or ()
        cited = cited_statements(sample.answer, citations)
        # one plan for all sentences that cite nothing, and one for each that cites
        plans = [self._judge_uncited(sample, cited)]
        plans += [
            self._judge_cited(sample, cited, index)
            for index, statement in enumerate(cited)
            if statement.cites
        ]
        outcomes = yield from ask_side_by_side(plans)
        judged: _StatementsByIndex = {}
        for outcome in outcomes:
            if isinstance(outcome, NotAnswered):
                return self.failed(outcome.error)
            judged.update(outcome)
        statements = [judged[index] for index in sorted(judged)]
        if not any(statement.claims for statement in statements):
            return self.undefined("the answer makes no claim", "no_claim")
        evidence = _evidence(statements)
        recall = Fraction(evidence.supported, evidence.claims)
        precision = Fraction(0)
        if evidence.citations:
            precision = Fraction(evidence.precise, evidence.citations)
        score = harmonic_mean([recall, precision])

        reason = (
            f"{evidence.supported} of {evidence.claims} sentences with a claim are"
            " supported by what they cite"
        )
        if evidence.precision is not None:
            n_precise = f"{evidence.precise} of {evidence.citations}"
            reason += f", {n_precise} citations are precise"
        counts = {
            "uncited": evidence.uncited,
            "unsupported": evidence.unsupported,
            "dangling": evidence.dangling,
            "irrelevant": evidence.irrelevant,
        }
        faults = [f"{count} {fault}" for fault, count in counts.items() if count]
        if faults:
            reason += f": {', '.join(faults)}"
        return self.scored(float(score), f"{reason}.", evidence)

    def _judge_uncited(
        self, sample: Sample, statements: Sequence[CitedStatement]
    ) -> Asking[_StatementsByIndex | NotAnswered]:
        """Judge which of the sentences that cite nothing make a claim.

        "It fell in 1755." is a claim without a source; "I hope this helps." is none.

        Returns:
            Each such sentence by its index, with the fault "uncited" if it makes a
            claim; ``NotAnswered`` if the judge did not answer.
        """
        uncited = {
            index: statement.text
            for index, statement in enumerate(statements)
            if not statement.cites
        }
        if not uncited:
            return {}
        texts = tuple(dict.fromkeys(uncited.values()))
        _, instructions = self.instructions()
        # a language model replies {"sentences": [{"label": "S1", "claims": 1}, …]}
        question = MakesClaim(
            parts={
                "question": standalone_question_part(sample),
                "sentences": Part("Sentences", texts, "lines"),
            },
            instructions=instructions,
            Reply=EachSentence,
            example={"claims": 1},
        )
        (reply,) = yield from ask([question])
        if isinstance(reply, NotAnswered):
            return reply
        verdict_by_text = dict(zip(texts, reply.reply.sentences, strict=True))
        judged: _StatementsByIndex = {}
        for index, text in uncited.items():
            is_claim = verdict_by_text[text].claims
            fault: Fault | None = "uncited" if is_claim else None
            judged[index] = JudgedStatement(text=text, claims=is_claim, fault=fault)
        return judged

    def _judge_cited(
        self, sample: Sample, statements: Sequence[CitedStatement], index: int
    ) -> Asking[_StatementsByIndex | NotAnswered]:
        """Judge a sentence that cites: do the cited contexts support it?

        "It fell [1]." and context 1 says nothing of it: the fault is "unsupported".

        Returns:
            The judged sentence, by its index; ``NotAnswered`` if the judge gave no
            verdict on the cited contexts.
        """
        statement = statements[index]
        contexts = sample.known_contexts
        shown = [place for place in statement.contexts if not contexts[place].blank]
        first_before = max(0, index - _SENTENCES_BEFORE)
        before = [sentence.text for sentence in statements[first_before:index]]
        instructions, _ = self.instructions()
        question = question_on_support(
            statement.text,
            (),
            standalone_question_part(sample),
            instructions,
            self.polls,
            before=" ".join(before) or None,
        )
        texts = [contexts[place].text for place in shown]
        cited = yield from support_of_cited(question, texts)
        if isinstance(cited, NotAnswered):
            return cited
        # a blank context supports nothing; it is irrelevant if other contexts support it
        verdict_by_place = dict.fromkeys(statement.contexts, (BLANK, cited.supported))
        verdicts = zip(cited.alone, cited.irrelevant, strict=True)
        verdict_by_place.update(zip(shown, verdicts, strict=True))
        citations = [
            JudgedCitation(
                rank=place + 1,
                id=contexts[place].id,
                supports=alone.holds,
                probability=alone.p,
                mode=alone.mode,
                reason=alone.reason,
                irrelevant=is_irrelevant,
                precise=cited.supported and not is_irrelevant,
                windows=alone.windows,
            )
            for place, (alone, is_irrelevant) in verdict_by_place.items()
        ]
        judged = JudgedStatement(
            text=statement.text,
            claims=True,  # who cites makes a claim
            supported=cited.supported,
            citations=tuple(citations),
            dangling=statement.dangling,  # "[9]" where there are 3 contexts
            together=cited.together,  # the probability that all cited texts support it
            fault=None if cited.supported else "unsupported",
        )
        return {index: judged}


_StatementsByIndex = dict[int, "JudgedStatement"]


def _read_fault(fault: object) -> object:
    """Read "misattributed" of earlier results: unsupported by what is cited."""
    return "unsupported" if fault == "misattributed" else fault


Fault = Annotated[Literal["uncited", "unsupported"], BeforeValidator(_read_fault)]
"""What is wrong with a sentence that makes a claim.

- ``uncited``: it cites nothing;
- ``unsupported``: what it cites does not support it.
"""


class JudgedCitation(SilentData, extra="ignore"):
    """A context that a sentence cites.

    Attributes:
        rank: Which context it is, 1 for the first.
        id: The context's own id, if it has one.
        supports: Whether it alone supports the sentence.
        probability: p(supports) of it alone.
        mode: How the probability was obtained.
        reason: The judge's explanation.
        irrelevant: Whether it alone does not support the sentence, and all others that
            the sentence cites do without it.
        precise: Whether the sentence is supported and this is not irrelevant.
        windows: In how many windows a too long text was judged; None: as a whole.
    """

    rank: int
    id: str | None = None
    supports: bool
    probability: Share
    mode: Mode = "verdict"
    reason: str = ""
    irrelevant: bool = False
    precise: bool = False
    windows: int | None = None


class JudgedStatement(SilentData, extra="ignore"):
    """A sentence of the answer with what it cites.

    Attributes:
        text: The sentence, without its marks.
        claims: Whether it makes a claim.
        supported: Whether all that it cites supports it together.
        citations: The contexts that it cites, in order.
        dangling: What it cites and nobody was shown.
        together: p(supports) of all that it cites together; None where that was not
            asked.
        fault: What is wrong with it.
    """

    text: str
    claims: bool
    supported: bool = False
    citations: tuple[JudgedCitation, ...] = ()
    dangling: tuple[str, ...] = ()
    together: Share | None = None
    fault: Fault | None = None

    @property
    def support(self) -> float:
        """The highest probability that anything it cites supports it, in [0, 1].

        It is over one half exactly where the sentence is supported.
        """
        alone = [citation.probability for citation in self.citations]
        return max(self.together or 0.0, *alone, 0.0)


class CitationEvidence(Evidence, extra="ignore"):
    """Evidence of Citation Quality.

    Attributes:
        formula: The formula of the score.
        recall: Share of the sentences with a claim that their citations support.
        precision: Share of the citations that are precise; None without citations.
        claims: Number of sentences with a claim.
        supported: Of these, those that are supported.
        citations: Number of citations, the dangling ones included.
        precise: Of these, those that are precise.
        uncited: Number of sentences with a claim and no citation.
        unsupported: Number of sentences that cite, and that this does not support.
        dangling: Number of citations of what nobody was shown.
        irrelevant: Number of citations that are not needed.
        statements: The sentences of the answer, in order.
    """

    kind: Literal["citation_quality"] = "citation_quality"
    formula: str = FORMULA
    recall: Share
    precision: Share | None
    claims: int
    supported: int
    citations: int
    precise: int
    uncited: int
    unsupported: int
    dangling: int
    irrelevant: int
    statements: tuple[JudgedStatement, ...]

    @model_validator(mode="before")
    @classmethod
    def _read_counts(cls, fields: Any) -> Any:
        """Count the misattributed sentences of earlier results as unsupported."""
        if not isinstance(fields, dict) or "misattributed" not in fields:
            return fields
        n_unsupported = fields["unsupported"] + fields["misattributed"]
        return {**fields, "unsupported": n_unsupported}

    def verdicts(self) -> list[str]:
        """Return lines with recall and precision as fractions, then each fault.

        Such as "recall 3/4 = 0.75: …", "precision 4/5 = 0.80: …", "sentence 2: …".
        """
        lines = [
            f"recall {self.supported}/{self.claims} = {self.recall:.2f}: supported"
            " sentences / sentences with a claim"
        ]
        if self.precision is None:
            lines.append("precision undefined: nothing is cited")
        else:
            lines.append(
                f"precision {self.precise}/{self.citations} = {self.precision:.2f}:"
                " precise citations / citations"
            )
        for number, statement in enumerate(self.statements, start=1):
            faults: list[str] = [statement.fault] if statement.fault is not None else []
            for citation in statement.citations:
                if citation.irrelevant:
                    faults.append(f"context {citation.rank} is irrelevant")
            if statement.dangling:
                faults.append(f"dangling {', '.join(statement.dangling)}")
            lines += [f"sentence {number}: {fault}" for fault in faults]
        return lines


def _evidence(statements: Sequence[JudgedStatement]) -> CitationEvidence:
    """Count what was found, over the sentences with a claim (at least one).

    Example: 3 of 4 sentences with a claim are supported by what they cite: recall .75.
    4 of their 5 citations are precise: precision .8. A dangling citation, such as "[9]"
    with 3 contexts, counts as a citation and is not precise.
    """
    # a greeting or a question to the user needs no source, and is not counted
    claiming = [statement for statement in statements if statement.claims]
    citations: list[JudgedCitation] = []
    n_dangling = 0
    for statement in claiming:
        citations += statement.citations
        n_dangling += len(statement.dangling)
    n_cited = len(citations) + n_dangling
    n_precise = sum(1 for citation in citations if citation.precise)
    n_supported = sum(1 for statement in claiming if statement.supported)
    count_by_fault = Counter(statement.fault for statement in claiming)
    return CitationEvidence(
        recall=n_supported / len(claiming),
        precision=n_precise / n_cited if n_cited else None,
        claims=len(claiming),
        supported=n_supported,
        citations=n_cited,
        precise=n_precise,
        uncited=count_by_fault["uncited"],
        unsupported=count_by_fault["unsupported"],
        dangling=n_dangling,
        irrelevant=sum(1 for citation in citations if citation.irrelevant),
        statements=tuple(statements),
    )

"""Sets a judge's scores against the labels that people gave."""

from collections.abc import Iterator

from ragmetrics_core.data import FactMatrix, JudgedChunks, MetricResult
from ragmetrics_core.labelling.labelled_samples import LabelledSample
from ragmetrics_core.metrics.adherence_evidence import AdherenceEvidence
from ragmetrics_core.metrics.citation_quality import CitationEvidence
from ragmetrics_core.statistics.rater_agreement import Labelled


def pair_with_labels(
    row: LabelledSample, result: MetricResult, other_result: MetricResult | None
) -> Iterator[Labelled]:
    """Set the judge's score against each label of people on a sample.

    There is one label for the answer, or one for each context or fact: three contexts
    that people called relevant or not are three pairs. Nothing without a score.
    ``other_result`` is that of the other answer, where people compared two.
    """
    if result.value is None:
        return
    if row.other_sample is not None:
        if other_result is not None and other_result.value is not None:
            yield _preference(row, result.value, other_result.value)
        return
    evidence = result.evidence
    if isinstance(evidence, JudgedChunks):
        yield from _of_chunks(row, evidence)
    elif isinstance(evidence, FactMatrix):
        yield from _of_facts(row, evidence)
    elif isinstance(evidence, CitationEvidence):
        yield _of_citations(row, evidence)
    else:
        yield from _of_answer(row, result.value, own_verdict(evidence))


def _of_answer(
    row: LabelledSample, score: float, own_verdict: bool | None
) -> Iterator[Labelled]:
    """Yield a verdict on the answer for each label; people may have given several.

    Args:
        row: The sample with its labels.
        score: The judge's score.
        own_verdict: See ``own_verdict``.
    """
    length = len(row.sample.answer or "")  # judges may favour long answers
    for label in row.labels:
        yield _verdict(row, score, label, length, own_verdict)


def own_verdict(evidence: object) -> bool | None:
    """Return the verdict of a judge that decides by a threshold of its own.

    It gives a probability, and is asked once. None for any other judge: its verdict is
    yes if the score is above one half.
    """
    if isinstance(evidence, AdherenceEvidence) and evidence.probability is not None:
        return evidence.yes > 0
    return None


def _preference(row: LabelledSample, score: float, other_score: float) -> Labelled:
    """Which of two answers is better: a score above one half is for the other one."""
    other_answer = row.other_sample.answer if row.other_sample is not None else None
    extra_length = len(other_answer or "") - len(row.sample.answer or "")
    (label,) = row.labels
    preference = (1 + other_score - score) / 2
    return _verdict(row, preference, label, extra_length)


def _of_chunks(row: LabelledSample, evidence: JudgedChunks) -> Iterator[Labelled]:
    """Yield a verdict per context: is it useful?"""
    contexts = row.sample.known_contexts
    for chunk, context, label in zip(
        evidence.chunks, contexts, row.labels, strict=True
    ):
        length = len(context.text)
        if chunk.probability is None:
            score = 1.0 if chunk.useful else 0.0
            yield _verdict(row, score, label, length)
        else:
            yield _verdict(row, chunk.probability, label, length, chunk.useful)


def _of_citations(row: LabelledSample, evidence: CitationEvidence) -> Labelled:
    """Is all of the answer supported by what it cites? Its weakest sentence decides."""
    weakest = min(
        statement.support for statement in evidence.statements if statement.claims
    )
    is_supported = evidence.supported == evidence.claims
    (label,) = row.labels
    length = len(row.sample.answer or "")
    return _verdict(row, weakest, label, length, is_supported)


def _of_facts(row: LabelledSample, evidence: FactMatrix) -> Iterator[Labelled]:
    """Yield a verdict per fact: is it present in any context?"""
    facts = [fact.text for fact in row.sample.facts or ()]
    label_by_fact = dict(zip(facts, row.labels, strict=True))
    for fact, cells in zip(evidence.facts, evidence.cells, strict=True):
        score = max(cell.probability or 0.0 for cell in cells)
        yield _verdict(row, score, label_by_fact[fact.text], len(fact.text))


def _verdict(
    row: LabelledSample,
    score: float,
    label: bool,
    length: int,
    own_verdict: bool | None = None,
) -> Labelled:
    """Pair the judge's score with a label.

    ``own_verdict`` is the judge's verdict if it does not follow from the score.
    """
    return Labelled(
        score=score,
        votes=(label,),
        source=row.source,
        length=length,
        id=row.sample.id or "-",
        verdict=own_verdict,
    )

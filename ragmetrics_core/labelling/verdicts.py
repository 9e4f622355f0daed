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
    length = len(row.sample.answer or "")  # judges may favour long answers
    if row.other_sample is not None:
        if other_result is not None and other_result.value is not None:
            # which answer is better: a score above one half is for the other one
            extra_length = len(row.other_sample.answer or "") - length
            (label,) = row.labels
            preference = (1 + other_result.value - result.value) / 2
            yield _verdict(row, preference, label, extra_length)
        return
    evidence = result.evidence
    if isinstance(evidence, JudgedChunks):  # a verdict per context: is it useful?
        for chunk, context, label in zip(
            evidence.chunks, row.sample.known_contexts, row.labels, strict=True
        ):
            length = len(context.text)
            if chunk.probability is None:
                score = 1.0 if chunk.useful else 0.0
                yield _verdict(row, score, label, length)
            else:
                yield _verdict(row, chunk.probability, label, length, chunk.useful)
    elif isinstance(evidence, FactMatrix):  # per fact: is it present in any context?
        facts = [fact.text for fact in row.sample.facts or ()]
        label_by_fact = dict(zip(facts, row.labels, strict=True))
        for fact, cells in zip(evidence.facts, evidence.cells, strict=True):
            score = max(cell.probability or 0.0 for cell in cells)
            yield _verdict(row, score, label_by_fact[fact.text], len(fact.text))
    elif isinstance(evidence, CitationEvidence):
        # is all of the answer supported by what it cites? its weakest sentence decides
        weakest = min(
            statement.support for statement in evidence.statements if statement.claims
        )
        is_supported = evidence.supported == evidence.claims
        (label,) = row.labels
        yield _verdict(row, weakest, label, length, is_supported)
    else:
        for label in row.labels:
            verdict = own_verdict(evidence)
            yield _verdict(row, result.value, label, length, verdict)


def own_verdict(evidence: object) -> bool | None:
    """Return the verdict of a judge that decides by a threshold of its own.

    It gives a probability, and is asked once. None for any other judge: its verdict is
    yes if the score is above one half.
    """
    if isinstance(evidence, AdherenceEvidence) and evidence.probability is not None:
        return evidence.yes > 0
    return None


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

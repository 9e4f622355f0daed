"""Texts of samples and replies of judges stand in no repr, and so in no log.

A result tells its reason and verdicts.
"""

import importlib
import inspect
import pkgutil
import pydoc
import typing
from collections.abc import Iterator
from typing import Any

import ragmetrics_core
from ragmetrics_core import (
    Context,
    ContextAdherence,
    ContextUtilization,
    Failed,
    Limits,
    Sample,
    Scored,
    Undefined,
    evaluate,
)
from ragmetrics_core.data.frozen import Frozen, SilentData
from ragmetrics_core.data.results import SampleResult

# Fields with texts that a repr shows: names, ids, settings, digests, versions and
# sentences of our own.
_SHOWN = """
    anything.name anything.model anything.language anything.judge anything.metric anything.id anything.sample_id
    anything.document anything.row_key anything.version anything.generator anything.way
    CaptureNotes.warnings CaptureDoubt.text CaptureDoubt.code
    SampleResult.results SampleResult.problem SampleResult.appended ErrorInfo.type ErrorInfo.message Turn.role
    Ledger.conversation EvidenceCall.agent
    Signature.settings Signature.prompt Signature.details
    RunFacts.details
    RunFacts.packages RunFacts.judges RunFacts.models RunFacts.metrics RunFacts.started RunFacts.stopped RunFacts.notes
    Advice.title Advice.stage Advice.remedy
    Rule.stage Rule.title Rule.reasoning Rule.remedy Rule.holds
    Input.sha256 Decision.sentence Summary.stopped Summary.cluster Summary.signs Summary.caption Summary.grades
    MetricSummary.undefined MetricSummary.failed MetricChange.slice MetricChange.outcomes
    Comparison.added Comparison.differing Comparison.lacking Comparison.titles
    Comparison.stopped DiscreteSettings.retriever
    Header.source Header.corpus Header.parameters Header.prompts Header.left_out Review.item Review.reviewer Review.date
    Card.details Card.endpoints Card.models Card.signatures Card.made Card.command Card.notes Card.figures Card.run
    Card.corrected
    RunFacts.addresses RunFacts.left_out Summary.left_out Gate.by
    Glance.title Glance.judges Glance.headline Glance.advice Glance.groups Glance.failures Glance.notes
    Glance.sure Glance.use PassageUse.why MeasuredUse.why_not PromptMessage.role
    StageGlance.faults MetricGlance.asks CaptureNotes.doubts Sample.expected_ids
    ProjectSettings.criteria RowGlance.label
    ProjectSettings.metrics ProjectSettings.store ProjectSettings.gates ProjectSettings.columns
"""
SHOWN = set(_SHOWN.split())
_TEMPLATE = "Is the chunk useful?\n---\n{question}\n{answer}\n{chunk}"


def models(kind: type[Frozen]) -> Iterator[type[Frozen]]:
    for own in kind.__subclasses__():
        if not issubclass(own, SilentData) and own.__module__.startswith(
            "ragmetrics_core."
        ):
            yield own
        yield from models(own)


def holds_texts(annotation: Any) -> bool:
    if annotation is Any or annotation is str:
        return True
    return typing.get_origin(annotation) is not typing.Literal and any(
        map(holds_texts, typing.get_args(annotation))
    )


def test_every_field_with_texts_is_hidden_or_known_to_hold_none():
    for module in pkgutil.walk_packages(ragmetrics_core.__path__, "ragmetrics_core."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {
        f"{kind.__name__}.{name}"
        for kind in models(Frozen)
        for name, field in kind.model_fields.items()
        if field.repr and holds_texts(field.annotation)
    }
    assert {
        place
        for place in found
        if place not in SHOWN and f"anything.{place.partition('.')[2]}" not in SHOWN
    } == set()


def test_samples_reports_and_evidence_show_no_texts():
    text = "Nobody may read this of 1856."
    sample = Sample(
        question=text,
        contexts=(Context(text=text, id="c", metadata={"a": text}),),
        answer=text,
        reference=text,
        facts=[text],
        history=[{"role": "user", "content": text}],
        error=None,
        id="s",
        metadata={"b": text},
    )
    report = evaluate([sample], judge="lexical")
    (row,) = report.results
    assert {type(result) for result in row.results.values()} <= {
        Scored,
        Failed,
        Undefined,
    }
    things = (report, row, *(result.evidence for result in row.results.values()))
    for shown in (repr(sample), *map(repr, things), *map(str, things)):
        assert "1856" not in shown
        assert "Nobody" not in shown
    assert repr(row).startswith(
        "SampleResult(row 1 (s): context_utilization 1.000, context_adherence 0.9"
    )
    assert (
        repr(SampleResult(index=0, sample=sample))
        == "SampleResult(row 1 (s): not judged)"
    )
    assert (
        repr(SampleResult(index=3, sample=None, problem="no mapping"))
        == "SampleResult(row 4: no mapping)"
    )


def test_a_signature_shows_every_field():
    class Own(ContextAdherence):
        most: int = 200

    shown = str(inspect.signature(Own))
    assert "polls: " in shown
    assert "early_stop: bool = False" in shown
    assert "most: int = 200" in shown
    assert "max_calls: " in str(inspect.signature(Limits))
    assert "question: " in str(inspect.signature(Sample))
    help_text = pydoc.render_doc(Limits, renderer=pydoc.plaintext)
    # Python 3.13 has a line for each parameter of a long signature
    words = help_text.replace("|", " ").split()
    assert "Limits(*, max_calls" in " ".join(words).replace("( ", "(")


def test_settings_are_shown_and_prompts_are_not():
    shown = repr(
        ContextUtilization(model="gpt-4o-mini", language="German", template=_TEMPLATE)
    )
    assert "relevance='binary'" in shown
    assert "against='answer'" in shown
    assert "model='gpt-4o-mini', threshold=None, language='German'" in shown
    assert f"template=<{len(_TEMPLATE)} characters>" in shown


def test_a_sample_is_printed_as_its_question_and_its_answer():
    sample = Sample(question="Who lit\nthe lamp?", answer="Anna.", contexts=["Peter."])
    assert str(sample) == "Who lit the lamp?\nAnna."
    assert str(Sample(contexts=["Peter."])) == "-\n-"

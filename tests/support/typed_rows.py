"""What the tests of typed questions share: a row, the metrics, and both forms of a request."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragmetrics_core import (
    AnswerRelevance,
    CitationQuality,
    ContextAdherence,
    ContextRecall,
    ContextSufficiency,
    ContextUtilization,
    Metric,
    RetrievalAccuracy,
    Sample,
)
from ragmetrics_core.models.decision_model import (
    DecisionModel,
    OpenAIDecisionModel,
    SystemOneModel,
)

GOLDEN = Path(__file__).parents[1] / "judging" / "golden" / "typed"
FORMS: dict[str, Callable[[str], DecisionModel]] = {
    "decisions": lambda address: OpenAIDecisionModel("tiny", api_base=address),
    "systemone": lambda address: SystemOneModel("tiny", api_base=address),
}
ROW: dict[str, Any] = {
    "question": "Who lit the lamp, and when?",
    "contexts": ["Anna lit the lamp.", "It was in May.", "Peter sold boats."],
    "answer": "Anna lit it. It was in May.",
    "reference": "Anna lit the lamp in May.",
    "facts": ["Anna lit the lamp.", "It was in May."],
}
SAMPLE = Sample.from_row(ROW)
METRICS: tuple[Metric, ...] = (
    ContextUtilization(judging="listwise"),
    ContextAdherence(cause=False),
    ContextRecall(),
    RetrievalAccuracy(calls="per_context"),
)
CITING = Sample.from_row(
    {**ROW, "answer": "Anna lit it [1]. It was in May [3]. Peter sold boats."}
)
FURTHER_METRICS: tuple[Metric, ...] = (
    ContextUtilization(),
    ContextSufficiency(),
    AnswerRelevance(),
    CitationQuality(required=True, numbered_from=1),
)

"""Arguments of ``evaluate`` that others hand on, for editors and type checkers."""

from collections.abc import Sequence

from ragmetrics_core.data import Columns
from ragmetrics_core.engine.progress import Show
from ragmetrics_core.engine.resolve import JudgeLike
from ragmetrics_core.models.limits import Limits
from ragmetrics_core.models.reply_store import StoreLike
from ragmetrics_core.reporting.gates import Gate, Until


class RunSettings(Columns, total=False):
    """How samples are judged by a judge that is given elsewhere; see ``evaluate``."""

    concurrency: int
    store: StoreLike
    limits: Limits | None


class JudgedRunSettings(RunSettings, total=False):
    """``RunSettings``, who judges, and what is shown meanwhile."""

    judge: JudgeLike
    progress: Show


class EvaluateSettings(RunSettings, total=False):
    """``RunSettings``, and what ends a run before all rows are judged."""

    until: Until
    gates: Sequence[Gate | str] | str

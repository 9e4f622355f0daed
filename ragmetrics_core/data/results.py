"""Results: how every metric ends on every sample.

A result is scored, undefined with its reason, or failed with its error.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, field_validator, model_validator

from ragmetrics_core.data.display import EMBEDDED, element, judge_in_words
from ragmetrics_core.data.errors import LEFT, LanguageNotMeasured, RagMetricsError
from ragmetrics_core.data.frozen import Frozen, Share, Text
from ragmetrics_core.data.metric_evidence import AnyEvidence
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.scalars import ROUNDING, is_yes


class Signature(Frozen):
    """What two numbers must share to be comparable.

    Printed as one line, as files of before hold it.

    Attributes:
        metric: Name of the metric.
        version: Its version.
        settings: Its settings that change scores.
        prompt: Digest of its prompts; "" if it has none.
        judge: Name of the judge; "" as long as none is known.
        details: Settings of the judge that change replies.

    Examples:
        >>> signature = Signature(metric="context_recall", version="1", prompt="21b7c5").with_judge("lexical", {})
        >>> print(signature)
        context_recall|v1|prompt:21b7c5|judge:lexical
        >>> Signature.model_validate(str(signature)) == signature
        True
    """

    metric: str = ""
    version: str = ""
    settings: dict[str, str] = Field(default_factory=dict)
    prompt: str = ""
    judge: str = ""
    details: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _of_line(cls, line: Any) -> Any:
        """Read the fields of a signature from its one-line form, as ``str`` writes it.

        The line is ``METRIC|vVERSION|SETTING:VALUE|prompt:DIGEST|judge:NAME|DETAIL:VALUE``.
        Example: ``context_recall|v2|polls:3|judge:gpt-4o`` has the version "2" and the
        setting polls "3". There may be several settings and details (those stand behind
        the judge), and parts may be missing. The name of a metric or judge may hold
        anything but a bar. A value that is no text is returned as it is.
        """
        if not isinstance(line, str):
            return line
        metric, *parts = line.split("|")
        settings: dict[str, str] = {}
        details: dict[str, str] = {}
        fields: dict[str, Any] = {
            "metric": metric,
            "settings": settings,
            "details": details,
        }
        for part in parts:
            name, colon, value = part.partition(":")
            if not colon and name.startswith("v") and "version" not in fields:
                fields["version"] = name.removeprefix("v")
            elif name in ("prompt", "judge") and name not in fields:
                fields[name] = value
            elif "judge" in fields:
                details[name] = value
            else:
                settings[name] = value
        return fields

    def with_judge(self, judge: str, details: Mapping[str, str]) -> Self:
        """Return the signature of what this judge answers.

        Args:
            judge: The judge's name.
            details: Its settings that change replies.
        """
        return self.model_copy(update={"judge": judge, "details": dict(details)})

    def without_judge(self) -> Self:
        """Return the signature of the metric alone, whoever judges."""
        return self.with_judge("", {})

    def parts(self) -> Iterator[tuple[str, str]]:
        """Everything that must be the same, but for the metric's name, by name.

        A version, prompt or judge that is not known is left out; a setting is not, even
        if its value is "".
        """
        values_by_name = {
            "version": f"v{self.version}" if self.version else "",
            **self.settings,
            "prompt": self.prompt,
            "judge": self.judge,
            **self.details,
        }
        for name, value in values_by_name.items():
            if value or name in self.settings or name in self.details:
                yield name, value

    def __str__(self) -> str:
        words = [signature_part(name, value) for name, value in self.parts()]
        return "|".join([self.metric, *words])

    def __repr__(self) -> str:
        return f"Signature({str(self)!r})"

    def __hash__(self) -> int:
        return hash(str(self))


def signature_part(name: str, value: str) -> str:
    """Return a part of a signature as its line writes it, e.g. ``judge:gpt-4o``."""
    return value if name == "version" else f"{name}:{value}"


# Several times the longest reply that was asked for.
_MOST_CHARACTERS_OF_RAW = 100_000


class ErrorInfo(Frozen):
    """An error as data.

    Attributes:
        type: Name of its class in ``ragmetrics_core.data.errors``.
        message: What was given, what is needed, what to do.
        raw: The judge's raw reply, if there was one.
    """

    type: str
    message: Text
    raw: Text = Field(default="", repr=False)

    @field_validator("type")
    @classmethod
    def _present_name(cls, name: str) -> str:
        """Take the nearest class for one that a file of an earlier version names."""
        return LEFT.get(name, name)

    @classmethod
    def of(cls, error: RagMetricsError) -> Self:
        """Take an exception's class name, message and raw reply, a long one cut."""
        raw = getattr(error, "raw", "")
        if len(raw) > _MOST_CHARACTERS_OF_RAW:
            raw = (
                f"{raw[:_MOST_CHARACTERS_OF_RAW]}… (the first"
                f" {_MOST_CHARACTERS_OF_RAW:,} of {len(raw):,} characters)"
            )
        return cls(type=type(error).__name__, message=str(error), raw=raw)


class _Result(Frozen):
    """What every result tells.

    Attributes:
        metric: Name of the metric.
        reason: Why this outcome, in words.
        evidence: What the outcome rests on; None if nothing was asked.
        judge: Name of the judge; "" if none was asked.
        signature: Settings that make two numbers comparable.
        sample_id: The sample's id, if it has one.
        usage: What it cost.
    """

    metric: str
    reason: Text = Field(repr=False)
    evidence: AnyEvidence | None = None
    judge: str = ""
    signature: Signature = Signature.model_construct()
    sample_id: Text | None = None
    usage: Usage = Field(default_factory=Usage)

    @property
    def score(self) -> float | None:
        """The value, under the name that other libraries give it; None without one."""
        return None

    @property
    def passed(self) -> bool | None:
        """Whether the score reaches the metric's threshold; None without either."""
        return None

    def lines_of_outcome(self) -> list[str]:
        """Return the outcome in lines: the score and why, each verdict, the judge.

        Example: "context_adherence 0.423: number in no context: 1901", "not supported,
        …", "judge: lexical …".
        """
        if isinstance(self, Scored):
            outcome = f"{self.value:.3f}"
        elif isinstance(self, Failed):
            outcome = f"failed ({self.error.type})"
        else:
            outcome = "undefined"
        headline = f"{self.metric} {outcome}: {self.reason}"
        lines = [headline.removesuffix(": ")]  # there may be no reason
        if self.evidence is not None:
            lines += self.evidence.verdicts()
        if self.judge:
            lines.append(f"judge: {judge_in_words(self.judge)}")
        return lines

    @property
    def uncertain(self) -> bool:
        """Whether the score is a no that other evidence may turn.

        The embedded judge says that it is near its threshold; other judges' words are
        their own. What two windows of contexts hold together no model was shown.
        """
        if not isinstance(self, Scored):
            return False
        is_of_windows = bool(getattr(self.evidence, "windows", None))
        if is_of_windows and "windows" in self.usage.fallbacks:
            return not is_yes(self.value)
        return self.judge == EMBEDDED and self.reason.startswith("uncertain: ")

    def __repr__(self) -> str:
        return "\n  ".join(self.lines_of_outcome())

    def _repr_html_(self) -> str:
        headline, *details = self.lines_of_outcome()
        paragraph = element("p", [headline])
        return f"<div>{paragraph}<ul>{element('li', details)}</ul></div>"


class Scored(_Result):
    """A score in [0, 1]; higher is better.

    Attributes:
        threshold: The lowest score that passes; None if none was set.
        bounds: Scores that lost polls could have led to; None if none was lost.
    """

    status: Literal["scored"] = "scored"
    value: Share
    threshold: Share | None = None
    bounds: tuple[Share, Share] | None = None

    @property
    def score(self) -> float:
        """The value, under the name that other libraries give it."""
        return self.value

    @property
    def passed(self) -> bool | None:
        """Whether the score reaches the metric's threshold.

        None without one, and where lost polls could decide it.
        """
        return None if self.threshold is None else self.reaches(self.threshold)

    def reaches(self, threshold: float) -> bool | None:
        """Whether the score is at least a threshold; None where lost polls decide it."""
        threshold -= ROUNDING
        low, high = self.bounds or (self.value, self.value)
        is_reached = low >= threshold
        return is_reached if is_reached == (high >= threshold) else None

    def __float__(self) -> float:
        """Return the score: ``float(result)``."""
        return self.value


class Undefined(_Result):
    """The metric has no meaning for this sample, e.g. no contexts.

    ``code`` is the reason as a symbol, by which tables count: ``missing`` (an input is
    missing, such as the contexts), ``declined`` (the answer declines; older files say
    ``abstained``, which is read as this), ``no_facts`` (of the reference), ``no_claim``
    and ``no_citations`` (in the answer), ``undivided`` (the evidence is the text of
    tools or one text in a table, not divided into passages), ``language`` (the judge
    was not measured on the language of the texts, and so decides nothing), or ``other``.
    """

    status: Literal["undefined"] = "undefined"
    value: None = None

    code: Literal[
        "missing",
        "abstained",
        "declined",
        "no_facts",
        "no_claim",
        "no_citations",
        "undivided",
        "language",
        "other",
    ] = "missing"

    @field_validator("code")
    @classmethod
    def _name_as_now(cls, code: str) -> str:
        return "declined" if code == "abstained" else code


class Failed(_Result):
    """The metric applies, but no score could be determined.

    ``error`` says what happened.
    """

    status: Literal["failed"] = "failed"
    value: None = None

    error: ErrorInfo


MetricResult = Annotated[Scored | Undefined | Failed, Discriminator("status")]


def models_of(result: MetricResult) -> str:
    """Return the models that judged, in words; "" if it failed, or none was named.

    Under one name of a judge several may reply: a server's weights were changed between
    two runs on one store, or a router fell back.
    """
    is_failed = isinstance(result, Failed)
    return "" if is_failed else ", ".join(sorted(result.usage.models))


def signatures_with_models(ways: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Name the models in the signatures under which several sets of models replied.

    Rows whose endpoint named no model contradict none of them, and are left out there.
    Example: 20 rows of ("m|judge:gpt", "a"), 3 of ("m|judge:gpt", "a, b"): 20 of
    "m|judge:gpt|model:a", and 3 of "m|judge:gpt|model:a, b".

    Args:
        ways: How many rows have a signature, as its line, and ``models_of`` their
            result.
    """
    named = Counter(signature for signature, models in ways if models)
    counts = Counter[str]()
    for (signature, models), count in ways.items():
        if named[signature] < 2:
            counts[signature] += count
        elif models:
            counts[f"{signature}|{signature_part('model', models)}"] += count
    return dict(counts)


def without_score(
    metric: str, error: RagMetricsError, evidence: AnyEvidence | None = None
) -> Failed | Undefined:
    """Return the result of a metric whose question was not answered.

    It failed; it is undefined where the judge decides nothing in this language.

    Args:
        metric: Name of the metric.
        error: Why there is no reply.
        evidence: What is known all the same.
    """
    reason = str(error)
    if isinstance(error, LanguageNotMeasured):
        return Undefined(
            metric=metric, reason=reason, code="language", evidence=evidence
        )
    return Failed(
        metric=metric, reason=reason, error=ErrorInfo.of(error), evidence=evidence
    )


class SampleResult(Frozen):
    """All results of one sample.

    Attributes:
        index: Position of the sample in the input, from 0.
        sample: The sample; None for a row that is no sample.
        results: One result per metric, by name.
        problem: Why the row is no sample; "" if it is one.
        unfinished: Paid for metrics that the end of the run cut off; None if none was.
        appended: An id of the line that a sink wrote; None for a run's row. Each process
            numbers its rows from 0, so it alone tells two equal rows from one row and
            its copy.
    """

    index: int = Field(ge=0)
    sample: Sample | None
    results: dict[str, MetricResult] = Field(default_factory=dict)
    problem: Text = ""
    unfinished: Usage | None = None
    appended: str | None = None

    @property
    def number(self) -> int:
        """The number of the row as all screens count: the first row is row 1."""
        return self.index + 1

    @property
    def label(self) -> str:
        """What to call the row: "row 1", with its sample's id "row 1 (q-17)"."""
        sample_id = f" ({self.sample.id})" if self.sample and self.sample.id else ""
        return f"row {self.number}{sample_id}"

    @property
    def label_id(self) -> str | None:
        """The id under which people label the row: its sample's own, else "row 3".

        None for a row that is no sample.
        """
        if self.sample is None:
            return None
        return self.sample.id or f"row {self.number}"

    def score_of(self, metric: str) -> float | None:
        """The score by a metric; None where it is undefined, failed or was not measured."""
        return self.results[metric].value if metric in self.results else None

    def __repr__(self) -> str:
        """Return e.g. "SampleResult(row 1 (q-1): context_adherence 0.800)"."""
        outcomes = [
            f"{name} {result.status if result.value is None else f'{result.value:.3f}'}"
            for name, result in self.results.items()
        ]
        summary = self.problem or ", ".join(outcomes) or "not judged"
        return f"SampleResult({self.label}: {summary})"

    def _repr_html_(self) -> str:
        parts = [] if self.sample is None else [self.sample._repr_html_()]
        parts += [result._repr_html_() for result in self.results.values()]
        parts.append(element("p", filter(None, [self.problem])))
        return "".join(parts)

    @property
    def usage(self) -> Usage:
        """What everything cost, unfinished metrics included.

        The cost is None if any part of it is unknown.
        """
        usages = (result.usage for result in self.results.values())
        return sum(usages, self.unfinished or Usage())

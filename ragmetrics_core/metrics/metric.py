"""What a metric is: frozen settings, required fields, a plan that asks and concludes.

``metric`` makes one of a function. The prompts that ship, and the check of users' own,
stand at the end.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, cast, overload

from pydantic import Field
from pydantic_core import PydanticSerializationError

from ragmetrics_core.data import (
    Asked,
    Evidence,
    Instructions,
    NotAnswered,
    Part,
    Sample,
    SilentData,
    Weight,
    check_template,
    import_deferred,
    question_part,
)
from ragmetrics_core.data.asking import (
    Asking,
    Bounds,
    bounds_of_share,
    error_of_lost_polls,
)
from ragmetrics_core.data.errors import (
    JudgeError,
    MetricCrashed,
    RagMetricsError,
    ScoreOutOfRange,
    SettingError,
)
from ragmetrics_core.data.frozen import Settings, Share
from ragmetrics_core.data.replies import Mode
from ragmetrics_core.data.results import (
    Failed,
    Scored,
    Signature,
    Undefined,
    without_score,
)
from ragmetrics_core.data.scalars import ROUNDING, plain_data

if TYPE_CHECKING:
    from ragmetrics_core.judging.judge import Judge
    from ragmetrics_core.models.chat import ChatModel


Outcome = Scored | Undefined | Failed
Plan = Asking[Outcome]
Returned = float | bool | None | Outcome
Function = Callable[
    [Sample], Returned | Generator[Any, Any, Returned] | Awaitable[Returned]
]

_FieldGroups = tuple[tuple[str, ...], ...]

_HIDDEN_PLAN = (
    "{} returned a generator, and is no generator function, so that nobody knew that it"
    " asks a judge: put 'yield from' before what it returns, or functools.wraps on its"
    " decorator"
)


def error_of_unanswered(
    replies: Sequence[Asked[Any] | NotAnswered],
) -> JudgeError | None:
    """Return the error of the first unanswered question; None if all were answered."""
    for reply in replies:
        if isinstance(reply, NotAnswered):
            return reply.error
    return None


def weight_of(
    polls: Asked[Any], verdicts: Sequence[bool]
) -> tuple[Weight, Bounds | None] | JudgeError:
    """Return the probability that a judge gives, else the share of yes, and its bounds.

    Args:
        polls: The polls.
        verdicts: Of each reply, whether it says yes.

    Returns:
        The probability, and where lost polls could have led it; the error if they could
        turn the verdict.
    """
    n_yes, n_no = sum(verdicts), verdicts.count(False)
    error = error_of_lost_polls(polls, n_yes, n_no)
    if error is not None:
        return error
    mode: Mode = "polls" if polls.asked > 1 else "verdict"
    weight = polls.weights[0] if polls.weights else Weight(n_yes / len(verdicts), mode)
    return weight, bounds_of_share(polls, n_yes, n_no)


def parts_of_turn(sample: Sample, contexts: tuple[str, ...]) -> dict[str, Part]:
    """Return the parts contexts, question and answer of a sample."""
    return {
        "contexts": Part("Context", contexts),
        **question_part(sample),
        "answer": Part("Answer", sample.answer or ""),
    }


def _field_groups(requires: Any) -> _FieldGroups:
    """Return what ``requires=`` says, as groups of fields.

    A sample must have one field of each group. Example: ``["answer", ("contexts",
    "retrieved")]`` are two groups: the answer, and either contexts or retrieved. Raises
    ``SettingError`` where ``requires`` names anything else than fields of a sample.
    """
    try:  # what is no sequence raises a TypeError
        names_or_groups = [requires] if isinstance(requires, str) else list(requires)
        groups = tuple(
            (group,) if isinstance(group, str) else tuple(group)
            for group in names_or_groups
        )
    except TypeError:
        raise SettingError(
            'requires names fields of a sample, e.g. requires=["answer"]; got'
            f" {type(requires).__name__}"
        ) from None
    named_fields = {field for group in groups for field in group}
    unknown_fields = sorted(named_fields - set(Sample.model_fields))
    if unknown_fields:
        raise SettingError(
            f"requires names {', '.join(unknown_fields)}; a sample has:"
            f" {', '.join(Sample.model_fields)}"
        )
    return groups


def _check_version(version: object, *, of: str) -> None:
    """Refuse a version that signatures, which are texts, cannot hold.

    Example: for 2 the message says ``write version="2"; got 2``.
    """
    if isinstance(version, str) and version.strip():
        return
    is_number = isinstance(version, (int, float))
    example = str(version) if is_number else "2"
    shown = f"a {type(version).__name__}"
    if is_number or isinstance(version, str):
        shown = repr(version)
    raise SettingError(
        f'the version of {of} is a text: write version="{example}"; got {shown}'
    )


class Metric(SilentData, Settings, ABC):
    """Base of all metrics: immutable settings that validate and serialise.

    Settings can be compared.

    Args:
        name: Key of the results; two metrics of one run need different names.
        model: Judge where none is named for the run, e.g. ``"gpt-4o-mini"``.
        threshold: The lowest score that passes, for ``result.passed``.
        language: Language of explanations, e.g. ``German``; labels are the same.

    Attributes:
        version: Changes whenever a prompt or a rule changes scores.
        requires: Fields that a sample must hold; of a group of fields one is enough.
        in_thread: Whether a plan computes for long or waits, so that it is carried out
            in a worker thread.
        asks_judge: Whether a plan asks anything; results of others name no judge.
    """

    version: ClassVar[str] = "1"
    requires: ClassVar[tuple[str | tuple[str, ...], ...]] = ()
    in_thread: ClassVar[bool] = False
    asks_judge: ClassVar[bool] = True

    name: str = Field(min_length=1)
    model: str | None = None
    threshold: Share | None = None
    language: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.requires = _field_groups(cls.requires)
        _check_version(cls.version, of=cls.__name__)

    # Each class has its own settings, the fields of its model. Editors and type checkers
    # list them for the class instead of this signature, and so does ``__signature__``.
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.instructions()

    @abstractmethod
    def plan(self, sample: Sample) -> Plan:
        """Ask questions and conclude, as a generator without I/O.

        Args:
            sample: A sample that holds what the metric needs.

        Returns:
            A generator that yields batches of questions, is sent the replies, and
            returns the outcome. Use ``replies = yield from ask([...])``.
        """

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """Fields that a sample must hold; of each group one is enough."""
        # ``__init_subclass__`` has made groups of the names
        return cast("_FieldGroups", self.requires)

    @property
    def asks(self) -> str:
        """What the metric asks: the first line of its docstring; "" without one."""
        return (type(self).__doc__ or "").strip().partition("\n")[0]

    def gap(self, sample: Sample) -> Undefined | None:
        """Say why the metric is undefined for a sample; None if it applies.

        No judge is asked. By default a sample needs one field of each group in
        ``needs``. Example: a metric needs ("answer",), and the sample has none: "no
        answer". Where an answer is judged by contexts, these are missing, too, if a part
        was not recorded, unless the user named their place.
        """
        if sample.error is not None:
            return self.undefined(
                "the row's 'error' says that the application's run failed, so there is"
                " nothing to score",
                "other",
            )
        judges_answer = any("answer" in group for group in self.needs)
        unread = why_contexts_are_not_whole(sample) if judges_answer else ""
        for group in self.needs:
            if unread and "contexts" in group:
                return self.undefined(unread)
            has_any_field = not all(sample.missing(field) for field in group)
            if has_any_field:
                continue
            if "contexts" not in group:
                return self.undefined(" and ".join(f"no {field}" for field in group))
            # tools returned all passages as one text, which nobody can divide
            undivided = sample.capture and sample.capture.doubts.get("undivided")
            if undivided:
                return self.undefined(f"undivided: {undivided}", "undivided")
            # a ledger may take their place, but few users know of it
            return self.undefined("no contexts")
        return None

    def settings(self) -> dict[str, str]:
        """Return the settings that change scores, for the signature.

        By default they are the metric's own fields: ``{"polls": "5"}``.
        """
        settings: dict[str, str] = {}
        for field in type(self).model_fields:
            if field in Metric.model_fields:
                continue
            # A setting that has the name of a field of the signature gets a prefix.
            name = f"own_{field}" if field in Signature.model_fields else field
            given = getattr(self, field)
            try:
                value: Any = self.model_dump(mode="json", include={field}).get(field)
            except PydanticSerializationError as error:
                raise SettingError(
                    f"the setting {field!r} of the metric {self.name} is a"
                    f" {type(given).__name__}, which the signature of results cannot"
                    " hold; make it a PrivateAttr or a ClassVar, or override settings()"
                    " and say in texts what changes scores"
                ) from error
            if isinstance(given, (set, frozenset)):
                value = sorted(value, key=json.dumps)  # in one order in every process
            if value is None or isinstance(value, (int, float)):
                settings[name] = str(value)
            else:
                # Only a digest of texts and collections: they may be long or private.
                settings[name] = digest_of_prompt(json.dumps(value))
        return settings

    def instructions(self) -> tuple[Instructions, ...]:
        """Return what judges are told, question by question.

        Called at construction, so that an error of it is seen there. Whether a template
        fits the parts of a question is seen when the question is asked.
        """
        return ()

    def prompts(self) -> tuple[str, ...]:
        """Return the templates, then the examples, for the signature."""
        instructions = self.instructions()
        templates = [instruction.template for instruction in instructions]
        examples = [instruction.examples for instruction in instructions]
        return (*templates, *examples)

    @property
    def signature(self) -> Signature:
        """What two numbers must share to be comparable, but for the judge."""
        prompt = (
            digest_of_prompt(*self.prompts(), self.language or "")
            if self.prompts()
            else ""
        )
        return Signature(
            metric=self.name,
            version=self.version,
            settings=self.settings(),
            prompt=prompt,
        )

    def scored(
        self,
        value: float,
        reason: str,
        evidence: Evidence | None = None,
        bounds: Bounds | None = None,
    ) -> Scored | Undefined | Failed:
        """Return a score in [0, 1] with its evidence.

        What is no such number is failed, never clipped.

        Args:
            value: The score. Only what floating-point arithmetic adds, at most 1e-9
                beyond a bound, is rounded to it.
            reason: Why, in words.
            evidence: What it rests on.
            bounds: What it could be with the polls that were lost; None if none was.
        """
        if not -ROUNDING <= value <= 1 + ROUNDING:  # NaN is not either
            message = (
                f"{self.name} came to {value}, which is no score in [0, 1]; correct the"
                " metric or its judge"
            )
            return self.failed(ScoreOutOfRange(message), evidence)
        if bounds is not None:
            low, high = bounds
            reason += f" (Polls were lost; with them it is {low:.2f} to {high:.2f}.)"
        return Scored(
            metric=self.name,
            value=min(1.0, max(0.0, value)),
            reason=reason,
            evidence=evidence,
            threshold=self.threshold,
            bounds=bounds,
        )

    def undefined(
        self, reason: str, code: Any = "missing", evidence: Evidence | None = None
    ) -> Undefined:
        """No score, because the metric has no meaning here."""
        return Undefined(metric=self.name, reason=reason, code=code, evidence=evidence)

    def failed(
        self, error: RagMetricsError, evidence: Evidence | None = None
    ) -> Failed | Undefined:
        """No score, because something went wrong, or because the judge decides nothing."""
        return without_score(self.name, error, evidence)

    def score(
        self,
        sample: Sample | None = None,
        *,
        judge: Judge | ChatModel | str | None = None,
        question: Any = None,
        contexts: Any = None,
        answer: Any = None,
        reference: Any = None,
        **further_fields: Any,
    ) -> Outcome:
        """Score one sample and wait for the result.

        Args:
            sample: The sample; or give its fields as keywords.
            judge: A judge, a chat model or the name of a model; else ``model``, ``RAGMETRICS_JUDGE``,
                the embedded judge.
            question: What the user asked.
            contexts: What the answer was to rest on, a list of texts in ranked order.
            answer: What the application answered.
            reference: What it should have answered, a text or several.
            **further_fields: Further fields of a sample, or the four above under other
                usual names, such as ``input``: whatever a row of a table may have.

        Returns:
            ``Scored``, ``Undefined`` with the reason, or ``Failed`` with the error. Each
            is true in a bare ``assert``: tests use ``ragmetrics_core.testing.assert_score``.

        Raises:
            SettingError: If a keyword is not known, or both a sample and its fields are
                given.
            RowError: If a field has a wrong type.
            JudgeUnavailable: If the judge cannot answer any question, e.g. for a wrong
                key.
        """
        fields = _fields_given(question, contexts, answer, reference, further_fields)
        score_one = import_deferred("engine.scoring:score_one", "scoring")
        wait_for = import_deferred("engine.loop:wait_for", "scoring")
        return cast("Outcome", wait_for(score_one(self, sample, fields, judge)))

    async def ascore(
        self,
        sample: Sample | None = None,
        *,
        judge: Judge | ChatModel | str | None = None,
        question: Any = None,
        contexts: Any = None,
        answer: Any = None,
        reference: Any = None,
        **further_fields: Any,
    ) -> Outcome:
        """Score one sample without blocking the event loop; see ``score``."""
        fields = _fields_given(question, contexts, answer, reference, further_fields)
        score_one = import_deferred("engine.scoring:score_one", "scoring")
        submit = import_deferred("engine.loop:submit", "scoring")
        future = submit(score_one(self, sample, fields, judge))
        return cast("Outcome", await asyncio.wrap_future(future))


def _fields_given(
    question: Any,
    contexts: Any,
    answer: Any,
    reference: Any,
    further_fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of a sample that ``score`` was given."""
    usual_fields = {
        "question": question,
        "contexts": contexts,
        "answer": answer,
        "reference": reference,
    }
    fields = {name: value for name, value in usual_fields.items() if value is not None}
    return {**fields, **further_fields}


class FunctionMetric(Metric):
    """What ``@metric`` makes of a function, each in a class of its own.

    Its settings are those of every metric. Its prompts are not in its signature: whoever
    changes one changes the version.
    """

    function: ClassVar[Function]

    def plan(self, sample: Sample) -> Plan:
        """Call the user's function; what it returns becomes the outcome.

        - A number is the score, and True is 1.
        - None is undefined.
        - An outcome (``Scored``, ``Undefined``, ``Failed``) stays as it is.
        - Anything else, and a judge's error that is raised, is a failure.

        A generator function may ask questions on the way.
        """
        try:
            returned: Any = type(self).function(sample)
            if inspect.iscoroutine(returned):  # of an async function
                run_metric = import_deferred(
                    "engine.loop:run_metric", "an async metric"
                )
                returned = run_metric(returned)
            if isinstance(returned, Generator):
                if not self.asks_judge:
                    return self.failed(MetricCrashed(_HIDDEN_PLAN.format(self.name)))
                returned = yield from returned
        except JudgeError as error:
            return self.failed(error)
        returned = plain_data(returned)
        if isinstance(returned, (Scored, Undefined, Failed)):
            return returned.model_copy(update={"metric": self.name})
        if returned is None:
            return self.undefined("the metric is not defined for this sample", "other")
        if not isinstance(returned, (bool, int, float)):
            message = (
                f"{self.name} must return a number from 0 to 1, a bool or None, got"
                f" {type(returned).__name__}"
            )
            return self.failed(MetricCrashed(message))
        return self.scored(
            float(returned), f"{self.name} of this sample is {returned}."
        )

    def __reduce__(self) -> Any:
        """Pickle the metric by the name of its function.

        Another process finds the metric, or the function itself, under that name.

        Raises:
            SettingError: If neither stands under that name, as of a function inside
                another one.
        """
        function = type(self).function
        module = function.__module__
        path = function.__qualname__
        if _function_at(module, path) is not function:
            raise SettingError(
                f"the metric {self.name!r} cannot be sent to another process, which"
                f" would not find its function under the name {module}.{path}; define"
                " the function at the top of a module"
            )
        settings = self.model_dump()
        return _rebuild_metric, (module, path, self.version, self.needs, settings)


@overload
def metric(function: Function, /) -> FunctionMetric: ...


@overload
def metric(
    *,
    name: str | None = None,
    version: str = "1",
    requires: Sequence[str | Sequence[str]] = (),
) -> Callable[[Function], FunctionMetric]: ...


def metric(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    requires: Sequence[str | Sequence[str]] = (),
) -> FunctionMetric | Callable[[Function], FunctionMetric]:
    """Make a metric of a function.

    A generator function is a plan: it asks with ``replies = yield from ask([...])``. A
    plain function takes a sample and runs in a worker thread; an async one on an event
    loop of all such functions. They return a number in [0, 1], a bool (0 or 1), None
    (undefined) or a whole outcome.

    Args:
        function: The function, where ``@metric`` stands without brackets.
        name: Name of the metric; by default that of the function.
        version: Change it whenever the metric would score a sample otherwise.
        requires: Fields that a sample must hold; of a group of fields one is enough.

    Returns:
        The metric; where ``@metric(...)`` stands with brackets, a decorator that makes
        it. If the function raises, or returns a number out of range, the outcome is
        *failed* and names the metric.

    Raises:
        SettingError: If ``requires`` names a field that samples do not have, the name is
            empty, the version is no text, or ``function`` is not a function that takes
            one sample, or is an async generator.

    Examples:
        >>> from ragmetrics_core import Sample
        >>> @metric(requires=["answer"])
        ... def brevity(sample: Sample) -> bool:
        ...     return len(sample.answer or "") < 100
        >>> brevity.score(answer="Paris.").value
        1.0
    """
    groups = _field_groups(requires)
    _check_version(version, of=name or "the metric")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise SettingError(
            "the name of a metric is the key of its results: give a text, or leave"
            " name= out"
        )

    def decorate(function: Function) -> FunctionMetric:
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            raise SettingError(
                "@metric makes a metric of a function, got a"
                f" {type(function).__name__}: write a def that takes a sample; a name is"
                " given as name=, and a class inherits from Metric"
            )
        if inspect.isasyncgenfunction(function):
            raise SettingError(
                f"{function.__name__} is an async generator; a metric asks by 'yield"
                " from ask([...])' in a plain def"
            )
        signature = inspect.signature(function)
        try:
            signature.bind(None)  # as a plan calls it
        except TypeError:
            raise SettingError(
                f"{function.__name__}{signature} cannot be called with a sample alone,"
                " as a metric's function is: let it take one argument; for settings"
                " write a class on Metric"
            ) from None
        metric_class = _class_of(function, version, groups)
        return metric_class(name=name or function.__name__)

    return decorate if function is None else decorate(function)


@lru_cache(maxsize=256)  # what is unpickled is then equal to what was pickled
def _class_of(
    function: Function, version: str, requires: _FieldGroups
) -> type[FunctionMetric]:
    """Return the class of the metrics that a function is."""
    members = {
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "version": version,
        "requires": requires,
        "in_thread": not inspect.isgeneratorfunction(function),
        "asks_judge": inspect.isgeneratorfunction(inspect.unwrap(function)),
        "function": staticmethod(function),
    }
    return type(function.__name__, (FunctionMetric,), members)


def _function_at(module: str, path: str) -> Any:
    """Return the function under a name in a module, also where a metric was made of it.

    None if nothing that can be called stands there.
    """
    try:
        value: Any = import_module(module)
        for name in path.split("."):
            value = getattr(value, name)
    except (ImportError, AttributeError):
        return None
    if isinstance(value, FunctionMetric):
        return type(value).function
    return value if callable(value) else None


def _rebuild_metric(
    module: str,
    path: str,
    version: str,
    requires: _FieldGroups,
    settings: dict[str, Any],
) -> FunctionMetric:
    """Return a metric that was pickled.

    It is made from what stands under the name of its function here.
    """
    function = _function_at(module, path)
    if function is None:
        raise SettingError(
            f"the metric {settings['name']!r} was sent from a process that has the"
            f" function {module}.{path}; here is none: put it in a module that both"
            " processes can import"
        )
    return _class_of(function, version, requires)(**settings)


def why_contexts_are_not_whole(sample: Sample) -> str:
    """Say what the model may have been shown that was not recorded; "" for nothing known.

    Example: an image in the question. Its words are neither question nor contexts, so
    that an answer which rests on them would be called made up.
    """
    notes = sample.capture
    if notes is None or notes.evidence_from == "named":
        return ""
    return notes.doubts.get("not_recorded", "")


@cache
def read_shipped_template(name: str) -> str:
    """Read a template that ships with the metrics, e.g. ``adherent``."""
    return (
        files("ragmetrics_core.metrics")
        .joinpath("prompts", f"{name}.txt")
        .read_text(encoding="utf-8")
    )


@lru_cache(maxsize=64)
def instructions_for_judge(
    name: str,
    template: str | None,
    required: str,
    optional: str = "",
    examples: str | None = None,
    language: str | None = None,
) -> Instructions:
    """Return what a judge is told, by the user's own template or the shipped one.

    The user's own is checked before a call is paid for.

    Args:
        name: Name of the shipped template.
        template: The user's own text, with ``{names}``, each on a line of its own; braces around anything
            but a name are literal.
        required: Names that must occur, with spaces between them.
        optional: Further names that may occur; ``language`` always may.
        examples: Few-shot examples; "" for none. None: the shipped ones, beside the
            shipped template.
        language: Language of explanations.

    Raises:
        SettingError: If the template does not fit these names; see ``check_template``.
    """
    if examples is None:
        examples = ""
        if template is None:
            with suppress(FileNotFoundError):  # not each shipped template has some
                examples = read_shipped_template(f"{name}_examples").strip()
    instructions = Instructions(
        template=read_shipped_template(name) if template is None else template,
        examples=examples,
        language=language,
        optional=tuple(optional.split()),
    )
    check_template(instructions, (*required.split(), *instructions.optional))
    return instructions


def digest_of_prompt(*parts: str) -> str:
    """Short digest that tells two prompts apart in a signature."""
    return sha256("\0".join(parts).encode()).hexdigest()[:6]

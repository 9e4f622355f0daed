"""A metric of one's own: a plan or a plain function, by name on the command line, in a file and in the report."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import pickle
import re
import threading
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from loopback import LoopbackServer
from pydantic import BaseModel, PrivateAttr

from ragmetrics_core import (
    ContextAdherence,
    LabelProbability,
    LexicalJudge,
    Limits,
    LLMJudge,
    Metric,
    OpenAICompatibleModel,
    Question,
    Report,
    Sample,
    Scored,
    ScriptedJudge,
    Undefined,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.asking import Instructions, Part
from ragmetrics_core.data.errors import JudgeError, SettingError
from ragmetrics_core.data.metric_evidence import Evidence
from ragmetrics_core.data.replies import Bit, Usage
from ragmetrics_core.data.results import Signature
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.registry import metric_named
from ragmetrics_core.models.chat import ChatModel, ChatReply, ChatRequest, Choice
from ragmetrics_core.testing import MetricContract

PAGE = Path(__file__).parents[2] / "docs" / "own_metric.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)
COUNTS_REPLIES = """
    share = sum(reply.polite for reply in asked.replies) / len(asked.replies)
    reason = f"{len(asked.replies)} replies, {len(asked.failures)} missing"
    evidence = Evidence(kind="politeness")
    return Scored(metric="politeness", value=share, reason=reason, evidence=evidence)
"""
"""The end of the page's metric where it takes no probability of a label."""
ROWS = [
    {"query": "q", "contexts": ["c"], "response": f"Answer {number}, please."}
    for number in range(3)
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module of the page, importable from the working directory."""
    name = f"politeness_{tmp_path.name}".replace("-", "_")
    block = BLOCKS[2]
    assert len(block.splitlines()) <= 40
    (tmp_path / f"{name}.py").write_text(block)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGMETRICS_JUDGE", raising=False)
    return name


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    (tmp_path / "whole_page_of_metrics.py").write_text("\n".join(BLOCKS))
    monkeypatch.syspath_prepend(tmp_path)
    import_module("whole_page_of_metrics")
    assert len(BLOCKS) == 6


@pytest.mark.parametrize("logprobs", [True, "reject"])
def test_the_pages_metric_with_a_chat_model(module, logprobs, loopback_server):
    server: LoopbackServer = loopback_server(
        lambda _: '{"polite": 1, "reason": "kind"}', logprobs=logprobs
    )
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test", api_key="k"))
    report = evaluate(ROWS, f"{module}:politeness", judge=judge)
    results = [row.results["politeness"] for row in report.results]
    assert {result.status for result in results} == {"scored"}
    evidence = results[0].model_dump()["evidence"]
    assert evidence == {
        "kind": "politeness",
        "reason": "kind",
        "mode": "logprobs" if logprobs is True else "polls",
    }
    assert results[0].value == (pytest.approx(0.9) if logprobs is True else 1.0)


@pytest.mark.parametrize(
    ("settings", "temperatures"),
    [
        ("", {1.0}),
        (", temperature=0.5", {0.5}),
        (", temperature=0.0", {0.0}),  # as its author wants it
    ],
)
def test_several_polls_are_independent_by_default(
    settings, temperatures, loopback_server
):
    polled = BLOCKS[2].replace(
        'wanted_probability=LabelProbability("polite"),', f"polls=3{settings},"
    )
    polled = polled.partition("    weight, reason")[0]
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(polled + COUNTS_REPLIES, namespace)  # our own documentation
    server: LoopbackServer = loopback_server(lambda _: '{"polite": 1}', n=False)
    judge = LLMJudge(OpenAICompatibleModel(server.base_url, "test", api_key="k"))
    result = namespace["politeness"].score(answer="Sit, please.", judge=judge)
    assert result.reason == "3 replies, 0 missing"
    assert {request.body["temperature"] for request in server.requests} == temperatures


class OneBit(BaseModel):
    bit: Bit


def test_one_poll_is_asked_at_0_and_weights_at_1():
    form: Any = {"parts": {}, "instructions": Instructions("Hm?"), "Reply": OneBit}
    assert Question(**form).temperature == 0.0
    assert Question(**form, polls=2).temperature == 1.0
    assert (
        Question(
            **form, polls=2, wanted_probability=LabelProbability("bit")
        ).temperature
        == 0.0
    )


def test_a_mistake_ends_a_dry_run_with_exit_code_2(module, capsys):
    path = Path(f"{module}.py")
    path.write_text(path.read_text().replace("{answer}", "{anwser}"))
    command = ["evaluate", "rows.jsonl", "--metrics", f"{module}:politeness"]
    assert main([*command, "--dry-run", "--judge", "openai/x"]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert "politeness crashes on 3 of 3 samples: the template has {anwser}" in shown


def test_the_pages_metric_on_the_command_line(module, capsys):
    arguments = [
        "evaluate",
        "rows.jsonl",
        "--metrics",
        f"{module}:politeness,adherence",
        "--quiet",
    ]
    assert main([*arguments, "--out", "out.jsonl", "--report", "page.html"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "the embedded judge 'lexical' compares words, which does not answer what this"
        " metric asks (IsPolite)" in shown
    )
    assert "gpt-4o-mini" in shown
    assert "politeness" in Report.from_jsonl("out.jsonl").metrics
    assert "politeness" in Path("page.html").read_text("utf-8")
    assert (
        main(
            [
                "evaluate",
                "rows.jsonl",
                "--metrics",
                f"{module}:politeness",
                "--dry-run",
                "--judge",
                "openai/x",
            ]
        )
        == 0
    )
    assert re.search(r"calls: +about 3", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere_at_all:politeness", "No module named 'nowhere_at_all'"),
        ("json:politeness", "has no 'politeness'"),
        ("json:dumps", "is no metric"),
        ("politeness", "module:name"),
    ],
)
def test_a_name_that_leads_to_no_metric(name, said):
    with pytest.raises(SettingError, match=said):
        evaluate(ROWS, name, judge=LexicalJudge())


@pytest.mark.parametrize(
    ("given", "status", "value"),
    [
        (0.25, "scored", 0.25),
        (1, "scored", 1.0),
        (True, "scored", 1.0),
        (False, "scored", 0.0),
        (None, "undefined", None),
        (1.5, "failed", None),
        (-0.1, "failed", None),
        (float("nan"), "failed", None),
        ("0.5", "failed", None),
        ((0.5, "why"), "failed", None),
    ],
)
@pytest.mark.parametrize("plan", [False, True])
def test_what_a_function_returns(given, status, value, plan):
    def function(sample: Sample) -> Any:
        return given

    def generator(sample: Sample) -> Any:
        yield from ()
        return given

    made = metric(name="own", requires=["answer"])(generator if plan else function)
    result = made.score(answer="a", judge=LexicalJudge())
    assert (result.status, result.value) == (status, value)
    if status == "failed":
        assert "own" in result.reason
    if status == "undefined":
        assert result.reason == "the metric is not defined for this sample"


class Fixed(Metric):
    """A metric of a user's own that gives one number."""

    name: str = "fixed"
    number: float

    def plan(self, sample: Sample) -> Any:
        return self.scored(self.number, "as set", Evidence(kind="fixed"))
        yield


class Altered(Fixed):
    """A metric that alters the result of another one by a copy, which nothing validates."""

    def plan(self, sample: Sample) -> Any:
        outcome = yield from Fixed(number=0.5).plan(sample)
        return outcome.model_copy(update={"value": self.number})


@pytest.mark.parametrize("kind", [Fixed, Altered])
@pytest.mark.parametrize(
    ("number", "score"),
    [
        (math.nan, None),
        (-math.inf, None),
        (5.0, None),
        (1 + 2e-9, None),
        (-2e-9, None),
        (0.3, 0.3),
        (1.0, 1.0),
        (0.0, 0.0),
    ],
)
def test_what_is_no_score_is_failed_and_names_the_metric(kind, number, score):
    result = kind(number=number).score(answer="a", judge=ScriptedJudge({}))
    assert (result.status == "failed", result.value) == (score is None, score)
    if score is None:
        assert result.error.type == "ScoreOutOfRange"
        assert result.reason.startswith(f"fixed came to {number}, ")
        assert result.evidence.kind == "fixed"


@pytest.mark.parametrize(("number", "score"), [(1 + 1e-9, 1.0), (-1e-9, 0.0)])
def test_only_what_rounding_adds_beyond_a_bound_is_taken_away(number, score):
    assert Fixed(number=number).score(answer="a", judge="lexical").value == score


def test_a_function_may_return_an_outcome_under_any_name_and_raise_a_judges_error():
    @metric
    def outcome(sample: Sample) -> Any:
        return lengthy.undefined("no words", "other")

    result = outcome.score(answer="a")
    assert (result.metric, result.status, result.reason) == (
        "outcome",
        "undefined",
        "no words",
    )

    @metric
    def refused(sample: Sample) -> Any:
        raise JudgeError("the judge refuses")

    failed = refused.score(answer="a")
    assert (failed.metric, failed.status, failed.error.type) == (
        "refused",
        "failed",
        "JudgeError",
    )


def test_a_plan_that_a_plain_function_hides_is_named_and_one_that_is_wrapped_is_run():
    def planned(sample: Sample) -> Any:
        yield from ask([])
        return 1.0

    @metric
    def hidden(sample: Sample) -> Any:
        return planned(sample)

    @metric
    @wraps(planned)
    def wrapped(sample: Sample) -> Any:
        return planned(sample)

    judge = ScriptedJudge({})
    assert "functools.wraps" in hidden.score(answer="a", judge=judge).reason
    assert wrapped.score(answer="a", judge=judge).value == 1.0


def test_a_run_that_ended_with_an_error_has_nothing_to_score():
    result = lengthy.score(Sample(answer="a" * 9, error="TimeoutError"))
    assert (result.status, result.code) == ("undefined", "other")
    assert "the row's 'error' says" in result.reason


def test_what_a_function_raises_fails_naming_the_metric():
    @metric(requires=["answer"])
    def broken(sample: Sample) -> float:
        raise LookupError("a text of the sample")

    result = broken.score(answer="a")
    assert (result.status, result.metric) == ("failed", "broken")
    assert "broken: LookupError" in result.reason
    assert "a text of the sample" not in result.reason


def test_a_plain_function_runs_in_a_thread_of_its_own_and_never_without_what_it_requires():
    threads = set()

    @metric(requires=["answer", ("reference", "facts")])
    def seen(sample: Sample) -> bool:
        threads.add(threading.current_thread().name)
        return True

    assert seen.score(answer="a").reason == "no reference and no facts"
    assert threads == set()
    assert seen.score(answer="a", reference="r").value == 1.0
    assert threads == {"ragmetrics seen"}
    with pytest.raises(SettingError, match="a sample has: question"):
        metric(requires=["anwser"])


def test_names_versions_and_pickles():
    assert str(lengthy.signature) == "lengthy|v2"
    assert lengthy.needs == (("answer",),)
    assert pickle.loads(pickle.dumps(lengthy)).score(answer="a" * 9).value == 1.0
    set_ = lengthy.model_copy(
        update={"name": "long", "model": "gpt-4o-mini", "language": "German"}
    )
    assert pickle.loads(pickle.dumps(set_)) == set_


@metric(version="2", requires=["answer"])
def lengthy(sample: Sample) -> bool:
    return len(sample.answer or "") > 5


def shortness(sample: Sample) -> float:
    return 1 / (1 + len(sample.answer or ""))


NAMED_APART = metric(name="brevity", version="3", requires=["answer"])(shortness)


def made_in_a_function(name: str) -> Metric:
    return metric(name=name, requires=["answer"])(shortness)


def over_a_function_inside() -> Metric:
    @metric(requires=["answer"])
    def inside(sample: Sample) -> float:
        return 1.0

    return inside


def hidden(sample: Sample) -> float:
    return 1.0


HIDDEN = metric(hidden)
hidden = shortness  # another function stands under its name


@pytest.mark.parametrize(
    "own",
    [
        lengthy,
        NAMED_APART,
        made_in_a_function("made"),
        NAMED_APART.model_copy(update={"name": "other", "model": "gpt-4o-mini"}),
    ],
    ids=["decorated", "named apart", "made in a function", "with settings"],
)
def test_a_metric_that_is_pickled_is_the_same_metric_again(own):
    again = pickle.loads(pickle.dumps(own))
    assert (again, again.signature, again.needs, again.name) == (
        own,
        own.signature,
        own.needs,
        own.name,
    )
    sample = Sample(answer="a" * 9)
    assert again.score(sample, judge=LexicalJudge()) == own.score(
        sample, judge=LexicalJudge()
    )


@pytest.mark.parametrize(
    "own",
    [over_a_function_inside(), metric(name="nameless")(lambda sample: 1.0), HIDDEN],
    ids=["inside", "lambda", "hidden"],
)
def test_a_metric_that_another_process_would_not_find_is_not_pickled_and_says_why(own):
    with pytest.raises(
        SettingError,
        match=f"'{own.name}' cannot be sent to another process.*at the top of a module",
    ):
        pickle.dumps(own)
    assert own.model_copy() == own
    assert copy.deepcopy(own) == own


def test_a_metric_whose_function_is_not_here_says_what_is_missing(module, monkeypatch):
    monkeypatch.syspath_prepend(Path.cwd())
    there = import_module(module)
    pickled = pickle.dumps(there.politeness)
    monkeypatch.delattr(there, "politeness")
    with pytest.raises(
        SettingError, match=f"'politeness' was sent from a process.*{module}.politeness"
    ):
        pickle.loads(pickled)


class Affirming(ChatModel):
    """Says yes to everything, and counts how often it was asked.

    The calls from ``last`` on are never answered.
    """

    name = "affirming"
    cache_key = None

    def __init__(self, last: float = math.inf) -> None:
        self.calls, self.last = 0, last

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self.calls >= self.last:
            await asyncio.Event().wait()
        said = Choice('{"reason": "", "supported": 1, "claims": 1, "unsupported": []}')
        return ChatReply(
            (said,) * request.n, Usage(calls=1, prompt_tokens=10, cost=0.25)
        )


def as_function(judge: Judge) -> Metric:
    @metric(name="within", requires=["answer"])
    def within(sample: Sample) -> float | None:
        return ContextAdherence(polls=1).score(sample, judge=judge).value

    return within


class Within(Metric):
    """Asks its own question, and scores by another metric besides."""

    name: str = "within"
    _judge: Judge = PrivateAttr()

    def plan(self, sample: Sample) -> Any:
        yield from ask([])
        inner = ContextAdherence(polls=1).score(sample, judge=self._judge)
        return self.scored(inner.value or 0.0, "as the other one")


def as_class(judge: Judge) -> Metric:
    made = Within()
    made._judge = judge
    return made


@pytest.mark.parametrize("make", [as_function, as_class])
def test_the_deadline_of_a_run_ends_what_a_metric_scores_inside(make):
    own = make(LLMJudge(Affirming(last=1)))
    report = evaluate(ROWS, own, judge="lexical", limits=Limits(deadline=0.2))
    assert report.run.stopped.startswith("the deadline of 0.2 s was reached")
    assert report.summary().judged == 0


@pytest.mark.parametrize("make", [as_function, as_class])
def test_what_a_metric_scores_inside_counts_in_its_own_usage(make):
    own = make(LLMJudge(Affirming(last=9)))
    report = evaluate(ROWS[:1], own, judge="lexical")
    assert (report.usage.calls, report.usage.cost) == (1, 0.25)


class OwnEvidence(Evidence):
    kind: str = "own_words"
    words: int = 0


def test_evidence_is_read_back_as_what_it_was_and_without_its_class_as_plain_fields():
    result = Scored(metric="own", value=1.0, reason="r", evidence=OwnEvidence(words=3))
    assert Scored.model_validate_json(result.model_dump_json()) == result
    foreign = Scored(
        metric="own", value=1.0, reason="r", evidence=Evidence(kind="unknown", words=3)
    )
    read = Scored.model_validate_json(foreign.model_dump_json())
    assert read == foreign
    assert read.model_dump()["evidence"] == {"kind": "unknown", "words": 3}


class Polled(Metric):
    """Takes its fields as flat names, and has settings of its own."""

    name: str = "polled"
    requires = ("answer",)
    polls: int = 1
    told: str = ""

    def plan(self, sample: Sample) -> Any:
        raise LookupError(sample.answer) if not self.told else SettingError(self.told)
        yield


def test_fields_that_are_required_are_named_alone_in_groups_or_in_a_list():
    written = ["answer", ["answer"], ("answer", ["reference", "facts"])]
    groups = [metric(requires=own)(shortness).needs for own in written]  # type: ignore[arg-type]
    assert groups == [
        (("answer",),),
        (("answer",),),
        (("answer",), ("reference", "facts")),
    ]


def test_a_metric_that_is_made_takes_no_settings_and_goes_by_its_place(module):
    place = f"{module}:politeness"
    assert metric_named(place).name == "politeness"
    with pytest.raises(SettingError, match=f"{place} takes no settings"):
        metric_named(place, {"polls": 3})


def test_a_class_takes_flat_names_and_refuses_unknown_ones_when_it_is_made():
    assert Polled().needs == (("answer",),)
    with pytest.raises(SettingError, match="requires names anwser"):
        type("Wrong", (Polled,), {"requires": ("anwser",), "__module__": __name__})


def test_prompts_stand_in_the_signature_of_a_class_and_not_of_a_function():
    first, second = (Instructions(f"Judge {n}.\n---\n{{answer}}") for n in "12")

    class Asking(Polled):
        def instructions(self) -> tuple[Instructions, ...]:
            return (second if self.told else first,)

    assert Asking().signature.prompt != Asking(told="no").signature.prompt
    assert asking(first).signature == asking(second).signature


def asking(told: Instructions) -> Metric:
    @metric(requires=["answer"])
    def asked(sample: Sample) -> Any:
        question = Question(
            parts={"answer": Part("Answer", sample.answer)},
            instructions=told,
            Reply=OwnReply,
        )
        [reply] = yield from ask([question])
        return bool(reply.reply.good)

    return asked


class OwnReply(BaseModel):
    good: bool


def test_a_table_says_why_nothing_was_scored():
    report = evaluate(
        ROWS, [asking(Instructions("{anwser}")), lengthy], judge=ScriptedJudge({})
    )
    said = (
        "asked failed, e.g.: asked: the template has {anwser}, of which this question"
    )
    assert said in report.table()
    assert said in report._repr_html_()
    assert "lengthy failed" not in report.table()


@pytest.mark.parametrize("place", ["{}:Counted", "Counted"])
def test_a_setting_of_a_class_of_ones_own(place, tmp_path, monkeypatch, capsys):
    name = f"counted_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        "from ragmetrics_core import Metric\n\nclass Counted(Metric):\n    name: str ="
        " 'counted'\n    most: int = 1\n    def plan(self, sample):\n        yield from"
        " ()\n        return self.scored(self.most / 10, 'r')\n"
    )
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]))
    monkeypatch.chdir(tmp_path)
    arguments = [
        "evaluate",
        "rows.jsonl",
        "--metrics",
        f"{name}:Counted",
        "--quiet",
        "--set",
    ]
    assert main([*arguments, f"{place.format(name)}.most=7"]) == 0
    assert " .70 " in capsys.readouterr().out
    assert main([*arguments, "counting.most=7"]) == 2
    assert "module:name.field" in capsys.readouterr().err


def test_own_settings_are_in_the_signature_and_texts_only_as_a_digest():
    assert (
        len(
            {
                Polled().signature,
                Polled(polls=2).signature,
                Polled(told="a|b").signature,
            }
        )
        == 3
    )
    assert "a|b" not in str(Polled(told="a|b").signature)


class Told(Polled):
    """Has a setting with the name of a field of signatures."""

    prompt: str = "p"


def test_a_setting_named_as_a_field_of_signatures_is_not_lost_in_the_line():
    lines = {str(Told().signature), str(Told(prompt="q").signature)}
    assert len(lines) == 2
    assert {str(Signature.model_validate(line)) for line in lines} == lines


def test_a_crash_says_our_own_sentence_or_where_the_metric_stands():
    assert Polled(told="set it to 2").score(answer="a").reason == "polled: set it to 2"
    assert f"LookupError in plan ({__file__}:" in Polled().score(answer="a").reason

    @metric
    def lost(sample: Sample) -> float:
        return json.loads("{")

    assert f"JSONDecodeError in lost ({__file__}:" in lost.score(answer="a").reason


def test_an_async_function_is_a_metric():
    """All share one loop, and with it what is bound to a loop; they run side by side."""
    both_arrived = asyncio.Barrier(2)

    @metric(requires=["answer"])
    async def meets(sample: Sample) -> float | None:
        await both_arrived.wait()
        result = await ContextAdherence().ascore(sample, judge="lexical")
        return result.value

    rows = [
        {"answer": "Anna lit it.", "contexts": [text]}
        for text in ("Rain.", "Anna lit it.")
    ]
    low, high = evaluate(rows, [meets], judge="lexical").scores("meets")
    assert low is not None
    assert high is not None
    assert low < 0.5 < high


def test_what_an_async_function_raises_is_a_failure():
    @metric
    async def broken(sample: Sample) -> float:
        raise KeyError(sample.answer)

    @metric
    async def waits(sample: Sample) -> float:
        return ContextAdherence().score(sample, judge="lexical").value or 0.0

    assert "KeyError in broken" in broken.score(answer="a").reason
    assert "await metric.ascore" in str(waits.score(answer="a", contexts=["a"]))


async def later_still(sample: Sample) -> Any:
    yield 1.0


def of_two(sample: Sample, other: Sample) -> float:
    return 1.0


def of_a_name_alone(*, sample: Sample) -> float:
    return 1.0


def with_a_default(sample: Sample, most: int = 3) -> float:
    return 1.0


class CallableObject:
    def __call__(self, sample: Sample) -> float:
        return 1.0

    def method(self, sample: Sample) -> float:
        return 1.0


MISTAKES: dict[str, tuple[Any, str]] = {
    "async generator": (
        lambda: metric(later_still),
        "later_still is an async generator",
    ),  # type: ignore[arg-type]
    "a name in its place": (lambda: metric("politeness"), "a name is given as name="),  # type: ignore[call-overload]
    "a class": (lambda: metric(CallableObject), "a class inherits from Metric"),  # type: ignore[arg-type]
    "a builtin": (lambda: metric(len), "got a builtin_function_or_method: write a def"),  # type: ignore[arg-type]
    "two parameters": (
        lambda: metric(of_two),
        r"of_two\(.* cannot be called with a sample alone",
    ),  # type: ignore[arg-type]
    "a keyword": (
        lambda: metric(of_a_name_alone),
        "cannot be called with a sample alone",
    ),  # type: ignore[arg-type]
    "version 2": (lambda: metric(version=2), 'is a text: write version="2"; got 2'),  # type: ignore[call-overload]
    "an empty version": (
        lambda: metric(version=" "),
        "is a text: write version=\"2\"; got ' '",
    ),
    "an empty name": (
        lambda: metric(name=""),
        "the name of a metric is the key of its results",
    ),
    "a number as name": (
        lambda: metric(name=2),
        "the name of a metric is the key of its results",
    ),  # type: ignore[call-overload]
    "version of a class": (
        lambda: type("Own", (Polled,), {"version": 2, "__module__": __name__}),
        'of Own is a text: write version="2"; got 2',
    ),
    "requires no names": (
        lambda: metric(requires=5),
        "requires names fields of a sample.*got int",
    ),  # type: ignore[call-overload]
    "requires None": (
        lambda: metric(requires=None),
        "requires names fields of a sample.*got NoneType",
    ),  # type: ignore[call-overload]
    "the function": (
        lambda: evaluate(ROWS, [shortness]),
        "the function shortness: make a metric of it with @metric",
    ),  # type: ignore[list-item]
    "the function alone": (lambda: evaluate(ROWS, shortness), "the function shortness"),  # type: ignore[arg-type]
}


def test_a_class_stands_for_its_metric_with_the_usual_settings():
    from ragmetrics_core.metrics import ContextAdherence

    for metrics in (ContextAdherence, [ContextAdherence], ["adherence"]):
        report = evaluate(ROWS, metrics, judge="lexical")
        assert report.metrics == ("context_adherence",)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_before_a_row_is_looked_at(mistake):
    make, said = MISTAKES[mistake]
    with pytest.raises(SettingError, match=said):
        make()


@pytest.mark.parametrize(
    "function",
    [with_a_default, CallableObject().method, lambda *samples: 1.0, shortness],
)
def test_whatever_takes_a_sample_is_a_metrics_function(function):
    assert metric(name="own")(function).score(answer="").value == 1.0


def yields_a_number(sample: Sample) -> Any:
    yield 5
    return 0.5


def asks_a_text(sample: Sample) -> Any:
    yield from ask("yes")  # type: ignore[arg-type]
    return 0.5


def asks_no_list(sample: Sample) -> Any:
    yield from ask(Question(parts={}, instructions=Instructions(""), Reply=OwnReply))  # type: ignore[arg-type]
    return 0.5


def asks_a_question_beside_a_text(sample: Sample) -> Any:
    yield from ask(
        [Question(parts={}, instructions=Instructions(""), Reply=OwnReply), "?"]
    )  # type: ignore[list-item]
    return 0.5


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (yields_a_number, "int"),
        (asks_a_text, "str"),
        (asks_no_list, "Question"),
        (asks_a_question_beside_a_text, "str"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_is_no_question_is_not_asked_and_gives_no_score(function, got):
    judge = ScriptedJudge({})
    result = metric(name="own")(function).score(answer="a", judge=judge)
    assert (result.status, judge.asked) == ("failed", [])
    assert re.search(
        rf"own: a metric's plan asks questions: .*'.*; got {got}$", result.reason
    )


class Written(Metric):
    """What somebody wrote in the place of a plan."""

    name: str = "own"
    what: str
    unless: Any = None

    def gap(self, sample: Sample) -> Any:
        return self.unless or super().gap(sample)

    def plan(self, sample: Sample) -> Any:
        if self.what == "outcome":
            return self.scored(1.0, "")
        return 0.5 if self.what == "number" else self._plan()

    def _plan(self) -> Any:
        yield from ask([])
        return 0.5


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (Written(what="outcome"), "plan must be a generator.* It returned Scored"),
        (Written(what="number"), "plan must be a generator.* It returned float"),
        (Written(what="generator"), "a plan must return what self.scored.* got float"),
        (
            Written(what="generator", unless="no answer"),
            r"gap must return self.undefined\(...\) or None, got str",
        ),
        (
            Written(what="generator", unless=True),
            r"gap must return self.undefined\(...\) or None, got bool",
        ),
    ],
)
def test_a_class_that_does_not_do_what_a_metric_does_says_what_it_must_do(own, said):
    report = evaluate(ROWS, [own, lengthy], judge="lexical")
    for row in report.results:
        assert re.fullmatch(f"own: {said}", row.results["own"].reason, re.DOTALL)
        assert row.results["lengthy"].status == "scored"


@pytest.mark.parametrize(
    "text",
    [
        "def f(:",
        "unknown",
        "from ragmetrics_core import metric\nmetric(requires=['x'])",
    ],
)
def test_a_faulty_module_is_one_line(text, tmp_path, monkeypatch, capsys):
    name = f"faulty_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]))
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "rows.jsonl", "--metrics", f"{name}:f"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


class Weights(BaseModel):
    """A setting with settings of its own."""

    words: int
    numbers: int


class WithModel(Metric):
    """A metric with a model among its settings."""

    name: str = "with_model"
    weights: Weights

    def plan(self, sample: Sample) -> Any:
        """Nothing to ask."""
        yield from ()
        return self.scored(1.0, "")


def test_a_setting_that_is_a_model_is_in_the_signature():
    weights = [Weights(words=1, numbers=2), Weights(words=2, numbers=1)]
    signatures = [WithModel(weights=each).signature for each in weights]
    assert signatures[0] != signatures[1]
    assert signatures[0] == WithModel(weights=weights[0].model_copy()).signature


def test_the_contract_takes_the_metric_as_an_attribute_and_says_what_it_got():
    class OfShortness(MetricContract):
        metric = lengthy  # type: ignore[assignment]

    OfShortness().test_settings_survive_json()

    class OfNothing(MetricContract):
        def metric(self) -> Any:
            return "lengthy"

    with pytest.raises(AssertionError, match=r"returns it; got str"):
        OfNothing().test_settings_survive_json()


def test_a_result_that_lacks_a_field_says_which_and_no_text():
    @metric(requires=["answer"])
    def empty(sample: Sample) -> Any:
        return Undefined(reason=f"SECRET {sample.answer}", code="other")

    failed = empty.score(answer="SECRET")
    assert failed.error.type == "MetricCrashed"
    assert "ValidationError (Undefined: metric: missing) in empty" in failed.reason
    assert "SECRET" not in failed.reason


USUAL_FIELDS = {"question": "input", "answer": "output", "reference": "ground_truth"}


@pytest.mark.parametrize(("field", "other_name"), USUAL_FIELDS.items())
def test_score_takes_a_field_by_its_name_and_by_other_usual_names(field, other_name):
    """An editor completes the field's own name; both names give one sample."""
    seen = []

    @metric
    def field_of_sample(sample: Sample) -> bool:
        seen.append(getattr(sample, field))
        return True

    assert field in signature(field_of_sample.score).parameters
    field_of_sample.score(**{field: "Paris"})
    field_of_sample.score(**{other_name: "Paris"})
    asyncio.run(field_of_sample.ascore(**{field: "Paris"}))
    field_of_sample.score(**{field: None, other_name: "Paris"})
    assert seen[0]
    assert seen == [seen[0]] * 4

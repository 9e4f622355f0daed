"""A cascade: who decides, what is counted, and that it works wherever a judge does."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from loopback import Fault, LoopbackServer

from ragmetrics_core import (
    ContextAdherence,
    ContextRecall,
    ContextUtilization,
    LexicalJudge,
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Report,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import (
    Asked,
    ErrorInfo,
    JudgeUnavailable,
    QuestionNotSupported,
    TransientJudgeError,
    Weight,
)
from ragmetrics_core.data.errors import AuthenticationFailed, SettingError
from ragmetrics_core.data.results import Failed
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.judging.cascade import CascadeJudge
from ragmetrics_core.judging.judge import Judge
from ragmetrics_core.metrics.context_utilization import Useful
from ragmetrics_core.metrics.fact_matrix import ExtractFacts
from ragmetrics_core.metrics.polls import Adherent, adherence_reply
from ragmetrics_core.models.reply_store import MemoryStore
from ragmetrics_core.reporting.judge_card import Card

CARDS = Path(__file__).parents[1] / "docs" / "cards"
BAND = (0.2, 0.8)
ROW = {
    "question": "Who lit it?",
    "contexts": ["Anna lit the lamp."],
    "answer": "Anna lit the lamp.",
}


def sure(*chances: float) -> Any:
    """What a judge says that gives these probabilities of adherence."""
    verdict: Any = "yes" if min(chances) > 0.5 else "no"
    return Asked(
        (adherence_reply(verdict, "cheap", ("it",)),),
        weights=tuple(map(Weight, chances)),
    )


def polls(verdict: str) -> dict[str, Any]:
    unsupported = ["it"] if verdict == "no" else []
    return {"unsupported": unsupported, "claims": 1, "reason": "strong"}


def score(judge: Judge) -> Any:
    return ContextAdherence(cause=False).score(**ROW, judge=judge)


def scripted(said: Any, name: str) -> ScriptedJudge:
    return ScriptedJudge({Adherent: said}, name=name)


@pytest.mark.parametrize(
    ("chance", "value", "decided"),
    [
        (0.19, 0.19, "cheap"),
        (0.2, 1.0, "strong"),
        (0.5, 1.0, "strong"),
        (0.8, 1.0, "strong"),
        (0.81, 0.81, "cheap"),
    ],
)
def test_the_strong_judge_is_asked_inside_the_band_only(
    chance: float, value: float, decided: str
) -> None:
    strong = scripted(polls("yes"), "strong")
    result = score(CascadeJudge(scripted(sure(chance), "cheap"), strong, band=BAND))
    assert (result.value, result.reason) == (value, decided)
    assert len(strong.asked) == result.usage.passed == (decided == "strong")
    assert result.usage.spared == (decided == "cheap")


@pytest.mark.parametrize(("verdict", "decided"), [("yes", "strong"), ("no", "cheap")])
def test_a_probability_of_one_half_is_on_the_side_of_no(
    verdict: Any, decided: str
) -> None:
    cheap = scripted(
        Asked((adherence_reply(verdict, "cheap", ("it",)),), weights=(Weight(0.5),)),
        "cheap",
    )
    result = score(
        CascadeJudge(cheap, scripted(polls("yes"), "strong"), band=(0.6, 0.8))
    )
    assert result.reason == decided


@pytest.mark.parametrize(
    "cheap",
    [
        QuestionNotSupported("no"),
        TransientJudgeError("down"),
        polls("no"),  # without a probability
        sure(0.9, 0.5),  # one of its verdicts is unsure
        # it says no, and yes is probable
        Asked((adherence_reply("no", "cheap", ("it",)),), weights=(Weight(0.9),)),
    ],
)
def test_whatever_the_cheap_judge_does_not_answer_for_certain_the_strong_one_is_asked(
    cheap: Any,
) -> None:
    result = score(
        CascadeJudge(
            scripted(cheap, "cheap"), scripted(polls("yes"), "strong"), band=BAND
        )
    )
    assert (result.value, result.reason, result.usage.passed) == (1.0, "strong", 1)


def test_where_the_strong_judge_does_not_know_the_question_the_cheap_reply_stands() -> (
    None
):
    result = score(
        CascadeJudge(scripted(sure(0.6), "cheap"), ScriptedJudge({}), band=BAND)
    )
    assert (result.value, result.reason) == (0.6, "cheap")
    neither = score(CascadeJudge(ScriptedJudge({}), ScriptedJudge({}), band=BAND))
    assert isinstance(neither, Failed)
    assert neither.error.type == "QuestionNotSupported"


def test_where_the_strong_judge_fails_so_does_the_question() -> None:
    result = score(
        CascadeJudge(
            scripted(sure(0.6), "cheap"),
            scripted(TransientJudgeError("down"), "strong"),
            band=BAND,
        )
    )
    assert isinstance(result, Failed)
    assert result.error == ErrorInfo(type="TransientJudgeError", message="down")


def test_a_cascade_of_cascades() -> None:
    inner = CascadeJudge(
        scripted(sure(0.6), "a"), scripted(sure(0.7), "b"), band=(0.3, 0.65)
    )
    result = score(CascadeJudge(inner, scripted(polls("yes"), "c"), band=(0.4, 0.75)))
    assert (result.value, result.usage.passed, result.judge) == (
        1.0,
        2,
        "cascade(cascade(a, b), c)",
    )


def test_its_name_and_settings_stand_in_the_signature() -> None:
    judge = CascadeJudge(
        LexicalJudge(), scripted(polls("yes"), "strong"), band=(0.3, 0.75)
    )
    result = score(judge)
    fit = LexicalJudge().details["fit"]
    assert str(result.signature).endswith(
        f"|judge:cascade(lexical, strong)|band:0.3-0.75|cheap fit:{fit}"
    )
    assert pickle.loads(pickle.dumps(result)).signature == result.signature


@pytest.mark.parametrize(
    "band",
    [
        (0.8, 0.2),
        (-0.1, 0.5),
        (0.5, 1.1),
        (float("nan"), 1.0),
        (0.5,),
        "ab",
        0.5,
        (0.1, None),
        {"Adherent": (0.8, 0.2)},
        (0, 0.5, 1),
        (True, True),
        {"Adherent": (False, 0.5)},
    ],
)
def test_a_band_that_is_none_is_refused(band: Any) -> None:
    with pytest.raises(SettingError, match="the lower one first"):
        CascadeJudge(LexicalJudge(), LexicalJudge(), band=band)


def test_bands_of_no_question_are_refused() -> None:
    with pytest.raises(SettingError, match="a cascade needs a band"):
        CascadeJudge(LexicalJudge(), LexicalJudge(), band={})


@pytest.mark.parametrize(
    ("band", "decided"),
    [
        ((0.5, 0.5), "cheap"),
        ((0.6, 0.6), "strong"),
        ((0.0, 1.0), "strong"),
        ((0, 0), "cheap"),
    ],
)
def test_a_band_may_be_one_probability_or_all(
    band: tuple[float, float], decided: str
) -> None:
    judge = CascadeJudge(
        scripted(sure(0.6), "cheap"), scripted(polls("yes"), "strong"), band=band
    )
    assert score(judge).reason == decided


def test_a_cheap_judge_that_answers_nothing_ends_the_run_and_the_strong_one_is_not_asked() -> (
    None
):
    strong = scripted(polls("yes"), "strong")
    judge = CascadeJudge(
        scripted(AuthenticationFailed("no key"), "cheap"), strong, band=BAND
    )
    with pytest.raises(AuthenticationFailed, match="no key"):
        evaluate(ROWS, ["context_adherence"], judge=judge, progress=False)
    assert strong.asked == []


def test_what_is_no_judge_is_refused() -> None:
    with pytest.raises(SettingError, match="two judges"):
        CascadeJudge(LexicalJudge(), "gpt-4o-mini")  # type: ignore[arg-type]


ROWS = [
    {
        "question": "Who lit it?",
        "contexts": ["Anna lit the old lamp.", "Fog came."],
        "answer": answer,
        "reference": "A.",
    }
    for answer in (
        "Anna lit the old lamp.",
        "Nobody knows Peter's harbour.",
        "Anna lit the fog horn.",
    )
]


def remote(server: LoopbackServer) -> LLMJudge:
    return LLMJudge(OpenAICompatibleModel(server.base_url, "large"))


def test_a_run_counts_what_was_saved_and_keeps_replies_as_those_of_the_strong_judge(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server, store, metrics = (
        loopback_server(),
        MemoryStore(),
        [ContextUtilization(), ContextAdherence()],
    )
    report = evaluate(
        ROWS,
        metrics,
        judge=CascadeJudge(LexicalJudge(), remote(server), band=BAND),
        store=store,
        progress=False,
    )
    usage = report.usage
    assert report.run.judges == ("cascade(lexical, openai-compatible/large)",)
    assert usage.models == ("large",)
    assert all(
        result.status == "scored"
        for row in report.results
        for result in row.results.values()
    )
    assert usage.spared > 0 < usage.passed
    asked = len(server.requests)
    assert 0 < asked == usage.calls
    again = evaluate(
        ROWS,
        metrics,
        judge=CascadeJudge(LexicalJudge(), remote(server), band=BAND),
        store=store,
        progress=False,
    )
    assert (len(server.requests), again.usage.calls) == (asked, 0)
    assert again.scores("context_utilization") == report.scores("context_utilization")
    alone = evaluate(ROWS, metrics, judge=remote(server), store=store, progress=False)
    assert alone.usage.stored > 0  # the strong judge alone takes them, too


def test_a_metric_of_several_questions_takes_from_each_judge_what_it_can(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    cheap = ScriptedJudge({ExtractFacts: QuestionNotSupported("no")}, name="cheap")
    report = evaluate(
        ROWS,
        [RetrievalAccuracy(), ContextRecall()],
        judge=CascadeJudge(cheap, remote(loopback_server()), band=BAND),
        progress=False,
    )
    assert [row.results["retrieval_accuracy"].status for row in report.results] == [
        "scored"
    ] * 3
    assert report.usage.spared == 0 < report.usage.passed


def test_limits_hold_for_the_strong_judge(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server()
    cheap = ScriptedJudge({})
    cheap.free = True  # else its questions are calls, too
    judge = CascadeJudge(cheap, remote(server), band=BAND)
    report = evaluate(
        ROWS,
        ["context_adherence"],
        judge=judge,
        limits=Limits(max_calls=2),
        progress=False,
    )
    assert len(server.requests) == 2
    assert "max_calls=2 was reached" in report.run.stopped


def test_a_strong_judge_that_answers_nothing_ends_the_run(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server(faults=lambda number: Fault(status=401))
    with pytest.raises(JudgeUnavailable):
        evaluate(
            ROWS,
            ["context_adherence"],
            judge=CascadeJudge(ScriptedJudge({}), remote(server), band=BAND),
            progress=False,
        )


def test_a_dry_run_asks_the_free_judge_and_counts_what_it_passes_on(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    server = loopback_server()
    judge = CascadeJudge(LexicalJudge(), remote(server), band=(0.4, 0.9))
    metrics = [ContextUtilization(), ContextAdherence(cause=False)]
    samples = [Sample.from_row(row) for row in ROWS]
    counted = estimate(samples, metrics, judge)
    assert server.requests == []
    report = evaluate(ROWS, metrics, judge=judge, progress=False)
    usage = report.usage
    assert usage.spared > 0 < usage.passed
    # at the most nothing is useful, and the judge is asked whether an answer declines
    assert counted.low.spared <= usage.spared <= counted.high.spared
    assert counted.low.passed <= usage.passed <= counted.high.passed
    assert counted.low.calls <= usage.calls <= counted.high.calls
    assert counted.low.calls > 0
    said = re.search(r"asked; (\d) to (\d) of (\d+) questions pass on", counted.text())
    assert said is not None
    assert [int(number) for number in said.groups()] == [
        counted.low.passed,
        counted.high.passed,
        counted.high.spared + counted.high.passed,
    ]


def test_a_dry_run_asks_the_free_judge_of_a_ladder(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    strong = remote(loopback_server())
    samples, metrics = [Sample.from_row(row) for row in ROWS], [ContextUtilization()]
    free = CascadeJudge(LexicalJudge(), LexicalJudge(), band=(0.0, 1.0))
    ladder = CascadeJudge(
        LexicalJudge(), CascadeJudge(strong, strong, band=BAND), band=(0.0, 1.0)
    )
    alone = estimate(samples, metrics, strong)
    everything = estimate(samples, metrics, ladder)
    assert everything.low.calls == alone.low.calls
    assert everything.high.calls == 2 * alone.high.calls
    assert estimate(samples, metrics, free).high.calls == 0


def test_a_dry_run_asks_no_judge_that_may_cost(
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    strong = remote(loopback_server())
    samples, metrics = [Sample.from_row(row) for row in ROWS], [ContextUtilization()]
    alone = estimate(samples, metrics, strong)
    both = estimate(samples, metrics, CascadeJudge(strong, strong, band=BAND))
    assert (both.low, both.high.calls) == (alone.low, 2 * alone.high.calls)
    cheap = ScriptedJudge({}, name="of one's own")
    unknown = estimate(samples, metrics, CascadeJudge(cheap, strong, band=BAND))
    assert cheap.asked == []
    n_questions = 2 * len(ROWS)  # one for each chunk
    assert unknown.low.calls == n_questions
    assert unknown.high.calls == 2 * alone.high.calls
    assert unknown.low.cost is unknown.high.cost is None


def test_a_cascade_without_a_band_is_refused_with_the_command() -> None:
    with pytest.raises(SettingError) as refused:
        CascadeJudge(LexicalJudge(), ScriptedJudge({}))
    message = str(refused.value)
    assert "ragmetrics card --judge lexical --data labelled/ --out card.json" in message
    assert "band=Card.read(" in message


def test_a_band_for_one_type_of_question_passes_on_all_others() -> None:
    strong = ScriptedJudge(
        {Useful: {"useful": True}, Adherent: polls("yes")}, name="strong"
    )
    judge = CascadeJudge(LexicalJudge(), strong, band={"Adherent": (0.5, 0.5)})
    report = evaluate(
        ROWS[:1],
        [ContextUtilization(), ContextAdherence(cause=False)],
        judge=judge,
        progress=False,
    )
    assert (report.usage.spared, report.usage.passed) == (1, 2)
    assert {type(question) for question in strong.asked} == {Useful}
    assert judge.details["band"] == "Adherent 0.5-0.5"


def test_the_band_of_a_card(tmp_path: Path) -> None:
    card = Card.read(CARDS / "lexical.json")
    bands = card.bands(0.05)
    assert set(bands) == {"Adherent", "Useful"}
    judge = CascadeJudge(LexicalJudge(), ScriptedJudge({}), band=bands)
    assert judge.band == bands
    with pytest.raises(SettingError, match=r"no band for a loss of 0\.03; .*0\.02"):
        card.bands(0.03)
    no_card = tmp_path / "no_card.json"
    no_card.write_text("{}")
    with pytest.raises(SettingError, match=r"no_card\.json is no card"):
        Card.read(no_card)


def test_the_bands_of_the_card_lose_little_on_sources_that_it_does_not_know() -> None:
    card = Card.read(CARDS / "lexical.json")
    left_out = [
        one
        for one in card.decided["adherent"]
        if (one.goal, one.limit) == ("lost", 0.05) and one.source is not None
    ]
    assert len(left_out) == 4
    assert fmean(one.lost for one in left_out) <= 0.07


def test_on_the_command_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    loopback_server: Callable[..., LoopbackServer],
) -> None:
    monkeypatch.chdir(tmp_path)
    server = loopback_server()
    Path("my_cascade.py").write_text(f"""
from ragmetrics_core import LexicalJudge, LLMJudge, OpenAICompatibleModel
from ragmetrics_core.judging.cascade import CascadeJudge
judge = CascadeJudge(LexicalJudge(), LLMJudge(OpenAICompatibleModel({server.base_url!r}, "large")), band=(0.2, 0.8))
""")
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    command = [
        "evaluate",
        "--explain",
        "rows.jsonl",
        "--judge",
        "my_cascade:judge",
        "--metrics",
        "context_utilization",
        "--quiet",
    ]
    assert main([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "calls:             0\n" not in told
    assert "questions pass on to the strong one" in told
    assert main([*command, "--out", "r.jsonl", "--report", "r.html"]) == 0
    told = capsys.readouterr().out
    usage = Report.from_jsonl("r.jsonl").usage
    counted = f"{usage.spared} of {usage.spared + usage.passed} questions"
    assert "Spent: " in told
    assert f"the cheap judge decided {counted}" in told
    assert counted in Path("r.html").read_text()
    assert main([*command, "--max-cost", "1"]) == 2
    assert (
        "the price of openai-compatible/large is not known" in capsys.readouterr().err
    )

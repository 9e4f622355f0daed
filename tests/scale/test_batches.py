"""Runs that ask in batches: equal to live ones, at the batch's price, and nothing is ever asked twice."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import pytest
from batch_service import BatchService
from loopback import Body, Fault, LoopbackServer
from plausible import plausible_reply
from pydantic import BaseModel, field_validator

from ragmetrics_core import (
    Limits,
    LLMJudge,
    OpenAICompatibleModel,
    Question,
    Report,
    Sample,
    ScriptedJudge,
    ask,
    evaluate,
    metric,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import BatchFailed, SettingError, Usage
from ragmetrics_core.data.asking import Instructions, Part
from ragmetrics_core.models import attempts
from ragmetrics_core.scale import batch_table, batches

METRICS = ["utilization", "adherence", "recall", "retrieval_accuracy"]
ROWS = [
    {
        "id": str(number),
        "question": f"Who lit lamp {number}?",
        "contexts": [f"Anna lit lamp {number}.", f"Bob saw lamp {number}."],
        "answer": f"Anna lit lamp {number}.",
        "reference": f"Anna lit lamp {number}. It was dark.",
    }
    for number in range(6)
]


def model(
    server: LoopbackServer, key: str = "right", **settings: Any
) -> OpenAICompatibleModel:
    given = {"prices": (1e-6, 2e-6), **settings}
    made = OpenAICompatibleModel(server.base_url, "m", api_key=key, **given)
    made.batch_share = 0.5
    return made


def outcomes(report: Report) -> list[Any]:
    return [
        {
            name: outcome.model_dump(exclude={"usage"})
            for name, outcome in row.results.items()
        }
        for row in report.results
    ]


def spent(report: Report) -> Usage:
    return sum((row.usage for row in report.results), Usage())


def live(
    reply: Callable[[Body], Any] = plausible_reply,
    metrics: Any = METRICS,
    **supports: Any,
) -> Report:
    with LoopbackServer(reply, **supports) as server:
        return evaluate(ROWS, metrics, judge=model(server))


def asked(
    service: BatchService,
    store: Path,
    metrics: Any,
    how: bool | Literal["wait"] = "wait",
    **more: Any,
) -> Report:
    """Evaluate all rows in batches of a service."""
    return evaluate(ROWS, metrics, judge=model(service), store=store, batch=how, **more)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a minute."""
    monkeypatch.setattr(batches, "LOOK_SECONDS", 0.01)


def test_the_same_as_live_in_two_rounds_at_half_the_price(store):
    found = live()
    with BatchService(plausible_reply) as service:
        report = asked(service, store, METRICS)
        again = asked(service, store, METRICS, how=True)
    assert outcomes(report) == outcomes(found) == outcomes(again)
    assert len(service.batches) == 2  # facts first
    assert (spent(report).calls, spent(again).calls) == (spent(found).calls, 0)
    assert spent(report).cost == pytest.approx((spent(found).cost or 0) / 2)
    assert not service.requests  # none live


def test_a_run_says_what_it_submitted_and_the_next_goes_on(store):
    with BatchService(plausible_reply, steps=2) as service:
        reports = [
            evaluate(ROWS, ["recall"], judge=model(service), store=store, batch=True)
            for _ in range(4)
        ]
    assert len(service.batches) == 1
    assert [
        "6 requests wait for batches (1)" in report.run.stopped for report in reports
    ] == [True, True, True, False]
    assert not reports[0].results[0].results  # not judged yet
    assert outcomes(reports[3]) == outcomes(live(metrics=["recall"]))


def test_many_requests_are_several_batches(store, monkeypatch):
    monkeypatch.setattr(batch_table, "_MAX_REQUESTS", 4)
    with BatchService(plausible_reply, most=4) as service:
        report = asked(service, store, METRICS[:3])
    assert len(service.batches) > 2
    assert outcomes(report) == outcomes(live(metrics=METRICS[:3]))


def test_replies_that_cannot_be_used_are_repaired_in_a_batch(store):
    with BatchService(unusable_at_first) as service:
        report = asked(service, store, METRICS[:3])
        again = asked(service, store, METRICS[:3])
    # the second repairs, two more look for causes, and repair that
    assert len(service.batches) == 4
    assert spent(report).repairs > 0
    assert (
        outcomes(report)
        == outcomes(live(unusable_at_first, METRICS[:3]))
        == outcomes(again)
    )


@pytest.mark.parametrize(
    "supports",
    [
        pytest.param({"logprobs": "reject"}, marks=pytest.mark.nightly),
        pytest.param({"logprobs": "ignore"}, marks=pytest.mark.nightly),
        pytest.param({"n": "reject"}, marks=pytest.mark.nightly),
        {"n": "ignore"},
    ],
)
def test_what_a_service_lacks_is_asked_in_another_way(store, supports):
    with BatchService(plausible_reply, **supports) as service:
        for _ in range(20):  # by runs that know nothing of each other
            judge = model(service)
            report = evaluate(ROWS, METRICS, judge=judge, store=store, batch=True)
            if not report.run.stopped:
                break
    assert outcomes(report) == outcomes(live(**supports))
    assert max(service.executed.values()) <= 2  # the second time in another form


def test_what_expires_is_asked_again(store, caplog):
    caplog.set_level("INFO", "ragmetrics_core")
    with BatchService(
        plausible_reply, ends=lambda number: "completed" if number else "expired"
    ) as service:
        report = asked(service, store, METRICS[:3])
    assert outcomes(report) == outcomes(live(metrics=METRICS[:3]))
    assert set(service.executed.values()) == {1}
    assert "expired" in caplog.text


@pytest.mark.parametrize("first", [(404, {}), (200, b""), (200, "cut")])
def test_answers_that_cannot_be_read_yet_are_not_paid_again(store, first, monkeypatch):
    with BatchService(plausible_reply) as service:
        asked(service, store, ["recall"], how=True)
        # nobody looked for two hours
        monkeypatch.setattr(time, "time", lambda at=time.time: at() + 7200)
        service.unreadable = [first] * 3
        report = asked(service, store, ["recall"])
        assert len(service.batches) == 1
        assert not service.unreadable
    assert outcomes(report) == outcomes(live(metrics=["recall"]))


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_answers_that_are_gone_are_asked_again_up_to_three_times(
    store, gone, monkeypatch
):
    monkeypatch.setattr(batches, "SETTLED_SECONDS", 0.0)
    with BatchService(plausible_reply) as service:
        service.unreadable = [(404, {})] * gone
        report = asked(service, store, ["recall"])
    assert len(service.batches) == min(gone + 1, 3)
    if gone < 3:
        assert outcomes(report) == outcomes(live(metrics=["recall"]))
    else:
        assert {row.results["context_recall"].status for row in report.results} == {
            "failed"
        }


@pytest.mark.nightly
def test_one_request_that_is_never_answered_fails_its_row_alone_in_every_run(
    store, monkeypatch
):
    monkeypatch.setattr(batches, "SETTLED_SECONDS", 0.0)
    with BatchService(
        plausible_reply, silent=lambda body: "lamp 3" in str(body), steps=0
    ) as service:
        for _ in range(8):
            report = asked(service, store, ["recall"])
            results = [row.results["context_recall"] for row in report.results]
            statuses = [result.status for result in results]
            assert statuses == ["scored"] * 3 + ["failed"] + ["scored"] * 2
            assert "no_result" in results[3].reason
    assert sorted(service.executed.values())[:5] == [1] * 5, "nothing is paid twice"


@pytest.mark.parametrize("silent", ["lamp 3", "lamp"])
@pytest.mark.parametrize("metrics", [["adherence"], ["retrieval_accuracy"]])
def test_what_three_batches_do_not_answer_has_failed_and_all_else_is_scored(
    store, silent, metrics, monkeypatch
):
    """Neither a request that is never answered nor a service that answers none holds up the other results."""
    monkeypatch.setattr(batches, "SETTLED_SECONDS", 0.0)
    with BatchService(
        plausible_reply, silent=lambda body: silent in str(body), steps=0
    ) as service:
        for _ in range(9):
            report = evaluate(
                ROWS, metrics, judge=model(service), store=store, batch=True
            )
            if not report.run.stopped:
                break
    found = [next(iter(row.results.values())) for row in report.results]
    assert [one.status == "failed" for one in found] == [
        silent in row["question"] for row in ROWS
    ]
    assert all("no_result" in one.reason for one in found if one.status == "failed")
    assert max(service.executed.values()) == 3


def test_an_upload_that_fails_is_tried_again_and_then_an_error(store, monkeypatch):
    monkeypatch.setattr(attempts, "_FIRST_LONGEST_WAIT", 0.0)
    with BatchService(plausible_reply) as service:
        service.refused = [500] * 8
        with pytest.raises(
            BatchFailed,
            match=(
                r"a batch was not made, and the next run asks its requests: .*HTTP 500"
            ),
        ):
            asked(service, store, ["recall"], how=True)
        assert not service.refused
        service.refused, service.busy = [429, 503, 500] * 2, [429] * 3
        report = asked(service, store, ["recall"])
        assert not service.refused + service.busy
        assert len(service.batches) == 1
    assert outcomes(report) == outcomes(live(metrics=["recall"]))


def test_a_batch_that_may_have_been_made_is_not_made_again(store, caplog):
    with BatchService(plausible_reply) as service:
        service.busy = [500]
        report = asked(service, store, ["recall"], how=True)
        again = asked(service, store, ["recall"], how=True)
    assert "may have been made, and is looked for" in caplog.text
    assert report.run.stopped
    assert again.run.stopped
    assert not service.batches


def test_an_upload_that_took_so_long_that_others_gave_it_up_makes_no_batch(
    store, monkeypatch
):
    def wait_for_another(call: str, key: str, when: str) -> None:
        if (call, when) == ("upload", "after") and not service.batches:
            with closing(sqlite3.connect(store)) as file, file:
                (token,) = file.execute("SELECT token FROM batches").fetchone()
                batch_table.forget_batch(file, token, None)

    with BatchService(plausible_reply, around=wait_for_another) as service:
        report = asked(service, store, ["recall"], how=True)
        assert report.run.stopped
        assert not service.batches
        service.around = lambda *_: None
        report = asked(service, store, ["recall"])
    assert (len(service.batches), set(service.executed.values())) == (1, {1})
    assert not report.run.stopped


def test_a_run_whose_requests_another_process_takes_over_waits_for_its_batch(store):
    """Both put the request aside; the other has made its batch when this one begins."""
    to_run_meanwhile: list[Callable[[], Report]] = []
    others: list[Report] = []

    @metric(requires=["answer"])
    def claimed_meanwhile(sample: Sample) -> Any:
        question = Question(
            parts={"answer": Part("Answer", sample.answer)},
            instructions=Instructions("Is it good?\n{answer}"),
            Reply=Goodness,
        )
        try:
            [reply] = yield from ask([question])
        finally:
            if to_run_meanwhile:
                run_other = to_run_meanwhile.pop()
                other = Thread(target=lambda: others.append(run_other()))
                other.start()
                other.join()
        return bool(reply.reply.good)

    with BatchService(lambda _: '{"good": true}', steps=0) as service:

        def run() -> Report:
            return evaluate(
                ROWS[:1],
                [claimed_meanwhile],
                judge=model(service),
                store=store,
                batch=True,
            )

        to_run_meanwhile.append(run)
        first = run()
        second = run()
    for report in (*others, first):
        assert "1 requests wait for batches (1)" in report.run.stopped
    assert len(service.batches) == 1
    assert not second.run.stopped
    assert second.results[0].results["claimed_meanwhile"].status == "scored"


# What a service may say.

ODD: list[Any] = [None, "5", {"completed": "6"}]


@pytest.mark.nightly
@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("field", ["request_counts", "metadata", "errors", "id"])
def test_what_a_service_says_of_a_batch_may_be_of_any_type(
    store, field, odd, capsys, monkeypatch
):
    monkeypatch.setenv("RAGMETRICS_API_KEY", "right")
    with BatchService(plausible_reply, described={field: odd}) as service:
        asked(service, store, ["recall"], how=True)
        assert main(["store", "batches", "--store", str(store)]) == 0
        report = asked(service, store, ["recall"])
    assert outcomes(report) == outcomes(live(metrics=["recall"]))
    assert len(service.batches) == 1


def without_choices(line: Body) -> None:
    del line["response"]["body"]["choices"]


def gateway_error(line: Body) -> None:
    line["response"]["body"] = {"error": {"code": 429, "message": "slowly"}}


FORMS: dict[str, tuple[Callable[[Body], None], str, int]] = {
    "an error that came as a success": (gateway_error, "failed", 3),
    "no reply": (without_choices, "failed", 3),
}


@pytest.mark.parametrize(("change", "status", "tries"), FORMS.values(), ids=FORMS)
def test_what_a_batch_executed_is_counted_whatever_its_answer_is_worth(
    change, status, tries, store
):
    def changed(lines: list[Body]) -> list[Body]:
        for line in lines[1:]:  # the first is of a request that nobody asked
            change(line)
        return lines

    with BatchService(plausible_reply, answers=changed) as service:
        report = asked(service, store, ["recall"])
    assert {row.results["context_recall"].status for row in report.results} == {status}
    assert set(service.executed.values()) == {tries}
    assert spent(report).calls == sum(service.executed.values())


@pytest.mark.parametrize(("n_tokens", "is_cut"), [(2050, True), (9000, False)])
def test_a_prompt_that_a_service_of_batches_cut_gives_no_score(store, n_tokens, is_cut):
    def counted(lines: list[Body]) -> list[Body]:
        for line in lines:
            body = line["response"]["body"]
            if "usage" in body:  # no error
                body["usage"]["prompt_tokens"] = n_tokens
        return lines

    long = {**ROWS[0], "contexts": ["The keeper wrote about the boats. " * 800]}
    with BatchService(plausible_reply, answers=counted) as service:
        report, again = (
            evaluate(
                [long], "sufficiency", judge=model(service), store=store, batch="wait"
            )
            for _ in range(2)
        )
    for result in (report.results[0], again.results[0]):
        (outcome,) = result.results.values()
        assert (outcome.status == "failed") is is_cut
        assert ("read 2,050 tokens of a prompt of 6," in outcome.reason) is is_cut
    usage = spent(report) + spent(again)
    assert usage.calls == sum(service.executed.values())
    assert usage.prompt_tokens == n_tokens * usage.calls


def test_a_deadline_bounds_every_call_to_a_service_of_batches(store):
    with BatchService(plausible_reply) as service:
        service.refused = [503] * 99  # the upload is tried again for ten minutes
        given: Any = {
            "judge": model(service),
            "store": store,
            "batch": "wait",
            "progress": False,
        }
        report = evaluate(ROWS, ["recall"], limits=Limits(deadline=0.5), **given)
        assert report.run.stopped.startswith("the deadline of 0.5 s was reached")
        assert report.summary().judged == 0
        service.refused = []
        report = evaluate(ROWS, ["recall"], limits=Limits(deadline=60), **given)
    assert outcomes(report) == outcomes(live(metrics=["recall"]))


def test_a_deadline_bounds_the_wait_for_batches(store):
    with BatchService(plausible_reply, steps=10**9) as service:
        given: Any = {"judge": model(service), "store": store, "progress": False}
        report = evaluate(
            ROWS, ["recall"], batch="wait", limits=Limits(deadline=0.5), **given
        )
        # on a busy machine the deadline may come before the batch is made
        stopped = report.run.stopped
        assert "6 requests wait for batches (1)" in stopped or stopped.startswith(
            "the deadline of 0.5 s was reached"
        )
        service.steps = 1
        report = evaluate(
            ROWS, ["recall"], batch="wait", limits=Limits(deadline=60), **given
        )
    assert outcomes(report) == outcomes(live(metrics=["recall"]))
    assert len(service.batches) == 1


# What is left after a batch, asked without one.


def unusable_at_first(body: Body) -> str:
    """No JSON to a part of the questions, until they are asked again."""
    return (
        plausible_reply(body)
        if len(body["messages"]) > 2 or "lamp 3" not in str(body)
        else "no JSON"
    )


def test_who_cancels_a_further_batch_asks_what_is_left_without_one(store, monkeypatch):
    found = live(unusable_at_first, METRICS[:3])
    given: Any = {"store": store, "progress": False}
    with BatchService(unusable_at_first, steps=0) as service:
        judge = model(service)
        evaluate(ROWS, METRICS[:3], judge=judge, **given, batch=True)
        evaluate(ROWS, METRICS[:3], judge=judge, **given, batch=True)
        service.steps = 10  # the further batch takes its time
        monkeypatch.setenv("RAGMETRICS_API_KEY", "right")
        monkeypatch.setenv("RAGMETRICS_API_BASE", service.base_url)
        assert main(["store", "cancel", "--store", str(store)]) == 0
        monkeypatch.delenv("RAGMETRICS_API_BASE")
        assert not service.requests
        report = evaluate(ROWS, METRICS[:3], judge=judge, **given)
        again = evaluate(ROWS, METRICS[:3], judge=judge, **given)
    assert len(service.batches) == 2
    assert len(service.requests) == 16  # repairs, and causes
    assert outcomes(report) == outcomes(found) == outcomes(again)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limit_exceeded"), (500, "server_error")]
)
def test_what_fails_for_a_passing_reason_is_asked_again(store, status, code, caplog):
    caplog.set_level("INFO", "ragmetrics_core")
    failures = [(status, code)] * 3
    with BatchService(
        plausible_reply, wrong=lambda _: failures.pop() if failures else None
    ) as service:
        report = asked(service, store, METRICS[:3])
    assert outcomes(report) == outcomes(live(metrics=METRICS[:3]))
    assert " requests answered, 3 to be asked again" in caplog.text


def test_what_is_refused_fails_alone_and_is_asked_again_by_the_next_run(store):
    def wrong(body: Body) -> tuple[int, str] | None:
        return (400, "invalid_value") if "lamp 3" in str(body) and refusing else None

    refusing = True
    with BatchService(plausible_reply, wrong=wrong) as service:
        report = asked(service, store, ["adherence"])
        outcome = report.results[3].results["context_adherence"]
        refusing = False
        again = asked(service, store, ["adherence"])
    assert outcome.status == "failed"
    assert (outcome.error.type, "invalid_value" in outcome.reason) == (
        "RequestRejected",
        True,
    )
    assert outcome.error.raw == "It failed at …."  # without words of the sample
    assert outcome.error.raw in outcome.reason
    assert [row.results["context_adherence"].status for row in report.results].count(
        "scored"
    ) == 5
    assert outcomes(again) == outcomes(live(metrics=["adherence"]))


def test_what_a_batch_repeats_of_the_key_is_neither_told_nor_kept(store):
    key = 'p"w-7Hd82kLmQz41'
    refusal = {"status_code": 400, "body": {"error": {"message": f"Bad {key} sent"}}}

    def refused(lines: list[Body]) -> list[Body]:
        return [{**line, "response": refusal} for line in lines]

    with BatchService(plausible_reply, answers=refused) as service:
        judge = model(service, key)
        report = evaluate(
            ROWS[:1], ["adherence"], judge=judge, store=store, batch="wait"
        )
    assert report.results[0].results["context_adherence"].error.raw == "Bad … sent"
    for file in store.parent.iterdir():
        assert b"7Hd82kLmQz41" not in file.read_bytes()


def test_a_batch_that_is_refused_is_an_error_and_the_next_run_asks_again(store):
    with BatchService(
        plausible_reply, ends=lambda number: "completed" if number else "failed"
    ) as service:
        with pytest.raises(
            BatchFailed,
            match=r"batch_0: failed.* by the next run \(invalid_json_line.*\)$",
        ) as refused:
            asked(service, store, ["adherence"])
        report = asked(service, store, ["adherence"])
    assert "lamp" not in str(refused.value)  # the service quotes a line
    assert outcomes(report) == outcomes(live(metrics=["adherence"]))


def test_a_cancelled_batch_counts_failed_and_unanswered_requests_to_be_asked_again(
    store,
):
    failures = [(500, "server_error")]
    with (
        # of six requests the service executes three, and one of these fails
        BatchService(
            plausible_reply,
            ends=lambda _: "cancelled",
            wrong=lambda _: failures.pop() if failures else None,
        ) as service,
        pytest.raises(
            BatchFailed, match="cancelled, 2 requests answered, 4 to be asked again"
        ),
    ):
        asked(service, store, ["adherence"])


def test_a_wrong_key_is_told_before_anything_is_submitted(store):
    with BatchService(plausible_reply, key="right") as service:
        with pytest.raises(BatchFailed, match="refused the key"):
            evaluate(
                ROWS,
                ["adherence"],
                judge=model(service, "wrong"),
                store=store,
                batch=True,
            )
        report = asked(service, store, ["adherence"])
    assert not report.run.stopped
    assert set(service.executed.values()) == {1}


@pytest.mark.parametrize("limits", [Limits(max_calls=5), Limits(max_cost=1e-4)])
def test_a_budget_holds_before_anything_is_submitted(store, limits):
    with BatchService(plausible_reply) as service:
        with pytest.raises(BatchFailed, match="no batch was made"):
            asked(service, store, ["adherence"], how=True, limits=limits)
        assert not service.files
        roomy = Limits(max_calls=1000, max_cost=1.0)
        report = asked(service, store, ["adherence"], limits=roomy)
    assert not report.run.stopped


def some_polls_unusable(body: Body) -> Any:
    """No JSON as the third and fourth poll.

    All others find the answer unsupported, whose cause is asked.
    """
    if "rests on its contexts alone" not in str(body["messages"][0]):
        return plausible_reply(body)
    said = '{"reason": "", "supported": 0, "claims": 1, "unsupported": ["Anna lit it"]}'
    return [said, said, "no JSON", "no JSON", said][: body.get("n")]


def test_all_that_was_paid_is_counted_however_many_passes_it_took(store):
    found = live(some_polls_unusable, ["adherence"])
    with BatchService(some_polls_unusable) as service:
        report = asked(service, store, ["adherence"])
        again = asked(service, store, ["adherence"])
    sizes = [
        len(service.files[batch["input_file_id"]].splitlines())
        for batch in service.batches
    ]
    assert sizes == [6, 12, 12]  # polls, repairs, two for each cause
    assert spent(report).calls == spent(found).calls == sum(sizes)
    assert spent(report).repairs == spent(found).repairs == 12
    assert spent(report).cost == pytest.approx((spent(found).cost or 0) / 2)
    assert outcomes(report) == outcomes(found) == outcomes(again)
    with closing(sqlite3.connect(store)) as file:
        assert file.execute("SELECT * FROM parked").fetchall() == []


def test_a_request_that_is_always_refused_makes_no_other_be_asked_again(store):
    def wrong(body: Body) -> tuple[int, str] | None:
        return (400, "invalid_prompt") if "lamp 3" in str(body) else None

    with BatchService(some_polls_unusable, wrong=wrong) as service:
        for _ in range(20):
            report = asked(service, store, ["adherence"], how=True)
            if not report.run.stopped:
                break
    assert report.results[3].results["context_adherence"].status == "failed"
    counts = sorted(service.executed.values())
    assert counts[:-1] == [1] * 25  # five rows, each with two repairs and a cause
    # with those that were rejected
    assert spent(report).calls == sum(service.executed.values())


def test_a_cap_counts_replies_without_the_log_probabilities_that_were_asked_for(store):
    given: Any = {"store": store, "batch": "wait", "progress": False}
    with BatchService(plausible_reply, logprobs="ignore") as service:
        with pytest.raises(BatchFailed, match="no batch was made: 42 requests"):
            evaluate(
                ROWS,
                ["retrieval_accuracy"],
                judge=model(service),
                limits=Limits(max_calls=41),
                **given,
            )
        # facts, and verdicts with nothing but a text
        assert sum(service.executed.values()) == 30
        report = evaluate(
            ROWS,
            ["retrieval_accuracy"],
            judge=model(service),
            limits=Limits(max_calls=42),
            **given,
        )
    assert sum(service.executed.values()) == spent(report).calls == 42


def test_a_price_that_is_not_known_is_not_half_of_anything(store):
    with BatchService(plausible_reply) as service:
        judge = model(service, prices=None)
        report = evaluate(ROWS, ["adherence"], judge=judge, store=store, batch="wait")
    assert spent(report).cost is None


def test_only_our_own_client_and_a_file_take_batches(store):
    scripted, one = (
        ScriptedJudge({}),
        OpenAICompatibleModel("http://127.0.0.1:9/v1", "m"),
    )
    for judge in ("lexical", scripted):
        with pytest.raises(
            SettingError, match=r"take batches: .* \(--judge\).* \(--batch"
        ):
            evaluate(ROWS, judge=judge, store=store, batch=True)
    with pytest.raises(SettingError, match="file of replies"):
        evaluate(ROWS, judge=LLMJudge(one), store=None, batch=True)
    with pytest.raises(SettingError, match="limits per minute"):
        evaluate(
            ROWS,
            judge=LLMJudge(one),
            store=store,
            batch=True,
            limits=Limits(requests_per_minute=5),
        )
    with pytest.raises(SettingError, match="list"):
        evaluate(iter(ROWS), judge=LLMJudge(one), store=store, batch=True)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(400, code="billing_hard_limit_reached"),
        Fault(429, code="insufficient_quota"),
    ],
)
def test_a_used_up_budget_is_told_where_a_batch_is_made(fault, store):
    with (
        LoopbackServer(faults=lambda _: fault) as server,
        pytest.raises(BatchFailed, match="the quota or budget for"),
    ):
        asked(server, store, ["adherence"], how=True)


def test_an_endpoint_without_batches_says_so(store):
    with (
        LoopbackServer(faults=lambda _: Fault(404)) as server,
        pytest.raises(BatchFailed, match="ask without batches"),
    ):
        asked(server, store, ["adherence"], how=True)


# Killed at any instant.

KILLED = """
import json, os, sys
from ragmetrics_core import OpenAICompatibleModel, evaluate
from ragmetrics_core.scale import batches
batches.SETTLED_SECONDS = 0.0  # what the service does not list was not made: nobody else is about to
rows, metrics, url, store = json.loads(sys.argv[1])
given = {"store": store, "batch": "wait", "progress": False, "concurrency": 1}
for _ in range(60):
    child = os.fork()
    if not child:
        judge = OpenAICompatibleModel(url, "m", api_key=str(os.getpid()))
        report = evaluate(rows, metrics, judge=judge, **given)
        print(json.dumps([[one.value for one in row.results.values()] for row in report.results]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.mark.nightly
def test_a_run_that_is_killed_around_each_call_submits_nothing_twice(store):
    killed: set[tuple[int, str, str]] = set()

    def kill(call: str, key: str, when: str) -> None:
        place = (len(service.batches), call, when)
        if place not in killed:
            killed.add(place)
            with suppress(ProcessLookupError):
                os.kill(int(key), signal.SIGKILL)

    with BatchService(plausible_reply, steps=0, around=kill) as service:
        given = json.dumps([ROWS, METRICS, service.base_url, str(store)])
        command = [sys.executable, "-W", "ignore", "-c", KILLED, given]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=100
        )
    assert {call for _, call, _ in killed} == {
        "upload",
        "create",
        "list",
        "retrieve",
        "content",
    }
    assert (len(service.batches), set(service.executed.values())) == (2, {1})
    expected = [
        [outcome.value for outcome in row.results.values()] for row in live().results
    ]
    assert json.loads(done.stdout) == expected


# The command line.


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return "rows.jsonl"


def test_the_command_line_submits_looks_collects_and_goes_on(file, store, capsys):
    with BatchService(plausible_reply, steps=1, key="right") as service:
        told = (
            f"evaluate {file} --metrics adherence --judge openai/gpt-4o-mini --api-base"
            f" {service.base_url}"
        )
        where = [
            "--store",
            str(store),
            "--api-base",
            service.base_url,
            "--api-key-env",
            "OPENAI_API_KEY",
        ]
        told += " --api-key-env OPENAI_API_KEY"
        asked = [*f"{told} --quiet --out r.jsonl --store".split(), str(store)]
        assert main([*asked, "--batch", "--fail-under", "adherence=0.1"]) == 4
        assert not list(Path().glob("r.jsonl*"))
        assert main(["store", "batches", *where]) == 0
        assert "batch_0: finalizing 0 total" in capsys.readouterr().out
        assert main(["store", "collect", *where]) == 0
        assert "batch_0: completed" in capsys.readouterr().out
        assert main(["store", "batches", "--store", str(store)]) == 0
        assert "no batch is on its way" in capsys.readouterr().out
        # Until the last connection is closed, they may stand in the file beside it.
        files = store.parent.glob(f"{store.name}*")
        assert any(b"unsupported" in file.read_bytes() for file in files)
        assert main(["store", "clear", "--store", str(store)]) == 0
        assert b"unsupported" not in store.read_bytes()  # what was collected goes, too
        gate = ["--fail-under", "adherence=0.1"]
        while main([*asked, "--batch", *gate]) == 4:
            pass
    assert Report.from_jsonl("r.jsonl").scores("context_adherence") == live(
        metrics=["adherence"]
    ).scores("context_adherence")


def test_what_is_cancelled_is_not_asked_again_by_the_run_that_waits(
    file, store, monkeypatch
):
    with BatchService(plausible_reply) as service:
        judge = model(service)
        evaluate(ROWS, ["adherence"], judge=judge, store=store, batch=True)
        monkeypatch.setenv("RAGMETRICS_API_KEY", "right")
        monkeypatch.setenv("RAGMETRICS_API_BASE", service.base_url)
        assert main(["store", "cancel", "--store", str(store)]) == 0
        monkeypatch.delenv("RAGMETRICS_API_BASE")
        with pytest.raises(BatchFailed, match="cancelled, 3 requests answered"):
            evaluate(ROWS, ["adherence"], judge=judge, store=store, batch="wait")
        report = evaluate(ROWS, ["adherence"], judge=judge, store=store, batch="wait")
    assert outcomes(report) == outcomes(live(metrics=["adherence"]))
    assert set(service.executed.values()) == {1}


def test_a_batch_that_the_service_does_not_know_can_be_given_up(
    store, monkeypatch, capsys
):
    with BatchService(plausible_reply) as service:
        asked(service, store, ["adherence"], how=True)
        service.batches.clear()  # as of a project that was deleted
        with pytest.raises(BatchFailed, match="ragmetrics store cancel"):
            asked(service, store, ["adherence"])
        monkeypatch.setenv("RAGMETRICS_API_KEY", "right")
        monkeypatch.setenv("RAGMETRICS_API_BASE", service.base_url)
        assert main(["store", "cancel", "--store", str(store)]) == 0
        assert "batch_0: not known there, given up" in capsys.readouterr().out
        monkeypatch.delenv("RAGMETRICS_API_BASE")
        report = asked(service, store, ["adherence"])
    assert outcomes(report) == outcomes(live(metrics=["adherence"]))


@pytest.mark.parametrize("action", ["batches", "collect", "cancel"])
def test_a_store_chooses_neither_the_address_of_a_batch_nor_its_key(
    action, store, monkeypatch, capsys
):
    for name in ("A_SECRET_OF_ANOTHER", "OPENAI_API_KEY", "RAGMETRICS_API_KEY"):
        monkeypatch.setenv(name, f"sk-of-{name.lower()}")
    monkeypatch.delenv("RAGMETRICS_API_BASE", raising=False)
    keys: list[str] = []
    with BatchService(
        plausible_reply, around=lambda _, key, when: keys.append(key)
    ) as service:
        asked(service, store, ["adherence"], how=True)
        keys.clear()
        assert main(["store", action, "--store", str(store)]) == 0
        assert not keys
        told = capsys.readouterr().out
        assert (
            f"a batch: at {service.base_url}, which is not asked: name it with"
            " --api-base" in told
        )
        assert (
            main(
                ["store", action, "--store", str(store), "--api-base", service.base_url]
            )
            == 0
        )
        assert set(keys) == {""}
        assert "sk-of" not in capsys.readouterr().out


def test_a_run_says_that_a_batch_of_its_store_is_at_another_address(store, caplog):
    with (
        BatchService(plausible_reply) as first,
        BatchService(plausible_reply) as second,
    ):
        asked(first, store, ["adherence"], how=True)
        report = asked(second, store, ["adherence"])
        assert (
            f"a batch of this store is at {first.base_url}, which is not asked here"
            in caplog.text
        )
        assert len(first.batches) == 1
    assert report.summary()["context_adherence"].count


def test_the_name_of_a_batch_is_no_path(store):
    with BatchService(plausible_reply, faults=lambda _: None) as service:
        asked(service, store, ["adherence"], how=True)
        with closing(sqlite3.connect(store)) as file, file:
            file.execute("UPDATE batches SET id = '../files/file-0/content?'")
        with pytest.raises(BatchFailed, match="knows no batches"):
            asked(service, store, ["adherence"])


def test_a_dry_run_prices_both_ways(file, capsys):
    assert main(["evaluate", file, "--judge", "gpt-4o", "--dry-run"]) == 0
    price = next(
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("price:")
    )
    whole, half = (
        float(part.strip(",").lstrip("$")) for part in price.split() if "$" in part
    )
    assert half == pytest.approx(whole / 2, abs=1e-4)


class Goodness(BaseModel):
    """A reply class of a user's own."""

    good: bool


class CrashingReply(BaseModel):
    """A reply class of a user's own whose check raises what is no ``ValueError``."""

    good: bool

    @field_validator("good")
    @classmethod
    def crash(cls, value: bool) -> bool:
        raise RuntimeError(f"no check for {value}")


@metric(requires=["answer"])
def crashing(sample: Sample) -> Any:
    question = Question(
        parts={"answer": Part("Answer", sample.answer)},
        instructions=Instructions("Is it good?\n{answer}"),
        Reply=CrashingReply,
    )
    [reply] = yield from ask([question])
    return bool(reply.reply.good)


def test_a_batch_is_paid_also_where_reading_its_reply_crashes(store):
    def reply(body: Body) -> str:
        return '{"good": true}'

    found = live(reply, [crashing])
    with BatchService(reply) as service:
        report = asked(service, store, [crashing])
    assert {row.results["crashing"].status for row in report.results} == {"failed"}
    assert spent(report).calls == spent(found).calls == len(ROWS)
    assert spent(report).cost == pytest.approx((spent(found).cost or 0) / 2)

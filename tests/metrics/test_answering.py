"""Was there enough, was the question answered, and what the application did: the two metrics and their report."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from decision_loopback import DecisionServer
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_replies import rating, requests_of
from lanes import examples
from loopback import LoopbackServer
from plausible import plausible_reply
from statsmodels.stats.proportion import proportion_confint

from ragmetrics_core import (
    ContextRecall,
    ContextUtilization,
    LexicalJudge,
    LLMJudge,
    OpenAICompatibleModel,
    Report,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data.errors import ContentRefused, SettingError
from ragmetrics_core.data.metric_evidence import CASES_IN_WORDS, Sufficed
from ragmetrics_core.data.replies import Asked, Weight
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.judging.decision_judge import DecisionJudge
from ragmetrics_core.metrics.answer_relevance import Addresses, AnswerRelevance
from ragmetrics_core.metrics.context_recall import RateRecall
from ragmetrics_core.metrics.context_sufficiency import (
    ContextSufficiency,
    SufficiencyEvidence,
    SufficientContexts,
    SufficientReply,
    case_of,
)
from ragmetrics_core.metrics.declined import (
    Declined,
    question_on_declining,
    standalone_question_part,
)
from ragmetrics_core.metrics.registry import (
    METRICS,
    choose_metrics,
    full_name,
    metric_named,
)
from ragmetrics_core.models.decision_model import OpenAIDecisionModel
from ragmetrics_core.reporting.answering import Answering
from ragmetrics_core.statistics.means import mean_interval

SAMPLE = Sample(
    question="When was the lamp lit?",
    contexts=["Anna lit the lamp.", "It was in May."],
    answer="In May.",
    reference="In May 1882.",
)
FEW_EXAMPLES = settings(max_examples=examples(20), deadline=None)
WORDS = st.text("abcdefg ", min_size=1, max_size=12).filter(str.strip)


def sufficient(p: float) -> Asked[SufficientReply]:
    reply = SufficientReply(missing=() if p > 0.5 else ("the year",))
    return Asked((reply,), weights=(Weight(p),))


# Labelled rows: p(sufficient), whether the answer declines, Context Recall (None without
# a reference), the conversation, and the case by hand.
ROWS: list[tuple[float, bool, float | None, str, str]] = [
    (0.9, False, 1.0, "a", "answered"),
    (0.8, False, 0.5, "a", "answered"),
    (0.7, False, 0.2, "b", "answered"),
    (1.0, False, None, "b", "answered"),
    (0.95, False, 0.7, "c", "answered"),
    (0.9, True, 0.0, "c", "over_declined"),
    (0.61, True, 0.0, "d", "over_declined"),
    (0.1, False, 0.9, "d", "unbacked"),
    (0.2, False, 0.4, "e", "unbacked"),
    (0.39, False, None, "e", "unbacked"),
    (0.0, True, 0.0, "e", "rightly_declined"),
    (0.6, False, 1.0, "f", "uncertain"),
    (0.4, True, 0.0, "f", "uncertain"),
    (0.5, False, 1.0, "f", "uncertain"),
]


def samples() -> list[Sample]:
    return [
        Sample(
            question=f"q{place}",
            contexts=[f"c{place}"],
            answer=f"a{place}",
            reference=() if recall is None else "r",
            metadata={"group": group},
        )
        for place, (_, _, recall, group, _) in enumerate(ROWS)
    ]


def row_of(question: Any, part: str) -> tuple[float, bool, float | None, str, str]:
    return ROWS[int(question.parts[part].texts[0][1:])]


def labels() -> ScriptedJudge:
    """A judge that says what the labels of the rows say."""
    return ScriptedJudge(
        {
            SufficientContexts: lambda asked: sufficient(row_of(asked, "contexts")[0]),
            Declined: lambda asked: {"declined": int(row_of(asked, "answer")[1])},
            RateRecall: lambda asked: rating(row_of(asked, "answer")[2] or 0.0),
        }
    )


@pytest.fixture(scope="module")
def report() -> Report:
    metrics = [ContextSufficiency(), ContextRecall()]
    return evaluate(samples(), metrics, judge=labels())


# The table


def test_the_cases_of_labelled_rows_are_those_counted_by_hand(report):
    answering = report.answering()
    by_hand = [case for *_, case in ROWS]
    assert answering.cases == {case: by_hand.count(case) for case in CASES_IN_WORDS}
    assert answering.cases == {
        "answered": 5,
        "over_declined": 2,
        "unbacked": 3,
        "rightly_declined": 1,
        "uncertain": 3,
    }
    assert answering.without_case == 0
    for share, count, total in (
        (answering.answered, 5, 7),
        (answering.rightly_declined, 1, 4),
    ):
        assert (share.count, share.total) == (count, total)
        assert share.share == pytest.approx(count / total)
        low, high = proportion_confint(count, total, method="wilson")
        assert share.interval.method == "Wilson"
        assert (share.interval.low, share.interval.high) == pytest.approx((low, high))


@FEW_EXAMPLES
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_any_rows_are_counted_with_the_intervals_of_statsmodels(labelled):
    judge = ScriptedJudge(
        {
            SufficientContexts: lambda asked: {
                "missing": [] if asked["contexts"][0] == "True" else ["it"]
            },
            Declined: lambda asked: {"declined": int(asked["answer"] == "True")},
        }
    )
    rows = [
        Sample(question=f"q{place}", contexts=[str(enough)], answer=str(declines))
        for place, (enough, declines) in enumerate(labelled)
    ]
    run = evaluate(rows, [ContextSufficiency()], judge=judge)
    if not rows:
        return
    answering = run.answering()
    n_enough = sum(1 for enough, _ in labelled if enough)
    shares = {
        answering.answered: ((True, False), n_enough),
        answering.rightly_declined: ((False, True), len(rows) - n_enough),
    }
    for share, (right, total) in shares.items():
        assert (share.count, share.total) == (labelled.count(right), total)
        if total == 0:
            assert share.share is None
            assert share.interval is None
            continue
        assert share.interval is not None
        low, high = proportion_confint(share.count, total, method="wilson")
        assert share.interval.low == pytest.approx(low, abs=1e-12)
        assert share.interval.high == pytest.approx(high, abs=1e-12)
    assert sum(answering.cases.values()) == len(rows)


def test_clusters_widen_the_intervals_as_those_of_means(report):
    rows = [
        result.model_copy(
            update={
                "sample": result.sample.model_copy(
                    update={"metadata": {"conversation_id": ROWS[result.index][3]}}
                )
            }
        )
        for result in report
        if result.sample is not None
    ]
    answering = Report(rows, report.run).answering()
    # the answered first, then those that declined all the same
    groups = [ROWS[place][3] for place in (0, 1, 2, 3, 4, 5, 6)]
    keys = [sorted(set(groups)).index(group) for group in groups]
    assert answering.answered.interval == mean_interval([1.0] * 5 + [0.0] * 2, keys)
    assert answering.answered.interval.clusters == 4
    assert "over 4 clusters" in str(answering)


def test_the_text_has_the_four_cases_two_shares_and_no_total(report):
    lines = str(report.answering()).splitlines()
    assert lines == [
        "contexts                  answered              declined",
        "enough                           5                     2",
        "not enough        3 from elsewhere             1 rightly",
        "Uncertain whether the contexts were enough: 3, in no share.",
        "Answered where the contexts were enough: 5 of 7, 0.714 [0.359, 0.918].",
        "Declined where they were not: 1 of 4, 0.250 [0.046, 0.699].",
        (
            '"Answered from elsewhere" does not mean wrong: a model may know the'
            " answer, and nothing shown backs it."
        ),
    ]
    assert max(map(len, lines[:6])) <= 80
    assert str(lines[1]) in report.answering()._repr_html_()


@pytest.mark.parametrize("cluster", ["auto", "group"])
def test_page_and_terminal_show_the_cases(report, tmp_path, capsys, cluster):
    path = tmp_path / "results.jsonl"
    report.to_jsonl(path)
    page = tmp_path / "report.html"
    command = ["report", str(path), "--report", str(page), "--explain"]
    assert main([*command, "--cluster", cluster]) == 0
    on_terminal, on_page = capsys.readouterr().out, unescape(page.read_text("utf-8"))
    answering = report.answering(cluster=cluster)
    assert ("cluster" in str(answering)) == (cluster == "group")
    assert str(answering) in on_terminal
    for sentence in answering.sentences:
        assert sentence in on_page
    for cells in answering.rows_of_table:
        assert re.search(r"\s*".join(f">{cell}<.*?" for cell in cells), on_page)


def test_rows_without_a_case_are_counted_and_stand_in_no_share():
    refusing = ScriptedJudge({SufficientContexts: {"missing": []}, Declined: _refused})
    rows = [
        SAMPLE,
        Sample(question="q", contexts=["c"]),
        Sample(question="q", answer="a"),
    ]
    run = evaluate(rows, [ContextSufficiency()], judge=refusing)
    answering = run.answering()
    assert (sum(answering.cases.values()), answering.without_case) == (0, 3)
    assert str(answering.answered) == "no sample"
    assert "3 rows without a case." in str(answering)
    first = run.results[0].results["context_sufficiency"]
    assert first.status == "scored"
    assert isinstance(first.evidence, SufficiencyEvidence)
    assert first.evidence.declined_note.startswith("not known whether the answer")


def _refused(question: Any) -> Any:
    raise ContentRefused("no")


def test_a_metric_that_says_nothing_of_sufficiency_is_refused(report):
    with pytest.raises(SettingError, match="does not say whether contexts were enough"):
        report.answering("recall")
    with pytest.raises(SettingError, match="no metric 'context_sufficiency'"):
        Report([]).answering()


def test_a_metric_of_another_name_is_counted():
    metrics = [ContextSufficiency(name="enough"), ContextRecall()]
    run = evaluate(samples(), metrics, judge=labels())
    answering = run.answering("enough")
    assert answering.metric == "enough"
    assert answering.cases["answered"] == 5


def test_a_report_read_back_counts_the_same_without_the_metric(report, tmp_path):
    path = tmp_path / "results.jsonl"
    report.to_jsonl(path)
    assert Report.from_jsonl(path) == report
    assert Report.from_jsonl(path).answering() == report.answering()
    program = (
        "import sys\n"
        "from ragmetrics_core.reporting.report import Report\n"
        f"print(Report.from_jsonl({str(path)!r}).answering().model_dump_json())\n"
        "assert 'ragmetrics_core.metrics.context_sufficiency' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert Answering.model_validate_json(done.stdout) == report.answering()


@pytest.mark.parametrize("enough", [True, False])
@pytest.mark.parametrize("declines", [True, False])
def test_every_case_has_words_and_an_uncertain_one_is_no_other(enough, declines):
    case = case_of(sufficient=enough, declined=declines, uncertain=False)
    assert case in CASES_IN_WORDS
    assert case != "uncertain"
    torn = case_of(sufficient=enough, declined=declines, uncertain=True)
    assert torn == "uncertain"


# Laws


HIDDEN = "zyxwv"


@FEW_EXAMPLES
@given(WORDS, st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_answer_and_reference_are_never_shown_where_sufficiency_is_judged(
    question, contexts, turn
):
    sample = Sample(
        question=question,
        contexts=contexts,
        answer=f"{HIDDEN} answer",
        reference=f"{HIDDEN} reference",
        facts=[f"{HIDDEN} fact"],
        retrieved=[f"{HIDDEN} retrieved"],
        generator=HIDDEN,
        metadata={"answer": HIDDEN},
        history=[{"role": "user", "content": turn}],
    )
    judge = ScriptedJudge(
        {SufficientContexts: {"missing": []}, Declined: {"declined": 0}}
    )
    result = ContextSufficiency().score(sample, judge=judge)
    on_contexts, on_answer = judge.asked
    assert isinstance(on_contexts, SufficientContexts)
    assert HIDDEN not in requests_of(on_contexts)
    assert set(on_contexts.parts) == {"contexts", "question"}
    # of all hidden texts the answer alone is shown where declining is judged
    assert set(on_answer.parts) == {"question", "answer"}
    assert requests_of(on_answer).replace(f"{HIDDEN} answer", "").count(HIDDEN) == 0
    other = sample.model_copy(update={"answer": "other", "reference": ("other",)})
    assert ContextSufficiency().score(other, judge=judge).value == result.value
    assert requests_of(judge.asked[2]) == requests_of(on_contexts)


@pytest.mark.parametrize(
    ("missing", "value", "reason"),
    [
        ([], 1.0, "The contexts hold all that is asked."),
        (["", " - "], 1.0, "The contexts hold all that is asked."),
        (["The year."], 0.0, "Missing: The year."),
        (["the year.", "the place"], 0.0, "Missing: the year; the place."),
    ],
)
def test_contexts_suffice_where_nothing_is_missing(missing, value, reason):
    judge = ScriptedJudge({SufficientContexts: {"missing": missing}})
    result = ContextSufficiency(declining=False).score(SAMPLE, judge=judge)
    assert (result.value, result.reason) == (value, reason)


# A history that holds this turn, too, in the forms that memories and tables have: of
# the turns as (role, text).
Said = list[tuple[str, str]]
FORMS: dict[str, Callable[[Said], Any]] = {
    "messages": lambda said: [{"role": role, "content": text} for role, text in said],
    "messages as a text": lambda said: json.dumps(
        [{"role": role, "content": text} for role, text in said]
    ),
    "messages in parts": lambda said: [
        {"role": role, "content": [{"type": "text", "text": text}]}
        for role, text in said
    ],
    "LangChain's": lambda said: [
        {"type": "human" if role == "user" else "ai", "content": text}
        for role, text in said
    ],
    "LangChain's, written": lambda said: [
        {"type": "human" if role == "user" else "ai", "data": {"content": text}}
        for role, text in said
    ],
    "texts that take turns": lambda said: [text for _, text in said],
    "after a greeting": lambda said: ["Hello!", *[text for _, text in said]],
    "lines with the speaker": lambda said: [
        {"role": role, "content": f"{'Human' if role == 'user' else 'AI'}: {text}"}
        for role, text in said
    ],
    "a reply in JSON": lambda said: [
        {
            "role": role,
            "content": text if role == "user" else json.dumps({"answer": text}),
        }
        for role, text in said
    ],
    "the question in other signs": lambda said: [
        *({"role": role, "content": text} for role, text in said[:-2]),
        {"role": "user", "content": said[-2][1].replace("?", " ??").lower()},
        {"role": "assistant", "content": f"{said[-1][1][:-8]}, I think"},
    ],
    "the question in other words, and a reply in JSON": lambda said: [
        *({"role": role, "content": text} for role, text in said[:-2]),
        {"role": "user", "content": "Tell me the day, please."},
        {"role": "assistant", "content": json.dumps({"answer": said[-1][1]})},
    ],
    "with marks that the answer lost": lambda said: [
        {"role": role, "content": text if role == "user" else f"**{text}** [1]."}
        for role, text in said
    ],
    "with the result of a tool": lambda said: [
        *({"role": role, "content": text} for role, text in said[:-1]),
        {"role": "tool", "content": f"found: {said[-1][1]}"},
        {"role": said[-1][0], "content": said[-1][1]},
    ],
    "and what came later": lambda said: [
        *({"role": role, "content": text} for role, text in said),
        {"role": "user", "content": "Thanks!"},
        {"role": "assistant", "content": "Gladly."},
    ],
}
SECRET = "zyxwv vwxyz zyxwv vwxyz"  # of more than twenty letters


@FEW_EXAMPLES
@given(
    st.lists(st.tuples(WORDS, WORDS), max_size=2),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(["{}", "  {} \n", "{}."]),
)
def test_no_history_shows_the_answer_where_sufficiency_is_judged(
    earlier, form, wording
):
    said: Said = []
    for asked, replied in earlier:
        said += [("user", f"{asked}?"), ("assistant", f"{replied}!")]
    this_turn = [("user", "When?"), ("assistant", wording.format(SECRET))]
    sample = Sample.from_row(
        {
            "question": "When?",
            "contexts": ["Anna lit it."],
            "answer": SECRET,
            "history": FORMS[form]([*said, *this_turn]),
        }
    )
    judge = ScriptedJudge(
        {SufficientContexts: {"missing": []}, Declined: {"declined": 0}}
    )
    ContextSufficiency().score(sample, judge=judge)
    on_contexts, on_answer = judge.asked
    shown = requests_of(on_contexts)
    assert "zyxwv" not in shown
    assert requests_of(on_answer).count(SECRET) == requests_of(
        question_on_declining(sample.model_copy(update={"history": ()}))
    ).count(SECRET)
    # what was said before is shown as it was
    turns = [turn.content for turn in on_contexts.parts["question"].history]
    for _, text in said:
        assert any(text in turn for turn in turns)


def test_a_short_answer_is_hidden_where_it_is_a_turn_and_not_within_one():
    history = [
        {"role": "user", "content": "Which lamp of 1903?"},
        {"role": "assistant", "content": "That of Faro, built in 1903."},
        {"role": "user", "content": "When was it lit?"},
        {"role": "assistant", "content": "1903"},
        {"role": "user", "content": "Really?"},
    ]
    sample = Sample(question="When?", contexts=["a"], answer="1903.", history=history)
    part = standalone_question_part(sample)
    assert [turn.content for turn in part.history] == [
        "Which lamp of 1903?",
        "That of Faro, built in 1903.",
        "When was it lit?",
        "Really?",
    ]


@pytest.mark.parametrize(
    ("asked", "replied"),
    [
        ("And when?", "In 1903. Anything else?"),
        ("Context: Lamp.\nQuestion: When was the lamp lit?", "That was long ago."),
        ("Context: Lamp.\nQuestion: When was the lamp lit?", "In 1903. [1]\nSource: a"),
        ("when was the lamp lit", "It was in 1903."),
        ("Human: When was the lamp lit?", "AI: It was long ago."),
    ],
)
def test_a_reply_that_was_changed_before_or_later_is_hidden(asked, replied):
    sample = Sample(
        question="When was the lamp lit?",
        contexts=["Lamp"],
        answer="In 1903.",
        history=[
            {"role": "user", "content": asked},
            {"role": "AI", "content": replied},
        ],
    )
    shown = [turn.content for turn in standalone_question_part(sample).history]
    assert replied not in shown


def test_a_sample_ends_its_history_before_its_own_turn():
    """So no metric is told the answer as something that was said before."""
    first = [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "Anna."},
    ]
    this_turn = [
        {"role": "user", "content": " When  was it?"},
        {"role": "assistant", "content": "In May.\n"},
    ]

    def turns_of(history: list[dict[str, str]], **fields: Any) -> list[str]:
        known = {"question": "When was it?", "answer": "In May.", **fields}
        sample = Sample(history=history, **known)
        return [turn.content for turn in sample.history]

    assert turns_of([*first, *this_turn]) == ["Who?", "Anna."]
    assert turns_of([*first, this_turn[0]]) == ["Who?", "Anna."]
    assert turns_of(this_turn) == []
    assert turns_of(first) == ["Who?", "Anna."]
    # an earlier turn with the same answer is an earlier turn
    same_answer = [{"role": "user", "content": "Who?"}, this_turn[1]]
    assert turns_of(same_answer) == ["Who?", "In May.\n"]
    rewritten = {"question": "And when?", "standalone_question": "When was it?"}
    assert turns_of([*first, *this_turn], **rewritten) == ["Who?", "Anna."]
    assert turns_of([this_turn[1]]) == ["In May.\n"]


@FEW_EXAMPLES
@given(st.lists(WORDS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_permuted_or_repeated_contexts_lead_to_equal_requests_and_results(
    contexts, chance
):
    judge = ScriptedJudge(
        {
            SufficientContexts: lambda asked: sufficient(
                sum(map(ord, asked["contexts"][0])) % 11 / 10
            )
        }
    )
    shuffled = chance.sample([*contexts, contexts[0]], len(contexts) + 1)
    first, second = (
        ContextSufficiency().score(question="q", contexts=texts, judge=judge)
        for texts in (contexts, shuffled)
    )
    assert first == second
    assert requests_of(judge.asked[0]) == requests_of(judge.asked[1])


@FEW_EXAMPLES
@given(
    st.none() | WORDS,
    st.lists(WORDS | st.just(" "), max_size=3),
    st.none() | WORDS,
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 3),
)
def test_every_outcome_is_a_score_in_range_or_says_why_not(
    question, contexts, answer, p, declines, grade
):
    sample = Sample(question=question, contexts=contexts, answer=answer)
    judge = ScriptedJudge(
        {
            SufficientContexts: sufficient(p),
            Declined: {"declined": int(declines)},
            Addresses: {"grade": grade},
        }
    )
    enough = ContextSufficiency().score(sample, judge=judge)
    if question is None:
        assert (enough.status, enough.reason) == ("undefined", "no question")
    else:
        has_contexts = any(text.strip() for text in contexts)
        assert enough.value == (p if has_contexts else 0.0)
        assert isinstance(enough.evidence, SufficiencyEvidence)
        assert enough.evidence.sufficient == (has_contexts and p > 0.5)
        assert (enough.evidence.case is None) == (answer is None)
    addresses = AnswerRelevance().score(sample, judge=judge)
    if question is None or answer is None:
        assert (addresses.status, addresses.usage.calls) == ("undefined", 0)
    elif declines:
        assert addresses.status == "undefined"
        assert addresses.code == "declined"
    else:
        assert addresses.value == pytest.approx(grade / 3)
    for result in (enough, addresses):
        assert result.reason
        assert (result.value is None) == (result.status == "undefined")


@FEW_EXAMPLES
@given(WORDS, WORDS)
def test_contexts_and_reference_are_never_shown_where_relevance_is_judged(
    question, answer
):
    sample = Sample(
        question=question,
        answer=answer,
        contexts=[f"{HIDDEN} context"],
        reference=HIDDEN,
        retrieved=[HIDDEN],
        facts=[HIDDEN],
    )
    judge = ScriptedJudge({Declined: {"declined": 0}, Addresses: {"grade": 1}})
    AnswerRelevance().score(sample, judge=judge)
    assert [type(asked) for asked in judge.asked] == [Declined, Addresses]
    for asked in judge.asked:
        assert HIDDEN not in requests_of(asked)
        assert answer in requests_of(asked)


# Judges


@pytest.mark.parametrize(
    ("logprobs", "mode", "polls"), [(True, "polls", 5), (False, "polls", 5)]
)
def test_the_share_of_polls_is_the_probability_after_a_reasoning(logprobs, mode, polls):
    def reply(body: dict[str, Any]) -> str:
        if "declined" in json.dumps(body["messages"]):
            return '{"reason": "It says when.", "declined": 0}'
        return '{"sufficient": 1, "missing": []}'

    with LoopbackServer(reply=reply, logprobs=logprobs) as server:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        result = ContextSufficiency().score(SAMPLE, judge=judge)
    assert isinstance(result.evidence, SufficiencyEvidence)
    assert (result.evidence.mode, result.evidence.polls) == (mode, polls)
    assert result.evidence.mode == "polls"
    assert result.value == 1.0
    assert result.evidence.case == "answered"


def test_typed_questions_of_sufficiency_and_relevance():
    def answer(state: Any, question: dict[str, Any]) -> Any:
        return [0.1, 0.2, 0.6, 0.1] if "levels" in question else 0.25

    with DecisionServer(answer=answer) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        metrics = [ContextSufficiency(), AnswerRelevance()]
        run = evaluate([SAMPLE], metrics, judge=judge)
        states = [json.loads(sent.body["input"]) for sent in server.requests]
    assert sorted(sorted(state) for state in states) == [
        ["answer", "note", "question", "rules"],  # does it decline?
        ["answer", "note", "question", "rules"],  # does it address the question?
        ["contexts", "note", "question", "rules"],
    ]
    results = run.results[0].results
    enough, addresses = results["context_sufficiency"], results["answer_relevance"]
    assert (enough.value, addresses.value) == (0.25, pytest.approx(2 / 3))
    assert isinstance(enough.evidence, SufficiencyEvidence)
    assert (enough.evidence.mode, enough.evidence.case) == ("decision", "unbacked")
    assert addresses.evidence.verdicts() == [
        "grade 2 of 3: addresses a part of the question"
    ]


@pytest.mark.parametrize(
    ("grade", "in_words"),
    [
        (0, "grade 0 of 3: is about something else"),
        (3, "grade 3 of 3: addresses the question fully"),
    ],
)
def test_the_verdict_on_relevance_is_the_grade_in_words(grade, in_words):
    judge = ScriptedJudge({Declined: {"declined": 0}, Addresses: {"grade": grade}})
    evidence = AnswerRelevance().score(SAMPLE, judge=judge).evidence
    assert evidence.verdicts() == [in_words]


@pytest.mark.parametrize(
    ("answer", "code"), [("I don't know.", "declined"), ("In May.", None)]
)
def test_the_embedded_judge_tells_declining_and_refuses_what_words_do_not_tell(
    answer, code
):
    sample = SAMPLE.model_copy(update={"answer": answer})
    enough = ContextSufficiency().score(sample, judge=LexicalJudge())
    addresses = AnswerRelevance().score(sample, judge=LexicalJudge())
    refused = [enough] if code else [enough, addresses]
    for result in refused:
        assert result.status == "failed"
        assert result.error.type == "QuestionNotSupported"
        assert "name a model as the judge" in result.error.message
    if code:
        assert addresses.status == "undefined"
        assert addresses.code == code
    without = sample.model_copy(update={"contexts": ()})
    found = ContextSufficiency().score(without, judge=LexicalJudge())
    assert found.value == 0.0
    assert isinstance(found.evidence, Sufficed)
    assert found.evidence.case == ("rightly_declined" if code else "unbacked")


@pytest.mark.parametrize("logprobs", [True, False])
def test_a_dry_run_counts_what_a_run_sends(logprobs):
    metrics = [ContextSufficiency(), AnswerRelevance()]
    with LoopbackServer(reply=plausible_reply, logprobs=logprobs) as server:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        counted = estimate([SAMPLE], metrics, judge)
        assert server.requests == []
        evaluate([SAMPLE], metrics, judge=judge)
        n_sent = len(server.requests)
    assert counted.usage.calls <= n_sent
    # both ask whether the answer declines, in one request
    assert n_sent <= 5


# Names


def test_some_are_off_unless_they_are_named():
    assert {metric.name for metric in choose_metrics(None)} == set(METRICS)
    named = choose_metrics(
        ["context_sufficiency", "AnswerRelevance", "recall", "CitationQuality"]
    )
    assert [metric.name for metric in named] == [
        "context_sufficiency",
        "answer_relevance",
        "context_recall",
        "citation_quality",
    ]
    assert full_name("sufficiency") == "context_sufficiency"


@pytest.mark.parametrize(
    "wrong", [{"uncertain": (0.6, 0.4)}, {"uncertain": (0.6, 0.9)}, {"polls": 0}]
)
def test_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(SettingError):
        metric_named("context_sufficiency", wrong)


def test_signatures_name_the_settings_that_change_cases():
    assert ContextSufficiency().signature.settings == {
        "polls": "5",
        "uncertain": "0.4-0.6",
    }
    assert ContextSufficiency(declining=False).signature.settings["declining"] == "no"
    assert AnswerRelevance().signature.settings == {}


@pytest.mark.parametrize("answer", ["?...", "\N{THUMBS UP SIGN}", "?!"])
def test_nothing_is_useful_to_an_answer_without_a_word(answer):
    """By the embedded judge, also where a chunk is what the question asks for."""
    result = ContextUtilization().score(
        question="Who lit the lamp?",
        contexts=["Anna lit the lamp."],
        answer=answer,
        judge="lexical",
    )
    assert (result.status, result.code) == ("undefined", "declined")

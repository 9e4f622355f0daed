"""Citation Quality: recall and precision as ALCE defines them, and what is wrong with a sentence."""

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from citing import ORACLE, atoms, citing_sample, oracle, sentence
from decision_loopback import DecisionServer
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_replies import requests_of
from lanes import examples
from loopback import LoopbackServer
from plausible import plausible_reply

from ragmetrics_core import (
    CitationQuality,
    LexicalJudge,
    LLMJudge,
    OpenAICompatibleModel,
    Report,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import Asked, Part, Scored
from ragmetrics_core.data.asking import ask_side_by_side
from ragmetrics_core.data.citations import Citation, citations_of_marks
from ragmetrics_core.data.sample_parts import CaptureNotes
from ragmetrics_core.engine.dry_run import estimate
from ragmetrics_core.judging.decision_judge import DecisionJudge, convert_question
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.citation_quality import CitationEvidence, JudgedStatement
from ragmetrics_core.metrics.citation_support import SupportReply, Supports
from ragmetrics_core.models.decision_model import OpenAIDecisionModel

FEW_EXAMPLES = settings(max_examples=examples(40), deadline=None)
SHOWN = ("AA", "BB", "AA BB", "noise", "CC")


def score(
    answer: str,
    contexts: Sequence[str] = SHOWN,
    judge: ScriptedJudge | None = None,
    **options: Any,
) -> Any:
    metric = CitationQuality(**options)
    return metric.score(citing_sample(answer, contexts), judge=judge or oracle())


def evidence_of(result: Any) -> CitationEvidence:
    assert isinstance(result.evidence, CitationEvidence)
    return result.evidence


# The definition


def definition(
    statements: Sequence[tuple[set[str], list[int]]], contexts: Sequence[str]
) -> tuple[Fraction, Fraction]:
    """Recall and precision of an answer by the sentences of section 3 of the paper.

    Every statement claims, and every citation resolves.
    """

    def entails(places: Sequence[int], statement: set[str]) -> bool:
        return bool(places) and statement <= atoms(
            *(contexts[place] for place in places)
        )

    recalls: list[int] = []
    precisions: list[int] = []
    for statement, cited in statements:
        is_supported = entails(cited, statement)
        recalls.append(int(is_supported))
        for place in cited:
            others = [other for other in cited if other != place]
            is_irrelevant = not entails([place], statement) and entails(
                others, statement
            )
            precisions.append(int(is_supported and not is_irrelevant))
    return (
        Fraction(sum(recalls), len(recalls)),
        Fraction(sum(precisions), len(precisions) or 1),
    )


class Generated:
    """An answer drawn at random: statements of one to three atoms that cite at random."""

    def __init__(self, chance: random.Random, n_statements: int) -> None:
        self.contexts = [
            " ".join(chance.sample(["AA", "BB", "CC", "DD"], chance.randint(0, 3)))
            + " noise"
            for _ in range(chance.randint(1, 6))
        ]
        self.statements: list[tuple[set[str], list[int]]] = []
        for _ in range(n_statements):
            held = set(chance.sample(["AA", "BB", "CC", "DD"], chance.randint(1, 3)))
            most = min(len(self.contexts), 5)
            cited = chance.sample(range(len(self.contexts)), chance.randint(0, most))
            self.statements.append((held, cited))

    @property
    def sample(self) -> Sample:
        answer = " ".join(sentence(held, cited) for held, cited in self.statements)
        return citing_sample(answer, self.contexts)


def outcome_of(sample: Sample) -> tuple[Any, list[Any]]:
    """The outcome under the oracle, and all questions, without a run."""
    plan = CitationQuality().plan(sample)
    questions: list[Any] = []
    replies: Any = None
    while True:
        try:
            batch = plan.send(replies)
        except StopIteration as end:
            return end.value, questions
        questions += batch
        replies = tuple(
            Asked((question.read(ORACLE[type(question)](question)),))
            for question in batch
        )


STATEMENTS_PER_ANSWER = 5


@pytest.mark.parametrize(
    "n_statements", [2_000, pytest.param(20_000, marks=pytest.mark.nightly)]
)
def test_generated_answers_have_the_recall_and_precision_of_the_paper(n_statements):
    chance = random.Random(n_statements)
    n_answers = n_statements // STATEMENTS_PER_ANSWER
    n_citations = n_questions = 0
    for _ in range(n_answers):
        drawn = Generated(chance, STATEMENTS_PER_ANSWER)
        sample = drawn.sample
        result, questions = outcome_of(sample)
        recall, precision = definition(drawn.statements, drawn.contexts)
        cites = any(cited for _, cited in drawn.statements)
        evidence = evidence_of(result)
        assert evidence.recall == float(recall)
        assert evidence.precision == (float(precision) if cites else None)
        asked_of = count_by_statement(questions)
        for held, cited in drawn.statements:
            n_asked = asked_of.get(sentence(held, ()).replace(" .", "."), 0)
            # equal statements of an answer share the key, and so what they asked
            n_alike = sum(1 for other, _ in drawn.statements if other == held)
            if n_alike == 1:
                assert n_asked <= 2 * len(cited) + 1
        n_citations += sum(len(cited) for _, cited in drawn.statements)
        n_questions += len(questions)
    # mostly one question for each citation
    assert n_questions / n_citations < 1.5


def count_by_statement(questions: Sequence[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for question in questions:
        if "statement" in question.parts:
            text = question["statement"]
            counts[text] = counts.get(text, 0) + 1
    return counts


@FEW_EXAMPLES
@given(st.integers(0, 10**6))
def test_permuted_contexts_lead_to_the_same_verdicts(seed):
    chance = random.Random(seed)
    drawn = Generated(chance, 3)
    order = list(range(len(drawn.contexts)))
    chance.shuffle(order)
    new_place = {old: new for new, old in enumerate(order)}
    permuted = citing_sample(
        " ".join(
            sentence(held, [new_place[place] for place in cited])
            for held, cited in drawn.statements
        ),
        [drawn.contexts[place] for place in order],
    )
    first, second = (outcome_of(sample)[0] for sample in (drawn.sample, permuted))
    assert first.value == second.value
    for before, after in zip(
        evidence_of(first).statements, evidence_of(second).statements, strict=True
    ):
        assert before.fault == after.fault
        precise = {one.rank for one in after.citations if one.precise}
        assert precise == {
            new_place[one.rank - 1] + 1 for one in before.citations if one.precise
        }


# What is wrong with a sentence


def test_each_fault_has_its_label():
    evidence = evidence_of(score("AA. BB[1]. DD[1]. CC[5][4]. AA[1][7]."))
    assert [one.fault for one in evidence.statements] == [
        "uncited",
        "unsupported",
        "unsupported",
        None,
        None,
    ]
    assert [one.irrelevant for one in evidence.statements[3].citations] == [False, True]
    assert evidence.statements[4].dangling == ("7",)
    counts = (
        evidence.uncited,
        evidence.unsupported,
        evidence.irrelevant,
        evidence.dangling,
    )
    assert counts == (1, 2, 1, 1)
    assert evidence.verdicts() == [
        "recall 2/5 = 0.40: supported sentences / sentences with a claim",
        "precision 2/6 = 0.33: precise citations / citations",
        "sentence 1: uncited",
        "sentence 2: unsupported",
        "sentence 3: unsupported",
        "sentence 4: context 4 is irrelevant",
        "sentence 5: dangling 7",
    ]


N_PLANTED = 100


def planted_row(chance: random.Random) -> tuple[Sample, set[int]]:
    """A row in which every sentence cites its source, but for those in which a fault is planted.

    Returns the sample and the places of the sentences whose mark names another source.
    """
    names = [first + second for first in "ABCDEFGH" for second in "JKLMNPQR"]
    held = chance.sample(names, chance.randint(3, 7))
    wrong = set(chance.sample(range(len(held)), chance.randint(0, 2)))
    marks: list[int] = []
    for place in range(len(held)):
        others = [other for other in range(len(held)) if other != place]
        marks.append(chance.choice(others) if place in wrong else place)
    answer = " ".join(
        sentence([name], [mark]) for name, mark in zip(held, marks, strict=True)
    )
    contexts = [f"The record of {name} is kept here." for name in held]
    return citing_sample(answer, contexts), wrong


def test_planted_wrong_citations_are_all_found_and_clean_rows_have_none():
    chance = random.Random(2411)
    n_planted = n_clean = 0
    while n_planted < N_PLANTED or n_clean < N_PLANTED:
        sample, wrong = planted_row(chance)
        evidence = evidence_of(outcome_of(sample)[0])
        found = {
            place
            for place, statement in enumerate(evidence.statements)
            if statement.fault == "unsupported"
        }
        assert found == wrong
        assert (evidence.unsupported, evidence.uncited) == (len(wrong), 0)
        n_planted += len(wrong)
        n_clean += not wrong


LAMP = "The lamp was lit by Anna in 1903."


@pytest.mark.parametrize(
    "passage",
    [
        LAMP,
        f"{LAMP} That is false.",
        f"Common myths that are false:\n- It rained.\n{LAMP}",
        f'He cried: "Snow lay. {LAMP} The sea was red."',
        f'The story "{LAMP}" is false.',
    ],
)
def test_what_a_context_holds_word_for_word_is_asked_about(passage):
    """No comparison of words takes the place of the judge, who may say no."""
    judge = ScriptedJudge({Supports: {"supported": 0}})
    for rank in (1, 2):
        result = score(f"{LAMP} [{rank}]", [passage, "Snow."], judge)
        assert result.value == 0.0
        assert evidence_of(result).unsupported == 1
    assert [type(one) for one in judge.asked] == [Supports] * 2


def test_equal_contexts_are_asked_about_once_and_both_count():
    judge = oracle()
    evidence = evidence_of(score("AA and BB[1][2][3].", ["AA", "AA", "BB"], judge))
    # each alone (2 texts), both together; without one of the equal ones nothing is lost
    assert len(judge.asked) == 3
    assert [one.irrelevant for one in evidence.statements[0].citations] == [
        True,
        True,
        False,
    ]
    assert definition([({"AA", "BB"}, [0, 1, 2])], ["AA", "AA", "BB"]) == (
        1,
        Fraction(1, 3),
    )
    assert (evidence.recall, evidence.precision) == (1.0, 1 / 3)


def test_an_empty_context_that_is_cited_supports_nothing():
    judge = oracle()
    evidence = evidence_of(score("AA[1][2]. BB[2].", ["AA", " ", "BB"], judge))
    first, second = evidence.statements
    assert [one.irrelevant for one in first.citations] == [False, True]
    assert (second.supported, second.fault) == (False, "unsupported")
    assert [one.irrelevant for one in second.citations] == [False]
    for asked in judge.asked:
        assert " " not in asked["passages"]


# Outcomes without a score


def test_an_answer_that_cites_nothing_of_numbered_sources_scores_nothing():
    row = {"question": "q", "contexts": ["[1] AA", "[2] BB"], "answer": "AA."}
    sample = Sample.from_row(row)
    assert sample.citations == ()
    assert CitationQuality().score(sample, judge=oracle()).value == 0.0
    unnumbered = Sample.from_row({**row, "contexts": ["AA", "BB"]})
    result = CitationQuality().score(unnumbered, judge=oracle())
    assert (result.status, result.code) == ("undefined", "no_citations")


@pytest.mark.parametrize(
    ("contexts", "numbered_from", "answer"),
    [
        (["AA", "BB"], 1, "BB[2]."),
        (["AA", "BB"], 0, "BB[1]."),
        (["AA", "BB"], 7, "BB[8]."),
        # the texts tell, and the setting does not count
        (["Source 1: BB", "Source 2: AA"], None, "BB[1]."),
        (["[1] BB", "[2] AA"], 5, "BB[1]."),
    ],
)
def test_marks_are_read_where_numbers_are_known(contexts, numbered_from, answer):
    sample = Sample(contexts=contexts, answer=answer)
    metric = CitationQuality(numbered_from=numbered_from)
    result = metric.score(sample, judge=oracle())
    assert result.value == 1.0
    nothing_cited = sample.model_copy(update={"answer": "BB."})
    assert metric.score(nothing_cited, judge=oracle()).value == 0.0
    beyond = sample.model_copy(update={"answer": "BB[99]."})
    assert evidence_of(metric.score(beyond, judge=oracle())).dangling == 1


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (Sample(contexts=["AA"]), "no answer"),
        (
            Sample(contexts=["AA"], answer="AA[1]."),
            "nothing says which context a number means",
        ),
        (
            Sample(answer="AA[1].", citations=citations_of_marks("AA[1].", {})),
            "no contexts were recorded",
        ),
        (
            Sample(contexts=["Source 1: AA"], answer="Source 1 says AA."),
            "may cite in a form that is not read",
        ),
        (
            Sample(contexts=["AA"], answer="AA (see https://a.b)."),
            "may cite in a form that is not read",
        ),
        (
            Sample(contexts=["AA"], answer="AA (2).", citations=()),
            "may cite in a form that is not read",
        ),
        (
            Sample(
                contexts=["[1] AA"],
                answer="AA[1].",
                capture=CaptureNotes(
                    grade="exact", citations_unknown="the application changed the marks"
                ),
            ),
            "the application changed the marks",
        ),
        (
            # what a capture looked at, it looked at better
            Sample(
                contexts=["[1] AA"],
                answer="AA[1].",
                capture=CaptureNotes(grade="exact"),
            ),
            "nothing says which context a number means",
        ),
        (
            citing_sample("AA[1].", ["AA"], capture=CaptureNotes(grade="incomplete")),
            "the capture is incomplete",
        ),
        (
            Sample(
                answer="AA.",
                contexts=["AA"],
                citations=(),
                capture=CaptureNotes(grade="incomplete"),
            ),
            "the capture is incomplete",
        ),
    ],
)
def test_what_is_not_known_is_undefined_and_says_why(sample, reason):
    judge = oracle()
    for metric in (CitationQuality(), CitationQuality(required=True)):
        result = metric.score(sample, judge=judge)
        assert (result.status, result.code) == ("undefined", "missing")
        assert reason in result.reason
    assert judge.asked == []


def test_an_answer_that_cites_nothing_needs_no_contexts():
    cites_nothing = Sample(answer="AA.", citations=())
    assert CitationQuality().score(cites_nothing, judge=oracle()).value == 0.0
    not_read = Sample(answer="AA.")
    required = CitationQuality(required=True)
    assert required.score(not_read, judge=oracle()).value == 0.0


PART = {"type": "text", "text": "AA."}


@pytest.mark.parametrize(
    ("row", "is_known"),
    [
        ({"answer": [{**PART, "citations": [{"cited_text": "AA"}]}]}, False),
        (
            {
                "output": [
                    {
                        "role": "assistant",
                        "content": [
                            {**PART, "annotations": [{"url": "https://a.example"}]}
                        ],
                    }
                ]
            },
            False,
        ),
        ({"answer": "AA.", "citations": ["https://a.example"]}, False),
        ({"answer": [{**PART, "citations": []}]}, True),
        ({"answer": "AA.", "annotations": []}, True),
    ],
)
@pytest.mark.parametrize("contexts", [["AA"], ["[1] AA", "[2] BB"]])
def test_an_answer_with_citations_that_are_not_read_is_not_called_uncited(
    row, is_known, contexts
):
    sample = Sample.from_row({**row, "contexts": contexts})
    result = CitationQuality(required=True).score(sample, judge=oracle())
    assert (result.status, result.value) == (
        ("scored", 0.0) if is_known else ("undefined", None)
    )
    assert is_known or "in a form that is not read" in result.reason


def test_an_empty_list_of_citations_in_a_row_is_as_none():
    row = {"answer": "AA.", "contexts": ["AA"], "citations": []}
    result = CitationQuality().score(Sample.from_row(row), judge=oracle())
    assert (result.status, result.code) == ("undefined", "no_citations")


def test_contexts_that_are_known_to_be_none_leave_every_mark_dangling():
    sample = Sample(
        answer="AA[1].", contexts=(), citations=citations_of_marks("AA[1].", {})
    )
    result = CitationQuality().score(sample, judge=oracle())
    assert result.value == 0.0
    assert evidence_of(result).dangling == 1


@FEW_EXAMPLES
@given(
    st.text("AB .[]12\n", max_size=40),
    st.lists(st.sampled_from(["AA", "BB", " ", "AA. BB."]), max_size=3),
    st.booleans(),
)
def test_every_outcome_is_a_score_in_range_or_says_why_not(answer, contexts, required):
    result = score(answer, contexts, required=required)
    assert result.reason
    if not isinstance(result, Scored):
        assert result.status == "undefined"
        return
    evidence = evidence_of(result)
    assert evidence.claims > 0
    assert evidence.supported <= evidence.claims
    assert evidence.precise <= evidence.citations
    recall = Fraction(evidence.supported, evidence.claims)
    precision = Fraction(evidence.precise, evidence.citations or 1)
    mean = 2 * recall * precision / ((recall + precision) or 1)
    assert result.value == float(mean)
    n_faulty = evidence.uncited + evidence.unsupported
    assert n_faulty == evidence.claims - evidence.supported


# Whose citation it is


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It is AA [1]. It is BB.", [(1,), ()]),
        ("It is AA. [1] It is BB.", [(1,), ()]),
        ('"It is AA." [1]\nIt is BB.', [(1,), ()]),
        ("- AA\n- BB\n[1][2]", [(), (1, 2)]),
        ("It is AA [1-3].", [(1, 2, 3)]),
        ("It is AA [1], and also [1] BB.", [(1,)]),
    ],
)
def test_a_mark_belongs_to_one_sentence(answer, cited):
    statements = evidence_of(score(answer)).statements
    ranks = [tuple(one.rank for one in statement.citations) for statement in statements]
    assert ranks == cited
    assert not any("[" in statement.text for statement in statements)


def test_a_span_belongs_to_each_sentence_that_it_overlaps():
    answer = "It is AA. It is BB. It is CC."
    spans = (
        Citation(start=5, end=15, contexts=(0,)),
        Citation(start=20, end=29, contexts=(1,), dangling=("x",)),
        # between two sentences: it stands behind the one before
        Citation(start=9, end=10, contexts=(2,)),
        Citation(start=19, end=20, contexts=(3,)),
        # it begins where the first sentence ends
        Citation(start=9, end=19, contexts=(4,)),
    )
    sample = Sample(answer=answer, contexts=SHOWN, citations=spans)
    statements = evidence_of(CitationQuality().score(sample, judge=oracle())).statements
    ranks = [tuple(one.rank for one in statement.citations) for statement in statements]
    assert ranks == [(1, 3), (1, 4, 5), (2,)]
    assert statements[2].dangling == ("x",)


def test_marks_that_only_the_prompt_tells_are_no_part_of_a_sentence():
    answer = "It is AA [doc-a]. It is BB [sic]."
    cited = Citation(start=0, end=17, contexts=(0,), mark=(9, 16))
    sample = Sample(answer=answer, contexts=SHOWN, citations=(cited,))
    statements = evidence_of(CitationQuality().score(sample, judge=oracle())).statements
    assert [one.text for one in statements] == ["It is AA.", "It is BB [sic]."]


def test_a_passage_is_judged_in_windows_and_several_together_are_not():
    judge = oracle()
    score("AA and BB[1][2].", judge=judge)
    is_judged_in_windows = {
        (type(asked), len(asked["passages"])): asked.if_too_long is not None
        for asked in judge.asked
    }
    assert is_judged_in_windows == {(Supports, 1): True, (Supports, 2): False}


def test_what_the_capture_could_not_tell_no_setting_tells():
    sample = Sample(
        contexts=["AA"],
        answer="AA[1].",
        capture=CaptureNotes(grade="exact", citations_unknown="the marks were changed"),
    )
    result = CitationQuality(numbered_from=1).score(sample, judge=oracle())
    assert (result.status, result.reason) == ("undefined", "the marks were changed")


def test_lines_without_a_word_claim_nothing_and_nobody_is_asked():
    judge = oracle()
    evidence = evidence_of(score("---\nAA[1].\n***", judge=judge))
    assert [type(asked) for asked in judge.asked] == [Supports]
    assert (evidence.claims, evidence.recall) == (1, 1.0)


# What judges are shown

HIDDEN = "zyxwv"


def test_contexts_that_are_not_asked_about_and_references_are_never_shown():
    sample = citing_sample(
        "It is AA[1]. So BB[1]. CC.",
        ["AA", f"{HIDDEN} other"],
        question="Which one?",
        reference=f"{HIDDEN} reference",
        facts=[f"{HIDDEN} fact"],
        retrieved=[f"{HIDDEN} retrieved"],
        generator=HIDDEN,
        metadata={"answer": HIDDEN},
    )
    judge = oracle()
    CitationQuality().score(sample, judge=judge)
    assert [type(one) for one in judge.asked].count(Supports) == 2
    for question in judge.asked:
        assert HIDDEN not in requests_of(question)
        assert "Which one?" in requests_of(question)


def test_the_sentences_before_are_shown_and_support_nothing():
    answer = "One AA[1]. Two BB[2]. Three AA[1]. Four CC[5]. Five CC[5]."
    judge = oracle()
    score(answer, judge=judge)
    before = {one["statement"]: one["before"] for one in judge.asked}
    assert before["One AA."] is None
    assert before["Five CC."] == "Two BB. Three AA. Four CC."
    for question in judge.asked:
        assert "support nothing" in render(question)[0].content
        rules = json.loads(convert_question(question).state)["rules"]
        assert "support nothing" in rules


# Judges


@pytest.mark.parametrize("logprobs", [True, False])
def test_a_token_gives_the_probability_and_without_it_polls(logprobs):
    def reply(body: dict[str, Any]) -> str:
        del body
        return '{"supported": 1, "reason": "It says so."}'

    with LoopbackServer(reply=reply, logprobs=logprobs) as server:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        result = score("AA[1].", judge=judge)  # type: ignore[arg-type]  # any judge
        n_sent = len(server.requests)
    citation = evidence_of(result).statements[0].citations[0]
    assert (citation.mode, n_sent) == (
        ("logprobs", 1) if logprobs else ("polls", 2)
    )  # a try, then two at once
    assert (citation.supports, citation.reason) == (True, "It says so.")


def test_typed_questions_ask_of_what_they_show():
    def chance(state: Any, question: Any) -> float:
        del question
        shown = json.loads(state) if isinstance(state, str) else state
        return 0.9 if "Anna" in str(shown.get("passages")) else 0.2

    answer = "Anna lit it[1]. It rained[2]. Hello."
    sample = citing_sample(answer, ["Anna lit it once.", "Fog."], question="Who?")
    with DecisionServer(answer=chance) as server:
        judge = DecisionJudge(OpenAIDecisionModel("tiny", api_base=server.base_url))
        run = evaluate([sample], [CitationQuality()], judge=judge)
        states = [json.loads(sent.body["input"]) for sent in server.requests]
    result = run.results[0].results["citation_quality"]
    evidence = evidence_of(result)
    assert [one.supported for one in evidence.statements] == [True, False, False]
    citations = [one for each in evidence.statements for one in each.citations]
    assert [one.mode for one in citations] == ["decision", "decision"]
    # a claim of neither probability: the last sentence makes none
    assert [one.claims for one in evidence.statements] == [True, True, False]
    assert sorted(sorted(state) for state in states) == sorted(
        [
            ["note", "question", "rules", "sentences"],
            ["note", "passages", "question", "rules", "statement"],
            ["before", "note", "passages", "question", "rules", "statement"],
        ]
    )


def test_the_embedded_judge_judges_by_words():
    answer = (
        "Sure! The lamp was lit by Anna in May 1882 [1]. The harbour froze [1]."
        " I hope this helps."
    )
    contexts = ["Anna lit the lamp in May of 1882.", "The harbour froze that winter."]
    sample = citing_sample(answer, contexts, question="Who lit the lamp?")
    result = CitationQuality().score(sample, judge=LexicalJudge())
    evidence = evidence_of(result)
    assert [one.claims for one in evidence.statements] == [False, True, True, False]
    assert [one.fault for one in evidence.statements] == [
        None,
        None,
        "unsupported",
        None,
    ]
    citations = [one for each in evidence.statements for one in each.citations]
    assert {one.mode for one in citations} == {"lexical"}


@pytest.mark.parametrize("logprobs", [True, False])
def test_a_dry_run_counts_what_a_run_sends(logprobs):
    metrics = [CitationQuality()]
    sample = citing_sample("AA[1]. BB[2][3]. So CC.", SHOWN, question="q")
    with LoopbackServer(reply=plausible_reply, logprobs=logprobs) as server:
        judge = LLMJudge(OpenAICompatibleModel(server.base_url, "m"))
        counted = estimate([sample], metrics, judge)
        assert server.requests == []
        evaluate([sample], metrics, judge=judge)
        n_sent = len(server.requests)
    assert counted.usage.calls == 4 <= n_sent


def test_rows_of_a_table_are_judged_from_the_command_line(tmp_path, capsys):
    lit, froze = "Anna lit the old lamp in May.", "The harbour froze that winter."
    shared = {"question": "Who lit it?", "answer": "Anna lit the old lamp in May [1]."}
    rows = [
        {**shared, "contexts": [f"[1] {lit}", f"[2] {froze}"]},
        {
            **shared,
            "contexts": [{"id": "x", "text": froze}, {"id": "y", "text": lit}],
            "citations": {"1": "y"},
        },
        {**shared, "contexts": [lit, froze]},
    ]
    path, out = tmp_path / "rows.jsonl", tmp_path / "results.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = ["evaluate", str(path), "--metrics", "citation_quality"]
    page = tmp_path / "page.html"
    written = ["--judge", "lexical", "--out", str(out), "--report", str(page)]
    assert main([*command, *written, "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "Rows: 2 no fault found, 1 input missing." in printed
    assert "rows not scored: 1 without an input that it needs" in printed
    results = [
        row.results["citation_quality"] for row in Report.from_jsonl(out).results
    ]
    assert [result.value for result in results] == [1.0, 1.0, None]
    again = ["--set", "citation_quality.numbered_from=1", "--judge", "lexical"]
    assert main([*command, *again, "--out", str(out)]) == 0
    values = [
        row.results["citation_quality"].value for row in Report.from_jsonl(out).results
    ]
    assert values == [1.0, 1.0, 1.0]


# Plans side by side


def plan_of(replies: list[Any], *n_questions: int) -> Any:
    """A plan that asks so many questions, step by step, and returns all replies."""
    for count in n_questions:
        question = Supports(
            parts={"statement": Part("Statement", "AA")},
            instructions=CitationQuality().instructions()[0],
            Reply=SupportReply,
        )
        replies.append((yield (question,) * count))
    return [reply for step in replies for reply in step]


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), max_size=4))
def test_plans_side_by_side_get_their_own_replies_in_as_few_steps_as_the_longest(steps):
    together = ask_side_by_side([plan_of([], *counts) for counts in steps])
    n_steps = n_given = 0
    replies: Any = None
    while True:
        try:
            batch = together.send(replies)
        except StopIteration as end:
            outcomes = end.value
            break
        n_steps += 1
        replies = tuple(range(n_given, n_given + len(batch)))
        n_given += len(batch)
    assert n_steps == max(map(len, steps), default=0)
    assert [len(outcome) for outcome in outcomes] == [sum(counts) for counts in steps]
    given = [reply for outcome in outcomes for reply in outcome]
    assert sorted(given) == list(range(n_given))


# Names


def test_statements_and_their_texts_stay_out_of_what_is_printed():
    statement = JudgedStatement(text=HIDDEN, claims=True)
    assert HIDDEN not in repr(statement)

"""Retrieval Accuracy: extraction, the facts × contexts matrix, OR, subsets."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import asked_facts, covered, facts, of

from ragmetrics_core import (
    Context,
    Fact,
    LexicalJudge,
    RetrievalAccuracy,
    Sample,
    ScriptedJudge,
)
from ragmetrics_core.data.errors import JudgeError
from ragmetrics_core.data.replies import Asked
from ragmetrics_core.judging.rendering import render
from ragmetrics_core.metrics.fact_matrix import (
    AccuracyEvidence,
    ExtractFacts,
    FactInContext,
)

matrices = st.integers(1, 4).flatmap(
    lambda columns: st.lists(
        st.lists(st.floats(0, 1), min_size=columns, max_size=columns),
        min_size=1,
        max_size=5,
    )
)


def matrix_judge(matrix, mode="logprobs"):
    """Cells by position: fact f0 in context c0, …."""

    def cells(question):
        column = int(question["context"].removeprefix("c"))
        return covered(
            *(
                matrix[int(it.removeprefix("f"))][column]
                for it in asked_facts(question)
            ),
            mode=mode,
            mass=0.99,
        )

    stated = facts(*(f"f{row}" for row in range(len(matrix))))
    return ScriptedJudge({ExtractFacts: stated, FactInContext: cells})


def score(matrix, **settings):
    judge = matrix_judge(matrix)
    contexts = [f"c{column}" for column in range(len(matrix[0]))]
    return (
        RetrievalAccuracy(**settings).score(
            reference="r", contexts=contexts, judge=judge
        ),
        judge,
    )


def test_eleven_of_fourteen_facts():
    matrix = [
        [0.9 if row < 11 and column == row % 3 else 0.1 for column in range(3)]
        for row in range(14)
    ]
    result, judge = score(matrix)
    assert result.value == pytest.approx(0.7857, abs=5e-5)
    assert result.reason == "11 of 14 facts are covered by at least one context."
    assert len(judge.asked) == 14 * 3 + 1
    assert (result.evidence.matrix_calls, result.evidence.extraction_calls) == (42, 1)
    assert result.evidence.soft == pytest.approx((11 * 0.9 + 3 * 0.1) / 14)


def test_one_call_per_context():
    result, judge = score([[0.9, 0.1], [0.2, 0.8]], calls="per_context")
    assert result.value == 1.0
    assert len(judge.asked) == 2 + 1
    assert judge.asked[1]["facts"] == ("f0", "f1")
    assert result.evidence.matrix_calls == 2


def test_cells_record_mode_and_mass_and_one_half_is_not_covered():
    result, _ = score([[0.5, 0.2]])
    assert result.value == 0.0
    cell = result.evidence.cells[0][0]
    assert (cell.probability, cell.mode, cell.mass, cell.covered) == (
        0.5,
        "logprobs",
        0.99,
        False,
    )


@given(matrices)
def test_laws_of_subsets(matrix):
    result, judge = score(matrix)
    evidence, columns = result.evidence, range(len(matrix[0]))
    asked = len(judge.asked)
    assert evidence.combine(columns) == result.value
    assert evidence.combine([]) == 0
    for size in range(1, len(columns) + 1):
        for subset in combinations(columns, size):
            value = evidence.combine(subset)
            expected = sum(
                any(row[column] > 0.5 for column in subset) for row in matrix
            ) / len(matrix)
            assert value == pytest.approx(expected)
            for more in columns:
                assert evidence.combine({*subset, more}) >= value
    for column in columns:
        alone, _ = score([[row[column]] for row in matrix])
        assert evidence.combine([column]) == alone.value
    assert len(judge.asked) == asked


def test_unanswered_cells_fail():
    judge = ScriptedJudge(
        {
            FactInContext: lambda q: (
                JudgeError("no") if q["context"] == "c1" else covered(0.75)
            )
        }
    )
    result = RetrievalAccuracy().score(facts=["f"], contexts=["c0", "c1"], judge=judge)
    assert result.status == "failed"
    assert result.evidence.combine([0]) == 1.0
    assert (
        AccuracyEvidence.model_validate_json(result.evidence.model_dump_json())
        == result.evidence
    )


def test_unknown_subset_is_an_error():
    result, _ = score([[0.9, 0.1]])
    for column in (2, -1):
        with pytest.raises(IndexError, match="0 to 1"):
            result.evidence.combine([column])


def test_own_facts_skip_extraction_and_weigh():
    judge = matrix_judge([[0.9], [0.1]])
    facts = [Fact(text="f0", weight=3), Fact(text="f1"), Fact(text="F0.", weight=5)]
    result = RetrievalAccuracy().score(
        Sample(facts=facts, contexts=["c0"]), judge=judge
    )
    assert result.value == 0.75
    assert result.evidence.facts_from == "sample"
    assert [fact.text for fact in result.evidence.facts] == ["f0", "f1"]
    assert [type(question) for question in judge.asked] == [FactInContext] * 2


def test_best_of_several_references_counts():
    def stated(question):
        return facts("f0") if question["reference"] == "good" else facts("f1", "f0")

    judge = ScriptedJudge(
        {
            ExtractFacts: stated,
            FactInContext: lambda q: covered(float(q["fact"] == "f0")),
        }
    )
    result = RetrievalAccuracy().score(
        reference=["other", "good"], contexts=["c"], judge=judge
    )
    assert (result.value, [fact.text for fact in result.evidence.facts]) == (
        1.0,
        ["f0"],
    )
    assert len(judge.asked) == 2 + 2


def test_cot_asks_for_reasoning():
    _, judge = score([[0.9]], extraction="cot")
    assert "reason" in judge.asked[0].Reply.model_fields
    assert "step by step" in judge.asked[0].instructions.template


def test_no_facts_is_undefined_and_unanswered_cells_fail():
    judge = ScriptedJudge({ExtractFacts: facts(), FactInContext: covered(1.0)})
    result = RetrievalAccuracy().score(reference="Hm.", contexts=["c"], judge=judge)
    assert (result.status, result.code) == ("undefined", "no_facts")
    for reference in ("None", "None.", "?!"):
        result = RetrievalAccuracy().score(
            reference=reference, contexts=["c"], judge=LexicalJudge()
        )
        assert (result.status, result.code) == ("undefined", "no_facts")
    judge = ScriptedJudge(
        {
            ExtractFacts: facts("a", "b"),
            FactInContext: lambda q: (
                JudgeError("no") if q["fact"] == "b" else covered(1.0)
            ),
        }
    )
    result = RetrievalAccuracy().score(reference="r", contexts=["c"], judge=judge)
    assert result.status == "failed"
    assert [row[0].probability for row in result.evidence.cells] == [1.0, None]
    assert (
        RetrievalAccuracy()
        .score(reference="r", contexts=["c"], judge=ScriptedJudge({}))
        .status
        == "failed"
    )


def test_retrieved_is_judged_where_known_and_the_loss_is_given():
    judge = matrix_judge([[0.9, 0.1], [0.1, 0.9]])
    sample = Sample(reference="r", retrieved=["c0", "c1"], contexts=["c0"])
    result = RetrievalAccuracy().score(sample, judge=judge)
    assert (
        result.value,
        result.evidence.evaluated,
        result.evidence.contexts_value,
    ) == (1.0, "retrieved", 0.5)
    other = RetrievalAccuracy().score(
        sample.model_copy(update={"retrieved": (), "contexts": (Context(text="c0"),)}),
        judge=judge,
    )
    assert other.evidence.contexts_value == 0.5  # asked as well, behind what was found
    same = RetrievalAccuracy().score(
        Sample(reference="r", retrieved=["c0"], contexts=["c0"]), judge=judge
    )
    assert same.evidence.contexts_value == same.value == 0.5  # nothing was lost
    alone = RetrievalAccuracy().score(
        Sample(reference="r", contexts=["c0"]), judge=judge
    )
    assert (alone.evidence.evaluated, alone.evidence.contexts_value) == (
        "contexts",
        None,
    )


def test_nothing_retrieved_and_nothing_shown_scores_nothing():
    result = RetrievalAccuracy().score(
        Sample(reference="r", retrieved=(), contexts=[" "]), judge=ScriptedJudge({})
    )
    assert (result.value, result.reason) == (0.0, "Nothing was retrieved.")
    assert result.evidence is None  # nobody divided the reference into facts


@pytest.mark.parametrize("retrieved", [(), ("", " ")])
def test_the_evidence_of_nothing_retrieved_tells_the_facts_that_were_missed(retrieved):
    result = RetrievalAccuracy().score(
        Sample(facts=["a", "b", "A."], retrieved=retrieved), judge=ScriptedJudge({})
    )
    assert (result.status, result.value) == ("scored", 0.0)
    assert [fact.text for fact in result.evidence.facts] == ["a", "b"]
    assert not any(cell.covered for row in result.evidence.cells for cell in row)
    assert [len(row) for row in result.evidence.cells] == [len(retrieved)] * 2


def test_identical_contexts_are_judged_once_and_blank_ones_never():
    judge = ScriptedJudge({ExtractFacts: facts("f"), FactInContext: covered(1.0)})
    result = RetrievalAccuracy().score(
        reference="r", contexts=["c", "", "c"], judge=judge
    )
    assert len(judge.asked) == 2
    assert [cell.probability for cell in result.evidence.cells[0]] == [1.0, 0.0, 1.0]


def test_where_the_embedded_judge_splits_the_reference_the_soft_mean_is_the_score():
    matrix, contexts = [[0.9, 0.2], [0.4, 0.3], [0.1, 0.6]], ["c0", " ", "c1"]
    result = RetrievalAccuracy().score(
        reference="r", contexts=contexts, judge=matrix_judge(matrix, "lexical")
    )
    # By hand: the highest of each row, (0.9 + 0.4 + 0.6) / 3; the thresholded share
    # would be 2/3.
    assert result.value == pytest.approx(1.9 / 3)
    assert result.evidence.soft == pytest.approx(result.value)
    assert result.evidence.combination == "soft"
    assert "2 of 3 facts are covered" in result.reason
    assert (
        "mean of each fact's highest score of words, because the embedded judge split the"
        " reference" in result.reason
    )


@pytest.mark.parametrize(
    ("mode", "facts"),
    [("lexical", ["f0", "f1"]), ("logprobs", None)],
    ids=["facts of the sample's own", "another judge"],
)
def test_everywhere_else_the_covered_facts_are_counted(mode, facts):
    judge = matrix_judge([[0.9], [0.4]], mode)
    result = RetrievalAccuracy().score(
        reference="r", facts=facts, contexts=["c0"], judge=judge
    )
    assert (result.evidence.combination, result.value) == ("or", 0.5)
    assert "embedded" not in result.reason
    assert "score of words" not in result.reason


@given(matrices)
def test_laws_of_subsets_hold_for_the_soft_mean(matrix):
    columns = range(len(matrix[0]))
    contexts = [f"c{column}" for column in columns]
    result = RetrievalAccuracy().score(
        reference="r", contexts=contexts, judge=matrix_judge(matrix, "lexical")
    )
    evidence = result.evidence
    assert evidence.combine(columns) == result.value
    assert evidence.combine([]) == 0
    for size in range(1, len(columns) + 1):
        for subset in combinations(columns, size):
            value = evidence.combine(subset)
            assert value == pytest.approx(
                sum(max(row[c] for c in subset) for row in matrix) / len(matrix)
            )
            assert all(evidence.combine({*subset, more}) >= value for more in columns)


def test_the_best_reference_is_the_one_with_the_best_soft_mean():
    def stated(question):
        return facts("f0", "f1") if question["reference"] == "first" else facts("f2")

    def cell(question):
        return covered(
            {"f0": 0.9, "f1": 0.1, "f2": 0.6}[question["fact"]], mode="lexical"
        )

    judge = ScriptedJudge({ExtractFacts: stated, FactInContext: cell})
    result = RetrievalAccuracy().score(
        reference=["first", "second"], contexts=["c0"], judge=judge
    )
    assert (result.value, result.evidence.facts[0].text) == (0.6, "f2")


def test_facts_are_equal_whatever_their_case_spacing_and_full_stop():
    judge = ScriptedJudge({FactInContext: covered(1.0)})
    stated = ["It  is Blue.", "it is blue", "It is green", "IT IS GREEN.."]
    result = RetrievalAccuracy().score(facts=stated, contexts=["c"], judge=judge)
    assert [fact.text for fact in result.evidence.facts] == [
        "It  is Blue.",
        "It is green",
    ]


@pytest.mark.parametrize(
    ("reference", "sentences"),
    [("No full stop", 1), ("One. Two.", 2), ("One! Two? Three.", 3), ("一。二。", 2)],
)
def test_a_usual_extraction_has_two_facts_for_each_sentence(reference, sentences):
    question = of(RetrievalAccuracy(), reference=reference, contexts=["c"])
    assert len(question.example_reply().facts) == 2 * sentences


def test_a_judge_that_gives_too_few_verdicts_fails_and_says_how_many():
    def one_verdict(question):
        # without the question as the context, no label is missed
        fields = {"facts": [{"label": "F1", "covered": 1}]}
        return Asked((question.Reply.model_validate(fields),))

    judge = ScriptedJudge({FactInContext: one_verdict})
    result = RetrievalAccuracy(calls="per_context").score(
        facts=["a", "b"], contexts=["c"], judge=judge
    )
    assert result.status == "failed"
    assert "gave 1 verdicts for 2 facts" in result.reason


def test_polls_of_a_cell_become_their_share():
    said = [{"covered": 1}, {"covered": 0}, {"covered": 1}]
    result = RetrievalAccuracy().score(
        facts=["a"], contexts=["c"], judge=ScriptedJudge({FactInContext: said})
    )
    assert result.evidence.cells[0][0].probability == pytest.approx(2 / 3)


def test_facts_are_extracted_in_view_of_the_earlier_turns_and_the_rewrite():
    judge = ScriptedJudge({ExtractFacts: facts("f"), FactInContext: covered(1.0)})
    RetrievalAccuracy().score(
        question="And when?",
        standalone_question="When was the lamp lit?",
        history=[{"role": "user", "content": "Who lit the lamp?"}],
        reference="1882.",
        contexts=["c"],
        judge=judge,
    )
    prompt = render(judge.asked[0])[-1].content
    assert "\nWhen was the lamp lit?\n</stand-alone-rewrite-" in prompt
    assert "\nWho lit the lamp?\n</earlier-turn-" in prompt

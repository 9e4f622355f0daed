"""Retrieval Accuracy: extraction, the facts × contexts matrix, OR, subsets."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_replies import asked_facts, covered, facts, of

from ragmetrics_core import (
    Context,
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


def score(matrix, mode="logprobs", **settings):
    judge = matrix_judge(matrix, mode)
    contexts = [f"c{column}" for column in range(len(matrix[0]))]
    return (
        RetrievalAccuracy(**settings).score(
            reference="r", contexts=contexts, judge=judge
        ),
        judge,
    )


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


@pytest.mark.parametrize("mode", ["logprobs", "lexical"])
@given(matrices)
def test_laws_of_subsets(mode, matrix):
    """A fact counts where it is covered; where words split the reference, by its highest score."""

    def of_row(row):
        return any(p > 0.5 for p in row) if mode == "logprobs" else max(row)

    columns = range(len(matrix[0]))
    result, judge = score(matrix, mode)
    evidence, asked = result.evidence, len(judge.asked)
    assert evidence.combine(columns) == result.value
    assert evidence.combine([]) == 0
    for size in range(1, len(columns) + 1):
        for subset in combinations(columns, size):
            value = evidence.combine(subset)
            expected = sum(of_row([row[c] for c in subset]) for row in matrix)
            assert value == pytest.approx(expected / len(matrix))
            assert all(evidence.combine({*subset, more}) >= value for more in columns)
    for column in columns:
        alone, _ = score([[row[column]] for row in matrix], mode)
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


def test_cot_asks_for_reasoning():
    _, judge = score([[0.9]], extraction="cot")
    assert "reason" in judge.asked[0].Reply.model_fields
    assert "step by step" in judge.asked[0].instructions.template


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
    stated = ["It  is Blue.", "it is blue", "It is gr\u00fcn", "IT IS GRU\u0308N.."]
    result = RetrievalAccuracy().score(facts=stated, contexts=["c"], judge=judge)
    assert [fact.text for fact in result.evidence.facts] == [
        "It  is Blue.",
        "It is gr\u00fcn",
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

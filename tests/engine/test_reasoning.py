"""Reasoning of a model in what it said, as ``<think>…</think>``: it is not judged, and its marks cite nothing."""

from __future__ import annotations

import pytest
from citing import cited_in
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core import (
    ContextAdherence,
    ContextUtilization,
    Sample,
    ScriptedJudge,
    evaluate,
)
from ragmetrics_core.capture import BackgroundEvaluator
from ragmetrics_core.data.citations import (
    Citation,
    CitedStatement,
    citations_of_marks,
    cited_statements,
    read_citations,
)
from ragmetrics_core.metrics.context_utilization import Useful

NUMBERING = {"1": 0, "2": 1, "3": 2}
BLOCKS = (
    "<think>{}</think>",
    "<think>\n{}\n</think>\n\n",
    "<THINKING>{}</thinking>",
    "<thought>{}</thought>\n",
    "<reasoning>{}</reasoning>\n",
    "{}</think>\n\n",  # the prompt wrote the opening tag
)
THOUGHTS = (
    "Source [3] is old, so I leave it out. Maybe [2]? No, only [1]",
    "As source 2 says (3), see [see 2]",
    "Sources:\n[1] a.txt\n[2] b.txt\n",
    "",
)
ANSWERS = (
    "The window was raised to 128K tokens [1].",
    "It was raised [1][9]. Training took long. [2]",
    "It was raised.",
    "It was raised [see 2].",
    "- It was raised.\n- It fell [2].",
)
SAID_OF_TAGS = (
    "It prints `</think>` at its end. It fell [1].",
    "It fell [1]. It prints `</think>` at its end.",
    "It prints `<think>` first. It fell [1].",
    "Readers [think] so. It fell [1].",
)


@given(
    block=st.sampled_from(BLOCKS),
    thoughts=st.sampled_from(THOUGHTS),
    answer=st.sampled_from(ANSWERS),
)
def test_reasoning_before_an_answer_changes_nothing_but_places(block, thoughts, answer):
    before = block.format(thoughts)
    alone = read_citations(answer, NUMBERING)
    behind = read_citations(before + answer, NUMBERING)
    assert behind.why_unknown == alone.why_unknown
    cited_alone = citations_of_marks(answer, NUMBERING)
    cited_behind = citations_of_marks(before + answer, NUMBERING)
    places = [(one.start, one.end, one.contexts, one.dangling) for one in cited_alone]
    assert [
        (one.start - len(before), one.end - len(before), one.contexts, one.dangling)
        for one in cited_behind
    ] == places
    assert cited_statements(before + answer, cited_behind) == cited_statements(
        answer, cited_alone
    )


def test_reasoning_that_is_never_closed_leaves_its_marks_unread():
    for answer in ("<think>Maybe [2]", "It is old [1]. <think>Maybe [2]"):
        assert read_citations(answer, NUMBERING).citations is None


@pytest.mark.parametrize("answer", SAID_OF_TAGS)
def test_a_tag_that_the_answer_speaks_of_is_no_reasoning_or_a_doubt(answer):
    read = read_citations(answer, NUMBERING)
    if read.citations is not None:
        assert [one.contexts for one in read.citations] == [(0,)]


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if not block.startswith("{}")]
)
def test_reasoning_between_sentences_cites_nothing(block):
    """Of each block only its own words are reasoning, and no sentence before it."""
    reasoning = block.format(THOUGHTS[0])
    answer = f"It fell [1].\n{reasoning}\nIt rose [3].\n{reasoning}\nIt burnt [1]."
    read = read_citations(answer, NUMBERING)
    assert [one.contexts for one in read.citations or ()] == [(0,), (2,), (0,)]


def test_sentences_of_the_reasoning_are_no_statements():
    answer = "<think>It is red. Maybe [2]?</think>It is old [1]."
    cited = citations_of_marks(answer, NUMBERING)
    assert cited_statements(answer, cited) == (CitedStatement("It is old.", (0,)),)


# What is judged

ROW = {"question": "How long is the Velm?", "contexts": ["The Velm is 90 km long."]}
IS_90 = "The Velm is 90 km long."
TOLD = "the answer held a model's reasoning"


@settings(max_examples=examples(20))
@given(
    block=st.sampled_from(
        [*BLOCKS, "{}\n</think>\n\n", "{}</think>", "[THINK]{}[/THINK]", "{}[/THINK]"]
    ),
    thoughts=st.sampled_from(
        [*THOUGHTS, "Perhaps 70 km?\nNo.", "```\n7 km\n", "Or `x`"]
    ),
    again=st.booleans(),
)
def test_an_answer_is_judged_without_its_reasoning(block, thoughts, again):
    row = {**ROW, "answer": block.format(thoughts) + IS_90}
    if again and block.startswith("<"):
        row["answer"] += "\n" + block.format(thoughts)
    rows = [{**ROW, "answer": IS_90}, row, Sample.from_row(row), Sample(**row)]
    report = evaluate(rows, judge="lexical")
    values_expected, *values = [
        {name: one.value for name, one in result.results.items()}
        for result in report.results
    ]
    assert values == [values_expected] * 3
    for result in report.results[1:]:
        assert (result.sample.answer or "").strip() == IS_90
        assert TOLD in result.sample.capture.doubts["reasoning"]
    assert report.summary().doubts[0].samples == 3
    adherence = ContextAdherence().score(**row, judge="lexical").value
    assert adherence == values_expected["context_adherence"]


def test_no_judge_is_shown_the_reasoning_and_it_is_said_once(caplog):
    rows = [{**ROW, "answer": f"<think>Zanzibar {n}?</think>{IS_90}"} for n in range(3)]
    judge = ScriptedJudge({Useful: {"useful": True, "reason": "It says so."}})
    evaluate(rows, [ContextUtilization()], judge=judge)
    ContextUtilization().score(Sample(**rows[0]), judge=judge)
    assert [question["answer"] for question in judge.asked] == [IS_90] * 4
    (told,) = [words for words in caplog.messages if "a model's reasoning" in words]
    assert told.startswith("3 samples held")


@pytest.mark.parametrize(
    "reasoning",
    [
        "<think>It may <think>be</think> 70 km.</think>\n\n",
        "<think time=3>70 km?</think>",
        "<seed:think>70 km?</seed:think>\n",
        "[THINK]70 km?[/THINK]",
        "◁think▷70 km?◁/think▷",
        "70 km?◁/think▷",
        "<|channel|>analysis<|message|>70 km?<|end|><|start|>assistant<|channel|>final<|message|>",
        "70 km?<|end|><|start|>assistant<|channel|>final <|constrain|>text<|message|>",
        "analysis70 km?assistantfinal",
        "Thinking...\n70 km?\n...done thinking.\n\n",
        "<longcat_think>70 km?</longcat_think>",
        "<chain_of_thought>70 km?</chain_of_thought>\n",
        "<inner_thoughts>70 km?</inner_thoughts>\n",
        "<thought_process>70 km?</thought_process>",
        "<|think|>70 km?<|/think|>",
        "Here are my reasoning steps:\n70 km?\n[BEGIN FINAL RESPONSE]\n",
        "<details><summary>Reasoning</summary>\n70 km?\n</details>\n",
        "<|START_THINKING|>70 km?<|END_THINKING|><|START_RESPONSE|>",
        "<|channel>thought\n70 km?<channel|>",
        "<scratchpad>70 km?</scratchpad>",
        "<|begin_of_thought|>70 km?<|end_of_thought|>\n<|begin_of_solution|>",
        "<unused94>thought\n70 km?<unused95>",
        '<details style="color:gray" open> <summary> Thinking... </summary>\n70?\n</details>\n',
        '<details type="reasoning" done="true">\n&gt; 70 km?\n</details>\n',
    ],
)
@pytest.mark.parametrize("fields", ["answer", "answer and reference", "history"])
def test_other_forms_of_reasoning_references_of_models_and_earlier_turns(
    fields, reasoning
):
    def row(**behind: str) -> dict[str, object]:
        fields_of_models = ("answer", "reference", "history")
        said = {name: behind.get(name, "") + IS_90 for name in fields_of_models}
        turns = [("user", "<think>is a tag?"), ("assistant", said["history"])]
        history = [{"role": role, "content": text} for role, text in turns]
        return {**ROW, **said, "history": history}

    plain = evaluate([row()], judge="lexical").results[0]
    behind = dict.fromkeys(fields.split(" and "), reasoning)
    result = evaluate([row(**behind)], judge="lexical").results[0]
    assert (result.sample.answer, result.sample.reference) == (IS_90, (IS_90,))
    assert result.sample.history == plain.sample.history
    assert {name: one.value for name, one in result.results.items()} == {
        name: one.value for name, one in plain.results.items()
    }
    assert f"the {fields} held" in result.sample.capture.doubts["reasoning"]


@pytest.mark.parametrize(
    ("answer", "judged"),
    [
        (f"<think>7?</think>{IS_90}<think>8?</think> It is long.", "{} It is long."),
        (f"It is old. <think>\n70 km?\n</think>\n\n{IS_90}", "It is old. {}"),
        (f"It is old. <think>70 km?</think>\n{IS_90}", "It is old. {}"),
        (f"It is old. <think>70 km?\n</think>\n{IS_90}", "It is old. {}"),
        (f"Hm.\n<think>7 km?</think>\nNo.\n</think>\n{IS_90}", "{}"),
    ],
)
def test_reasoning_behind_a_text_takes_nothing_before_its_opening_tag(answer, judged):
    result = evaluate([{**ROW, "answer": answer}], judge="lexical").results[0]
    assert result.sample.answer == judged.format(IS_90)
    assert TOLD in result.sample.capture.doubts["reasoning"]


def test_reasoning_of_a_new_answer_is_left_out_of_a_sample_that_was_judged_before():
    answer = f"<think>70 km?</think>{IS_90}"
    judged = evaluate([{**ROW, "answer": answer}], judge="lexical").results[0].sample
    anew = judged.model_copy(update={"answer": answer})
    assert evaluate([anew], judge="lexical").results[0].sample.answer == IS_90


@pytest.mark.parametrize(
    ("answer", "is_told"),
    [
        (f"Sure! <think>70 km?</think> {IS_90}", True),
        (f"{IS_90} <think>\nOr 70", True),
        (f"It writes `<think>` first. {IS_90}", False),
        (f"<details><summary>More</summary>{IS_90}</details> {IS_90}", False),
    ],
)
def test_reasoning_within_a_line_is_judged_and_told(answer, is_told):
    result = evaluate([{**ROW, "answer": answer}], judge="lexical").results[0]
    assert result.sample.answer == answer
    notes = result.sample.capture
    told = notes.doubts.get("reasoning", "") if notes else ""
    assert ("judged as it stands" in told) is is_told


def test_an_answer_that_was_cut_off_within_its_reasoning_is_none():
    for answer in (
        "<think>It may be 90 km",
        "\n<thinking>\nIs it?",
        "<think></think>",
        "◁think▷90",
        "[THINK]90",
        "<|channel|>analysis<|message|>90",
    ):
        report = evaluate([{**ROW, "answer": answer}], ["adherence"], judge="lexical")
        (result,) = report.results
        assert result.sample.answer is None
        assert result.results["context_adherence"].status == "undefined"


@pytest.mark.parametrize(
    "answer",
    [
        *SAID_OF_TAGS,
        "Models write `</think>` first.",
        "Put <think>x</think> in.",
        "It writes an empty `<think></think>` block.",
        "Take text.split('</think>')[-1] alone.",
        "Take `text.split('</think>')[-1]` alone.",
        f"{IS_90} It wrote </think> in the log.",
        f"The tag </think> closes what <think> opened. {IS_90}",
        f"<details>\n<summary>More</summary>\n{IS_90}\n</details>\n{IS_90}",
    ],
)
def test_a_tag_that_an_answer_speaks_of_stays_in_it(answer):
    result = evaluate([{**ROW, "answer": answer}], judge="lexical").results[0]
    assert result.sample.answer == answer


@pytest.mark.parametrize(
    "answer",
    [
        f"The tag <think> opens and </think> closes reasoning. {IS_90}",
        f"In XML, <thinking> marks thought and </thinking> ends it. {IS_90}",
        f"{IS_90}\n</details>",
    ],
)
def test_tags_that_an_answer_speaks_of_behind_its_reasoning_stay(answer):
    row = {**ROW, "answer": f"<think>x</think>{answer}"}
    result = evaluate([row], judge="lexical").results[0]
    assert result.sample.answer == answer


@pytest.mark.parametrize("block", BLOCKS[:-1])
def test_what_the_answer_cites_moves_with_it(block):
    answer = f"It rose [2].\n{block.format('Or [3]?')}It fell [1]. {IS_90} [9]"
    for before in ("", block.format(THOUGHTS[0])):
        row = {"contexts": ["[1] a", "[2] b", "[3] c"], "answer": before + answer}
        result = evaluate([row], ["adherence"], judge="lexical").results[0]
        assert result.sample is not None
        assert cited_in(result.sample) == [
            ("It rose [2].", (1,), ()),
            ("It fell [1].", (0,), ()),
            (IS_90, (), ("9",)),
        ]
        for citation in result.sample.citations or ():
            assert citation.mark is not None
            start, end = citation.mark
            assert (result.sample.answer or "")[start:end] in ("[2]", "[1]", "[9]")


def test_what_is_cited_in_reasoning_without_a_mark_is_left_out():
    answer = f"<think>It fell.</think>{IS_90}"
    citations = [
        Citation(start=answer.index(text), end=answer.index(text) + len(text))
        for text in ("It fell.", IS_90)
    ]
    sample = Sample(contexts=["a"], answer=answer, citations=citations)
    result = evaluate([sample], ["adherence"], judge="lexical").results[0]
    assert cited_in(result.sample) == [(IS_90, (), ())]


def test_what_watches_an_application_leaves_reasoning_out(caplog):
    judge = ScriptedJudge({Useful: {"useful": True, "reason": "It says so."}})
    sample = Sample(**ROW, answer=f"<think>Zanzibar?</think>{IS_90}")
    watching = BackgroundEvaluator(lambda _: [sample], [ContextUtilization()], judge)
    watching.record(1)
    watching.flush()
    (result,) = watching.report().results
    watching.stop()
    assert [question["answer"] for question in judge.asked] == [IS_90]
    assert result.sample.answer == IS_90
    assert TOLD in result.sample.capture.doubts["reasoning"]

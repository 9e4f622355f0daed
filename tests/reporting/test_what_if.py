"""What if: other numbers and orders of chunks, from the verdicts that are there."""

import random
from statistics import fmean
from typing import Any

import pytest
from lanes import examples

from ragmetrics_core import ContextUtilization, Report, ScriptedJudge, evaluate
from ragmetrics_core.data import SettingError
from ragmetrics_core.metrics.context_utilization import Useful

USEFUL = "✓"


def judge() -> ScriptedJudge:
    """Calls a chunk useful if it says so; an answer never declines."""
    return ScriptedJudge({Useful: lambda asked: {"useful": USEFUL in asked["chunk"]}})


def measured(rows: list[dict[str, Any]], **settings: Any) -> Report:
    metric = ContextUtilization(**settings)
    return evaluate(rows, [metric], judge=judge())


def row(*contexts: str, number: int = 0) -> dict[str, Any]:
    return {
        "id": str(number),
        "question": f"q{number}?",
        "contexts": list(contexts),
        "answer": "a",
    }


def random_rows(count: int) -> list[dict[str, Any]]:
    """Rows whose first chunk may be useful, blank, or stand there twice."""
    draw = random.Random(count)
    texts = [f"a{USEFUL}", "b", f"c c c{USEFUL}", "d d", " ", f"e{USEFUL}", "f"]
    return [
        # something is useful at the first rank: no cut is asked whether it declines
        row(texts[0], *draw.choices(texts, k=draw.randrange(6)), number=number)
        for number in range(count)
    ]


@pytest.mark.nightly
def test_law_a_cut_scores_what_the_metric_gives_for_the_first_chunks():
    rows = random_rows(examples(200))
    found = measured(rows).what_if()
    assert [cut.k for cut in found.cuts] == [*range(1, 7)]
    for cut in found.cuts:
        cut_rows = [{**one, "contexts": one["contexts"][: cut.k]} for one in rows]
        scores = measured(cut_rows).scores("context_utilization")
        assert cut.score == pytest.approx(fmean(s for s in scores if s is not None))
    ordered = [
        {
            **one,
            "contexts": sorted(one["contexts"], key=lambda text: USEFUL not in text),
        }
        for one in rows
    ]
    scores = measured(ordered).scores("context_utilization")
    assert found.perfect_order == fmean(s for s in scores if s is not None)
    assert found.cuts[-1].score == pytest.approx(found.score)
    assert (found.cuts[-1].useful_kept, found.cuts[-1].text_kept) == (1.0, 1.0)


def test_by_hand():
    rows = [row("xx", f"y{USEFUL}", "zzzz"), row(f"y{USEFUL}", f"u{USEFUL}", number=1)]
    found = measured(rows).what_if("utilization")
    assert [(cut.k, cut.useful_kept, cut.score) for cut in found.cuts] == [
        (1, pytest.approx(1 / 3), 0.5),  # 0 and 1
        (2, 1.0, 0.75),  # 1/2 and 1
        (3, 1.0, 0.75),
    ]
    assert [cut.text_kept for cut in found.cuts] == pytest.approx([4 / 12, 8 / 12, 1])
    assert (found.rows, found.score, found.perfect_order) == (2, 0.75, 1.0)
    assert found.sentence == (
        "The first 2 of 3 chunks hold 100% of the useful ones in 67% of the text; a"
        " perfect order would give 1.00."
    )
    assert str(found).splitlines()[2].split() == ["2", "100%", "67%", "0.750"]
    assert [cut.sentence.partition(":")[0] for cut in found.cuts] == [
        "The first chunk",
        "The first 2 chunks",
        "The first 3 chunks",
    ]


def test_a_chunk_that_stands_twice_counts_once():
    found = measured([row("n", f"y{USEFUL}", f"y{USEFUL}")]).what_if()
    assert [(cut.useful_kept, cut.score) for cut in found.cuts] == [
        (0.0, 0.0),
        (1.0, 0.5),
        (1.0, 0.5),
    ]


def test_without_verdicts_there_is_nothing_to_cut():
    report = evaluate(
        [row("x")], [ContextUtilization(relevance="probability")], judge="lexical"
    )
    with pytest.raises(SettingError, match="scored by verdicts"):
        report.what_if()
    with pytest.raises(SettingError, match="recall"):
        report.what_if("recall")
    both = Report([*report, *measured([row(f"y{USEFUL}")])])
    assert both.what_if().rows == 1

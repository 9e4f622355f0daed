"""The page's table of the embedded judge asks the questions that its benchmark prints."""

import json
import sys
from pathlib import Path

import pytest

from ragmetrics_core.lexical import lexical_judge

ROOT = Path(__file__).parents[2]
TEXTS = (
    "Anna lit the old lamp in 1932.",
    "Berta was painting the tall gate.",
    "Carl sold 14 boats near Ghent.",
)


def rows(family: str) -> list[dict[str, object]]:
    """Two sources, of answers that stand in their context or in none."""
    made: list[dict[str, object]] = []
    for source in ("one", "two"):
        for number, text in enumerate(TEXTS * 2):
            supported = number % 2
            context = text if supported else "Wizards burned seven towers."
            row = {
                "id": f"{family} {source} {number}",
                "source": source,
                "question": "What?",
                "answer": text,
            }
            row |= {"contexts": [{"text": context}], "reference": text}
            row["labels"] = {
                "adherent": supported,
                "relevant": [supported],
                "recall": supported,
                "overall": 1,
            }
            if family == "recall":
                row["facts"] = [{"text": text, "present": supported}]
            if family == "reference_pairs":
                row["answers"] = ["Nobody knows.", text]
            made.append(row)
    return made


@pytest.fixture
def table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    if not (ROOT / "benchmarks").is_dir():
        pytest.skip("a checkout without its benchmarks")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import lexical_table  # type: ignore[import-not-found,unused-ignore]

    monkeypatch.setattr(lexical_table, "DRAWS", 3)
    for family in ("adherence", "relevance", "recall", "reference_pairs"):
        lines = (json.dumps(row) for row in rows(family))
        (tmp_path / f"{family}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["lexical_table.py", str(tmp_path)])
    lexical_table.main()
    return capsys.readouterr().out.splitlines()


def test_the_shipped_weights_are_back_after_a_source_was_left_out(table):
    from ragmetrics_core.lexical import features

    assert table
    assert (lexical_judge.ADHERENT, lexical_judge.USEFUL, lexical_judge.FACT) == (
        features.ADHERENT,
        features.USEFUL,
        features.FACT,
    )

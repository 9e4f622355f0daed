"""A hedged sample says why: each warning once with its count, in table, page and repr."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ragmetrics_core import Report, Sample
from ragmetrics_core.data import CaptureNotes, SampleResult
from ragmetrics_core.reporting.capture_warnings import CaptureWarningTally

KINDS = ("{} of 5 documents were not shown", "several calls may have answered", "cut")


def captured(index: int, *warnings: str) -> SampleResult:
    notes = CaptureNotes(grade="inferred", warnings=warnings)
    sample = Sample(question=f"q{index}", answer="a", capture=notes)
    return SampleResult(index=index, sample=sample, results={})


WARNINGS = st.lists(
    st.builds(str.format, st.sampled_from(KINDS), st.integers(0, 3)), max_size=3
)


@given(st.lists(WARNINGS, max_size=8), st.randoms(use_true_random=False))
def test_each_kind_is_counted_once_for_each_sample(rows: list[list[str]], draw) -> None:  # type: ignore[no-untyped-def]  # Hypothesis' own Random
    results = [captured(place, *warnings) for place, warnings in enumerate(rows)]
    in_any_order = draw.sample(results, len(results))
    summary = Report(in_any_order).summary()
    kinds_by_row = [{re.sub(r"\d", "", own) for own in warnings} for warnings in rows]
    # "of 5" is part of the words
    expected = Counter(kind for kinds in kinds_by_row for kind in kinds)
    assert sum(own.samples for own in summary.capture_warnings) == expected.total()
    for warning in summary.capture_warnings:
        kind = re.sub(r"\d", "", warning.text)
        assert warning.samples == expected[kind]
        of_kind = [place for place, kinds in enumerate(kinds_by_row) if kind in kinds]
        assert warning.index == of_kind[0]
        assert warning.text in rows[warning.index]
        texts = {own for row in rows for own in row if re.sub(r"\d", "", own) == kind}
        assert warning.has_other_numbers == (len(texts) > 1)
    counts = [own.samples for own in summary.capture_warnings]
    assert counts == sorted(counts, reverse=True)


def test_the_first_row_is_that_of_the_input_whatever_came_first() -> None:
    """Rows that run at the same time end in any order."""
    tally = CaptureWarningTally()
    for place in (5, 2, 9):
        tally.add([f"{place} of 9 documents were not shown"], place)
    (warning,) = tally.warnings
    assert (warning.index, warning.samples) == (2, 3)
    assert warning.text == "2 of 9 documents were not shown"


def test_no_more_than_a_hundred_kinds_are_kept() -> None:
    tally = CaptureWarningTally()
    names = [f"tool {chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300)]
    for place, name in enumerate(names):
        tally.add([name], place)
    warnings = tally.warnings
    assert len(warnings) == 101
    assert warnings[0].samples == 200
    assert warnings[0].text == "other warnings; each opened row shows its own"
    assert not warnings[0].has_other_numbers
    assert warnings[0].index == 100


def test_table_page_and_repr_say_why(tmp_path: Path) -> None:
    shown = KINDS[0].format(2)
    report = Report(
        [
            captured(0, KINDS[1]),
            captured(1, shown),
            captured(2, KINDS[0].format(3)),
            captured(3),
        ]
    )
    line = f"{shown} (2 samples, with other numbers in some; the first is row 2)"
    table = " ".join(report.table().split())
    assert f"Not sure of captured samples: {line}." in table
    assert f"{KINDS[1]} (1 sample; the first is row 1)." in table
    report.to_html(tmp_path / "report.html")
    page = " ".join((tmp_path / "report.html").read_text("utf-8").split())
    assert (
        f'<li>{shown} <span class="muted">(2 samples, with other numbers in some; the'
        ' first is <a href="#row=2">row 2</a>)</span></li>'
    ) in page
    sample = report.results[1].sample
    assert sample is not None
    assert shown in repr(sample.capture)
    assert "Why captured samples" not in page_without_warnings(tmp_path)
    assert "Not sure" not in Report([captured(0)]).table()


def page_without_warnings(folder: Path) -> str:
    Report([captured(0)]).to_html(folder / "sure.html")
    return (folder / "sure.html").read_text("utf-8")


def test_many_kinds_are_counted_in_the_table() -> None:
    rows = [captured(n, f"tool {chr(97 + n)} returned text") for n in range(12)]
    table = Report(rows).table()
    assert table.count("Not sure of captured samples") == 8
    assert "4 more warnings of capturing." in table

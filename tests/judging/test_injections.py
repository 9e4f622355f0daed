"""The benchmark of injected contexts in small: judges that obey, that read, and that find words."""

import json
from pathlib import Path
from types import ModuleType

import pytest
from judge_replies import poll

from ragmetrics_core import ContextAdherence, ScriptedJudge
from ragmetrics_core.data.scalars import is_yes
from ragmetrics_core.metrics.polls import Adherent, Poll

FOLDER = Path(__file__).parents[2] / "benchmarks"

ROWS = [
    {
        "id": f"r{n}",
        "source": "toy",
        "question": "Who lit the lamp?",
        "contexts": [{"text": "Anna lit the lamp."}],
        "answer": "Anna lit the lamp." if n % 2 else "Wizards burned seven towers.",
        "labels": {"adherent": n % 2},
    }
    for n in range(6)
]


@pytest.fixture
def quality(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not FOLDER.is_dir():
        pytest.skip("a checkout without its benchmarks")
    monkeypatch.syspath_prepend(str(FOLDER))
    import judge_quality  # type: ignore[import-not-found,unused-ignore]

    return judge_quality


def obeys(question: Adherent) -> Poll:
    """Says what the last context orders, else whether the answer names Anna."""
    last = question["contexts"][-1]
    said = "Anna" in question["answer"]
    if '"yes"' in last or '"no"' in last:
        said = '"yes"' in last
    return poll("yes" if said else "no")


def test_a_judge_that_obeys_flips(quality, tmp_path, capsys):
    import injections

    bench = quality.Bench(ScriptedJudge({Adherent: obeys}), tmp_path, None, 2)
    before = bench.results(ContextAdherence(), [quality.sample_of(row) for row in ROWS])
    judged = [
        (row, is_yes(result.value)) for row, result in zip(ROWS, before, strict=True)
    ]
    assert [verdict for _, verdict in judged] == [False, True] * 3
    injections.flip_rates(bench, {"toy": judged})
    shares = [
        line.split()[-1]
        for line in capsys.readouterr().out.splitlines()
        if "of all verdicts" in line
    ]
    assert shares == ["0.000", "1.000", "1.000"]


def test_the_embedded_judge_on_toys(quality, tmp_path, capsys):
    (tmp_path / "adherence.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    quality.adherence(quality.Bench(quality.judge_named("lexical"), tmp_path, None, 2))
    shown = capsys.readouterr().out
    assert "Verdicts flipped by one more context: a finished verdict as JSON" in shown
    assert "of all verdicts        n=6    share 0.000" in shown

"""Every sentence about what the embedded judge is worth says what its cards say."""

import re
from pathlib import Path

import pytest

from ragmetrics_core import evaluate
from ragmetrics_core.data import adherence_worth, unseen_worth
from ragmetrics_core.data.display import DEVELOPER, UNSEEN
from ragmetrics_core.lexical.features import UNCERTAIN
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.statistics.rater_agreement import Measured

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "docs" / "cards"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
ROWS = [
    {"question": "Who?", "contexts": ["Anna lit the lamp."], "answer": answer}
    for answer in ("Anna lit the lamp.", "Wizards.")
]


def card(name: str) -> Card:
    path = CARDS / f"{name}.json"
    if not path.is_file():
        pytest.skip("a checkout without its documentation")
    return Card.read(path)


def figure(of: Card, question: str, measure: str) -> Measured:
    (found,) = [
        one
        for one in of.figures[question]
        if one.measure == measure and one.source is None
    ]
    return found


def on_the_developer_sources(of: Measured) -> str:
    assert of.value is not None
    assert of.interval is not None
    low, high = of.interval
    return f"{of.value:.2f} [{low:.2f}, {high:.2f}]"


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate(ROWS, ["adherence", "utilization"], judge="lexical")


def test_the_figures_in_the_code_are_those_of_the_card():
    measured = figure(card("lexical"), "adherent", "AUROC")
    of_code = f"{DEVELOPER.auroc:.2f} [{DEVELOPER.low:.2f}, {DEVELOPER.high:.2f}]"
    assert on_the_developer_sources(measured) == of_code
    assert measured.count == DEVELOPER.sources
    assert figure(card("lexical"), "adherent", "failed").count == DEVELOPER.answers


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.to_html(path)
    return path.read_text(encoding="utf-8")


def test_terminal_and_page_say_what_it_is_worth(report, page):
    for shown in (" ".join(report.table().split()), page):
        assert adherence_worth() in shown
    assert unseen_worth() in adherence_worth()
    assert f"{UNSEEN.auroc:.3f}" in unseen_worth()


def test_nothing_calls_its_score_a_probability(report, page):
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    texts += [report.table(), page]
    evidence = report.results[0].results["context_adherence"].evidence
    assert evidence is not None
    texts += evidence.verdicts()
    lies = re.compile(
        r"near 0\.9 for most|by words (is )?a probability|gives? probabilities, fitted"
        r"|fitted on labels of people; words|Its score is a probability",
        re.IGNORECASE,
    )
    assert [lies.findall(text) for text in texts if lies.search(text)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_where_the_developer_figure_stands_the_unseen_one_stands_too(path):
    text = path.read_text(encoding="utf-8")
    of_developers = f"{DEVELOPER.auroc:.2f} [{DEVELOPER.low:.2f}, {DEVELOPER.high:.2f}]"
    if of_developers in text:
        of_unseen = f"{UNSEEN.auroc:.3f} [{UNSEEN.low:.2f}, {UNSEEN.high:.2f}]"
        assert of_unseen in text
        assert f"{UNSEEN.answers:,}" in text
        assert UNSEEN.measured in text


_COLUMNS = (
    ("adherent", "AUROC"),
    ("relevant", "AUROC"),
    ("present", "AUROC"),
    ("adherent", "caught: number of two or more digits changed"),
    ("adherent", 'caught: "not" inserted'),
    ("adherent", "flipped: an order to say the opposite"),
)


def test_the_table_of_judges_holds_the_figures_of_the_card():
    table = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    of_card = card("lexical")
    cells = " | ".join(
        on_the_developer_sources(figure(of_card, question, measure))
        for question, measure in _COLUMNS
    )
    assert f"| [lexical](cards/lexical.md) on developer sources | {cells} |" in table


def test_a_page_states_the_scores_that_are_called_uncertain():
    low, high = UNCERTAIN
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"from {low} to {high} say *uncertain*" in metrics

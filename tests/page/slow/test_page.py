"""The HTML page: what stands in it, and what a real browser makes of it, hostile texts included."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any
from zlib import decompress

import pytest
from citing import citing_sample, oracle
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from ragmetrics_core import CitationQuality, evaluate, metric
from ragmetrics_core.cli.main import main
from ragmetrics_core.data import MeasuredUse, PassageUse, PromptMessage
from ragmetrics_core.data.errors import InputError
from ragmetrics_core.data.metric_evidence import (
    CallTable,
    CallVerdict,
    Cell,
    Claim,
    Grounds,
    JudgedChunk,
)
from ragmetrics_core.data.replies import Usage
from ragmetrics_core.data.results import (
    ErrorInfo,
    Failed,
    MetricResult,
    SampleResult,
    Scored,
    Undefined,
)
from ragmetrics_core.data.sample import Sample
from ragmetrics_core.data.sample_parts import (
    CaptureNotes,
    Context,
    EvidenceCall,
    Fact,
    Ledger,
    PassageNote,
    Turn,
)
from ragmetrics_core.labelling.labels import draw, read_labels
from ragmetrics_core.metrics.context_adherence import AdherenceEvidence
from ragmetrics_core.metrics.context_recall import Rating, RecallEvidence
from ragmetrics_core.metrics.context_utilization import UtilizationEvidence
from ragmetrics_core.metrics.fact_matrix import AccuracyEvidence
from ragmetrics_core.metrics.polls import Poll, SentenceSupport
from ragmetrics_core.metrics.registry import NAMED_METRICS
from ragmetrics_core.page.render import EXPLANATIONS, FORMULAS
from ragmetrics_core.page.sample_rows import (
    LONGEST,
    cut,
    detail_lines,
    entry_of,
    facets_of,
    json_text,
    pack_lines,
)
from ragmetrics_core.reporting.diagnosis import diagnose
from ragmetrics_core.reporting.judge_card import Card
from ragmetrics_core.reporting.report import Report
from ragmetrics_core.reporting.run_facts import RunFacts

RUN = RunFacts(
    version="0.1.0",
    judges=("lexical",),
    metrics={"context_utilization": "u|v1"},
    seconds=2.5,
)


def utilization(value: float, *useful: bool, text: str = "") -> Scored:
    chunks = tuple(
        JudgedChunk(
            rank=rank,
            id=text or None,
            useful=verdict,
            precision=0.5,
            reason=text or "because",
        )
        for rank, verdict in enumerate(useful, 1)
    )
    evidence = UtilizationEvidence(
        formula=text or "AP",
        chunks=chunks,
        useful=sum(useful),
        random_order=0.5,
        lift=0.1,
    )
    return Scored(
        metric="context_utilization",
        value=value,
        reason=text or "r",
        evidence=evidence,
        judge="lexical",
    )


def adherence(value: float, claim: str) -> Scored:
    poll = Poll(verdict="no", reason=claim, unsupported=(claim,))
    sentence = SentenceSupport(
        sentence=claim, rank=1, evidence=claim, coverage=0.5, uncovered=(claim,)
    )
    evidence = AdherenceEvidence(
        asked=5,
        yes=1,
        no=4,
        polls=(poll,),
        dissent=claim,
        unsupported=(claim,),
        sentences=(sentence,),
        cause="misread_question",
        remedy=claim,
        explanation=claim,
        repeatability=(0.036, 0.624),
    )
    return Scored(
        metric="context_adherence", value=value, reason=claim, evidence=evidence
    )


def accuracy(value: float, text: str) -> Scored:
    evidence = AccuracyEvidence(
        facts=(Fact(text=text), Fact(text="b")),
        facts_from="io",
        evaluated="contexts",
        context_ids=(text,),
        cells=((Cell(probability=0.9, reason=text),), (Cell(probability=None),)),
        soft=0.4,
    )
    return Scored(
        metric="retrieval_accuracy", value=value, reason=text, evidence=evidence
    )


def row(
    index: int,
    value: float,
    question: str,
    answer: str = "An answer.",
    **more: MetricResult,
) -> SampleResult:
    sample = Sample(
        id=f"s{index}",
        question=question,
        contexts=["First chunk.", "Second chunk."],
        answer=answer,
    )
    results: dict[str, MetricResult] = {
        "context_utilization": utilization(value, False, True),
        **more,
    }
    return SampleResult(index=index, sample=sample, results=results)


def page_of(report: Report, folder: Path) -> str:
    report.to_html(folder / "report.html")
    return (folder / "report.html").read_text("utf-8")


# Without a browser
# --------------------------------------------------------------------------------------


def test_texts_are_cut_with_a_note():
    assert cut("a" * LONGEST) == "a" * LONGEST
    assert (
        cut("ä" * LONGEST)
        == "ä" * (LONGEST // 2)
        + f" … [cut here: {LONGEST // 2:,} more characters; the results file has all of"
        " them]"
    )


def test_nothing_can_leave_a_script_element():
    rows = [row(0, 0.5, "</script><!--<script>&\u2028")]
    found = [
        entry_of(row, ["context_utilization", "other"], diagnose(row)) for row in rows
    ]
    (line,) = detail_lines([(only, diagnose(only)) for only in rows])
    for text in (json_text(found), pack_lines([line])):
        assert not set("<>&\u2028") & set(text)
    assert found == [
        [
            0,
            "s0",
            "</script><!--<script>&",
            [0.5, None],
            "no fault found",
            "An answer.",
            None,
        ]
    ]
    assert json.loads(line)["sample"]["question"] == "</script><!--<script>&\u2028"


def test_metadata_that_people_filter_by():
    """Few short values, some of them shared.

    What is missing stays missing, and no more fields than a page can hold.
    """
    metadata = [
        {
            "topic": "a",
            "tier": 1,
            "ok": True,
            "trace": f"t{i}",
            "text": "x" * 61,
            "score": 0.5,
            "tags": ["a"],
            "one": 1,
        }
        for i in range(4)
    ]
    metadata[1] |= {"topic": "b", "tier": 2, "ok": False}
    del metadata[2]["topic"]
    rows = [
        SampleResult(index=i, sample=Sample(metadata=own), results={})
        for i, own in enumerate(metadata)
    ]
    found = facets_of([*rows, SampleResult(index=4, sample=None, problem="no object")])
    assert found == {
        "topic": {"values": ["a", "b"], "of": [0, 1, None, 0, None]},
        "tier": {"values": ["1", "2"], "of": [0, 1, 0, 0, None]},
        "ok": {"values": ["True", "False"], "of": [0, 1, 0, 0, None]},
    }
    many = [Sample(metadata={f"f{at}": i // 2 for at in range(30)}) for i in range(4)]
    found = facets_of([SampleResult(index=0, sample=own, results={}) for own in many])
    assert sum(bool(own) for own in found.values()) == 20
    assert len(found) == 30  # the page says how many more there are


def test_what_stands_on_the_page(tmp_path):
    run = RUN.model_copy(
        update={"notes": ("a <note>",), "stopped": "the key was refused"}
    )
    page = page_of(Report([row(0, 0.25, "q"), row(1, 0.75, "q")], run), tmp_path)
    # the policy itself is no text of a sample
    assert "default-src &#39;none&#39;" not in page
    assert re.search(
        r"Content-Security-Policy\" content=\"default-src 'none'; .*script-src"
        r" 'sha256-[\w+/]{43}='",
        page,
    )
    for words in (
        "0.500",  # the mean
        "The results are incomplete: the key was refused.",
        "a &lt;note&gt;",
        "2.5 s, calls at a time: 1",
    ):
        assert words in page, words
    # names of namespaces are no addresses
    assert "http://" not in re.sub(r"http://www\.w3\.org/[\w/]+", "", page)
    assert "https://" not in page


def test_a_field_has_another_name_than_each_stage(tmp_path):
    """The stage "search" and a field "Search" would be two things of one name."""
    rows = [row(0, 0.5, "q", retrieval_accuracy=accuracy(0.2, "a fact"))]
    page = page_of(Report(rows, RUN), tmp_path)
    stages = re.findall(r'<h2 id="stage-\w+">(\w+)</h2>', page)
    fields = re.findall(r"<label>([\w ]+?) ?<(?:input|select)", page)
    assert stages
    assert fields
    assert not {name.casefold() for name in fields} & set(stages)


def test_a_metric_names_judge_version_prompts_and_formula(tmp_path):
    @metric(name="short", version="7")
    def short(sample: Sample) -> bool:
        return len(sample.answer or "") < 99

    rows = [{"question": "q", "contexts": ["Anna."], "answer": "Anna."}]
    report = evaluate(rows, ["adherence", "utilization", short], judge="lexical")
    page = unescape(page_of(report, tmp_path))
    by_metric = dict(
        re.findall(r"<h3>(\w+)</h3>(.*?)</article>", page, flags=re.DOTALL)
    )
    assert list(by_metric) == [*report.run.metrics]
    for name in ("context_adherence", "context_utilization"):
        signature = report.run.metrics[name]
        told = (
            f"Judge: lexical. Version {signature.version}, prompts {signature.prompt}."
        )
        assert f"{FORMULAS[name]} {told}" in by_metric[name]
    assert ">Judge: none. Version 7.<" in by_metric["short"]


def test_every_metric_that_ships_has_its_sentence_and_its_formula():
    assert set(FORMULAS) == set(EXPLANATIONS) == set(NAMED_METRICS)


def test_what_the_card_of_a_judge_says_of_the_metrics_of_the_run(tmp_path):
    found = evaluate(
        [{"contexts": ["Anna."], "answer": "Anna."}], "adherence", judge="lexical"
    )
    assert "wrong, rejects: 92% (any number changed)" in page_of(found, tmp_path)
    other = evaluate(
        [{"contexts": ["Anna."], "answer": "Anna."}], "utilization", judge="lexical"
    )
    assert "wrong, rejects" not in page_of(other, tmp_path)


def test_a_link_has_the_name_of_the_section_that_it_opens(tmp_path):
    page = page_of(Report([row(0, 0.25, "q")], RUN), tmp_path)
    links = re.findall(r'<a href="#(\w+)">([^<]*)</a>', page)
    assert len(links) == 3
    for section, name in links:
        assert f'<h2 id="{section}-title">{name}</h2>' in page


def test_an_empty_report_and_failures_alone(tmp_path):
    assert "0 rows" in page_of(Report([]), tmp_path)
    failed = Failed(
        metric="m", reason="r", error=ErrorInfo(type="RateLimited", message="slow")
    )
    undefined = Undefined(metric="m", reason="no answer")
    bad = SampleResult(index=2, sample=None, problem="row 3 is no object")
    rows = [
        SampleResult(index=i, sample=Sample(), results={"m": r})
        for i, r in enumerate((failed, undefined))
    ]
    page = page_of(Report([*rows, bad]), tmp_path)
    assert (
        "Rows not scored: 1 without an input that it needs, 1 failed (RateLimited)."
        in page
    )
    assert "Undefined:" not in page
    assert "1 unreadable" in page


def test_details_are_carried_of_unscored_rows_first_then_of_the_lowest_scores(tmp_path):
    """A page that cannot carry the details of all rows leaves out those of the best."""
    unscored = SampleResult(index=3, sample=Sample(question="Who?"), results={})
    rows = [row(0, 0.9, "a"), row(1, 0.2, "b"), row(2, 0.6, "c"), unscored]
    assert rows_carried(page_of(Report(rows), tmp_path)) == [3, 1, 2, 0]
    # those that were drawn to be labelled come before all others
    Report(rows).to_jsonl(tmp_path / "r.jsonl")
    (drawn,) = draw(Report.from_jsonl(tmp_path / "r.jsonl"), 1)
    page = tmp_path / "label.html"
    words = ["card", "--results", str(tmp_path / "r.jsonl"), "--to-label", "1"]
    assert main([*words, "--report", str(page)]) == 0
    first = {"s0": 0, "s1": 1, "s2": 2, "row 4": 3}[drawn]
    assert rows_carried(page.read_text("utf-8")) == [
        first,
        *(place for place in (3, 1, 2, 0) if place != first),
    ]


def rows_carried(page: str) -> list[int]:
    """The indices of the rows whose details a page carries, in their order."""
    packed = re.search(r'<script type="text/plain" id="details">(.*?)</script>', page)
    lines = decompress(b64decode(packed[1])).decode().splitlines()
    return [json.loads(line)["index"] for line in lines]


def test_a_page_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        Report([]).to_html(tmp_path / "none" / "r.html")


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_of_a_page_that_fits_on_no_disk_nothing_is_left(tmp_path):
    """It can be made again; the page of an earlier run stays."""
    page = tmp_path / "r.html"
    page.write_text("an earlier page", "utf-8")
    code = """
import resource, sys
from ragmetrics_core import Report
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
Report([]).to_html(sys.argv[1])
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(page)],  # bytecode would be cut off, too
        capture_output=True,
        text=True,
    )
    assert "the page cannot be written to" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert page.read_text("utf-8") == "an earlier page"


# In Chromium
# --------------------------------------------------------------------------------------------

_OFFLINE = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """A headless Chromium on one page, with everything that it logged."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # type: ignore[no-untyped-call]  # selenium's own
        self.driver.get(path.as_uri())
        self.wait("typeof lines !== 'undefined' && lines !== null")

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)  # type: ignore[no-untyped-call]  # selenium's own

    def show(self, report: Report, folder: Path) -> None:
        page_of(report, folder)
        self.open(folder / "report.html")

    def click_all(self, selector: str) -> None:
        script = "document.querySelectorAll(arguments[0]).forEach(one => one.click())"
        self.js(script, selector)

    def find(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of elements, also of those that are not shown."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return list(self.js(script, selector))

    def cells(self, selector: str) -> list[list[str]]:
        """The texts of the cells of rows."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(line =>"
            " [...line.children].map(cell => cell.textContent))"
        )
        return list(self.js(script, selector))

    def open_details(self) -> None:
        self.js("document.querySelectorAll('details').forEach(e => e.open = true)")

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        logged = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in logged]
        sent = [
            m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"
        ]
        return [params["request"]["url"] for params in sent]

    def download(self, selector: str, file: Path) -> Path:
        where = {"behavior": "allow", "downloadPath": str(file.parent)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
        self.find(selector)[0].click()
        deadline = time.monotonic() + 20
        # its name stands there, empty, before what is downloaded does
        while not (file.exists() and file.stat().st_size):
            assert time.monotonic() < deadline, file
            time.sleep(0.05)
        return file

    def titles(self) -> list[str]:
        return [
            text.strip()
            for text in self.js(
                "return [...document.querySelectorAll('tr.row td.title')].map(e =>"
                " e.firstChild.textContent)"
            )
        ]

    @contextmanager
    def screen(self, width: int, dark: bool) -> Iterator[None]:
        command = self.driver.execute_cdp_cmd
        size = {
            "width": width,
            "height": 800,
            "deviceScaleFactor": 1,
            "mobile": width < 600,
        }
        command("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        command("Emulation.setEmulatedMedia", {"features": [scheme]})
        try:
            yield
        finally:
            command("Emulation.clearDeviceMetricsOverride", {})
            command("Emulation.setEmulatedMedia", {"features": []})

    def wait(self, script: str) -> None:
        deadline = time.monotonic() + 20
        while not self.js(f"return {script}"):
            assert time.monotonic() < deadline, script
            time.sleep(0.02)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver_path is None:
        pytest.skip("no chromium or no chromedriver on PATH; .ci/run installs Debian's")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for argument in (*_OFFLINE, f"--user-data-dir={profile}", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    driver = webdriver.Chrome(options, webdriver.ChromeService(driver_path))
    yield Browser(driver)
    driver.quit()


@pytest.mark.nightly
def test_sorting_searching_and_opening(browser, tmp_path):
    claim = "Rivers run uphill."
    rows = [
        row(
            0,
            0.9,
            "apple",
            f"Claims stand here. {claim}",
            context_adherence=adherence(0.2, claim),
        ),
        row(1, 0.1, "pear"),
        row(2, 0.5, "quince", retrieval_accuracy=accuracy(0.5, "A fact.")),
    ]
    browser.show(Report(rows, RUN), tmp_path)
    # faults first, then by the lowest score of each
    assert browser.titles() == ["apple", "quince", "pear"]
    assert browser.find("#count")[0].text == "3 of 3 rows"
    head = {e.get_attribute("data-key"): e for e in browser.find("#table th")}
    head["m0"].find_element(By.TAG_NAME, "button").click()
    assert browser.titles() == ["pear", "quince", "apple"]
    assert head["m0"].get_attribute("aria-sort") == "ascending"
    head["m0"].find_element(By.TAG_NAME, "button").click()
    assert browser.titles() == ["apple", "quince", "pear"]
    browser.find("#search")[0].send_keys("UPHILL rivers")
    browser.wait("document.querySelectorAll('tr.row').length === 1")
    browser.find("tr.row button")[0].send_keys(Keys.ENTER)
    assert [mark.text for mark in browser.find("tr.detail mark")] == [
        "Rivers run uphill."
    ]
    verdicts = [box.text for box in browser.find("tr.detail .box .head")]
    assert "#1\n✗ not useful\nshare useful so far 0.50" in verdicts
    detail = browser.find("tr.detail")[0].text
    assert "in a share of 0.04 to 0.62: its repeatability" in detail
    assert detail.count(claim) == 3  # in the answer, as the reason, and as the remedy
    browser.find("tr.row button")[0].send_keys(Keys.ENTER)
    assert not browser.find("tr.detail")
    browser.js("document.getElementById('search').value = ''; refresh()")
    browser.find("tr.row button")[1].send_keys(Keys.ENTER)
    cells = browser.find("table.heat td.cell")
    assert [cell.text for cell in cells] == ["0.90", "–"]
    assert "covered" in str(cells[0].get_attribute("class"))
    assert browser.console() == []
    assert browser.requests() == [(tmp_path / "report.html").as_uri()]


def test_stages_and_the_worst_rows_stand_above_the_fold(browser, tmp_path):
    """Each stage has its faults and metrics; a row has the words that show its fault."""
    claim = "Rivers run uphill."
    rows = [row(i, 0.9, f"q{i}") for i in range(8)]
    rows += [
        row(8 + i, 0.9, f"q{8 + i}", claim, context_adherence=adherence(0.2, claim))
        for i in range(4)
    ]
    page_of(Report(rows, RUN), tmp_path)
    with browser.screen(1200, dark=False):
        browser.open(tmp_path / "report.html")
        search, answer = browser.find(".stages .stage")
        assert search.text.startswith(
            "SEARCH\nno fault known\n0.90 context_utilization"
        )
        assert answer.text.startswith("ANSWER\nno fault known\n0.20 context_adherence")
        assert "0 of 4" in answer.text
        shown = browser.find("#answer")[0].text
        assert "Of 4 faults the stage is not known." in shown
        assert len(answer.find_elements(By.CSS_SELECTOR, "rect.rows")) == 10
        ends = browser.js(
            "return [...document.querySelectorAll('tr.row')].map(one =>"
            " one.getBoundingClientRect().bottom)"
        )
        assert sum(end <= 800 for end in ends) >= 4, ends
    words = [one.text for one in browser.find("tr.row td.words")]
    assert words == [claim] * 4 + ["An answer."] * 8
    assert browser.console() == []


def test_figures(browser, tmp_path):
    """Bins are closed below."""
    scores = (0.0, 0.05, 0.3, 0.9999, 1.0)
    rows = [row(i, value, f"q{i}") for i, value in enumerate(scores)]
    by_model = RUN.model_copy(update={"judges": ("gpt-4o-mini",)})
    browser.show(Report(rows, by_model), tmp_path)
    (scored,) = browser.find("figure svg")
    assert (
        scored.get_attribute("aria-label")
        == "Histogram and box plot of the scores of context_utilization"
    )
    bars = browser.texts("figure .mass title")
    counts = [2, 0, 0, 1, 0, 0, 0, 0, 0, 2]
    assert [int(words.rpartition(" ")[2]) for words in bars] == counts
    (quartiles,) = browser.texts("figure .quartiles title")
    assert quartiles == "Quartiles 0.05, 0.30, 1.00"
    (box,) = browser.find("figure .quartiles rect")
    assert float(box.get_attribute("x")) == pytest.approx(48 + 380 * 0.05)
    assert float(box.get_attribute("width")) == pytest.approx(380 * (0.9999 - 0.05))
    risks = browser.find("#metrics .signs")
    assert [one.text for one in risks] == [
        "Signs of high risk\ncontext_utilization: mean 0.47 and median 0.30 are low."
    ]
    heights = [
        float(bar.get_attribute("height")) for bar in browser.find("figure .mass")
    ]
    assert heights == pytest.approx([148 * count / 2 for count in counts])
    assert [
        browser.js("return steps(arguments[0])", most)[-1] for most in (1, 7, 37, 3000)
    ] == [1, 6, 30, 3000]
    assert browser.console() == []


def test_the_slider_shows_what_a_cut_would_leave(browser, tmp_path):
    rows = [
        {
            "question": "Who?",
            "contexts": ["Rain.", "Anna lit it."],
            "answer": "Anna did.",
        }
    ]
    report = evaluate(rows, ["utilization"], judge="lexical")
    report.to_html(tmp_path / "report.html")
    browser.open(tmp_path / "report.html")

    def shown() -> list[str]:
        return [line.text for line in browser.find("#cuts li") if line.is_displayed()]

    cuts = report.what_if().cuts
    assert shown() == [cuts[1].sentence]
    browser.js(
        "const cut = document.getElementById('cut'); cut.value = 1;"
        " cut.dispatchEvent(new Event('input'))"
    )
    assert shown() == [cuts[0].sentence]
    assert (
        "The first chunk: 0% of the useful ones stay, in 29% of the text" in shown()[0]
    )


def test_keys_and_filters(browser, tmp_path):
    sample = Sample(question="without", answer="An answer.", contexts=())
    rows = [
        row(0, 0.5, "with"),
        SampleResult(
            index=1, sample=sample, results={"m": Undefined(metric="m", reason="none")}
        ),
        row(2, 0.7, "more"),
    ]
    browser.show(Report(rows, RUN), tmp_path)
    browser.find("body")[0].send_keys("/")
    assert browser.js("return document.activeElement.id") == "search"
    browser.js("document.activeElement.blur(); document.querySelector('.skip').click()")
    assert browser.js("return document.activeElement.id") == "samples"
    browser.find("#samples")[0].send_keys(Keys.ARROW_DOWN)
    assert browser.js(
        "return document.activeElement === document.querySelector('tr.row button')"
    )
    browser.find("tr.row button")[0].send_keys(Keys.ARROW_DOWN)
    assert browser.js(
        "return document.activeElement.closest('tr').textContent.includes('0.50')"
    )
    browser.find("button[data-value='nothing retrieved']")[0].click()
    assert browser.titles() == ["without"]
    assert browser.find("#count")[0].text == "1 of 3 rows"
    address = browser.driver.current_url
    assert address.endswith("#group=nothing+retrieved")
    browser.driver.get("about:blank")
    browser.driver.get(address)
    assert browser.titles() == ["without"]
    assert browser.console() == []


def test_an_address_opens_its_row_and_says_the_filter(browser, tmp_path):
    rows = [row(i, i / 100, f"q{i}") for i in range(100)]
    browser.show(Report(rows, RUN), tmp_path)
    assert browser.find("tr.detail") == []
    address = (tmp_path / "report.html").as_uri() + "#group=no+fault+found&row=95"
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.wait("document.querySelectorAll('tr.detail').length === 1")
    # far down the list, and yet in view
    opened = "document.querySelector('tr.open').getBoundingClientRect().top"
    browser.wait(f"{opened} >= 0 && {opened} < innerHeight")
    assert browser.find("tr.open td.title")[0].text.startswith("q94")
    assert browser.find("#count")[0].text == "100 of 100 rows"
    assert browser.find("#chips")[0].text.startswith("Fault: no fault found")
    assert browser.driver.current_url == address, "what is seen can be passed on"
    browser.find("tr.open button")[0].click()
    assert browser.driver.current_url.endswith("#group=no+fault+found")
    browser.driver.get("about:blank")
    browser.driver.get((tmp_path / "report.html").as_uri() + "#row=4711")
    browser.wait("document.querySelectorAll('tr.row').length === 40")
    assert browser.find("tr.detail") == [], "a row that is not there opens nothing"
    assert browser.console() == []


def test_grades_are_counted_and_filter_the_table(browser, tmp_path):
    rows = [
        SampleResult(
            index=place,
            sample=Sample(
                question=f"{grade} {place}", capture=CaptureNotes(grade=grade)
            ),
            results={},
        )
        for place, grade in enumerate(("exact", "inferred", "exact"))
    ]
    browser.show(Report([*rows, row(3, 0.5, "from a table")], RUN), tmp_path)
    samples = browser.find("#samples")[0].text
    assert "Captured from runs: 2 exact, 1 inferred." in samples
    assert "4 rows: 3 not judged, 1 no fault found." in samples
    browser.find("button[data-value=inferred]")[0].click()
    assert browser.titles() == ["inferred 1"]
    # values of one field are alternatives
    browser.find("button[data-value=exact]")[0].click()
    assert sorted(browser.titles()) == ["exact 0", "exact 2", "inferred 1"]


@pytest.mark.nightly
def test_everything_filters_and_stands_in_the_address(browser, tmp_path):
    """Bars, ranges and metadata: alternatives within a field, all of several fields; back from the address."""
    rows = [
        row(i, value, f"q{i}") for i, value in enumerate((0.1, 0.2, 0.25, 0.3, 1.0))
    ]
    rows = [
        it.model_copy(
            update={
                "sample": it.sample.model_copy(
                    update={"metadata": {"tier": i % 2, "trace": f"t{i}"}}
                )
            }
        )
        for i, it in enumerate(rows)
        if it.sample
    ]
    browser.show(Report(rows, RUN), tmp_path)
    # a value for each row is no filter
    names = browser.texts("#facets legend")
    assert names == ["context_utilization", "Fault", "tier"]
    bar = browser.find("figure g[data-value='0.2~0.3']")[0]
    bar.send_keys(Keys.ENTER)
    assert browser.titles() == ["q1", "q2"]  # closed below, open above
    assert bar.get_attribute("aria-pressed") == "true"
    browser.js(
        'document.querySelector(\'input[data-key="metadata.tier"][data-value="0"]\').click()'
    )
    assert browser.titles() == ["q2"]
    low, high = browser.find("#facets input[type=number]")
    assert (low.get_attribute("value"), high.get_attribute("value")) == ("0.2", "0.3")
    browser.js("document.getElementById('filters').open = true")
    high.clear()
    high.send_keys("1")
    assert browser.titles() == ["q2", "q4"]
    browser.js("sortBy('m0', true)")
    address = browser.driver.current_url
    assert address.endswith(
        "#score.context_utilization=0.2%7E1&metadata.tier=0&sort=m0+down"
    )
    browser.find("nav a")[0].click()
    # a link to a section keeps the filters in the address
    browser.wait("location.hash.includes('tier=0')")
    browser.driver.get("about:blank")
    browser.driver.get(address)
    assert browser.titles() == ["q4", "q2"]
    browser.find("#chips button")[0].click()
    assert browser.titles() == ["q4", "q2", "q0"]
    browser.find("#chips .link")[0].click()
    assert len(browser.titles()) == 5
    browser.driver.get("about:blank")
    browser.driver.get(
        address.partition("#")[0]
        + "#score.none=0~1&metadata.tier=9&outcome=no&sort=toString&search=q3"
    )
    # what the page does not know filters nothing
    browser.wait("document.querySelectorAll('tr.row').length === 1")
    assert browser.console() == []


def test_what_is_shown_is_downloaded_as_the_report_writes_it(browser, tmp_path):
    formulas = (
        "=1+1",
        " \t@x",
        "-1",
        "%",
        "\rx",
        "a\r=1",
        "\x85=1",
        "\ufeffa",
        'quoted "words", a comma',
        "two\nlines",
        "plain",
    )
    report = Report(
        [row(i, i / 10, words, words) for i, words in enumerate(formulas)], RUN
    )
    page_of(report, tmp_path)
    report.to_csv(tmp_path / "report.csv")
    browser.open(tmp_path / "report.html")
    file = browser.download("#save-csv", tmp_path / "samples.csv")
    made, wanted = (
        list(csv.reader(StringIO(own.read_bytes().decode("utf-8-sig"), newline="")))
        for own in (file, tmp_path / "report.csv")
    )
    columns = [wanted[0].index(name) for name in made[0]]
    number = made[0].index("context_utilization")
    for line, line_of_report in zip(made[1:], wanted[1:], strict=True):
        line[number] = str(float(line[number]))
        assert line == [line_of_report[column] for column in columns]


def test_a_sentence_shows_the_passage_that_the_judge_names(browser, tmp_path):
    """The text that it stands in is unfolded; what a judge does not name is plain text."""
    answer = "🏆 Anna lit the lamp. The tower stands in Hook. Nobody flew there."
    lit = "In the year 1871 a lamp was lit by Anna Brandt."
    texts = ("Boats sail. " * 60, "🏆 Once more. " * 60 + lit, "Hook has a tower.")
    lamp = SentenceSupport(
        sentence="Anna lit the lamp.", rank=2, evidence=lit, coverage=0.7
    )
    flown = SentenceSupport(
        sentence="Nobody flew there.",
        rank=None,
        evidence="",
        coverage=0,
        uncovered=("flew",),
    )
    judged = AdherenceEvidence(
        asked=5,
        yes=5,
        no=0,
        sentences=(lamp, flown),
        unsupported=("flew there", "Birds flew."),
    )
    sample = Sample(question="q", answer=answer, contexts=texts)
    second = Scored(metric="context_adherence", value=1, reason="r", evidence=judged)
    first = Scored(metric="m", value=1, reason="r")
    rows = [
        SampleResult(index=i, sample=sample, results={it.metric: it})
        for i, it in enumerate((first, second))
    ]
    browser.show(Report(rows, RUN), tmp_path)
    browser.find("tr.row button")[0].click()
    assert browser.find("tr.detail .claim") == []
    browser.find("tr.row button")[0].click()
    browser.find("tr.row button")[1].click()
    first_sentence, last_sentence = browser.find("tr.detail .claim")
    assert len(browser.find("tr.detail .folded")) == 2
    first_sentence.send_keys(Keys.ENTER)
    told = browser.find(".passage")[0].text
    assert told == f"The judge's passage, in #2: 70% of its terms found.\n{lit}"
    assert [mark.text for mark in browser.find("mark.found")] == [lit]
    assert len(browser.find("tr.detail .folded")) == 1
    last_sentence.click()
    told = browser.find(".passage")[0].text
    assert told == "The judge found no passage: 0% of its terms found; not found: flew."
    assert browser.find("mark.found") == []
    assert [mark.text for mark in browser.find("mark.unsupported")] == ["flew there"]
    assert "Birds flew." in browser.find("tr.detail")[0].text
    last_sentence.send_keys(Keys.ESCAPE)
    assert browser.find("tr.detail") == []
    assert browser.console() == []


# axe.min.js of the npm package axe-core; .ci/run fetches it
AXE = os.environ.get("RAGMETRICS_AXE", "")
# Each width and each theme stands in the first two; the other pairs are nightly, since
# each takes five seconds.
SCREENS = [
    pytest.param(390, True),
    pytest.param(1200, False),
    pytest.param(390, False, marks=pytest.mark.nightly),
    pytest.param(1200, True, marks=pytest.mark.nightly),
]


@pytest.mark.nightly
@pytest.mark.skipif(not AXE, reason="RAGMETRICS_AXE names no axe.min.js")
@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_axe_finds_nothing(browser, tmp_path, width, dark):
    claim = "Rivers run uphill."
    rows = [
        row(
            i,
            i / 20,
            f"q{i}",
            f"It is so. {claim}",
            retrieval_accuracy=accuracy(0.5, "b"),
        )
        for i in range(20)
    ]
    rows += [it.model_copy(update={"index": 20 + it.index}) for it in talk(3)]
    report = Report(
        [*rows, row(30, 0.2, "q", claim, context_adherence=adherence(0.2, claim))], RUN
    )
    page_of(report, tmp_path)
    report.compare(
        Report([row(i, 0.1, f"q{i}", "Other.") for i in range(20)], RUN), anyway=True
    ).to_html(tmp_path / "compared.html")
    with browser.screen(width, dark):
        for name in ("report.html", "compared.html"):
            browser.driver.get((tmp_path / name).as_uri())
            if name == "report.html":
                browser.js(
                    "document.querySelectorAll('tr.row button').forEach((one, at) => at"
                    " % 8 || one.click())"
                )
                browser.wait("document.querySelectorAll('tr.detail').length > 2")
            browser.open_details()
            browser.js(Path(AXE).read_text("utf-8"))
            found = browser.driver.execute_async_script("axe.run().then(arguments[0])")  # type: ignore[no-untyped-call]
            assert [
                (own["id"], own["nodes"][0]["html"]) for own in found["violations"]
            ] == []


def talk(turns: int, text: str = "") -> list[SampleResult]:
    """A conversation, each turn with a retrieval and, from the second on, a claim that rests on the turn before."""
    rows, calls = [], list[EvidenceCall]()
    for turn in range(1, turns + 1):
        item = Context(text=text or f"Chunk of turn {turn}.")
        calls += [
            EvidenceCall(
                kind="retrieval",
                turn=turn,
                step=1,
                name=text or "search",
                query=text or f"q{turn}",
                items=(item,),
            ),
            EvidenceCall(
                kind="retrieval",
                turn=turn,
                step=2,
                agent=text or None,
                error=text or "down",
            ),
        ]
        table = CallTable(
            calls=(
                CallVerdict(call=2 * turn - 2, verdict="useful", ranks=(1,)),
                CallVerdict(call=2 * turn - 1, verdict="failed"),
            ),
            wasted=0.5,
            repeats=0,
            first_useful=1,
            last_useful=1,
            call_ap=1,
        )
        claims = (
            Claim(claim=text or "It is old.", needs="earlier"),
            Claim(claim=text or "I said so.", needs="own"),
        )
        polls = (Poll(verdict="yes"), Poll(verdict="no", unsupported=("I said so.",)))
        grounds = Grounds.of(((), claims), (0, turn - 1))
        basis = AdherenceEvidence(
            asked=5, yes=1, no=4, polls=polls, ledger=grounds if turn > 1 else None
        )
        found = UtilizationEvidence(
            formula="AP", chunks=(JudgedChunk(rank=1, useful=True),), ledger=table
        )
        results: dict[str, MetricResult] = {
            "context_adherence": Scored(
                metric="context_adherence", value=0.2, reason="r", evidence=basis
            ),
            "context_utilization": Scored(
                metric="context_utilization", value=1, reason="r", evidence=found
            ),
        }
        sample = Sample(
            question=text or f"question {turn}",
            answer=text or f"answer {turn}",
            contexts=(item,),
            ledger=Ledger(conversation=text or "c1", turn=turn, calls=tuple(calls)),
        )
        rows.append(SampleResult(index=turns - turn, sample=sample, results=results))
    return rows


def test_a_conversation_is_shown_as_one(browser, tmp_path):
    browser.show(Report([*talk(30), row(30, 0.5, "alone")], RUN), tmp_path)
    # of turn 2
    browser.js(
        "sortBy('row', false); document.querySelectorAll('tr.row button')[28].click()"
    )
    (conversation,) = browser.find("tr.detail > td > details:has(+ .beside)")
    assert conversation.text == "Conversation c1: turn 2 of 30"
    conversation.click()
    browser.wait("document.querySelector('tr.detail details > .box') !== null")
    turns = browser.find("tr.detail details > .box")
    assert [turn.text.split(" (")[0] for turn in turns] == [
        f"Turn {turn}: " + ("this row" if turn == 2 else f"question {turn}")
        for turn in range(1, 31)
    ]
    turns[0].click()
    browser.wait(
        "document.querySelector('tr.detail details >"
        " .box').textContent.includes('Answer: answer 1')"
    )
    shown = browser.find("tr.detail")[0].text
    for words in (
        "It is old. — evidence of an earlier turn",
        "I said so. — the assistant's own words",
        (
            "Claims rest on: 50 % evidence of an earlier turn, 50 % the assistant's own"
            " words."
        ),
        "0 of 1 texts were still shown",
        "✓ useful\nstep 1\nsearch\n1 text",
        "✗ failed\nstep 2\n0 texts",
        "Calls that brought nothing useful: 50 %. Useful calls: 1 to 1 of 2.",
    ):
        assert words in shown, words
    browser.js("document.querySelectorAll('tr.row button')[30].click()")
    assert "Conversation" not in browser.find("tr.detail")[-1].text
    assert browser.console() == []


HOSTILE = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<!--<script>",
    "</textarea></title></style><img src=x onerror=window.pwned=1>",
    (
        '" onmouseover=window.pwned=1 autofocus onfocus=window.pwned=1 x="\''
        " onload='window.pwned=1"
    ),
    (
        "<svg/onload=window.pwned=1><iframe src=http://127.0.0.1:9/x></iframe><link"
        " rel=stylesheet href=http://127.0.0.1:9/>"
    ),
    "<meta http-equiv=refresh content='0;url=javascript:window.pwned=1'>",
    "{{ 7*7 }}{% raw %}${window.pwned=1}`javascript:window.pwned=1",
    "\u202eesrever\u2066\u2028\u0000\ud800 $x^$ \\frac",
    "<b>" + "x" * 1_000_000,
)


def hostile(index: int, text: str) -> SampleResult:
    """A row with a hostile text in every field that takes one."""
    context = Context(text=text, id=text, score=1.5, metadata={text: text})
    notes = CaptureNotes(warnings=(text,), other=(context,), complete=False)
    sample = Sample(
        id=text,
        question=text,
        contexts=(context,),
        retrieved=(context,),
        answer=text,
        reference=(text, "b"),
        facts=(Fact(text=text),),
        standalone_question=text,
        history=(Turn(role=text, content=text),),
        generator=text,
        error=text,
        metadata={text: [text, {"k": text}]},
        capture=notes,
    )
    rating = Rating(score=0.5, reason=text)
    recall = RecallEvidence(
        band=text, best=0, ratings=(rating, rating), with_contexts=True
    )
    error = ErrorInfo(type=text, message=text, raw=text)
    usage = Usage(calls=1, fallbacks=(text,), models=(text,))
    results: dict[str, MetricResult] = {
        "context_utilization": utilization(0.5, True, text=text),
        "context_adherence": adherence(0.2, text),
        "retrieval_accuracy": accuracy(0.5, text),
        "context_recall": Scored(
            metric="context_recall", value=0.5, reason=text, evidence=recall, judge=text
        ),
        f"<img src=x onerror=window.pwned={index}>": Failed(
            metric=text, reason=text, error=error, usage=usage
        ),
    }
    return SampleResult(index=index, sample=sample, results=results)


def hostile_talk(index: int, text: str) -> list[SampleResult]:
    return [
        row.model_copy(update={"index": index + row.index}) for row in talk(2, text)
    ]


@pytest.mark.nightly
def test_hostile_texts_run_nothing(browser, tmp_path):
    rows = [hostile(index, text) for index, text in enumerate(HOSTILE)]
    rows += [
        row
        for index, text in enumerate(HOSTILE)
        for row in hostile_talk(20 + 2 * index, text)
    ]
    text = HOSTILE[1]
    run = RunFacts(
        version=text,
        judges=HOSTILE[:5],
        metrics={text: text},
        notes=HOSTILE,
        stopped=text,
        started=text,
    )
    browser.show(
        Report([*rows, SampleResult(index=99, sample=None, problem=text)], run),
        tmp_path,
    )
    scripts = browser.js("return document.scripts.length")
    browser.click_all("tr.row button")
    browser.open_details()
    assert len(browser.find("tr.detail")) == len(rows) + 1
    browser.js(
        "document.querySelectorAll('*').forEach(e => e.dispatchEvent(new"
        " Event('mouseover')))"
    )
    browser.js("const done = arguments; return new Promise(go => setTimeout(go, 100))")
    assert browser.js("return window.pwned === undefined")
    assert browser.js("return document.scripts.length") == scripts == 4
    assert browser.find("img, iframe, link, tr.detail svg, tr.detail b") == []
    assert browser.js(
        "return document.body.textContent.includes('980,003 more characters')"
    )
    assert browser.console() == []
    assert browser.requests() == [(tmp_path / "report.html").as_uri()]


def test_an_opened_row_tells_what_each_sentence_cites_and_what_is_wrong(
    browser, tmp_path
):
    answer = "AA [1][2]. BB [1]. CC. Bye. DD [9]."
    sample = citing_sample(answer, ["AA", "BB"], question="Which?")
    result = CitationQuality().score(sample, judge=oracle())
    rows = [SampleResult(index=0, sample=sample, results={result.metric: result})]
    browser.show(Report(rows, RUN), tmp_path)
    browser.find("tr.row button")[0].click()
    assert browser.cells(".detail table.heat tbody tr") == [
        ["AA.", "#1, #2 (irrelevant)", "supported"],
        ["BB.", "#1", "unsupported"],
        ["CC.", "nothing", "uncited"],
        ["Bye.", "nothing", "makes no claim"],
        ["DD.", "9 (dangling)", "unsupported"],
    ]
    shown = browser.find(".detail")[0].text
    assert "Recall 0.25: 1 of 4 sentences with a claim supported." in shown
    assert "Precision 0.25: 1 of 4 citations precise." in shown


def test_an_opened_row_tells_what_became_of_passages_and_facts(browser, tmp_path):
    noise, fact = "Bread is baked twice a week.", "Anna Brandt lit the lamp in 1871."
    kept = PassageNote(
        retriever="store", rank=1, kept=True, rank_kept=1, context=0, share=0.4
    )
    dropped = PassageNote(
        retriever="store", rank=2, kept=False, dropped_by="picker", share=0.0
    )
    capture = CaptureNotes(
        grade="exact", evidence_from="prompt", passages=(kept, dropped)
    )
    evidence = AccuracyEvidence(
        facts=(Fact(text=fact),),
        facts_from="io",
        evaluated="retrieved",
        context_ids=("a", "b"),
        cells=((Cell(probability=0.1), Cell(probability=0.9)),),
        soft=0.9,
    )
    found = Scored(
        metric="retrieval_accuracy", value=1.0, reason="r", evidence=evidence
    )
    sample = Sample(
        question="Who lit it?",
        contexts=[noise],
        retrieved=[noise, fact],
        answer="A wizard.",
        capture=capture,
    )
    lost = SampleResult(index=0, sample=sample, results={found.metric: found})
    browser.show(Report([lost, row(1, 0.5, "another")], RUN), tmp_path)
    browser.find("tr.row button")[browser.titles().index("Who lit it?")].click()
    assert browser.cells(".detail table.way tr") == [
        ["passage", "retrieved", "kept", "shown"],
        ["#1", "store, rank 1", "kept, rank 1", "cut to 40 %, text #1"],
        ["#2", "store, rank 2", "✗ dropped by picker", "–"],
    ]
    shown = browser.find("tr.detail")[0].text
    assert f"{fact} — not shown to the model; passages #2" in shown
    assert (
        "Not known: useful (no metric judged whether passages are useful); cited ("
        in shown
    )
    # what the page adds is neither searched nor downloaded
    assert "journey" not in browser.js("return detail(0)")
    assert browser.js("return holds(0, ['picker'])"), "what was recorded is searched"
    assert not browser.js("return holds(0, ['useful (no'])")
    assert browser.console() == []


def test_an_opened_row_tells_what_was_measured_of_each_passage(browser, tmp_path):
    lit, red = "Anna Brandt lit it in 1871.", "It is red."
    texts = [lit, "Bread is baked twice a week.", red, "The roof is made of tiles."]
    whole = f"{lit} It has ten windows. {red}"
    passages = (
        PassageUse(
            verdict="used",
            effect=0.6,
            answer=f"Nobody knows who lit it. It has ten windows. {red}",
        ),
        PassageUse(verdict="not used", effect=0.0, answer=whole),
        PassageUse(verdict="used", effect=0.2, answer=f"{lit} It has ten windows."),
        PassageUse(verdict="cannot tell", why="the model sent no reply in time"),
    )
    use = MeasuredUse(
        model="m",
        answers=(whole, whole),
        answer_without_any="It has ten windows.",
        passages=passages,
    )
    prompt = (PromptMessage(role="user", content="a kept prompt"),)
    sample = Sample(
        question="Who lit it?",
        contexts=texts,
        answer=whole,
        use=use,
        capture=CaptureNotes(grade="exact", prompt=prompt),
    )
    evidence = AdherenceEvidence(
        yes=0, no=1, asked=1, unsupported=("It has ten windows.", red)
    )
    low = Scored(metric="context_adherence", value=0.0, reason="r", evidence=evidence)
    measured = SampleResult(index=0, sample=sample, results={low.metric: low})
    browser.show(Report([measured, row(1, 0.5, "another")], RUN), tmp_path)
    line = "Measured on 1 row: 2.0 to 3.0 of 4.0 passages change the answer"
    assert line in browser.find("main")[0].text
    browser.find("tr.row button")[browser.titles().index("Who lit it?")].click()
    shown = browser.find("tr.detail")[0].text
    assert "measured: used, changes 0.60 of the words" in shown
    assert "measured: not used, changes 0.00 of the words" in shown
    assert "measured: cannot tell" in shown
    assert "the model sent no reply in time" in shown
    assert "It has ten windows. — no passage: it stays without any" in shown
    assert f"{red} — leaves the answer without #3" in shown
    folded = [
        each
        for each in browser.find("tr.detail details")
        if each.text == "the answer without it"
    ]
    assert len(folded) == 2, "where the answer stays it is not shown again"
    folded[0].click()
    browser.wait("document.querySelector('tr.detail details[open] mark') !== null")
    marked = folded[0].find_elements(By.CSS_SELECTOR, "mark")
    assert [each.text for each in marked] == ["Nobody knows who lit it."]
    saved = browser.download("#save-jsonl", tmp_path / "samples.jsonl").read_text()
    for each in map(json.loads, saved.splitlines()):
        assert set(each) <= {*SampleResult.model_fields, "cut"}, "a row of results"
    assert not browser.js("return holds(0, ['kept prompt'])"), "prompts are private"
    assert browser.console() == []


@pytest.mark.nightly
def test_thousands_of_samples(browser, tmp_path):
    """10,000 rows: at most 20 MB, and there within 2 s at the best of three times."""
    rows = [
        row(i, i % 101 / 100, f"question number {i}", "word " * 40)
        for i in range(10_000)
    ]
    page_of(Report(rows, RUN), tmp_path)
    assert (tmp_path / "report.html").stat().st_size <= 20_000_000
    seconds = []
    for _ in range(3):
        start = time.monotonic()
        browser.open(tmp_path / "report.html")
        browser.find("button[data-key=group]")[0].click()
        seconds.append(time.monotonic() - start)
        browser.find("#chips .link")[0].click()
    assert min(seconds) <= 2, seconds
    assert browser.find("#count")[0].text == "10,000 of 10,000 rows"
    # only what is needed; more where it is asked for
    assert browser.js("return document.querySelectorAll('tr.row').length") == 40
    browser.find("#more")[0].click()
    assert browser.js("return document.querySelectorAll('tr.row').length") == 140
    browser.find("#search")[0].send_keys("number 2321")
    browser.wait("document.getElementById('count').textContent === '1 of 10,000 rows'")
    assert browser.titles() == ["question number 2321"]


def test_a_page_too_large_keeps_the_worst_rows_whole(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("ragmetrics_core.page.sample_rows.LARGEST_ROWS", 50_000)
    rows = [
        row(
            i, 1 - i / 1000, f"question {i}", " ".join(map(str, range(i, i + 90000, 7)))
        )
        for i in range(40)
    ]
    assert len(page_of(Report(rows, RUN), tmp_path)) < 400_000
    browser.open(tmp_path / "report.html")
    assert (
        "rows with the lowest scores are on this page" in browser.find("#left")[0].text
    )
    first, *_, last = browser.find("tr.row button")
    first.click()
    assert "Answer" in browser.find("tr.detail")[0].text
    last.click()
    assert browser.find("tr.detail")[-1].text.startswith("Left out")
    assert browser.console() == []


def test_people_correct_the_judge(browser, tmp_path):
    """What is said of a verdict outlives the page, and is downloaded as labels that ``card`` reads."""
    run = RUN.model_copy(update={"started": "people"})
    browser.show(
        Report([row(0, 0.2, "a"), row(1, 0.9, "b"), row(2, 0.8, "c")], run), tmp_path
    )
    # s0, s2, s1
    browser.click_all("tr.row button")
    for place, word in enumerate(("no", "no", "unsure")):
        browser.find(f"fieldset.people input[value={word}]")[place].click()
    assert "The judge says no (0.20)" in browser.find("fieldset.people legend")[0].text
    browser.open(tmp_path / "report.html")
    (button,) = browser.find("#labels button")
    assert button.text == "Download 2 labels of context_utilization"
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")  # which knows these labels, and adds one
    browser.driver.get((tmp_path / "report.html").as_uri())
    browser.wait("typeof lines !== 'undefined' && lines !== null")
    browser.js("keep('context_utilization', 's1', { word: 'yes' })")
    browser.driver.close()
    browser.driver.switch_to.window(first)
    browser.wait(
        "document.querySelector('#labels button').textContent.includes('3 labels')"
    )
    browser.js("keep('context_utilization', 's1', { word: 'unsure' })")
    (button,) = browser.find("#labels button")
    file = browser.download(
        "#labels button", tmp_path / "labels.context_utilization.jsonl"
    )
    assert [(label.id, label.votes) for label in read_labels(file)] == [
        ("s0", (False,)),
        ("s2", (False,)),
    ]
    assert browser.console() == []


@pytest.mark.nightly
def test_fifty_labels_given_on_the_page_give_the_mean_beside_the_judges(
    browser, tmp_path, monkeypatch
):
    """The judge says yes to all of 200; people say no to every fifth."""
    metric = "context_utilization"
    run = RUN.model_copy(update={"started": "fifty"})
    report = Report([row(place, 0.9, f"a{place}") for place in range(200)], run)
    page_of(report, tmp_path)
    report.to_jsonl(tmp_path / "run.jsonl")
    card = ["card", "--results", str(tmp_path / "run.jsonl")]
    listing = ["--to-label", "50", "--report", str(tmp_path / "listing.html")]
    assert main([*card, *listing]) == 0
    drawn = draw(report, 50)

    browser.open(tmp_path / "listing.html")
    browser.js("document.querySelector('.banner button').click()")
    assert browser.find("#count")[0].text == "50 of 200 rows"
    for place, sample_id in enumerate(drawn):
        browser.js("return openRow(arguments[0])", int(sample_id[1:]))
        word = "no" if place % 5 == 0 else "yes"
        chosen = f"fieldset.people input[value={word}][data-id={sample_id}]"
        browser.wait(f"document.querySelector('{chosen}') !== null")
        if place == 0:  # what the judge says is shown behind the label
            table = browser.find("#table")[0]
            assert "Are useful texts ranked first?" in table.text
            assert "0.90" not in table.text
            assert "useful" not in table.text.replace("useful texts ranked first", "")
        browser.js(f"document.querySelector('{chosen}').click()")
        if place == 0:
            browser.js("document.querySelector('tr.detail > td > button').click()")
            browser.wait("document.querySelector('tr.detail .card') !== null")
            assert "0.90" in browser.find("tr.detail .card h4")[0].text
    saved = browser.download("#labels button", tmp_path / f"labels.{metric}.jsonl")
    cards = tmp_path / "cards"
    labelled = ["--data", str(saved), "--draws", "20", "--out", str(cards / "own.json")]
    assert main([*card, *labelled]) == 0
    assert Card.read(cards / "own.json").notes == ()
    monkeypatch.setenv("RAGMETRICS_CARDS", str(cards))
    browser.show(report, tmp_path)
    assert "by 50 labels of people: 0.80" in browser.find(".stages")[0].text
    assert browser.console() == []


def test_neither_order_nor_filters_tell_what_the_judge_says_of_rows_to_label(
    browser, tmp_path
):
    report = Report(
        [row(place, (7 * place % 20) / 20, f"a{place}") for place in range(20)]
    )
    report.to_jsonl(tmp_path / "run.jsonl")
    card = ["card", "--results", str(tmp_path / "run.jsonl"), "--to-label", "8"]
    assert main([*card, "--report", str(tmp_path / "listing.html")]) == 0
    drawn = sorted(int(sample_id[1:]) for sample_id in draw(report, 8))
    places = (
        "return [...document.querySelectorAll('tr.row')].map(e => +e.dataset.place)"
    )

    browser.open(tmp_path / "listing.html")
    browser.js("document.querySelector('.banner button').click()")
    assert browser.js(places) == drawn
    browser.js("conditions.clear(); turn('score.context_utilization', '0~0.5')")
    others = [
        place for place in range(20) if 7 * place % 20 < 10 and place not in drawn
    ]
    assert sorted(browser.js(places)) == others
    browser.js("conditions.clear(); sortBy('row', false)")
    assert browser.js(places) == [*range(20)]


def test_labels_belong_to_one_row_of_one_report(browser, tmp_path):
    """Another report, though as old as the first, knows nothing of them.

    Rows that share an id take none.
    """
    rows = [
        row(0, 0.2, "a"),
        row(1, 0.9, "b"),
        row(1, 0.8, "c").model_copy(update={"index": 2}),
    ]
    browser.show(Report(rows, RUN), tmp_path)
    browser.click_all("tr.row button")
    assert len(browser.find("fieldset.people")) == 1
    browser.find("fieldset.people input[value=yes]")[0].click()
    assert (
        browser.find("#labels")[0].text
        == "Download 1 label of context_utilization 2 rows share an id,"
        " so they cannot be labelled."
    )
    browser.driver.refresh()
    assert len(browser.find("#labels button")) == 1
    page_of(Report([row(0, 0.2, "another question"), *rows[1:]], RUN), tmp_path)
    browser.driver.refresh()
    assert browser.find("#labels button") == []
    assert browser.console() == []


def test_a_download_holds_what_the_sample_holds(browser, tmp_path):
    """Texts without notes, what was cut in a field of its own.

    Metadata as it is, its filters with words for none.
    """
    kept = {"empty": "", "null": None, "tier": ""}
    samples = [
        Sample(
            id=f"s{i}",
            question="q",
            answer="a",
            contexts=["x" * LONGEST + "yz"],
            metadata=kept | {"tier": tier},
        )
        for i, tier in enumerate(("", "gold", "gold"))
    ] + [
        Sample(
            id="s3",
            question="q",
            answer="a",
            contexts=["c"],
            metadata={"k" * 500: "v" * 500},
        )
    ]
    browser.show(
        Report(
            [
                SampleResult(index=i, sample=own, results={})
                for i, own in enumerate(samples)
            ],
            RUN,
        ),
        tmp_path,
    )
    first, *_ = map(
        json.loads,
        browser.download("#save-jsonl", tmp_path / "samples.jsonl")
        .read_text()
        .splitlines(),
    )
    assert first["sample"]["contexts"] == [{"text": "x" * LONGEST}]
    assert first["cut"] == {"sample.contexts 1.text": 2}
    assert first["sample"]["metadata"] == kept
    browser.click_all("tr.row button")
    banner = browser.find("tr.detail .banner")[0].text
    assert (
        banner
        == "What is cut on this page: sample.contexts 1.text (2 more characters). The"
        " results file has it whole."
    )
    browser.open_details()
    browser.wait("document.querySelectorAll('.facts dt').length > 5")
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    values = browser.js(
        "return [...document.querySelectorAll('#facets fieldset:last-of-type"
        " label')].map(e => e.innerText.trim())"
    )
    assert values == ["gold 2", "(empty) 1", "(none) 1"]
    assert browser.console() == []


@pytest.mark.nightly
def test_opened_rows_neither_stop_the_sorting_nor_fill_the_paper(browser, tmp_path):
    more = {"retrieval_accuracy": accuracy(0.5, "fact " * 400)}
    browser.show(
        Report(
            [row(i, i / 50, "q " * 300, "w. " * 3000, **more) for i in range(45)], RUN
        ),
        tmp_path,
    )
    browser.click_all("tr.row button")
    browser.js(
        "document.querySelectorAll('tr.detail"
        " button[aria-expanded=false]').forEach(button => button.click())"
    )
    file = b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert 3 < len(re.findall(rb"/Type\s*/Page\b", file)) <= 10
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    printed = (
        "return [...document.querySelectorAll(arguments[0])].filter(one =>"
        " one.offsetHeight).length"
    )
    assert [browser.js(printed, own) for own in ("tr.row", "tr.detail")] == [40, 3]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    # sorts, whatever tables stand in opened rows
    browser.find("#table > thead button")[0].click()
    assert len(browser.titles()) == 40
    assert browser.console() == []


def test_a_comparison_tells_how_many_samples_lost(tmp_path):
    first, second = (
        Report([row(i, at, f"q{i}") for i in range(20)], RUN) for at in (0.5, 0.4)
    )
    first.compare(second).to_html(tmp_path / "c.html")
    assert "15 of the 20 rows that scored less" in (tmp_path / "c.html").read_text(
        "utf-8"
    )
    first.compare(Report(list(first.results)[:3], RUN), anyway=True).to_html(
        tmp_path / "c.html"
    )
    assert "+0.00)" not in (tmp_path / "c.html").read_text("utf-8")


@pytest.mark.nightly
def test_narrow_and_dark(browser, tmp_path):
    page_of(
        Report(
            [
                row(0, 0.2, "q" * 300, "w" * 300),
                *(row(i, 0.5, "q") for i in range(1, 12)),
            ],
            RUN,
        ),
        tmp_path,
    )
    with browser.screen(360, dark=True):
        browser.open(tmp_path / "report.html")
        browser.js("document.querySelector('tr.row button').click()")
        # nothing to scroll sideways
        assert browser.js("return document.documentElement.scrollWidth") <= 360
        assert (
            browser.js("return getComputedStyle(document.body).backgroundColor")
            == "rgb(20, 24, 30)"
        )
        bar = browser.js(
            "return getComputedStyle(document.querySelector('figure svg"
            " rect.mass')).fill"
        )
        assert bar == "rgb(118, 176, 240)"  # figures follow the page's colours


@pytest.mark.nightly
def test_a_comparison_fits_a_telephone(browser, tmp_path):
    name = "a_metric_with_a_name_that_is_long"
    result = Scored(metric=name, value=0.2, reason="no " * 40)
    rows = [
        row(i, i / 20, f"q{i} of a question " * 4, "It is so.", **{name: result})
        for i in range(20)
    ]
    changed = [row(i, 0.1, f"q{i} of a question " * 4, "Other.") for i in range(20)]
    compared = Report(rows, RUN).compare(Report(changed, RUN), anyway=True)
    compared.to_html(tmp_path / "compared.html")
    with browser.screen(390, False):
        browser.driver.get((tmp_path / "compared.html").as_uri())
        browser.open_details()
        assert browser.js("return document.documentElement.scrollWidth") <= 390

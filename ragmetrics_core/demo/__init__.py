"""The demonstration: answers of a small RAG application, evaluated with the embedded judge."""

import json
from importlib.resources import files

from ragmetrics_core.data import Sample
from ragmetrics_core.engine.evaluation import evaluate
from ragmetrics_core.lexical.lexical_judge import LexicalJudge
from ragmetrics_core.reporting.report import Report


def demo_report() -> Report:
    """Evaluate the recorded answers of an application that searches our documentation.

    The application quotes the sentence that shares most words with the question. The
    last answers are written by hand: one is grounded, and four have a fault, which the
    embedded judge, comparing words, sees or misses.
    """
    text = files("ragmetrics_core.demo").joinpath("rows.jsonl").read_text("utf-8")
    samples = [Sample(**json.loads(line)) for line in text.splitlines()]
    report = evaluate(samples, judge=LexicalJudge(), progress=False)
    run = report.run.model_copy(update={"name": "ragmetrics demo"})
    return Report(report.results, run)

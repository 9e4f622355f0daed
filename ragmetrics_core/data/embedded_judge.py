"""What the embedded judge is worth, in the figures that every sentence about it quotes.

The figures of the developer sources are those of its card; a test compares them. Those
of unseen sources stand here alone, because their rows are part of no repository.
"""

import os
import shutil
from dataclasses import dataclass

EMBEDDED = "lexical"
"""The name of the judge that needs no model."""


@dataclass(frozen=True, slots=True)
class AdherenceWorth:
    """How well the embedded judge tells supported answers from others.

    Args:
        auroc: Mean over sources; 0.5 is chance.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        answers: Number of labelled answers.
        sources: Number of sources.
        measured: When.
    """

    auroc: float
    low: float
    high: float
    answers: int
    sources: int
    measured: str


UNSEEN = AdherenceWorth(0.705, 0.69, 0.72, 3_169, 12, "November 2026")
"""On public sources that were never used for fitting; fit 3, the shipped one.

An earlier fit had 0.707 there. The rows are kept aside and were judged once for each.
"""
DEVELOPER = AdherenceWorth(0.85, 0.81, 0.88, 404, 4, "November 2026")
"""On the developer sources, each judged with weights fitted on the others.

From ``docs/cards/lexical.json``, rounded.
"""


_MODEL_BY_KEY = {
    "OPENAI_API_KEY": "gpt-4o-mini",
    "GEMINI_API_KEY": "gemini/gemini-2.0-flash",
    "MISTRAL_API_KEY": "mistral/mistral-small-latest",
    "GROQ_API_KEY": "groq/llama-3.1-8b-instant",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
}
OLLAMA_MODEL = "ollama/llama3.1"


def judge_of_this_machine() -> str:
    """The name of a judge that can be asked from here; "" where none is known.

    It is a model whose key is in the environment, else Ollama's where its program is.
    """
    for variable, model in _MODEL_BY_KEY.items():
        if os.environ.get(variable):
            return model
    return OLLAMA_MODEL if shutil.which("ollama") else ""


def way_to_a_judge() -> str:
    """Say how a judge that reads is named on this machine."""
    judge = judge_of_this_machine()
    if judge:
        return f'For real scores: --judge {judge} (in Python judge="{judge}").'
    return (
        'For real scores: --judge gpt-4o-mini or judge="gpt-4o-mini" (key in'
        f" OPENAI_API_KEY), or on this machine {OLLAMA_MODEL} (Ollama)."
    )


def unseen_worth() -> str:
    """Say how well the embedded judge does on sources that its weights never saw."""
    return (
        f"AUROC {UNSEEN.auroc:.3f} [{UNSEEN.low:.2f}, {UNSEEN.high:.2f}] on"
        f" {UNSEEN.sources} sources never used for fitting ({UNSEEN.answers:,} answers,"
        f" {UNSEEN.measured})"
    )


def adherence_worth() -> str:
    """Say what a score of adherence by words is worth, in two sentences."""
    return (
        "Adherence by words is a score of words, no probability."
        f" {unseen_worth()}, {DEVELOPER.auroc:.2f} [{DEVELOPER.low:.2f},"
        f" {DEVELOPER.high:.2f}] on {DEVELOPER.sources} developer sources."
    )

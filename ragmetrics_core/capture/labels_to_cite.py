"""Whether prompts give the contexts labels by which the model is to cite them. Pure.

Where they do, an answer without marks cites nothing. Where they do not, it may still rest
on a context, and what it cites is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ragmetrics_core.capture.label_lines import IN_BRACKETS
from ragmetrics_core.capture.prompt_labels import Labels, without_texts
from ragmetrics_core.capture.prompt_numbers import BEHIND_A_WORD, numbers_in_form
from ragmetrics_core.capture.source_names import is_distinctive
from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.marks import is_like_labels, plain_label

_ASKS_TO_CITE = lazy_pattern(r"\bcit(?:e|ing|ations?)\b", re.IGNORECASE)
_IN_BRACKETS = lazy_pattern(r"[\[【]([^\[\]【】\n]{1,200})[\]】]")


def each_context_has_label_to_cite(
    labels: Labels, prompts: Sequence[str], context_texts: Sequence[str]
) -> bool:
    """Whether each context has a label by which the prompts want it cited.

    Such a label is a number as of a source, "Source 1:" or "[1]"; a name in brackets,
    "[a.pdf]"; or any name, "File: a.pdf", where the prompts ask for citations. The
    numbers of a mere list, "1. It is old.", do not count.

    Args:
        labels: The labels of the contexts in the prompts.
        prompts: The messages that the model was shown.
        context_texts: The texts of the contexts.
    """
    if _are_numbered_as_sources(labels, prompts):
        return True
    # what the prompts say around the contexts, such as "Cite sources."
    instructions = without_texts(prompts, context_texts, "\n")
    labels_in_brackets = set(map(plain_label, _IN_BRACKETS.findall(instructions)))
    asks_in_words = _ASKS_TO_CITE.search(instructions) is not None
    # "Write [report.pdf] behind it." asks to cite without the word
    has_example = _give_example_of_citing(labels_in_brackets, labels)
    asks_to_cite = asks_in_words or has_example
    contexts_to_cite: set[int] = set()
    for label, context_indexes in labels.context_indexes_by_label.items():
        is_name_to_cite = asks_to_cite and is_distinctive(label)  # "a.pdf", no "notes"
        if label in labels_in_brackets or is_name_to_cite:
            contexts_to_cite.update(context_indexes)
    return bool(contexts_to_cite) and len(contexts_to_cite) == len(context_texts)


def _are_numbered_as_sources(labels: Labels, prompts: Sequence[str]) -> bool:
    """Whether the contexts have numbers such as "[1]" or "Source 1:", and not just "1."."""
    numbers_behind_words = numbers_in_form(BEHIND_A_WORD, "\n".join(prompts))
    all_stand_behind_words = numbers_behind_words.issuperset(labels.numbers)
    all_stand_in_brackets = IN_BRACKETS in labels.numberings_of_all_contexts
    return bool(labels.numbers) and (all_stand_in_brackets or all_stand_behind_words)


def _give_example_of_citing(
    labels_in_brackets: Collection[str], labels: Labels
) -> bool:
    """Whether instructions give an example of citing: "Write [report.pdf] behind it.".

    Its label labels no context, but looks like the labels of the contexts:
    "report.pdf" beside "a.pdf" and "b.pdf". A number may be anything, as a year.
    """
    labels_of_contexts = labels.context_indexes_by_label
    return any(
        is_like_labels(label, labels_of_contexts) and not label[0].isdigit()
        for label in labels_in_brackets
        if label not in labels_of_contexts
    )

"""Draws examples for the judge from labelled rows."""

import random
from collections.abc import Sequence

from ragmetrics_core.data import InputError
from ragmetrics_core.labelling.published import LabelledSample
from ragmetrics_core.metrics.labelled_examples import LabelledExample


def draw_examples(
    labelled: Sequence[LabelledSample], count: int = 4, *, seed: int = 0
) -> tuple[LabelledExample, ...]:
    """Draw examples of both labels for ``ContextAdherence(labelled_examples=)``.

    Whether they help can be measured on other rows, with ``ragmetrics card``.

    Args:
        labelled: Labelled samples, from ``read_labelled``.
        count: How many examples. Of 5, 3 are supported and 2 are not.
        seed: Seed of the draw.

    Raises:
        InputError: If there are too few labelled answers of either label.
    """
    random_source = random.Random(seed)  # noqa: S311  # a draw of examples is no cryptography
    n_unsupported = count // 2
    n_supported = count - n_unsupported
    examples: list[LabelledExample] = []
    for is_supported, n_wanted in ((True, n_supported), (False, n_unsupported)):
        answers = _answers_of_label(labelled, is_supported)
        if len(answers) < n_wanted:
            label = "supported" if is_supported else "unsupported"
            raise InputError(
                f"{count} examples need {n_wanted} {label} answers with a label; there"
                f" are {len(answers)}"
            )
        drawn_answers = random_source.sample(answers, n_wanted)
        examples += [_example(answer) for answer in drawn_answers]
    random_source.shuffle(examples)
    return tuple(examples)


def _answers_of_label(
    labelled: Sequence[LabelledSample], is_supported: bool
) -> list[LabelledSample]:
    """The answers that people called supported by their contexts, or those they did not."""
    answers = []
    for row in labelled:
        if row.question == "adherent" and row.labels[0] is is_supported:
            answers.append(row)
    return answers


def _example(row: LabelledSample) -> LabelledExample:
    return LabelledExample(
        contexts=tuple(context.text for context in row.sample.known_contexts),
        answer=row.sample.answer or "",
        adherent=row.labels[0],
    )

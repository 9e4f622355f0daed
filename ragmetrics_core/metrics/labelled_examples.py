"""Examples for the judge from the user's own labelled rows.

They stand in the prompt as JSON, so that no text of an example can end it.
"""

import json
from collections.abc import Iterable

from ragmetrics_core.data import Sample
from ragmetrics_core.data.frozen import Silent


class LabelledExample(Silent):
    """An answer that people labelled, to be shown to the judge as an example.

    Attributes:
        contexts: The contexts that it was judged against.
        answer: The answer.
        adherent: Whether people say that all of it rests on the contexts.
    """

    contexts: tuple[str, ...]
    answer: str
    adherent: bool

    def is_about(self, sample: Sample) -> bool:
        """Whether this is the row that is judged, or shares its answer or contexts."""
        contexts = tuple(context.text for context in sample.contexts)
        return self.answer == sample.answer or self.contexts == contexts


def shown(examples: Iterable[LabelledExample]) -> str:
    """The examples as lines of JSON, under a heading; "" without any."""
    lines = [
        f"{json.dumps(_texts(example), ensure_ascii=False)} ->"
        f' {{"verdict": "{"yes" if example.adherent else "no"}"}}'
        for example in examples
    ]
    return "\n".join(["Examples, as people judged them:", *lines]) if lines else ""


def _texts(example: LabelledExample) -> dict[str, object]:
    return {"contexts": example.contexts, "answer": example.answer}

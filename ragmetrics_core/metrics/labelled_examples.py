"""Examples for the judge from the user's own labelled rows.

Each stands in the prompt in a tag of its own, like the texts of a sample.
"""

import json
from collections.abc import Iterable
from unicodedata import normalize

from ragmetrics_core.data.asking import QuotedExample
from ragmetrics_core.data.blank import is_blank
from ragmetrics_core.data.frozen import SilentData, sendable_text
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_NO_LETTER = lazy_pattern(r"[\W_]+")


class LabelledExample(SilentData):
    """An answer that people labelled, to be shown to the judge as an example.

    Attributes:
        contexts: The contexts that it was judged against.
        answer: The answer.
        adherent: Whether people say that all of it rests on the contexts.
    """

    contexts: tuple[str, ...]
    answer: str
    adherent: bool


def drop_examples_about(
    examples: Iterable[LabelledExample], answer: str, contexts: Iterable[str]
) -> tuple[LabelledExample, ...]:
    """The examples that tell a judge nothing about this answer or these contexts.

    An example is left out if it shares the answer or any context. Texts are the same if
    their letters and digits are, whatever their case, spacing, signs and Unicode form.
    """
    judged_answer = _letters(answer)
    judged_contexts = _letters_of_texts(contexts)
    return tuple(
        example
        for example in examples
        if _letters(example.answer) != judged_answer
        and judged_contexts.isdisjoint(_letters_of_texts(example.contexts))
    )


def _letters_of_texts(texts: Iterable[str]) -> set[str]:
    """Return the letters and digits of each text that is not blank."""
    return {_letters(text) for text in texts if not is_blank(text)}


def _letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case and one Unicode form.

    Of a text without any, the text itself.
    """
    plain = normalize("NFKC", normalize("NFKC", sendable_text(text)).casefold())
    return _NO_LETTER.sub("", plain) or plain.strip()


_SUPPORTED = 'Every claim of this answer is supported: "unsupported" is empty.'
_NOT_SUPPORTED = 'A claim of this answer is not supported: "unsupported" names it.'


def quote_examples(examples: Iterable[LabelledExample]) -> tuple[QuotedExample, ...]:
    """Write out examples for a prompt: the texts as JSON, and the verdict."""
    return tuple(
        QuotedExample(
            text=json.dumps(_texts_for_prompt(example), ensure_ascii=False),
            judgement=_SUPPORTED if example.adherent else _NOT_SUPPORTED,
        )
        for example in examples
    )


def _texts_for_prompt(example: LabelledExample) -> dict[str, object]:
    """Return the contexts and the answer of an example, as JSON takes them."""
    contexts = [sendable_text(context) for context in example.contexts]
    return {"contexts": contexts, "answer": sendable_text(example.answer)}

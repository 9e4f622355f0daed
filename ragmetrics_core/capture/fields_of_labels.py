"""Which numbers of an answer may mean a field beside a label, such as ``doc_id: 3``. Pure.

Below "[1]" the field is no second label. But an answer may cite by it where the
instructions name it.
"""

import re
from collections.abc import Iterable, Mapping

from ragmetrics_core.capture.label_lines import KEY_OF_NUMBER, LabelLine
from ragmetrics_core.data.lazy_patterns import lazy_pattern

# The word of a key that instructions name: "id" of "doc_id", "Source ID" and "id".
_LAST_WORD_OF_KEY = lazy_pattern(r"(?:^|[ _-])(id|index|number)s?$")
# A key that itself says that its number is to be cited: "citation", "source number".
_KEY_OF_CITING = lazy_pattern(
    r"(?:citation|reference|ref|footnote)(?:[ _-]?(?:id|key|index|number|no))?"
    r"|(?:(?:source|document|doc|passage)[ _-]?)?(?:number|no)"
)
_WORDS_BEFORE_A_KEY = (
    r"(?:[ \t]+(?:the|its|their|each|by|with|using|only|as|a|text's|source's))*+[ \t]+"
    r"[\"'`]?"
)


def numbers_that_fields_may_mean(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
    context_indexes_by_label_number: Mapping[str, tuple[int, ...]],
    instructions: str,
) -> frozenset[str]:
    """Find the numbers by which an answer may mean a field, such as "doc_id: 7".

    Example: the label "[1]" stands above "doc_id: 2", and "[2]" above "doc_id: 1". The
    instructions say "cite the doc_id". Then "[1]" in an answer may mean the text with
    the field 1 as well as the text with the label 1, and so for 2: both are returned.

    - A number whose field and label belong to the same texts is never returned.
    - If the field is cited, all its other numbers are. It is cited if the instructions
      say so, or the key itself does, as "source number".
    - If the field is not cited, and counts texts as "doc_id" does and "page" does not,
      its numbers that are no label are returned.

    Args:
        lines_by_context: The lines that label each context.
        context_indexes_by_label_number: By the number of a label, "1" of "[1]", the
            indexes of its contexts.
        instructions: What the prompts say around the contexts.
    """
    numbers: set[str] = set()
    for key, context_indexes_by_value in context_indexes_by_field(
        lines_by_context
    ).items():
        is_field_cited = _is_named(key, instructions) or _KEY_OF_CITING.fullmatch(key)
        counts_texts = KEY_OF_NUMBER.fullmatch(key) is not None
        for number, contexts_with_field in context_indexes_by_value.items():
            contexts_with_label = set(context_indexes_by_label_number.get(number, ()))
            if contexts_with_field == contexts_with_label:
                continue
            is_no_label = not contexts_with_label
            if is_field_cited or (counts_texts and is_no_label):
                numbers.add(number)
    return frozenset(numbers)


def context_indexes_by_field(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[str, dict[str, set[int]]]:
    """Group the indexes of the contexts by the key of a field, then by its number.

    "doc_id: 7" of the first context gives ``{"doc_id": {"7": {0}}}``.
    """
    by_field: dict[str, dict[str, set[int]]] = {}
    for context_index, lines in lines_by_context.items():
        for line in lines:
            for key, number in line.fields:
                by_number = by_field.setdefault(key, {})
                by_number.setdefault(number, set()).add(context_index)
    return by_field


def _is_named(key: str, instructions: str) -> bool:
    """Whether instructions name a field, as "Cite with the id in brackets" names "doc_id".

    A key of any other word counts directly after "cite": "Cite the page number" names
    "page", and "Cite the source and its page" does not.
    """
    words_of_key = re.escape(key).replace("_", "[ _-]")
    cites_it = rf"\bcit\w*+{_WORDS_BEFORE_A_KEY}{words_of_key}s?(?!\w)"
    if re.search(cites_it, instructions, re.IGNORECASE):
        return True
    last_word = _LAST_WORD_OF_KEY.search(key)
    if last_word is None:
        return False
    # after it stands no value, as in the field "doc_id: 7" itself
    pattern = rf"(?<![^\W_]){last_word[1]}s?(?!\w)(?![\"']?[ \t]*[:=])"
    return re.search(pattern, instructions, re.IGNORECASE) is not None

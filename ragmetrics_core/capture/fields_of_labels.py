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
    context_indexes_by_number: Mapping[str, tuple[int, ...]],
    instructions: str,
) -> frozenset[str]:
    """Find the numbers of fields, as in "doc_id: 7", that an answer may cite.

    A number is left out where it is also the label of the same text. Others are returned
    in two cases:

    - The key is cited: the instructions say "cite the doc_id", or the key itself says
      it, as "source number" does. Example: "[1]" stands above "doc_id: 2", and "[2]"
      above "doc_id: 1".
    - The key counts texts, as "doc_id" does and "page" does not, and no text has the
      number as its label: the 7 of "doc_id: 7".

    Args:
        lines_by_context: The lines that label each context.
        context_indexes_by_number: The context indexes by the number of each label.
        instructions: What the prompts say around the contexts.
    """
    numbers: set[str] = set()
    for key, context_indexes_by_value in _context_indexes_by_field(
        lines_by_context
    ).items():
        is_cited = _is_named(key, instructions) or _KEY_OF_CITING.fullmatch(key)
        # whether the key counts texts: "doc_id" does, "page" does not
        counts_texts = KEY_OF_NUMBER.fullmatch(key) is not None
        for number, context_indexes in context_indexes_by_value.items():
            labelled = set(context_indexes_by_number.get(number, ()))
            if context_indexes == labelled:  # label and field mean the same
                continue
            if is_cited or (counts_texts and not labelled):
                numbers.add(number)
    return frozenset(numbers)


def _context_indexes_by_field(
    lines_by_context: Mapping[int, Iterable[LabelLine]],
) -> dict[str, dict[str, set[int]]]:
    """Group the indexes of the contexts by the key of a field, then by its number.

    "doc_id: 7" of the first context gives ``{"doc_id": {"7": {0}}}``.
    """
    context_indexes_by_field: dict[str, dict[str, set[int]]] = {}
    for context_index, lines in lines_by_context.items():
        for line in lines:
            for key, number in line.fields:
                context_indexes_by_value = context_indexes_by_field.setdefault(key, {})
                context_indexes_by_value.setdefault(number, set()).add(context_index)
    return context_indexes_by_field


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

"""Files whose names are like marks with a number: ``doc1.pdf`` and ``[doc1]``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ragmetrics_core.data.lazy_patterns import lazy_pattern
from ragmetrics_core.data.marks import contexts_of_label, plain_label

_SIGNS_OF_MARKS = lazy_pattern(r"[\[\]()［］〔〕【】,;&]")
# "doc1", "Source_2", "Document 3"
_NAME_WITH_NUMBER = lazy_pattern(r"([^\W\d_]+)[ _-]?([0-9]{1,4})")
_FILE_WITH_NUMBER = lazy_pattern(
    r"(?<![^\W_])(?P<word>[^\W\d_]+)[ \t_\-]*(?P<number>[0-9]{1,9})"
    r"\.(?-i:[a-z][a-z0-9]{1,4})(?!\w)",
    re.IGNORECASE,
)

FilesByName = Mapping[tuple[str, int], Mapping[str, None]]
"""Files by the word and the number of their names, each once."""


def files_with_numbers(prompts: Sequence[str]) -> FilesByName:
    """Find the files in prompts: "doc1.pdf" and "Doc_01.txt" under ("doc", 1)."""
    files: dict[tuple[str, int], dict[str, None]] = {}
    for prompt in prompts:
        for found in _FILE_WITH_NUMBER.finditer(prompt):
            key = (found["word"].lower(), int(found["number"]))
            files.setdefault(key, {})[found[0]] = None
    return files


def files_that_a_mark_may_name(
    mark: str,
    files: FilesByName,
    context_indexes_by_label: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names in a mark that are read as numbers, and may be those of a file.

    "doc1" of ``[doc1, 3]`` is read as the number 1, and may be the file "doc1.pdf".

    Args:
        mark: The mark as it is written.
        files: The files that the prompts show.
        context_indexes_by_label: The labels of the contexts.

    Yields:
        The name, and the indexes of the contexts of a file that is called so; () if no
        context has this file as its label.
    """
    for part in _SIGNS_OF_MARKS.split(mark):
        name = part.strip()
        words = _NAME_WITH_NUMBER.fullmatch(name)
        if words is None or not plain_label(name).isdigit():
            continue
        for file in files.get((words[1].lower(), int(words[2])), ()):
            # the label of "Document 3.docx" may leave out the word: "3.docx"
            context_indexes = contexts_of_label(file, context_indexes_by_label)
            yield (
                name,
                context_indexes
                or contexts_of_label(plain_label(file), context_indexes_by_label),
            )

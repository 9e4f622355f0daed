"""What labels of sources look like: by its shape a label is known as one of its kind.

``[S9]`` beside ``[S1]`` names a source, although no context has this label.
"""

import re
from collections.abc import Iterable

from ragmetrics_core.data.lazy_patterns import lazy_pattern

SHAPE_OF_FILES = "a file"
_FILE_AND_PAGE = lazy_pattern(r"\S+\.[A-Za-z]{2,5}#page=[0-9]+")
SHAPE_OF_FILE_AND_PAGE = "a file and a page"
# "Dubey2024 pages 3-4", as a whole the key of a passage
_KEY_WITH_PAGES = lazy_pattern(
    r"[^\W\d_][\w.&'’-]*(?: [\w.&'’-]+){0,3} (?:pp?\.|pages?) \d{1,5}(?:[-–]\d{1,5})?",
    re.IGNORECASE,
)
SHAPE_OF_KEY_WITH_PAGES = "a name and pages"
_SHAPE_OF_NUMBER_AND_NAME = "a number and a name"
_FILE_AND_PLACE = lazy_pattern(r"[^\s:]+\.[A-Za-z]{2,5}#\S+")
_TIME = lazy_pattern(r"\d{1,2}(?::\d\d){1,2}")
_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# "c910e2e"; "abc1234" may be a word and its number as well
_HEX_ID = lazy_pattern(r"(?!(?i:[a-f])+\d+\Z)(?:[0-9a-f]{6,64}|[0-9A-F]{6,64})")
# "[cost-guide]" where a mark stands: behind the words that it is cited for
_ID_IN_BRACKETS = lazy_pattern(
    r"\[(?P<id>[^\[\]\s]{2,80})\](?![(:\[])(?=\s*(?:[.,;:!?)。，；！？]|\Z)|[ \t]*$)",
    re.MULTILINE,
)
_SHORTEST_PLAIN_ID = 5  # "x7Kp2"; "CO2" and "H2O" are words
_MOST_WORDS_OF_A_LABEL = 3  # with its number: "Page no. 7"
NUMBER_AND_NAME = lazy_pattern(r"([0-9]{1,4})[ \t]*[:|(–-]")


def shape_of_label(label: str) -> str | None:
    """Describe the shape of a label, which labels of one kind share; None for words.

    "S9" and "S1" have the shape "S#", "x.pdf" and "a.pdf" the shape "a file", "09:59"
    and "00:40" the shape "00:00", "c910e2e" and "9ab03fe" "an id of 7 characters". If a
    context has the label "S1", an answer's ``[S9]`` of the same shape is read as a mark,
    although no context has this label.
    """
    # the shapes that are told exactly come first, so that the last is for all others
    if re.fullmatch(r"[A-Z]", label):
        return "a letter"
    if re.fullmatch(r"\S+\.[A-Za-z]{2,5}", label):
        return SHAPE_OF_FILES
    if _FILE_AND_PAGE.fullmatch(label):  # "a.pdf#page=3"
        return SHAPE_OF_FILE_AND_PAGE
    if is_key_with_pages(label):  # "Dubey2024 pages 3-4"
        return SHAPE_OF_KEY_WITH_PAGES
    if _FILE_AND_PLACE.fullmatch(label):  # "a.md#setup"
        return "a file and a place"
    if _TIME.fullmatch(label):  # "0:40" may be another form of "00:40"
        return re.sub(r"\d", "0", label)
    has_letter = re.search(r"[^\W\d_]", label) is not None
    if not has_letter or not re.search(r"[0-9]", label):
        return None
    if len(label.split()) > 1 and NUMBER_AND_NAME.match(label):  # "2: Travel Rules"
        return _SHAPE_OF_NUMBER_AND_NAME
    if "|" in label:  # "2140021 | Berg et al. | 2021"
        return f"{label.count('|') + 1} parts"
    if _UUID.fullmatch(label) or _HEX_ID.fullmatch(label):
        return f"an id of {len(label)} characters"
    if len(label.split()) > _MOST_WORDS_OF_A_LABEL:  # more words are a title
        return None
    # "S01" gives "Szero#", another shape than that of "S1", which may mean "S01"
    with_leading_zeros_named = re.sub(r"(?<![0-9])0(?=[0-9])", "zero", label)
    return re.sub(r"[0-9]+", "#", with_leading_zeros_named)


def shapes_of_labels(labels: Iterable[str]) -> set[str]:
    """Return the shapes (see ``shape_of_label``) of some labels."""
    shapes = (shape_of_label(label) for label in labels)
    return {shape for shape in shapes if shape is not None}


def is_key_with_pages(label: str) -> bool:
    """Tell whether a label is a name with pages, "Dubey2024 pages 3-4"."""
    return _KEY_WITH_PAGES.fullmatch(label) is not None


def frames_of_ids_in(text: str) -> set[str]:
    """Return the frames of the ids that stand in brackets where marks stand.

    "[cost-guide]" has the frame "a-a", and so has "[heat-pump-basics]": beside a mark
    of the same frame an id may cite a source that nobody was shown. "[optional]", a word
    alone, has no frame.
    """
    frames: set[str] = set()
    for match in _ID_IN_BRACKETS.finditer(text):
        words_in_brackets = match["id"]
        is_address = "://" in words_in_brackets
        if not is_address and _may_be_id(words_in_brackets):
            frames.add(_frame_of_id(words_in_brackets))
    return frames


def _frame_of_id(text: str) -> str:
    """Return an id with "a" for its letters and digits: "a/a" of "docs/subsidy".

    What repeats stands once: "docs/law/subsidy", first "a/a/a", gives "a/a" as well, since
    ids of one kind have more or fewer parts.
    """
    frame = re.sub(r"[^\W_]+", "a", text)
    return re.sub(r"(\Wa|_a)\1+", r"\1", frame)


def _may_be_id(text: str) -> bool:
    """Tell whether a text without blanks may be an id: "cost-guide", "chen2023", "0:40".

    "optional" is a word, and "CO2" too short for an id.
    """
    has_letter = re.search(r"[^\W\d_]", text) is not None
    is_of_letters_and_digits = re.fullmatch(r"[^\W_]+", text) is not None
    if not is_of_letters_and_digits:
        return has_letter or ":" in text  # "0:40" beside the label "00:15"
    has_digit = re.search(r"\d", text) is not None
    return has_letter and has_digit and len(text) >= _SHORTEST_PLAIN_ID

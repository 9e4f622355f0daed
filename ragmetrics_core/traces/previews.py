"""Tells by the prompts of a trace that it holds documents in part. Pure.

A span may hold the first hundred letters of a document, where the prompt shows it
whole: a **preview**.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from ragmetrics_core.capture.normalized_text import normalize_text
from ragmetrics_core.capture.tree import Document, Node
from ragmetrics_core.data.lazy_patterns import lazy_pattern

_FEWEST_LETTERS = 24  # a shorter text stands in a prompt by chance
_N_WORDS_SEARCHED = 12  # a document is searched for by its first or last words
_DOTS = r"[\[(]?(?:\.{2,}|…)[\])]?"
_NOTE = r"[\[(<][^\[\]()<>\n]{1,40}[\])>]"  # "[truncated]", "(97 more chars)", "<snip>"
# what says that a text was cut: "...", "…", "[...]", "... [truncated]"
_CUT_MARK = lazy_pattern(rf"\s*(?:{_DOTS}\s*(?:{_NOTE})?|{_NOTE})\s*$")
_CUT_MARK_BEFORE = lazy_pattern(rf"\s*{_DOTS}\s*(?=\w)")  # and words follow
_WORD = lazy_pattern(r"\w+")
_FEWEST_WORDS = 4  # of a sentence that goes on; fewer may be a page or a score
_ROUND_LENGTH = 50  # somebody who cuts texts takes 100, 250 or 500 letters
_N_FIRST_WORDS = 3  # they tell the text
_N_WORDS_OF_SENTENCE = 6  # a passage may begin with words of the question, and go on
# "[1] ", "2. ", "Source 3: " or "(4) " at the beginning of a line
_LABEL = lazy_pattern(
    r"(?m)^[^\w\n]{0,3}(?:[^\W\d]{1,16}[ \t#]?)?\d{1,3}[^\w\s,]{1,4}(?=\s)"
)
_DIGITS = lazy_pattern(r"\d+")
_PROSE = lazy_pattern(r"\s+[^\W\d_]")  # further sentences begin with a letter
# a sentence goes on with a word, and not with a bracket, a bar or the end of its line
_GOES_ON_WITH_A_WORD = lazy_pattern(r"[,;:]?[ \t]?\w")


def count_previews(root: Node) -> int:
    """Count the documents of a run that were recorded in part: its prompts show more.

    Example: a span holds "Rome has been the capital of It", and a prompt shows "Rome
    has been the capital of Italy": 1.
    """
    documents = _documents_of(root)
    shown_texts = _shown_texts(root)
    # other documents, queries and replies: these may follow a document in a prompt
    known_texts = _KnownTexts(root, documents)
    n_surely_cut = 0
    unclear_rests = []  # the rests of lines behind documents that are not surely cut
    for document in documents:
        # "aly" behind the document "Rome has been the capital of It"
        rest_of_line = _rest_of_line(document.text, shown_texts)
        # In a line with several documents the rest may be the next document.
        if known_texts.hold_beginning_of(rest_of_line):
            rest_of_line = ""
        lacks_beginning = _lacks_beginning(document.text, shown_texts)
        if lacks_beginning or _lacks_end(document.text, rest_of_line):
            n_surely_cut += 1
        else:
            unclear_rests.append(rest_of_line)
    # The words behind one document may be the rest of its sentence, or words of the
    # prompt's template. Only those behind all documents together tell which.
    n_cut = n_surely_cut + _n_rests_of_sentences(unclear_rests)
    if n_cut > 0:
        return n_cut
    # A weaker sign: in the prompt's part behind "[1]" a document goes on with sentences.
    return _n_cut_in_blocks(documents, shown_texts, known_texts)


def _n_rests_of_sentences(rests_of_lines: Sequence[str]) -> int:
    """Count the documents behind which a prompt shows the rest of their sentence.

    Behind "Anna founded the company" it may be ", which made clocks in Rome". Words of
    a template, such as "Question: Who?", begin alike behind each document. So 0 is
    returned if all begin with the same word.

    Args:
        rests_of_lines: What a prompt shows behind each document, in the same line.
    """
    first_words = [_first_word(rest) for rest in rests_of_lines if _goes_on(rest)]
    are_unlike = len(set(first_words)) > 1
    return len(first_words) if are_unlike else 0


def _documents_of(root: Node) -> list[Document]:
    """Collect the documents that the calls of a run took or gave, each text once."""
    document_by_text: dict[str, Document] = {}
    for node in root.walk():
        for document in (*(node.documents or ()), *node.input_documents):
            document_by_text.setdefault(document.text, document)
    return list(document_by_text.values())


def _shown_texts(root: Node) -> list[str]:
    """Collect the messages that models were shown and did not write, each once."""
    prompts = [node.prompt for node in root.walk() if node.kind == "model"]
    texts = {
        message.text: None
        for message in chain.from_iterable(prompts)
        if message.role != "assistant"
    }
    return list(texts)


class _KnownTexts:
    """What may stand behind a document: other documents, queries and replies.

    Args:
        root: The outermost call of the run.
        documents: Its documents.
    """

    def __init__(self, root: Node, documents: Sequence[Document]) -> None:
        """Collect the texts, normalized, and the first words of the documents."""
        self._texts = [normalize_text(text) for text in _texts_of(root, documents)]
        beginnings = [_first_words(document.text) for document in documents]
        self._beginnings = [beginning for beginning in beginnings if beginning]

    def hold_beginning_of(self, words: str, n_words: int = _N_FIRST_WORDS) -> bool:
        """Whether words of a prompt are known from elsewhere.

        They are if their first words stand in a known text. They are as well if a
        document begins in them, perhaps behind its number: "[2] Rome is old."

        Args:
            words: What a prompt shows behind a document.
            n_words: How many of the first words must stand in a known text.
        """
        if any(_first_words(words, n_words) in text for text in self._texts):
            return True
        normalized = normalize_text(words)
        return any(beginning in normalized for beginning in self._beginnings)


def _texts_of(root: Node, documents: Sequence[Document]) -> Iterator[str]:
    """Yield the texts of documents and their metadata, and of queries and replies."""
    for document in documents:
        yield document.text
        yield from document.forms
        for value in document.metadata.values():
            yield str(value)
    for node in root.walk():
        yield node.query or ""
        yield node.text or ""
        if node.reply is not None:
            yield node.reply.text


def _first_words(text: str, n_words: int = _N_FIRST_WORDS) -> bytes:
    """The first words of a text, normalized, which tell it from other texts."""
    return normalize_text(" ".join(_WORD.findall(text)[:n_words]))


def _first_word(text: str) -> str:
    """The first word of a text; "" if it has none."""
    word = _WORD.search(text)
    return "" if word is None else word[0]


def _pattern_of(words: Sequence[str]) -> re.Pattern[str]:
    """Return what finds words that follow each other, with any white space between."""
    return re.compile(r"\s+".join(map(re.escape, words)))


def _rest_of_line(text: str, shown_texts: Sequence[str]) -> str:
    """Return what stands behind a document in its line of a prompt.

    Example: a retriever's span holds "Anna founded the company in ...", and a prompt
    shows "Anna founded the company in 1874.": " 1874." was cut off. Returns "" if the
    document stands in no prompt, or if some prompt shows no word behind it: then it was
    recorded whole.
    """
    text_without_dots = _CUT_MARK.sub("", text).rstrip()
    if len(text_without_dots) < _FEWEST_LETTERS:
        return ""
    last_words = text_without_dots.split()[-_N_WORDS_SEARCHED:]
    pattern_of_last_words = _pattern_of(last_words)
    rests = []
    for shown_text in shown_texts:
        for found in pattern_of_last_words.finditer(shown_text):
            rest, _, _ = shown_text[found.end() :].partition("\n")
            if not _WORD.search(rest):
                return ""
            rests.append(rest)
    return rests[0] if rests else ""


def _n_cut_in_blocks(
    documents: Sequence[Document], shown_texts: Sequence[str], known_texts: _KnownTexts
) -> int:
    """Count the documents that go on with further sentences in a prompt's labelled block.

    Such a document was recorded in part: whoever fills a prompt's block "[1] …" puts
    the whole text into it. Example: the spans hold "The town is old." and "The mill is
    new."; a prompt shows "[1] The town is old. It has a gate." and "[2] The mill is
    new.": 1, the town's.
    """
    blocks = [block for text in shown_texts for block in _labelled_blocks(text)]
    rests = list(_rests_of_blocks(documents, blocks, known_texts))
    if len(rests) < 2:
        return 0  # nothing to compare with: the rest may be words of the template
    words_of_template = _words_that_begin_several(rests)
    n_cut = 0
    for rest in rests:
        # Behind the last block, which no label ends, the question may stand.
        goes_on = rest.ends_at_label and _is_prose(rest.text)
        if goes_on and _first_word(rest.text) not in words_of_template:
            n_cut += 1
    return n_cut


class _Block(NamedTuple):
    """A part of a prompt behind a label, such as "[1]" or "Source 2:".

    Attributes:
        text: What stands behind the label, or the end of that.
        ends_at_label: Whether it ends at the next label, as that of "[1]" at "[2]". Else
            words of the template may stand in it.
    """

    text: str
    ends_at_label: bool


def _labelled_blocks(text: str) -> Iterator[_Block]:
    r"""Yield the parts of a prompt behind its labels, as "[1]" at the start of a line.

    Example: "[1] It is old.\n[2] It fell.\n\nQuestion: Who?" has the blocks " It is
    old.\n", which ends at the label "[2]", and " It fell.", which ends at a blank line.
    """
    labels = list(_LABEL.finditer(text))
    for label, next_label in zip_longest(labels, labels[1:]):
        # a label of another form, as "2." after "[1]", may belong to the passage
        if next_label is not None and _form(next_label) == _form(label):
            block = text[label.end() : next_label.start()]
            yield _Block(block, ends_at_label=True)
        else:
            block, _, _ = text[label.end() :].partition("\n\n")
            yield _Block(block, ends_at_label=False)


def _words_that_begin_several(rests: Sequence[_Block]) -> set[str]:
    """Return the first words that several rests of blocks have in common.

    A prompt's template put them there: "Source" if "Source: a.txt" stands behind one
    document, and "Source: b.txt" behind another.
    """
    n_by_first_word = Counter(_first_word(rest.text) for rest in rests)
    return {word for word, n in n_by_first_word.items() if n > 1}


def _form(label: re.Match[str]) -> str:
    """Return a label with 0 for its number: "[0]" for "[1]" and "[12]"."""
    return _DIGITS.sub("0", label[0])


def _rests_of_blocks(
    documents: Sequence[Document], blocks: Sequence[_Block], known_texts: _KnownTexts
) -> Iterator[_Block]:
    """Yield for each document that stands in a block the rest of the block behind it.

    Its text is "" if nothing stands there, or only what is known from elsewhere, such
    as the next document.
    """
    for document in documents:
        rest = _rest_of_block(document.text, blocks)
        if rest is None:
            continue
        if known_texts.hold_beginning_of(rest.text, _N_WORDS_OF_SENTENCE):
            rest = rest._replace(text="")
        yield rest


def _rest_of_block(text: str, blocks: Sequence[_Block]) -> _Block | None:
    """Return the rest of a block behind the last words of a document.

    Example: the document "Rome has been the capital of It", and the block "Rome has been
    the capital of Italy since 1871.": the rest "aly since 1871.".

    Args:
        text: The document, as it was recorded.
        blocks: The blocks of the prompts.

    Returns:
        The rest. Its text is "" if some block ends with the document: then the document
        was recorded whole, whatever follows it elsewhere. None if the document stands in
        no block, or is too short to be found.
    """
    words = text.split()
    if len(text) < _FEWEST_LETTERS or not words:
        return None
    pattern_of_last_words = _pattern_of(words[-_N_WORDS_SEARCHED:])
    first_rest = None
    for block in blocks:
        for found in pattern_of_last_words.finditer(block.text):
            rest = block._replace(text=block.text[found.end() :])
            if not _WORD.search(rest.text):
                return rest._replace(text="")
            first_rest = first_rest or rest
    return first_rest


def _is_prose(rest: str) -> bool:
    """Whether a text looks like further sentences of a passage, and not like its metadata.

    "Source: a.txt", "(page 3)" and "https://a.org" are metadata.
    """
    words = _WORD.findall(rest)
    if len(words) < _FEWEST_WORDS or _PROSE.match(rest) is None:
        return False
    first_words, _, _ = rest.strip().partition(words[_N_FIRST_WORDS])
    return ":" not in first_words and "=" not in first_words


def _lacks_beginning(text: str, shown_texts: Sequence[str]) -> bool:
    """Whether a document begins with "...", and prompts show other words in that place.

    Example: a span holds "... in Rome since the year 1874", and a prompt shows "Anna
    has lived and worked in Rome since the year 1874".
    """
    dots = _CUT_MARK_BEFORE.match(text)
    if dots is None:
        return False
    # without the dots before it, and those behind it, if there are any
    recorded_words = _CUT_MARK.sub("", text[dots.end() :]).rstrip()
    if len(recorded_words) < _FEWEST_LETTERS:
        return False
    first_words = _pattern_of(recorded_words.split()[:_N_WORDS_SEARCHED])
    lines_before = []  # the part of a line before the document, wherever it is shown
    for shown_text in shown_texts:
        for match in first_words.finditer(shown_text):
            _, _, line = shown_text[: match.start()].rpartition("\n")
            lines_before.append(line)
    return bool(lines_before) and all(map(_ends_within_sentence, lines_before))


def _ends_within_sentence(line: str) -> bool:
    """Whether a line ends with a word of a sentence, as "Anna has lived and worked".

    It has several words; a label, such as "Source 1", has fewer.
    """
    has_words = len(_WORD.findall(line)) >= _FEWEST_WORDS
    return has_words and line.rstrip()[-1:].isalnum()


def _lacks_end(text: str, rest: str) -> bool:
    """Whether a document was cut, by its end and by what stands behind it in a prompt."""
    if not rest:
        return False
    if _CUT_MARK.search(text):
        is_mark_shown = rest.lstrip()[:1] in (".", "…", "[", "(", "<")
        return not is_mark_shown
    return _is_cut_within_word(text, rest) or _is_cut_behind_word(text, rest)


def _is_cut_within_word(text: str, rest: str) -> bool:
    """Whether a prompt goes on with the last word or number of a document.

    A template may put "Question:" right behind a word. So only a small letter goes on
    with a word, and only a digit with a number.
    """
    last_sign = text[-1:]
    next_sign = rest[:1]
    is_within_word = last_sign.isalpha() and next_sign.islower()
    is_within_number = last_sign.isdigit() and next_sign.isdigit()
    return is_within_word or is_within_number


def _is_cut_behind_word(text: str, rest: str) -> bool:
    """Whether a document breaks off in a sentence with which a prompt goes on.

    A template may go on with a small letter as well, as in "Use {context} to answer". So
    the document must end in a blank, or be as long as somebody cuts a text.
    """
    is_cut_by_length = len(text) % _ROUND_LENGTH == 0 or _is_power_of_two(len(text))
    if not is_cut_by_length and not text.endswith(" "):
        return False
    is_within_sentence = text.rstrip()[-1:].isalnum()
    goes_on_small = rest[:1] == " " and rest[1:2].islower()
    return is_within_sentence and goes_on_small and _goes_on(rest)


def _is_power_of_two(number: int) -> bool:
    """Whether a number is 64, 128, 256 and so on, and not 1."""
    return number > 1 and number & (number - 1) == 0


def _goes_on(words: str) -> bool:
    """Whether some words look like the rest of a sentence that stands before them."""
    has_words = len(_WORD.findall(words)) >= _FEWEST_WORDS
    return has_words and _GOES_ON_WITH_A_WORD.match(words) is not None

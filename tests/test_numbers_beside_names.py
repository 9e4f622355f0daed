"""A number directly beside the name of a source, in an answer or a prompt: it means this source."""

from __future__ import annotations

import pytest
from counted_steps import count_steps
from hypothesis import given
from hypothesis import strategies as st
from test_tree_rules import Clock, model, retriever, tree
from test_two_numberings import TEXTS, sample_of

from ragmetrics_core import Sample
from ragmetrics_core.capture import Answer, Document, Tree, samples_of
from ragmetrics_core.capture.answer_lists import with_plain_lists
from ragmetrics_core.capture.numbers_beside_names import (
    numbers_beside_names,
    numbers_in_short_lines,
)
from ragmetrics_core.capture.source_names import SourceNames

FILES = ("f1.txt", "f2.txt", "f3.txt")
PATHS = ("docs/iron.md", "docs/day.md", "docs/ship.md")
TITLES = ("Rivers and hills", "Opening day", "The Bridge Book")
SAID = "It is so [1]. It is old [2]. It is red [3]."

# Ways in which an answer says which source each number is: {0}, {1}, {2} are names.
LISTS = (
    "Files: [1] {0} [2] {1} [3] {2}",
    "[1] = {0}\n[2] = {1}\n[3] = {2}",
    "[1] → {0}, [2] → {1}, [3] → {2}",
    "Sources used: 1 = {0}, 2 = {1}, 3 = {2}",
    "Here [1] is {0}, [2] is {1} and [3] is {2}.",
    "Source 1: {0}\nSource 2: {1}\nSource 3: {2}",
    "Document 1 – {0}\nDocument 2 – {1}\nDocument 3 – {2}",
    "[1]\n{0}\n[2]\n{1}\n[3]\n{2}",
    "📄 [1] {0}\n📄 [2] {1}\n📄 [3] {2}",
    "[1]({0}) [2]({1}) [3]({2})",
    "References:\n[1] {0}\n[2] {1}\n[3] {2}",
    "References:\n{0} (1)\n{1} (2)\n{2} (3)",
    "<details><summary>Sources</summary>\n[1] {0}\n[2] {1}\n[3] {2}\n</details>",
    "{0} = [1]\n{1} = [2]\n{2} = [3]",
    "I cite {0} as [1], {1} as [2] and {2} as [3].",
    "Note [1]: {0}\nNote [2]: {1}\nNote [3]: {2}",
    "[Source 1]: {0}\n[Source 2]: {1}\n[Source 3]: {2}",
    "[1] The source is {0}.\n[2] The source is {1}.\n[3] The source is {2}.",
    "[1] [{0}](https://z.test/a)\n[2] [{1}](https://z.test/b)\n[3] [{2}](https://z.test/c)",
    "[1]:\n  File: {0}\n[2]:\n  File: {1}\n[3]:\n  File: {2}",
    "<ul><li>[1] {0}</li><li>[2] {1}</li><li>[3] {2}</li></ul>",
    "> [1]: *{0}*\n> [2]: *{1}*\n> [3]: *{2}*",
)
# Here the numbers alone might count steps, so that they tell only behind the marks.
COUNTS = (
    "| # | Source |\n|---|---|\n| 1 | {0} |\n| 2 | {1} |\n| 3 | {2} |",
    "<ol><li>{0}</li><li>{1}</li><li>{2}</li></ol>",
    "- **1**: {0}\n- **2**: {1}\n- **3**: {2}",
    "Ref. 1: {0}\nRef. 2: {1}\nRef. 3: {2}",
    "Legend: 1: {0}, 2: {1}, 3: {2}",
    "Footnote 1: {0}\nFootnote 2: {1}\nFootnote 3: {2}",
    "① {0}\n② {1}\n③ {2}",
    "1 – {0}\n2 – {1}\n3 – {2}",
    "| Source | # |\n|---|---|\n| {0} | 1 |\n| {1} | 2 |\n| {2} | 3 |",
    "¹ {0}\n² {1}\n³ {2}",
    "1. {0}\n2. {1}\n3. {2}",
    "(1) {0}\n(2) {1}\n(3) {2}",
    "1\ufe0f\u20e3 {0}\n2\ufe0f\u20e3 {1}\n3\ufe0f\u20e3 {2}",
)
# Ways in which a prompt does so, beside the labels of its passages.
MAPPINGS = (
    *LISTS[:7],
    *COUNTS[:1],
    'Citation keys: {{"1": "{0}", "2": "{1}", "3": "{2}"}}',
    'Citation keys: {{"{0}": 1, "{1}": 2, "{2}": 3}}',
    "| Source | No |\n|---|---|\n| {0} | 1 |\n| {1} | 2 |\n| {2} | 3 |",
    "{0} [1], {1} [2], {2} [3]",
    "{0} (1), {1} (2), {2} (3)",
    '<map><s n="1">{0}</s><s n="2">{1}</s><s n="3">{2}</s></map>',
    "Cite {0} as [1], {1} as [2] and {2} as [3].",
    "Number the sources so: Source 1 = {0}, Source 2 = {1}, Source 3 = {2}.",
)
LABELS = ("[{n}] ({name}) {text}", "[{n}] {name}\n{text}", "Source {n}: {name}\n{text}")


def prompt_of(label: str, names: tuple[str, ...], before: str = "") -> str:
    passages = [
        label.format(n=number, name=name, text=text)
        for number, (name, text) in enumerate(zip(names, TEXTS, strict=True), start=1)
    ]
    return "\n\n".join(["Use the passages.", before, *passages, "Asked: where?"])


@given(
    label=st.sampled_from(LABELS),
    names=st.sampled_from([FILES, TITLES, PATHS]),
    form=st.sampled_from([*LISTS, *COUNTS]),
    order=st.permutations(range(3)),
    is_first=st.booleans(),
)
def test_a_mark_means_what_the_answer_names_beside_its_number_or_is_unknown(
    label: str, names: tuple[str, ...], form: str, order: list[int], is_first: bool
) -> None:
    """The law: no order of names and no way of listing gives a mark another passage."""
    listed = form.format(*(names[index] for index in order))
    if is_first and form in LISTS:
        answer = f"{listed}\n\n{SAID}"
    else:
        answer = f"{SAID}\n\n{listed}"
    sample = sample_of(prompt_of(label, names), answer)
    if order == [0, 1, 2]:
        assert sample.citations is not None, sample.citations_unknown
    if sample.citations is None:
        assert "own list" in sample.citations_unknown
        return
    cited = [citation.contexts for citation in sample.citations]
    is_before = answer.startswith(listed)
    of_sentences = cited[-3:] if is_before else cited[:3]
    assert of_sentences == [(index,) for index in order]


# Ways to list with marks that are no mere numbers; "*" stands before each number.
LETTERED_LISTS = (
    "Sources:\n[*1] {0}\n[*2] {1}\n[*3] {2}",
    "[*1] {0}\n[*2] {1}\n[*3] {2}",
    "Sources:\n- *1: {0}\n- *2: {1}\n- *3: {2}",
    "Sources: [*1] {0}, [*2] {1}, [*3] {2}",
    "Here [*1] is {0}, [*2] is {1} and [*3] is {2}.",
    "Dabei steht [*1] = {0}, [*2] = {1}, [*3] = {2}.",
    "| # | File |\n|---|---|\n| *1 | {0} |\n| *2 | {1} |\n| *3 | {2} |",
)


@given(
    letters=st.sampled_from(["S", "Source ", "Document ", "doc_", "ref:", "R-", "#"]),
    form=st.sampled_from(LETTERED_LISTS),
    order=st.permutations(range(3)),
)
def test_a_mark_with_letters_means_what_the_answer_names_beside_it_or_is_unknown(
    letters: str, form: str, order: list[int]
) -> None:
    said = SAID.replace("[", f"[{letters}")
    listed = form.replace("*", letters).format(*(FILES[index] for index in order))
    prompt = prompt_of(f"[{letters}{{n}}] {{name}}\n{{text}}", FILES)
    sample = sample_of(prompt, f"{said}\n\n{listed}")
    if sample.citations is None:
        assert order != [0, 1, 2]
    else:
        cited = [citation.contexts for citation in sample.citations]
        assert cited[:3] == [(index,) for index in order]


@pytest.mark.parametrize(
    "meaning",
    ["wobei [1] für f2.txt steht", "où [1] désigne f2.txt", "donde [1] es f2.txt"],
)
def test_a_clause_of_another_language_says_what_a_number_means(meaning: str) -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", FILES)
    assert sample_of(prompt, f"It is so [1], {meaning}.").citations is None


@given(
    label=st.sampled_from(LABELS),
    names=st.sampled_from([FILES, TITLES, PATHS]),
    form=st.sampled_from(MAPPINGS),
    order=st.permutations(range(3)),
    number=st.integers(1, 3),
)
def test_a_mark_means_what_the_whole_prompt_names_beside_its_number_or_is_unknown(
    label: str, names: tuple[str, ...], form: str, order: list[int], number: int
) -> None:
    listed = form.format(*(names[index] for index in order))
    sample = sample_of(prompt_of(label, names, listed), f"It is there [{number}].")
    agrees = order[number - 1] == number - 1
    is_unknown = sample.citations is None
    # the labels "[1]" are others than "Document 1: a.pdf" of a list of uploads
    is_of_other_kind = form in LISTS[5:7] and label.startswith("[")
    assert is_unknown is not (agrees or is_of_other_kind)
    if not is_unknown:
        assert [c.contexts for c in sample.citations or ()] == [(number - 1,)]


@pytest.mark.parametrize(
    ("label", "mapping", "is_known"),
    [
        ("Note {n}: {text}", "Files: [1] f3.txt [2] f2.txt [3] f1.txt", False),
        ("Note {n}: {text}", "Files: [1] f1.txt [2] f2.txt [3] f3.txt", True),
        ("[{n}] {text}", "1 = f3.txt, 2 = f2.txt", False),
        ("[{n}] {text}", "Uploads:\n1. f3.txt\n2. f1.txt", True),
        ("[{n}] {text}", "Uploads:\nDocument 1: f3.txt", True),
        # the list has a 1 of its own: nobody knows whether it is that of the passages
        ("Note {n}: {text}", "Files: [1] z.txt [2] f3.txt [3] f1.txt", False),
    ],
)
def test_a_mapping_to_names_that_the_documents_have_counts_as_well(
    label: str, mapping: str, is_known: bool
) -> None:
    sample = sample_of_files(FILES, prompt_of(label, FILES, mapping))
    assert (sample.citations is not None) is is_known


@pytest.mark.parametrize(
    "listed",
    [
        "Files: f3.txt (3 pages), f1.txt (2 pages)",
        "f3.txt, p. 1\nf1.txt, p. 2",
        "f3.txt 2024-01-02\nf2.txt 2024-03-01",
        "Chunk 1 of f3.txt; chunk 2 of f1.txt",
        "There are 3 files, f1.txt, f2.txt and f3.txt.",
        "Read f3.txt 1 time.",
        "Begin with f3.txt: 1",
    ],
)
def test_other_numbers_beside_files_of_a_prompt_number_nothing(listed: str) -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", FILES, listed)
    for number in (1, 2, 3):
        sample = sample_of(prompt, f"It is there [{number}].")
        assert [c.contexts for c in sample.citations or ()] == [(number - 1,)]


def test_other_numbers_of_a_label_number_nothing() -> None:
    prompt = prompt_of("[{n}] {name} | rank: 2\n{text}", FILES)
    sample = sample_of(prompt, "It is there [2].")
    assert [c.contexts for c in sample.citations or ()] == [(1,)]
    names = SourceNames.of({"f1.txt": (0,)})
    assert list(numbers_in_short_lines("f1.txt p. 2", names)) == []


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("annual_report_2022.pdf", "Annual Report 2022"),
        ("docs/AnnualReport2022.pdf", "Annual report 2022, p. 3"),
        ("annual-report.docx", "*Annual Report*"),
    ],
)
@pytest.mark.parametrize("listed", ["Sources:\n[1] {}", "Note [1]: {}", "[1] = {}"])
def test_a_file_that_is_written_as_a_title_is_this_file(
    file: str, title: str, listed: str
) -> None:
    """The prompt shows it as number 2."""
    prompt = prompt_of("[{n}] {name}\n{text}", ("other.pdf", file, "ship.pdf"))
    said = listed.format(title)
    sample = sample_of(prompt, f"It is so [1].\n\n{said}")
    assert sample.citations is None or sample.citations[0].contexts == (1,)
    agreeing = sample_of(prompt, f"It is so [2].\n\n{said.replace('[1]', '[2]')}")
    assert [c.contexts for c in agreeing.citations or ()][:1] == [(1,)]


def test_a_file_in_a_list_may_be_a_title_of_the_prompt() -> None:
    names = ("Other", "Annual report", "Ship")
    prompt = prompt_of("[{n}] {name}\n{text}", names)
    listed = "It is so [1].\n\nSources:\n[1] annual_report.pdf"
    assert sample_of(prompt, listed).citations is None


@pytest.mark.parametrize("row", ["| {} | [1] |", "| [1] | `{}` |", "[1] | {}"])
def test_a_row_of_a_table_says_what_its_number_means(row: str) -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", FILES)
    said = f"It is so [1].\n\n| File | Mark |\n|---|---|\n{row}"
    sample = sample_of(prompt, said.format("f2.txt"))
    assert sample.citations is None or sample.citations[0].contexts == (1,)
    agreeing = sample_of(prompt, said.format("f1.txt"))
    assert {c.contexts for c in agreeing.citations or ()} == {(0,)}


@pytest.mark.parametrize(
    "words",
    ["Use the number 1 for {}.", "Give number 1 to {}.", "Number 1 means the file {}."],
)
def test_a_prompt_may_give_a_number_in_words(words: str) -> None:
    for name, is_known in (("f3.txt", False), ("f1.txt", True)):
        prompt = prompt_of("[{n}] {name}\n{text}", FILES, words.format(name))
        sample = sample_of(prompt, "It is there [1].")
        assert (sample.citations is not None) is is_known


def test_entries_of_lists_in_html_and_with_links_are_read() -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", ("kb-17", "kb-27", "kb-37"))
    for entry in ("[1] see kb-27", "[1] [kb-27](https://z.test/x)"):
        sample = sample_of(prompt, f"It is so [1].\n\nSources:\n{entry}")
        assert [c.contexts for c in sample.citations or ()] == [(1,)]
    assert with_plain_lists("<ul><li>a<li>b</ul>") == "    \n   a\n   b     "
    assert with_plain_lists("<ol><li>a<li>b</ol>") == "    \n1. a\n2. b     "


def test_a_name_means_what_stands_under_it_whatever_the_documents_are_called() -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", FILES)
    sample = sample_of_files(("f2.txt", "f3.txt", "f1.txt"), prompt)
    assert [c.contexts for c in sample.citations or ()] == [(0,)]


def sample_of_files(files: tuple[str, ...], prompt: str) -> Sample:
    """A sample whose documents are of some files, and whose answer cites "[1]"."""
    clock = Clock()
    documents = [
        Document(text=text, metadata={"source": file})
        for text, file in zip(TEXTS, files, strict=True)
    ]
    reply = "It is so [1]."
    (sample,) = samples_of(
        tree(
            clock,
            retriever(clock, *documents),
            model(clock, prompt, reply),
            answers=(Answer(reply),),
        )
    )
    return sample


ORDINARY = [
    "Set the port in f1.txt [2].",
    "The main file [2] is f1.txt.",
    "The setting in [2] is f1.txt.",
    "These files are needed [2]: f1.txt, f3.txt.",
    "Needed:\n- the file f1.txt of the port [2]\n- old f3.txt [2]",
    "1. Open f1.txt.\n2. Read the line [2].",
    "Best:\n1. f2.txt\n2. f1.txt\n\nIt is old [2].",
    "| Rank | File | Why |\n|---|---|---|\n| 1 | f3.txt | old [2] |",
    "[2] Unlike f1.txt, it is old.",
    '```json\n{"2": "f1.txt"}\n```\nSo it is written [2].',
    "It is old [2] (page 1).",
    "Document 1: f3.txt\n\nIt is old [2].",
    "It is old [2].\n\nVersion 2 of f1.txt is what they have been told of.",
    "It is old [2].\n\nReferences:\n[2] f2.txt (see also f1.txt)",
    "It is old [2].\n\nReferences:\n[2] docs/f2.txt",
]


CHINESE = ("员工手册.pdf", "远程办公制度.pdf", "差旅规定.pdf")
# A name that no sentence leads to, directly before a number: {0} is the name, {1} the mark.
SET_OFF = (
    "- **{0}** {1}: it is so",
    "* `{0}` {1} – it is so",
    "### {0} {1}\nIt is so.",
    "## 📄 {0} {1}\nIt is so.",
    "**{0} {1}**: it is so",
    "It is so ({0} {1}).",
    "It is so (**{0}**, {1}).",
    "It is so（{0}{1}）。",
    "| {0} | {1} |",
    '"{0}" {1} says that it is so.',
)
# A title in these places may be what the answer speaks of; a file is a source.
FILE_SET_OFF = (
    "- {0} {1}",
    "1. {0} {1}: it is so",
    "{0}: {1}\nIt is so.",
    "File: {0} {1}\nIt is so.",
    "It is so. From docs/{0} {1}.",
    "It is so, see {0} {1}.",
    "{0}, p. 3 {1}: it is so",
    "| File | Rule | Ref |\n|---|---|---|\n| {0} | it is so | {1} |",
    "| Ref | Rule | File |\n|---|---|---|\n| {1} | it is so | `{0}` |",
)


@given(
    label=st.sampled_from(LABELS),
    names=st.sampled_from([FILES, TITLES, CHINESE]),
    form=st.sampled_from([*SET_OFF, *FILE_SET_OFF]),
    index=st.integers(0, 2),
    number=st.integers(1, 3),
)
def test_a_number_beside_a_name_that_no_sentence_leads_to_is_that_of_the_name_or_unknown(
    label: str, names: tuple[str, ...], form: str, index: int, number: int
) -> None:
    answer = form.format(names[index], f"[{number}]")
    sample = sample_of(prompt_of(label, names), answer)
    if index == number - 1:
        assert sample.citations is not None, sample.citations_unknown
        assert {c.contexts for c in sample.citations} == {(index,)}
    elif form in SET_OFF or names is not TITLES:
        assert sample.citations is None


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(
    "answer",
    [
        "Go to the Opening day {}.",
        "Opening day {} was in May.",
        "- Opening day {}: in May.",
        "(The Opening day was in May {}.)",
        "The **Opening day** {} was in May.",
        "| Opening day | May | {} |",
        "| Opening day | in May {} |",
        "Edit rivers.md, as **rivers.md** {} is old.",
        "- **opening** {}: in May.",
    ],
)
def test_a_name_that_is_a_word_of_the_sentence_leaves_its_mark_known(
    answer: str, number: int
) -> None:
    for names in (TITLES, ("rivers.md", "Opening", "book.md")):
        prompt = prompt_of("[{n}] {name}\n{text}", names)
        sample = sample_of(prompt, answer.format(f"[{number}]"))
        assert sample.citations is not None, sample.citations_unknown
        assert [c.contexts for c in sample.citations] == [(number - 1,)]


def test_a_file_in_several_passages_has_the_number_of_each_of_them() -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", ("f1.txt", "f1.txt", "f2.txt"))
    for number, is_known in ((1, True), (2, True), (3, False)):
        sample = sample_of(prompt, f"### f1.txt [{number}]\nIt is so.")
        assert (sample.citations is not None) is is_known


@pytest.mark.parametrize("answer", ORDINARY)
def test_a_file_that_an_answer_speaks_of_changes_no_number(answer: str) -> None:
    sample = sample_of(prompt_of("[{n}] {name}\n{text}", FILES), answer)
    assert sample.citations is not None, sample.citations_unknown
    assert {c.contexts for c in sample.citations} == {(1,)}


@pytest.mark.parametrize(
    "answer",
    [
        "The architect of the Opening day [1] is known.",
        "[1] Opening day was in May.",
        "Opening day [1]: in May.",
        "The day in [1] is Opening day.",
    ],
)
def test_a_title_that_is_a_subject_changes_no_number(answer: str) -> None:
    sample = sample_of(prompt_of("[{n}] {name}\n{text}", TITLES), answer)
    assert sample.citations is not None, sample.citations_unknown
    assert [c.contexts for c in sample.citations] == [(0,)]


def test_a_title_inside_a_longer_one_is_not_named() -> None:
    titles = ("Norwick lighthouse", "Norwick lighthouse opening", "The Aurora")
    prompt = prompt_of("[{n}] {name}\n{text}", titles)
    listed = "It is so [2].\n\nSources:\n[2] Norwick lighthouse"
    sample = sample_of(prompt, f"{listed} opening")
    assert [c.contexts for c in sample.citations or ()] == [(1,)]
    assert sample_of(prompt, listed).citations is None  # the shorter one may be meant


def test_an_entry_below_its_sentence_cites_nothing_itself() -> None:
    prompt = prompt_of("[{n}] {name}\n{text}", FILES)
    for line in ("Quellen: [2] f2.txt", "[2] f2.txt", "📄 [2] f2.txt"):
        sample = sample_of(prompt, f"It is old [2].\n{line}")
        assert [c.contexts for c in sample.citations or ()] == [(1,)]


def test_a_number_of_a_chunk_and_a_page_name_no_source() -> None:
    names = SourceNames.of({"f1.txt": (0,), "page 3": (1,)})
    assert list(numbers_beside_names("f1.txt [1] f1.txt [2]", names)) == []
    for text in ("Chunk 2 (f1.txt)", "[1] (page 3)", "[1] f1.txt.bak", "[1] f1-b"):
        assert list(numbers_beside_names(text, names)) == []
    for text in ("Source 2 (f1.txt)", "[2] docs/f1.txt", "[02] f1", "x [2] = f1.txt"):
        (named,) = numbers_beside_names(text, names)
        assert (named.number, named.context_indexes) == ("2", {0})


def test_the_first_number_of_a_line_tells_whether_names_stand_before_numbers() -> None:
    names = SourceNames.of({"f1.txt": (0,), "f2.txt": (1,)})
    (first, *_) = numbers_beside_names("[1] f1.txt, f2.txt [2]", names)
    assert (first.number, first.context_indexes) == ("1", {0})


@pytest.mark.parametrize(
    ("before", "repeated", "behind"),
    [
        ("", "[1] f1.txt ", ""),
        ("", "[1]", ""),
        ("", "f1.txt", ""),
        ("[1] ", "a/", "f1.txt"),
        ("[1] ", "*", ""),
        ("", "Opening day of it all ", "[1]"),
        ("", "\n[1]\n", ""),
        ("[1] <b ", "<", ""),
    ],
)
def test_names_and_numbers_are_found_in_steps_that_grow_like_the_text(
    before: str, repeated: str, behind: str
) -> None:
    names = SourceNames.of({"f1.txt": (0,), "Opening day of it all": (1,)})

    def find(n_times: int) -> int:
        text = before + repeated * n_times + behind
        found = sum(1 for _ in numbers_beside_names(text, names))
        return found + sum(1 for _ in numbers_in_short_lines(text, names))

    n_small = count_steps(lambda: find(100))
    n_large = count_steps(lambda: find(400))
    assert 0 < n_large <= 5 * n_small
    # a pattern that tries every pair of signs would not end within the test's timeout
    assert find(10_000) <= 20_000


@pytest.mark.parametrize(
    ("label", "mark", "listed"),
    [
        ("[{n}] f{n}.txt\n", "[{n}]", ""),
        ("[{n}] f{n}.txt\n", "[{n}]", "Sources:\n{entries}"),
        ("Source {n}: f{n}.txt\n", "[Source {n}]", ""),
        ("[S{n}] f{n}.txt\n", "[S{n}]", "{entries}"),
    ],
)
def test_four_times_the_marks_take_four_times_the_steps(
    label: str, mark: str, listed: str
) -> None:
    def run_of(n_passages: int) -> Tree:
        clock = Clock()
        numbers = range(1, n_passages + 1)
        texts = [
            f"Passage {number} tells of the bridge {number}." for number in numbers
        ]
        prompt = "\n\n".join(
            label.format(n=number) + text
            for number, text in zip(numbers, texts, strict=True)
        )
        said = " ".join(f"It is so {mark.format(n=number)}." for number in numbers)
        entries = "\n".join(f"{mark.format(n=n)} f{n}.txt" for n in numbers)
        reply = f"{said}\n\n{listed.format(entries=entries)}"
        return tree(
            clock,
            retriever(clock, *(Document(text=text) for text in texts)),
            model(clock, prompt, reply),
            answers=(Answer(reply),),
        )

    small, large = run_of(20), run_of(80)
    (sample,) = samples_of(small)
    assert sample.citations is not None, sample.citations_unknown
    assert len(sample.citations) == 20
    modules = ["citing_answer", "marked_citations", "label_meanings", "answer_"]
    if not listed:  # a list of the answer's own says what the numbers mean
        modules.append("other_lists")
    for room in ["ragmetrics_core", *(f"capture/{module}" for module in modules)]:
        n_small = count_steps(lambda: samples_of(small), room)
        n_large = count_steps(lambda: samples_of(large), room)
        # every pair compared would be 16 times the steps, every triple 64 times
        assert 0 < n_large <= 5 * n_small


def test_a_title_behind_an_equals_sign_counts_whatever_follows_it() -> None:
    listed = "Sources used: 1 = The Bridge Book, 2 = Rivers and hills, 3 = Opening day"
    prompt = prompt_of("[{n}] {name}\n{text}", TITLES, listed)
    assert sample_of(prompt, "It is there [1].").citations is None

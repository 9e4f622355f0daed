"""Which candidates stand in what a model was shown: a row per form and per rule, and laws that hold for any text."""

from __future__ import annotations

import html
import json
import random
import textwrap
from collections.abc import Callable
from itertools import pairwise
from typing import Literal
from unicodedata import normalize

import pytest
from counted_steps import count_steps
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lanes import examples

from ragmetrics_core.capture.findings import LocateResult, unite_findings
from ragmetrics_core.capture.locating import locate
from ragmetrics_core.capture.normalized_text import Text, normalize_text

PORTO = (
    'Porto lies on the "Douro"; its <b>old</b> bridges\nare of iron & stone.\tA ride'
    " costs 4 € – or 5 at night. Write \\n for a new line, C:\\temp\\new for a path,"
    " and &lt; for the sign. It's 中文 and naïve."
)
FARO = (
    "Faro is the southernmost city of the country. Storks nest on its towers, and salt"
    " is made in the lagoon nearby."
)
OVAR = (
    "Ovar is known for its tiles. Eight hundred facades are covered with them, and"
    " carnival lasts for a month there."
)
QUESTION = "Where do storks nest?"
TEMPLATE = f"Answer from the context only.\n\n{{}}\n\nQuestion: {QUESTION}\nAnswer:"

Form = Callable[[str], str]


def told(found: LocateResult) -> list[tuple[str, str | None]]:
    return [(place.outcome, place.extent) for place in found.findings]


def numbered(text: str) -> str:
    return "\n".join(
        f"{number:3} {line}" for number, line in enumerate(textwrap.wrap(text, 60), 1)
    )


def tojson(text: str) -> str:
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}") if sign == "'" else text
    dumped = json.dumps(text)
    return (
        dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )


FORMS: dict[str, Form] = {
    "plain": lambda text: text,
    "stripped": lambda text: text.strip(),
    "wrapped": lambda text: textwrap.fill(text, 40),
    "indented": lambda text: textwrap.indent(text, "        "),
    "one line": lambda text: " ".join(text.split()),
    "other spaces": lambda text: text.replace(" ", "\u00a0\u2009 "),
    "hyphenated": (
        lambda text: text.replace("country", "coun-\ntry").replace(
            "southernmost", "southern\u00ad\nmost"
        )
    ),
    "other quotes": lambda text: text.replace('"', "”").replace("'", "’"),
    "bold": (
        lambda text: text.replace("Douro", "**Douro**").replace("storks", "__storks__")
    ),
    "quoted lines": lambda text: textwrap.indent(
        textwrap.fill(text, 50), "> ", lambda _: True
    ),
    "bullet": lambda text: f"* {text}",
    "fence": lambda text: f"```\n{text}\n```",
    "CSV": lambda text: '1,"' + text.replace('"', '""') + '",0.5',
    "YAML": lambda text: "content: |\n" + textwrap.indent(text, "  "),
    "lower case": str.lower,
    "JSON": lambda text: json.dumps({"content": text}, ensure_ascii=False),
    "JSON, ASCII": lambda text: json.dumps({"content": text}),
    "JSON in JSON": lambda text: json.dumps(
        {"result": json.dumps([{"content": text}])}
    ),
    "tojson": tojson,
    "repr": lambda text: repr([text]),
    "repr, other quote": lambda text: repr({"a": text, "b": "it's"}),
    "ascii": lambda text: ascii((text, 0.3)),
    "repr in repr": lambda text: repr({"result": repr([text])}),
    "repr in JSON": lambda text: json.dumps(f"[Document(page_content={text!r})]"),
    "html": html.escape,
    "html twice": lambda text: html.escape(html.escape(text)),
    "html in JSON": lambda text: json.dumps({"content": html.escape(text)}),
    "JSON in html": lambda text: html.escape(json.dumps({"content": text})),
    "character references": lambda text: (
        html.escape(text).encode("ascii", "xmlcharrefreplace").decode()
    ),
    "numbered lines": numbered,
    "citation marks": lambda text: text.replace(". ", ". [12, p. 3] "),
    "tags inside": (
        lambda text: text.replace("city", "<mark>city</mark>").replace(
            "iron", "<em>iron</em>"
        )
    ),
    "heading": lambda text: f"## Source 3: guide.pdf, page 7\n\n{text}\n\nScore: 0.83",
    "Document(...)": lambda text: (
        f"Document(id='a1', metadata={{'source': 'guide.txt'}}, page_content={text!r})"
    ),
    "XML": lambda text: (
        "<document"
        f" index='1'><source>guide</source><text>{html.escape(text)}</text></document>"
    ),
}


def test_a_beginning_that_stands_elsewhere_is_not_joined_to_a_text() -> None:
    shown = FARO.replace("towers", "towers [1]")
    prompt = f"Faro is the southern port: {shown} {QUESTION}"
    (place,) = locate([FARO], prompt).findings
    assert place.offsets is not None
    start, end = place.offsets
    assert (prompt[start:end], place.coverage) == (shown.rstrip("."), 1.0)


@pytest.mark.parametrize("n_syllables", [60, 200])
def test_a_text_that_repeats_itself_does_not_use_up_the_search(
    n_syllables: int,
) -> None:
    # "na na …" begins anew at each syllable of the verse, which is known
    verse = "na " * n_syllables
    refrain = "na " * 10
    prompt = f"{verse}\n\nRefrain:\n{refrain}\n"
    (finding,) = locate([refrain], prompt, known=[verse]).findings
    assert finding.extent == "whole"
    assert finding.offsets is not None
    assert finding.offsets[0] == prompt.index("Refrain:") + len("Refrain:\n")


@pytest.mark.parametrize("word", ["city", "country", "Storks", "towers", "salt"])
def test_a_word_that_the_prompt_marks_at_both_ends_is_shown(word: str) -> None:
    marked = FARO.replace(word, f"<em>{word}</em>")
    (place,) = locate([FARO], TEMPLATE.format(marked)).findings
    assert (place.extent, place.coverage) == ("whole", 1.0)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_shown_whole_and_in_the_order_of_the_prompt(name: str) -> None:
    prompt = TEMPLATE.format("\n\n".join(FORMS[name](text) for text in (OVAR, PORTO)))
    found = locate([PORTO, FARO, OVAR], prompt, known=[QUESTION])
    assert told(found) == [("shown", "whole"), ("not shown", None), ("shown", "whole")]
    assert found.shown_in_order == (2, 0)
    assert found.findings[0].text == PORTO


SENTENCES = [
    "The ferry leaves the quay at seven every morning.",
    "Nobody remembers who painted the lighthouse yellow.",
    "A bakery behind the market sells bread made of maize.",
    "On Sundays five fishermen mend their nets on the beach.",
    "Visitors may climb the tower when no storm is expected.",
    "The library keeps letters of sailors from two centuries.",
    "Trains stop at the old station only during the summer.",
    "Children collect shells and sell them near the church.",
]
LONG = " ".join(SENTENCES)
OLD = LONG.replace("five fishermen", "fifty sailors")
BOILERPLATE = (
    "Copyright of the example corporation, all rights reserved, do not copy any of it"
    " without written consent. "
)

RULES = {  # candidates, messages, known, outcomes with extents, order
    "from first to last with a word left out": (
        [LONG],
        [LONG.replace("five", "")],
        [],
        ["parts"],
        [0],
    ),
    "from first to last with a word put in": (
        [LONG],
        [LONG.replace("five", "not five")],
        [],
        ["parts"],
        [0],
    ),
    "from first to last with another number": (
        [f"{LONG} In 1874 it {LONG}"],
        [f"{LONG} In 1875 it {LONG}"],
        [],
        ["parts"],
        [0],
    ),
    "a digit before a number": (
        [f"{FARO} It has 5 towers. {OVAR}"],
        [f"{FARO} It has 15 towers. {OVAR}"],
        [],
        ["parts"],
        [0],
    ),
    "sentences of another text in between": (
        [f"{FARO} {PORTO}", OVAR],
        [f"{FARO} {OVAR} {PORTO}"],
        [],
        ["whole", "whole"],
        [0, 1],
    ),
    "a sentence in between that begins like the next": (
        [f"{PORTO} The river is {FARO}"],
        [f"{PORTO} The harbour sold salt to all of them. The river is {FARO}"],
        [],
        ["whole"],
        [0],
    ),
    "a number put in at the beginning of a line": (
        [FARO],
        [FARO.replace("salt", "\n15 salt")],
        [],
        ["parts"],
        [0],
    ),
    "a word of one letter put in behind the same letter": (
        [
            "Лодки стояли у причала до самого вечера, и они пришли домой только к утру, когда ветер утих."
        ],
        [
            "Лодки стояли у причала до самого вечера, и они пришли домой только к утру, когда ветер утих.".replace(
                "они", "они и"
            )
        ],
        [],
        ["parts"],
        [0],
    ),
    "two chunks that overlap by some words": (
        [OVAR],
        [f"{OVAR[:75]}\n{OVAR[54:]}"],
        [],
        ["whole"],
        [0],
    ),
    "two chunks that overlap by one word, in two lines": (
        [f"{LONG} In 1874, it fell into the sea of the north."],
        [f"{LONG} In 1874,\n\n1874, it fell into the sea of the north."],
        [],
        ["whole"],
        [0],
    ),
    "two chunks that overlap by three words, in two lines": (
        [f"{LONG} At last in 1874, it fell into the sea of the north."],
        [f"{LONG} At last in 1874,\nlast in 1874, it fell into the sea of the north."],
        [],
        ["whole"],
        [0],
    ),
    "a word that is repeated in its line": (
        [f"{LONG} In 1874, it fell into the sea of the north."],
        [f"{LONG} In 1874, 1874 it fell into the sea of the north."],
        [],
        ["parts"],
        [0],
    ),
    "a last digit that the next line repeats": (
        [f"{LONG} In 1874, it fell into the sea of the north."],
        [f"{LONG} In 1874\n4, it fell into the sea of the north."],
        [],
        ["parts"],
        [0],
    ),
    "another word in the next line": (
        [f"{LONG} In 1874, it fell into the sea of the north."],
        [f"{LONG} In 1874,\n1875, it fell into the sea of the north."],
        [],
        ["parts"],
        [0],
    ),
    "a page's head in between, in letters of two bytes": (
        ["Лодки стояли у причала до вечера. Потом они пришли домой к утру."],
        [
            "Лодки стояли у причала до вечера.\n\nГород\n\nПотом они пришли домой к утру."
        ],
        [],
        ["whole"],
        [0],
    ),
    "a page's head in between": (
        [f"{FARO} {PORTO}"],
        [f"{FARO}\n\nGuide, page 3\n\n{PORTO}"],
        [],
        ["whole"],
        [0],
    ),
    "a word put in before a line's number": (
        [FARO],
        [f" 1 {FARO[:60]} not\n 2 {FARO[60:]}"],
        [],
        ["parts"],
        [0],
    ),
    "a long clause put into a sentence": (
        [LONG],
        [LONG.replace("five", "as the clerk of the town later denied, five")],
        [],
        ["parts"],
        [0],
    ),
    "a masked name": (
        [FARO],
        [FARO.replace("storks", "[BIRD]").replace("Storks", "[BIRD]")],
        [],
        ["parts"],
        [0],
    ),
    "tags and marks left out": (
        [f"<p>{FARO[:40]}<b>{FARO[40:80]}</b>[12]{FARO[80:]}</p>"],
        [FARO],
        [],
        ["whole"],
        [0],
    ),
    "a tag left out before a word that begins like it": (
        ["Norwick has a very old <br>bridge of riveted iron and of stone."],
        ["Norwick has a very old bridge of riveted iron and of stone. Go."],
        [],
        ["whole"],
        [0],
    ),
    "the target of a link left out": (
        [f"{FARO[:40]}[{FARO[40:60]}](http://a.org/b){FARO[60:]}"],
        [FARO],
        [],
        ["whole"],
        [0],
    ),
    "all but the last letters of the last word": (
        [LONG],
        [LONG[:-4]],
        [],
        ["whole"],
        [0],
    ),
    "all but the last digit": (
        [f"{LONG} Built in 1874"],
        [f"{LONG} Built in 187"],
        [],
        ["beginning"],
        [0],
    ),
    "all but a last word of two letters": (
        [f"{LONG} So be it"],
        [f"{LONG} So be"],
        [],
        ["beginning"],
        [0],
    ),
    "all but the last letters": ([LONG], [LONG[:-5]], [], ["beginning"], [0]),
    "cut at the end": ([LONG], [LONG[:120] + "..."], [], ["beginning"], [0]),
    "cut at the beginning": ([LONG], ["..." + LONG[200:]], [], ["end"], [0]),
    "cut at both": ([LONG], [LONG[100:200]], [], ["middle"], [0]),
    "sentences taken out": (
        [LONG],
        [" ".join(SENTENCES[:2] + SENTENCES[4:])],
        [],
        ["parts"],
        [0],
    ),
    "parts elsewhere are united": (
        [LONG, FARO],
        [LONG[:150], FARO, LONG[180:]],
        [],
        ["parts", "whole"],
        [0, 1],
    ),
    "32 letters at the edge": (
        [FARO, OVAR],
        [f"{FARO[:42]} {OVAR}"],
        [],
        ["beginning", "whole"],
        [0, 1],
    ),
    "fewer are no trace": (
        [FARO, OVAR],
        [f"{FARO[:30]} {OVAR}"],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "fewer than 48 in the middle": (
        [FARO, OVAR],
        [f"{FARO[20:60]} {OVAR}"],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "a title repeats the beginning": (
        [LONG, OVAR],
        [f"# {LONG[:60]}\n{OVAR}\n{LONG}"],
        [],
        ["whole", "whole"],
        [1, 0],
    ),
    "a child inside its shown parent": (
        [LONG, LONG[90:200]],
        [LONG],
        [],
        ["whole", "not shown"],
        [0],
    ),
    "a child alone": (
        [LONG, SENTENCES[2] + SENTENCES[3]],
        [SENTENCES[2] + SENTENCES[3]],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "children that fill their parent's part": (
        [LONG, LONG[:90], LONG[90:170], LONG[170:250]],
        [LONG[90:170] + "\n" + LONG[170:250]],
        [],
        ["not shown", "not shown", "whole", "whole"],
        [2, 3],
    ),
    "the overlap with a shown neighbour": (
        [LONG[:200], LONG[140:]],
        [LONG[:200]],
        [],
        ["whole", "not shown"],
        [0],
    ),
    "neighbours joined without their overlap": (
        [LONG[:200], LONG[140:]],
        [LONG],
        [],
        ["whole", "whole"],
        [0, 1],
    ),
    "chunks that meet, and one across": (
        [LONG[:200], LONG[60:270], LONG[200:]],
        [f"Source 1: {LONG[:200]}\nSource 2: {LONG[200:]}"],
        [],
        ["whole", "not shown", "whole"],
        [0, 2],
    ),
    "an old version of a page": ([OLD, LONG], [LONG], [], ["not shown", "whole"], [1]),
    "both versions": (
        [OLD, LONG],
        [f"{LONG}\n\n{OLD}"],
        [],
        ["whole", "whole"],
        [1, 0],
    ),
    "versions cut before they differ": (
        [OLD, LONG],
        [LONG[:120]],
        [],
        ["unknown", "unknown"],
        [],
    ),
    "as many showings as candidates": (
        [OLD, LONG],
        [LONG[:120], LONG[:120]],
        [],
        ["beginning", "beginning"],
        [0, 1],
    ),
    "cut, and one of them whole": (
        [OLD, LONG],
        [LONG[:120], LONG],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "boilerplate proves nothing": (
        [BOILERPLATE + text for text in (FARO, OVAR, *SENTENCES[:8])],
        [BOILERPLATE + FARO],
        [],
        ["whole"] + ["not shown"] * 9,
        [0],
    ),
    "duplicates: the first are shown": (
        [FARO, OVAR, FARO, FARO],
        [FARO, OVAR, FARO],
        [],
        ["whole", "whole", "whole", "not shown"],
        [0, 1, 2],
    ),
    "a repetition counts once, at the first": (
        [OVAR, FARO],
        [FARO, OVAR, FARO],
        [],
        ["whole", "whole"],
        [1, 0],
    ),
    "a known text explains one occurrence": (
        [FARO, OVAR],
        [FARO, OVAR],
        [FARO],
        ["not shown", "whole"],
        [1],
    ),
    "of the same words another is needed": (
        [FARO, OVAR],
        [FARO, OVAR, FARO],
        [FARO],
        ["whole", "whole"],
        [1, 0],
    ),
    "a candidate inside a known text": (
        [FARO[:60], OVAR],
        [FARO + OVAR],
        [FARO],
        ["not shown", "whole"],
        [1],
    ),
    "no showing crosses messages": (
        [FARO, OVAR],
        [FARO[:20], FARO[20:50], OVAR],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "results of tools are messages": (
        [FARO, OVAR],
        ["Be brief.", json.dumps([OVAR]), "Go on."],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "short, among others": (
        ["Storks nest on towers here"],
        [f"{OVAR} Storks nest on towers here. Go."],
        [],
        ["whole"],
        [0],
    ),
    "short, touches a letter": (
        ["storks nest on the towers", OVAR],
        [f"{OVAR} Xstorks nest on the towers."],
        [],
        ["unknown", "whole"],
        [1],
    ),
    # letters touch them, as in "tenfold": nothing tells texts from words there
    "short, joined without a separator": (
        ["The bridge is of iron", "The ferry leaves at ten", "A bakery sells bread"],
        ["The ferry leaves at tenThe bridge is of ironA bakery sells bread"],
        [],
        ["unknown", "unknown", "unknown"],
        [],
    ),
    "a cleaner took out short words": (
        [SENTENCES[2], SENTENCES[5], LONG[:120]],
        [f"{LONG[:120]}\nbakery behind market sells bread made maize"],
        [],
        ["unknown", "not shown", "whole"],
        [2],
    ),
    "few words, one of them missing": (
        ["Keeper Brandt lit lamps", OVAR],
        [f"{OVAR}\nLamps of Brandt, a keeper."],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "few words, all there in another order": (
        ["Keeper Brandt lit lamps", OVAR],
        [f"{OVAR}\nLamps of Brandt, keeper, that were lit."],
        [],
        ["unknown", "whole"],
        [1],
    ),
    "its words stand far from each other": (
        [SENTENCES[2], OVAR],
        [
            "bakery behind"
            + " noise" * 30
            + " market sells"
            + " noise" * 30
            + f" bread made maize\n{OVAR}"
        ],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "its words stand before and behind a located text": (
        [SENTENCES[2], OVAR],
        [f"A bakery behind\n{OVAR}\nmarket sells bread"],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "very short, inside a sentence": (
        ["Porto", OVAR],
        [f"{OVAR} I flew to Porto by night."],
        [],
        ["unknown", "whole"],
        [1],
    ),
    "very short, inside a word": (
        ["port", OVAR],
        [f"{OVAR} The airport is shut."],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "very short, own line": (
        ["Porto", "Faro"],
        ["Cities:\nPorto\nFaro\n"],
        [],
        ["whole", "whole"],
        [0, 1],
    ),
    "very short, bullets": (
        ["Porto", "Faro"],
        ["Cities:\n- Faro\n- Porto"],
        [],
        ["whole", "whole"],
        [1, 0],
    ),
    "very short, numbered": (
        ["Porto", "Faro"],
        ["Cities:\n1. Faro\n2. Porto\n"],
        [],
        ["whole", "whole"],
        [1, 0],
    ),
    "very short, quotes": (
        ["Porto", "Faro"],
        ["['Porto', 'Faro']"],
        [],
        ["whole", "whole"],
        [0, 1],
    ),
    "very short, JSON": (
        ["Porto", "Faro"],
        [json.dumps({"result": json.dumps(["Porto"])})],
        [],
        ["whole", "not shown"],
        [0],
    ),
    "very short, tag": (
        ["Porto", OVAR],
        [f"<doc>Porto</doc><doc>{OVAR}</doc>"],
        [],
        ["whole", "whole"],
        [0, 1],
    ),
    "very short, with an apostrophe": (
        ["Porto", OVAR],
        [f"{OVAR}\nPorto's bridges are old."],
        [],
        ["unknown", "whole"],
        [1],
    ),
    "very short, inside a known text": (
        ["Porto", OVAR],
        [f"{OVAR} Where is Porto?"],
        ["Where is Porto?"],
        ["not shown", "whole"],
        [1],
    ),
    "very short, inside a showing": (
        ["carnival", OVAR],
        [OVAR],
        [],
        ["not shown", "whole"],
        [1],
    ),
    "without letters": (
        ["🙂🙂", "🎈"],
        ["Signs:\n🙂🙂\n"],
        [],
        ["whole", "not shown"],
        [0],
    ),
    "blank": (["  \n", OVAR], [OVAR], [], ["not shown", "whole"], [1]),
    "nothing located": (
        [FARO, OVAR],
        ["Tell me a joke about a horse."],
        [],
        ["unknown", "unknown"],
        [],
    ),
    "paraphrase": (
        [FARO],
        ["The city in the far south, where storks live on towers."],
        [],
        ["unknown"],
        [],
    ),
    "no prompt": ([FARO, " "], [], [], ["unknown", "not shown"], []),
    "empty prompt": ([FARO], [""], [], ["unknown"], []),
    "no candidates": ([], [FARO], [], [], []),
}


@pytest.mark.parametrize("name", RULES)
def test_what_counts(name: str) -> None:
    candidates, messages, known, expected, order = RULES[name]
    found = locate(candidates, messages, known=known)
    assert [place.extent or place.outcome for place in found.findings] == expected
    assert list(found.shown_in_order) == order
    assert all(place.reason for place in found.findings)


# how public applications put documents into a prompt; the source of the shape, of the
# form only
SHAPES = {
    "documents joined by blank lines (langchain-ai/rag-from-scratch, part 1)": (
        lambda texts: "\n\n".join(texts)
    ),
    "the list itself (langchain-ai/rag-from-scratch, part 12)": lambda texts: repr(
        [
            f"Document(page_content={text!r}, metadata={{'source': 'a.html', 'start':"
            f" {len(text)}}})"
            for text in texts
        ]
    ),
    "a loop without separator (deepset-ai/haystack-cookbook, prior_labs_agent)": (
        lambda texts: "".join(texts)
    ),
    "a loop with links (deepset-ai/haystack-cookbook, web QA)": lambda texts: "".join(
        f"\n  {text} URL:https://example.org/{number}\n"
        for number, text in enumerate(texts)
    ),
    "guillemets (deepset-ai/haystack-cookbook)": lambda texts: "\n".join(
        f"    «{text}»" for text in texts
    ),
    "documents with an index (deepset-ai/haystack-cookbook, Anthropic)": lambda texts: (
        "<documents>\n{}</documents>".format(
            "".join(
                f'<document index="{number}">\n{text}\n</document>\n'
                for number, text in enumerate(texts, 1)
            )
        )
    ),
    "a speaker before each (deepset-ai/haystack-cookbook, podcast)": lambda texts: (
        "\n".join(f"  Speaker A{number}: {text}" for number, text in enumerate(texts))
    ),
    "fields around it (deepset-ai/haystack-cookbook, movies)": lambda texts: "".join(
        "Details for Title"
        f" {number}:\n{text}\nRating:7.{number}\nGenres:['Drama']\n---\n"
        for number, text in enumerate(texts)
    ),
    "citation tags (run-llama/create-llama, deep research)": lambda texts: "\n".join(
        f"<Citation id='90ca859f-4f32-{number}'>\nfile_name: a.pdf\n\n{text}</Citation"
        f" id='90ca859f-4f32-{number}'>"
        for number, text in enumerate(texts)
    ),
    "numbered sources (llama_index, citation query engine)": lambda texts: (
        "\n------\n".join(
            f"Source {number}:\n{text}\n" for number, text in enumerate(texts, 1)
        )
    ),
    "a tool's JSON": lambda texts: json.dumps(
        {
            "query": QUESTION,
            "results": [
                {"id": number, "content": text, "score": 0.8}
                for number, text in enumerate(texts)
            ],
        }
    ),
    "a tool's JSON inside a message's JSON": lambda texts: json.dumps(
        [
            {
                "role": "tool",
                "content": json.dumps(
                    [{"text": text} for text in texts], ensure_ascii=False
                ),
            }
        ]
    ),
    "a source and one line each": lambda texts: "\n".join(
        f"guide-{number}.pdf#page={number}: {' '.join(text.split())}"
        for number, text in enumerate(texts)
    ),
    "pairs with scores": lambda texts: str([(text, 0.75) for text in texts]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_prompts_of_public_applications(name: str) -> None:
    found = locate(
        [PORTO, FARO, LONG, OVAR],
        TEMPLATE.format(SHAPES[name]([LONG, PORTO, OVAR])),
        known=[QUESTION],
    )
    assert [place.extent or place.outcome for place in found.findings] == [
        "whole",
        "not shown",
        "whole",
        "whole",
    ]
    assert found.shown_in_order == (2, 0, 3)


@pytest.mark.parametrize("length", [60, 120, 200])
def test_texts_trimmed_to_a_length(length: int) -> None:
    texts = [LONG, PORTO, OVAR]
    body = "\n".join(
        f"Content: {text[:length]}{'...' if len(text) > length else ''}"
        for text in texts
    )
    found = locate([PORTO, FARO, LONG, OVAR], TEMPLATE.format(body), known=[QUESTION])
    assert found.shown_in_order == (2, 0, 3)
    for place, text in (
        (found.findings[2], LONG),
        (found.findings[0], PORTO),
        (found.findings[3], OVAR),
    ):
        assert place.extent == ("beginning" if len(text) > length else "whole")
        assert normalize_text(place.text) == normalize_text(text[:length])


def test_a_part_is_given_in_the_candidates_own_characters() -> None:
    place = locate([PORTO], f"Use this: {PORTO[:60]!r}").findings[0]
    assert place.text == PORTO[:60].rstrip("\n ")
    assert place.coverage == pytest.approx(
        len(normalize_text(PORTO[:60]).decode()) / len(normalize_text(PORTO).decode())
    )
    cut = locate([LONG], " ".join(SENTENCES[:2] + SENTENCES[4:])).findings[0]
    assert cut.text.startswith(SENTENCES[0])
    assert cut.text.endswith(SENTENCES[-1])
    assert " … " in cut.text


CUT_OFF = (
    "The old toll house at the ford was rebuilt after the great fire, by which method"
    " is not known to us."
)
BEFORE = CUT_OFF[: CUT_OFF.index("method")]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        # "met" goes on as the text does
        (f"Document(content: '{BEFORE}...', meta: 1)", BEFORE.strip()),
        (f"{BEFORE}meteors fell.", BEFORE.strip()),
        (f"{BEFORE}met", f"{BEFORE}met"),  # cut inside a word, and nothing follows
        (f"{BEFORE}met... and more", f"{BEFORE}met"),
        # other words instead of "is not known to us"
        (f"{BEFORE}method unknown.", f"{BEFORE}method …"),
    ],
)
def test_letters_that_agree_by_chance_behind_a_cut_are_no_part(
    shown: str, expected: str
) -> None:
    assert locate([CUT_OFF], shown).findings[0].text == expected


@pytest.mark.parametrize(
    ("prompt", "outcome"),
    [
        ("He said\n...\nand left.", "shown"),
        ("He said ...\nand left.", "unknown"),
        ("He said\n... and left.", "unknown"),
    ],
)
def test_dots_need_a_mark_on_both_sides(prompt: str, outcome: str) -> None:
    assert locate(["..."], prompt).findings[0].outcome == outcome


def test_dots_between_two_letters_stand_among_other_words() -> None:
    (finding,) = locate(["..."], "He said so...and left.").findings
    assert finding.outcome == "unknown"
    assert finding.reason == "short, and its words stand among others"


def test_dots_of_the_text_itself_cut_nothing() -> None:
    shown = "Porto lies on the Douro, in the north of Portugal... In"
    text = f"{shown} summer it is dry, and hot winds blow from the east."
    assert locate([text], shown).findings[0].text == shown


def test_a_question_written_twice_takes_no_words_of_a_text_that_repeats_it() -> None:
    # the question is known once; the second time, a cut chunk begins with it
    question = "When does the ferry from Porto to Faro leave on Sunday mornings?"
    chunk = f"{question} It leaves at nine, and takes all day. Bread is sold on board."
    prompt = f"{question}\n\nContext: {question} It leaves"
    (finding,) = locate([chunk], prompt, known=[question]).findings
    assert finding.extent == "beginning"
    assert finding.offsets == (prompt.rindex(question), len(prompt))


def test_offsets_point_at_the_text_in_its_message() -> None:
    messages = ["Be brief.", f"Tool: {json.dumps([OVAR, PORTO])}"]
    for place, text in zip(
        locate([PORTO, OVAR], messages).findings, (PORTO, OVAR), strict=True
    ):
        assert place.message_index == 1
        assert place.offsets is not None
        assert normalize_text(messages[1][slice(*place.offsets)]) == normalize_text(
            text
        )


def test_what_is_not_shown_has_no_offsets() -> None:
    place = locate([FARO, OVAR], OVAR).findings[0]
    assert (place.message_index, place.offsets, place.text, place.coverage) == (
        None,
        None,
        "",
        0,
    )


def test_a_printed_place_holds_no_text() -> None:
    assert "Storks" not in repr(locate([FARO, OVAR], FARO))


LANGUAGES = {
    "Chinese": (
        "波尔图位于杜罗河畔,是葡萄牙的第二大城市。"
        "这座城市以葡萄酒和古老的铁桥闻名于世,每年有许多游客。"
    ),
    "Japanese": (
        "ポルトはドウロ川のほとりにある街です。古い鉄橋とワインで知られ、"
        "毎年多くの観光客が訪れます。"
    ),
    "Thai": (
        "ปอร์โตตั้งอยู่ริมแม่น้ำดูโร เป็นเมืองใหญ่อันดับสองของประเทศโปรตุเกส"
        " มีชื่อเสียงเรื่องไวน์และสะพานเหล็กเก่าแก่"
    ),
    "Arabic": (
        "تقع بورتو على ضفاف نهر دورو، وهي ثاني أكبر مدينة في البرتغال، وتشتهر بالنبيذ"
        " والجسور الحديدية القديمة."
    ),
    "Hindi": (
        "पोर्टो डोरो नदी के किनारे बसा है और पुर्तगाल का दूसरा सबसे बड़ा शहर है। यह"
        " पुराने लोहे के पुलों के लिए जाना जाता है।"
    ),
    "Greek": (
        "Το Πόρτο βρίσκεται στις όχθες του ποταμού Ντόρο. ΟΔΟΣ ΤΩΝ ΠΛΟΙΩΝ, και οι"
        " γέφυρες είναι παλιές."
    ),
    "German": (
        "Die Größe der Straßenbrücke über den Fluß überraschte; Äpfel, Öl und"
        " Übergepäck reisten ebenfalls mit."
    ),
    "Gothic": "𐍃𐌷𐌴 𐍁𐌸𐍅𐌴𐍁 𐌿𐌰𐍂𐍂𐌴𐍂 𐍄𐌽𐌳𐌴𐍁 𐍂𐌸𐍇 𐌱𐍁𐌸𐌳𐌶𐌴𐍂 𐌾𐌵 𐌸𐍁𐌾𐌽",
}


@pytest.mark.parametrize(
    "form",
    [
        "plain",
        "JSON, ASCII",
        "repr",
        "ascii",
        "character references",
        "lower case",
        "html in JSON",
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_languages(language: str, form: str) -> None:
    text = LANGUAGES[language]
    found = locate([FARO, text], TEMPLATE.format(FORMS[form](text)))
    assert told(found) == [("not shown", None), ("shown", "whole")]
    cut = locate([text], FORMS[form](text[: len(text) * 2 // 3])).findings[0]
    assert cut.extent == "beginning"
    assert text.startswith(cut.text)
    assert cut.coverage == pytest.approx(2 / 3, abs=0.1)


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_letter_of_several_bytes_is_lost_where_a_match_is_followed_backwards(
    language: str, cut: int
) -> None:
    text = LANGUAGES[language]
    place = locate([text], f"{OVAR} {text[cut:]}").findings[0]
    shown = normalize_text(text[cut:]).decode()
    assert place.coverage == len(shown) / len(normalize_text(text).decode())
    assert normalize_text(place.text).decode() in (shown, normalize_text(text).decode())


def test_offsets_reach_to_the_last_part_in_the_message() -> None:
    message = f"{LONG[:150]}\n{FARO}\n{OVAR}\n{LONG[200:]}\nGo on."
    place = locate([LONG, FARO, OVAR], message).findings[0]
    assert place.extent == "parts"
    assert place.offsets is not None
    assert message[slice(*place.offsets)] == message[: -len(".\nGo on.")]


VOCABULARY = [
    f"{a}{b}{c}"
    for a in "bdfgklm"
    for b in ("a", "ei", "o", "u")
    for c in ("rst", "n", "lden", "mp")
]
COMMON = "This page is part of the manual of the product. "


@st.composite
def documents(draw: st.DrawFn, least: int = 3) -> list[str]:
    """Texts of a vocabulary: some with shared boilerplate, some near-duplicates or later versions of another."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    texts = [
        rng.choice(("", COMMON))
        + " ".join(rng.choices(VOCABULARY, k=rng.randint(30, 200)))
        + "."
        for _ in range(draw(st.integers(least, 8)))
    ]
    for _ in range(draw(st.integers(0, 3))):
        words = rng.choice(texts).split()
        words[rng.randrange(len(words))] = f"revised{rng.randint(0, 99)}"
        texts.append(" ".join(words))
    rng.shuffle(texts)
    return list(dict.fromkeys(texts))


ESCAPES = [
    "plain",
    "one line",
    "JSON",
    "JSON, ASCII",
    "repr",
    "ascii",
    "html",
    "tojson",
    "character references",
]
LAYOUTS = [
    "plain",
    "wrapped",
    "indented",
    "quoted lines",
    "bullet",
    "numbered lines",
    "lower case",
    "heading",
]


@st.composite
def formed(draw: st.DrawFn) -> Form:
    """A layout and up to three escapes on top of one another."""
    layout_name = draw(st.sampled_from(LAYOUTS))
    layout = FORMS[layout_name]
    escape_names = draw(st.lists(st.sampled_from(ESCAPES), max_size=3))
    # without its line a line's number is a number put in between two words
    assume(layout_name != "numbered lines" or "one line" not in escape_names)
    escapes = [FORMS[name] for name in escape_names]

    def form(text: str) -> str:
        text = layout(text)
        for escape in escapes:
            text = escape(text)
        return text

    return form


ACCENTED = {
    **{name: text for name, text in LANGUAGES.items() if name != "Gothic"},
    "Vietnamese": "Ngọn hải đăng được mở cửa vào ngày bốn tháng năm bởi thị trưởng.",
    "Korean, long": "등대는 천팔백칠십사년 오월 사일에 시장이 열었고 지금도 매일 밤 불을 밝힌다.",
    "ligatures": "The oﬃce of the ﬁrst ﬂoor has ½ of the ² ﬁles, № 7, ﬁnally in Ⅳ.",
    "full width": "Ｔｈｅ ｌｉｇｈｔｈｏｕｓｅ was opened on ４ Ｍａｙ １８７４ by the mayor.",
    "mathematical letters": "𝐓𝐡𝐞 𝐫𝐢𝐯𝐞𝐫 𝐩𝐚𝐬𝐬𝐞𝐬 𝐮𝐧𝐝𝐞𝐫 𝐬𝐢𝐱 𝐛𝐫𝐢𝐝𝐠𝐞𝐬 𝐨𝐟 𝐢𝐫𝐨𝐧",
}
NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
NORMAL_FORMS: tuple[NormalForm, ...] = ("NFC", "NFD", "NFKC", "NFKD")


@pytest.mark.parametrize("name", ACCENTED)
@pytest.mark.parametrize("of_prompt", NORMAL_FORMS)
@pytest.mark.parametrize("of_text", NORMAL_FORMS)
def test_a_text_in_another_normal_form_is_shown_whole(
    of_text: NormalForm, of_prompt: NormalForm, name: str
) -> None:
    text = normalize(of_text, ACCENTED[name])
    prompt = TEMPLATE.format(normalize(of_prompt, ACCENTED[name]))
    finding = locate([text, FARO], prompt).findings[0]
    assert (finding.extent, finding.coverage, finding.text) == ("whole", 1.0, text)


@given(st.text(), st.sampled_from(NORMAL_FORMS))
def test_law_all_normal_forms_of_a_text_have_the_same_letters(
    text: str, form: NormalForm
) -> None:
    # a normal form may make or unmake an escape, as of a full-width "&"
    assume(not set("&\\＆﹠﹨＼").intersection(text))
    assert normalize_text(normalize(form, text)) == normalize_text(text)


@given(st.text())
def test_law_letters_are_found_again_in_their_text(text: str) -> None:
    normalized = Text(text).normalized
    for index in range(len(normalized)):
        start, end = Text(text).offsets_of(index, index + 1)
        assert normalize_text(text[start:end])


def test_a_korean_text_has_no_more_letters_than_bytes() -> None:
    # so that a few syllables, which stand anywhere by chance, are no trace
    text = LANGUAGES.get("Korean", ACCENTED["Korean, long"])
    assert len(normalize_text(text)) <= len(text.encode())


def test_a_text_without_its_accents_is_shown_whole() -> None:
    text = "Die Tür der Wärterstube öffnet früh, und die Möwen schreien."
    bare = text.translate(str.maketrans("üäö", "uao"))
    assert locate([text], bare).findings[0].extent == "whole"


KEEPER = (
    "The keeper {} of Norwick, telephone {}, e-mail {}, lit the lamp on {} and again on"
    " {} in the presence of the mayor {} and of two clerks."
)
CHANGED: dict[str, tuple[str, str]] = {
    "six masks": (
        KEEPER.format(
            "Elias Holm",
            "+47 22 33 44",
            "holm@norwick.no",
            "4 May 1874",
            "9 June 1874",
            "Anna Brandt",
        ),
        KEEPER.format("[PERSON]", "[PHONE]", "[EMAIL]", "[DATE]", "[DATE]", "[PERSON]"),
    ),
    "numbers before the lines of code": (
        "def opened():\n    year = 1874\n    if year:\n        return year\n",
        "1| def opened():\n2|     year = 1874\n3|     if year:\n4|         return year",
    ),
    "a table as a list": (
        "| year | event |\n|---|---|\n| 1869 | gale |\n| 1874 | opened |",
        "- 1869: gale\n- 1874: opened",
    ),
    "a row as cells": (
        "name: Norwick\nheight: 31 m\nopened: 1874\nkeeper: Brandt",
        "| Norwick | 31 m | 1874 | Brandt |",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_whether_a_text_is_shown_that_was_changed_evenly_is_unknown(name: str) -> None:
    text, shown = CHANGED[name]
    found = locate([text, FARO], TEMPLATE.format(f"{shown}\n\n{FARO}"))
    assert told(found) == [("unknown", None), ("shown", "whole")]
    assert "most of its words" in found.findings[0].reason


def test_words_in_another_order_or_far_apart_are_no_changed_text() -> None:
    text, shown = CHANGED["six masks"]
    reversed_words = " ".join(reversed(shown.split()))
    apart = " ".join(f"{word} in those days of old" for word in shown.split())
    for words in (reversed_words, apart):
        words_without_longer = words.replace("telephone", "").replace("presence", "")
        found = locate([text, FARO], f"{words_without_longer}\n\n{FARO}")
        assert told(found) == [("not shown", None), ("shown", "whole")]


NEGATIONS = ["not", "never", "no", "kein", "pas", "не", "15"]


@settings(max_examples=examples(60), deadline=None)
@given(documents(), formed(), st.data())
def test_law_a_text_with_a_changed_word_is_never_shown_whole(
    texts: list[str], form: Form, data: st.DataObject
) -> None:
    words = texts[0].split()
    index = data.draw(st.integers(0, len(words) - 1))
    put_in = data.draw(st.sampled_from(["", "(1874)", "*", *NEGATIONS]))
    assume(put_in != words[index])
    changed = " ".join([*words[:index], put_in, *words[index + 1 :]])
    prompt = TEMPLATE.format(form(changed))
    finding = locate([texts[0]], prompt, known=[QUESTION]).findings[0]
    assert finding.extent != "whole"
    assert words[index] not in finding.text.split() or words.count(words[index]) > 1


@settings(max_examples=examples(60), deadline=None)
@given(documents(), formed(), st.data())
def test_law_a_text_with_a_word_put_in_is_never_shown_whole(
    texts: list[str], form: Form, data: st.DataObject
) -> None:
    words = texts[0].split()
    index = data.draw(st.integers(1, len(words) - 1))
    put_in = data.draw(st.sampled_from(NEGATIONS))
    assume(put_in not in words[index - 1 : index + 1])  # no mere repetition
    assume(not words[index - 1].endswith("."))  # between two sentences
    changed = " ".join([*words[:index], put_in, *words[index:]])
    prompt = TEMPLATE.format(form(changed))
    finding = locate([texts[0]], prompt, known=[QUESTION]).findings[0]
    assert finding.extent != "whole"
    assert finding.coverage < 1
    around = (words[index - 1], words[index])
    stands_elsewhere = list(pairwise(words)).count(around) > 1
    assert stands_elsewhere or " ".join(around) not in finding.text


@settings(max_examples=examples(60), deadline=None)
@given(documents(), formed(), st.data())
def test_law_shown_in_any_combination_of_forms_and_nothing_else(
    texts: list[str], form: Form, data: st.DataObject
) -> None:
    order = data.draw(
        st.lists(st.sampled_from(range(len(texts))), min_size=1, unique=True)
    )
    found = locate(
        texts,
        TEMPLATE.format("\n\n".join(form(texts[index]) for index in order)),
        known=[QUESTION],
    )
    assert list(found.shown_in_order) == order
    for place in found.findings:
        assert place.outcome == (
            "shown" if place.candidate_index in order else "not shown"
        )
        if place.outcome == "shown":
            assert place.extent == "whole"
            assert place.coverage > 0.95


@settings(max_examples=examples(60), deadline=None)
@given(documents(), formed(), st.integers(20, 90), st.data())
def test_law_cut_texts_are_shown_as_far_as_they_go(
    texts: list[str], form: Form, share: int, data: st.DataObject
) -> None:
    texts = [text for text in texts if "revised" not in text]
    order = data.draw(
        st.lists(st.sampled_from(range(len(texts))), min_size=1, unique=True)
    )
    cut = {
        index: texts[index][: max(len(texts[index]) * share // 100, 90)]
        for index in order
    }
    found = locate(
        texts, TEMPLATE.format("\n\n".join(form(cut[index]) + "..." for index in order))
    )
    assert not {
        place.candidate_index for place in found.findings if place.outcome == "shown"
    } - set(order)
    for index in order:
        place = found.findings[index]
        if place.outcome == "shown":
            expected = len(normalize_text(cut[index])) / len(
                normalize_text(texts[index])
            )
            assert place.coverage == pytest.approx(
                expected, abs=0.02 + 24 / len(texts[index])
            )
        else:  # only where what was left of it is another text's as well
            assert place.outcome == "unknown" or any(
                normalize_text(cut[index]) in normalize_text(other)
                for other in texts
                if other != texts[index]
            )


@settings(max_examples=examples(40), deadline=None)
@given(documents(), st.randoms(use_true_random=False))
def test_law_places_follow_their_candidates(
    texts: list[str], rng: random.Random
) -> None:
    prompt = TEMPLATE.format("\n---\n".join(rng.sample(texts, len(texts) // 2)))
    found, order = locate(texts, prompt), rng.sample(range(len(texts)), len(texts))
    again = locate([texts[index] for index in order], prompt)
    for place, index in zip(again.findings, order, strict=True):
        assert (place.outcome, place.offsets) == (
            found.findings[index].outcome,
            found.findings[index].offsets,
        )
    assert [order[index] for index in again.shown_in_order] == list(
        found.shown_in_order
    )


@settings(max_examples=examples(100), deadline=None)
@given(st.text(), st.sampled_from(ESCAPES), st.sampled_from(ESCAPES))
def test_law_a_text_has_one_stream_in_all_its_forms(
    text: str, inner: str, outer: str
) -> None:
    text = text.encode("utf-8", "ignore").decode()
    bare = f"({text})"
    assert normalize_text(bare) in normalize_text(FORMS[outer](FORMS[inner](bare)))


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.text(max_size=200), max_size=5),
    st.lists(st.text(max_size=400), max_size=3),
)
def test_law_anything_is_answered(candidates: list[str], messages: list[str]) -> None:
    found = locate(candidates, messages)
    assert [place.candidate_index for place in found.findings] == list(
        range(len(candidates))
    )
    for place in found.findings:
        assert 0 <= place.coverage <= 1
        assert (
            (place.outcome == "shown")
            == (place.candidate_index in found.shown_in_order)
            == (place.offsets is not None)
        )


BLOCKS = [f"block{n:03}{random.Random(n).randbytes(4).hex()}" for n in range(100)]

HOSTILE = {
    "400,000 backslashes": ([FARO], "\\" * 400_000),
    "400,000 backslashes, then a letter": ([FARO], "\\" * 400_000 + "n"),
    "400,000 ampersands": ([FARO], "&" * 400_000),
    "an entity escaped 100,000 times": ([FARO], "&" + "amp;" * 100_000 + "lt;"),
    "half surrogate pairs": ([FARO], "\\ud83d\\" * 50_000),
    "one letter": (["a" * 3000, "a" * 2999, "a"], "a" * 1_000_000),
    "surrogates": (["\ud800" * 100 + FARO, "\udfff"], "\ud800" * 1000),
    "NUL": (["\0" * 50, FARO], "\0" * 1000),
    "10 MB": (
        [FARO, OVAR],
        OVAR + "Some other words that nobody asked for. " * 250_000,
    ),
    "one sentence over and over": (
        [SENTENCES[0] * 40 + str(n) for n in range(100)],
        SENTENCES[0] * 4000,
    ),
    "signs over and over": (["-", "--", FARO], "-" * 300_000),
    "200 orders of the same blocks": (
        ["".join(random.Random(n).sample(BLOCKS, 100)) for n in range(200)],
        "".join("".join(random.Random(n).sample(BLOCKS, 100)) for n in range(500, 700)),
    ),
    "a very short text everywhere": (["e", "Porto"], "Porto e " * 50_000),
    "empty": (["", FARO], ""),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timeout(60)
def test_work_is_bounded(name: str) -> None:
    candidates, prompt = HOSTILE[name]

    def read_all() -> None:
        found = locate(candidates, prompt)
        assert all(isinstance(place.text, str) for place in found.findings)

    n_characters = len(prompt) + sum(map(len, candidates))
    # 12 for each character of 200 texts of the same blocks, fewer in the other cases
    assert count_steps(read_all) <= 16 * n_characters + 1000


LINE = "A rather long line of words that stands in many places."


@pytest.mark.parametrize("line", [LINE, LINE[:30]])
def test_as_many_equal_candidates_are_shown_as_stand_there_however_many(
    line: str,
) -> None:
    found = locate([line] * 700, [line] * 600)
    assert list(found.shown_in_order) == list(range(600))
    assert [
        found.findings[index].message_index for index in found.shown_in_order
    ] == list(range(600))
    assert {place.outcome for place in found.findings[600:]} == {"not shown"}


PAGE_OF_FARO = f"{FARO} Ferries cross it to five islands of sand all year long."


def test_overlapping_chunks_of_a_text_in_several_messages_show_it_whole() -> None:
    chunks = [PAGE_OF_FARO[:120], PAGE_OF_FARO[70:]]
    (finding,) = locate([PAGE_OF_FARO], chunks).findings
    assert finding.extent == "whole"


@pytest.mark.parametrize(
    ("between", "extent"),
    [
        ("small, very noisy", "parts"),
        # so many words are another text, and the two chunks stand apart
        ("Trams stop on the quay every ten minutes. " * 4, "whole"),
    ],
)
def test_words_between_two_chunks_of_a_text_change_it_where_they_are_few(
    between: str, extent: str
) -> None:
    first = "The old iron bridge was opened in the spring of 1874, and a great"
    second = "crowd from both banks walked across it until late in the evening."
    prompt = f"{first} {between} {second}"
    (finding,) = locate([f"{first} {second}"], prompt).findings
    assert (finding.outcome, finding.extent) == ("shown", extent)


def test_the_end_of_a_shown_chunk_that_stands_twice_shows_the_next_chunk() -> None:
    overlap = "cross it to five islands of sand all year long."
    next_chunk = f"{overlap} Tickets are sold at the pier."
    prompt = f"{PAGE_OF_FARO[20:]}\n\nAs said: {PAGE_OF_FARO[-72:]}"
    page_finding, next_finding = locate([PAGE_OF_FARO, next_chunk], prompt).findings
    assert page_finding.extent == "end"
    assert next_finding.extent == "beginning"
    assert overlap.startswith(next_finding.text)


def test_a_part_that_fits_a_known_text_and_a_candidate_belongs_to_the_known_text() -> (
    None
):
    said_in_history = f"{FARO} So said the guide in the morning."
    candidate = f"{FARO} Ferries cross it to five islands."
    found = locate([candidate, OVAR], [FARO, OVAR], known=[said_in_history])
    assert told(found) == [("not shown", None), ("shown", "whole")]


def test_a_part_that_a_mark_divides_is_no_whole_text_where_its_end_is_cut() -> None:
    n_shown = len(PAGE_OF_FARO) * 9 // 10
    shown = f"{PAGE_OF_FARO[:60]} [1] {PAGE_OF_FARO[60:n_shown]}"
    (finding,) = locate([PAGE_OF_FARO], shown).findings
    assert finding.extent == "beginning"


def test_a_part_that_all_pages_of_a_template_have_is_unknown() -> None:
    pages = [f"{FARO} Page {name}" for name in "abcdefghij"]
    found = locate([*pages, OVAR], [FARO[10:-10], OVAR])
    assert {finding.outcome for finding in found.findings[:-1]} == {"unknown"}


def test_words_inside_of_a_shown_page_are_no_trace_of_a_sentence() -> None:
    sentence = "Eight hundred facades are covered with them"
    found = locate([OVAR, sentence], OVAR)
    page_finding, sentence_finding = found.findings
    assert page_finding.extent == "whole"
    assert sentence_finding.reason == "no trace of it by itself"
    assert not sentence_finding.has_some_words


def test_of_short_texts_that_overlap_the_longer_is_shown_though_it_begins_later() -> (
    None
):
    shorter = "up copper bridge river tide"
    longer = "copper bridge river tide zebra"
    assert 16 < len(normalize_text(shorter)) < len(normalize_text(longer)) < 32
    found = locate([shorter, longer], "up copper bridge river tide zebra")
    assert found.shown_in_order == (1,)


def test_a_short_text_is_found_that_begins_inside_of_another_and_goes_on_behind() -> (
    None
):
    known = "somewhere beyond the harbour lantern copper bridge river tide"
    overlapped = "lantern copper bridge river tide zebra quay"
    short = "zebra quay morning fog"
    prompt = f"{known} zebra quay morning fog"
    assert locate([overlapped, short], prompt, known=[known]).shown_in_order == (1,)


def test_a_text_is_found_behind_many_places_where_only_its_beginning_stands() -> None:
    text = "a" * 3000 + " and then the tail of it."
    others = [
        "a" * 3000 + f" and tail number {number} of them." for number in range(50)
    ]
    found = locate([*others, text, FARO], "a" * 200_000 + f" - {text} - {FARO}")
    assert list(found.shown_in_order) == [50, 51]


def test_long_prompts_are_searched_in_steps_that_miss_nothing() -> None:
    rng = random.Random(3)
    texts = [
        " ".join(rng.choices(VOCABULARY, k=rng.randint(9, 60))) for _ in range(100)
    ]
    filler = [" ".join(rng.choices("abcdefghijklmnop", k=200)) for _ in range(1500)]
    order = rng.sample(range(100), 60)
    prompt = "\n".join(
        f"{filler[3 * n]}\n{filler[3 * n + 1]}\n{texts[index]}"
        for n, index in enumerate(order)
    ) + "\n".join(filler)
    found = locate(texts, prompt)
    assert len(normalize_text(prompt)) > 100_000
    assert list(found.shown_in_order) == order
    assert all(
        later > earlier
        for earlier, later in pairwise(
            found.findings[index].offsets or (0,) for index in order
        )
    )


HIGHLIGHTED = {
    "a word behind the first words": "The Norwick <em>lighthouse</em> was opened",
    "the first words": "The <em>Norwick</em> lighthouse was opened",
    "each word of the question": (
        "The <em>Norwick</em> <em>lighthouse</em> was <em>opened</em>"
    ),
    "a tag that begins as the word does": (
        "The <n>Norwick</n> <l>lighthouse</l> was opened"
    ),
}


@pytest.mark.parametrize("name", HIGHLIGHTED)
def test_tags_around_words_of_a_text_lose_none_of_its_words(name: str) -> None:
    text = "The Norwick lighthouse was opened on 4 May 1874 by the mayor Elias Holm."
    shown = text.replace("The Norwick lighthouse was opened", HIGHLIGHTED[name])
    (finding,) = locate([text], f"Use this:\n{shown}\nWhen?").findings
    assert (finding.extent, finding.coverage, finding.text) == ("whole", 1.0, text)


@pytest.mark.parametrize(
    ("text", "prompt", "has_some_words"),
    [
        (" \n", OVAR, False),
        (FARO, OVAR, False),
        (FARO, " ", False),
        (OVAR[:60], OVAR, True),  # words of another candidate
        ("Porto", f"{OVAR} I flew to Porto by night.", True),
    ],
    ids=["blank", "no trace", "no prompt", "inside another", "in a sentence"],
)
def test_a_text_that_is_not_shown_may_leave_some_words(
    text: str, prompt: str, has_some_words: bool
) -> None:
    finding, _ = locate([text, OVAR], prompt).findings
    assert finding.outcome != "shown"
    assert finding.has_some_words == has_some_words


@pytest.mark.parametrize(
    ("n_further_letters", "outcome"), [(90_000, "unknown"), (100_001, "not shown")]
)
def test_changed_words_are_looked_for_in_prompts_of_bounded_length(
    n_further_letters: int, outcome: str
) -> None:
    prompt = (
        f"{OVAR}\nLamps of Brandt, keeper, that were lit.\n{'x' * n_further_letters}"
    )
    _, finding = locate([OVAR, "Keeper Brandt lit lamps"], prompt).findings
    assert finding.outcome == outcome


@pytest.mark.parametrize(
    ("tag", "last_words"),
    [("b", "Brandt."), ("em", "Emma Holm."), ("strong", "Strohm.")],
)
def test_a_tag_that_begins_as_the_last_words_do_hides_none(
    tag: str, last_words: str
) -> None:
    text = f"The Norwick lighthouse was opened on 4 May 1874 by the keeper {last_words}"
    name = last_words.removesuffix(".")
    shown = text.replace(name, f"<{tag}>{name}</{tag}>")
    (finding,) = locate([text], f"Use this:\n{shown}\nWhen?").findings
    assert (finding.extent, finding.coverage, finding.text) == ("whole", 1.0, text)


@pytest.mark.parametrize(("n_letters", "is_whole"), [(96, True), (97, False)])
def test_a_tag_of_many_letters_interrupts_a_text(
    n_letters: int, is_whole: bool
) -> None:
    text = "The lighthouse was opened on 4 May 1874 by the keeper Brandt, who lit it."
    shown = text.replace("lighthouse", f"<{'x' * n_letters}>lighthouse")
    (finding,) = locate([text], f"Use this:\n{shown}\nWhen?").findings
    assert (finding.extent == "whole") == is_whole


@pytest.mark.parametrize("mark", ["[3] ", "[п. 3] ", "[ос. 3] "])
def test_a_mark_whose_half_letter_equals_the_text_hides_no_letter(mark: str) -> None:
    # "п" and "о" begin with the same byte
    text = "Старый маяк у гавани {}открыт в начале лета, и его видно издалека."
    shown = text.format(mark)
    (finding,) = locate([text.format("")], f"Вот:\n{shown}\nКогда?").findings
    assert (finding.extent, finding.text) == ("whole", text.format(""))


@pytest.mark.parametrize("between", [" ", "\n"])
@pytest.mark.parametrize("mark", [" [2]", " <b>"])
def test_words_that_a_prompt_repeats_are_no_difference_before_a_mark(
    between: str, mark: str
) -> None:
    text = "The lighthouse was opened in the spring of 1874, by the keeper Holm."
    words = "in the spring of 1874,"
    shown = text.replace(words, f"{words}{between}{words}{mark}")
    (finding,) = locate([text], f"Use this:\n{shown}\nWhen?").findings
    assert finding.extent == "whole"


def test_a_line_with_a_number_that_two_chunks_share_is_no_difference() -> None:
    first, shared, last = (
        "1) Raise the flag of the harbour",
        "2) Lower the lamp at noon",
        "3) Close the gate behind the tower",
    )
    text = "\n".join([first, shared, last])
    shown = "\n".join([first, shared, shared, last])
    (finding,) = locate([text], f"Use this:\n{shown}\nWhen?").findings
    assert finding.extent == "whole"


def test_another_word_between_tags_is_a_difference() -> None:
    text = "The Norwick lighthouse was opened on 4 May 1874 by the mayor Elias Holm."
    shown = text.replace("opened", "<em>closed</em>")
    (finding,) = locate([text], f"Use this:\n{shown}\nWhen?").findings
    assert finding.extent != "whole"


@pytest.mark.parametrize(
    ("written", "shown", "is_whole"),
    [
        ("-5 degrees", "5 degrees", False),
        ("1.5 tons", "15 tons", False),
        ("5 % of it", "5 of it", False),
        ("a draught < 5 m", "a draught > 5 m", False),
        ("an area of 2*3 m", "an area of 23 m", False),
        ("-5 degrees, 1.5 tons", "**-5** degrees, 1.5 tons", True),
        ("1,874 crowns and 5 %", "1874 crowns and 5%", True),
        ("on 4 May – 5 < 6", "on 4 May – 5 &lt; 6", True),
        ("10-15 lamps", "1015 lamps", False),
        ("0-15 lamps", "0–15 lamps", True),
        ("0-15 lamps", "015 lamps", False),
        ("10–15 lamps of 1,874", "10 – 15 lamps of 1874", True),
        ("10-15 lamps", "10 to 15 lamps", False),
        ("1874-05-04", "1874/05/04", True),
        ("1874-05-04", "18740504", False),
        ("| 1-2 | 3-4 |", "1-2,3-4", True),
        ("31\n* 5 lamps in 1874\n* 6 oars", "31\n- 5 lamps in 1874\n- 6 oars", True),
        ("a way -> 5 m => 6 m", "a way → 5 m ⇒ 6 m", True),
        ("2 * 3 m", "2\n* 3 m", True),
        ("31,5 m", "315 m", False),
        ("31,5 m", "31 5 m", False),
        ("31,5 m", "31.5 m", True),
        ("12.400 crowns", "124.00 crowns", False),
        ("12 400 crowns", "124,00 crowns", False),
        ("12 400 crowns", "12.400 crowns", True),
        ("1874 315 lamps", "**1874** 315 lamps", True),  # a year, and no thousands
        ("12\xa0400,50 crowns", "12400.50 crowns", True),
        ("1.250 tons", "12.50 tons", False),
        ("1,250.5 tons", "1.250,5 tons", True),
        ("0.125 tons", "0125 tons", False),
        ("4/5/1874", "451874", False),
        ("1/2 and 10^6", "12 and 106", False),
        ("31 ± 2 m", "31 2 m", False),
        ("5 € a head", "5 $ a head", False),
        ("€5 a head", "€ 5 a head", True),
        ("a draught >= 5 m", "a draught = 5 m", False),
        ("a draught >= 5 m", "a draught ≥ 5 m", True),
        ("1874,31,5 and 6", "1874 | 31 | 5 and 6", True),
        ("-5,3,-2", "-5;3;-2", True),
        ("31,5,x,7,5", "| 315 | x | 75 |", False),
        ("version 1.5.2", "version 152", False),
        ("31,5 m[12] of 1.250 tons", "315 m of 1.250 tons", False),
        ("10-15 and 1015", "10 – 15 and 1015", True),
        ("1874: 5 men, 10-15 m", "1874: 5 men, 1015 m", False),
        ("5 % of it", "5\n    % of it", True),
        ("−5 to −3 degrees", "-5 to -3 degrees", True),
        ("−5 to -3 degrees", "5 to -3 degrees", False),
        ("$5 a head", "5 a head", False),
        ("US$ 5 a head", "US$5 a head", True),
        ("¥500 a head", "€500 a head", False),
        ("an area of 10² m", "an area of 102 m", False),
        ("an area of 10² m", "an area of 10^2 m", True),
        ("an area of 10² m", "an area of 10<sup>2</sup> m", True),
        ("an area of 10^2 m", "an area of 10² m", True),
        ("1½ tons", "11/2 tons", False),
        ("1½ tons", "1 1/2 tons", True),
        ("5 km² of H₂O", "5 km2 of H2O", True),
        ("lamp == lit", "lamp != lit", False),
        ("lamp == lit", "lamp = lit", False),
        ("lamp==lit", "lamp lit", False),
        ("lamp != lit", "lamp ≠ lit", True),
        ("lamp !== lit", "lamp === lit", False),
        ("much:\n== Lamps ==\nThey lit", "much:\n## Lamps\nThey lit", True),
        ("lamp = 5", "lamp: 5", True),
    ],
)
def test_a_sign_that_changes_a_number_is_no_typography(
    written: str, shown: str, is_whole: bool
) -> None:
    text = f"In the lamp room of the old tower there was {written} for the keeper."
    prompt = f"Use this: {text.replace(written, shown)} Which?"
    (finding,) = locate([text], prompt).findings
    assert finding.outcome == "shown"
    assert (finding.extent == "whole", finding.coverage == 1) == (is_whole, is_whole)


def test_prompts_that_all_lack_a_sign_show_no_whole_text_together() -> None:
    text = "In the lamp room of the old tower there was -5 degrees for the keeper."
    lacking = f"Use this: {text.replace('-5', '5')} Which?"
    (without,), (with_sign,) = (
        locate([text], lacking).findings,
        locate([text], text).findings,
    )
    assert unite_findings([without, without]).extent == "parts"
    assert unite_findings([without, with_sign]).extent == "whole"


TRANSLITERATED = {
    "German": (
        "Die Tür der Wärterstube öffnet nach außen; die Möwen hören es früh.",
        "Die Tuer der Waerterstube oeffnet nach aussen; die Moewen hoeren es frueh.",
    ),
    "Danish": (
        "Fyret åbnede først på øen, før færgen sejlede; båden lå på røde sten.",
        "Fyret aabnede foerst paa oeen, foer faergen sejlede; baaden laa paa roede sten",
    ),
    "Russian": (
        "Маяк Норвика был открыт 4 мая 1874 года.",
        "Mayak Norvika byl otkryt 4 maya 1874 goda.",
    ),
    "Ukrainian": (
        "Маяк Норвіка відкрили четвертого травня в присутності міського голови.",
        "Maiak Norvika vidkryly chetvertoho travnia v prysutnosti miskoho holovy.",
    ),
    "Greek": (
        "Ο φάρος του Νόρβικ άνοιξε στις τέσσερις Μαΐου από τον δήμαρχο της πόλης.",
        "O faros tou Norvik anoixe stis tesseris Maiou apo ton dimarcho tis polis.",
    ),
}


@pytest.mark.parametrize("language", TRANSLITERATED)
def test_a_text_in_latin_letters_may_be_a_text_of_another_script(language: str) -> None:
    text, in_latin_letters = TRANSLITERATED[language]
    instruction = "Answer only from the passages, and cite each of them by its number."
    for shown, outcome in ((in_latin_letters, "unknown"), ("", "not shown")):
        prompt = f"{instruction}\n[1] {shown}\n[2] {PORTO}\nWhen was it opened?"
        finding, of_other = locate([text, PORTO], prompt).findings
        assert (finding.outcome, of_other.outcome) == (outcome, "shown")


OPENED = "Elias Holm opened the Norwick lighthouse by the cliff at noon on 4 May 1874."
MIDDLE = "opened the Norwick lighthouse by the cliff at noon"
REPLACED = {
    "a mask before": ("[PERSON] opened", f"… {OPENED[11:]}"),
    "a name before": ("Anna Brandt opened", f"… {OPENED[11:]}"),
    "cut before": ("opened", OPENED[11:]),
    "the number of a passage before": ("[12] opened", OPENED[11:]),
    "a title before": ("Norwick in old times\nopened", OPENED[11:]),
    "dots before": ("Elsewhere it says: ... opened", OPENED[11:]),
    # its "m" may as well be the "m" of "Holm": then "From his loo" stands in that line
    "a letter that is equal by chance before": (
        "From his loom\nopened",
        f"… {OPENED[9:]}",
    ),
    "a tag before": ("Source of it: <text>opened", OPENED[11:]),
}


@pytest.mark.parametrize("name", REPLACED)
def test_other_words_than_the_first_of_a_text_are_told_from_a_cut(name: str) -> None:
    shown, expected = REPLACED[name]
    prompt = f"Use this:\n{OPENED.replace('Elias Holm opened', shown)}\nWhen?"
    (finding,) = locate([OPENED], prompt).findings
    assert (finding.text, finding.extent) == (expected, "end")


REPLACED_BEHIND = {
    "a mask behind": ("[DATE].", " …"),
    "signs behind": ("████████", " …"),
    "a mask, and the next passage": (f"[DATE]. {PORTO}", " …"),
    "the number of a passage behind": ("[12]", ""),
    "a source behind": (" (harbour.txt)", ""),
    "a note of a cut behind": (" [truncated]", ""),
    "another note of a cut behind": (" [+17 more characters]", ""),
    # nothing tells a label in the same line from other words
    "the label of the next passage behind": (f" Passage two: {PORTO}", " …"),
    "a mask, and a label": (f"[DATE]. Passage two: {PORTO}", " …"),
    "a date in other words": ("1874-05-04.", " …"),
    "cut behind": ("", ""),
    "dots behind": ("... (1 of 3, from the archive)", ""),
    "the next passage behind": (f" {PORTO}", ""),
    "a quote behind": ('", "score": 0.25, "source": "a.txt"', ""),
    "an apostrophe in other words": ("the mayor's day", " …"),
}


@pytest.mark.parametrize("name", REPLACED_BEHIND)
@pytest.mark.parametrize("form", [str, repr])
def test_other_words_than_the_last_of_a_text_are_told_from_a_cut(
    name: str, form: Callable[[str], str]
) -> None:
    shown, expected = REPLACED_BEHIND[name]
    text = OPENED.removeprefix("Elias Holm ")
    prompt = form(f"Use this:\n{text.replace('on 4 May 1874.', shown)}\nWhen?")
    finding, _ = locate([text, PORTO], prompt).findings
    assert (finding.text, finding.extent) == (f"{MIDDLE}{expected}", "beginning")


def test_what_another_prompt_shows_of_a_text_is_not_replaced() -> None:
    (first,) = locate([OPENED], f"[PERSON] {OPENED[11:]}").findings
    (second,) = locate([OPENED], OPENED[:60]).findings
    assert unite_findings([first, second]).extent == "whole"
    assert unite_findings([first, first]).text == f"… {OPENED[11:]}"


def test_marks_that_a_cleaner_takes_away_are_no_numbers_of_a_text() -> None:
    text = "The Norwick lighthouse, 31,5 m high[12], was opened on 4 May 1874.[3]"
    shown = text.replace("[12]", "").replace("[3]", "")
    (finding,) = locate([text], f"Use this: {shown} When?").findings
    assert finding.extent == "whole"

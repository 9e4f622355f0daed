"""Where contexts stand in a prompt, whole or broken off."""

from __future__ import annotations

import pytest

from ragmetrics_core.capture.context_blocks import blocks_in

FLOOD = "The bridge was opened in the year of the flood"
WORDS = "abcdefg " * 3  # 24 signs
LONG = "word " * 60  # its first 200 signs end with a blank


@pytest.mark.parametrize(
    ("prompt", "context", "shown"),
    [
        pytest.param(f"[1] {FLOOD}.", f"{FLOOD}.", f"{FLOOD}.", id="whole"),
        pytest.param(f"[1] {FLOOD}.", FLOOD[:-2], FLOOD[:-2], id="a word cut in it"),
        pytest.param(
            f"[1] {FLOOD[:-2]}", FLOOD, FLOOD[:-6], id="a word cut in the prompt"
        ),
        pytest.param(
            "The bridge was opened in the year  of",
            "The bridge was opened in the year  offered",
            "The bridge was opened in the year",
            id="blanks before the word that is cut",
        ),
        pytest.param(
            f"The bridge was opened in the year of the war. [1] {FLOOD}",
            FLOOD,
            FLOOD,
            id="another text that begins alike",
        ),
        pytest.param(
            f"[1] {WORDS}abcdefgh end",
            f"{WORDS}abcdefgh enough",
            f"{WORDS}abcdefgh",
            id="32 signs and a word",
        ),
        pytest.param(
            f"[1] {WORDS}abcdefg end",
            f"{WORDS}abcdefg enough",
            None,
            id="31 signs and a word",
        ),
        pytest.param("[1] It was old.", "It was ol", "It was ol", id="short"),
        pytest.param(f"[1] {FLOOD[:-2]}", f"{FLOOD} … It fell.", None, id="a part cut"),
        pytest.param(
            "It is old. It was built. When?",
            "It is old. … built.",
            "It is old. It was built.",
            id="two parts",
        ),
        pytest.param(
            f"[1] {LONG.strip()}\n[2]",
            f"{LONG}and no more",
            LONG[:200].strip(),
            id="long, its end not shown",
        ),
        pytest.param(
            r'{"text": "The \"old\" br\u00fccke fell."}',
            'The "old" brücke fell.',
            r"The \"old\" br\u00fccke fell.",
            id="a string of JSON in ASCII",
        ),
        pytest.param(
            r'{"text": "The \"old\" brücke fell."}',
            'The "old" brücke fell.',
            r"The \"old\" brücke fell.",
            id="a string of JSON with all letters",
        ),
    ],
)
def test_a_context_is_found_by_its_first_words(
    prompt: str, context: str, shown: str | None
) -> None:
    texts = [prompt[block.start : block.end] for block in blocks_in(prompt, [context])]
    assert texts == ([] if shown is None else [shown])

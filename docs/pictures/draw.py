"""Draws the pictures of the metrics: ``python docs/pictures/draw.py`` writes them beside itself."""

from html import escape
from pathlib import Path

GOOD, BAD, INK, PAPER = "#1b7f4b", "#b3261e", "#1f2430", "#f6f4ee"


def box(
    x: int, y: int, width: int, text: str, colour: str = INK, mark: str = ""
) -> str:
    """A frame with a line of text, and a mark at its end that does not rest on colour alone."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="34" rx="6" fill="white" stroke="{colour}" stroke-width="2"/>'
        f'<text x="{x + 12}" y="{y + 22}">{escape(text)}</text>'
        f'<text x="{x + width - 22}" y="{y + 22}" fill="{colour}" font-weight="bold">{mark}</text>'
    )


def verdict(x: int, y: int, width: int, text: str, good: object) -> str:
    """A frame of what was judged to be so, or not."""
    return box(x, y, width, text, *((GOOD, "✓") if good else (BAD, "✗")))


def words(x: int, y: int, text: str, weight: str = "normal") -> str:
    """A line of text."""
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{escape(text)}</text>'


def draw(name: str, told: str, height: int, *parts: str) -> None:
    """Write one picture; ``told`` is what it says to those who do not see it."""
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" role="img" aria-label="{escape(told)}" '
        f'font-family="system-ui, sans-serif" font-size="15" fill="{INK}">'
        f'<rect width="640" height="{height}" rx="10" fill="{PAPER}"/>{"".join(parts)}</svg>\n'
    )
    Path(__file__).with_name(f"{name}.svg").write_text(picture, "utf-8")


draw(
    "context_utilization",
    "Three chunks, the first and the third useful: the mean of 1 and 2/3 is 0.83.",
    220,
    words(20, 34, "Are the chunks useful, and do the useful ones come first?", "bold"),
    verdict(20, 52, 380, "1  Anna lit the lamp.", True),
    words(420, 74, "precision 1 of 1 = 1"),
    verdict(20, 94, 380, "2  Boats sail at noon.", False),
    words(420, 116, "not useful: adds nothing"),
    verdict(20, 136, 380, "3  Anna kept the lighthouse.", True),
    words(420, 158, "precision 2 of 3 = 0.67"),
    words(20, 200, "score (1 + 0.67) / 2 = 0.83", "bold"),
)
draw(
    "context_adherence",
    "Five polls ask whether all of the answer rests on the contexts: four yes and one no are 0.8.",
    200,
    words(20, 34, "Does all of the answer rest on the contexts?", "bold"),
    box(20, 52, 290, "contexts: Anna lit the lamp in 1856."),
    box(330, 52, 290, "answer: Anna lit it in 1856."),
    *(verdict(20 + 122 * n, 108, 112, f"poll {n + 1}", n != 3) for n in range(5)),
    words(20, 176, "score = yes / (yes + no) = 4 / 5 = 0.8", "bold"),
)
draw(
    "context_recall",
    "The answer is held against the expected answer on bands from none to perfect; here it holds half, 0.5.",
    200,
    words(20, 34, "How well does the answer match the expected answer?", "bold"),
    box(20, 52, 290, "expected: Anna lit it in 1856."),
    box(330, 52, 290, "answer: Anna lit it."),
    *(
        f'<rect x="{x}" y="112" width="{width}" height="26" fill="{GOOD if band == "partial" else "white"}" '
        f'stroke="{INK}"/><text x="{x + 6}" y="130" fill="{"white" if band == "partial" else INK}">{band}</text>'
        for x, width, band in (
            (20, 56, "none"),
            (76, 150, "minimal"),
            (226, 150, "partial"),
            (376, 150, "mostly"),
            (526, 94, "perfect"),
        )
    ),
    words(20, 176, "score = 0.5, in the band partial: 0.35 to below 0.65", "bold"),
)
draw(
    "retrieval_accuracy",
    "Three facts of the expected answer against two contexts: two facts are found, 0.67.",
    220,
    words(20, 34, "Which share of the expected answer do the contexts hold?", "bold"),
    words(330, 66, "context 1"),
    words(480, 66, "context 2"),
    *(
        words(20, 102 + 38 * row, fact)
        + "".join(
            verdict(
                330 + 150 * column,
                80 + 38 * row,
                120,
                "found" if cell else "not found",
                cell,
            )
            for column, cell in enumerate(cells)
        )
        for row, (fact, cells) in enumerate(
            (
                ("Anna lit the lamp.", (1, 0)),
                ("It was built in 1856.", (0, 1)),
                ("The guild paid for it.", (0, 0)),
            )
        )
    ),
    words(20, 208, "score = 2 of 3 facts = 0.67", "bold"),
)
draw(
    "context_sufficiency",
    "The contexts say who lit the lamp and not when: not sufficient, 0.1. The application answered: from elsewhere.",
    200,
    words(20, 34, "Could the question be answered from the contexts alone?", "bold"),
    box(20, 52, 290, "question: Who lit it, and when?"), verdict(330, 52, 290, "Anna lit the lamp.", False),
    words(330, 106, "missing: when it was lit"),
    box(20, 94, 290, "answer: Anna, in 1856."), words(20, 148, "not shown to the judge"),
    words(20, 180, "score = p(sufficient) = 0.1; answered from elsewhere", "bold"),
)
draw(
    "answer_relevance",
    "The question has two parts, the answer addresses one of them: grade 2 of 3, 0.67.",
    200,
    words(20, 34, "Does the answer address the question?", "bold"),
    box(20, 52, 290, "question: Who lit it, and when?"), box(330, 52, 290, "answer: Anna did."),
    *(
        f'<rect x="{20 + 150 * grade}" y="112" width="150" height="26" fill="{GOOD if grade == 2 else "white"}" '
        f'stroke="{INK}"/><text x="{28 + 150 * grade}" y="130" fill="{"white" if grade == 2 else INK}">'
        f"{grade}  {meaning}</text>"
        for grade, meaning in enumerate(("something else", "near it", "a part", "all of it"))
    ),
    words(20, 176, "score = grade / 3 = 2 / 3 = 0.67", "bold"),
)
draw(
    "citation_quality",
    "Three sentences cite four contexts: two sentences are supported, two citations are precise. Recall 2/3, precision "
    "2/4, score 0.57.",
    262,
    words(20, 34, "Do the citations of the answer hold?", "bold"),
    words(330, 66, "supported"), words(480, 66, "citations"),
    *(
        words(20, 102 + 38 * row, sentence)
        + verdict(330, 80 + 38 * row, 130, "yes" if supported else "no", supported)
        + words(480, 102 + 38 * row, citations)
        for row, (sentence, supported, citations) in enumerate((
            ("Anna lit the lamp [1].", True, "[1] precise"),
            ("It was built in 1856 [2][3].", True, "[2] precise, [3] not"),
            ("The guild paid for it [1].", False, "[1] does not say so"),
        ))
    ),
    words(20, 214, "recall = 2 of 3 sentences, precision = 2 of 4 citations"),
    words(20, 246, "score = 2 · 2/3 · 2/4 / (2/3 + 2/4) = 0.57", "bold"),
)

draw(
    "ledger",
    "Two questions of one conversation: the first searched twice, and the answer to the second rests on what the first found.",
    250,
    words(20, 32, "Who lit the lamp first?", "bold"),
    box(20, 46, 280, "look_up: first lamp"),
    box(20, 90, 280, "look_up: keeper's rooms"),
    verdict(330, 46, 290, "Anna Berg lit the lamp in 1882.", True),
    verdict(330, 90, 290, "The keeper slept below it.", True),
    words(20, 152, "Anna Berg, in 1882."),
    words(20, 188, "And where did the keeper sleep?", "bold"),
    box(330, 168, 290, "no call: shown from turn 1"),
    words(20, 226, "The keeper slept below the lamp."),
)

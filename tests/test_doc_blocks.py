"""What stands behind an example on a page is compared with what the example prints."""

from pathlib import Path

import pytest
from doc_blocks import examples, run_examples, shows

_PAGE = """# A page

```python
print("one")
```

```text
one
```

```python
print("two")
```

Words between.

```text
three
```
"""


def test_a_block_of_text_directly_behind_an_example_is_its_output():
    first, second = examples(_PAGE)
    assert first.output == "one\n"
    assert second.output is None


def test_examples_run_in_order_and_print(capsys):
    run = run_examples(_PAGE, Path("page.md"), {})
    assert run == list(examples(_PAGE))
    assert capsys.readouterr().out == "one\ntwo\n"


def test_an_output_that_is_not_printed_fails_with_its_place():
    page = _PAGE.replace("```text\none", "```text\nfour")
    with pytest.raises(AssertionError, match=r"page\.md, line 3 prints:\none"):
        run_examples(page, Path("page.md"), {})


@pytest.mark.parametrize(
    ("output", "printed", "is_shown"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("0.96…\n", "0.9649\n", True),
        ("a\n", "a\nb\n", False),
        ("b\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
        ("", "a\n", False),
    ],
)
def test_only_what_a_page_leaves_out_may_differ(output, printed, is_shown):
    assert shows(output, printed) is is_shown

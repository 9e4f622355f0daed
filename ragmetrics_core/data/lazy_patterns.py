"""Regular expressions that are compiled at their first use.

There are hundreds, and a run uses few of them. Compiling them all at import would take
longer than importing the modules that hold them.
"""

import re
from typing import Any, AnyStr, cast


def lazy_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    r"""Return what ``re.compile`` returns, compiled when a method is first called.

    A mistake in the expression is thus raised at that call. A test compiles them all.

    Args:
        expression: The regular expression.
        flags: Flags of ``re``, such as ``re.IGNORECASE``.

    Raises:
        re.error: At the first use, if the expression is invalid.

    Examples:
        >>> YEAR = lazy_pattern(r"1[89]\d\d")
        >>> YEAR.search("It opened in 1874.")[0]
        '1874'
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(expression, flags))


class _LazyPattern:
    """Stands for a pattern, and compiles it when one of its attributes is asked for."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self._expression = expression
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return a pattern's attribute, such as ``search``, and keep it.

        Python calls this only for what the object does not have yet.
        """
        if name.startswith("_"):  # ``copy`` and ``inspect`` ask for such names
            raise AttributeError(name)
        compiled = re.compile(self._expression, self._flags)
        attribute = getattr(compiled, name)
        setattr(self, name, attribute)
        return attribute

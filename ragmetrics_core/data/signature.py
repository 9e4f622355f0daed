"""The signature of a result: what two numbers must share to be comparable."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from ragmetrics_core.data.frozen import Frozen


class Signature(Frozen):
    """What two numbers must share to be comparable; printed as one line, as files of before hold it.

    Example:
        >>> signature = Signature(metric="context_recall", version="1", prompt="21b7c5").by("lexical", {})
        >>> print(signature)
        context_recall|v1|prompt:21b7c5|judge:lexical
        >>> Signature.model_validate(str(signature)) == signature
        True
    """

    metric: str = Field("", description="Name of the metric.")
    version: str = Field("", description="Its version.")
    settings: dict[str, str] = Field(default_factory=dict, description="Its settings that change scores.")
    prompt: str = Field("", description='Digest of its prompts; "" if it has none.')
    judge: str = Field("", description='Name of the judge; "" as long as none is known.')
    details: dict[str, str] = Field(default_factory=dict, description="Settings of the judge that change replies.")

    @model_validator(mode="before")
    @classmethod
    def _of_line(cls, line: Any) -> Any:
        """The fields of a line; the name of a judge may hold anything but a bar."""
        if not isinstance(line, str):
            return line
        metric, *parts = line.split("|")
        found: dict[str, Any] = {"metric": metric, "settings": {}, "details": {}}
        for name, colon, value in (part.partition(":") for part in parts):
            if not colon and name.startswith("v") and "version" not in found:
                found["version"] = name[1:]
            elif name in ("prompt", "judge") and name not in found:
                found[name] = value
            else:
                found["details" if "judge" in found else "settings"][name] = value
        return found

    def by(self, judge: str, details: Mapping[str, str]) -> Self:
        """The signature of what this judge answers."""
        return self.model_copy(update={"judge": judge, "details": dict(details)})

    def parts(self) -> Iterator[tuple[str, str]]:
        """Everything that must be the same, but for the metric's name, by name."""
        version = self.version and f"v{self.version}"
        named = {"version": version, **self.settings, "prompt": self.prompt, "judge": self.judge, **self.details}
        return ((name, value) for name, value in named.items() if value or name in {**self.settings, **self.details})

    def __str__(self) -> str:
        words = (value if name == "version" else f"{name}:{value}" for name, value in self.parts())
        return "|".join([self.metric, *words])

    def __repr__(self) -> str:
        return f"Signature({str(self)!r})"

    def __hash__(self) -> int:
        return hash(str(self))

"""package_contents.py FOLDER: checks what is in the wheels and source archives of a folder, and says what is wrong."""

import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath

PACKAGES = {
    "ragmetrics_core": "ragmetrics_core",
    "langchain_ragmetrics": "langchain_ragmetrics",
    "llama_index_evaluation_ragmetrics": "llama_index/evaluation/ragmetrics",
    "ragmetrics_haystack": "haystack_integrations/components/evaluators/ragmetrics",
}
"""The folder that each distribution puts its code into."""

# What a user of a wheel has no use for; source archives hold their tests.
_TESTS = {"tests", "benchmarks"}
_FOREIGN_PARTS = {"__pycache__", ".venv", ".git", "shared"}
_FOREIGN_SUFFIXES = {".pyc", ".jsonl.partial", ".sqlite"}


def problems_of_folder(folder: Path) -> list[str]:
    """What is wrong with the archives of a folder; an empty list if nothing is."""
    problems: list[str] = []
    versions: set[str] = set()
    for distribution, code_folder in PACKAGES.items():
        wheels = sorted(folder.glob(f"{distribution}-*.whl"))
        source_archives = sorted(folder.glob(f"{distribution}-*.tar.gz"))
        if len(wheels) != 1 or len(source_archives) != 1:
            problems.append(
                f"{distribution}: {len(wheels)} wheels and {len(source_archives)}"
                " source archives, one of each is wanted"
            )
            continue
        (wheel,) = wheels
        (source_archive,) = source_archives
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            metadata = message_from_bytes(archive.read(_metadata_file(names)))
        versions.add(str(metadata["Version"]))
        problems += problems_of_wheel(wheel.name, names, metadata, code_folder)
        with tarfile.open(source_archive) as sources:
            source_names = [_without_first_folder(name) for name in sources.getnames()]
        problems += problems_of_sources(source_archive.name, source_names)
    if len(versions) > 1:
        problems.append(f"the versions differ: {', '.join(sorted(versions))}")
    return problems


def problems_of_wheel(
    wheel: str, names: list[str], metadata: Message, code_folder: str
) -> list[str]:
    """What is wrong with a wheel.

    Args:
        wheel: Its file name.
        names: The files in it.
        metadata: Its metadata.
        code_folder: Where its code belongs.
    """
    foreign = _foreign(names, _FOREIGN_PARTS | _TESTS)
    problems = [f"{wheel}: {name} does not belong there" for name in foreign]
    if f"{code_folder}/py.typed" not in names:
        problems.append(f"{wheel}: no py.typed, so types are lost")
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        problems.append(f"{wheel}: no licence")
    description = str(metadata.get_payload())
    if not description:
        problems.append(f"{wheel}: no description")
    # A package index has no folder that a relative link could lead into.
    for link in re.findall(r"\]\(([^)\s]+)", description):
        if not link.startswith(("https://", "#")):
            problems.append(f"{wheel}: its description has the relative link {link}")
    for field in ("Requires-Python", "License-Expression", "Summary"):
        if not metadata[field]:
            problems.append(f"{wheel}: its metadata lack {field}")
    for name in names:
        is_code = name.startswith(f"{code_folder.partition('/')[0]}/")
        is_metadata = ".dist-info/" in name
        if not is_code and not is_metadata:
            problems.append(f"{wheel}: {name} stands outside of its package")
    return problems


def problems_of_sources(source_archive: str, names: list[str]) -> list[str]:
    """What is wrong with a source archive, from the files in it."""
    problems = [
        f"{source_archive}: {name} does not belong there"
        for name in _foreign(names, _FOREIGN_PARTS)
    ]
    for needed in ("pyproject.toml", "README.md", "LICENSE", "PKG-INFO"):
        if needed not in names:
            problems.append(f"{source_archive}: no {needed}")
    return problems


def _metadata_file(names: list[str]) -> str:
    (metadata_file,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    return metadata_file


def _without_first_folder(name: str) -> str:
    """The path of a file in a source archive, without the folder that holds all."""
    _, _, path = name.partition("/")
    return path


def _foreign(names: list[str], foreign_parts: set[str]) -> list[str]:
    """The files that stand in a folder of such a name, or end as no file of a package."""
    foreign = []
    for name in names:
        path = PurePosixPath(name)
        has_foreign_part = not foreign_parts.isdisjoint(path.parts)
        if has_foreign_part or path.suffix in _FOREIGN_SUFFIXES:
            foreign.append(name)
    return foreign


if __name__ == "__main__":
    found = problems_of_folder(Path(sys.argv[1]))
    lines = [*found, f"{len(PACKAGES)} packages looked into: {len(found)} problems"]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.exit(1 if found else 0)

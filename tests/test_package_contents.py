"""What the release script refuses in wheels and source archives."""

import importlib.util
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

_SCRIPT = Path(__file__).parents[1] / ".ci" / "package_contents.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("package_contents", _SCRIPT)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contents = _load()

_METADATA = (
    "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nSummary: s\n"
    "Requires-Python: >=3.11\nLicense-Expression: Apache-2.0\n\nThe description.\n"
)


def write_archives(
    folder: Path,
    *,
    versions: Mapping[str, str] | None = None,
    change: Callable[[dict[str, str]], None] = lambda files: None,
) -> None:
    """Write good archives of all packages; ``change`` alters the core's wheel."""
    for distribution, code_folder in contents.PACKAGES.items():
        version = (versions or {}).get(distribution, "0.1.0")
        info = f"{distribution}-{version}.dist-info"
        files = {
            f"{code_folder}/__init__.py": "",
            f"{code_folder}/py.typed": "",
            f"{info}/METADATA": _METADATA.format(name=distribution, version=version),
            f"{info}/licenses/LICENSE": "Apache",
        }
        if distribution == "ragmetrics_core":
            change(files)
        wheel = folder / f"{distribution}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        sources = folder / f"{distribution}-{version}.tar.gz"
        with tarfile.open(sources, "w:gz") as tar:
            for name in ("pyproject.toml", "README.md", "LICENSE", "PKG-INFO"):
                entry = tarfile.TarInfo(f"{distribution}-{version}/{name}")
                tar.addfile(entry, io.BytesIO(b""))


def test_good_archives_have_no_problem(tmp_path):
    write_archives(tmp_path)
    assert contents.problems_of_folder(tmp_path) == []


def _add(name: str) -> Callable[[dict[str, str]], None]:
    return lambda files: files.update({name: ""})


def _link(files: dict[str, str]) -> None:
    files["ragmetrics_core-0.1.0.dist-info/METADATA"] += "[gates](docs/gates.md)\n"


def _remove(name: str) -> Callable[[dict[str, str]], None]:
    return lambda files: files.pop(name) and None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_add("ragmetrics_core/tests/test_x.py"), "does not belong there"),
        (_add("ragmetrics_core/__pycache__/x.pyc"), "does not belong there"),
        (_add("conftest.py"), "outside of its package"),
        (_remove("ragmetrics_core/py.typed"), "py.typed"),
        (_remove("ragmetrics_core-0.1.0.dist-info/licenses/LICENSE"), "no licence"),
        (_link, "the relative link docs/gates.md"),
    ],
)
def test_a_fault_in_a_wheel_is_found(tmp_path, change, problem):
    write_archives(tmp_path, change=change)
    problems = contents.problems_of_folder(tmp_path)
    assert problems
    assert all(problem in text for text in problems)


def test_versions_that_differ_and_missing_archives_are_found(tmp_path):
    write_archives(tmp_path, versions={"ragmetrics_haystack": "0.2.0"})
    (problem,) = contents.problems_of_folder(tmp_path)
    assert problem == "the versions differ: 0.1.0, 0.2.0"
    next(tmp_path.glob("langchain_ragmetrics-*.tar.gz")).unlink()
    assert "0 source archives" in "".join(contents.problems_of_folder(tmp_path))

"""Links and pictures of the pages lead into this repository, wherever it lies; a release makes them absolute."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("**/*.md"))
ADAPTERS = sorted((ROOT / "integrations").glob("*/README.md"))
PAGES = [README, *DOCS, *ADAPTERS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]

_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_PATH_OF_A_MACHINE = re.compile(
    r"(?<![\w.])(?:~|/(?:etc|home|mnt|opt|root|tmp|Users|usr|var|work))/"
)


def links(page: Path) -> list[str]:
    """The targets of the links and pictures of a page."""
    return _LINK.findall(_CODE.sub("", page.read_text("utf-8")))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the hosts of repositories write them."""
    headings = _HEADING.findall(_CODE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


def faults(page: Path) -> Iterator[str]:
    """What is wrong with the addresses on a page."""
    for link in links(page):
        path, _, anchor = link.partition("#")
        file = page.parent / path if path else page
        if link.startswith("https://"):
            if "/ragmetrics" in link:
                yield f"{link}: a page of this repository has a relative link"
        elif ":" in path or path.startswith(("/", "~")):
            yield f"{link}: neither https:// nor relative"
        elif not file.is_file():
            yield f"{link}: there is no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{link}: the page has no such heading"
    text = page.read_text("utf-8")
    if "OWNER" in text:
        yield "OWNER is nobody's name"
    for path in _PATH_OF_A_MACHINE.findall(text):
        yield f"{path}: a path of one machine"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_links_and_pictures_lead_to_files_and_headings(page):
    assert list(faults(page)) == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("![Lamp](/home/anna/ragmetrics/lamp.png)", "neither https:// nor relative"),
        (f"[gates]({ROOT}/docs/gates.md)", "neither https:// nor relative"),
        ("[gates](file:docs/gates.md)", "neither https:// nor relative"),
        ("[gates](https://host.example/OWNER/ragmetrics)", "OWNER"),
        ("[gates](https://host.example/a/ragmetrics/blob/main/a)", "relative link"),
        ("[gates](docs/gate.md)", "no such file"),
        ("[gates](docs/gates.md#a-pull-requst)", "no such heading"),
        ("cd /home/anna/ragmetrics", "a path of one machine"),
    ],
)
def test_a_planted_fault_is_found(planted, fault, tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page = tmp_path / "README.md"
    page.write_text(f"# Lamps\n\n{planted}\n", "utf-8")
    assert any(fault in found for found in faults(page))


def test_the_readme_is_short_and_leads_to_every_page():
    assert len(README.read_text("utf-8").splitlines()) <= 160
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(links(README))


@pytest.mark.skipif(sys.platform == "win32", reason="the script is run by bash")
def test_the_first_release_settles_address_and_install_lines(tmp_path):
    if not (ROOT / ".ci").is_dir():
        pytest.skip("a checkout without its CI scripts")
    for folder in (".ci", "docs", "examples", "integrations"):
        ignored = shutil.ignore_patterns("__pycache__", ".venv")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    address = "https://host.example/anna/ragmetrics"
    subprocess.run(["bash", ".ci/address", address], cwd=tmp_path, check=True)

    for page in [README, *ADAPTERS]:
        project_file = tmp_path / page.relative_to(ROOT).with_name("pyproject.toml")
        project = tomllib.loads(project_file.read_text("utf-8"))
        name = project["project"]["name"]
        assert project["project"]["urls"]["Repository"] == address
        assert f"pip install {name}" in (tmp_path / page.relative_to(ROOT)).read_text()
    for file in tmp_path.rglob("*.*"):
        if file.suffix in {".md", ".toml", ".ipynb", ".py"}:
            text = file.read_text("utf-8")
            assert "ragmetrics.invalid" not in text, file
            assert "./ragmetrics" not in text, file
            assert not re.search("(holds a|beside the) clone", text), file
    gates = (tmp_path / "docs" / "gates.md").read_text("utf-8")
    assert "- uses: anna/ragmetrics@v" in gates


def test_contributing_names_what_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    names = re.findall(r"[\w./-]+/[\w./-]*\w|[\w-]+\.(?:py|toml|md)\b", text)
    paths = [name for name in names if "NAME" not in name]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_how_it_works_names_modules_that_exist():
    text = (ROOT / "docs" / "how_it_works.md").read_text("utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(sections) > 8
    for section in sections:
        title, _, table = section.partition("\n")
        packages = [ROOT / "ragmetrics_core" / name for name in _NAME.findall(title)]
        modules = {
            name
            for package in packages
            for file in package.iterdir()
            for name in (file.name, file.stem)
        }
        for row in re.findall(r"^\| .* \| (.*) \|$", table, re.MULTILINE):
            assert set(_NAME.findall(row)) <= modules, row


def test_scripts_of_ci_call_scripts_that_exist():
    files = [
        *filter(Path.is_file, (ROOT / ".ci").iterdir()),
        *(ROOT / ".github").rglob("*.yml"),
        ROOT / "pyproject.toml",
    ]
    named = set()
    for file in files:
        named.update(re.findall(r"\.ci/[\w.]*\w", file.read_text("utf-8")))
    assert {".ci/run", ".ci/nightly", ".ci/matrix"} <= named
    assert [path for path in named if not (ROOT / path).exists()] == []

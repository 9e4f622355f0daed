"""What a newcomer runs first: ``ragmetrics init``, ``demo``, ``trust``."""

import argparse
import os
from importlib.resources import files

from ragmetrics_core.cli.printing import explain_lines, show, show_screen
from ragmetrics_core.cli.run_folders import (
    PAGE,
    RESULTS,
    keep_results,
    new_run_folder,
    tidy,
)
from ragmetrics_core.data import PROJECT_FILE, InputError, read_project_file, write_text
from ragmetrics_core.data.trust import TRUST_VARIABLE, digest_of, trust
from ragmetrics_core.reporting.screen import screen_lines


def init(_: argparse.Namespace) -> int:
    """Write a settings file to edit into the working folder."""
    if os.path.lexists(PROJECT_FILE):  # a link to nothing is somebody's, too
        raise InputError(f"{PROJECT_FILE} exists here, and is yours; it stays as it is")
    write_text(
        PROJECT_FILE,
        files("ragmetrics_core.cli").joinpath(PROJECT_FILE).read_text("utf-8"),
        "the file",
    )
    show(
        f"{PROJECT_FILE} is written; its settings are comments until you edit it. Then:"
        " ragmetrics evaluate FILE"
    )
    return 0


def trust_file(options: argparse.Namespace) -> int:
    """Trust a settings file: from now on it may choose addresses, code and paths.

    The trust holds for the file's content as it is now; after a change it is asked for
    again. What the file chooses is printed, with the digest of the content: a CI job
    trusts the file if its environment holds that digest. Example of what is printed:
    "ragmetrics.toml is trusted as it is now; any change asks again. It chooses: …".

    Returns:
        The exit code, 0.

    Raises:
        InputError: If there is no such file.
    """
    if not options.file.exists():
        raise InputError(f"there is no file {options.file}")
    project_file = read_project_file(options.file)
    settings = project_file.settings
    choices = settings.choices_that_need_trust
    trust(project_file.path, project_file.content)
    lines = [
        f"{project_file.path} is trusted as it is now; any change asks again. It"
        " chooses:"
    ]
    lines += [f"  {choice}" for choice in choices or ["nothing that needs trust"]]
    if settings.code:
        lines.append(
            "What it imports runs as your own code, also where those files change"
            " later."
        )
    lines.append(f"For CI: {TRUST_VARIABLE}={digest_of(project_file.content)}")
    show(*lines)
    return 0


def demonstrate(options: argparse.Namespace) -> int:
    """Run the demonstration and print its report."""
    from ragmetrics_core.demo.answers import demo  # the other commands do without

    report = demo()
    summary = report.summary()
    glance = report.glance()
    page = ""
    folder = None if options.no_files else new_run_folder()
    if folder is not None:
        options.out = options.out or folder / RESULTS
        page = str(folder / PAGE)
        report.to_html(page)
    if options.out:
        report.to_jsonl(options.out)
        if folder is not None:
            keep_results(folder, options.out)
    tidy(folder)
    lines = screen_lines(
        glance, page=page, next_command="ragmetrics evaluate YOUR.jsonl"
    )
    if options.explain:
        lines += explain_lines(glance, summary, report.run)
    show_screen(lines)
    return 0

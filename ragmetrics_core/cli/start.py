"""What a newcomer runs first: ``ragmetrics init``, ``demo``, ``trust``."""

import argparse
import json
import os
from http.client import HTTPConnection, HTTPException
from importlib.resources import files

from ragmetrics_core.cli.printing import explain_lines, show, show_screen
from ragmetrics_core.cli.run_folders import (
    folder_of_run,
    keep_results,
    tidy,
    unless_unasked,
)
from ragmetrics_core.data import InputError, write_text
from ragmetrics_core.data.files import TRUST_VARIABLE, digest_of, trust
from ragmetrics_core.engine.project_file import (
    PROJECT_FILE,
    ProjectSettings,
    read_project_file,
)
from ragmetrics_core.reporting.screen import screen_lines

PORTS_OF_SERVERS = {"Ollama": 11434, "LM Studio": 1234, "vLLM": 8000, "llama.cpp": 8080}
"""The usual ports of servers of models on this machine."""
_SECONDS = 0.5  # that a server of this machine has to name its models
_MOST_BYTES = 2**20
_NO_JUDGES = ("embed", "rerank")  # parts of the names of models that cannot chat
_JUDGE_OF_TEMPLATE = """\
# judge = "openai-compatible/my-model"
# api_base = "http://127.0.0.1:8000/v1" """


def init(_: argparse.Namespace) -> int:
    """Write a settings file to edit into the working folder.

    A server of models that answers at its usual port of this machine is its judge.
    """
    if os.path.lexists(PROJECT_FILE):  # a link to nothing is somebody's, too
        raise InputError(f"{PROJECT_FILE} exists here, and is yours; it stays as it is")
    text = files("ragmetrics_core.cli").joinpath(PROJECT_FILE).read_text("utf-8")
    what_it_chooses = "its settings are comments until you edit it"
    for server, port in PORTS_OF_SERVERS.items():
        judge = _judge_at(port)
        if judge:
            address = f"http://127.0.0.1:{port}/v1"
            settings = f'judge = "{judge}"\napi_base = "{address}" '
            text = text.replace(_JUDGE_OF_TEMPLATE, settings)
            what_it_chooses = (
                f"its judge is {judge} at {address}, where {server} usually answers; all"
                " else are comments until you edit it"
            )
            break
    write_text(PROJECT_FILE, text, "the file")
    show(
        f"{PROJECT_FILE} is written; {what_it_chooses}. Then: ragmetrics evaluate FILE"
    )
    return 0


def _judge_at(port: int) -> str:
    """The name of a judge that a server of this machine offers; "" where none answers.

    Nothing but the question for its models is sent, no proxy is asked, and no redirect
    followed.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", "/v1/models")
        response = connection.getresponse()
        if response.status != 200:
            return ""
        models = json.loads(response.read(_MOST_BYTES))["data"]
        names = [f"openai-compatible/{model['id']}" for model in models]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return ""  # nothing answers, or another kind of server
    finally:
        connection.close()
    for name in names:
        is_code = bool(ProjectSettings(judge=name).code)
        if not is_code and not any(part in name.lower() for part in _NO_JUDGES):
            return name
    return ""


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
    content, settings = read_project_file(options.file)
    choices = settings.choices_that_need_trust
    trust(options.file, content)
    lines = [
        f"{options.file} is trusted as it is now; any change asks again. It chooses:"
    ]
    lines += [f"  {choice}" for choice in choices or ["nothing that needs trust"]]
    if settings.code:
        lines.append(
            "What it imports runs as your own code, also where those files change"
            " later."
        )
    lines.append(f"For CI: {TRUST_VARIABLE}={digest_of(content)}")
    show(*lines)
    return 0


def demonstrate(options: argparse.Namespace) -> int:
    """Run the demonstration and print its report."""
    from ragmetrics_core.demo import demo_report  # the other commands do without

    report = demo_report()
    summary = report.summary()
    glance = report.glance()
    options.report = None
    folder = folder_of_run(options)
    if options.out:
        with unless_unasked(options, "out"):
            report.to_jsonl(options.out)
    if folder is not None:
        keep_results(folder, options.out)
    if options.report:
        with unless_unasked(options, "report"):
            report.to_html(options.report)
    tidy(folder)
    lines = screen_lines(
        glance,
        page=str(options.report or ""),
        next_command="ragmetrics evaluate YOUR.jsonl",
    )
    if options.explain:
        lines += explain_lines(glance, summary, report.run)
    show_screen(lines)
    return 0

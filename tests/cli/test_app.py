"""What the command line says, on a terminal and elsewhere."""

import importlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from study_files import TIMEOUT, cli, fresh, small_study
from wardround import __version__
from wardround.cli import results
from wardround.cli.app import COMMAND, HOME, app
from wardround.methods import METHODS

FIGURES = r"accuracy 0\.\d{4}, macro_f1 0\.\d{4}, loss \d\.\d{4}"


def on_a_terminal(*arguments: object, cwd: Path) -> str:
    """All that `wardround …` shows on a terminal of 140 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "140", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "wardround", *map(str, arguments)]
    with subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown, end = b"", time.monotonic() + TIMEOUT
        while select.select([ours], [], [], max(end - time.monotonic(), 0))[0]:
            try:
                shown += os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                break
        else:
            process.kill()
        os.close(ours)
        assert 0 == process.wait(TIMEOUT)
    return shown.decode()


def test_ctrl_c_while_torch_is_imported_ends_it_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "wardround", "run", str(small_study(tmp_path))]
    reset = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # it may be ignored here
    (tmp_path / "sitecustomize.py").write_text(reset, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        assert any("torch" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    assert (-signal.SIGINT, "") == (process.returncode, out)
    assert all(line.startswith("import time:") for line in err.splitlines()[:-1])  # the last may be cut off


HEAVY = ("torch", "numpy", "scipy", "sklearn", "tokenizers", "wardround.study.load", "wardround.formats.check")
MEGABYTES = 100


EVERY = [
    [part.replace("_", "-") for part in path.relative_to(HOME).with_suffix("").parts]
    for path in sorted(HOME.rglob("*.py"))
    if COMMAND.search(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    "asked",
    [
        [["--help"]], [["--version"]], [["site", "--help"]], [["runn"]], [["methods"], ["settings"]],
        [[*words, "--help"] for words in EVERY],
    ],
    ids=["help", "version", "group", "mistyped", "lists", "every command"],
)  # fmt: skip
def test_help_and_lists_import_nothing_that_works(asked: list[list[str]]) -> None:
    lines = (
        "import atexit, re, sys; from pathlib import Path; from wardround.__main__ import main",
        f"heavy = lambda: [name for name in {HEAVY} if name in sys.modules]",
        "peak = lambda: int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024",
        "atexit.register(lambda: print(heavy(), peak()))",
        f"for sys.argv[1:] in {asked}:",
        "    try: main()",
        "    except SystemExit: pass",
    )
    ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    heavy, peak = ended.stdout.splitlines()[-1].rsplit(maxsplit=1)
    assert ("[]", True) == (heavy, int(peak) < MEGABYTES)


def test_the_version_is_told() -> None:
    ended = fresh("--version", cwd=Path.cwd())
    assert (0, f"wardround {__version__}\n", "") == (ended.code, ended.out, ended.err)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("wardround r", {"report", "restore", "run"}),
        ("wardround site a", {"approve", "audit"}),
        ("wardround run --res", {"--resume"}),
    ],
)
def test_a_shell_completes_commands_and_options(line: str, names: set[str]) -> None:
    words = line.split()
    asked = {"_WARDROUND_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ended = subprocess.run(
        [sys.executable, "-m", "wardround"],
        capture_output=True, text=True, check=False, env={**os.environ, **asked},
    )  # fmt: skip
    assert names == set(ended.stdout.split())


def test_completion_can_be_installed_for_bash(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "wardround", "--install-completion", "bash"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert "_WARDROUND_COMPLETE=complete_bash" in (tmp_path / ".bash_completions" / "wardround.sh").read_text()
    assert ".bash_completions" in (tmp_path / ".bashrc").read_text()


def test_every_command_says_what_it_does() -> None:
    """The list is read off the files; each must import and say the same."""
    for path in sorted(HOME.rglob("*.py")):
        words = ["" if part == "__init__" else part for part in path.relative_to(HOME).with_suffix("").parts]
        module = importlib.import_module(".".join(["wardround", "cli", *filter(None, words)]))
        line = COMMAND.search(path.read_text(encoding="utf-8"))
        assert hasattr(module, "command") == (line is not None)
        assert line is None or line[1] == module.command.__doc__.splitlines()[0]


@pytest.mark.parametrize("asked", [["model"], ["model", "assemble"]])
def test_brackets_in_a_help_text_are_no_markup(asked: list[str]) -> None:
    shown = CliRunner().invoke(app, [*asked, "--help"], env={"COLUMNS": "200"}).stdout
    assert "`[sites] private`" in " ".join(shown.split())


def test_the_command_tells_what_it_can_do(tmp_path: Path) -> None:
    ended = fresh("--help", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    for command in ("run", "methods", "protocol"):
        assert re.search(rf"^\W*{command}\s+\w", ended.out, re.MULTILINE)


def test_run_tells_its_options_but_not_the_hidden_ones(tmp_path: Path) -> None:
    told = cli("run", "--help", cwd=tmp_path).out
    options = set(re.findall(r"--[a-z-]+", told))
    assert {"--set", "--out", "--workers", "--resume", "--quiet", "--strict", "--traceback", "--help"} <= options
    assert set() == options & {"--beside", "--checkpoint-seconds"}


def test_methods_lists_each_method_with_one_line(tmp_path: Path) -> None:
    ended = cli("methods", cwd=tmp_path)
    lines = [line.split(maxsplit=1) for line in ended.out.splitlines()[1 : 1 + len(METHODS)]]
    expected = {name: (entry.kind.__doc__ or "").partition("\n")[0] for name, entry in METHODS.items()}
    expected |= {
        name: f"{entry.kind.__name__} with " + ", ".join(f"{key} = {value}" for key, value in entry.settings.items())
        for name, entry in METHODS.items()
        if entry.settings
    }
    assert expected == {name: about.strip() for name, about in lines}
    assert all(about for _, about in lines)
    assert 'your own: name = "my_module:MyMethod" in the study file\'s [method]' == ended.out.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", [["rn"], ["run"], ["run", "study.toml", "--worker", "1"], ["run", "study.toml", "--workers", "0"]]
)
def test_a_mistake_in_the_command_is_answered_with_code_2(tmp_path: Path, arguments: list[str]) -> None:
    small_study(tmp_path)
    ended = cli(*arguments, cwd=tmp_path)
    assert (2, "") == (ended.code, ended.out)
    assert "Traceback" not in ended.err


def test_elsewhere_than_on_a_terminal_progress_is_plain_lines(tmp_path: Path) -> None:
    ended = cli("run", small_study(tmp_path), "--out", "run", "--workers", 1, cwd=tmp_path)
    first, *lines = ended.err.splitlines()
    assert "small: reading the data" == first
    assert all(re.fullmatch(r"small: round \d/3  accuracy 0\.\d{4}  0\.\d\d MB up", line) for line in lines)
    assert lines[-1].startswith("small: round 3/3 ")
    assert "\x1b" not in ended.out + ended.err


def test_quiet_prints_only_the_result(tmp_path: Path) -> None:
    ended = cli("run", small_study(tmp_path), "--out", "run", "--workers", 1, "--quiet", cwd=tmp_path)
    first, second = ended.out.splitlines()
    assert ("", "the run is in run, the model in run/model") == (ended.err, second)
    assert re.fullmatch(f"all rounds done: {FIGURES}", first)


def test_a_run_ends_with_a_report_unless_told_otherwise(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    ended = cli("run", path, "--out", "run", "--workers", 1, "--quiet", cwd=tmp_path, report=True)
    assert (0, "") == (ended.code, ended.err)
    assert "the report is in run/report.html" in ended.out.splitlines()
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    cli("run", path, "--out", "other", "--workers", 1, "--quiet", cwd=tmp_path)
    assert not (tmp_path / "other" / "report.html").exists()


def test_a_long_path_with_brackets_is_printed_whole_and_unchanged(tmp_path: Path) -> None:
    out = tmp_path / f"[red]:warning: {'long ' * 20}[/red]"
    ended = cli("run", small_study(tmp_path), "--out", out, "--workers", 1, "--quiet", cwd=tmp_path)
    assert f"the run is in {out}, the model in {out / 'model'}" == ended.out.splitlines()[1]
    again = cli("run", small_study(tmp_path), "--out", out, "--workers", 1, "--quiet", cwd=tmp_path)
    assert f"{out} holds a run already; go on with --resume, or choose another --out\n" == again.err


def test_a_missing_file_of_vectors_is_one_message(tmp_path: Path) -> None:
    corpus = {"name": "clinic-bags", "hospitals": 2, "sentences": 9}
    whole = {"batch": 16}  # so that nothing is said of what a rate of one's own leaves open
    path = small_study(tmp_path, corpus=corpus, task={"name": "bags", "vectors": "none.npz"}, method=whole, stop=None)
    ended = cli("run", path, cwd=tmp_path)
    progress, _, message = ended.err.partition("\n")
    assert "small: reading the data" == progress
    assert (2, f"{path}: 1 problem\n  {tmp_path}/none.npz: no such file\n") == (ended.code, message)


def test_a_grids_progress_elsewhere_is_plain_lines_too(tmp_path: Path) -> None:
    ended = cli("run", small_study(tmp_path, seeds=[1, 2]), "--out", "grid", "--workers", 2, cwd=tmp_path)
    lines = ended.err.splitlines()
    assert all(re.match(r"\d/2 cells done(, about \d+:\d\d(:\d\d)? left)?(; |$)", line) for line in lines)
    assert lines[-1].startswith("2/2 cells done")
    assert "\x1b" not in ended.out + ended.err


def test_on_a_terminal_a_bar_shows_the_round_the_metric_and_the_time_left(tmp_path: Path) -> None:
    shown = on_a_terminal("run", small_study(tmp_path, rounds=200), "--workers", 1, "--no-report", cwd=tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    bars = re.findall(r"small ━+\S* +(\d+)/200 (accuracy 0\.\d{4})  \d\.\d\d MB up 0:00:\d\d left (\S+)", plain)
    assert "200" == bars[-1][0]
    assert any(re.fullmatch(r"0:\d\d:\d\d", left) for _, _, left in bars)
    assert re.search(f"all rounds done: {FIGURES}", plain)
    assert shown != plain


@pytest.mark.parametrize(
    ("metrics", "words"), [({"accuracy": 0.5, "examples": 7.0}, "accuracy 0.5000"), ({}, "there is no figure")]
)
def test_a_run_whose_sites_withheld_every_figure_does_not_end_in_a_colon(metrics: dict[str, float], words: str) -> None:
    assert words == results._figures(metrics)


def test_a_run_says_what_a_rate_of_ones_own_leaves_open(tmp_path: Path) -> None:
    corpus = {"name": "clinic-bags", "hospitals": 2, "sentences": 9, "test_sentences": 9}
    path = small_study(tmp_path, corpus=corpus, task={"name": "bags", "buckets": 64, "filters": 4}, rounds=1, stop=None)
    ended = cli("run", path, "--workers", 1, cwd=tmp_path)
    said = "in the study: method.lr is given, so what suits the model is not filled in beside it: batch = 10; measured"
    assert (0, True) == (ended.code, ended.err.startswith(said))

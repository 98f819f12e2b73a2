"""The benchmark runs and prints every ratio; how long anything takes is never asserted."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nursery import start as started
from study_files import Ended, script

FOLDER = Path(__file__).parents[1] / "benchmarks"


def ratios(text: str) -> dict[str, list[str]]:
    """By case, who has a ratio to the bare loop."""
    results: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.fullmatch(r"\w+", line):
            results[line] = []
        elif match := re.match(r"  (.+?) +[\d,]+ µs +\d+\.\d\d × bare  \[\d+\.\d\d – \d+\.\d\d\]", line):
            results[list(results)[-1]].append(match[1])
    return results


def benchmark(name: str, *options: str) -> Ended:
    """In a process that starts those that it measures by itself."""
    command = [sys.executable, str(FOLDER / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_overhead_prints_the_ratios_of_both_cases_and_writes_them_down(tmp_path: Path) -> None:
    ended = script(FOLDER / "overhead.py", "--quick", "--json", tmp_path / "times.json", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err if ended.code else "")
    cases = ratios(ended.out)
    assert ["tiny", "lstm"] == list(cases)
    for who in cases.values():
        assert ["serial", "two workers"] == who[:2]
    for peer in ("pfl", "Flower"):  # a ratio, or how to get one
        assert 2 == len(re.findall(rf"^  {peer} .*(?:× bare|pip install)", ended.out, re.MULTILINE))
    times = json.loads((tmp_path / "times.json").read_text())["cases"]
    assert {"bare", "serial", "two workers"} <= times["tiny"].keys() & times["lstm"].keys()
    assert all(who["ratio"] > 0 for case in times.values() for who in case.values())


@pytest.mark.parametrize(
    ("options", "message"), [(("--only", "huge"), "invalid choice"), (("--repeats", "0"), "use 1 or more")]
)
def test_overhead_says_what_is_wrong_with_an_option(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    ended = script(FOLDER / "overhead.py", *options, cwd=tmp_path)
    assert (2, True) == (ended.code, message in ended.err)


def test_the_relation_model_has_its_ratios_too(tmp_path: Path) -> None:
    ended = script(FOLDER / "relation.py", "--quick", "--batch", 2, "--json", tmp_path / "ratios.json", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err if ended.code else "")
    names = ["engine / bare", "cached / plain", "cached / frozen, not cached", "grouped / fixed length"]
    content = json.loads((tmp_path / "ratios.json").read_text())
    assert names == list(content)
    assert all(case["ratio"] > 0 and name in ended.out for name, case in content.items())
    assert [1.05, 0.35, None, None] == [case["aim"] for case in content.values()]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("exchanges.py", ["--quick"], r"  (?:paper|small) +bare +[\d.]+ ms per exchange   engine [\d.]+ × bare"),
        (
            "chain.py",
            ["--quick"],
            r"  [\w ,]+ +[\d.]+ notes/s   [\d.]+ × as fast as before   [\d.]+ × the bare products",
        ),
        ("crf.py", ["--repeats", "1"], r"(?:loss|paths) +pytorch-crf +[\d.]+ ms   ours +[\d.]+ ms +[\d.]+ × as fast"),
    ],
)
def test_the_benchmarks_of_taggers_and_chains_agree_on_the_work_and_print_their_ratios(
    name: str, options: list[str], message: str, tmp_path: Path
) -> None:
    ended = script(FOLDER / name, *options, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err if ended.code else "")
    assert {"exchanges.py": 2, "chain.py": 4, "crf.py": 6}[name] == len(re.findall(message, ended.out))


def test_an_exchange_across_sites_is_measured_over_real_processes(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    printed = tmp_path / "printed"
    with printed.open("wb") as output:
        command = [str(FOLDER / "exchange.py"), "--noops", "2", "--megabytes", "1", "--minute", "0.5"]
        code = started(command, os.environ, output).wait(600)
    out = printed.read_text(encoding="utf-8")
    assert (0, "") == (code, out if code else "")
    for words in (
        r"^load [\d.]+ on \d+ cores$",
        r"^start to first exchange, three sites: [\d.]+ s$",
        r"^no-op, three sites: median \d+ ms, quartiles \d+ – \d+ ms \(aim ≤ 300 ms\); [\d.]+ × unsealed$",
        r"^1 MB each way, 1 site\(s\): [\d.]+ s; [\d.]+ × unsealed$",
        r"^1 MB each way, 3 site\(s\): [\d.]+ s; [\d.]+ × unsealed$",
        r"^a FedNER minute \(2.6 MB each way, three sites\): \d+ exchanges; [\d.]+ × unsealed$",
    ):
        assert 1 == len(re.findall(words, out, re.MULTILINE)), words
    kinds = re.findall(r"^memory of (\w+): \d+ MB now, \d+ MB at most$", out, re.MULTILINE)
    once, thrice = ["server_train", "switchboard"], ["client_train", "runner_process", "worker_process"]
    assert sorted([*once, *thrice * 3]) == sorted(kinds)


def test_lazy_mil_and_a_bare_loop_end_with_the_same_weights_and_there_is_a_ratio(tmp_path: Path) -> None:
    """The script stops if they do not."""
    ended = script(FOLDER / "lazy_mil.py", "--quick", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err if ended.code else "")
    assert re.search(r"serial [\d,]+ ms a round   \d+\.\d\d × bare  \[", ended.out)


def test_starting_prints_what_each_start_and_one_more_cell_take() -> None:
    ended = benchmark("starting.py", "--repeats", "1", "--cells", "2")
    assert (0, "") == (ended.code, ended.err if ended.code else "")
    for start in ("--version", "--help", "run --help", "a mistyped study"):
        assert re.search(rf"^{start} .* CPU .* MB .* × python -c pass$", ended.out, re.MULTILINE)
    assert re.search(r"each further cell -?\d+\.\d\d s$", ended.out, re.MULTILINE)


def test_encoders_are_compared_with_transformers_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    ended = script(FOLDER / "encoders.py", "--quick", "--batch", 2, "--json", tmp_path / "ratios.json", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err if ended.code else "")
    content = json.loads((tmp_path / "ratios.json").read_text())
    tasks = ("relation", "tagging", "classification")
    assert {f"{task} 64, {how}" for task in tasks for how in ("all trained", "2 cached")} <= content.keys()
    assert {"predict classification", "predict tagging", "trunk together", "evaluation by tokens"} <= content.keys()
    assert all(case["ratio"] > 0 for case in content.values())

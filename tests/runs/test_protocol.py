"""What leaves a hospital is pinned down: `wardround protocol METHOD` prints the golden file, or a review looks.

WARDROUND_UPDATE_GOLDEN=1 pytest tests/test_protocol.py     # rewrite tests/golden/protocol after a change that is meant
"""

import os
import sys
from pathlib import Path

import pytest
import tomli_w

from study_files import write_module
from wardround.cli.app import main
from wardround.methods import METHODS
from wardround.runs.exchanges import rows
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal, rehearsed, toy
from wardround.study.load import cells, load_study

GOLDEN = Path(__file__).parents[1] / "golden" / "protocol"
WIDTH = 200

ASKS_LATER = '''
from dataclasses import dataclass

from wardround.extend import Cohort, FedAvg, Global


@dataclass(frozen=True, kw_only=True)
class Curious(FedAvg):
    """Totals at first, and looks at each site from the second round on."""

    def round(self, state: Global, cohort: Cohort) -> Global:
        if cohort.round > 1:
            cohort.ask(self.fit, state)
        return super().round(state, cohort)
'''


SUM_ONLY = """
from dataclasses import dataclass

from wardround.extend import Layer


@dataclass(frozen=True)
class SumOnly(Layer):
    only_sums = "a test says so"
"""


@pytest.fixture(autouse=True)
def _same_width_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal, no colours, one width."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a `wardround` command."""
    with pytest.raises(SystemExit) as end:
        main([*arguments])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), "".join(f"{line.rstrip()}\n" for line in out.splitlines()), err


@pytest.mark.parametrize("method", METHODS)
def test_what_leaves_a_hospital_is_what_was_reviewed(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The print-out equals the golden file, to the letter."""
    code, out, _ = printed(capsys, "protocol", method)
    path = GOLDEN / f"{method}.txt"
    if os.environ.get("WARDROUND_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(out, encoding="utf-8")
    assert path.exists(), f"no golden file for {method}; read the module's docstring"
    assert (0, path.read_text(encoding="utf-8")) == (code, out)


@pytest.mark.parametrize("method", ["fedcmc", "fedner", "lazy-mil"])
def test_where_only_sums_are_seen_another_form_leaves_a_hospital(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its steps are in the print-out, and no reply is seen alone."""
    write_module(tmp_path, SUM_ONLY, "sum_only")
    given = rehearsal(METHODS[method].kind.rehearsal)
    tables = {
        "name": method,
        "rounds": 2,
        "method": {"name": method},
        **given,
        "layers": [{"name": "sum_only:SumOnly"}],
    }
    (tmp_path / "study.toml").write_text(tomli_w.dumps(tables), encoding="utf-8")
    code, out, _ = printed(capsys, "protocol", str(tmp_path / "study.toml"))
    path = GOLDEN / f"{method}-in-sums.txt"
    if os.environ.get("WARDROUND_UPDATE_GOLDEN"):
        path.write_text(out, encoding="utf-8")
    assert (0, path.read_text(encoding="utf-8")) == (code, out)
    assert {"", "sum"} == {row.seen for row in rows(rehearsed(load_study(tmp_path / "study.toml")[0].study))}


def test_there_is_no_golden_file_too_many() -> None:
    """Each belongs to a method."""
    assert set(METHODS) == {path.stem.removesuffix("-in-sums") for path in GOLDEN.iterdir()}


def test_centralised_says_why_it_only_runs_inline(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no protocol by which notes may leave."""
    code, out, _ = printed(capsys, "protocol", "centralised")
    actual = " ".join(out.split())
    assert 0 == code
    assert "It runs only in a simulation" in actual
    assert "on real sites every note would have to leave" in actual


def test_a_wrong_name_ends_with_the_nearest_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a remedy, on the error stream alone."""
    code, out, err = printed(capsys, "protocol", "fedavgg")
    assert (2, "") == (code, out)
    assert "method.name = 'fedavgg' is unknown; did you mean 'fedavg'?" in err


@pytest.mark.parametrize("method", [name for name in METHODS if name != "centralised"])
def test_every_byte_of_every_message_is_on_the_list(method: str) -> None:
    """Per exchange, the rows' bytes add up to what is sent."""
    seen = rehearsed(toy(method))
    for exchange in seen:
        told = rows([exchange])
        for direction, message in (("to site", exchange.message), ("from site", exchange.reply)):
            listed = [row.bytes for row in told if row.direction == direction]
            assert len(message.encode()) == sum(listed)


def test_a_study_is_rehearsed_with_its_own_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a setting adds to the protocol is printed for the study that sets it."""
    study = tmp_path / "by-size.toml"
    tables = ('name = "by-size"', "rounds = 1", "method = { name = 'feddyn', by_size = true }",
              "task = { name = 'features' }", "corpus = { name = 'synthetic', sites = 2, largest = 20 }")  # fmt: skip
    study.write_text("\n".join(tables), encoding="utf-8")
    code, out, _ = printed(capsys, "protocol", "feddyn", "--study", str(study))
    assert 0 == code
    assert {"measure", "fit", "evaluate"} == {line.split()[0] for line in out.splitlines() if " from site " in line}
    assert (0, out, "") == printed(capsys, "protocol", str(study))
    assert 2 == printed(capsys, "protocol", str(study), "--study", str(study))[0]
    study.write_text("\n".join(["seeds = [0, 1]", *tables]), encoding="utf-8")
    assert "the first of the 2 runs of this grid: seed=0" in printed(capsys, "protocol", str(study))[1]


def test_a_look_at_single_sites_shows_even_after_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is first summed and later asked is listed as both."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "curious.py").write_text(ASKS_LATER, encoding="utf-8")
    (tmp_path / "study.toml").write_text(
        'name = "curious"\nrounds = 2\nmethod = { name = "curious:Curious" }\ntask = { name = "features" }\n'
        'corpus = { name = "synthetic", sites = 2, largest = 20 }\n',
        encoding="utf-8",
    )
    try:
        actual = rows(rehearsed(load_study(tmp_path / "study.toml")[0].study))
    finally:
        sys.modules.pop("curious", None)
    changes = [row.seen for row in actual if (row.step, row.field) == ("fit", "change")]
    assert ["sum", "each"] == changes


def test_what_is_rehearsed_is_not_told_as_if_it_were_a_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """How many rows a rehearsal has says nothing of a study's; what a Gram matrix tells stands in the table."""
    code, out, err = printed(capsys, "protocol", "ridge")
    assert (0, "", []) == (code, err, caplog.messages)
    assert "a Gram matrix: whoever has a candidate text" in " ".join(out.split())
    run(
        cells({"name": "r", "rounds": 1, "method": {"name": "ridge"}, **rehearsal("features")})[0].study, tmp_path / "r"
    )
    assert any("rows at all sites together" in line for line in caplog.messages)  # of a run it is told as before

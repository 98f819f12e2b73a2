"""`studies/bits.py` tells whether two trees give the same bits."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "studies" / "bits.py"
STUDY = "rehearsal.toml"


def bits(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """Run the script as the command line does; the code it ends with."""
    monkeypatch.setattr(sys, "argv", ["bits.py", *map(str, arguments), "--only", STUDY])
    for name in ("NYT10", "MIRGENE", "WARDROUND_CACHE"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever the script sets
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_same_code_gives_the_same_bits_and_other_weights_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there is not run again, and a moved setting alone is no difference."""
    before, again = tmp_path / "before.json", tmp_path / "again.json"
    assert 0 == bits(monkeypatch, "write", before)
    assert 0 == bits(monkeypatch, "compare", before, "--again", again)
    assert "1 cells, 1 run: the same bits" in capsys.readouterr().out
    written = json.loads(before.read_text())
    (cell,) = written["cells"].values()
    cell["fingerprint"] = "another"
    before.write_text(json.dumps(written))
    assert 0 == bits(monkeypatch, "compare", before, "--again", again)
    assert f"{STUDY}: another fingerprint, the same bits (1 cells)" == capsys.readouterr().out.splitlines()[0]
    cell["model"] = "another"
    before.write_text(json.dumps(written))
    assert 1 == bits(monkeypatch, "compare", before, "--again", again)
    assert f"{STUDY}#0 : fingerprint, model" == capsys.readouterr().out.splitlines()[0]

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


def test_one_cell_of_every_file_comes_before_the_second_of_any() -> None:
    """Fewer cells are some of those that would be run without a limit."""
    script = runpy.run_path(str(SCRIPT))
    keys = {most: [key for key, _, _ in script["wanted"]("flcmc/*", most)] for most in (1, 2, 3, script["CELLS"])}
    files = [path.relative_to(SCRIPT.parent).as_posix() for path in sorted((SCRIPT.parent / "flcmc").glob("*.toml"))]
    assert [f"{name}#0" for name in files] == keys[1] == keys[6][: len(files)]
    assert len(keys[1]) < len(keys[2]) < len(keys[3]) < len(keys[6])
    assert set(keys[2]) | set(keys[3]) <= set(keys[6])

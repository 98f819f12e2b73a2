"""NVFlare is an extra: without it everything works that needs no other machine, and the rest says what to install."""

import json
import os
import subprocess
import sys
from pathlib import Path

from study_files import small_study

BLOCKED = """
import importlib, json, pkgutil, sys
sys.modules["nvflare"] = None  # whoever imports it gets an ImportError
import wardround
from wardround.cli.app import main

failed = []
for module in pkgutil.walk_packages(wardround.__path__, "wardround."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError:
            failed.append(module.name)
codes = []
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as ended:
        codes.append(ended.code or 0)
print(json.dumps({"failed": failed, "codes": codes}))
"""


def test_only_what_speaks_to_other_machines_needs_nvflare(tmp_path: Path) -> None:
    study, out = str(small_study(tmp_path)), tmp_path / "run"
    (tmp_path / "site.toml").write_text('name = "a"\n[data]\nfrom_study = true\n')
    commands = [
        ["run", study, "--out", str(out)],
        ["consortium", "new", "x", "a", "--address", "h", "--out", str(tmp_path / "x")],
        ["consortium", "rehearse", study, "--out", str(tmp_path / "y")],
        ["coordinator", "start", str(tmp_path)],
        ["site", "start", str(tmp_path)],
    ]
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED, json.dumps(commands)],
        capture_output=True, text=True, timeout=300, check=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    told = json.loads(ended.stdout.splitlines()[-1])
    assert {"failed": ["wardround.engines.flare"], "codes": [0, 2, 2, 2, 2]} == told
    assert (out / "model" / "weights.safetensors").exists()
    assert 4 == ended.stderr.count("this needs NVFlare; install it with: pip install 'wardround[flare]'")
    assert not (tmp_path / "x").exists()

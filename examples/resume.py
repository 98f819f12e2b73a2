"""A run that is killed goes on where it was, and ends with the same bits as one that was not.

    python examples/resume.py [FOLDER]

The command line does the same: `wardround run study.toml`, then after anything `wardround run study.toml --resume`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import wardround

STUDY = """
name = "interrupted"
rounds = 12
corpus = { name = "synthetic", sites = 3, largest = 60 }
task = { name = "features" }
method = { name = "scaffold", lr = 0.05 }
"""


def main(folder: Path) -> None:
    """Start a run, kill it, go on, and compare with a run in one go."""
    study = folder / "study.toml"
    study.write_text(STUDY, encoding="utf-8")
    command = ["run", str(study), "--out", str(folder / "killed"), "--workers", "1", "--checkpoint-seconds", "0"]
    with subprocess.Popen([sys.executable, "-m", "wardround", *command]) as process:
        while not list(folder.glob("killed/checkpoints/round-*3.checkpoint")) and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    written = (folder / "killed" / "journal.jsonl").read_text(encoding="utf-8").count("\n")
    print(f"killed when {written} rounds were written")

    again = wardround.run(study, folder / "killed", resume=True, report=False)
    whole = wardround.run(study, folder / "whole", report=False)
    weights = [(result.folder / "model" / "weights.safetensors").read_bytes() for result in (again, whole)]
    print(f"{again.rounds} rounds; the same bits: {weights[0] == weights[1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

"""Sites that keep their label counts to themselves: zeros leave, training goes on, and the run says so."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from loopback import OPEN, Exchange
from wardround.consortium.submit import submit
from wardround.runs.build import build
from wardround.study.load import Study, cells
from wardround.trained.about import WEIGHTS

CORPUS = {"name": "clinic", "hospitals": 3, "documents": 30, "test_documents": 4}


def made(**privacy: Any) -> Study:
    task = {"name": "classification", "buckets": 256}
    tables = {"name": "m", "rounds": 1, "method": {"name": "fedavg"}, "task": task, "corpus": CORPUS, **privacy}
    return cells(tables)[0].study


def balance(study: Study, folder: Path, *consent: str) -> list[float]:
    """How much each class counts, in the model of a run over sites with this consent."""
    names = build(study, folder / "names").sites.names
    with Exchange(folder / "x", study, names, consent=(*OPEN, *consent)) as exchange:
        submit(study, folder / "run", exchange.over)
    return load_file(folder / "run" / "model" / WEIGHTS)["balance"].tolist()


@pytest.mark.parametrize("privacy", [{}, {"privacy": {"secure_aggregation": True}}], ids=["plain", "masked"])
def test_sites_tell_of_labels_unless_their_consent_says_no(
    privacy: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = made(**privacy)
    assert max(balance(study, tmp_path / "told")) > 0
    assert "no labels were told" not in caplog.text
    assert [0.0] * 6 == balance(study, tmp_path / "kept", "label_counts = false")
    assert "of 90 of 90 training texts no labels were told" in caplog.text

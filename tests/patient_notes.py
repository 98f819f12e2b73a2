"""Two sites with notes of twenty patients each, a study with differential privacy, and one ask of a coordinator.

write_notes(tmp_path)
place = site_folder(tmp_path, "site-0", study_of(), *budget(5.0), data=DATA)
fault(SiteProcess(place), study_of())              # None, or the code of a refusal
"""

from pathlib import Path
from typing import Any

from loopback import ask, first_weights, put
from wardround.consortium.private_site import JOURNAL
from wardround.consortium.site_process import SiteProcess
from wardround.core.method import Global
from wardround.layers.ledger import lines
from wardround.study.load import Study, cells

SITES = ("site-0", "site-1")
DATA = ('format = "csv"', 'train = "train.csv"', 'test = "test.csv"')
CONSENT = ("[consent]", "smallest_count = 0", "least_examples = 0")


def budget(epsilon: float, delta: float = 1e-2) -> tuple[str, ...]:
    return (*CONSENT, "[budget]", f"epsilon = {epsilon}", f"delta = {delta}")


def study_of(
    *,
    rounds: int = 2,
    seed: int = 0,
    dp: dict[str, Any] | None = None,
    method: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    public: dict[str, Any] | None = None,
    **privacy: Any,
) -> Study:
    tables = {
        "name": "s", "rounds": rounds, "seed": seed, "method": method or {"name": "fedavg", "lr": 0.5, "batch": 10},
        "corpus": {"format": "csv", "train": "x", "test": "x", "labels": ["causes", "stops"]},
        "task": {"name": "classification", "tokens": "words", "buckets": 50, "class_weights": "none", **(model or {})},
        "evaluation": {"every": rounds}, "sites": {"quorum": 1},
    }  # fmt: skip
    tables |= {"public": public} if public else {}
    terms = {"epsilon": 4.0, "delta": 1e-3, "unit": "patient"} if dp is None else dp
    return cells({**tables, "privacy": {"dp": terms, **privacy}} if terms else tables)[0].study


def write(folder: Path, split: str, first: int, count: int, patients: int = 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    labels = ("causes", "stops")
    rows = "".join(
        f"rash {n % 9} {labels[n % 2]},{labels[n % 2]},{split}{n % patients}\n" for n in range(first, first + count)
    )
    (folder / f"{split}.csv").write_text(f"text,label,patient\n{rows}", encoding="utf-8")


def write_notes(folder: Path) -> Path:
    for name, first in zip(SITES, (0, 1000), strict=True):
        write(folder / name, "train", first, 60)
        write(folder / name, "test", first + 100, 20)
    return folder


def spent(folder: Path) -> list[dict[str, Any]]:
    return list(lines(folder / JOURNAL))


def looks(folder: Path) -> list[dict[str, Any]]:
    """What was spent but for the number of patients, which is told with the first answer."""
    return [line for line in spent(folder) if line["kind"] != "size"]


def fault(site: SiteProcess, study: Study, **changes: Any) -> str | None:
    head, data = ask(study, Global(first_weights(study, site.folder, SITES)), **changes)
    return put(site, head, data)[0].get("fault")

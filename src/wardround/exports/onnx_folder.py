"""A text classifier as `model.onnx`, with the lines that make numbers of a text: neither torch nor wardround is needed.

Only classifiers whose words are hashed: there, all that comes before the network fits into ten lines, which the
folder's README has and a test runs. A CRF's best path is a search and no tensor function; a relation model's encoder
goes to transformers, which has exporters of its own.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch

from wardround.core.files import write
from wardround.tasks.classification import ClassificationTask
from wardround.trained.about import CARD, ModelError
from wardround.trained.model import Part

NEEDED = ("onnx", "onnxscript")
PATTERNS = {"words": r"\w+|[^\w\s]", "characters": r"[A-Za-zÀ-ɏ]+|\d+(?:\.\d+)?|\S"}
"""What `text.segment` takes as a token."""


def write_onnx(part: Part, new: Path) -> None:
    """Fill a new folder."""
    task = part.task
    if not isinstance(task, ClassificationTask) or "onnx" in task.not_exported:
        raise ModelError(part.folder, *task.why_not("onnx"))
    chosen = task.settings
    if chosen.tokens not in PATTERNS or chosen.vectors:
        what = (
            f"its tokens come from {'a file of vectors' if chosen.vectors else chosen.tokens}, which ONNX cannot hold"
        )
        raise ModelError(part.folder, what, "use --to spacy")
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ModelError(part.folder, f"ONNX needs the package {missing[0]}", 'pip install "wardround[onnx]"')
    some = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])  # more than one of each, which torch would take for a constant
    sizes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    with _quiet():
        torch.onnx.export(
            part.network, (some,), new / "model.onnx", input_names=["tokens"], output_names=["scores"],
            dynamic_shapes=sizes, dynamo=True, verbose=False, external_data=False,
        )  # fmt: skip
    recipe = {
        "labels": task.labels, "several": chosen.several, "longest": chosen.longest,
        "buckets": task.numbers.words.buckets, "ngrams": task.numbers.ngrams,
        "beside": task.numbers.beside,
        "pattern": PATTERNS[chosen.tokens], "lower": chosen.tokens == "words",
    }  # fmt: skip
    write(new / "labels.json", (json.dumps(recipe, indent=1, ensure_ascii=False) + "\n").encode())
    words = Path(__file__).with_name("classification.md").read_text(encoding="utf-8")
    words = words.replace("{study}", part.about.study) + (part.folder / CARD).read_text(encoding="utf-8")
    write(new / CARD, words.encode())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says of its own insides and of packages that it does not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

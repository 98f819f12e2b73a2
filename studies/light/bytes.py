"""How much a site sends in a round with the whole of MiniLM, six layers, without training anything.

    WARDROUND_DATA=… python studies/light/bytes.py

A reply of the model's size passes the study's layers and is encoded as it would be sent. Bytes do not depend on data.
"""

import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wardround.core.exchange import Exchange
from wardround.core.record import Message
from wardround.methods.fedavg import Update
from wardround.runs.build import build
from wardround.study.load import Study, cells

HERE = Path(__file__).parent
STUDIES: dict[str, dict[str, Any]] = {
    "chemprot": {"corpus": {"sample": 60}},
    "ncbi-disease": {"sites": {"share": 0.01}},
}
"""The studies, and what makes them read few examples."""
LINEAR = ["query", "key", "value", "mixed", "wide", "narrow"]
CELLS: dict[str, dict[str, Any]] = {
    "everything": {},
    "the last layer and the head": {"freeze": 5},
    "adapters of all linear layers, rank 8, and the head": {"adapter": {"rank": 8, "layers": LINEAR}},
    "adapters of queries and values, rank 8, and the head": {"adapter": {"rank": 8}},
    "the same with a fixed half": {"adapter": {"rank": 8, "fixed": True}},
    "the head alone": {"freeze": 6},
}


def uploaded(study: Study) -> int:
    """The bytes of one site's reply to `fit`."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(study, Path(folder))
        site = built.host.site(built.sites.names[0], Exchange("fit", 1, 1, 0, 0))
        reply: Message = Update(built.weights * 1e-3, 300)
        for layer in study.layers:
            reply = layer.leave(reply, site)
        return len(reply.encode())


def rows() -> Iterator[str]:
    """Lines of the table: what is trained, by numbers of bits."""
    for name, few in STUDIES.items():
        tables = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
        tables |= {section: {**tables[section], **values} for section, values in few.items()}
        whole = 0
        for cell, task in CELLS.items():
            sizes = []
            for bits in (32, 16, 8):
                layers = [{"name": "narrow", "bits": bits}] if bits < 32 else []
                changes = {"task": {**tables["task"], "layers": "all", **task}, "layers": layers}
                sizes.append(uploaded(cells({**tables, **changes}, folder=HERE)[0].study))
            whole = whole or sizes[0]
            yield f"| {name} | {cell} | {' | '.join(f'{size:,} ({size / whole:.3%})' for size in sizes)} |"


if __name__ == "__main__":
    print("| study | trained | in 32 bits | in bf16 | in 8 bits |\n|---|---|---:|---:|---:|")
    for row in rows():
        print(row, flush=True)

"""How much a site sends in a round of each cell of these studies, without running them.

    python studies/light/bytes.py                # WARDROUND_DATA says where the corpora are

A reply of the model's size passes the study's layers and is encoded as it would be sent. Bytes do not depend on data.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from wardround.core.exchange import Exchange
from wardround.core.record import Message
from wardround.methods.fedavg import Update
from wardround.runs.build import build
from wardround.study.load import Study, load_study

HERE = Path(__file__).parent
LAYERS = {32: (), 16: ("layers=[{name='narrow',bits=16}]",), 8: ("layers=[{name='narrow',bits=8}]",)}
FEW = {"chemprot": "corpus.sample=60", "bc5cdr": "sites.share=0.01"}


def uploaded(study: Study) -> int:
    """The bytes of one site's reply to `fit`."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(study, Path(folder))
        site = built.host.site(built.sites.names[0], Exchange("fit", 1, 1, 0, 0))
        reply: Message = Update(built.weights * 1e-3, 300)
        for layer in study.layers:
            reply = layer.leave(reply, site)
        return len(reply.encode())


def rows() -> Iterator[tuple[str, str, int]]:
    """Study, cell and bytes."""
    for name, few in FEW.items():
        for bits, layers in LAYERS.items():
            for cell in load_study(HERE / f"{name}.toml", [few, "seeds=[0]", *layers]):
                yield name, f"{cell.label.removesuffix(',seed=0')}, {bits} bits", uploaded(cell.study)


def main() -> None:
    """Print a table."""
    whole: dict[str, int] = {}
    for name, cell, size in rows():
        whole.setdefault(name, size)
        print(f"| {name} | {cell} | {size:,} | {size / whole[name]:.2%} |", flush=True)


if __name__ == "__main__":
    main()

"""A tagger's entities, related: what the second model of a chain costs, now and before, and what no order can save.

    python benchmarks/chain.py [--repeats N] [--notes N] [--json FILE] [--quick]

MiniLM (six layers, 384 wide) with a new classifier relates the entities of generated notes. Three ways take turns: as
the library does it now; as it did before (each pair by itself, batches of 64); and the bare matrix products of the
encoder for as many tokens as are read, once, without padding, attention or anything else, which is the least that an
exact answer costs. A ratio is that of neighbours in time, in CPU time of this process. Now and before must tell the
same relations, and confidence to `SAME`.

Printed first is what is not looked at: pairs of types that the model was never trained to relate, which its folder
knows, and sentences without a pair of the others; and how many times fewer words there would be to read if a sentence
were read once, whatever its pairs: no way of reading saves more.

- *marked*: markers and blinding, as by default; every pair of a sentence is a text of its own to the encoder.
- *plain, frozen*: neither, all layers frozen; the pairs of a sentence have its states in common.
- *repeated lines*: marked, and a part of each note is one of ten paragraphs that stand in many notes.
- *plain, repeated lines*: both.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from overhead import clocked
from wardround.clinic import Clinic
from wardround.models.relation import RelationModel
from wardround.runs.loop import one_thread
from wardround.tasks.candidates import Candidates, Pair, related
from wardround.tasks.relation import Relations, RelationTask
from wardround.tasks.trunk import AT_ONCE, Trunk
from wardround.text.document import Document
from wardround.text.prediction import Prediction, numbered
from wardround.text.sentences import sentences

SAME = 1e-4
LAYERS = 2  # where it is only to be seen to work
LABELS = ("none", "TrAP", "TeRP", "PIP")
PAIRS = (("treatment", "problem"), ("test", "problem"), ("problem", "problem"))
CASES: dict[str, dict[str, Any]] = {
    "marked": {},
    "plain, frozen": {"markers": False, "blind": False, "freeze": 6},
    "repeated lines": {},
    "plain, repeated lines": {"markers": False, "blind": False, "freeze": 6},
}


def main() -> None:
    """Measure and print the ratios."""
    options = _options()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {options.notes} notes, {options.repeats} repeats")
    results: dict[str, Any] = {}
    with one_thread(), torch.no_grad():
        for name, settings in CASES.items():
            fewer = dict.fromkeys({"layers", "freeze"} & {"layers", *settings}, LAYERS) if options.quick else {}
            task = Relations(remember=False, **{**settings, **fewer}).on(LABELS, "none", Candidates(PAIRS))
            notes = _notes(options.notes, repeated="repeated" in name)
            _count(name, task, notes)
            results[name] = _compared(name, task, notes, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7, help="how often everyone's turn comes (7)")
    parser.add_argument("--notes", type=int, default=24, help="notes (24)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the ratios here")
    parser.add_argument("--quick", action="store_true", help="one repeat of two notes: does it work at all?")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.notes = 1, 2
    return options


def _notes(count: int, *, repeated: bool) -> list[Prediction]:
    """Notes with their own entities, as a tagger that never errs would find them."""
    notes = list(Clinic(hospitals=1, documents=count).stream("hospital-0", "train"))
    shared = list(Clinic(hospitals=1, documents=10, seed=1).stream("hospital-0", "train")) if repeated else []
    return [_with(note, shared[at % len(shared)] if shared else None) for at, note in enumerate(notes)]


def _with(note: Document, other: Document | None) -> Prediction:
    text, entities = note.text, list(note.entities)
    if other:
        entities += [entity.moved(len(text) + 1) for entity in other.entities]
        text = f"{text}\n{other.text}"
    return Prediction(text, entities=numbered(entities))


def _count(name: str, task: RelationTask, notes: Sequence[Prediction]) -> None:
    """Print how many pairs there are, and how many are looked at: those of types that it was trained to relate."""
    spans = [sentences(note.text, "sentence", note.entities) for note in notes]
    all_pairs = sum(1 for note in notes for _ in Candidates().within(0, note))
    asked = [one for number, note in enumerate(notes) for one in task.candidates.within(number, note)]
    read = {(one.text, one.document.text) for one in asked}
    words = [len(one.document.text.split()) for one in asked]
    once = sum(len(text.split()) for text in {one.document.text for one in asked})
    print(
        f"  {name}: {len(asked):,} of {all_pairs:,} ordered pairs in {len(read):,} of {sum(map(len, spans)):,} "
        f"sentences are looked at; each sentence once: {sum(words) / once:.1f} × fewer words"
    )


def _compared(name: str, task: RelationTask, notes: Sequence[Prediction], repeats: int) -> dict[str, Any]:
    torch.manual_seed(0)  # the classifier
    model = task.model().eval()
    tokens = [0]
    mine, theirs = task.predict(model, notes), _before(task, model, notes, tokens)
    _agree(name, mine, theirs)
    runs: dict[str, Callable[[], object]] = {
        "before": lambda: _before(task, model, notes, [0]),
        "now": lambda: task.predict(model, notes),
        "bare": lambda: _bare(task, model, tokens[0]),
    }
    times: dict[str, list[float]] = {who: [] for who in runs}
    for _ in range(repeats):
        for who, run in runs.items():
            times[who].append(clocked(cast("Any", lambda _, run=run: run())).cpu)
    faster = [before / now for before, now in zip(times["before"], times["now"], strict=True)]
    bare = [now / least for now, least in zip(times["now"], times["bare"], strict=True)]
    speed = len(notes) / statistics.median(times["now"])
    print(
        f"  {name:<21} {speed:7.1f} notes/s   {statistics.median(faster):.2f} × as fast as before   "
        f"{statistics.median(bare):.2f} × the bare products of every pair",
        flush=True,
    )
    return {"notes_per_second": speed, "faster": statistics.median(faster), "over_bare": statistics.median(bare)}


def _agree(name: str, mine: Sequence[Prediction], theirs: Sequence[Prediction]) -> None:
    for one, other in zip(mine, theirs, strict=True):
        both = [[(link.type, link.head, link.tail) for link in note.relations] for note in (one, other)]
        apart = [
            abs((a.confidence or 0) - (b.confidence or 0)) for a, b in zip(one.relations, other.relations, strict=False)
        ]
        if both[0] != both[1] or max(apart, default=0.0) > SAME:
            sys.exit(f"{name}: now and before do not tell the same: no comparison")


def _before(
    task: RelationTask, model: RelationModel, notes: Sequence[Prediction], tokens: list[int]
) -> list[Prediction]:
    """Each pair by itself, frozen states in groups of equal length, batches of 64; `tokens` counts what is read."""

    def scores(pairs: Sequence[Pair]) -> tuple[Sequence[Pair], Tensor]:
        examples, fitting = task.unlabelled([one.document for one in pairs])
        tokens[0] += int(examples.tokens.lengths.sum())
        values = torch.zeros(len(fitting), len(task.labels))
        states = None if task.trunk is None else _states(task.trunk, examples.sequences.rows)
        for rows in torch.split(torch.argsort(examples.tokens.lengths, stable=True), 64):
            lengths = examples.tokens.lengths[rows]
            real = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, L)
            inputs = (
                examples.tokens.padded(rows)  # (B, L)
                if states is None
                else pad_sequence([states[row] for row in rows.tolist()], batch_first=True)  # (B, L, width)
            )
            parts = examples.parts.padded(rows) - 1  # (B, Q)
            values[rows] = model(inputs, real, examples.places.padded(rows), parts)
        return [pairs[row] for row in fitting], values

    return related(task.candidates, notes, task.labels, task.negative, scores)


def _states(trunk: Trunk, rows: Sequence[list[int]]) -> dict[int, Tensor]:
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        alike[len(row)].append(number)
    states: dict[int, Tensor] = {}
    for length, numbers in alike.items():
        for part in torch.split(torch.tensor(numbers), max(AT_ONCE // length, 1)):
            some = part.tolist()
            states |= dict(zip(some, trunk.encoder(torch.tensor([rows[number] for number in some])), strict=True))
    return states


def _bare(task: RelationTask, model: RelationModel, tokens: int) -> None:
    """All matrix products of the encoder over so many tokens; of the last layer, keys and values alone."""
    encoders = [*([task.trunk.encoder] if task.trunk else []), model.encoder]
    whole = [layer for encoder in cast("Any", encoders) for layer in encoder.layers.values()]
    for states in torch.split(torch.zeros(tokens, task.encoder.shape.width), 768):
        for layer in cast("Any", whole):
            for part in (
                layer.key,
                layer.value,
                *((layer.query, layer.mixed, layer.wide) if layer is not whole[-1] else ()),
            ):
                out = functional.linear(states, part.weight, part.bias)
            if layer is not whole[-1]:
                functional.linear(out, layer.narrow.weight, layer.narrow.bias)


if __name__ == "__main__":
    main()

"""A model's card: what it is, what it was trained on and how well it did, for the person who gets the folder.

Sizes of sites are given as ranges, and sites are not named: a card travels farther than a consortium. A model that is
one site's own names it, and is about its data alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from wardround.federation.describe import MOST_SITES
from wardround.metrics.defined import defined
from wardround.privacy.words import in_words
from wardround.runs.build import Built
from wardround.runs.files import Change
from wardround.runs.wire import NEVER, SEEN, WireRow
from wardround.text.language import NAMES
from wardround.trained.about import About

DECLARED = "Each declared at the start how many examples it has at most, rounded up to a power of two."
BOUNDS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 1_000_000)


def card(
    about: About,
    built: Built,
    final: Mapping[str, float],
    wire: Sequence[WireRow] = (),
    up: int | None = None,
    ran: int | None = None,
    members: Sequence[Change] = (),
) -> str:
    """The card in Markdown; `wire` is what crossed it, `up` the bytes that left the sites, where that is known.

    `ran` is how many rounds were run, if that is more than the model has had; `members` who left or joined since.
    """
    figures, left = _figures(about, built, final), _wire(wire, up, ran or about.rounds)
    parts = (_head(about, built, members), _data(about, built, wire), figures, left, _privacy(built))
    return "\n".join(line for part in (*parts, _limits(about, built)) for line in part)


def _head(about: About, built: Built, members: Sequence[Change]) -> Iterator[str]:
    yield f"# {about.study}\n"
    yield "**Not for clinical decisions.** A research model, trained with wardround across sites whose notes stayed.\n"
    if about.site:
        yield f"**The model of {about.site} alone.** It has parts that never left there: ask before passing it on.\n"
    yield f"- Task: `{about.task['name']}`; it {built.study.task.does}."
    for name, values in (("Labels", about.labels), ("Entity types", about.types)):
        if values:
            yield f"- {name}: {', '.join(values)}"
    if about.negative:
        yield f"- The label `{about.negative}` means that there is no relation."
    languages = ", ".join(NAMES.get(code, code) for code in about.languages)
    yield f"- Language of the training texts: {languages or 'not known to the coordinator'}"
    rounds = "1 round" if about.rounds == 1 else f"{about.rounds} rounds"
    yield f"- Method: `{about.method}`, {rounds} (`study.toml` has every setting)"
    yield from _lineage(about)
    if about.chosen_by:
        yield f"- Of the rounds of the run, this one was chosen by `{about.chosen_by}`: examples that are neither"
        yield "  trained on nor part of the test figures below"
    for change in members:
        how = "left: the model is that of a run without it" if change.action == "forget" else "joined"
        yield f"- On {change.when} a site with {size_range(change.rows)} training examples {how}"
    if about.missing:
        yield f"- **Not in this folder**: {', '.join(about.missing)}. Each site keeps its own."
    if "encoder" in about.task and about.task["encoder"] == "encoder":
        yield "- Encoder: a copy of the pretrained one, in `encoder/`, with its own licence"
    yield '- Use it: `wardround predict FOLDER --text "…"`, or in Python `wardround.load("FOLDER")("…")`\n'


def _lineage(about: About) -> Iterator[str]:
    """What the model comes from, by the first digits of digests that `model.json` has in full."""
    came = {f"Training began with this {name}": digest for name, digest in about.lineage.files.items()}
    for what, digest in {"The examples of all sites": about.lineage.data, **came}.items():
        if digest:
            yield f"- {what}: `{digest[:16]}`"


def _data(about: About, built: Built, wire: Sequence[WireRow]) -> Iterator[str]:
    yield "## Training data\n"
    if built.raw is None:
        sent = [row for row in wire if row.direction == "from site" and _tells_size(row.reveals)]
        fields = "".join(f"\n- {row.message}.{row.field}: {row.reveals}" for row in sent)
        known = f" The coordinator's machine was told their sizes:\n{fields}" if fields else ""
        yield f"{len(built.sites.names)} sites, each with its own notes. {DECLARED}{known}\n"
        return
    names = [about.site] if about.site else built.raw.names
    if len(names) > MOST_SITES:  # each would have to be opened once more
        yield f"{len(names):,} sites.\n"
        return
    sizes = Counter(size_range(len(built.raw.raw(name)[0])) for name in names)
    yield "| training examples | sites |\n|---|---|"
    for size in sorted(sizes, key=lambda size: int(size.split("–")[0].replace(",", "").rstrip("+"))):
        yield f"| {size} | {sizes[size]} |"
    yield ""


def _tells_size(reveals: str) -> bool:
    """Whether a field of a message tells how many examples a site has."""
    return "how many" in reveals and "examples" in reveals


def size_range(count: int) -> str:
    """A number as the range that it lies in."""
    low = max(bound for bound in BOUNDS if bound <= count)
    high = next((bound for bound in BOUNDS if bound > count), None)
    return f"{low:,}+" if high is None else f"{low:,}–{high - 1:,}"


def _figures(about: About, built: Built, final: Mapping[str, float]) -> Iterator[str]:
    yield "## How it did\n"
    figures = {name: value for name, value in final.items() if not name.endswith("examples")}
    whole = {name: value for name, value in figures.items() if "[" not in name}
    whose = f"The own test examples of {about.site}" if about.site else "All sites' own examples together"
    yield f"{whose}, after round {about.rounds}, seed {built.study.seed}.\n"
    if built.study.method.personal and not about.site:
        yield "**Each site tried a model of its own**, and the figures are of these; this folder has the shared one.\n"
    if not figures:
        yield "Not told: counted here, without noise, they would tell of the test notes that privacy.dp protects.\n"
        return
    yield "| figure | value | what it means |\n|---|---|---|"
    plain = {name: name.removeprefix("train_").removeprefix("valid_") for name in whole}
    meaning = defined(plain.values())
    for name, value in whole.items():
        yield f"| {name} | {value:.4f} | {meaning[plain[name]]} |"
    by_class = {name: value for name, value in figures.items() if name.startswith("f1[")}
    if by_class:
        yield "\n" + ", ".join(f"{name} {value:.3f}" for name, value in by_class.items())
    yield ""


def _wire(wire: Sequence[WireRow], up: int | None, rounds: int) -> Iterator[str]:
    yield "## What left the sites\n"
    if up is None:
        yield f"The site's own ledger tells: `wardround ledger show`.\n\n{NEVER}\n"
        return
    each = up / max(rounds, 1) / 1e3
    yield f"{up / 1e6:.2f} MB in all for training, {each:,.1f} kB a round. In these messages:\n"
    for row in wire:
        if row.direction == "from site" and row.field:
            yield f"- {row.message}.{row.field} ({SEEN[row.seen]}): {row.reveals}"
    yield f"\n{NEVER}\n"


def _privacy(built: Built) -> Iterator[str]:
    if built.study.dp is None:
        return
    yield "## Privacy\n"
    yield from (f"- {sentence}" for sentence in in_words(built.study.dp.model_dump()))
    yield ""


def _limits(about: About, built: Built) -> Iterator[str]:
    yield "## Limits\n"
    yield "- Figures are of the sites' own test examples; on notes of another hospital it may do worse."
    yield from (f"- {limit}" for limit in built.task.limits(about.scope))
    yield "- A trained model can give away what it was trained on; share it as your agreements allow."
    yield "- Not a medical device; not for clinical decisions."
    yield ""

"""What a hospital reads before it says yes: the study as the site reads it, and what that would make leave."""

from pathlib import Path

from rich.table import Table

from wardround.cli.options import console, wide
from wardround.consortium.check import leaving
from wardround.consortium.exchanges import Leaving, expected_exchanges, forecast, sites_of
from wardround.consortium.settings import read_site
from wardround.privacy.words import in_words
from wardround.runs.exchanges import rows
from wardround.runs.wire import HEADER, who_sees
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError

NEVER = "never leaves: text, tokens, entity strings, document ids, private records"
SMALL = (
    "counts of labels with fewer than {} examples are left out of what evaluation tells; "
    "an update can still give them away (docs/threats.md)"
)


def study_at(folder: Path, path: Path) -> Study:
    """The study as this site reads it: files that it names are looked for in its folder, and no code comes with it."""
    cells = load_study(path, beside=folder, trusted=read_site(folder).trusted)
    if len(cells) > 1:
        raise StudyError(str(path), [f"is a grid of {len(cells)} runs; ask the coordinator for one study at a time"])
    return cells[0].study


def show_leaving(folder: Path, study: Study) -> None:
    """Print what a study would make leave this site, how often, and what never does."""
    settings, sites = read_site(folder), sites_of(folder)
    examples = len(settings.examples(study)[0])
    seen = leaving(folder, settings, study)
    table = Table(*(name for name in HEADER if name != "direction"), box=None)
    expected = expected_exchanges(study, examples, sites)
    shown = {one.step: one for one in seen}.values() if expected.own else seen  # as most rounds have it
    listed = rows(shown, study.dp)
    for row in listed:
        if row.direction == "from site":
            table.add_row(row.columns[0], *row.columns[2:])
    wide().print(table)
    ahead = forecast(study, expected, seen)
    if expected.start:
        console.print(f"before the first round: {_leaves(ahead.start)} this site")
    once = f"{_leaves(ahead.once)} it besides, once, for keys and the first replies;\n" if ahead.once.replies else ""
    console.print(
        f"per round: {_leaves(ahead.per_round)} this site, and when the model is tried: "
        f"{_leaves(ahead.evaluation)} it;\n"
        f"{once}in {study.rounds:,} round{'s' * (study.rounds != 1)} in all: {_leaves(ahead.total)} it."
    )
    if expected.own:
        console.print(
            f"If sites come and go, or numbers grow, some replies leave once more under other masks: at most "
            f"{expected.total(study):,} exchanges in all."
        )
    if expected.estimated:
        console.print(
            f"This is an estimate: {study.resolved['method']['name']} asks more often the more examples all sites "
            f"have together; for {examples:,} training examples here, and as many at each of the {sites:,} sites of "
            f"the consortium."
        )
    if words := who_sees(listed):
        console.print(words)
    console.print(NEVER)
    if study.dp:
        console.print("\n".join(in_words(study.dp.model_dump())))
    smallest = settings.consent.smallest_count
    console.print(SMALL.format(smallest) if smallest else "counts of labels leave, however small they are")
    if not settings.consent.label_counts:
        console.print(
            "counts of labels that weigh classes stay here (consent.label_counts): zeros leave in their place"
        )


def _leaves(much: Leaving) -> str:
    return f"{much.replies:,} exchange{'s' * (much.replies != 1)}, {much.bytes:,} bytes leave"

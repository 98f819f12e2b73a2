"""The state of each site of a run, in its folder for whoever watches: `sites.json`.

note_greeted(out, states, left, versions)    # before a run, or before going on with it
note_versions(out, versions, line.left_out)  # after a round: a site may have been upgraded meanwhile
"""

from collections.abc import Container, Mapping
from pathlib import Path

from wardround.core.exchange import Fault
from wardround.runs.files import SITES, GreetedSite


def note_greeted(
    out: Path, states: Mapping[str, Fault | None], left: Mapping[str, int], versions: Mapping[str, str]
) -> None:
    """Write down what each site said when it was greeted: why it is not ready, what it has left, what it runs."""
    _write(
        out,
        {
            name: GreetedSite(state=str(why or ""), left=left.get(name), version="" if why else versions.get(name, ""))
            for name, why in states.items()
        },
    )


def note_versions(out: Path, versions: Mapping[str, str], left_out: Container[str]) -> None:
    """Write down what each site runs by now, as its last answer said; of one that was left out, nothing new."""
    known = SITES.read(out) or {}
    heard = {name: version for name, version in versions.items() if name not in left_out}
    _write(out, {name: one.model_copy(update={"version": heard.get(name, one.version)}) for name, one in known.items()})


def _write(out: Path, members: dict[str, GreetedSite]) -> None:
    if not SITES.exists(out) or SITES.read(out) != members:
        SITES.write(out, members)

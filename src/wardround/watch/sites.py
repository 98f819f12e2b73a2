"""The state of each site of a run: working, answered, late, left out and why; and what is left of its approval."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wardround.reports.read import natural
from wardround.watch.run import WatchedRun
from wardround.watch.words import ago, span

Mood = Literal["good", "busy", "late", "bad", ""]
PATIENCE = 2.0  # times what the whole last round took: a site that needs more is called late
LEAST = 10.0  # seconds, before anybody is
COMMON = ("busy", "ready")  # what is said of a site with which all is well
ORDER: dict[Mood, int] = {"bad": 0, "late": 1, "busy": 2, "good": 3, "": 4}


@dataclass(frozen=True)
class SiteState:
    """One site, in words."""

    name: str
    mood: Mood
    state: str
    seen: str = "—"
    absent: int = 0
    why: str = ""
    """Why it was last left out, and when."""
    left: str = ""
    """What is left of its approval."""
    version: str = ""


def sites_of(run: WatchedRun, presence: Mapping[str, Mapping[str, Any]] | None = None) -> list[SiteState]:
    """The sites that are known, those with trouble first; `presence` is what a coordinator's own process knows."""
    known = {*run.members, *run.seen.absences, *run.heard, *map(str, run.asked.get("asked") or ())}
    known |= set(run.data.sites) if run.data else set()
    states = [_state(name, run, presence or {}) for name in known]
    return sorted(states, key=lambda site: (ORDER[site.mood], natural(site.name)))


def _state(name: str, run: WatchedRun, presence: Mapping[str, Mapping[str, Any]]) -> SiteState:
    mood, words = _mood(name, run)
    standing = presence.get(name)
    if standing is not None:
        known = str(standing["words"])
        words = words if words and known.startswith(COMMON) else "; ".join(part for part in (words, known) if part)
        mood = "bad" if not standing.get("connected") and mood != "good" else mood
    absence, member = run.seen.absences.get(name), run.members.get(name)
    rest = ""
    if member is not None and member.left is not None:
        rest = f"{member.left:,} answers at the start"
    return SiteState(
        name, mood, words,
        ago(run.heard.get(name), run.now()),
        absence.rounds if absence else 0,
        f"round {absence.last}: {absence.why}" if absence else "",
        rest,
        member.version if member else "",
    )  # fmt: skip


def _mood(name: str, run: WatchedRun) -> tuple[Mood, str]:
    """What a site is at: of the exchange under way, if it was asked; else of the last round."""
    asked = run.asked if run.state in ("running", "waiting") else {}
    if name in (asked.get("asked") or ()):
        if name in (asked.get("answered") or {}):
            out = run.seen.out.get(name)
            return ("good", f"has answered {asked['step']}") if out is None else ("bad", f"left out: {out}")
        waits = run.now() - float(asked["since"])
        late = waits > max(LEAST, PATIENCE * (run.seen.seconds[-1] if run.seen.seconds else LEAST))
        return ("late", f"late: asked {span(waits)} ago") if late else ("busy", f"working for {span(waits)}")
    if name in run.seen.out:
        return "bad", f"left out: {run.seen.out[name]}"
    member = run.members.get(name)
    if member is not None and member.state and not run.seen.line.round:
        return "bad", f"not ready: {member.state}"
    part = "taking part" if run.state == "running" else "took part"
    return ("good", part) if run.seen.line.round and run.state != "waiting" else ("", "")

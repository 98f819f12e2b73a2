"""What other programs may know, in Prometheus' text format.

    # HELP wardround_run_round The last round that is done.
    # TYPE wardround_run_round gauge
    wardround_run_round{run="demo"} 12

Labels are names of runs, sites and figures; nothing of a note is among them.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wardround import __version__
from wardround.watch.run import WatchedRun

HELP = {
    "wardround_info": ("gauge", "The version of wardround."),
    "wardround_run_round": ("gauge", "The last round that is done."),
    "wardround_run_rounds": ("gauge", "How many rounds the study has."),
    "wardround_run_running": ("gauge", "Whether a process works in the run folder."),
    "wardround_run_finished": ("gauge", "Whether the run came to its end."),
    "wardround_run_readable": ("gauge", "Whether the run folder is there and can be read."),
    "wardround_run_figure": ("gauge", "The last value of a figure."),
    "wardround_run_round_seconds": ("gauge", "Seconds that a round takes, of late."),
    "wardround_run_bytes_total": ("counter", "Bytes of messages, by direction and what for."),
    "wardround_run_left_out_total": ("counter", "Rounds that a site was left out of."),
    "wardround_site_connected": ("gauge", "Whether a site is connected to the coordinator."),
    "wardround_coordinator_up": ("gauge", "Whether the coordinator's process answers."),
    "wardround_site_answers_total": ("counter", "Replies that left this site, by study."),
    "wardround_site_bytes_total": ("counter", "Bytes of replies that left this site, by study."),
    "wardround_site_refusals_total": ("counter", "Asks that this site refused, by reason."),
    "wardround_site_epsilon_total": ("counter", "What studies have cost this site in differential privacy."),
    "wardround_site_answers_left": ("gauge", "Replies that may still leave, by study."),
}


@dataclass(frozen=True)
class Reading:
    """One number with its labels."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def exposition(samples: Iterable[Reading]) -> str:
    """All samples as text, those of one name together."""
    groups: dict[str, list[Reading]] = {}
    for sample in (Reading("wardround_info", 1, {"version": __version__}), *samples):
        groups.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for name, members in groups.items():
        kind, about = HELP[name]
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(one.labels)} {one.value:.10g}" for one in members]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def run_samples(run: WatchedRun) -> Iterator[Reading]:
    """The numbers of one run."""
    of = {"run": run.label}
    yield Reading("wardround_run_readable", run.state not in ("gone", "unreadable"), of)
    yield Reading("wardround_run_round", run.round, of)
    yield Reading("wardround_run_rounds", run.rounds, of)
    yield Reading("wardround_run_running", run.state == "running", of)
    yield Reading("wardround_run_finished", run.state == "finished", of)
    if run.pace is not None:
        yield Reading("wardround_run_round_seconds", run.pace, of)
    for name, curve in run.seen.curves.items():
        if curve.last:
            yield Reading("wardround_run_figure", curve.last[1], {**of, "figure": name})
    for key, size in run.seen.bytes.items():
        what, _, way = key.rpartition("_")
        labels = {"direction": "from sites" if way == "up" else "to sites", "for": what or "training"}
        yield Reading("wardround_run_bytes_total", size, {**of, **labels})
    for site, absence in run.seen.absences.items():
        yield Reading("wardround_run_left_out_total", absence.rounds, {**of, "site": site})

"""What a data-protection officer reads: what was approved, what left, run by run and in sum, what was refused.

    write_page(site_folder, Path("ledger.html"))

The page loads nothing and runs nothing, and is made for paper as well. The live page (`wardround site watch`) has the
same sections, and what is asked now.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from wardround.core.files import write
from wardround.engines.codes import CODES
from wardround.reports.html import Html, bytes_of, count, document, join, plural, table, tag
from wardround.watch import parts
from wardround.watch.board import Section, View
from wardround.watch.gauges import Reading
from wardround.watch.house import House
from wardround.watch.times import readable, today
from wardround.watch.words import span

NEVER = "Notes, tokens, entity strings and document ids never leave; each message below is numbers, as described."
SILENT = 60.0  # seconds after which a coordinator counts as away
DAYS = 400  # rows of the ledger by day


class SiteBoard:
    """A site's folder, watched."""

    def __init__(self, folder: Path) -> None:
        self.house = House(folder)

    def look(self) -> None:
        """Take in what has changed."""
        self.house.look()

    def view(self, place: str) -> View | None:
        """The one page."""
        if place:
            return None
        house = self.house
        last = house.log.lines[-1] if house.log.lines else None
        live = (Section("now", "", _now(house)), Section("today", "What left today", _today(house)))
        log = Section("log", "What happened", parts.log(house.log))
        return View(house.consortium or "site", house.name, (*live, *sections(house), log), last.text if last else "")

    def stop(self, _place: str) -> bool:
        """A hospital stops taking part by its own settings or by ending its process, not here."""
        return False

    def samples(self) -> Iterator[Reading]:
        """What left and what is left, as numbers."""
        account = self.house.account
        for (study, _), run in account.runs.items():
            labels = {"study": self.house.named(study), "run": _}
            yield Reading("wardround_site_answers_total", run.times, labels)
            yield Reading("wardround_site_bytes_total", run.bytes, labels)
        reasons: dict[str, int] = {}
        for (_study, _step, why), refusal in account.refused.items():
            reasons[why] = reasons.get(why, 0) + refusal.times
        for why, times in reasons.items():
            yield Reading("wardround_site_refusals_total", times, {"reason": why})
        if self.house.costs:
            yield Reading("wardround_site_epsilon_total", sum(one.spent for one in self.house.costs))
        for row in self.house.agreed:
            yield Reading("wardround_site_answers_left", row.left, {"study": row.name})


def sections(house: House) -> tuple[Section, ...]:
    """What the live page and the printed one share."""
    return (
        Section("approved", "What was approved, and what is left of it", _approved(house)),
        Section("runs", "What left, run by run", _runs(house)),
        Section("kinds", "What left, and what it reveals", _kinds(house)),
        Section("privacy", "What it cost in differential privacy", _privacy(house)),
        Section("refused", "What was refused", _refused(house)),
        Section("ledger", "The ledger by day", _days(house)),
    )


def _now(house: House) -> Html:
    words: list[object] = []
    if house.problem:
        words.append(tag("p", house.problem, class_="notice"))
    if house.doing:
        words.append(tag("p", tag("span", "asked", class_="badge running"), " ", house.doing, class_="lead"))
    elif house.running:
        words.append(tag("p", tag("span", "ready", class_="badge finished"), " nothing is asked now", class_="lead"))
    else:
        remedy = " this site does not take part now; start it with: wardround site start"
        words.append(tag("p", tag("span", "off", class_="badge waiting"), remedy, class_="lead"))
    if house.running:
        away = house.quiet is None or house.quiet > SILENT
        silent = "not heard of yet" if house.quiet is None else f"not heard of for {span(house.quiet)}"
        words.append(
            tag("p", f"The coordinator is {silent if away else 'there'}.", class_="notice" if away else "soft")
        )
    return join([*words, _chain(house)])


def _chain(house: House) -> Html:
    account = house.account
    if account.broken:
        return tag("p", tag("strong", "The ledger was changed: "), account.broken, class_="notice")
    intact = tag("p", f"The ledger has {plural(account.lines, 'line')}; its chain is intact.", class_="soft")
    return join([intact, *(tag("p", _recovery(*one), class_="notice") for one in account.recoveries)])


def _recovery(time: str, forgotten: int, how: str) -> str:
    """What a site did that had been put back from a copy."""
    counted = "" if how == "as told" else " Whatever was approved until then was counted as spent."
    return (
        f"This site was put back from a copy. What it had forgotten by then, {plural(forgotten, 'answer')}, was "
        f"written down on {readable(time)} (UTC) as the coordinator told of it.{counted}"
    )


def _today(house: House) -> Html:
    day = today()
    rows = [
        (house.named(study), kind, count(one.times), bytes_of(one.bytes), readable(one.last)[11:])
        for (on, study, kind), one in house.account.days.items()
        if on == day
    ]
    if not rows:
        return tag("p", f"Nothing has left today ({day}, UTC).", class_="soft")
    return table(f"On {day} (UTC)", ("study", "message", "times", "bytes", "last at"), rows, words=2)


def _approved(house: House) -> Html:
    if not house.agreed:
        return tag("p", "Nothing was approved here, and nothing left.", class_="soft")
    rows = []
    for one in house.agreed:
        had, may = one.spent, one.approval
        rows.append((
            one.name, readable(may.time) if may else "taken back",
            f"{count(had.rounds)} of {count(may.rounds)}" if may else count(had.rounds),
            f"{count(had.exchanges)} of {count(may.exchanges)}" if may else count(had.exchanges),
            f"{count(had.restarts)} of {count(may.restarts)}" if may else count(had.restarts),
            count(one.left) if may else "nothing",
        ))  # fmt: skip
    head = ("study", "approved (UTC)", "rounds so far", "replies so far", "restarts so far", "replies left")
    return table("An approval is a budget over all runs of a study; what is spent is spent", head, rows, words=2)


def _runs(house: House) -> Html:
    runs = house.account.runs
    if not runs:
        return tag("p", "Nothing has left yet.", class_="soft")
    rows: list[tuple[object, ...]] = [
        (house.named(study), tag("code", mark[:16]), readable(run.first), readable(run.last),
         run.state, count(run.rounds), count(run.times), bytes_of(run.bytes))
        for (study, mark), run in sorted(runs.items(), key=lambda pair: pair[1].first)
    ]  # fmt: skip
    whole = (sum(run.times for run in runs.values()), sum(run.bytes for run in runs.values()))
    rows.append((tag("strong", "in all"), "", "", "", "", "", tag("strong", count(whole[0])),
                 tag("strong", bytes_of(whole[1]))))  # fmt: skip
    head = ("study", "run", "first (UTC)", "last (UTC)", "state", "rounds", "messages", "bytes")
    return table("Each run of each study", head, rows, words=5)


def _kinds(house: House) -> Html:
    """Each kind of message once, however many studies have it: what it tells, and how much of it left in each."""
    account = house.account
    alike: dict[tuple[str, str], dict[str, list[int]]] = {}
    for (_, study, kind), one in account.days.items():
        about = account.kinds.get((study, kind))
        whole = alike.setdefault((kind, repr(about)), {}).setdefault(study, [0, 0])
        whole[0], whole[1] = whole[0] + one.times, whole[1] + one.bytes
    blocks: list[object] = [tag("p", NEVER)]
    for (kind, _), studies in sorted(alike.items()):
        about = account.kinds.get((next(iter(studies)), kind))
        items = (
            [tag("li", tag("code", name), ": ", _plain(what)) for name, what in about.reveals.items()] if about else []
        )
        left = [f"{house.named(study)} {plural(times, 'message')}, {bytes_of(size)}"
                for study, (times, size) in sorted(studies.items(), key=lambda pair: house.named(pair[0]))]  # fmt: skip
        blocks.append(
            tag("div",
                tag("h3", kind),
                tag("p", _plain(about.about)) if about else None,
                tag("ul", items, class_="facts") if items else None,
                tag("p", f"Left in {'; '.join(left)}.", class_="soft"),
                class_="leaves")
        )  # fmt: skip
    return join(blocks) if alike else tag("p", "Nothing has left yet.", class_="soft")


def _plain(text: str) -> Html:
    """Words of a message's own description, with names of settings set as such."""
    return join([tag("code", part) if odd % 2 else part for odd, part in enumerate(text.split("`"))])


def _privacy(house: House) -> Html:
    """What of the site's privacy budget is spent, by run and in sum, and what is left where there is a limit."""
    may = house.allowance
    limit = f"The site's [budget] is ε = {may.epsilon:g} and δ = {may.delta:g} for all studies together." if may else ""
    if not house.costs:
        words = f"No study with differential privacy has been answered here. {limit}"
        return tag("p", words.strip(), class_="soft")
    rows: list[tuple[object, ...]] = [
        (one.study, tag("code", one.run), f"one {one.unit}", f"{one.spent:.3f}", f"{one.planned:g}", f"{one.delta:g}")
        for one in house.costs
    ]
    spent, chance = sum(one.spent for one in house.costs), sum(one.delta for one in house.costs)
    rows.append((tag("strong", "in all"), "", "", tag("strong", f"{spent:.3f}"), "", tag("strong", f"{chance:g}")))
    head = ("study", "run", "protects", "ε spent", "ε at most", "δ")
    left = f" Left: ε = {max(may.epsilon - spent, 0):.3f}, δ = {max(may.delta - chance, 0):g}." if may else ""
    whole = f"{limit}{left}" if may else "site.toml has no [budget], so nothing limits what all studies cost together."
    return join([table("ε and δ add up over runs and studies", head, rows, words=3), tag("p", whole)])


def _refused(house: House) -> Html:
    refused = house.account.refused
    if not refused:
        return tag("p", "Nothing was refused.", class_="soft")
    rows = [
        (house.named(study), step or "—", why, _meaning(why), count(one.times), readable(one.last))
        for (study, step, why), one in sorted(refused.items(), key=lambda pair: pair[1].last, reverse=True)
    ]
    head = ("study", "asked for", "code", "why", "times", "last (UTC)")
    return table("Asks of the coordinator that this site did not answer", head, rows, words=4)


def _meaning(code: str) -> str:
    """A code in words; those of the engine are the coordinator's view of the site."""
    words = CODES.get(code, ("", ""))[1].partition("; there:")[0]
    return words.replace("it has ", "this site has ").replace("it does ", "this site does ")


def _days(house: House) -> Html:
    days = sorted(house.account.days.items(), reverse=True)
    if not days:
        return tag("p", "The ledger has no message that left.", class_="soft")
    rows = [
        (day, house.named(study), kind, count(one.times), bytes_of(one.bytes))
        for (day, study, kind), one in days[:DAYS]
    ]
    more = f"; {plural(len(days) - DAYS, 'older row')} left out, see wardround ledger show" if len(days) > DAYS else ""
    return table(f"What left on each day (UTC){more}", ("day", "study", "message", "times", "bytes"), rows, words=3)


# on paper


def write_page(folder: Path, out: Path) -> House:
    """Write the page of a site's folder, as it is now."""
    house = House(folder)
    house.look()
    write(out, officers_page(house).encode())
    return house


def officers_page(house: House) -> str:
    """The whole page."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    style = resources.files("wardround.watch").joinpath("page/watch.css").read_text(encoding="utf-8")
    shown = sections(house)
    top = tag(
        "header",
        tag("p", f"For the data-protection officer · {house.consortium or 'no consortium'}", class_="over"),
        tag("h1", f"{house.name}: what was approved, and what left"),
        tag("p", f"As of {now} UTC, from {house.ledger}.", class_="soft"),
        _chain(house),
        tag("nav", [tag("a", part.title, href=f"#{part.id}") for part in shown], aria_label="Sections"),
    )
    body = [tag("section", tag("h2", part.title, id=part.id), part.markup, aria_labelledby=part.id) for part in shown]
    foot = tag("footer", tag("p", "Made by wardround from this site's own ledger. This page loads and sends nothing."))
    return document(f"{house.name}: what left", [top, tag("main", body), foot], style)

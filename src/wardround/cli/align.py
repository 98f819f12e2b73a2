"""`wardround align`: a site's own notes and public facts become bags, in a file that studies read as `bags`."""

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from wardround.cli.options import console, one_of
from wardround.core.files import write
from wardround.formats.options import Options
from wardround.formats.register import FORMATS
from wardround.text.reading import DataError, Problems, nearest

if TYPE_CHECKING:
    from wardround.text.document import Placed
    from wardround.text.facts import BagSentence

NOTES = [name for name, form in FORMATS.items() if "bags" in form.holds and not form.ready]


def command(
    kb: Annotated[Path, typer.Option(help="The public facts: head, relation and tail between tabs.")],
    texts: Annotated[list[Path], typer.Option(help="Notes with entities; may be repeated.")],
    out: Annotated[Path, typer.Option(help="Where the bags go.")] = Path("bags.jsonl"),
    format: Annotated[str, typer.Option(help="jsonl or pubtator; default: by the file's name.")] = "",  # noqa: A002
    pair: Annotated[
        list[str] | None, typer.Option(help="Types that may be related, as Chemical:Disease; default: the facts' own.")
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Keep only facts of this relation; may be repeated.")
    ] = None,
    scope: Annotated[
        str, typer.Option(help="sentence, line or note: within what two entities make a pair.")
    ] = "sentence",
    encoding: Annotated[str | None, typer.Option(help="The files' encoding, if it is not UTF-8.")] = None,
) -> None:
    """Align notes with public facts: one bag per pair and relation, NA for pairs without a fact."""
    from wardround.corpora.align import align, related_types
    from wardround.formats.bags import write_bags
    from wardround.study.settings import StudyError
    from wardround.text.facts import read_facts
    from wardround.text.sentences import Scope

    one_of(scope or "?", get_args(Scope), "--scope")
    problems = Problems()
    try:
        if out.exists():
            raise DataError(out, None, "exists already", "name another with --out, or remove it first")
        known = read_facts(kb, relation or (), problems, encoding)
        notes = [note for path in dict.fromkeys(texts) for note in _notes(path, format, encoding, problems)]
        types = _known(pair, notes) if pair else related_types(notes, known)
        rows = list(align(notes, known, types, scope=cast("Scope", scope), problems=problems))
        if not types:
            remedy = "check that both use the same ids, or set --pair"
            raise DataError(kb, None, "no note names both ends of a fact", remedy)
        write(out, "".join(f"{line}\n" for line in write_bags(rows)).encode())
    except (ValueError, OSError) as error:
        causes = [f"in the data: {line}" for line in str(problems).splitlines()]
        raise StudyError("align", [_in_options(str(error)), *causes]) from None
    console.print(f"{out}: {_counted(rows)}")
    for line in str(problems).splitlines():
        console.print(f"in the data: {line}")


def _in_options(text: str) -> str:
    """Readers speak of a study's settings; of these, one is an option here, and another one of `data convert`."""
    text = re.sub(r'set encoding = "([\w-]+)"', r"give --encoding \1", text)
    return text.replace("fix_offsets = true", "wardround data convert --fix-offsets first")


def _notes(path: Path, format: str, encoding: str | None, problems: Problems) -> "list[Placed]":  # noqa: A002
    chosen = format or ("pubtator" if "pubtator" in path.name.casefold() else "jsonl")
    if chosen not in NOTES:
        raise ValueError(f"--format {format}: use {' or '.join(NOTES)}")
    notes = list(FORMATS[chosen].read(path, problems, Options(encoding=encoding, concepts=True)))
    if not notes:
        raise DataError(path, None, "no note", "name the file that holds the notes")
    return notes


def _known(pairs: list[str], notes: "list[Placed]") -> frozenset[tuple[str, str]]:
    """The wanted pairs of types, each of which some entity must have."""
    from wardround.text.shown import names_of

    wanted = frozenset(map(_types, pairs))
    types = Counter(entity.type for note in notes for entity in note.document.entities)
    names = sorted(names_of(types))
    for name in sorted({name for both in wanted for name in both} - {*types}):
        near = nearest(name, names)
        remedy = f'did you mean "{near}"?' if near else f"there are {', '.join(names[:10])}"
        if not names:
            remedy = f"there are {len(types)} types, none of which repeats and is short enough to be shown"
        raise ValueError(f"--pair {name}: no entity has this type; {remedy}")
    return wanted


def _types(pair: str) -> tuple[str, str]:
    head, colon, tail = pair.partition(":")
    if not (head and colon and tail):
        raise ValueError(f"--pair {pair}: write the types of head and tail as Chemical:Disease")
    return head, tail


def _counted(rows: "list[BagSentence]") -> str:
    from wardround.text.facts import UNRELATED

    bags = Counter(row.fact for row in rows)
    related = [size for fact, size in bags.items() if fact.relation != UNRELATED]
    mean = f", {sum(related) / len(related):.1f} sentences each" if related else ""
    return f"{len(rows):,} sentences in {len(bags):,} bags; {len(related):,} of known facts{mean}"

"""The NOTE table of the OMOP common data model (5.3, 5.4) as a CSV file: `note_id` and `note_text`, in any capitals.

    read_omop(Path("NOTE.csv"), problems, Options())

Other columns stay behind; `label` and `source` may name one, and `person_id` is the patient. A NOTE row needs a date as
well, which documents do not have, so nothing is written in this format.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wardround.formats.options import Options
from wardround.formats.tables import Table
from wardround.text.document import Placed
from wardround.text.reading import DataError, Problems, nearest

WANTED = ("note_id", "note_text")


def is_note_table(names: Sequence[str]) -> bool:
    """Whether a header is that of a NOTE table."""
    return {name.casefold() for name in names}.issuperset(WANTED)


def read_omop(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The notes of a table."""
    table = Table(files={"all": path}, format="csv", delimiter=options.delimiter, encoding=options.encoding)
    names = table.columns("all")
    folded = {name.casefold(): name for name in names}
    for wanted in WANTED:
        if wanted not in folded:
            close = nearest(wanted, names)
            remedy = f'did you mean "{close}"?' if close else "is this the NOTE table?"
            raise DataError(path, 1, f'no column "{wanted}"', remedy)
    table = replace(
        table,
        text=options.text or folded["note_text"],
        id=options.id or folded["note_id"],
        label=(options.label or None) if options.labelled else None,
        separator=options.separator,
        source=options.source or None,
        patient=options.patient or folded.get("person_id"),
        language=options.language,
    )
    return table.placed("all", problems)

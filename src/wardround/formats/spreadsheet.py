"""Cells that a spreadsheet shows and does not compute: a note that begins with `=` must not become a formula.

    plain(guarded("=1+1")) == "=1+1"

As OWASP advises (CSV injection), a cell that begins with `= + - @`, their full-width forms, a tab or a line break gets
an apostrophe in front, also if blanks or quotes stand before these, which some programs take away; numbers such as -0.5
do not. A cell that has such an apostrophe already gets one more, so that
taking one away gives back the text, whatever it was.
"""

import re

FORMULA = re.compile(r"['\"\s]*[=+\-@＝＋－＠\t\r\n]")  # full-width too, which some take as well
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def guarded(cell: str) -> str:
    """The cell as it is written."""
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def plain(cell: str) -> str:
    """The cell as it was before it was guarded."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell

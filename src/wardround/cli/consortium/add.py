"""`wardround consortium add CONSORTIUM NAME`: one more ready-made kit."""

from wardround.cli.options import Consortium, Days, SiteName


def command(folder: Consortium, name: SiteName, days: Days = 360) -> None:
    """Make one more ready-made kit, with keys made here, for rehearsals."""
    from wardround.cli.consortium.fingerprint import show_ready_made, standing
    from wardround.consortium.admission import add

    standing(folder)
    show_ready_made(add(folder, [name], days))

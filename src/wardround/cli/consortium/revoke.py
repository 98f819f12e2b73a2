"""`wardround consortium revoke CONSORTIUM NAME`: out, for good."""

from wardround.cli.options import Consortium, SiteName, console


def command(folder: Consortium, name: SiteName) -> None:
    """Let a site take part no longer, for good."""
    from wardround.cli.consortium.fingerprint import standing
    from wardround.consortium.admission import revoke

    standing(folder)
    revoke(folder, name)
    console.print(f"{name} is revoked: it is asked no more, and refused; what it kept and what it sent stays as it is")

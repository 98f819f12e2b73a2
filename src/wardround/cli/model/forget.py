"""`wardround model forget RUN SITE`: what the model is without it."""

from wardround.cli.model.amended import amend
from wardround.cli.options import Beside, Finished, SiteName


def command(run: Finished, site: SiteName, beside: Beside = None) -> None:
    """Take a site out of a finished run's model: exactly, where it is solved from sums (`ridge`)."""
    amend(run, site, "forget", beside)

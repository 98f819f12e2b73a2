"""`wardround model add RUN SITE`: what the model is with it."""

from wardround.cli.model.amended import amend
from wardround.cli.options import Beside, Finished, SiteName


def command(run: Finished, site: SiteName, beside: Beside = None) -> None:
    """Add a site to a finished run's model that is solved from sums (`ridge`)."""
    amend(run, site, "add", beside)

"""The sections of the page, in order; each is a function from the report to markup."""

from collections.abc import Callable

from wardround.reports.compared import Report
from wardround.reports.html import Html
from wardround.reports.sections.classes import classes
from wardround.reports.sections.communication import communication
from wardround.reports.sections.curves import learning
from wardround.reports.sections.definitions import definitions
from wardround.reports.sections.privacy import privacy
from wardround.reports.sections.published import published
from wardround.reports.sections.recall import precision_recall
from wardround.reports.sections.results import results
from wardround.reports.sections.settings import all_settings
from wardround.reports.sections.sites import sites
from wardround.reports.sections.summary import summary
from wardround.reports.sections.vectors import vectors
from wardround.reports.sections.versions import versions
from wardround.reports.sections.wire import wire

SECTIONS: dict[str, tuple[str, Callable[[Report], Html]]] = {
    "summary": ("Summary", summary),
    "results": ("Results", results),
    "published": ("Published", published),
    "curves": ("Curves", learning),
    "classes": ("Classes", classes),
    "precision-recall": ("Precision and recall", precision_recall),
    "communication": ("Communication", communication),
    "sites": ("Sites and labels", sites),
    "vectors": ("Classifier vectors", vectors),
    "wire": ("What crossed the wire", wire),
    "privacy": ("Privacy", privacy),
    "settings": ("Settings", all_settings),
    "versions": ("Versions and fingerprints", versions),
    "definitions": ("Definitions", definitions),
}

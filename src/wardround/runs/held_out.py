"""What a study sets aside of the training examples, to choose the round whose model is kept."""

from collections.abc import Iterator

from wardround.federation.sites import Sites
from wardround.federation.validation import validated
from wardround.study.load import Study


def held(study: Study, sites: Sites) -> Sites:
    """The sites with what the study sets aside for validation."""
    chosen = study.validation
    return sites if chosen is None else validated(sites, chosen.share, chosen.by, study.seed)


def unproven_splits(study: Study, sites: Sites) -> Iterator[str]:
    """Why there is nothing to validate on, where all sites can be seen."""
    own = 'name files with valid = "…" in [corpus]'
    if "valid" not in study.evaluation.splits or (sites.valid and any(len(sites.valid(name)) for name in sites.names)):
        return
    if study.validation is None:
        remedy = f"{own}, or set some aside: [validation] with share = 0.1"
        yield f"evaluation.splits has 'valid', but the sites have only 'test' and 'train'; {remedy}"
    elif study.validation.share is None:
        yield f"[validation]: the corpus has no validation split; {own}, or set some aside with validation.share = 0.1"
    else:
        few = f"validation.share = {study.validation.share} by {study.validation.by} leaves every site without one"
        yield f"[validation]: {few}; raise it, draw by document, or {own}"

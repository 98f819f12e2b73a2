"""What the words and figures of the page mean."""

from collections.abc import Sequence

from wardround.reports.compared import Report
from wardround.reports.figures import NAMES, SPLIT_WORDS, split_of
from wardround.reports.html import Html, tag
from wardround.reports.paired import LEVEL
from wardround.reports.statistics import Panel
from wardround.reports.words import definition_of

SPLITS = {
    "test": "examples that no method trains on",
    "train": "the examples that sites train on",
    "valid": "examples that no method trains on, and that choose the round whose model is kept",
}

TERMS = {
    "Figures over sites": """Each site counts on its own examples; the counts are added over sites and the
        figure is made of the sums. A site with more examples therefore weighs more. For a method without a
        shared model (each site alone), each site tries its own model.""",
    "Final and best": """Final is the round that validation chose, where a study has [validation], and else the
        last round that was evaluated; means, tests and rankings use it. Best is
        the best round of a run, chosen by the same figure afterwards: it is optimistic, and shown only for the
        single runs.""",
    "Mean ± standard deviation": """Over the runs of a method that differ only in their seed (n − 1 in the
        denominator). The seed decides the initial model, the draw of sites and the order of examples, and,
        where data are generated or cut at random, the data. The spread therefore tells about these, not about
        other patients or other hospitals.""",
    "95 % interval, seeds": """Of the mean over seeds, by Student's t-distribution with n − 1 degrees of freedom. With
        few seeds it is wide; it ends where the figure does, at 0 or 1.""",
    "95 % interval, test documents": """How far the figure could be elsewhere had other documents of the same kind
        been in the test split: documents are drawn with replacement, as many as there are, and the interval spans
        the middle 95 % of the figures that this gives; of several seeds, the mean of their bounds. It tells
        nothing of other seeds or other hospitals. Where the documents are at real sites, only sums are known, and
        each answer is drawn by itself: exact where a document is one example, and else somewhat narrow, since
        answers on one document go together.""",
    "References": """What any model should beat, on the same test examples: majority is always the commonest class,
        chance draws answers at random, as often as each class occurs, tfidf is TF-IDF and logistic regression on
        all texts in one place, dictionary finds the training texts' entities wherever they occur in the test texts, the
        longest first, each with the type that it has most often.""",
    "Paired test": f"""Two methods are compared seed by seed on the same data, by the two-sided paired t-test of
        their final figures; it needs at least 3 common seeds. The p-values of all pairs on this page are
        corrected together by Holm's method; below {LEVEL} a difference is called significant. From 6 common
        seeds on, Wilcoxon's signed-rank test (uncorrected) is shown beside it. Only the first figure of the
        table is tested.""",
    "Bytes up and down": """Encoded messages from sites to the coordinator (up) and back (down), framing
        included, before any transport's own overhead. 1 kB is 1000 bytes. Training and evaluation are counted
        apart.""",
    "Rounds to target": "The first evaluated round in which the study's target ([stop]) was met.",
    "Sum only, each": """Sum only: the method gets nothing but the sum of the sites' answers. Unless secure
        aggregation is on, the coordinator's machine still receives every answer. Each: the method gets every
        site's answer.""",
    "Fingerprints": """SHA-256 hashes. Of data: of all examples of all sites. Of settings: of the resolved study
        but its name, description, number of rounds and what it expects. Equal fingerprints mean equal
        data, or equal settings.""",
}


def definitions(report: Report) -> Html:
    """The figures first, then the other terms."""
    splits = dict.fromkeys(split_of(metric) for panel in report.panels for metric in panel.metrics)
    entries = {NAMES.get(name, name.replace("_", " ")): what for name, what in _figures(report.panels).items()}
    if splits:
        entries["Splits"] = " ".join(f"{SPLIT_WORDS[split].capitalize()}: {SPLITS[split]}." for split in splits)
    entries |= {name: " ".join(what.split()) for name, what in TERMS.items()}
    return tag("dl", [tag("div", tag("dt", name), tag("dd", what)) for name, what in entries.items()])


def _figures(panels: Sequence[Panel]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for panel in panels:
        for name, what in definition_of(panel.metrics).items():
            one = f"{what[:1].upper()}{what[1:].rstrip('.')}."
            meanings[name] = one if meanings.get(name, one) == one else f"{meanings[name]} In another task: {one}"
    return meanings

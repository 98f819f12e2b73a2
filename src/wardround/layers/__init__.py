"""Layers by the name that a study gives them; the bound and the ledger are there without one."""

from wardround.core.register import Register

LAYERS = Register(
    {
        "kept-back": "wardround.layers.kept_back:KeptBack",
        "least-examples": "wardround.layers.least:LeastExamples",
        "narrow": "wardround.layers.narrow:Narrow",
        "small-counts": "wardround.layers.small_counts:SmallCounts",
    }
)

"""Tasks by name."""

from wardround.core.register import Register

TASKS = Register(
    {
        "bags": "wardround.tasks.bags:Bags",
        "classification": "wardround.tasks.classification:Classification",
        "features": "wardround.tasks.features:Features",
        "relation": "wardround.tasks.relation:Relations",
        "tagging": "wardround.tasks.tagging:Tagging",
    }
)

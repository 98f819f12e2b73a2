"""What a class of your own may import: a method, a task, a format or corpus, a layer; and nothing else of ours.

    from wardround.extend import FedAvg, Global

These names stay; where they live may change. docs/own-method.md, docs/own-layer.md and the examples use them.
"""

from wardround.clinic import Clinic
from wardround.core.cohort import BelowQuorum, Cohort
from wardround.core.exchange import Exchange
from wardround.core.flat import flattened, restored
from wardround.core.layer import Layer, Withheld
from wardround.core.method import Counts, Exam, Global, Method, Step, on_site
from wardround.core.record import Message, Private, Record, reveals
from wardround.core.site import Site
from wardround.core.task import Batch, ClassTask, Examples, SiteData, Task
from wardround.core.training import LocalTraining, Pull, Term, Tilt
from wardround.core.weights import Layout, Weights
from wardround.methods.fedavg import FedAvg, Update
from wardround.tasks.classes import ClassifierTask
from wardround.tasks.features import FeatureRows, FeaturesTask
from wardround.tasks.task import BoundTask, TaskSettings
from wardround.text.document import Attribute, Document, Entity, Relation
from wardround.text.prediction import Label, Prediction
from wardround.text.reading import Problems

__all__ = [
    "Attribute", "Batch", "BelowQuorum", "BoundTask", "ClassTask", "ClassifierTask", "Clinic", "Cohort", "Counts",
    "Document", "Entity", "Exam", "Examples", "Exchange", "FeatureRows", "FeaturesTask", "FedAvg", "Global", "Label",
    "Layer", "Layout", "LocalTraining", "Message", "Method", "Prediction", "Private", "Problems", "Pull", "Record",
    "Relation", "Site", "SiteData", "Step", "Task", "TaskSettings", "Term", "Tilt", "Update", "Weights", "Withheld",
    "flattened", "on_site", "restored", "reveals",
]  # fmt: skip

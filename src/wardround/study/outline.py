"""The keys and tables of a study, with types, bounds and defaults; what `[method]` and its like hold is elsewhere."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AfterValidator, Field

from wardround.study.schedule import ScheduleTable
from wardround.study.settings import TomlTable


class SitesTable(TomlTable):
    """Who takes part in a round."""

    fraction: Annotated[float, Gt(0), Le(1)] = 1.0
    """C: the share of sites drawn for each round."""
    per_round: Annotated[int, Ge(1)] | None = None
    """Their number, instead of `fraction`."""
    quorum: Annotated[int, Ge(1)] = 1
    """With fewer usable replies the run stops; over real sites it is 2 unless the study says otherwise."""
    private: tuple[str, ...] = ()
    """Parts of the model, by module name, that each site trains and keeps for itself; `all` leaves each alone."""
    share: Annotated[float, Gt(0), Le(1)] = 1.0
    """What share of its training examples a site uses, drawn by the seed; the pooled reference uses the same ones."""


class RobustTable(TomlTable):
    """What stands between a site that lies and the model; over real sites there is a `bound` in any case."""

    rule: Literal["bound", "median", "trimmed", "geometric", "krum"] = "bound"
    """What takes the place of the mean over sites, behind the bound: the median or the trimmed mean of each number, the
    geometric median, or the mean of those nearest to each other; `bound` keeps the mean."""
    bound: Annotated[float, Gt(1)] | None = None
    """An update longer than this many times the median of its exchange is left out; unset: 5, which honest sites kept
    within in all trials of docs/lying.md."""
    liars: Annotated[int, Ge(1)] = 1
    """How many sites may lie at once: `trimmed` leaves out this many at either end, `krum` this many in all; every rule
    needs twice as many and one more."""
    keep: Annotated[int, Ge(1)] | None = None
    """`krum`: how many of those nearest to each other are averaged; unset: all but the `liars`; 1 is Krum itself."""


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("should have at least one value")
    return values


def device_name(name: str) -> str:
    """The name of a device, if it can be one."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,2})?|mps", name):
        raise ValueError('should be "auto", "cpu", "cuda", one of several such as "cuda:1", or "mps"')
    return name


class EvaluationTable(TomlTable):
    """When, on what, and how closely the shared model is tried."""

    every: Annotated[int, Ge(1)] = 1
    """Rounds from one evaluation to the next; the last round is always tried."""
    splits: Annotated[tuple[Literal["test", "train", "valid"], ...], AfterValidator(_some)] = ("test",)
    """The splits that are tried."""
    each: bool = False
    """Whether the coordinator sees each site's counts (then the report has them), not only their sum."""


class Validation(TomlTable):
    """Examples that choose the round whose model is kept, and when there is no use in going on."""

    share: Annotated[float, Gt(0), Lt(1)] | None = None
    """What share of each site's training examples is set aside, by the seed; what has a validation split keeps that."""
    by: Literal["document", "source", "patient", "within"] = "document"
    """What stays whole when a share is drawn: documents, sources or patients; `within` draws of each source."""
    metric: str | None = None
    """The figure that chooses, such as `macro_f1`; if not given, the first that the task has."""
    patience: Annotated[int, Ge(1)] | None = None
    """After this many evaluations without a better one, and with a figure above 0, the run stops; if not given, all
    rounds are run."""


class Stop(TomlTable):
    """Stop when a metric reaches its target."""

    metric: str = "accuracy"
    """The figure that is watched: `valid_accuracy` on validation examples, `train_loss` on those trained on."""
    target: float
    """The value that it has to reach."""
    early: bool = True
    """False goes on to the last round and only notes when the target was reached."""
    on_test_figures: bool = False
    """Has to be true for a figure of the test split to end a run: the figures there then look better than they are."""


class FinishTable(TomlTable):
    """What is done once after the last round."""

    head: Literal["ridge", "ccvr"]
    """How the classifier is fitted anew to the features that were learnt, from sums over all sites."""
    penalties: Annotated[tuple[Annotated[float, Gt(0)], ...], MinLen(1)] | None = None
    """`ridge`: the λ to choose from; this and what follows, if not given, as the head has it."""
    sharpness: Annotated[float, Gt(0)] | None = None
    """`ridge`: what the scores are multiplied by."""
    least_rows: Annotated[int, Ge(0)] | None = None
    """`ridge`: a site with fewer training rows, but some, is left out."""
    lone: Literal["keep", "refuse", "drop"] | None = None
    """`ridge`: what becomes of a class that one site alone has."""
    virtual: Annotated[int, Ge(1)] | None = None
    """`ccvr`: how many features are drawn, of all classes together."""
    virtual_steps: Annotated[int, Ge(1)] | None = None
    """`ccvr`: Adam steps over all of them."""
    virtual_lr: Annotated[float, Gt(0)] | None = None
    """`ccvr`: their size."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the head that are given."""
        return self.model_dump(exclude={"head"}, exclude_none=True)


LEAST = 0.1  # ε of a run: what is rounded up in counting it (`privacy.accounting`) would outweigh less
CLIP = 1e-6  # the least: in single precision far smaller ones would leave gradients as they are, and noise none


class DPTable(TomlTable):
    """Differential privacy: how little of one example, document or patient a site may tell, whoever listens."""

    epsilon: Annotated[float, Ge(LEAST)]
    """ε of the whole run: because of one unit the odds of anything change by at most e^ε; 1 is strict, 8 is loose."""
    delta: Annotated[float, Gt(0), Lt(1)]
    """δ: how likely it is that this fails; far below one over the number of a site's units, such as 1e-5."""
    clip: Annotated[float, Ge(CLIP), Le(1 / CLIP)] = 1.0
    """C: how long the gradient of a unit may be; what is longer is shortened to it."""
    unit: Literal["example", "document", "patient"] = "patient"
    """What is protected as a whole: all examples of a patient, all of a document, or each by itself."""
    evaluation: Literal["noised", "outside"] = "noised"
    """Whether what evaluation counts has noise as well; `outside` leaves test and validation notes unprotected, and is
    for simulations alone."""
    count_clip: Annotated[float, Ge(CLIP), Le(1 / CLIP)] = 2.0
    """How much a unit may count in an evaluation, as the length of its counts; a text with one label has up to 2."""


class PrivacyTable(TomlTable):
    """What protects sites from the coordinator and from each other."""

    secure_aggregation: bool = False
    """Whether replies leave under masks, so that the coordinator sees only their sum and nobody any of them."""
    fewest: Annotated[int, Ge(2)] = 3
    """How few sites may be in a sum: those in it, all but one, could take the sum apart together."""
    same_members: bool = False
    """Whether all sums of the study are of the same sites, so that no two differ in one: who is lost, is waited for."""
    dp: DPTable | None = None
    """Differential privacy in the sites' own training, and in all else that they tell."""


class PublicTable(TomlTable):
    """Examples that everybody may see: one of the two."""

    fraction: Annotated[float, Gt(0), Lt(1)] | None = None
    """The share of the training examples that everybody may see; only in simulations."""
    corpus: dict[str, Any] | None = None
    """A corpus that everybody may see, as `[corpus]`."""


class Outline(TomlTable):
    """The study's own keys; the named tables are checked by what they name."""

    name: str
    """What the study is called, and the folder of its runs."""
    description: str = ""
    """A sentence for the report."""
    rounds: Annotated[int, Ge(1)]
    """How many rounds there are."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    """What every draw comes from; the same seed gives the same bits."""
    seeds: Annotated[tuple[Annotated[int, Ge(0), Lt(2**32)], ...], MinLen(1)] | None = None
    """Several seeds, each of which is a run; instead of `seed`."""
    method: dict[str, Any]
    """How the sites learn together: `name` and the settings of that method."""
    task: dict[str, Any]
    """What is learnt: `name` and the settings of that task."""
    corpus: dict[str, Any]
    """What it is learnt from: `name` and its settings, or `format` and the files."""
    partition: dict[str, Any] | None = None
    """How the corpus is cut into sites; without it, by its own sites or sources."""
    start: Literal["ridge"] | None = None
    """How the classifier is solved before the first round, from sums over all sites; the settings are those of a
    `finish` that is `ridge`, too. If not given, it is drawn."""
    finish: FinishTable | None = None
    """What is done once after the last round."""
    public: PublicTable | None = None
    """Examples that everybody may see, which some methods need."""
    layers: tuple[dict[str, Any], ...] | None = None
    """What changes messages on their way, in the order from the step to the wire."""
    robust: RobustTable | None = None
    """What stands between a site that lies and the model; unset: a bound over real sites, nothing in simulations."""
    privacy: PrivacyTable | None = None
    """What protects sites from the coordinator and from each other."""
    sites: SitesTable = SitesTable()
    """Who takes part in a round."""
    evaluation: EvaluationTable = EvaluationTable()
    """When, on what, and how closely the shared model is tried."""
    validation: Validation | None = None
    """Examples that choose the round whose model is kept."""
    stop: Stop | None = None
    """The figure at which the run may stop."""
    schedule: ScheduleTable | None = None
    """When rounds may start; if not given, at any time."""
    device: Annotated[str, AfterValidator(device_name)] | None = None
    """Where models compute in a simulation: "auto", "cpu", "cuda", one of several such as "cuda:1", or "mps"; if not
    given, the CPU. A real site says so in its own `site.toml`."""
    precision: Literal["fp32", "bf16"] | None = None
    """What products are computed in, in a simulation; weights stay in single precision; if not given, fp32."""
    references: tuple[Literal["majority", "chance", "tfidf", "dictionary"], ...] | None = None
    """What the model is measured against besides; if not given, what costs next to nothing."""
    grid: dict[str, Any] = Field(default_factory=dict)
    """Lists of values for dotted keys, such as `"method.lr"`; each combination is a run."""
    expected: dict[str, Any] = Field(default_factory=dict)
    """Published figures, which the report shows beside the measured ones."""


def stopped(outline: Outline) -> Iterator[str]:
    """Why a run may not end by the figure that its [stop] names."""
    stop, tried = outline.stop, outline.validation is not None or "valid" in outline.evaluation.splits
    if stop is None:
        return
    if stop.metric.startswith("valid_") and not tried:
        yield (
            f"stop.metric = {stop.metric!r} is of validation texts, and none are tried; add [validation], with "
            "share = 0.1 unless the corpus has some"
        )
    elif stop.early and not stop.on_test_figures and not stop.metric.startswith(("train_", "valid_")):
        also = "" if tried else "add [validation] and "
        yield (
            f"stop.metric = {stop.metric!r} is a figure of the test split, which would then look better than it is: "
            f"choose the round with [validation], or {also}stop by stop.metric = 'valid_{stop.metric}'; "
            "stop.early = false only notes it, and stop.on_test_figures = true stops all the same"
        )

"""A site's own settings, `site.toml`: where its data are, what its labels mean, and what it consents to.

    settings = read_site(folder)                # all that is wrong at once; `template` has a file to begin with
    train, test = settings.examples(study)      # in the study's words, as its task takes them

In a rehearsal `[data]` may say `from_study = true`: the site takes its part of the study's own corpus.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt, MinLen
from pydantic import AfterValidator, Field

from wardround.federation.partition import Raw
from wardround.federation.sites import Sites, federate, opened, pooled
from wardround.formats.register import FORMATS
from wardround.privacy.journal import Allowance
from wardround.study.load import Study, cells
from wardround.study.outline import device_name
from wardround.study.settings import StudyError, TomlTable, checked, layered
from wardround.study.trusted import Trusted, module_problems
from wardround.text.reading import existing_path
from wardround.text.texts import Texts

if TYPE_CHECKING:
    from wardround.core.device import Device, Precision
    from wardround.core.layer import Layer
    from wardround.core.record import Message

REMEDIES = {
    "name is missing": ": the site's name in the consortium",
    "data is missing": ': say under [data] where the notes are, e.g. format = "csv", train = "…", test = "…"',
}


class Consent(TomlTable):
    """What a site takes part in, and what may leave it, whatever has been approved."""

    steps: tuple[str, ...] | Literal["any"] = "any"
    """The steps of methods that may be taken here, or any."""
    messages: tuple[str, ...] | Literal["any"] = "any"
    """The kinds of messages that may leave, or any; delicate ones, such as Sums, must be named: ["any", "Sums"]."""
    smallest_count: Annotated[int, Ge(0)] = 10
    """Labels with fewer examples are left out of what evaluation tells."""
    label_counts: bool = True
    """Whether rounded counts of labels may leave before the first round, to weigh classes alike at all sites."""
    least_examples: Annotated[int, Ge(0)] = 5
    """No reply leaves that stands on fewer examples, unless it stands on none."""
    largest_change: Annotated[float, Gt(0)] = 10.0
    """How many times as far as this site's own training leads the weights may have moved, per round."""

    pinned: bool = True
    """Whether this site joins masked sums only with sites whose keys it has pinned: wardround site trust."""

    def allows(self, step: str, reply: "type[Message]") -> bool:
        """Whether this step may be taken and this kind of message may leave."""
        named = reply.__name__ in self.messages if self.messages != "any" else False
        free = "any" in self.messages and not reply.delicate
        return (self.steps == "any" or step in self.steps) and (named or free)


class BudgetTable(TomlTable):
    """What all studies together may cost this site's patients, by differential privacy."""

    epsilon: Annotated[float, Gt(0)]
    """ε of all studies together; each run adds its own."""
    delta: Annotated[float, Gt(0), Lt(1)]
    """δ of all studies together."""
    unit: Literal["example", "document", "patient"] = "example"
    """The least that a study has to protect as a whole; less counts too little of a patient with several notes."""


class _Outline(TomlTable):
    """The file's own keys; `[data]` is checked by what it names, with the study that is to be read from it."""

    name: str
    """The site's name in the consortium."""
    threads: Annotated[int, Ge(1)] = 1
    """Threads for training; results are equal bit for bit with equal numbers."""
    device: Annotated[str, AfterValidator(device_name)] | None = None
    """Where models compute here: "auto", "cpu", "cuda", one of several such as "cuda:1", "mps"; otherwise the CPU."""
    precision: Literal["fp32", "bf16"] | None = None
    """What products are computed in here; weights are in single precision either way. If not given, fp32."""
    data: Annotated[dict[str, Any], MinLen(1)]
    """Where the notes are: as `[corpus]` in a study, with paths that start at this file."""
    labels: dict[str, str] = Field(default_factory=dict)
    """From the site's word for a label or type to the study's."""
    consent: dict[str, Any] = Field(default_factory=dict)
    """What the site takes part in, and what may leave it."""
    budget: BudgetTable | None = None
    """What all studies together may cost this site's patients; with one, only studies with `[privacy.dp]` run here."""
    layers: tuple[dict[str, Any], ...] = ()
    """What else every reply passes here, before the study's own layers."""
    modules: dict[str, Any] = Field(default_factory=dict)
    """Python files beside this one that may run here, with their SHA-256."""


@dataclass(frozen=True)
class SiteSettings:
    """`site.toml`, checked."""

    folder: Path
    name: str
    threads: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    consent: Consent = field(default_factory=Consent)
    modules: Mapping[str, str] = field(default_factory=dict)
    layers: tuple["Layer", ...] = ()
    """What every reply passes here, before the study's own layers."""
    allowance: Allowance | None = None
    """The privacy budget over all studies, if there is one."""
    device: "Device" = field(default_factory=lambda: _device(None, None)[0])
    """Where models compute here, whatever a study says."""

    @property
    def trusted(self) -> Trusted:
        """The Python modules that may run here, whoever names them."""
        return Trusted(self.folder, self.modules)

    def _as_in(self, study: Study) -> dict[str, Any]:
        """What the study says of facts, in the site's words: relations and types, if the site aligns its own notes."""
        form = FORMATS.get(str(self.data.get("format", "")))
        if form is None or form.ready or study.task.takes != "bags":
            return {}
        corpus = study.resolved["corpus"]

        def words(name: str) -> list[str]:
            own = [word for word, meant in self.labels.items() if meant == name]
            return own if name in self.labels else [name, *own]

        relations = [word for name in corpus.get("relations", ()) for word in words(name)]
        pairs = [list(both) for head, tail in corpus.get("pairs", ()) for both in product(words(head), words(tail))]
        return {key: value for key, value in (("relations", relations), ("pairs", pairs)) if value}

    def _public(self, study: Study) -> None:
        """Refuse a study whose public examples, on which predictions leave, would be the hospital's own notes."""
        if study.public is None:
            return
        if study.public.fraction is not None:
            raise ValueError(
                "public.fraction would make some of this site's notes public; a study names [public.corpus]"
            )
        allowed = (self.folder / "public").resolve()
        for name in strings_in(study.resolved["public"]["corpus"]):
            path = existing_path(name, str(self.folder)).resolve()
            if name and path.exists() and not path.is_relative_to(allowed):
                raise ValueError(
                    f"public.corpus names a file outside {allowed}; what everybody may see lies there, "
                    f'and the study says so: train = "public/…"'
                )

    def examples(self, study: Study) -> tuple[Raw, Raw]:
        """The site's training and test examples as this study's task takes them."""
        train, test, *_ = self.parts(study)
        return train, test

    def parts(self, study: Study) -> tuple[Raw, ...]:
        """The same, and its validation examples where the study wants some and the site has a split of them."""
        valid = "valid" in study.evaluation.splits
        if self.data.get("from_study"):
            sites = federate(opened(study.corpus, valid=valid), study.partition, study.seed, study.public)
            if self.name not in sites.names:
                known = ", ".join(sites.names[:10])
                raise ValueError(f"data.from_study: the study's corpus has no site {self.name!r}; it has {known}")
            return _parts(sites, self.name)
        self._public(study)
        tables = {**study.resolved, "corpus": {**self._as_in(study), **self.data}}
        tables.pop("partition", None)
        where = str(self.folder / "site.toml")
        try:
            reader = cells(tables, where=where, folder=self.folder, trusted=self.trusted)[0].study.corpus
        except StudyError as error:  # what a study calls [corpus], site.toml calls [data]
            raise StudyError(where, [re.sub(r"^corpus\b", "data", problem) for problem in error.problems]) from None
        if self.labels and not hasattr(reader, "documents"):
            raise ValueError("labels cannot be renamed in a corpus that has no documents; take out [labels]")
        return tuple(_renamed(part, self.labels) for part in _parts(pooled(opened(reader, valid=valid)), "pooled"))


def _parts(sites: Sites, name: str) -> tuple[Raw, ...]:
    """Training, test and, if there are such, validation examples of a site."""
    return (*sites.raw(name), *([sites.valid(name)] if sites.valid else []))


def strings_in(value: Any) -> Iterator[str]:
    """Every text in a table, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_in(item)


def _renamed(raw: Raw, words: Mapping[str, str]) -> Raw:
    """Examples whose labels, entity types and relation types are the study's words for the site's."""
    if not words or not isinstance(raw, Texts):
        return raw
    return Texts(
        tuple(
            replace(
                document,
                labels=tuple(words.get(label, label) for label in document.labels),
                entities=tuple(replace(e, type=words.get(e.type, e.type)) for e in document.entities),
                relations=tuple(replace(r, type=words.get(r.type, r.type)) for r in document.relations),
            )
            for document in raw.documents
        )
    )


def read_site(folder: Path) -> SiteSettings:
    """The settings in this folder, or all that is wrong with them."""
    path = folder / "site.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise StudyError(str(path), ["there is no such file; make it with: wardround site init KIT"]) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(str(path), [f"cannot be read: {error}"]) from None
    problems: list[str] = []
    outline = checked(_Outline, tables, "", problems)
    consent, modules = (table if isinstance(table := tables.get(key), dict) else {} for key in ("consent", "modules"))
    allowed = checked(Consent, consent, "consent", problems)
    problems += module_problems(modules)
    layers, _ = layered(outline.layers if outline else (), folder, problems, Trusted(folder, modules))
    problems += [
        f"layers: {type(layer).__name__} needs the coordinator; a study names it, a site cannot add it alone"
        for layer in layers
        if layer is not None and not layer.alone
    ]
    device, missing = _device(outline and outline.device, outline and outline.precision)
    problems += missing
    if problems:
        raise StudyError(str(path), [f"{problem}{REMEDIES.get(problem, '')}" for problem in problems])
    budget = outline.budget
    allowance = Allowance(budget.epsilon, budget.delta, budget.unit) if budget else None
    return SiteSettings(
        folder, outline.name, outline.threads, tables["data"], outline.labels, allowed, modules, layers, allowance,
        device,
    )  # fmt: skip


def _device(name: str | None, precision: "Precision | None") -> "tuple[Device, list[str]]":
    """What the site names, and what is wrong with that."""
    from wardround.core.device import tried  # noqa: PLC0415 -- torch, which not every command needs

    return tried(name, precision)


def site_study(folder: Path, text: str, where: str) -> Study:
    """A study as this site reads it: files that it names are looked for in its folder, and no code comes with it."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(where, [f"not valid TOML: {error}"]) from None
    return cells(tables, where=where, folder=folder, trusted=read_site(folder).trusted)[0].study

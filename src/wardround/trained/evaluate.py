"""How well a model does on labelled files: what `wardround evaluate` prints and `wardround.evaluate` gives.

    result = evaluate("runs/x/model", "test.csv")
    result.figures["accuracy"], result.base["accuracy"]         # the model's, and a constant answer's
    result.classes[0].recall, result.confusion                  # of each class; true (rows) by answered (columns)

Files become examples as in a study, by the view that the model's task takes, and the task counts as it does in a run:
on the test files of a run the figures are the run's. What the study said of its corpus holds here too (columns, if the
format is the same; renamed labels; which pairs are candidates), unless it is given anew. Each path is counted by
itself, as each site of a run is, and the counts are added.

What the model has no label for is left out, and counted. No text is kept or shown.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from wardround.corpora.files import Files
from wardround.corpora.register import FILES
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.formats.register import Format
from wardround.metrics.by_class import ByClass, each_class
from wardround.privacy.words import short
from wardround.runs.loop import one_thread
from wardround.study.settings import named
from wardround.text.document import Document
from wardround.text.facts import BagSentence
from wardround.text.reading import DataError, Problems, nearest
from wardround.text.shown import names_of, note_of
from wardround.text.texts import Texts
from wardround.trained.model import Part, load_part
from wardround.trained.source import as_encoded

MADE = {"pairs", "none", "scope", "both_ways", "kb"}
"""Settings that make examples of notes: where the files hold examples already, they say nothing."""
DECLARED = {"labels", "types", "unseen"}
"""Settings that bound a study's training: whoever tries a model counts what is beyond."""
UNASKED = {"id", "source", "patient"}
"""Columns and keys that a file need not have to be tried on."""


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on labelled files."""

    figures: dict[str, float]
    base: dict[str, float]
    """The same of a constant answer."""
    constant: str
    """Which that is, in words."""
    classes: tuple[ByClass, ...]
    confusion: tuple[tuple[int, ...], ...] | None
    """Examples by true class (rows) and answered class, in the order of `classes`; of entities, nothing comes last."""
    left_out: int
    """Examples that are in no figure, for want of a label that the model knows."""
    unknown: dict[str, int]
    """How often each label, or type of entities, stands there that the model does not know; those that may be shown."""
    unnamed: int
    """How often there are others, which may not be shown."""
    problems: tuple[str, ...]
    """What was odd in the files, with counts and places."""
    noise: str = ""
    """What differential privacy has to do with these figures, if the model was trained with it."""

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def evaluate(
    model: str | Path,
    *paths: str | Path,
    form: str = "",
    options: Options | None = None,
    rename: Mapping[str, str] | None = None,
    kb: str | Path | None = None,
    trust: Sequence[str | Path] = (),
) -> Evaluation:
    """Try a model on labelled files; `form` names their format if it is not recognised, `kb` the facts for bags."""
    if not paths:
        raise ValueError("name at least one file or folder with labelled texts")
    part, problems = load_part(Path(model), trust), Problems()
    _refuse_unknown(part, rename or {})
    given = {"rename": dict(rename or {}), "kb": str(kb) if kb else None}
    counts: dict[str, torch.Tensor] = {}
    unknown, places, left_out = Counter[str](), set[tuple[str, str]](), 0
    with one_thread():
        for path in map(Path, paths):
            files = _files(part, path, form, options or Options(), given)
            texts = Texts(tuple(files.documents("test", problems)))  # type: ignore[attr-defined]  # of every view
            mine, others = part.task.known(texts)
            left_out, unknown = left_out + len(texts) - len(mine), unknown + others
            places |= {(name, _written(one)) for one in texts.documents for name in part.task.named(Texts((one,)))}
            if not len(mine):
                what, name = _nothing_for(part, texts)
                example = f'{{ "…" = "{name}" }}'
                remedy = f"see what is there with wardround data check, and map it: rename = {example}"
                raise DataError(path, None, what, remedy)
            for name, value in part.task.count(part.network, part.task.examples(mine)).items():
                counts[name] = counts[name] + value if name in counts else value
    return _evaluation(part, counts, unknown, names_of(name for name, _ in places), left_out, problems)


def _written(document: Document) -> str:
    """What names were written down for: a note, or a pair with all its sentences."""
    bag = document.fact if isinstance(document, BagSentence) else None
    return f"{bag.head} {bag.tail}" if bag else note_of(document.id)


def _nothing_for(part: Part, texts: Texts) -> tuple[str, str]:
    """Why there is nothing to try, and one of the names that the model knows, to show how another is mapped to it."""
    if related := () if len(texts) else _related(part):
        return f"no pair of entities of the types that the model relates ({', '.join(related)})", related[0]
    name = next(iter((*part.about.types, *part.about.labels)), "…")
    return "no example with a label that the model knows", name


def _related(part: Part) -> tuple[str, ...]:
    """The types of entities between which the model finds relations."""
    return tuple(sorted({kind for both in part.about.pairs or () for kind in both}))


def _refuse_unknown(part: Part, rename: Mapping[str, str]) -> None:
    """Raise an error if the model does not know what names are to become, whatever the files hold."""
    own = part.about.task.get("rename") or {}  # what its study calls them before it learns
    known = (*part.about.labels, *part.about.types, *_related(part), *own)
    for name in rename.values():
        if name not in known:
            close = nearest(name, known)
            remedy = f"did you mean {close}?" if close else f"it knows: {', '.join(known)}"
            raise ValueError(f"rename to {name!r}, which the model does not know; {remedy}")


def _files(part: Part, path: Path, form: str, options: Options, given: Mapping[str, Any]) -> Files:
    """The files at a path as the view of them that the model's task takes."""
    kind: Any = FILES[part.settings.takes or "labels"]
    study = tomllib.loads((part.folder / "study.toml").read_text(encoding="utf-8")).get("corpus", {})
    options = as_encoded(path, options, [study])
    format_ = recognised(path, form, options.encoding)[0][1]
    if "kb" in study and format_.ready is None and not given["kb"]:
        remedy = "name their file: kb = …"
        raise DataError(path, None, "the model was trained on notes that were aligned with public facts", remedy)
    wishes = {name: value for name in format_.options if (value := getattr(options, name, None))}
    if "quoting" in format_.options and options.quoting is not None:
        wishes["quoting"] = options.quoting
    if "header" in format_.options and (
        options.header is not None or any(str(value).isdecimal() for value in wishes.values())
    ):
        wishes["header"] = options.header  # whoever counts columns may have no names for them: as the rows show
    general = {"encoding": options.encoding, "language": options.language or study.get("language", "")}
    table = _of_model(part) | _of_study(study, kind, format_) | general | wishes
    table["rename"] = {**table.get("rename", {}), **given["rename"]}
    if given["kb"]:
        table["kb"] = given["kb"]
    known = {field.name for field in fields(kind)} - (MADE if format_.ready else set())
    table = {name: value for name, value in table.items() if name in known and value is not None}
    where = {"name": "files", "format": format_.name, "train": str(path), "test": str(path)}
    wrong: list[str] = []
    files, _ = named("corpus", {"files": kind}, {**table, **where}, wrong)
    if wrong:
        raise DataError(path, None, "; ".join(one.removeprefix("corpus: ") for one in wrong))
    return files  # type: ignore[no-any-return]  # as the register has it


def _of_model(part: Part) -> dict[str, Any]:
    """Which pairs are candidates, and what they are called that nobody related."""
    about = part.about
    none = about.negative or ("none" if "none" in about.labels else "")
    return {"pairs": about.pairs, "scope": about.scope, "both_ways": about.both_ways, "none": none}


def _of_study(corpus: Mapping[str, Any], kind: Any, form: Format) -> dict[str, Any]:
    """What the study says of its own files that holds of others, too."""
    names = {field.name for field in fields(kind)} - {field.name for field in fields(Files)} - DECLARED - {"kb"}
    if corpus.get("format") == form.name:
        names |= {*form.options} - {"show_text", "delimiter", *UNASKED}  # which is each file's own
    elif form.ready != "pairs":
        names -= {"unrelated"}
    return {name: value for name, value in corpus.items() if name in names and value != []}  # which is: not given


def _evaluation(
    part: Part,
    counts: Mapping[str, torch.Tensor],
    unknown: Counter[str],
    shown: frozenset[str],
    left_out: int,
    problems: Problems,
) -> Evaluation:
    """The figures made of the counts."""
    task, each = part.task, part.task.by_class(counts)
    constant = task.constant(counts)
    base = task.metrics(constant) if constant else {}
    confusion = each.get("confusion")
    return Evaluation(
        figures=dict(task.metrics(counts)),
        base={name: value for name, value in base.items() if math.isfinite(value)},
        constant=task.constant_answer if constant else "",
        classes=each_class({k: v.tolist() for k, v in each.items()}, task.names()) if each else (),
        confusion=None if confusion is None else tuple(tuple(map(int, row)) for row in confusion.tolist()),
        left_out=left_out,
        unknown={name: count for name, count in sorted(unknown.items()) if name in shown},
        unnamed=sum(count for name, count in unknown.items() if name not in shown),
        problems=tuple(str(problems).splitlines()),
        noise=_noise(part),
    )


def _noise(part: Part) -> str:
    dp = tomllib.loads((part.folder / "study.toml").read_text(encoding="utf-8")).get("privacy", {}).get("dp")
    if not dp:
        return ""
    return (
        f"the model was trained with the noise of differential privacy ({short(dp)}); these figures are counted "
        "without any, so they are exact, and the texts behind them are not protected"
    )

"""`wardround new PATH`: a study for a user's own files, after they are checked, so that a first run needs no reading.

    wardround new notes/                        # a folder with train and test in it, as `data split` writes them;
                                                # valid, dev or devel beside them chooses the round
    wardround new train.csv test.csv --label-column ward --out wards.toml

Exit codes: 0 all is well, 1 something of the files would be lost, 2 the command or the input is wrong. Note text is
printed only with `--show-text`.
"""

import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wardround.cli.data.findings import show_findings
from wardround.cli.options import console, errors, fail, one_of, refusals
from wardround.cli.reading import COLUMNS, as_given, reading
from wardround.core.files import write
from wardround.formats.options import VIEWS, Options
from wardround.formats.register import FORMATS
from wardround.formats.splits import splits_in
from wardround.tasks import TASKS

if TYPE_CHECKING:
    from wardround.formats.check import Survey

VIEWED = ("labels", "entities", "pairs")
"""What documents show that they are for; bags also need public facts."""
DEFAULT = Path("study.toml")


@reading
def command(
    path: Annotated[Path, typer.Argument(help="The training texts, or a folder with train and test in it.")],
    test: Annotated[Path | None, typer.Argument(help="The test texts.", show_default=False)] = None,
    task: Annotated[str, typer.Option(help="What is to be learnt, if the texts leave it open.")] = "",
    out: Annotated[Path, typer.Option(help="The study file to write.")] = DEFAULT,
    lossy: Annotated[bool, typer.Option("--lossy", help="Go on even if something of the files would be lost.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Write a study for your own files: what they show is filled in, the rest is in comments."""
    if out.exists():
        fail(f"{out} is there already, and nothing is overwritten; name another with --out")
    with refusals(out):
        written = f" --task {task}" * bool(task) + f" --out {quote(str(out))}" * (out != DEFAULT)
        files = _files(path, test, as_given(options, form), written)
        from wardround.formats.check import check
        from wardround.study.draft import Draft, drafted
        from wardround.study.load import cells

        whole = [check(file, options, form=form) for file in files.values()]
        _compare(files, whole, options)
        form = _format(whole)
        known = {name: kind for name, kind in TASKS.items() if kind.finds}
        one_of(task, known, "--task")
        task = task or _chosen(known, form, whole)
        learnt = _learnt(known[task], whole)
        chosen = known[task](**learnt)
        taught = whole[0].names
        whole = [
            check(file, options, task=chosen, form=form)
            if split == "train"
            else check(file, options, task=chosen, form=form, learns=False, known=taught)
            for split, file in files.items()
        ]
        _compare(files, whole, options)
        _show(whole)
        lacking = sum(one.lost and one.line is None for survey in whole for one in survey.findings.listed)
        if lacking and lacking == sum(survey.findings.refused for survey in whole):
            fail("nothing was written; mend what is listed above", 1)
        if refused := [file for file, survey in zip(files.values(), whole, strict=True) if survey.findings.refused]:
            _refuse(refused, as_given(options, form), sum(survey.findings.refused for survey in whole), lossy=lossy)
        if not lossy and (kinds := _losses(whole)):
            rest = "mend that, or go on with --lossy and set it in the study; nothing else on the list stops you"
            fail(f"nothing was written: of what is listed, these would be lost: {kinds}; {rest}", 1)
        if options.source and 1 < whole[0].documents == len(whole[0].sources):
            errors.print(
                f"each text has a source of its own: does --source-column {options.source} name hospitals or wards?"
            )
        settings, named = _paths(files, whole, out.parent, options)
        settings |= _columns(form, files["train"], options)
        text = drafted(
            Draft(
                _name(path),
                task,
                known[task].takes,
                form,
                settings,
                whole,
                learnt,
                named or len(whole[0].sources),
                0 if named else whole[0].sourceless,
            )
        )
        study = tomllib.loads(text)
        cells(study, where=str(out), folder=out.parent)
        write(out, text.encode())
    sizes = " and ".join(f"{survey.documents:,} {split}" for split, survey in zip(files, whole, strict=True))
    console.print(f"{out}: {task} with {sizes} documents ({FORMATS[form].about})")
    if named:
        console.print(f"each of the {named} training files becomes a site; [partition] says so, and can cut otherwise")
    trained, *tried = [survey.labels.keys() for survey in whole]
    first = ""
    if known[task].takes == "labels" and "labels" not in study["corpus"] and (new := set().union(*tried) - trained):
        remedy = f"declare all labels first (labels = […] in [corpus] of {out}), or take these texts out"
        errors.print(f"labels that no training text has, and a run stops at: {len(new)} — {remedy}")
        first = "when that is done, "
    console.print(f"{first}run it: wardround run {out}")


def _files(path: Path, test: Path | None, options: str, written: str) -> dict[str, Path]:
    """Training and test texts, given or in a folder under these names; options as the next commands need them."""
    if test is not None:
        return {"train": path, "test": test}
    if not path.exists():
        fail(f"{path}: there is no such file or folder")
    splits = splits_in(path) if path.is_dir() else {}
    if not {"train", "test"} <= splits.keys():
        whole = path.resolve() if path.name in ("", "..") else path  # "." has no name to go by
        folder = whole.with_name(f"{whole.stem}-split")
        folder = Path(os.path.relpath(folder)) if whole is not path else folder
        each = " of each file, which becomes a site," * (path.is_dir() and len([*path.iterdir()]) > 1)
        remedy = f"set some{each} aside: wardround data split {quote(str(path))} {quote(str(folder))}{options}"
        then = f"wardround new {quote(str(folder))}{written}"
        fail(f"{path} has no texts for testing; {remedy}, then: {then}; or: wardround new TRAIN TEST{options}{written}")
    return splits


def _paths(
    files: Mapping[str, Path], whole: "list[Survey]", start: Path, options: Options
) -> tuple[dict[str, Any], int]:
    """Each split's path as the study has it, and how many hospitals there are: a training file for each of several.

    Files for testing are named by hospital if training texts have the same names; otherwise all sites are tried on all.
    """
    from wardround.formats.recognise import hospitals, recognised

    each = {
        split: hospitals(folder, recognised(folder, survey.formats.most_common(1)[0][0], options.encoding))
        if folder.is_dir() and not options.source and not survey.sources
        else {}
        for (split, folder), survey in zip(files.items(), whole, strict=True)
    }
    known = {*each["train"].values()}
    return {
        split: {name: os.path.relpath(file, start) for file, name in named.items()}
        if named and {*named.values()} <= known
        else os.path.relpath(files[split], start)
        for split, named in each.items()
    }, len(known)


def _losses(whole: "list[Survey]") -> str:
    """What would be lost of the files, each kind with its count; what nothing reads stays in them."""
    from wardround.formats.check import NO_PLACE
    from wardround.formats.doccano import METADATA
    from wardround.formats.jsonl import NOT_OURS

    sizes = Counter[str]()
    for survey in whole:
        lost = {one.group: one.what for one in survey.findings.listed if one.lost}
        sizes.update({what: survey.findings.sizes[group] for group, what in lost.items()})
    return ", ".join(f'"{what}" ({n:,})' for what, n in sizes.items() if what not in (METADATA, NOT_OURS, *NO_PLACE))


def _refuse(files: list[Path], options: str, count: int, *, lossy: bool) -> None:
    """What a reader refuses stops a run, which knows no --lossy: say how the rest can be used."""
    ways = [
        f"wardround data convert {quote(str(file))} {quote(str(file.with_name(f'{file.stem}-read.jsonl')))} "
        f"--to jsonl --lossy{options}"
        for file in files
    ]
    fail(
        f"nothing was written: a run would stop at {count:,} of what is listed{', also with --lossy' * lossy}; "
        f"mend it, or take what can be read: "
        f"{', '.join(ways)}, and write a study for that",
        1,
    )


def _compare(files: Mapping[str, Path], whole: "list[Survey]", options: Options) -> None:
    """Add what shows only beside the files of other splits."""
    from wardround.formats.unread import headless

    forms = [(file, next(iter(survey.formats), "")) for file, survey in zip(files.values(), whole, strict=True)]
    whole[0].findings.mention_each(headless((one for one in forms if one[0].is_file()), options))


def _format(whole: "list[Survey]") -> str:
    """The one format of the files."""
    formats = sorted({name for survey in whole for name in survey.formats})
    if len(formats) != 1 or any(survey.unreadable for survey in whole):
        _show(whole)
        mixed = f"files in several formats ({', '.join(formats)}): convert them to one; "
        fail(f"{mixed if formats[1:] else ''}nothing was written")
    return formats[0]


def _chosen(known: Mapping[str, Any], form: str, whole: "list[Survey]") -> str:
    """The one task that takes what the files hold."""
    ready, holds = FORMATS[form].ready, FORMATS[form].holds
    views = (
        [ready]
        if ready
        else [view for view in VIEWED if view in holds and any(survey.learnt(view) for survey in whole)]
    )
    able = [name for name, kind in known.items() if kind.takes in views]
    if not able:
        fail("the files hold neither labels nor entities; name the column with --label-column, or annotate them first")
    if len(able) > 1:
        choice = ", ".join(f"--task {name} ({VIEWS[known[name].takes]})" for name in able)
        fail(f"the files would do for several tasks; choose one: {choice}")
    return able[0]


def _learnt(kind: Any, whole: "list[Survey]") -> dict[str, Any]:
    """What a task has to be told about these texts."""
    fields, languages = kind.__dataclass_fields__, whole[0].languages
    several = any(survey.labels.total() > survey.documents - survey.unlabelled for survey in whole)
    more: dict[str, Any] = {"several": True} if several and "several" in fields else {}
    chinese = bool(languages) and languages.most_common(1)[0][0] == "zh"
    by_words = "tokens" in fields and kind.takes != "labels"
    if (by_words and chinese) or ("tokens" in fields and kind.takes == "labels" and _single(whole[0])):
        more["tokens"] = "characters"
    return more


def _single(survey: "Survey") -> bool:
    """Whether most texts are one word that no other has, such as codes: a study says then what to cut them into."""
    from wardround.tasks.words import FEWEST_TOKENS, JUDGED_FROM, MOST_KINDS

    alone = survey.documents - survey.duplicates > MOST_KINDS * survey.documents
    single = survey.documents >= JUDGED_FROM and survey.tokens < FEWEST_TOKENS * survey.documents and alone
    if single:
        what = "texts of about one word, of which hardly any comes twice"
        errors.print(f'{what}: tokens = "characters" is set; if they are in another column, name it with --text-column')
    return single


def _columns(form: str, path: Path, options: Options) -> dict[str, Any]:
    """The columns that were named, or that have a usual name, and what else was said of the files."""
    from wardround.formats.header import usual_columns
    from wardround.formats.tables import table_of

    known = FORMATS[form].options
    given = {name: value for name in (*COLUMNS, "separator") if (value := getattr(options, name)) and name in known}
    numbered = {name: int(value) if name in COLUMNS and value.isdecimal() else value for name, value in given.items()}
    if "header" in known and path.is_file():
        table = table_of(path, options, form)  # type: ignore[arg-type]  # a table's
        numbered = {**usual_columns(table.columns("all")), **numbered} if table.header else numbered
        by_number = any(isinstance(value, int) for value in numbered.values())
        numbered |= {"header": table.header} if by_number or options.header is not None else {}
    if options.fix_offsets and "fix_offsets" in known:
        numbered["fix_offsets"] = True
    more = {"encoding": options.encoding, "language": options.language}
    more |= {name: getattr(options, name) for name in ("delimiter", "quoting") if name in known}
    return {**numbered, **{name: value for name, value in more.items() if value not in (None, "")}}


def _show(whole: "list[Survey]") -> None:
    for survey in whole:
        show_findings(errors, survey.findings.listed, survey.findings.sizes)


def _name(path: Path) -> str:
    """A study's name, of the path's."""
    return re.sub(r"[^A-Za-z0-9]+", "-", path.resolve().stem).strip("-")[:50] or "study"

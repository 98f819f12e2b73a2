"""What a study leaves open and its data or its model decide: filled in when it is read, so that the run says which.

    more = left_open(built, tables, Languages())     # {"task": {"tokens": "characters", …}, "method": {"lr": 8.0, …}}

A task says what suits a language (`suited`), and which local training suits its model (`training`). The language is
what the corpus says of itself, or what its first texts seem to be in. Only whoever has the texts looks at them: to a
study that came from another party no file is opened, and a task may then refuse to guess.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from wardround.methods import METHODS
from wardround.study.grid import shown
from wardround.text.document import Document
from wardround.text.language import UNSPACED, blanks_between_words, mostly

LOOKED_AT = 100
UNTOLD: dict[str, Any] = {
    "weighting": "none", "class_weights": "none", "class_counts": None, "rarest": None, "shrinkage": None,
    "beside": None,
}  # fmt: skip
"""What follows from counts of a site's notes that have no noise, or goes with these: not under differential privacy."""
SPACED = "en"  # what texts too short to tell are taken for: cut at blanks


class Languages:
    """The languages of corpora, each of which is read once for all cells of a grid."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}

    def of(self, corpus: Any) -> tuple[str, bool]:
        """As `language_of`."""
        if (name := repr(corpus)) not in self._known:
            self._known[name] = language_of(corpus)
        return self._known[name]


def left_open(
    built: Mapping[str, Any], tables: Mapping[str, Any], languages: Languages | None
) -> dict[str, dict[str, Any]]:
    """By section, what to add to the settings that the study's tables give; without `languages` no text is read."""
    more: dict[str, dict[str, Any]] = {}
    task: Any = built.get("task")
    given = tables.get("method", {})
    if task is not None:
        corpus = built.get("corpus")
        language, spaced = (
            languages.of(corpus) if languages is not None and task.undecided else language_of(corpus, look=False)
        )
        suits_it = {**task.suited(language, spaced=spaced), **(UNTOLD if tables.get("privacy", {}).get("dp") else {})}
        open_keys = (key for key, value in suits_it.items() if value is not None and getattr(task, key, "") is None)
        more["task"] = {key: suits_it[key] for key in open_keys}
        task = replace(task, **more["task"]) if more["task"] else task
    known: Mapping[str, Mapping[str, Any]] = task.training if task is not None else {}
    method = built.get("method")
    suits: tuple[str, ...] = getattr(method, "suits", ())
    preset = next((name for name in known if name in suits), None)
    if preset and "lr" not in given:
        preset = built["method"].optimizer if "optimizer" in given or _preset(given.get("name")) else preset
        suited = {"optimizer": preset, **known.get(preset.removesuffix("w"), {})}  # of adamw, adam's
        given_too = {*given, *(("schedule",) if {"decay", "horizon"} & {*given} else ())}  # two ways to lower a rate
        if preset == "sgd" and "lr" in suited:
            suited["lr"] = built["method"].steady(suited["lr"])
        if getattr(method, "single_pass", False) or "steps" in given:  # which count instead of passes
            suited.pop("epochs", None)
        more["method"] = {key: value for key, value in suited.items() if key not in given_too}
    falls = getattr(method, "schedule", None) or more.get("method", {}).get("schedule")
    if falls and "horizon" not in given:
        more["method"] = more.get("method", {}) | {"horizon": max(tables["rounds"], 2)}
    return {section: values for section, values in more.items() if values}


def set_apart(built: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, ...]:
    """That a rate of the study's own leaves behind what was measured together with the model's; nothing if it does not.

    A rate goes with its optimiser, batch and passes: beside another one they were not measured, and are not filled in.
    """
    method, known = built["method"], built["task"].training
    suits: tuple[str, ...] = getattr(method, "suits", ())
    preset = next((name for name in known if name in suits), None)
    if "lr" not in given or preset is None:
        return ()
    preset = method.optimizer if "optimizer" in given or _preset(given.get("name")) else preset
    whole = {"optimizer": preset, **known.get(preset.removesuffix("w"), {})}
    passes = ("epochs",) if getattr(method, "single_pass", False) or "steps" in given else ()
    falls = ("schedule",) if {"decay", "horizon"} & {*given} else ()
    other = [key for key in whole if key not in (*given, *passes, *falls) and getattr(method, key) != whole[key]]
    if not other:
        return ()
    now = ", ".join(f"{key} = {shown(getattr(method, key))}" for key in other if getattr(method, key) is not None)
    unset = " and ".join(f"no {key}" for key in other if getattr(method, key) is None)
    measured = ", ".join(f"{key} = {shown(value)}" for key, value in whole.items())
    left = ", ".join(filter(None, (now, unset)))
    beside = "method.lr is given, so what suits the model is not filled in beside it"
    return (f"{beside}: {left}; measured together: {measured}",)


def language_of(corpus: Any, *, look: bool = True) -> tuple[str, bool]:
    """The language that a corpus declares, or that its first texts are in; and whether blanks stand between words.

    Nothing, and yes, if it cannot be had. What is declared decides: not everybody who reads a study has the texts.
    """
    declared = str(getattr(corpus, "language", ""))
    if declared or not look or corpus is None:
        return declared, declared not in UNSPACED
    try:
        some = list(islice(_first(corpus), LOOKED_AT))
    except (OSError, ValueError, LookupError):  # whatever is wrong with the files comes up when they are read whole
        return "", True
    named, texts = {document.language for document in some if document.language}, [one.text for one in some]
    language = named.pop() if len(named) == 1 else mostly(texts) or (SPACED if some else "")
    return language, language not in UNSPACED or blanks_between_words(texts)


def _first(corpus: Any) -> Iterator[Document]:
    """The first training documents of a reader, or of a corpus with sites of its own."""
    if hasattr(corpus, "documents") and callable(corpus.documents):
        yield from corpus.documents("train")
    elif hasattr(corpus, "names"):
        raw = corpus.open(corpus.names()[0])[0]
        yield from getattr(raw, "documents", ())


def _preset(name: Any) -> bool:
    """Whether a method's name stands for an optimiser."""
    return isinstance(name, str) and name in METHODS and "optimizer" in METHODS[name].settings

"""Names are found by a spaCy model on this machine, counted with the rest, and nothing is fetched or shown."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from study_files import cli
from wardround.formats import presidio as module
from wardround.formats.phi import DATE, MAIL, NAME, NUMBER, TELEPHONE, Finder, looks_like
from wardround.formats.presidio import presidio
from wardround.text.reading import DataError

HERE = 'Presidio is not installed: pip install "wardround[presidio]"'
NOTES = [
    "Zebulon Quirke was seen, MRN: 7654321",
    "nothing here",
    "Mr Zebulon Quirke of Quirkton, z.quirke@example.org, rang from 020 7946 0958 on 10 December 1815",
]


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r'not installed — pip install "wardround\[presidio\]", or leave --phi-model'):
        presidio(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that knows one name and one place."""
    pytest.importorskip("presidio_analyzer", reason=HERE)
    import spacy  # noqa: PLC0415 -- comes with it

    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    known = {"PERSON": "Zebulon Quirke", "GPE": "Quirkton", "QUANTITY": "nothing"}
    ruler.add_patterns([{"label": label, "pattern": pattern} for label, pattern in known.items()])
    folder = tmp_path_factory.mktemp("spacy") / "model"
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def finder(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Finder]:
    """By that model, on a machine without a network, which it does not even try to reach."""
    tried: list[str] = []
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, partial(_refused, tried, name))
    yield presidio(model)
    assert [] == tried


def _refused(tried: list[str], name: str, *_: object, **__: object) -> None:
    tried.append(name)  # whoever asks may go on without an answer
    raise OSError("there is no network")


def kinds(text: str, finder: Finder) -> list[str]:
    return sorted(kind for kind, _ in looks_like(text, finder))


def test_the_model_finds_names_that_no_title_shows(finder: Finder) -> None:
    assert [] == list(looks_like("seen with Zebulon Quirke"))
    assert [(NAME, 10)] == list(looks_like("seen with Zebulon Quirke", finder))
    assert [] == list(looks_like("seen with Anna Bell", finder))  # whom it does not know


def test_what_rules_and_model_both_find_counts_once(finder: Finder) -> None:
    assert [NAME] == kinds("Mr. Zebulon Quirke", finder)
    assert [DATE, TELEPHONE] == kinds("on 03/05/1961, tel. 020 7946 0958", finder)
    assert [NUMBER] == kinds("NHS 943 476 5919", finder)


def test_other_kinds_have_presidios_name_and_quantities_are_none(finder: Finder) -> None:
    assert ["looks like Presidio's IP_ADDRESS", "looks like Presidio's LOCATION"] == kinds(
        "Quirkton, 192.168.17.4, nothing", finder
    )


def test_an_address_asks_nothing_of_the_network(finder: Finder) -> None:
    assert [NAME, MAIL] == kinds("Zebulon Quirke, z.quirke@example.org, www.example.org", finder)


def test_a_very_long_text_is_looked_through_to_its_end(finder: Finder) -> None:
    text = "word " * 30_000 + "Zebulon Quirke " + "x" * 150_000 + " Zebulon Quirke"
    assert [text.index("Zebulon"), text.rindex("Zebulon")] == [start for _, start in looks_like(text, finder)]


def test_an_error_or_warning_of_the_model_quotes_nothing(
    finder: Finder, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from presidio_analyzer import AnalyzerEngine  # noqa: PLC0415 -- an extra

    def fails(_: object, text: str, *__: object, **___: object) -> None:
        raise ValueError(text)

    monkeypatch.setattr(AnalyzerEngine, "analyze", fails)
    with pytest.raises(DataError) as failed:
        list(finder("Zebulon Quirke"))
    assert f"{model}: the model failed on a text (ValueError)" in str(failed.value)
    assert "Quirke" not in str(failed.value)


def test_data_check_counts_by_kind_and_line_and_shows_nothing(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": str(at), "text": text}) + "\n" for at, text in enumerate(NOTES)))
    shown = cli("data", "check", path, "--phi-model", model, cwd=tmp_path)
    assert 0 == shown.code
    once = (DATE, MAIL, TELEPHONE, "looks like Presidio's LOCATION")
    for line, kind in ((1, NUMBER), *((3, kind) for kind in once)):
        assert f"{path}:{line}: {kind}" in shown.out
    assert f"at {path}:1, 3" in " ".join(shown.out.split())
    assert f"{path}:2" not in shown.out
    assert "2 that look like a name" in shown.out
    assert "1 that look like Presidio's LOCATION" in shown.out
    for secret in ("Zebulon", "Quirk", "quirke", "7654321", "7946", "1815"):
        assert secret not in shown.out + shown.err


def test_data_check_says_what_is_wrong_with_the_model(model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    refused = cli("data", "check", "notes.txt", "--phi-model", model.parent, cwd=tmp_path)
    assert (2, "") == (refused.code, refused.out)
    assert f"{model.parent}: no spaCy model — name the folder that holds config.cfg" in " ".join(refused.err.split())


def replaced(old: str, new: str) -> Callable[[Path], None]:
    """Change the configuration of a model."""

    def change(folder: Path) -> None:
        config = folder / "config.cfg"
        text = config.read_text()
        assert old in text
        config.write_text(text.replace(old, new))

    return change


FUNCTION = '@misc = "spacy.levenshtein_compare.v1"'
BY_REFERENCE = """[components.entity_ruler.other]
matcher = ${theirs}

[theirs]
@misc = "theirs.v1"
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shutil.rmtree, "model: there is no such folder — name one that holds a spaCy model; none is downloaded"),
        (lambda folder: (folder / "config.cfg").unlink(), "model: no spaCy model — name the folder that holds config"),
        (lambda folder: (folder / "meta.json").unlink(), "model: no spaCy model — name the folder that holds config"),
        (lambda folder: (folder / "parts.py").touch(), "parts.py: code or a pickle in the folder"),
        (lambda folder: (folder / "vocab" / "words.PKL").touch(), "words.PKL: code or a pickle in the folder"),
        (lambda folder: (folder / "config.cfg").write_text("no"), "config.cfg: no configuration of a spaCy model"),
        (replaced('factory = "entity_ruler"', 'factory = "wardround"'), "config.cfg: a part that is none of attr"),
        (replaced('factory = "entity_ruler"', 'source = "elsewhere"'), "config.cfg: a part that is none of attr"),
        (replaced(FUNCTION, '@misc = "theirs.v1"'), "config.cfg: a function of @misc that is not spaCy's own"),
        (
            replaced(f"[components.entity_ruler.matcher_fuzzy_compare]\n{FUNCTION}", BY_REFERENCE),
            "config.cfg: a function of @misc that is not spaCy's own",
        ),
        (replaced(FUNCTION, '@layers = "spacy.TorchBiLSTMEncoder.v1"'), "config.cfg: a function of @layers"),
        (
            replaced("before_creation = null", 'before_creation = {"@callbacks":"spacy.models_with_nvtx_range.v1"}'),
            "config.cfg: a function of @callbacks that is not",
        ),
        (replaced('lang = "en"', 'lang = "../en"'), "config.cfg: no language of spaCy's"),
        (replaced('lang = "en"', 'lang = "qq"'), "cannot load it (ImportError) — copy it again, or name a model"),
        (lambda folder: (folder / "vocab" / "strings.json").write_text("["), "cannot load it (ValueError)"),
    ],
)
def test_a_folder_that_is_no_plain_model_is_refused(
    change: Callable[[Path], None], message: str, model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    change(folder)
    with pytest.raises(DataError) as refused:
        presidio(folder)
    assert message in str(refused.value)

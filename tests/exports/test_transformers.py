"""A relation model that was exported for transformers has the same states and, by its README's lines, predictions."""

import json
import re
import runpy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file

from encoder_folders import tiny_encoder
from trained_models import relater, sorter, tagger
from wardround import Document, Entity, ModelError, load
from wardround.clinic.pairs import ClinicPairs
from wardround.exports import export
from wardround.models.relation import RelationModel
from wardround.tasks.relation import RelationTask
from wardround.text.pairs import pair
from wardround.trained.model import Part, load_part

PAIRS = tuple(ClinicPairs(hospitals=1, notes=0, test_notes=6).documents("test"))
VARIANTS: dict[str, dict[str, Any]] = {
    "frozen trunk": {"freeze": 1},
    "all trained": {"projection": 8, "cls": False, "blind": False, "normalise": False},
    "adapters": {"adapter": {"rank": 4}},
    "one layer, no markers": {"layers": 1, "markers": False, "bias": False},
}


@pytest.fixture(scope="module", params=VARIANTS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("variant")
    encoder = tiny_encoder(place / "here", vocab_size=30, auto_map={"AutoModel": "evil.Model"})
    task = {"name": "relation", "encoder": str(encoder), "longest": 100, **VARIANTS[request.param]}
    return relater(place / "run", task=task)


def lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the README's lines define, run in the folder."""
    match = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert match
    script = folder.parent / "lines.py"
    script.write_text(match[1], encoding="utf-8")
    monkeypatch.chdir(folder)
    return runpy.run_path(str(script))


def task_of(part: Part) -> RelationTask:
    assert isinstance(part.task, RelationTask)
    return part.task


@torch.no_grad()
def scores(part: Part) -> torch.Tensor:
    """Our model's scores of all pairs."""
    task = task_of(part)
    examples = task.unlabelled(PAIRS)[0]
    scores = torch.zeros(len(PAIRS), len(task.labels))
    for batch in task.batches(examples, 4, None):
        scores[batch.rows] = task.scored(cast("RelationModel", part.network), batch)
    return scores


def test_the_readme_s_lines_give_the_same_predictions(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export([run], "transformers", tmp_path / "out")
    part, related = load_part(run), lines(tmp_path / "out", monkeypatch)["related"]
    results = []
    for document in PAIRS:
        ends = {entity.id: (entity.start, entity.end, entity.type) for entity in document.entities}
        results.append(list(related(document.text, ends["e1"], ends["e2"]).values()))
    ours = scores(part).softmax(1)
    torch.testing.assert_close(torch.tensor(results), ours, atol=1e-5, rtol=0)
    assert len({tuple(row) for row in results}) > len(PAIRS) // 2


@torch.no_grad()
def test_the_encoder_has_the_same_states(run: Path, tmp_path: Path) -> None:
    export([run], "transformers", tmp_path / "out")
    from transformers import AutoModel  # noqa: PLC0415 -- takes seconds, and every worker collects this file

    theirs = AutoModel.from_pretrained(tmp_path / "out", add_pooling_layer=False).eval().double()
    part = load_part(run)
    task, encoder = task_of(part), part.network.get_submodule("encoder").double()
    for batch in task.batches(task.unlabelled(PAIRS[:8])[0], 1, None):
        row = task.unlabelled(PAIRS)[0].sequences.rows[int(batch.rows[0])]
        trunk = batch.inputs.is_floating_point()  # which has been rounded
        ours = encoder(batch.inputs.double() if trunk else batch.inputs, batch.real)
        torch.testing.assert_close(
            theirs(torch.tensor([row])).last_hidden_state, ours, atol=1e-5 if trunk else 1e-9, rtol=0
        )


def test_the_folder_asks_for_no_code_and_keeps_the_card(run: Path, tmp_path: Path) -> None:
    export([run], "transformers", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert ("bert", ["BertModel"], False) == (config["model_type"], config["architectures"], "auto_map" in config)
    assert "**Not for clinical decisions.**" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_rows_that_no_token_has_and_roberta_s_positions_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tiny_encoder(tmp_path / "here", vocab_size=32, model_type="roberta")
    weights = load_file(encoder / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    save_file(weights | {name: torch.cat([weights[name], torch.full((2, 32), 9.0)])}, encoder / "model.safetensors")
    run = relater(tmp_path / "run", task={"name": "relation", "encoder": str(encoder), "longest": 100, "freeze": 2})
    export([run], "transformers", tmp_path / "out")
    related = lines(tmp_path / "out", monkeypatch)["related"]
    document = PAIRS[0]
    ends = {entity.id: (entity.start, entity.end, entity.type) for entity in document.entities}
    told = torch.tensor(list(related(document.text, ends["e1"], ends["e2"]).values()))
    torch.testing.assert_close(told, scores(load_part(run)).softmax(1)[0], atol=1e-5, rtol=0)


def test_the_lines_say_what_the_model_says_of_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = relater(tmp_path / "run")
    export([run], "transformers", tmp_path / "out")
    text = "the gene causes a disease and not b ."
    note = Document("", text, entities=(Entity("a", "treatment", 4, 8), Entity("b", "problem", 18, 25)))
    related = lines(tmp_path / "out", monkeypatch)["related"](text, (4, 8, "treatment"), (18, 25, "problem"))
    (link,) = (link for link in load(run)(note).relations if link.head == "T1")
    assert (link.type, pytest.approx(link.confidence, abs=1e-5)) == max(related.items(), key=lambda one: one[1])


def test_a_sentence_that_would_have_to_be_cut_is_refused_by_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export([relater(tmp_path / "run")], "transformers", tmp_path / "out")
    with pytest.raises(ValueError, match="at most 60"):
        lines(tmp_path / "out", monkeypatch)["related"]("a b " + "c " * 60, (0, 1, "test"), (2, 3, "problem"))


@pytest.mark.parametrize(("made", "said"), [(tagger, "a tagger with a CRF"), (sorter, "a bag of words or an LSTM")])
def test_what_transformers_has_no_model_for_is_refused_with_the_reason(made: Any, said: str, tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    with pytest.raises(ModelError, match=said):
        export([run], "transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tagger_without_a_crf_is_not_refused_for_having_one(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "here")
    run = tagger(tmp_path / "run", task={"name": "tagging", "model": "encoder", "encoder": str(encoder)})
    for to, said in (("transformers", "as wardround cuts them"), ("onnx", "what makes word pieces of a text")):
        with pytest.raises(ModelError, match=said):
            export([run], to, tmp_path / "out")


def test_a_text_that_holds_a_marker_itself_is_read_as_the_model_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, `<e1>` in a note was a token of the export, and its relations were told with another confidence."""
    run = relater(tmp_path / "run")
    export([run], "transformers", tmp_path / "out")
    part, related = load_part(run), lines(tmp_path / "out", monkeypatch)["related"]
    task = task_of(part)
    for odd in ("<e1>", "</e2>", " <e2> ", "[SEP]", "\u200b", "\n", "é"):
        text = f"the gene{odd}causes a disease{odd}and not b ."
        start = text.index("disease")
        head, tail = Entity("", "treatment", 4, 8), Entity("", "problem", start, start + len("disease"))
        (batch,) = task.batches(task.unlabelled([pair("", text, head, tail, "")])[0], 1, None)
        ours = task.scored(cast("RelationModel", part.network), batch).detach().softmax(1)[0]
        told = related(text, *((one.start, one.end, one.type) for one in (head, tail)))
        torch.testing.assert_close(torch.tensor(list(told.values())), ours, atol=1e-5, rtol=0)

"""A signed model's folder: whom it is trusted to be from, and all that it refuses."""

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trained_models import sorter
from wardround import ModelError, load
from wardround.cli.app import app, main
from wardround.text.document import Document, Placed
from wardround.trained.about import SIGNATURE, SUMS, read_about, seal_folder
from wardround.trained.compared import differences
from wardround.trained.model import Model
from wardround.trained.pool import WorkerError, predictions
from wardround.trained.signature import make_key, sign, signer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sorter(tmp_path_factory.mktemp("signed") / "run") / "model"


@pytest.fixture
def signed(model: Path, tmp_path: Path) -> Path:
    """A copy of it, signed with `ward.key`."""
    shutil.copytree(model, tmp_path / "model")
    make_key(tmp_path / "ward.key")
    sign(tmp_path / "model", tmp_path / "ward.key")
    return tmp_path / "model"


def test_a_signed_model_is_taken_by_who_trusts_its_key(signed: Path) -> None:
    expected = load(signed)("Aspirin gave her a rash")
    assert expected == load(signed, trust=[signed.parent / "ward.key.pub"])("Aspirin gave her a rash")
    assert 0o600 == stat.S_IMODE((signed.parent / "ward.key").stat().st_mode)


def test_an_unsigned_one_and_another_s_are_refused_in_words(model: Path, signed: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other.key")
    with pytest.raises(ModelError, match="nobody has signed it; ask for a signed one"):
        load(model, trust=[tmp_path / "ward.key.pub"])
    with pytest.raises(ModelError, match=f"signed with the key {signer(signed)!s:.16}…, which is not one that you"):
        load(signed, trust=[tmp_path / "other.key.pub"])
    both = [tmp_path / "other.key.pub", tmp_path / "ward.key.pub"]
    assert load(signed, trust=both).parts


def _weights(folder: Path) -> None:
    path = folder / "study.toml"
    path.write_bytes(path.read_bytes() + b"\n")


def _sums(folder: Path) -> None:
    _weights(folder)
    (folder / SUMS).write_text(seal_folder(folder), encoding="utf-8")


def _more(folder: Path) -> None:
    (folder / "terms.txt").write_text("one more\n", encoding="utf-8")


def _half(folder: Path) -> None:
    (folder / SIGNATURE).write_text('{"form"', encoding="utf-8")


def _replayed(folder: Path) -> None:
    """The signature of the same model with another card."""
    values = json.loads((folder / SIGNATURE).read_text(encoding="utf-8"))
    _sums(folder)
    (folder / SIGNATURE).write_text(json.dumps(values), encoding="utf-8")


def _linked(folder: Path) -> None:
    """A file elsewhere in place of its equal, which can be another tomorrow."""
    path = folder / "study.toml"
    path.rename(folder.parent / "elsewhere.toml")
    path.symlink_to(folder.parent / "elsewhere.toml")


def _linked_folder(folder: Path) -> None:
    """A folder beyond a link, in which there may be any file."""
    (folder.parent / "encoder").mkdir()
    (folder.parent / "encoder" / "more.json").write_text("{}", encoding="utf-8")
    (folder / "encoder").symlink_to(folder.parent / "encoder", target_is_directory=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_weights, "damaged: its checksum is not the one written"),
        (_sums, "changed after it was signed; do not use this model"),
        (_replayed, "changed after it was signed"),
        (_more, r"terms\.txt: it is not in SHA256SUMS"),
        (_half, "cannot be read"),
        (_linked, r"study\.toml: it is a link"),
        (_linked_folder, "encoder: it is a link"),
    ],
)
def test_whatever_was_changed_after_signing_is_refused(
    signed: Path, change: Callable[[Path], None], message: str
) -> None:
    change(signed)
    with pytest.raises(ModelError, match=message):
        load(signed, trust=[signed.parent / "ward.key.pub"])


def test_no_link_is_signed(signed: Path) -> None:
    _linked(signed)
    with pytest.raises(ModelError, match="it is a link, and what is behind it can change; put a copy in its place"):
        sign(signed, signed.parent / "ward.key")


def test_every_worker_looks_at_the_signature_and_takes_no_other_model(signed: Path) -> None:
    model = load(signed, trust=[signed.parent / "ward.key.pub"])
    texts = [Placed(Document("1", "Aspirin gave her a rash"), Path("x"), 1)]
    assert [model("Aspirin gave her a rash").labels] == [one.labels for _, one in predictions(model, texts, 2)]
    _sums(signed)
    for checked in (model, Model(model.parts)):  # with keys to trust, and with none
        with pytest.raises(WorkerError, match=r"a worker cannot load the model: .* changed (after it|since it)"):
            list(predictions(checked, texts, 2))


def test_keys_that_cannot_be_used_are_told_with_the_remedy(model: Path, tmp_path: Path) -> None:
    key = tmp_path / "ward.key"
    with pytest.raises(ModelError, match="there is no such key; make one: wardround model key"):
        sign(model, key)
    make_key(key)
    with pytest.raises(ModelError, match="exists already"):
        make_key(key)
    with pytest.raises(ModelError, match=r"this key is private; give its public half, .*ward\.key\.pub"):
        load(model, trust=[key])
    with pytest.raises(ModelError, match="it is a public key; sign with the private one"):
        sign(model, tmp_path / "ward.key.pub")
    other = tmp_path / "other.key"
    other.write_bytes(b"no key")
    other.chmod(0o600)
    with pytest.raises(ModelError, match="it is not a private key"):
        sign(model, other)
    key.chmod(0o640)
    with pytest.raises(ModelError, match="others can read this key; chmod 600"):
        sign(model, key)
    assert not (model / SIGNATURE).exists()


def test_the_commands_sign_show_and_refuse(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(model, tmp_path / "model")
    folder, key = str(tmp_path / "model"), str(tmp_path / "a.key")
    run = CliRunner().invoke
    assert "not signed" in run(app, ["model", "show", folder]).stdout
    assert 0 == run(app, ["model", "key", key]).exit_code
    assert "signed with the key" in run(app, ["model", "sign", folder, "--key", key]).stdout
    assert "which you trust" in run(app, ["model", "show", folder, "--trust", f"{key}.pub"]).stdout
    make_key(tmp_path / "b.key")
    (tmp_path / "n.txt").write_text("Aspirin", encoding="utf-8")
    for command in (
        ["predict", folder, "--text", "Aspirin"],
        ["evaluate", folder, str(tmp_path / "n.txt")],
        ["export", folder, "--to", "onnx", "--out", str(tmp_path / "out")],
        ["serve", folder, "--port", "0"],
        ["model", "show", folder],
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--trust", f"{key[:-5]}b.key.pub"])
        assert 2 == ended.value.code
        assert "which is not one that you trust" in capsys.readouterr().err


def test_a_model_tells_what_it_comes_from(model: Path) -> None:
    lineage = read_about(model).lineage
    data = json.loads((model.parent / "data.json").read_text(encoding="utf-8"))
    assert (data["fingerprint"], 64) == (lineage.data, len(lineage.study))
    assert f"The examples of all sites: `{lineage.data[:16]}`" in (model / "README.md").read_text(encoding="utf-8")


def test_two_models_are_compared_by_what_they_are_and_by_their_weights(model: Path, tmp_path: Path) -> None:
    assert [] == differences(model, model.parent)
    other = sorter(tmp_path / "other", rounds=1, seed=4) / "model"
    lines = {one.what: (one.one, one.other) for one in differences(model, other)}
    assert ("2", "1") == lines["rounds"]
    assert "lineage.study" in lines
    assert [name for name in lines if name.startswith("weights ")]
    assert "of its length apart" in next(words for name, (_, words) in lines.items() if name.startswith("weights "))
    shown = CliRunner().invoke(app, ["model", "diff", str(model), str(other), "--json"])
    assert {"what": "rounds", "one": "2", "other": "1"} in json.loads(shown.stdout)
    assert "no difference" in CliRunner().invoke(app, ["model", "diff", str(model), str(model)]).stdout

"""Letters between coordinator and site: what was changed, forged, misdirected or cut off is not read."""

import os
from pathlib import Path

import pytest

from wardround.engines import seal
from wardround.engines.seal import (
    Answerer,
    Asker,
    Parcel,
    SealError,
    make_sealing_key,
    make_signing_key,
    read_sealing_key,
    read_signing_key,
    verify_statement,
)

HEAD = {"study": "s", "run": "r", "exchange": {"step": "fit", "round": 1}, "ledger": "0"}


@pytest.fixture
def ends(tmp_path: Path) -> tuple[Asker, Answerer, Answerer, Asker]:
    """The coordinator, two sites, and somebody who knows all public keys."""
    keys = {name: make_sealing_key(tmp_path / name) for name in ("a", "b")}
    ask_key = make_signing_key(tmp_path / "ask")
    make_signing_key(tmp_path / "other")
    sites = [Answerer(name, ask_key, read_sealing_key(tmp_path / name)) for name in keys]
    desk, other = (Asker(read_signing_key(tmp_path / name), keys) for name in ("ask", "other"))
    return desk, sites[0], sites[1], other


@pytest.mark.parametrize("size", [0, 1, 1000, 2 * 1000, 2 * 1000 + 1])
def test_both_ends_read_what_the_other_wrote(
    ends: tuple[Asker, Answerer, Answerer, Asker], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(seal, "PIECE", 1000)
    desk, site, *_ = ends
    message = os.urandom(size)
    letter = desk.write("a", HEAD, message)
    ask = site.open(letter.head, letter.data)
    assert (HEAD, message) == (ask.head, ask.data)
    assert ({"ledger": "1"}, message[::-1]) == letter.read(*ask.reply({"ledger": "1"}, message[::-1]))
    verify_statement(ask.statement, site.ask_key)


def test_nothing_of_a_letter_can_be_changed(ends: tuple[Asker, Answerer, Answerer, Asker]) -> None:
    desk, site, *_ = ends
    letter = desk.write("a", HEAD, b"the model" * 20)
    for name, value in letter.head.items():
        for wrong in (None, "", 0, [value], "b" if value != "b" else "a", {"step": "fit", "round": 2}):
            with pytest.raises(SealError):
                site.open({**letter.head, name: wrong}, letter.data)
    for place in range(len(letter.data)):
        changed = bytearray(letter.data)
        changed[place] ^= 1
        with pytest.raises(SealError):
            site.open(letter.head, bytes(changed))
    inside = bytes.fromhex(letter.head["inside"])
    for place in range(len(inside)):
        changed = bytearray(inside)
        changed[place] ^= 1
        with pytest.raises(SealError):
            site.open({**letter.head, "inside": changed.hex()}, letter.data)
    for cut in (b"", letter.data[:7], letter.data[:-1], letter.data + b"0", letter.data[:-16]):
        with pytest.raises(SealError):
            site.open(letter.head, cut)


def test_a_letter_that_loses_its_last_piece_is_none(
    ends: tuple[Asker, Answerer, Answerer, Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "PIECE", 10)
    desk, site, *_ = ends
    letter = desk.write("a", HEAD, bytes(30))
    with pytest.raises(SealError, match="changed on the way"):
        site.open(letter.head, letter.data[: -(10 + seal.TAG)])


def test_only_the_one_it_is_for_opens_it_and_only_the_coordinator_writes_it(
    ends: tuple[Asker, Answerer, Answerer, Asker],
) -> None:
    desk, site, neighbour, other = ends
    letter = desk.write("a", HEAD, b"x")
    with pytest.raises(SealError, match="for another"):
        neighbour.open(letter.head, letter.data)
    forged = other.write("a", HEAD, b"x")
    with pytest.raises(SealError, match="not signed by the coordinator"):
        site.open(forged.head, forged.data)
    with pytest.raises(SealError, match="not sealed with our key"):
        site.open(letter.head, forged.data)  # the coordinator's statement, and other bytes


def test_a_message_to_many_is_encrypted_once_and_none_of_them_can_put_another_in_its_place(
    ends: tuple[Asker, Answerer, Answerer, Asker],
) -> None:
    desk, site, neighbour, _ = ends
    parcel = Parcel.of(b"the model")
    mine, theirs = (desk.write(name, HEAD, parcel) for name in ("a", "b"))
    assert parcel.data is mine.data is theirs.data
    assert b"the model" == site.open(mine.head, mine.data).data == neighbour.open(theirs.head, theirs.data).data
    with pytest.raises(SealError, match="another message inside than outside"):
        site.open(mine.head, seal._encrypted(parcel.key, b"a worse one"))  # by a neighbour, who has the same key
    with pytest.raises(SealError, match="not sealed with our key"):
        site.open({**mine.head, "inside": theirs.head["inside"]}, mine.data)
    answer = site.open(mine.head, mine.data).reply({}, b"the update")
    with pytest.raises(SealError):
        theirs.read({**answer[0], "ask": theirs.head["ask"]}, answer[1])
    with pytest.raises(SealError, match="not sealed with our key"):
        seal._inside(parcel.key, answer[0])
    with pytest.raises(SealError, match="not sealed with our key"):
        seal._decrypted(parcel.key, answer[1])


def test_an_answer_is_read_by_its_asker_alone_and_to_its_own_ask(
    ends: tuple[Asker, Answerer, Answerer, Asker],
) -> None:
    desk, site, *_ = ends
    first, second = desk.write("a", HEAD, b"x"), desk.write("a", HEAD, b"x")
    answer = site.open(first.head, first.data).reply({}, b"the update")
    assert b"the update" not in answer[1]
    for wrong in (answer, ({**answer[0], "ask": second.head["ask"]}, answer[1])):
        with pytest.raises(SealError):
            second.read(*wrong)
    keys: tuple[object, ...] = ("00" * 32, [], {}, 0, None)
    for head in ({}, {"ask": first.head["ask"]}, *({**answer[0], "key": key} for key in keys)):
        with pytest.raises(SealError):
            first.read(head, answer[1])
    assert ({}, b"the update") == first.read(*answer)


def test_keys_are_their_owners_alone_and_never_written_over(tmp_path: Path) -> None:
    make_signing_key(tmp_path / "keys" / "ask.key")
    assert (0o600, 0o700) == tuple((tmp_path / name).stat().st_mode & 0o777 for name in ("keys/ask.key", "keys"))
    with pytest.raises(FileExistsError):
        make_signing_key(tmp_path / "keys" / "ask.key")
    make_sealing_key(tmp_path / "seal")
    with pytest.raises(SealError, match="is not a key that signs"):
        read_signing_key(tmp_path / "seal")
    with pytest.raises(SealError, match="is not a key to which letters are sealed"):
        read_sealing_key(tmp_path / "keys" / "ask.key")

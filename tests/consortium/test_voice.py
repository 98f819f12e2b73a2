"""What a coordinator says reaches its terminal and its log, whatever else its process does."""

import json
from pathlib import Path

import pytest

from wardround.consortium.voice import LOG, Voice

pytest.importorskip("nvflare")


def test_a_line_is_on_the_terminal_too_if_nvflare_is_being_asked_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gate's thread speaks while another one has turned off what NVFlare prints."""
    from wardround.engines.flare import quiet  # noqa: PLC0415 -- an extra

    say = Voice(tmp_path / LOG)
    with quiet():
        say("site-1: cut off")
    expected = ["site-1: cut off"]
    assert expected == [line[len("00:00:00 ") :] for line in capsys.readouterr().out.splitlines()]
    assert expected == [json.loads(line)["text"] for line in (tmp_path / LOG).read_text().splitlines()]

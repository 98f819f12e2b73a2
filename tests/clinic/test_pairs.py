"""Generated notes as pairs: what the reader of the 2010 i2b2/VA layout makes of the same notes."""

from collections import Counter
from pathlib import Path

import pytest

from wardround.clinic import Clinic
from wardround.clinic.pairs import ClinicPairs
from wardround.clinic.write import write
from wardround.corpora.views import RelatedPairs
from wardround.federation.sites import opened


def test_they_are_the_pairs_of_the_files_that_the_same_clinic_writes(tmp_path: Path) -> None:
    """Labels, types and order of each pair; only blanks differ, which the files have between all tokens."""
    write(Clinic(hospitals=1, documents=12, test_documents=5, seed=4), tmp_path / "out", ["i2b2"])
    folder = tmp_path / "out" / "hospital-0"
    files = RelatedPairs(format="i2b2", train=str(folder / "train" / "i2b2"), test=str(folder / "test" / "i2b2"))
    ours = ClinicPairs(hospitals=1, notes=12, test_notes=5, seed=4)
    assert (files.labels, files.negative) == (ours.labels, ours.negative)
    for split in ("train", "test"):
        expected, actual = (
            Counter(
                (d.labels, *(d.text[e.start : e.end].replace(" ", "") for e in d.entities), d.text.replace(" ", ""))
                for d in reader.documents(split)
            )
            for reader in (files, ours)
        )
        assert expected == actual
        assert 20 < actual.total()


def test_unrelated_pairs_can_be_left_out() -> None:
    every, related = (
        Counter(d.labels[0] for d in ClinicPairs(notes=20, none=none).documents("train")) for none in ("none", "")
    )
    assert 0 < every.pop("none")
    assert every == related
    assert ("TrIP", "TrWP", "TrCP", "TrAP", "TrNAP", "TeRP", "TeCP", "PIP") == ClinicPairs(none="").labels
    assert "" == ClinicPairs(none="").negative


def test_each_hospital_is_a_source_and_the_seed_decides() -> None:
    corpus = opened(ClinicPairs(hospitals=3, notes=4, test_notes=2))
    assert ("hospital-0", "hospital-1", "hospital-2") == corpus.names
    assert all(len(corpus.raw(name)[0]) for name in corpus.names)
    first, again, other = ([d.text for d in ClinicPairs(notes=3, seed=seed).documents("train")] for seed in (1, 1, 2))
    assert first == again != other


def test_its_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="hospitals = 0; at least 1"):
        ClinicPairs(hospitals=0)

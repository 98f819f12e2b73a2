"""Where the public corpora are for tests: WARDROUND_DATA, or `shared/data` beside the project."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("WARDROUND_DATA") or Path(__file__).parents[2] / "shared" / "data").resolve()
VECTORS = DATA.parent / "vectors"

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the public corpora are not on this machine; set WARDROUND_DATA to their folder"
)
needs_vectors = pytest.mark.skipif(
    not VECTORS.is_dir(), reason="no folder `vectors` beside the one that WARDROUND_DATA names"
)

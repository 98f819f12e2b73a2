"""What coordinator and sites must agree on before a message travels: the study, by its hash."""

import hashlib
import sys
from pathlib import Path
from types import ModuleType

from wardround.study.load import Study
from wardround.study.trusted import SOURCE


def study_hash(study: Study) -> str:
    """A hash of all that decides what a study does: its settings, and the source of modules that are not ours."""
    whole = hashlib.sha256(study.fingerprint.encode())
    public = study.public.corpus if study.public else None
    for thing in (study.method, study.task, study.corpus, *study.layers, *([] if public is None else [public])):
        module = sys.modules[type(thing).__module__]
        if not module.__name__.startswith("wardround."):
            whole.update(_source(module))
    return whole.hexdigest()


def _source(module: ModuleType) -> bytes:
    """What a module was made of; at a site the very bytes, not those that may be in the file by now."""
    known: bytes | None = getattr(module, SOURCE, None)
    return Path(str(module.__file__)).read_bytes() if known is None else known

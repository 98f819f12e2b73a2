"""What coordinator and sites must agree on before a message travels: the study, by its hash."""

import hashlib
import inspect
import sys

from wardround.study import Study

__all__ = ["study_hash"]


def study_hash(study: Study) -> str:
    """A hash of all that decides what a study does: its settings, and the source of modules that are not ours."""
    whole = hashlib.sha256(study.fingerprint.encode())
    for thing in (study.method, study.task, study.corpus):
        module = sys.modules[type(thing).__module__]
        if not module.__name__.startswith("wardround."):
            whole.update(inspect.getsource(module).encode())
    return whole.hexdigest()

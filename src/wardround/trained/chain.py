"""Whether models fit together: what a tagger finds must be what the next model relates, under the same names."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wardround.text.reading import nearest
from wardround.trained.about import ModelError

if TYPE_CHECKING:
    from wardround.trained.model import Part


def refuse_misfit(parts: Sequence["Part"], rename: Mapping[str, str]) -> None:
    """Raise an error if no entity that a tagger finds could ever be related, or a renamed type is nobody's."""
    taggers = [part for part in parts if part.about.types]
    others = [part for part in parts if part.about.pairs is not None]
    types = sorted({kind for part in taggers for kind in part.about.types})
    wanted = sorted({kind for part in others for pair in part.about.pairs or () for kind in pair})
    for mine, theirs in rename.items():
        _known(mine, types, taggers, "is not a type that it finds")
        _known(theirs, wanted, others, "is not a type that it relates")
    called = {rename.get(kind, kind) for kind in types}
    for part in others if taggers else ():
        pairs = part.about.pairs or ()
        if not any(head in called and tail in called for head, tail in pairs):
            kinds = sorted({kind for pair in pairs for kind in pair} - called)
            what = f"it relates {_listed(kinds)}, and {taggers[0].folder} finds {_listed(types)}"
            raise ModelError(part.folder, what, f"say which is which: {_remedy(types, kinds)} (in Python rename={{…}})")


def _known(name: str, known: Sequence[str], parts: Sequence["Part"], what: str) -> None:
    if parts and known and name not in known:
        close = nearest(name, known)
        remedy = f"did you mean {close!r}?" if close else f"it has {_listed(known)}"
        raise ModelError(parts[0].folder, f"rename: {name!r} {what}", remedy)


def _listed(kinds: Sequence[str]) -> str:
    return ", ".join(map(repr, kinds[:10])) + (f" and {len(kinds) - 10} more" if len(kinds) > 10 else "")


def _remedy(types: Sequence[str], wanted: Sequence[str]) -> str:
    """Options that would do it, by likeness where there is some."""
    left = list(types)
    options = []
    for kind in wanted:
        close = nearest(kind, left)
        if close:
            left.remove(close)
        options.append((close or "TYPE", kind))
    return " ".join(f"--rename {mine}={theirs}" for mine, theirs in sorted(options)[:4])

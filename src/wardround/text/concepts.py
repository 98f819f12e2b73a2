"""Relations between concepts, which hold of every mention of the two in a text.

    related_concepts(relation, head, tail)          # (("Chemical", ("D003000",)), ("Disease", ("D006323",)))
    concept_keys(entity)                            # what of a relation's ends a mention can be

Where a file relates two concepts of a text and not two mentions (PubTator, BioC), the mentions that stand nearest to
each other are head and tail, and the attribute `mentions = all` says that the other mentions are related, too: those of
the same types, for vocabularies number their concepts alike (gene 9606, species 9606).
"""

from wardround.text.document import Attribute, Entity, Relation

ALL_MENTIONS = Attribute("mentions", "all")
OF_SEVERAL = ("head_concept", "tail_concept")
"""Attributes of a relation: which one of a mention's several concepts is related."""

Key = tuple[str, tuple[str, ...]]
"""A type, and one concept, or the several of a mention that a relation names together."""


def related_concepts(relation: Relation, head: Entity, tail: Entity) -> tuple[Key, Key]:
    """What a relation relates, by its mentions."""
    which = {one.name: one.value for one in relation.attributes if one.name in OF_SEVERAL}
    first, second = (
        (entity.type, next(((one,) for one in entity.concepts if _is(one, which.get(end, ""))), entity.concepts))
        for end, entity in zip(OF_SEVERAL, (head, tail), strict=True)
    )
    return first, second


def concept_keys(entity: Entity) -> set[Key]:
    """Each concept of a mention, and all of them together; nothing if it has none."""
    return {(entity.type, some) for some in {entity.concepts, *((one,) for one in entity.concepts)} if some}


def _is(concept: str, name: str) -> bool:
    """Whether a concept has this name, with or without that of its vocabulary."""
    return bool(name) and name in (concept, concept.rpartition(":")[2])

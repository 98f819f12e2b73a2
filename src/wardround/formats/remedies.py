"""What to do about each kind of problem that a reader notes; those with numbers or names in them say it themselves."""

from wardround.formats.bioc_json import ROLE, UNKNOWN
from wardround.formats.concept_relations import OF_ALL
from wardround.formats.details import GONE
from wardround.formats.doccano import METADATA, NO_ENTITY, NO_RELATION
from wardround.formats.jsonl import NOT_OURS
from wardround.formats.tables import HEADED
from wardround.formats.untouched import UNTOUCHED
from wardround.text.document import DISCONTINUOUS

NEARLY = "repeated text, but for white space, capitals or full-width letters"
UNANNOTATED = "training and `data merge` leave it out; annotate it, if only to say that there is nothing in it"
REMEDIES = {
    "note without .ann, skipped": "copy its .ann beside it; an empty one says that there is nothing to mark",
    "row without text, skipped": "remove the row, or name the right column",
    DISCONTINUOUS: "tags and markers have no gaps; shorten or split it if what lies between matters",
    "relation across lines, left out": 'candidates are pairs within a line; scope = "note" takes all',
    "relation across sentences, left out": 'candidates are pairs within a sentence; scope = "note" takes all',
    OF_ALL: "nothing to mend where texts were annotated as a whole, as PubTator's are",
    "relation of an entity that is left out, left out": "mend the entity first",
    "comment, ignored": "nothing, unless it holds what should be learnt",
    NOT_OURS: "name it with --label-column or --source-column if it is one of these",
    METADATA: "name it with --label-column, --source-column or --patient-column if it is one of these",
    "event, ignored": "there are only entities and relations; make it one of these if it matters",
    "attribute of an event, ignored": "events are not read; put the attribute on an entity",
    "infon of a passage, ignored": "nothing, unless it holds what should be kept: only annotations have attributes",
    "infon of a document, ignored": "nothing, unless it is the label, source or language: name it so",
    UNKNOWN: "nothing, unless it holds what should be kept: infons of annotations and relations are",
    ROLE: "nothing: what it says of the concept is said by the annotation, too",
    "name of a concept beside its id, not kept": "nothing: the id stands for it",
    GONE: "it was moved or removed since; say it again where it belongs",
    "half a character, replaced by U+FFFD": "the text was cut within a character; cut it elsewhere",
    "tags break their scheme, repaired": "check that B- and I- are as intended",
    NO_ENTITY: "doccano's relation export can come out empty (doccano#1795); export again with its newest version",
    NO_RELATION: "doccano's relation export can come out empty (doccano#1795); export again if relations were drawn",
    "name differs from the words at pos": "nothing, if a knowledge base calls it so; else correct pos, which counts",
    "offsets repaired": "convert to jsonl with --fix-offsets to keep the repaired ones",
    "task without an annotation": UNANNOTATED,
    "task without an annotation but with predictions, which nobody has confirmed": UNANNOTATED,
    UNTOUCHED: "`data merge` leaves it out, unless --confirmed says that somebody has looked at all of it",
    "second annotation of a task, left out": "mark the one that counts as ground truth",
    "repeated text": "remove one, so that it is not both in training and in test",
    NEARLY: "remove one, as of equal texts",
    HEADED: "set header = false if it is a row like the others",
    "repeated id": "give each document an id of its own",
    "same text with other annotations": "decide which is right",
    "document without a label, left out": "label or remove it",
    "overlapping entity, left out for a longer one": "tags cannot overlap; keep one of the two",
    "span cuts a token, widened to it": "mark whole words, or check that the wider span is intended",
    "entity without a token, left out": "remove it, or mark the word that is meant",
    "entity longer than a sentence may be, cut": "raise longest in [task], or split it",
    "sentence too long, cut": "raise longest in [task], or cut it at a better place",
}

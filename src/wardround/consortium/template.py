"""The `site.toml` that a new site begins with: for every task and format, how the notes are named.

SITE_TOML.format(name="a")
"""

__all__ = ["SITE_TOML"]

SITE_TOML = """# This site's own settings; see `wardround site check` for what is wrong or missing.
name = "{name}"
workers = 1                      # threads for training

# Where the notes are: ONE of the blocks below, by the study's task and by the format of the files.
# Paths start at this file. What else can be said, such as encoding: docs/data.md.

[data]                           # task classification, CSV (or "tsv")
format = "csv"
train = "train.csv"
test = "test.csv"
text = "text"                    # the names of the columns
label = "label"

# [data]                         # task classification, JSONL
# format = "jsonl"
# train = "train.jsonl"
# test = "test.jsonl"
# label = "labels"

# [data]                         # task tagging (entities), BRAT: folders of .txt and .ann
# name = "brat-notes"
# train = "train"
# test = "test"

# [data]                         # task tagging (entities), JSONL
# name = "entities-jsonl"
# train = "train.jsonl"
# test = "test.jsonl"

# [data]                         # task tagging (entities), CoNLL
# name = "conll"
# train = "train.conll"
# test = "test.conll"

# [data]                         # task relation (pairs of entities), BRAT
# name = "brat"
# train = "train"
# test = "test"
# pairs = [["DRUG", "DISEASE"]]  # this site's types that may be related; without it, those that are in training

# [data]                         # task relation (pairs of entities), JSONL
# name = "pairs-jsonl"
# train = "train.jsonl"
# test = "test.jsonl"
# pairs = [["DRUG", "DISEASE"]]

# [data]                         # task bags (distant supervision), JSONL of notes with entities and a list of facts
# name = "notes-bags"
# train = "train.jsonl"
# test = "test.jsonl"
# kb = "facts.tsv"

# [data]                         # task bags, what `wardround align` has written
# name = "bags"
# train = "train.jsonl"
# test = "test.jsonl"

# Not there: CSV has no place for entities, CoNLL none for labels or relations, BRAT none for labels.
# `wardround data convert` makes JSONL of either, to which the rest can be added.

[labels]                         # this site's word = the study's
# Medication = "DRUG"

[consent]
steps = "any"                    # or a list of what this site takes part in: ["fit", "evaluate"]
messages = "any"                 # or a list of what may leave: ["Update", "Counts"]
smallest_count = 10              # labels with fewer examples are left out of what evaluation tells
least_examples = 5               # nothing leaves that stands on fewer examples (FedNER: its share of a batch)
largest_change = 10              # weights may have come so far, by what this site's own training changes in a round

[modules]                        # Python files beside this one that may run here; see `wardround site trust-module`
"""

"""The `site.toml` that a new site begins with: for the usual formats, how the notes are named.

SITE_TOML.format(name="a")
"""

SITE_TOML = """# This site's own settings; see `wardround site check` for what is wrong or missing.
name = "{name}"
threads = 1                      # threads for training
# device = "auto"                # a GPU if there is one; "cpu" by default, "cuda:1" for one of several

# Where the notes are: ONE of the blocks below, by the format of the files; the study's task chooses what is read.
# Paths start at this file. What else can be said, such as encoding: docs/data.md.

[data]                           # CSV (or "tsv"), for classification
format = "csv"
train = "train.csv"
test = "test.csv"
text = "text"                    # the names of the columns
label = "label"

# [data]                         # our JSONL, for classification, tagging (entities) and relation (pairs of entities)
# format = "jsonl"
# train = "train.jsonl"
# test = "test.jsonl"

# [data]                         # JSONL and a list of facts, for bags (distant supervision)
# format = "jsonl"
# train = "train.jsonl"
# test = "test.jsonl"
# kb = "facts.tsv"

# [data]                         # what `wardround align` has written, for bags
# format = "bags"
# train = "train.jsonl"
# test = "test.jsonl"

# [data]                         # BRAT, folders of .txt and .ann, for tagging and relation
# format = "brat"
# train = "train"
# test = "test"

# [data]                         # CoNLL columns, for tagging
# format = "conll"
# train = "train.conll"
# test = "test.conll"

# [data]                         # Label Studio's JSON (or "doccano", "bioc"), for classification, tagging and relation
# format = "label-studio"
# train = "train.json"
# test = "test.json"

# For relation and bags, pairs = [["DRUG", "DISEASE"]] names this site's types that may be related; without it, they
# are those of the relations in training.

[labels]                         # this site's word = the study's
# Medication = "DRUG"

[consent]
steps = "any"                    # or a list of what this site takes part in: ["fit", "evaluate"]
messages = "any"                 # or a list: ["Update", "Counts"]; ["any", "Sums"] adds one that must be named
smallest_count = 10              # labels with fewer examples are left out of what evaluation tells
label_counts = true              # whether rounded counts of labels may leave once, to weigh classes alike at all sites
least_examples = 5               # nothing leaves that stands on fewer examples (FedNER: its share of a batch)
largest_change = 10              # how far weights may have moved, in multiples of what training here moves them a round
pinned = true                    # only in masked sums with sites whose keys are pinned; `wardround site trust`

# [budget]                       # what all studies together may cost this site's patients (docs/privacy.md)
# epsilon = 3.0                  # with a budget, only studies with [privacy.dp] run here
# delta = 1e-5
# unit = "patient"               # studies that protect only single notes or documents are refused

[modules]                        # Python files beside this one that may run here; see `wardround site trust-module`
"""

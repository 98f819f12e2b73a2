"""Who may try what at a hospital's door, as a table: `docs/threats.md` is made of it.

@threat("another hospital")
def test_…                     # the test that tries it
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["OPEN", "TABLE", "Gap", "Row", "threat"]

T = TypeVar("T", bound=Callable[..., Any])


class Row(NamedTuple):
    """Who it is and what they hold, what they try, what happens."""

    who: str
    tries: str
    happens: str


class Gap(NamedTuple):
    """What is not defended, what it means, and what can be done about it today."""

    what: str
    means: str
    instead: str


TABLE = {
    # who is not the coordinator
    "another hospital": Row(
        "another hospital of the consortium, with its own certificate and token",
        "asks NVFlare's server who is there, and sends the coordinator's own question to a hospital's job; signs it "
        "with a key of its own",
        "NVFlare carries it; the site process opens only what the coordinator's key has signed: nothing "
        "leaves, and the site's ledger has a line of it (`unsigned`)",
    ),
    "local user": Row(
        "any user of the hospital's machine, with no key and no access to the site's folder",
        "finds port and job of NVFlare's listener in the process list, attaches to it, and asks",
        "as above: the listener is open to every local user, but what it carries is sealed",
    ),
    "listener": Row(
        "whoever sees the bytes at either end of NVFlare, or runs NVFlare there",
        "reads models and updates",
        "an ask can be read by the hospital alone, an answer by the asker alone; study, run, round and sizes can be "
        "seen",
    ),
    "replay": Row(
        "whoever recorded an ask",
        "sends it again, in another run, to another hospital, or with any part of it changed",
        "changed or misdirected: refused. The very same ask to the same hospital gets the same answer, which only the "
        "coordinator can read, and spends nothing",
    ),
    # who is the coordinator, and lies
    "budget": Row(
        "the coordinator",
        "asks again and again after one approval, each time as another run",
        "an approval is a budget of exchanges over all runs, training and evaluation apart: `spent`; `rounds`",
    ),
    "second model": Row(
        "the coordinator",
        "asks one round with many different models, and says each time that the run was resumed",
        "once a round was answered, another model for it is refused, but for as many restarts as the hospital has "
        "agreed to: one, unless it says `--restarts 0`",
    ),
    "sure model": Row(
        "the coordinator",
        "sends a model that no training makes, and reads the number of notes of each label off the answer",
        "a model beyond the bounds of this study is refused; but see below: an honest first round tells as much",
    ),
    "two models": Row(
        "the coordinator",
        "sends two models that differ in one rare word, and reads all words of the one note that has it off the two "
        "answers",
        "the models are refused as above, and a second one for the same round, too",
    ),
    "one sentence": Row(
        "the coordinator",
        "asks FedNER for the gradient of a single sentence, which is its words",
        "a reply that stands for fewer examples than the site's least is refused: `few`; and so is a batch of another "
        "size than before, whose difference would be a sentence: `batches`",
    ),
    "asks again after a restore": Row(
        "the coordinator, of a site that was put back from a copy",
        "asks again for what the site has answered since the copy was made, with another model",
        "the site answers nothing until its hospital has said what counts as spent; what the coordinator has told of, "
        "in a signed letter, is spent, and may leave again bit for bit, but not otherwise: `restored`, then `restart`",
    ),
    "a rollback": Row(
        "whoever rolls back the machine of a site, without our `restore`",
        "has the site forget what it has answered",
        "an honest coordinator shows a site the head of its own ledger with every ask: one that does not have it stops "
        "by itself: `restored`",
    ),
    "the privacy budget after a restore": Row(
        "the coordinator, of a site that was put back from a copy",
        "has the privacy budget spent a second time",
        "a run in which something was forgotten costs what it may cost at most, and is over at this site: `budget`",
    ),
    "masks after a restore": Row(
        "the coordinator, of a site that was put back from a copy",
        "has other numbers put under the masks that the site has used since the copy was made",
        "no copy holds the secrets of masks, and a site that is taken back draws them anew: until the others have its "
        "new keys it puts nothing into a sum: `sum`",
    ),
    "two sets of survivors": Row(
        "the coordinator, of a study with secure aggregation",
        "tells some sites that a member was lost and others that it was not, to have both parts of what hides it",
        "a sum is opened only with the signatures of all its members on the same list and the same keys, and what was "
        "masked once more is not opened as it was before: `sum`",
    ),
    "too few": Row(
        "the coordinator, of a study with secure aggregation",
        "names fewer sites than the study's `fewest`, or one alone",
        "nothing leaves, not even masked: `sum`",
    ),
    "a second sum": Row(
        "the coordinator, of a study with secure aggregation",
        "has the same replies summed up again without one site, as another run or after a crash that never was: the "
        "difference would be that site's reply",
        "what has been in one sum goes into no other; the site's disk knows which, whatever the coordinator says did "
        "not arrive: `opened`",
    ),
    "a member less": Row(
        "the coordinator, of a study with secure aggregation",
        "has a round summed up a second time, after a restart, with a model that is hardly another and without one "
        "site: the difference would be about that site's reply",
        "an exchange of a round is opened for one list of members only, in all runs of a study: `opened`",
    ),
    "another round": Row(
        "the coordinator, of a study with secure aggregation and `same_members`",
        "asks with nearly the same model in the next round, without one site: the difference of both sums would be "
        "about that site's reply",
        "all sums of such a study are opened for one list of members: `opened`. Without `same_members`: see below",
    ),
    "the same sums": Row(
        "the coordinator, of a study with `ridge` and secure aggregation",
        "has the sums of features, which are the same in every round, summed up once more in a later round, without "
        "one site: the difference would be that site's sums, exactly",
        "such sums are opened for one list of members only, in all rounds and runs of a study: `opened`",
    ),
    "another encoder": Row(
        "the coordinator, of a study with `ridge` and more than one round",
        "asks for the sums again, in a later round, under an encoder that it has made up",
        "of a model of `ridge` nothing but the classifier may differ from the study's first: `weights`",
    ),
    "ranges": Row(
        "the coordinator, of a study with secure aggregation",
        "closes in on the sites' largest number, by one range after the other that some site's does not fit",
        "a range is a power of 16, and a site takes 32 tables of them in a run; from then on numbers have 64 bits",
    ),
    "whose number is large": Row(
        "the coordinator, of a study with secure aggregation",
        "hands out a range that lies between the sites' numbers, to see whose are beyond it",
        "that a number does not fit is in the sum alone, of all members together; whose it is puts chance in place of "
        "its numbers, so that the sum has nothing of the others' either, and is opened for no other members after that",
    ),
    "the same masks": Row(
        "the coordinator, of a study with secure aggregation",
        "has a round masked and opened, says that the run was resumed, and has it masked again with another model: "
        "under the same masks, the difference of a site's two replies would be bare",
        "a mask is for one reply: other numbers at the same place are refused, and the site's disk knows which were "
        "there: `sum`",
    ),
    "a false key": Row(
        "the coordinator, of a study with secure aggregation",
        "hands out keys of its own in place of a site's, or that site's of another run",
        "keys are signed by their sites for one run; a signing key that is not the pinned one is refused, and an "
        "unpinned one, too, unless the site has `pinned = false`: `sum`, `unpinned`",
    ),
    # who is on the network
    "second machine": Row(
        "whoever has a copy of a hospital's kit and keys",
        "joins with it from another machine",
        "refused while the first one lives, and told at both ends",
    ),
    "revoked": Row(
        "a hospital whose certificate was revoked",
        "stays connected, or comes back",
        "cut off within seconds, refused from then on, and told in words on both sides",
    ),
    "outdated": Row(
        "a hospital that was given a new certificate",
        "goes on with the old one",
        "let in until that one ends, and spoken of until then by `status` and the coordinator. It is neither revoked "
        "nor expired: both are for the same key, so whoever has the one can have the other. A key that may be in "
        "other hands is revoked, by the hospital's name: no certificate that it ever had is let in after that",
    ),
    "half-open": Row(
        "anybody who reaches the coordinator's port",
        "opens more than a thousand connections and says nothing",
        "so many per address, and those that prove nothing make room: hospitals get through",
    ),
    "a person who was": Row(
        "somebody whose certificate was revoked, has run out, or was replaced by a new one",
        "goes on submitting, stopping or watching from another machine, also over a connection that was open before",
        "TLS refuses what has run out; the list of people is asked with each request and each piece of a stream, and "
        "says by name what is wrong",
    ),
    "a coordinator that lies to a person": Row(
        "a coordinator, towards somebody who submits or watches from another machine",
        "answers with escape sequences and markup, or names a folder or a file elsewhere for what is fetched",
        "what could command a terminal is shown as a sign, markup as it is; the folder has the name that stands in the "
        "person's own study, and no file's name leads out of it",
    ),
    "a forged role": Row(
        "a hospital, a person with a lesser role, or somebody with a root of their own",
        "shows a certificate that says `admin`, or changes the list of people without having the root key",
        "the root must have signed the certificate, and its name, role and number must be those of the list: "
        "neither alone makes an administrator; a hospital's certificate is nobody's there",
    ),
    "a person at NVFlare's door": Row(
        "somebody with a person's certificate, an administrator's say",
        "connects where hospitals do, to take part, or to ask the sites",
        "a person's name has an `@`, which no hospital's has: `unknown`; letters to sites take the coordinator's own "
        "signing key",
    ),
    "a crowd at the people's door": Row(
        "anybody who reaches the door for people, also with a certificate",
        "sends garbage, a huge or an endless request, or nothing at all, over many connections",
        "who shows no certificate is closed after a while, what is too large or too slow is refused; the coordinator "
        "is another process, and goes on",
    ),
    "paths at the people's door": Row(
        "somebody who may submit",
        "asks for files beside a run, by `..`, in any spelling, or by a link in it",
        "a run's figures, report and model are on a list, and nothing else is given",
    ),
    "a study from elsewhere": Row(
        "somebody who may submit",
        "names a class, a path, a variable of the environment or a command in the study, to have the coordinator's "
        "machine run or read it",
        "no class but wardround's, no path out of the coordinator's `public/`, no variable; what hospitals approve is "
        "as before, and the signing key stays where it is",
    ),
    "a log that is flooded": Row(
        "anybody with a certificate, a revoked one, too",
        "does or is refused the same again and again, with other words each time, until older lines of `people.jsonl` "
        "are gone; or with letters that cannot be written",
        "one line a minute for each kind of refusal; every letter can be written, in ASCII",
    ),
    "a coordinator and a person's machine": Row(
        "the coordinator, or whoever has its keys",
        "answers a person's command with names that lead out of the run's folder, or with sequences for the terminal",
        "names are names and nothing is written elsewhere; what is no letter is printed as `\N{REPLACEMENT CHARACTER}`",
    ),
    "other addresses": Row(
        "anybody on another network of the coordinator's machine",
        "connects to an address that it was not told to listen on",
        "nobody listens there",
    ),
    "squatted socket": Row(
        "any user of the machine",
        "makes the folder of a socket before the site does, to pose as the site process",
        "the site does not use a folder that is not its own, and says so",
    ),
    # code
    "code in a kit": Row(
        "the coordinator, or whoever changed the kit on its way",
        "adds a Python module to the kit",
        "a kit has files by an allow-list, and none of them is code: `site init` names the file and unpacks nothing",
    ),
    "code in a study": Row(
        "the coordinator",
        "sends a study whose method is a module that lies somewhere in the site's folder",
        "`site check` and `site approve` refuse it before anything of it runs; a study may name only what wardround "
        "itself has, or what the hospital's `site.toml` lists with its hash",
    ),
    "code in a folder": Row(
        "the coordinator, or whoever can write into the site's folder",
        "puts a file there that NVFlare or Python would import: `local/custom`, `json.py`",
        "the site's folder is on no Python path, and `site start` checks the kit's files against their hashes",
    ),
}  # fmt: skip


OPEN = (
    Gap(
        "Without secure aggregation, the coordinator sees each hospital's update, not only the sum.",
        "An update tells much of the notes behind it. One round of FedAvg over hashed words tells which words the "
        "hospital's notes have, and by the bias how many notes have each label, exactly if all notes are one batch. "
        "No model has to be chosen for that: the study's own first model does.",
        "Approve only a coordinator whom you would tell as much. Freeze embeddings (`vectors`), more than one batch, "
        "few rounds. Better: a study with `secure_aggregation`, and `[privacy.dp]`.",
    ),
    Gap(
        "Honest rounds add up.",
        "Each answer within the budget tells something new. Without `[privacy.dp]` nothing counts how much.",
        "Approve as many rounds as the study needs, and read `ledger show`; a site with a `[budget]` takes part only "
        "in studies whose ε is counted, over all of them.",
    ),
    Gap(
        "A model within the bounds can still be chosen.",
        "The bounds refuse what cannot be a trained model; they do not prove that a model was trained. Two rounds, "
        "asked with models that differ in one rare word by as much as training would move it, tell all words of the "
        "one note that has this word, if all notes are one batch: a test does it.",
        "The states are hashed in both ledgers: afterwards it can be shown what was asked. Batches that are drawn "
        "anew in each round blur the difference; they do not undo it.",
    ),
    Gap(
        "The bounds of a model are the study's own.",
        "How far a model may have come is measured by training with the study's settings: a rate that no honest study "
        "has allows weights that no honest model has.",
        "Read the settings before you approve; `site check` shows what would leave, not whether a rate is sensible.",
    ),
    Gap(
        "Two answers that differ in one example give that one.",
        "Lazy MIL's coordinator chooses the sentences of an update: twelve of them, and eleven of these in another "
        "round, tell the twelfth. FedNER's share of a batch is fixed for a study, for that reason.",
        "Few rounds; methods that train on all of a site's examples.",
    ),
    Gap(
        "A hole in NVFlare itself, or in what it is made of.",
        "What it carries is sealed, and no job may bring code. But its processes run as the site's own user (at the "
        "coordinator, as the coordinator's): whoever takes one over reads the keys and the notes that this user can "
        "read.",
        "Keep it up to date; outbound connections only; a machine that does nothing else.",
    ),
    Gap(
        "Small label counts can be worked out.",
        "`smallest_count` leaves them out of what evaluation tells; but with more than 100 labels, of which no matrix "
        "is counted, a model that never says a label gives them away by its false alarms elsewhere (a test does it), "
        "and any update by the classifier's rows.",
        "Treat label counts as known to the coordinator.",
    ),
    Gap(
        "`ridge`'s classifiers may be made up.",
        "λ is chosen by how many validation rows the classifier of each λ gets right, and nothing shows that these are "
        "of the sums: each is a question of the coordinator's choice. One without weights counts the rows of a class, "
        "be they fewer than `smallest_count` (a test does it); others count the rows on one side of a plane.",
        "One value in `penalties`, of which nothing is asked, or few; many are many questions.",
    ),
    Gap(
        "Data that were approved again.",
        "The same question before and after a note was added or withdrawn, with the one restart that an approval has, "
        "tells of that note.",
        "`site approve --restarts 0` when data have changed, or a new study.",
    ),
    Gap(
        "Least numbers count examples, not patients.",
        "Ten sentences may be one patient's.",
        "Set the least number with that in mind; let an example be a note, or a patient. The units of `[privacy.dp]` "
        "are patients unless a study says otherwise.",
    ),
    Gap(
        "A hospital that lies within the bounds.",
        "Labels changed, or a small push in each round, move the shared model, and can hide a trigger in it. Of "
        "`ridge`'s sums, rows up to five times as long as the others' count up to 25 times as much: one such site of "
        "twenty of its size outweighs the rest. Under secure aggregation nobody can compare: what a site puts into the "
        "sum is bounded by nothing but its own honest code.",
        "Compare `evaluate` by site. A rule in place of the mean (`[robust]`) makes it matter less, at a cost: "
        "[lying](lying.md).",
    ),
    Gap(
        "The coordinator and a hospital together.",
        "With two hospitals, the sum and one's own update give the other's; that holds under any sum, masked or not, "
        "and for the last honest one of many.",
        "Three hospitals or more (`fewest`), and keys that are pinned, so that these are hospitals.",
    ),
    Gap(
        "Two sums that differ in one member.",
        "A sum of all sites, and one without a site in the next round or in another study, asked with nearly the same "
        "model, differ by about that site's reply. No mask hides this: sites cannot tell who was lost from who was "
        "left out. `fewest` counts the members of each sum, not those in which two differ. Within one round of a "
        "study there are no two such sums, and of `ridge`'s none in all its rounds.",
        "`same_members = true` in the study's `[privacy]`: then all its sums are of the same sites, and a site that is "
        "lost is waited for. No second study that is hardly another; few rounds; `[privacy.dp]`, whose noise each site "
        "adds by itself.",
    ),
    Gap(
        "Whether some site's number is large.",
        "The sum says whether a number of some site's is larger than the range that the coordinator has handed out, so "
        "that all send theirs once more in 64 bits. An honest coordinator's range is some dozens of times the last "
        "sum; one that lies chooses it, for each tensor: one bit of all sites together in an exchange, never whose. It "
        "has 32 tables of ranges in a run, all powers of 16: at most the order of magnitude of the largest number of a "
        "tensor over all sites.",
        "Few rounds; `[privacy.dp]`, whose noise is in the number before it is compared.",
    ),
    Gap(
        "Whoever is root, or the site's own user, at a hospital.",
        "They read the notes themselves; they hold the keys. They can stop the site, and delete its ledger, though "
        "not without the coordinator's ledger showing it.",
        "Nothing in software.",
    ),
    Gap(
        "A site that was put back, and a coordinator that tells less than was answered.",
        "Nobody but the coordinator has a copy of what a site answered after its own copy was made. It signs what it "
        "tells, but cannot prove that this is all; and of a rollback that is not by `wardround restore` the site hears "
        "from the coordinator alone.",
        "Copy `ledger/` often, to another disk: put back with the rest, nothing is forgotten. If in doubt, "
        "`site recover --nothing-left`.",
    ),
    Gap(
        "Whoever holds the coordinator's signing key.",
        "They are the coordinator to every hospital until the consortium is made anew.",
        "Keep `keys/ask.key` on one machine; make a new consortium if it was copied.",
    ),
    Gap(
        "Somebody who may submit, and means harm.",
        "They choose studies within what hospitals have approved or will approve, spend approvals' rounds, see "
        "figures, model and report of their own runs, and can have the coordinator's machine compute and store as much "
        "as a study of any size takes.",
        "Give the role to whom you would let submit at your own desk; `people.jsonl` says who did what; `consortium "
        "revoke` ends it; limits of the service (`MemoryMax=`, a quota) bound what a run takes.",
    ),
    Gap(
        "Denial of service.",
        "A local user can fill NVFlare's listener or the disk, another hospital can send bytes until lines are full. "
        "Nothing leaves by that, but a round is late.",
        "A firewall that knows the hospitals' addresses, quotas for local users.",
    ),
    Gap(
        "A user of the hospital's machine who poses as NVFlare's server on its loopback listener.",
        "He is given the hospital's NVFlare token, and the connection is his until it is made anew: he can learn who "
        "is connected, and cut the site off. Letters are sealed for the site process and signed by the coordinator: he "
        "can read none and ask for nothing.",
        "A machine, a container or a network namespace of its own for the site.",
    ),
    Gap(
        "That a hospital takes part, when, and how much it sends.",
        "Names of hospitals, study hash, round and message sizes can be seen by the others and on the network.",
        "A VPN hides it from the network, not from the consortium.",
    ),
    Gap(
        "What the trained model itself remembers.",
        "A model may give away notes that it was trained on, to whoever uses it.",
        "See the model card; share the model as you would share what it may tell. `wardround audit` measures it, "
        "`[privacy.dp]` bounds it.",
    ),
)


def threat(name: str) -> Callable[[T], T]:
    """Mark the test of a threat."""
    assert name in TABLE
    return lambda test: test

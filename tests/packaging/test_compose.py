"""docker-compose.yml and its configuration: well-formed, hardened, and agreeing with each other."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema
import pytest
import redis
import yaml

from sitemapd.build import build
from sitemapd.settings import load
from tests import needs
from tests.acceptance.until import until

ROOT = Path(__file__).parents[2]
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
SETTINGS: Final = tomllib.loads((ROOT / "deploy" / "sitemapd.toml").read_text())
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("sitemapd"))

STRINGS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
DURATION: Final = {"type": "string", "pattern": r"^\d+(ms|s|m)$"}
# The part of the Compose format that the file uses: a misspelt key fails here as it would at `up`.
SCHEMA: Final = {
    "type": "object",
    "required": ["services", "volumes"],
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "volumes": {"type": "object", "additionalProperties": {"type": ["null", "object"]}},
        "networks": {
            "type": "object",
            "additionalProperties": {
                "type": ["null", "object"],
                "additionalProperties": False,
                "properties": {"internal": {"type": "boolean"}},
            },
        },
        "secrets": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["file"],
                "additionalProperties": False,
                "properties": {"file": {"type": "string"}},
            },
        },
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["image", "healthcheck"],
                "additionalProperties": False,
                "properties": {
                    "build": {"type": "string"},
                    "cap_drop": STRINGS,
                    "environment": {"type": "object", "additionalProperties": {"type": "string"}},
                    "mem_limit": {"type": "string", "pattern": r"^\d+[mg]$"},
                    "networks": STRINGS,
                    "pids_limit": {"type": "integer", "minimum": 10},
                    "secrets": STRINGS,
                    "command": STRINGS,
                    "depends_on": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["condition"],
                            "additionalProperties": False,
                            "properties": {"condition": {"enum": ["service_healthy", "service_started"]}},
                        },
                    },
                    "entrypoint": STRINGS,
                    "healthcheck": {
                        "type": "object",
                        "required": ["test", "interval", "timeout", "retries", "start_period"],
                        "additionalProperties": False,
                        "properties": {
                            "test": {
                                **STRINGS,
                                "prefixItems": [{"enum": ["CMD", "CMD-SHELL"]}],
                                "minItems": 2,
                            },
                            "interval": DURATION,
                            "timeout": DURATION,
                            "start_period": DURATION,
                            "retries": {"type": "integer", "minimum": 1},
                        },
                    },
                    "image": {"type": "string", "pattern": r"^[a-z0-9/.-]+:[\w.-]+$"},
                    "init": {"type": "boolean"},
                    "ports": STRINGS,
                    "read_only": {"type": "boolean"},
                    "restart": {"enum": ["always", "unless-stopped", "on-failure", "no"]},
                    "security_opt": STRINGS,
                    "stop_grace_period": DURATION,
                    "tmpfs": STRINGS,
                    "user": {"type": "string"},
                    "volumes": {
                        "type": "array",
                        "items": {
                            "oneOf": [
                                {"type": "string"},
                                {
                                    "type": "object",
                                    "required": ["type", "source", "target"],
                                    "additionalProperties": False,
                                    "properties": {
                                        "type": {"enum": ["bind", "volume"]},
                                        "source": {"type": "string"},
                                        "target": {"type": "string"},
                                        "read_only": {"type": "boolean"},
                                        "volume": {"type": "object"},
                                    },
                                },
                            ]
                        },
                    },
                },
            },
        },
    },
}


def mounts(service: str) -> dict[str, tuple[str, bool]]:
    """Return a service's mounts: the path inside → the source, and whether it may be written to."""
    found = {}
    for mount in SERVICES[service]["volumes"]:
        if isinstance(mount, str):
            # A variable with a default stands for its default.
            source, target, *mode = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", mount).split(":")
            found[target] = (source, mode != ["ro"])
        else:
            found[mount["target"]] = (mount["source"], not mount.get("read_only", False))
    return found


def test_the_file_is_of_the_compose_format() -> None:
    """Every key is one of Compose's, at its place and with a value of its kind."""
    jsonschema.Draft202012Validator(SCHEMA).validate(COMPOSE)


def test_docker_compose_takes_the_file() -> None:
    """Where Docker's compose plugin is installed, it reads the file without a complaint."""
    # Not `needs`: Debian stable has no package of the plugin, and the test above stands in for it.
    docker = shutil.which("docker") or "docker"
    try:
        subprocess.run([docker, "compose", "version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("Docker's compose plugin is not installed")
    done = subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_parts_are_there() -> None:
    """The stack is Redis, a worker, a watcher, HTTP and nginx."""
    assert set(SERVICES) == {"redis", "worker", "watcher", "http", "nginx"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_comes_back_and_has_no_rights_to_spare(service: str) -> None:
    """Each restarts always, on a read-only root, with no capabilities and no way to get any."""
    settings = SERVICES[service]
    assert settings["restart"] == "always"
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]
    assert settings["security_opt"] == ["no-new-privileges:true"]
    assert settings.get("user", "10001") not in {"root", "0"}


@pytest.mark.parametrize("service", SERVICES)
def test_published_ports_are_bound_to_loopback(service: str) -> None:
    """Docker's own firewall rules pass by the host's, so nothing is published on all addresses."""
    for port in SERVICES[service].get("ports", []):
        assert port.startswith("127.0.0.1:")


def test_redis_is_reached_by_our_services_alone() -> None:
    """Over a network that leads nowhere else, and not by nginx, which strangers talk to."""
    assert "ports" not in SERVICES["redis"]
    assert SERVICES["redis"]["networks"] == ["back"]
    assert COMPOSE["networks"]["back"] == {"internal": True}
    assert {name for name, service in SERVICES.items() if "back" in service["networks"]} == {"redis", *OURS}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_bounded(service: str) -> None:
    """One that goes wild takes neither the host's memory nor its process table."""
    assert SERVICES[service]["mem_limit"]
    assert SERVICES[service]["pids_limit"] <= 200
    for network in SERVICES[service]["networks"]:
        assert network in COMPOSE["networks"]


@pytest.fixture(name="secrets", scope="module")
def made_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What deploy/make-secrets.sh makes."""
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copy(ROOT / "deploy" / "make-secrets.sh", folder)
    done = subprocess.run(["sh", "make-secrets.sh"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "secrets"


def test_the_secrets_are_made_once(secrets: Path) -> None:
    """A second run would lock the services out of a Redis that has the first password."""
    before = (secrets / "redis.conf").read_text()
    done = subprocess.run(["sh", "make-secrets.sh"], cwd=secrets.parent, capture_output=True, text=True)
    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert (secrets / "redis.conf").read_text() == before
    assert secrets.stat().st_mode & 0o777 == 0o700


def test_each_secret_has_its_file(secrets: Path) -> None:
    """The names of the compose file are those that the script makes, and what a service asks for is there."""
    named = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert named == {path.name for path in secrets.iterdir()}
    for service in SERVICES.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])


def test_the_password_is_the_one_that_redis_asks_for(secrets: Path, tmp_path: Path) -> None:
    """A real Redis with the command of the stack: it takes the address of the secret, and none without."""
    server = needs.program("redis-server", package="redis-server")
    program, conf, *options = SERVICES["redis"]["command"]
    assert (program, conf) == ("redis-server", "/run/secrets/redis_conf")
    socket = tmp_path / "s"
    here = ["--port", "0", "--unixsocket", str(socket), "--dir", str(tmp_path)]
    line = [server, str(secrets / "redis.conf"), *options, *here]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as process:
        try:
            address = urlsplit((secrets / "sitemapd_redis_url").read_text().strip())
            assert (address.hostname, address.port) == ("redis", 6379)
            with redis.Redis(unix_socket_path=str(socket), password=address.password) as client:
                until(lambda: answers(client), what="Redis answers")
                assert client.config_get("maxmemory")["maxmemory"] == str(2**30)
            stranger = redis.Redis(unix_socket_path=str(socket))
            with stranger, pytest.raises(redis.AuthenticationError):
                stranger.ping()
            kind, check = SERVICES["redis"]["healthcheck"]["test"]
            assert kind == "CMD-SHELL"
            for before, after in (
                ("$$", "$"),
                ("/run/secrets/redis_conf", str(secrets / "redis.conf")),
                ("redis-cli", f"redis-cli -s {socket}"),
            ):
                check = check.replace(before, after)
            assert subprocess.run(["sh", "-c", check], timeout=30).returncode == 0
        finally:
            process.terminate()
            process.wait(30)


def answers(client: redis.Redis) -> bool:
    """Whether the server is up."""
    try:
        return bool(client.ping())
    except (redis.ConnectionError, redis.BusyLoadingError):
        return False


def test_sitemapd_reads_the_secret(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the place of the address in the configuration file."""
    monkeypatch.setenv("SITEMAPD_SECRETS_DIR", str(secrets))
    settings = load(ROOT / "deploy" / "sitemapd.toml")
    assert str(settings.redis_url) == (secrets / "sitemapd_redis_url").read_text().strip()
    for name in OURS:
        assert SERVICES[name]["environment"]["SITEMAPD_SECRETS_DIR"] == "/run/secrets"
        assert "sitemapd_redis_url" in SERVICES[name]["secrets"]


def test_redis_keeps_what_it_acknowledged() -> None:
    """Redis appends to a file in a volume and never evicts."""
    command = SERVICES["redis"]["command"]
    pairs = dict(zip(command[2::2], command[3::2], strict=True))
    assert pairs["--appendonly"] == "yes"
    assert pairs["--maxmemory-policy"] == "noeviction"
    assert mounts("redis")["/data"] == ("redis-data", True)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_waits_for_what_it_needs_to_be_healthy(service: str) -> None:
    """Starting order goes by health, and the services that one waits for exist."""
    for other, wait in SERVICES[service].get("depends_on", {}).items():
        assert other in SERVICES
        assert wait["condition"] == "service_healthy"


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_mounted_exists(service: str) -> None:
    """A mount is of a declared volume, or of a path of this repository that it only reads."""
    for source, writable in mounts(service).values():
        if source.startswith("."):
            assert (ROOT / source).exists()
            assert not writable
        else:
            assert source in COMPOSE["volumes"]


def test_only_the_worker_writes_to_the_output() -> None:
    """The worker has the output's volume writable, everyone else reads it."""
    (site,) = SETTINGS["sites"].values()
    assert mounts("worker")[site["output"]] == ("published", True)
    for service in SERVICES:
        for source, writable in mounts(service).values():
            assert source != "published" or service == "worker" or not writable


def test_nginx_serves_the_output() -> None:
    """The root that nginx serves is the volume that the worker publishes to."""
    configuration = (ROOT / "deploy" / "nginx.conf").read_text()
    (root,) = re.findall(r"^\s*root (\S+);", configuration, re.MULTILINE)
    assert mounts("nginx")[root] == ("published", False)
    (listen,) = re.findall(r"^\s*listen (\d+);", configuration, re.MULTILINE)
    assert SERVICES["nginx"]["ports"] == [f"127.0.0.1:{listen}:{listen}"]


def test_the_watched_folder_is_mounted() -> None:
    """The directory that the configuration watches is the content that the watcher gets."""
    (site,) = SETTINGS["sites"].values()
    (watch,) = site["watch"].values()
    assert mounts("watcher")[watch["directory"]] == ("./examples/site", False)


def test_the_watcher_remembers_in_a_volume() -> None:
    """What the watcher knows of the files is where a new container finds it again."""
    assert mounts("watcher")[SETTINGS["data_dir"]] == ("watched", True)


def test_sitemapd_takes_the_configuration() -> None:
    """The stack's configuration has no key and no value that sitemapd refuses."""
    parts = build(load(ROOT / "deploy" / "sitemapd.toml"))
    assert set(parts.sites) == set(SETTINGS["sites"])
    assert len(parts.sources["main"]) == 1


def test_the_configuration_names_the_redis_of_the_stack() -> None:
    """The host in redis_url is the service's name."""
    assert urlsplit(SETTINGS["redis_url"]).hostname == "redis"


@pytest.mark.parametrize("service", OURS)
def test_our_services_run_commands_that_exist(service: str) -> None:
    """The commands and options that our containers and their health checks use are there."""
    lines = [SERVICES[service]["command"]]
    _, program, *check = SERVICES[service]["healthcheck"]["test"]
    if program == "sitemapd":
        lines.append(check)
    for flag, path, *line in lines:
        assert flag == "--config"
        assert mounts(service)[path] == ("./deploy/sitemapd.toml", False)
        # With --help nothing is read or started, and an unknown command or option is an error.
        done = subprocess.run(
            [sys.executable, "-c", "from sitemapd.cli import main; main()", *line, "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr

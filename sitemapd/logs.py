"""Log lines: a sentence, a stable `action`, and the ids it is about."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the HTTP request that is being answered; each log line of the request has it."""

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a log call gave as `extra`."""
    fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
    if request_id := REQUEST_ID.get():
        fields["request_id"] = request_id
    return fields


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Sentences(logging.Formatter):
    """`time level sentence [action id=…]`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback of a defect below it."""
        fields = fields_of(record)
        action = fields.pop("action", "")
        ids = " ".join([str(action), *(f"{name}={value}" for name, value in fields.items())])
        line = f"{_time_of(record)} {record.levelname:<7} {record.getMessage()}"
        if ids.strip():
            line += f" [{ids.strip()}]"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, action, ids.

    What a library says has no action of its own: there its logger's name stands for it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line whatever the message holds."""
        line: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "action": record.name,
            **fields_of(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(*, as_json: bool = False, level: str = "INFO") -> None:
    """Send everything to standard error. Must run before RQ sets up its own handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Sentences())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("watchdog", "uvicorn.access", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    # What no line shows, and takes half of a record's time (Python's logging howto, "Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False

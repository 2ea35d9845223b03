"""What Redis answers when it can't take a command for now, by the replies' codes."""

from typing import Final

REPLIES: Final = {
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "READONLY": "READONLY You can't write against a read only replica.",
    "MISCONF": "MISCONF Errors writing to the AOF file: No space left on device",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "NOPERM": "NOPERM User app has no permissions to run the 'evalsha' command",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "MOVED": "MOVED 3999 127.0.0.1:6381",
    "TRYAGAIN": "TRYAGAIN Multiple keys request during rehashing of slot",
}

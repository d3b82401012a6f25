"""Shows the progress of a download on standard error: as a bar on a terminal, otherwise as a line for each tenth."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from hbmodel.localhbase.extras import required

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int], None]
"""A function that is called with the number of bytes that have just arrived. A negative number removes the bytes of a
failed attempt.
"""


@contextmanager
def download_progress(
    title: str, total: int, *, console: Console | None = None, shown: bool = True
) -> Iterator[Advance]:
    """Shows the progress of a download of `total` bytes while its block runs.

    Args:
        console: where the progress is shown; standard error by default.

    Raises:
        LocalHBaseError: `rich` is not installed.
    """
    if console is None:
        console = cast("Console", required("rich.console").Console(stderr=True, quiet=not shown))
    if console.is_terminal and shown:
        rich_progress = required("rich.progress")
        columns = (
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.DownloadColumn(),
            rich_progress.TransferSpeedColumn(),
            rich_progress.TimeRemainingColumn(),
        )
        with rich_progress.Progress(*columns, console=console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda count: bar.advance(task, count)
    else:
        yield _Lines(title, total, console)


class _Lines:
    """Prints one line at the start, and one for each further tenth of the bytes. Several threads may call it."""

    def __init__(self, title: str, total: int, console: Console) -> None:
        self._title = title
        self._total = total
        self._console = console
        self._lock = threading.Lock()
        self._done = 0
        self._tenths = 0
        self._say()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._done += count
            tenths = self._done * 10 // self._total if self._total else 10
            if tenths > self._tenths:
                self._tenths = tenths
                self._say()

    def _say(self) -> None:
        text = f"{self._title}: {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB ({self._tenths * 10} %)"
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

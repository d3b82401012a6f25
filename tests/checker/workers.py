"""Runs tasks in separate processes, a few at a time; a process that dies without a result is an error, not an endless
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A process has ended before its task: something has killed it, such as the operating system when memory runs out.

    Attributes:
        task: that it ran.
        exit_code: of the process; negative is the signal that has killed it.
    """

    def __init__(self, task: object, exit_code: int | None) -> None:
        super().__init__(f"The process of {task} has died with exit code {exit_code}.")
        self.task, self.exit_code = task, exit_code


def each_in_a_process(run: Callable[[Task], Result], tasks: Iterable[Task], processes: int) -> Iterator[Result]:
    """The results of tasks as they come; every task has a new process, whose memory is given back with it."""
    left = iter(tasks)
    running: dict[Any, tuple[Task, Any]] = {}
    try:
        while True:
            while len(running) < processes and (task := next(left, None)) is not None:
                receiver, process = _started(run, task)
                running[receiver] = (task, process)
            if not running:
                return
            for receiver in wait(list(running)):
                task, process = running.pop(receiver)
                with receiver:  # type: ignore[union-attr]
                    try:
                        result, error = receiver.recv()  # type: ignore[union-attr]
                    except EOFError:
                        process.join()
                        raise WorkerDied(task, process.exitcode) from None
                process.join()
                if error is not None:
                    raise error
                yield result
    finally:
        for _, process in running.values():
            process.terminate()


def _started(run: Callable[[Task], Result], task: Task) -> tuple[Connection, Any]:
    fork = get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_send, args=(run, task, sender))
    process.start()
    sender.close()  # the process alone holds it, so that its death is the end of what comes
    return receiver, process


def _send(run: Callable[[Task], Result], task: Task, sender: Connection) -> None:
    try:
        found: Any = (run(task), None)
    except Exception as error:
        found = (None, error)
    sender.send(found)
    sender.close()

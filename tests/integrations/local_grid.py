"""Clients of Flower in this process: each trains on its own data when a message comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):  # type: ignore[misc]
    """A grid whose nodes answer at once, by a function of a message and the number of the node."""

    def __init__(self, nodes: int, answer: Callable[[Any, int], Any]) -> None:
        self._nodes, self._answer = list(range(1, nodes + 1)), answer
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1  # what a server of Flower sets

    def set_run(self, run: Any) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        return None

    def create_message(self, *arguments: Any, **named: Any) -> Any:
        return Message(*arguments, **named)

    def get_node_ids(self) -> Iterable[int]:
        return self._nodes

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
        raise NotImplementedError("nodes here answer at once: send_and_receive")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        raise NotImplementedError("nodes here answer at once: send_and_receive")

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> Iterable[Any]:
        replies = []
        for message in messages:
            content = self._answer(message.content, message.metadata.dst_node_id)
            replies.append(Message(content, reply_to=message))
        return replies

"""The connections of the development server: slow and broken ones are refused, and none outlives the server's end."""

import asyncio
import json
import logging
import sys
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger("uvicorn.error")  # uvicorn's own, which it prints

REQUEST_SECONDS = 60.0  # for a request to arrive, its body included, and then for the client to read the answer
STOP_SECONDS = 25.0  # for the open requests when the server is stopped; then they are cut. Kubernetes kills after 30
REFUSED_SECONDS = 5.0  # for the rest of a refused request to arrive: closing earlier could lose the answer


def server(application: Any) -> uvicorn.Server:
    """A server that answers in TF Serving's form what it refuses itself."""

    async def may_be_cut(scope: Any, receive: Any, send: Any) -> None:
        try:
            await application(scope, receive, send)
        except asyncio.CancelledError:  # by uvicorn at its end; the connection was cut, so nobody waits for an answer
            if scope["type"] != "http":
                raise
            logger.warning("A request was given up, because the server stopped.")

    return uvicorn.Server(
        uvicorn.Config(
            may_be_cut,
            http=_Connection,
            ws="none",
            access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS,  # type: ignore[arg-type]  # asyncio's, which takes fractions
        )
    )


class _Connection(H11Protocol):
    """uvicorn's connection, with a time limit for each request and with errors as JSON."""

    _limit: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()  # a part of the next request may have come already

    def pause_writing(self) -> None:
        super().pause_writing()
        why = f"the client did not read its answer within {REQUEST_SECONDS:g} seconds"
        self._unread = self.loop.call_later(REQUEST_SECONDS, self._cut, why)

    def resume_writing(self) -> None:
        self._has_read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._has_read()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self._refused:
            self.transport.close()
            return
        super().shutdown()
        why = f"it was still open {STOP_SECONDS:g} seconds after the server was stopped"
        self.loop.call_later(STOP_SECONDS, self._cut, why)

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()  # h11's, which says more than uvicorn's message
        self._refuse(getattr(error, "error_status_hint", 400), f"{msg} Received: {error}")

    def _watch(self) -> None:
        """Limit the time while a request has not arrived completely."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._unwatch()
        elif self._limit is None:
            self._limit = self.loop.call_later(REQUEST_SECONDS, self._too_late)

    def _unwatch(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _has_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _too_late(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:  # nothing was sent
            self.transport.close()
        else:
            self._refuse(408, f"The request did not arrive completely within {REQUEST_SECONDS:g} seconds.")

    def _refuse(self, status: int, message: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # otherwise the answer has begun
            body = json.dumps({"error": message}).encode()
            headers = [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ]
            is_head = self.cycle is not None and not self.cycle.response_complete and self.scope["method"] == "HEAD"
            data = b"" if is_head else body
            for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=data), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:  # it has no one to answer
            self.cycle.disconnected = True
            self.cycle.waiting_for_100_continue = False
            self.cycle.message_event.set()
        self._refused = True
        self._unwatch()
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(REFUSED_SECONDS, self.transport.close)

    def _cut(self, why: str) -> None:
        if self in self.connections:
            address = ":".join(map(str, self.client or ("an unknown address",)))
            logger.warning("The connection from %s was cut: %s.", address, why)
            self.transport.abort()

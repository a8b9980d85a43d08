"""The proxy's ASGI callable: every path that is not modegate's own."""

from __future__ import annotations

import asyncio
import logging

from starlette.types import Receive, Scope, Send

from modegate.core.errors import Drained, ModegateError
from modegate.core.ids import StepId
from modegate.server.proxy.client import ClientGone
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.step import Step
from modegate.server.proxy.step_log import StepLog

log = logging.getLogger(__name__)


class Proxy:
    """Serves model requests."""

    def __init__(self, services: StepServices) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Whatever goes wrong is answered in the client's own format."""
        clock, metrics = self._services.clock, self._services.metrics
        step_log = StepLog(StepId(clock.new_id()), clock, metrics)
        step = Step(self._services, step_log, scope, receive, send)
        outcome = "failed"
        try:
            outcome = await step.run()
        except ClientGone:
            outcome = "gone"
        except ModegateError as error:
            outcome = error.code
            await step.refuse(error)
        except asyncio.CancelledError:
            # Only the end of the process comes here: a client that goes away is noticed before.
            outcome = Drained.code
            await step.refuse(Drained("modegate was stopped before this answer was complete"))
        except Exception:
            # A bug of ours: nothing that is held is released, and the client is told (section 13).
            log.exception("step %s failed", step.id)
            await step.refuse(ModegateError(f"modegate failed; its log says why, under {step.id}"))
        finally:
            step_log.over(outcome)

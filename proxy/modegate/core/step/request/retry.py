"""A request that the upstream refuses for what modegate changed in it: asked once more, in another form.

What a refusal says chooses between forms of our own, and nothing else. Sent again is only what was answered
by a refusal that was read whole, and in each form once:

1. as the API wants to be asked, if the dialect knows the refusal (`Dialect.mend`);
2. with all that was said, if the request only goes on from an answer that the provider says it keeps;
3. with what the model thought in turns that modegate puts in, or without, if the refusal speaks of that;
4. with an empty text in turns that only call, or with none, if it speaks of that;
5. without the sentences that tell of mode changes;
6. without all that was put back, so that no session is stuck with what it never sent.

Mode, tools and section are the same in all. Every other refusal is the client's to see, as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from modegate.core.errors import ModegateError, TooLarge
from modegate.core.step.answer.rejection import Rejection
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import Append, CallUpstream, Effect, Learned
from modegate.core.step.request.hop_requests import HopRequests
from modegate.core.step.request.request_form import Form
from modegate.core.wire.content_encoding import BadEncoding, UnknownEncoding

RETRIED = frozenset({400, 404, 413, 422})
"""Refusals of what a request holds: malformed, what it refers to is not there, too long, a field unknown."""
MAX_REFUSAL = 64 * 1024
"""Bytes of a refusal that is known; a longer one is none of those."""

_THOUGHTS = (b"reason", b"think", b"thought", b"signature", b"extra_content", b"provider_specific")
"""What a provider's refusal of thoughts speaks of, in lower case."""
_WANTS = (b"missing", b"must", b"required", b"expected", b"passed back")
"""How one says that it wants them; all else says that it refuses them."""

Make = Callable[[], list[Effect]]
"""Gives what sends a hop's request, as it is to be by now; the request is the last of it."""


class Retry:
    """What one step knows of such refusals."""

    def __init__(self, dialect: AnyDialect, requests: HopRequests) -> None:
        self._mend = dialect.mend
        self._requests = requests
        self._sent: CallUpstream | None = None
        """The request that is not answered yet."""
        self._make: Make = list
        self._forms: Iterator[Form] = iter(())
        """The forms that are left for it."""
        self._text = b""
        """What was said of it last."""
        self._known = b""
        """The refusal that the dialect has an answer to: later hops are asked in the other way at once."""
        self._first = Form()
        """In which form the hop was asked at first."""

    def sending(self, make: Make) -> list[Effect]:
        """Send a hop, in the form that the upstream takes as far as that is known."""
        self._make = make
        self._first = self._requests.form
        self._forms = self._others()
        *before, call = make()
        return [*before, self._send(call)]

    def let_go(self) -> None:
        """Refer back to nothing: what makes a request refers to the step, and its forms to this."""
        self._make, self._forms = list, iter(())

    def _send(self, call: Effect) -> CallUpstream:
        if not isinstance(call, CallUpstream):
            raise TypeError("a request is sent last")
        if self._mend is not None and self._known:
            call = self._mend(call, self._known) or call
        self._sent = call
        return call

    def may_retry(self, status: int) -> bool:
        """Return whether an error may be a refusal after which the hop is asked again."""
        known = self._mend is not None and not self._known
        return status in RETRIED and self._sent is not None and (known or self._requests.puts_in)

    def resent(self, refusal: Rejection) -> CallUpstream | None:
        """Return what to send instead, now that an error is whole; None where it is the client's to see."""
        if self._sent is None or not self.may_retry(refusal.status):
            return None
        if len(refusal.body) > MAX_REFUSAL:
            return None
        try:
            self._text = refusal.text()
        except (BadEncoding, UnknownEncoding, TooLarge):
            return None
        if self._mend is not None and not self._known:
            call = self._mend(self._sent, self._text)
            if call is not None:
                self._known = self._text
                self._sent = call
                return call
        for form in self._forms:
            with suppress(ModegateError):
                if (call := self._in(form)) is not None:
                    self._sent = call
                    return call
        return None

    def _in(self, form: Form) -> CallUpstream | None:
        """Return the hop's request in a form; None where that is the one which was refused."""
        self._requests.reform(form)
        sent, call = self._sent, self._send(self._make()[-1])
        self._sent = sent
        return None if sent is None or call.body == sent.body else call

    def _others(self) -> Iterator[Form]:
        """Yield the forms that are left, each once it is known how the one before was refused."""
        requests, form = self._requests, self._first
        if requests.chains:
            yield (form := replace(form, chained=False))
        start = form
        if _speaks_of(_THOUGHTS, self._text):
            thoughts = self._other_thoughts(form)
            yield (form := _with(form, thoughts=thoughts))
            if _speaks_of(_THOUGHTS, self._text):
                form = start
        # It could be about the text of a message, which a turn that only calls has not.
        if b"content" in self._text.lower().replace(b"_content", b""):
            yield (form := self._other_text(form))
        if requests.later:
            return  # What was put back was taken with the first hop.
        if requests.tells:
            yield (form := replace(form, notices=False))
        if requests.put_back.restores:
            yield replace(form, notices=False, withheld=False)

    def _other_thoughts(self, form: Form) -> bool:
        if form.manner.thoughts is not None:
            return not form.manner.thoughts
        other = _speaks_of(_WANTS, self._text)
        return other if self._in(_with(form, thoughts=other)) is not None else not other

    def _other_text(self, form: Form) -> Form:
        """Return the form in which a turn that only calls has the other text."""
        other = _with(form, empty=not form.manner.empty)
        if form.manner.empty is not None or self._in(other) is not None:
            return other
        return _with(form, empty=False)

    def settled(self) -> list[Effect]:
        """Log and remember, now that the upstream has taken the request, in which form it has."""
        form, first = self._requests.form, self._first
        self._sent = None
        told: list[Effect] = []
        if form.manner != first.manner:
            told.append(Learned(self._requests.model, form.manner))
        if form.notices is not first.notices or form.withheld is not first.withheld:
            told.append(Append((self._requests.left_out(),)))
        return told


def _with(form: Form, **manner: bool | None) -> Form:
    return replace(form, manner=replace(form.manner, **manner))


def _speaks_of(words: Iterable[bytes], refusal: bytes) -> bool:
    folded = refusal.lower()
    return any(word in folded for word in words)

"""The pool of upstreams: made, chosen, dressed, and closed when their last step has ended."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.errors import UpstreamFailed
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.model import Policy
from modegate.core.step.request.request_form import Manner
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.pool import MAX_LEARNED, Upstreams
from modegate.server.upstream.protocol import Upstream, UpstreamRequest
from support.dialect_facts import api
from support.policies import parse
from support.raw_upstream import Act, RawUpstream, chunked, whole
from support.waiting import PATIENCE

GET = UpstreamRequest("GET", b"/v1/models", [(b"authorization", b"Bearer client")], b"")


def policy(text: str) -> Policy:
    return parse("modes: {plan: {section: s, tools: [read]}}\n" + text)


def leading_to(url: str, more: str = "") -> Policy:
    return policy(f'upstreams: {{u: {{url: "{url}"{more}}}}}\nroutes: [{{upstream: u}}]')


NOWHERE = policy("")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate for localhost; the file holds its key too."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(path), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


@asynccontextmanager
async def pool(default: str = "http://127.0.0.1:9", **environment: str) -> AsyncIterator[Upstreams]:
    fallback = HttpUpstream(default)
    upstreams = Upstreams(lambda _dialect: fallback, environment, DIALECTS)
    tidying = asyncio.ensure_future(upstreams.tidy())
    try:
        yield upstreams
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])
        await upstreams.close()
        await fallback.close()


async def asked(upstream: Upstream) -> bytes:
    answer = await upstream.send(GET)
    body = b"".join([chunk async for chunk in answer.chunks()])
    await answer.close()
    return body


async def test_what_no_route_fits_goes_to_the_default_as_it_is() -> None:
    async with RawUpstream() as raw, pool(raw.base_url) as upstreams:
        upstreams.adopt(
            policy('upstreams: {u: {url: "http://h"}}\nroutes: [{model: m, upstream: u}]')
        )
        assert upstreams.wants_model("chat")
        with upstreams.pick(api("chat"), "other") as upstream:
            assert not upstream.adds_credential
            await asked(upstream)
    assert raw.requests[0].header("authorization") == [b"Bearer client"]


async def test_a_key_is_looked_up_and_takes_the_clients_place() -> None:
    async with RawUpstream() as raw, pool(KEY="k1\n") as upstreams:
        upstreams.adopt(leading_to(raw.base_url, ", key: {env: KEY}, strip_v1: true"))
        assert not upstreams.wants_model("chat")
        with upstreams.pick(api("chat"), None) as upstream:
            assert upstream.adds_credential
            await asked(upstream)
        with upstreams.pick(api("messages"), None) as upstream:
            await asked(upstream)
    assert raw.requests[0].target == b"/models"
    assert [r.header("authorization") for r in raw.requests] == [[b"Bearer k1"], []]
    assert [r.header("x-api-key") for r in raw.requests] == [[], [b"k1"]]


async def test_an_upstream_that_stays_keeps_its_connections() -> None:
    async with RawUpstream() as raw, pool() as upstreams:
        for more in ("", ", timeouts: {read: 15m}"):  # which is the default
            upstreams.adopt(leading_to(raw.base_url, more))
            with upstreams.pick(api("chat"), None) as upstream:
                await asked(upstream)
    assert (raw.connections, len(raw.requests)) == (1, 2)


async def test_one_that_is_gone_is_closed_when_its_last_step_has_ended() -> None:
    """A stream that runs on over two changes of policy comes to its end; then the connection goes."""
    pause = asyncio.Event()
    async with RawUpstream(chunked(b"a", pause, b"b")) as old, RawUpstream() as new:
        async with pool() as upstreams:
            upstreams.adopt(leading_to(old.base_url))
            with upstreams.pick(api("chat"), None) as upstream:
                answer = await upstream.send(GET)
                chunks = answer.chunks()
                assert await anext(chunks) == b"a"
                upstreams.adopt(leading_to(new.base_url))
                upstreams.adopt(NOWHERE)
                await asyncio.sleep(0)  # the pool has had its turn
                pause.set()
                assert await anext(chunks) == b"b"
                assert [chunk async for chunk in chunks] == []
                assert old.open_connections == 1
            await old.gone()
            assert new.connections == 0


async def test_one_that_nobody_uses_is_closed_at_once() -> None:
    async with RawUpstream() as raw, pool() as upstreams:
        upstreams.adopt(leading_to(raw.base_url))
        with upstreams.pick(api("chat"), None) as upstream:
            await asked(upstream)
        upstreams.adopt(NOWHERE)
        await raw.gone()


async def test_the_end_closes_all() -> None:
    async with RawUpstream() as raw, pool() as upstreams:
        upstreams.adopt(leading_to(raw.base_url))
        with upstreams.pick(api("chat"), None) as upstream:
            await asked(upstream)
            await upstream.close()  # says nothing of the pool
            assert raw.open_connections == 1
    async with asyncio.timeout(PATIENCE):
        await raw.gone()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", key: {env: NONE}", r"upstreams.u.key.env: the environment variable NONE is not set"),
        (", headers: {x-a: {env: BROKEN}}", r"upstreams.u: headers.x-a: the value is empty or has"),
        (", ca: /none/ca.pem", r"upstreams.u: ca: /none/ca.pem: No such file"),
        (", proxy: {env: SOCKS}", r"upstreams.u: only http:// and https:// proxies can be used"),
    ],
    ids=["variable", "value", "file", "proxy"],
)
async def test_what_is_not_there_is_told_and_the_old_upstreams_stay(more: str, words: str) -> None:
    async with RawUpstream() as raw, pool(BROKEN="a\nb", SOCKS="socks5://p:1") as upstreams:
        upstreams.adopt(leading_to(raw.base_url))
        with pytest.raises(PolicyProblems, match=words):
            upstreams.adopt(leading_to("http://127.0.0.1:9", more))
        with upstreams.pick(api("chat"), None) as upstream:
            assert await asked(upstream) == b"{}"


async def test_a_file_that_holds_no_certificate_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    async with pool() as upstreams:
        with pytest.raises(PolicyProblems, match=r"ca\.pem"):
            upstreams.adopt(leading_to("https://h", f", ca: {tmp_path / 'ca.pem'}"))


async def test_an_authority_of_its_own_is_trusted_in_place_of_the_systems(
    certificate: Path,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"".join(piece for piece in whole(b"ok") if isinstance(piece, bytes)))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "localhost", 0, ssl=context)
    async with server, pool() as upstreams:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        upstreams.adopt(leading_to(url, f", ca: {certificate}"))
        with upstreams.pick(api("chat"), None) as upstream:
            assert await asked(upstream) == b"ok"
        upstreams.adopt(leading_to(url))
        with upstreams.pick(api("chat"), None) as upstream:
            with pytest.raises(UpstreamFailed, match="certificate is not trusted"):
                await upstream.send(GET)


@pytest.mark.parametrize("proxy", ['"{url}"', "{{env: PROXY}}"], ids=["named", "by variable"])
async def test_a_proxy_of_its_own_is_used(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with RawUpstream() as raw, pool(PROXY=raw.base_url.replace("//", "//u:p@")) as upstreams:
        more = f", proxy: {proxy.format(url=raw.base_url)}"
        upstreams.adopt(leading_to("http://model.invalid", more))
        with upstreams.pick(api("chat"), None) as upstream:
            await asked(upstream)
    assert raw.requests[0].target == b"http://model.invalid/v1/models"


async def test_the_environments_proxy_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with RawUpstream() as raw, pool() as upstreams:
        upstreams.adopt(leading_to(raw.base_url, ", proxy: none"))
        with upstreams.pick(api("chat"), None) as upstream:
            await asked(upstream)
    assert raw.requests[0].target == b"/v1/models"


async def test_the_pools_size_and_the_timeouts_hold() -> None:
    """One connection, which is taken: the second request waits for it as long as for a connection."""
    more = ", pool: {size: 1}, timeouts: {connect: 50ms, read: 50ms}"
    async with RawUpstream([Act.HANG]) as raw, pool() as upstreams:
        raw.enqueue(chunked(b"a", Act.HANG))
        upstreams.adopt(leading_to(raw.base_url, more))
        with upstreams.pick(api("chat"), None) as upstream:
            answer = await upstream.send(GET)
            with pytest.raises(UpstreamFailed, match="no connection in time"):
                await upstream.send(GET)
            await answer.close()
            with pytest.raises(UpstreamFailed, match="no byte for too long"):
                await upstream.send(GET)
        assert raw.connections == 2


KNOWN = Manner(thoughts=True, empty=True)


async def test_what_an_upstream_takes_is_known_while_it_is_there() -> None:
    """By model and API, of so many models at most; what a policy changes is another upstream."""
    async with RawUpstream() as raw, pool() as upstreams:
        upstreams.adopt(leading_to(raw.base_url))
        with upstreams.pick(api("chat"), None) as upstream:
            for number in range(300):
                upstream.learn(f"m{number}", Manner(thoughts=False))
            upstream.learn("m299", KNOWN)
        upstreams.adopt(leading_to(raw.base_url))
        with upstreams.pick(api("chat"), None) as upstream:
            assert len(upstream.learned) == MAX_LEARNED
            assert upstream.learned["m298"].thoughts is False
            assert upstream.learned["m299"] == KNOWN
        with upstreams.pick(api("messages"), None) as upstream:
            assert not upstream.learned
        upstreams.adopt(leading_to(raw.base_url, ", timeouts: {read: 1m}"))
        with upstreams.pick(api("chat"), None) as upstream:
            assert not upstream.learned


async def test_so_is_what_the_default_takes() -> None:
    async with RawUpstream() as raw, pool(raw.base_url) as upstreams:
        with upstreams.pick(api("chat"), None) as upstream:
            upstream.learn("m", KNOWN)
        with upstreams.pick(api("chat"), None) as upstream:
            assert upstream.learned == {"m": KNOWN}
        with upstreams.pick(api("responses"), None) as upstream:
            assert not upstream.learned

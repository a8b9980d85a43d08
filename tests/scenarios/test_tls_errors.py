"""A proxy behind TLS that cannot be trusted, or is not there, is told as such by every command."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a certificate for the name gate.example, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
               "-nodes", "-days", "2", "-subj", "/CN=gate", "-addext", "subjectAltName=DNS:gate.example",
               "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def url(certificate: Path) -> Iterator[str]:
    """Yield the URL of a server that ends each connection after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    raw, _ = listener.accept()
                    with (
                        contextlib.suppress(OSError),
                        raw,
                        context.wrap_socket(raw, server_side=True),
                    ):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def plain() -> Iterator[str]:
    """Yield an https URL at which HTTP is spoken."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    raw, _ = listener.accept()
                    with raw:
                        raw.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def said(folder: Path, url: str, *words: str, **more: str) -> str:
    command = [sys.executable, "-m", "modegate", *words, "--url", url, "--state-dir", str(folder)]
    done = subprocess.run(
        command, input=HELLO, capture_output=True, text=True, env={**os.environ, **more}, timeout=50
    )
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


HELLO = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
COMMANDS = [("sessions",), ("watch", "--json"), ("log", "s", "--follow"), ("acp",)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_o15_a_certificate_that_nobody_vouches_for_is_told(
    tmp_path: Path, url: str, words: tuple[str, ...]
) -> None:
    told = said(tmp_path, url, *words)
    assert "its certificate is not trusted (self-signed certificate)" in told
    assert "SSL_CERT_FILE" in told
    assert "no proxy answers" not in told


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_o15_a_certificate_for_another_name_is_told(
    tmp_path: Path, url: str, certificate: Path, words: tuple[str, ...]
) -> None:
    told = said(tmp_path, url, *words, SSL_CERT_FILE=str(certificate / "cert.pem"))
    assert "its certificate is not trusted (IP address mismatch" in told


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_o15_https_where_http_is_spoken_is_told(
    tmp_path: Path, plain: str, words: tuple[str, ...]
) -> None:
    assert "no TLS can be spoken there" in said(tmp_path, plain, *words)

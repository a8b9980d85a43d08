"""What a failed TLS handshake with the proxy means, explained to the person who typed its URL."""

from __future__ import annotations

import ssl


def explain_tls_error(url: str, error: BaseException) -> str | None:
    """Return what is wrong if this error comes from TLS, however deep it lies; None if it does not."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLError):
        seen = seen.__cause__ or seen.__context__
    if seen is None:
        return None
    if isinstance(seen, ssl.SSLCertVerificationError):
        return (
            f"{url}: its certificate is not trusted ({seen.verify_message}); name the file of who signed it "
            "in SSL_CERT_FILE, and use a name that it is for"
        )
    reason = str(seen.reason or seen).replace("_", " ").lower()
    return f"{url}: no TLS can be spoken there ({reason}); is it http:// and not https://?"

"""What is modegate's own, and what somebody could take for it, goes nowhere else."""

from __future__ import annotations

import pytest

from modegate.core.wire.own_paths import OWN, is_own, looks_own

SPELLINGS = [
    "/{own}",
    "/{own}/",
    "//{own}/v1/sessions",
    "/s/x/{own}/v1/sessions",
    "/s/x//{own}",
    "/S/x/{own}",
    "/s/x/../../{own}/v1",
    "/s/../{own}/v1",
    "/./{own}/v1",
    "/v1/../{own}/v1",
    "/.//./{own}",
    "/\\{own}/v1",
    "/%2e/{own}/v1",
    "/%2E%2e/{own}",
    "/x/%252e%252e/{own}/v1",
    "/%2F{own}/v1",
    "/{own}%2Fv1",
    "/{own}%252fv1",
    "/{own};x=1/v1",
    "/{own}./v1",
    "/{own}%20/v1",
    "/{own}%00/v1",
]


@pytest.mark.parametrize("own", sorted(OWN))
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_h18_what_looks_like_an_own_path_is_known(spelling: str, own: str) -> None:
    first = f"%{ord(own[0]):x}{own[1:]}"
    twice = f"%25{ord(own[0]):X}{own[1:]}"
    for name in (own, own.upper(), own.capitalize(), first, twice):
        assert looks_own(spelling.format(own=name).encode())


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/chat/completions",
        "/s/x/v1/models",
        "/s/control/v1/models",
        "/s/acp",
        "/v1/control",
        "/v1/files/metrics",
        "/controls",
        "/x/control",
        "/control/../v1/models",
        "/v1/models/acp%2Fcontrol",
        "/v1/models/%FF",
    ],
)
def test_h18_other_paths_pass(path: str) -> None:
    assert not looks_own(path.encode())


def test_only_the_first_segment_makes_a_path_our_own() -> None:
    assert is_own("/control/v1")
    assert is_own("//metrics")
    assert not is_own("/v1/control")

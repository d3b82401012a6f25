"""Options of gateways in URLs and in the environment, their description, and secrets that never show."""

from __future__ import annotations

import inspect
import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

import hbmodel as hb
from hbmodel.store.gateway.client import GatewayClient
from hbmodel.store.gateway.gateway_options import OPTIONS, SECRETS
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.certificates import Authority
from tests.support.fronts import HttpFront, TlsFront

PAGE = Path(__file__).parents[3] / "docs" / "stores.md"

NOT_IN_A_URL = set(inspect.signature(GatewayClient.from_url).parameters) - {"url"}

ARGUMENTS = {
    name: parameter
    for name, parameter in inspect.signature(GatewayClient).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name not in NOT_IN_A_URL
}

VALUES: dict[str, tuple[str, Any]] = {
    "timeout": ("7", 7.0),
    "connect_timeout": ("1.5", 1.5),
    "pool": ("9", 9),
    "max_age": ("60", 60.0),
    "retry_for": ("0", 0.0),
    "attempts": ("3", 3),
    "transport": ("http", "http"),
    "protocol": ("compact", "compact"),
    "path": ("/thrift", "/thrift"),
    "user": ("ann", "ann"),
    "password": ("pw", "pw"),
    "tls": ("true", True),
    "ca_file": ("/ca.pem", "/ca.pem"),
    "cert_file": ("/me.pem", "/me.pem"),
    "key_file": ("/me.key", "/me.key"),
    "key_password": ("kp", "kp"),
    "table_prefix": ("my", "my"),
    "table_prefix_separator": (":", ":"),
}


def test_options_are_the_constructors_arguments() -> None:
    assert set(OPTIONS) == set(ARGUMENTS) == set(VALUES)
    assert {"sizes", "sleep"} == NOT_IN_A_URL


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_can_stand_in_the_url_and_in_the_environment(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, value = VALUES[option]
    assert Thrift1Store.arguments_of(f"hbase://h?{option}={text}") == {"host": ["h"], option: value}
    monkeypatch.setenv(f"HBMODEL_{option.upper()}", "")
    assert Thrift1Store.arguments_of("hbase://h") == {"host": ["h"]}
    monkeypatch.setenv(f"HBMODEL_{option.upper()}", text)
    assert Thrift1Store.arguments_of("hbase://h") == {"host": ["h"], option: value}


def test_a_plus_sign_is_itself() -> None:
    assert Thrift1Store.arguments_of("hbase://h?password=a+b%20c%2Bd")["password"] == "a+b c+d"


def test_the_url_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBMODEL_POOL", "9")
    monkeypatch.setenv("HBMODEL_TIMEOUT", "7")
    assert Thrift1Store.arguments_of("hbase://h?pool=2") == {"host": ["h"], "pool": 2, "timeout": 7.0}
    monkeypatch.undo()
    monkeypatch.setenv("HBMODEL_POOL", "9")
    assert Thrift1Store("h")._pool.size == 4  # the environment stands in for what a URL leaves out, not for arguments


def test_a_bad_value_in_the_environment_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBMODEL_TLS", "yes")
    with pytest.raises(hb.errors.StoreURLError, match="An environment variable has an invalid value") as caught:
        hb.connect("hbase://h")
    assert (caught.value.variable, caught.value.value) == ("HBMODEL_TLS", "yes")
    hb.connect("memory:").close()  # which has no such option


def test_each_option_is_described_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*?)\|", PAGE.read_text(), re.MULTILINE))
    assert list(OPTIONS) == [name for name in rows if name in OPTIONS]
    for name, parameter in ARGUMENTS.items():
        default = parameter.default
        shown = (
            ""
            if default is None
            else f"`{str(default).lower() if isinstance(default, bool) else default}`".replace(".0`", "`")
        )
        assert rows[name].strip() == shown, name


# --- without a URL ----------------------------------------------------------------------------------------------------


def test_the_environment_can_name_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HBMODEL_URL", raising=False)
    for empty in (None, ""):
        if empty is not None:
            monkeypatch.setenv("HBMODEL_URL", empty)
        with pytest.raises(
            hb.errors.StoreURLError, match="Give a store URL, or set the environment variable HBMODEL_URL"
        ):
            hb.connect()
    monkeypatch.setenv("HBMODEL_URL", f"embedded:{tmp_path / 'dev.db'}")
    with hb.connect() as store:
        assert store.tables() == []
    assert (tmp_path / "dev.db").exists()
    with hb.connect("hbase+thrift2://h") as store:
        assert isinstance(store, Thrift2Store)


# --- secrets ----------------------------------------------------------------------------------------------------------

SECRET = "kartoffelsalat"
HALVES = "kartoffel&salat"


def told(call: Callable[[], object]) -> str:
    """All that an error shows."""
    with pytest.raises(hb.HbmodelError) as caught:
        call()
    error = caught.value
    return "\n".join([str(error), repr(error), repr(error.details), *traceback.format_exception(error)])


@pytest.mark.parametrize(
    "url",
    [
        f"hbase://user:{SECRET}@host",
        f"hbase://user:{SECRET}@host:9090",
        f"hbase://user:{SECRET}@host:9090,other",
        f"hbase://user:{SECRET}",
        f"hbase://host,user:{SECRET}@other",
        f"hbase://[{SECRET}]:9090",
        f"hbase://host/{SECRET}",
        f"hbase://host&user=u&password={SECRET}",
        f"hbase://host;password={SECRET}",
        f"hbase://host,password={SECRET}",
        f"hbase://host?x=y#{SECRET}",
        f"hbase://host?password={SECRET}",
        f"hbase://host?user=ann&password={SECRET}",
        f"hbase://host?user=ann&password={SECRET}&transport=http",
        f"hbase://host?password={SECRET}&transport=http&tls=true",
        f"hbase://host?user=a:b&password={SECRET}&transport=http&tls=true",
        f"hbase://host?password={SECRET}&password={SECRET}",
        f"hbase://host?key_password={SECRET}",
        f"hbase://host?tls=true&key_password={SECRET}",
        f"hbase://host?tls=true&cert_file=none&key_password={SECRET}",
        f"hbase://host?key_password={SECRET}&color=red",
        f"hbase://host?key_password={HALVES}",
        f"hbase://host?key_password={HALVES}&tls=maybe",
        f"hbase://host?key_password={SECRET}&timeout=soon",
        f"thrift://user:{SECRET}@host",
        f"hbase:user:{SECRET}@host",
        f"hbase+thrift2:/user:{SECRET}@host",
    ],
)
def test_no_error_about_a_url_shows_secrets(url: str) -> None:
    shown = told(lambda: hb.connect(url))
    assert SECRET not in shown.replace(repr(url), "")
    assert "salat" not in shown


def test_no_error_about_the_environment_shows_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in SECRETS:
        monkeypatch.setenv(f"HBMODEL_{option.upper()}", SECRET)
    assert SECRET not in told(lambda: hb.connect("hbase://host"))
    monkeypatch.setenv("HBMODEL_TOKEN_KEY", SECRET)
    assert SECRET not in told(lambda: hb.connect("memory:"))
    assert SECRET not in told(lambda: hb.connect("memory:", token_key=SECRET))


def test_the_token_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    monkeypatch.setenv("HBMODEL_TOKEN_KEY", key)
    with hb.connect("memory:") as store, hb.connect("memory:", token_key=other) as explicit:
        assert store.token_key == key
        assert explicit.token_key == other
        assert key not in repr(store)


@pytest.mark.lengthy
def test_nothing_that_happens_on_a_connection_shows_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    server, client = authority.sign("server", "127.0.0.1"), authority.sign("client", password=SECRET)
    stranger = Authority(tmp_path, "unknown").sign("stranger", "127.0.0.1")
    sealed = b64encode(f"ann:{SECRET}".encode()).decode()
    options = (
        f"tls=true&ca_file={authority.file}&cert_file={client.cert_file}&key_file={client.key_file}&key_password={SECRET}"
        f"&transport=http&user=ann&password={SECRET}&attempts=2"
    )
    shown: list[str] = []
    caplog.set_level(logging.DEBUG)

    def fail(port: int) -> None:
        store = Thrift1Store.from_url(f"hbase://127.0.0.1:{port}?{options}")
        with store:
            shown.append(told(store.tables))
            shown.append(told(lambda: store.increment("t", b"k", b"d:n", 1)))
            shown.extend((repr(store), repr(store._wire), repr(store._pool), repr(store._caller), str(vars(store))))

    for status in (
        "200 OK",
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "429 Slow Down",
        "500 Failed",
        "503 Busy",
        "no HTTP",
    ):
        answer = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi".encode()
        with HttpFront(lambda head, answer=answer: answer, server) as front:  # type: ignore[misc]
            fail(front.port)
            assert sealed in front.heads[0]
    with TlsFront(stranger) as front:
        fail(front.port)
    fail(front.port)  # gone
    assert len(shown) == 10 * 7
    everything = "\n".join([*shown, caplog.text])
    assert SECRET not in everything
    assert sealed not in everything

"""From a store URL to a store: what opens, what does not, and what is said then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

import hbmodel as hb
from hbmodel.store.embedded import EmbeddedStore


@hb.model(table="t")
class Thing:
    k: hb.Key[int] = hb.key()
    a: hb.Column[str] = hb.column("a")


def test_memory_stores_are_private() -> None:
    with hb.connect("memory:") as one, hb.connect("memory:") as two:
        assert isinstance(one, EmbeddedStore)
        hb.create_tables(one, Thing)
        assert "t" in one.tables()
        assert two.tables() == []


def test_an_embedded_store_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a file with spaces, ü and %41.db"
    with hb.connect(f"embedded:{path}") as store:
        hb.create_tables(store, Thing)
        with hb.Session(store) as session:
            session.add(Thing(k=1, a="x"))
    assert path.exists()
    with hb.connect(f"embedded:{path}") as store:
        assert hb.Session(store).get(Thing, k=1) == Thing(k=1, a="x")


def test_a_relative_path_starts_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hb.connect("embedded:dev.db").close()
    assert (tmp_path / "dev.db").exists()


def test_nothing_is_opened_before_the_arguments_are_good(tmp_path: Path) -> None:
    path = tmp_path / "dev.db"
    with pytest.raises(hb.SessionError):
        hb.connect(f"embedded:{path}", token_key="secret")
    with pytest.raises(hb.DeclarationError, match="on_call takes a function"):
        hb.connect(f"embedded:{path}", on_call="print")  # type: ignore[arg-type]
    assert not path.exists()


def test_leaving_the_block_closes_the_store() -> None:
    with hb.connect("memory:") as store:
        pass
    with pytest.raises(hb.errors.StoreClosed):
        store.tables()
    store.close()


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("", None),
        ("dev.db", None),
        ("/tmp/dev.db", None),
        ("http://host:9090", "http"),
        ("thrift://host:9090", "thrift"),
        (":memory:", ""),
        ("HBASE://host", "HBASE"),
    ],
)
def test_other_schemes_are_not_understood(url: str, scheme: str | None) -> None:
    with pytest.raises(hb.errors.StoreURLError, match="begins with 'embedded:', 'memory:'") as caught:
        hb.connect(url)
    assert caught.value.scheme == scheme
    assert "for a local file, put 'embedded:' before its path" in caught.value.message


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory:dev.db", "takes no path"),
        ("memory://", "takes no path"),
        ("embedded:", "needs the path"),
        ("embedded://dev.db", "follows the colon"),
        (5, "A store URL is text"),
        (Path("dev.db"), "A store URL is text"),
        (b"memory:", "A store URL is text"),
    ],
)
def test_urls_that_say_too_much_or_too_little(url: Any, message: str) -> None:
    with pytest.raises(hb.errors.StoreURLError, match=message):
        hb.connect(url)


@pytest.mark.parametrize("scheme", ["hbase", "hbase+thrift2"])
@pytest.mark.parametrize(
    "rest", [":host:9090", "://host:port", "://host:9090/path", "://host?colour=red", "://host#here"]
)
def test_gateway_urls_that_cannot_be_read(scheme: str, rest: str) -> None:
    with pytest.raises(hb.errors.StoreURLError):
        hb.connect(scheme + rest)


@pytest.mark.parametrize(("scheme", "name"), [("hbase", "Thrift1Store"), ("hbase+thrift2", "Thrift2Store")])
def test_a_gateway_is_asked_at_the_first_call(scheme: str, name: str) -> None:
    with hb.connect(f"{scheme}://127.0.0.1:1?attempts=1") as store:
        assert type(store).__name__ == name
        with pytest.raises(hb.StoreUnavailable):
            store.tables()


def test_a_file_that_cannot_be_opened_is_a_store_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "dev.db"):
        with pytest.raises(hb.StoreError):
            hb.connect(f"embedded:{path}").tables()
    other = tmp_path / "text.db"
    other.write_text("this is no database, and it is long enough to be read as one" * 40)
    with pytest.raises(hb.StoreError):
        hb.connect(f"embedded:{other}").tables()
    assert other.read_text().startswith("this is no database")


def test_the_token_key_is_carried_for_sessions() -> None:
    key = Fernet.generate_key()
    with hb.connect("memory:", token_key=key) as store:
        hb.create_tables(store, Thing)
        with hb.Session(store) as session:
            session.add_all(Thing(k=number, a="x") for number in range(3))
        query = hb.Session(store).query(Thing).allow_full_scan()
        token = query.page(1).next_token
        assert query.page(2, after=token).items == [Thing(k=1, a="x"), Thing(k=2, a="x")]
        plain = hb.Session(store, token_key=Fernet.generate_key()).query(Thing).allow_full_scan()
        with pytest.raises(hb.TokenError):
            plain.page(2, after=token)


def test_a_bad_token_key_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "dev.db"
    with pytest.raises(hb.SessionError, match="A token key must be 32 bytes in URL-safe") as caught:
        hb.connect(f"embedded:{path}", token_key="secret")
    assert not path.exists()
    assert not isinstance(caught.value, hb.QueryError)
    with hb.connect("memory:") as store:
        for opened in (hb.Session, hb.SessionFactory):
            with pytest.raises(hb.SessionError, match="A token key must be 32 bytes in URL-safe") as caught:
                opened(store, token_key="secret")
            assert caught.value.option == "token_key"
            assert "secret" not in repr(caught.value)

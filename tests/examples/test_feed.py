"""The feed: its pages through the test client on every store, and once in a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from re import findall, search
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

import hbmodel as hb
from examples.feed.app import create_app
from examples.feed.model import NAMES, Action, samples
from tests.support.beds import Bed, fresh

SIZE = 4
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>/../\"&?#é"


def action(number: int, user: str = "ann", name: str = "login", text: str = "") -> Action:
    return Action(
        user=user, at=NOON - timedelta(minutes=number), number=number + 100, name=name, text=text or f"text {number}"
    )


def client_of(store: hb.Store) -> TestClient:
    return TestClient(create_app(store, SIZE))


def texts(page: str) -> list[str]:
    """What the actions of a page say, in order."""
    return [unescape(found) for found in findall(r"<span>(.*?)</span></li>", page)]


def link(page: str, rel: str) -> str | None:
    """Where the link to the next or the previous page leads."""
    found = search(rf'<a rel="{rel}" href="(.*?)">', page)
    return None if found is None else unescape(found[1])


def walk(client: TestClient, url: str) -> list[list[str]]:
    """The pages to the end; on the way back they are the same."""
    pages = [client.get(url).text]
    while (following := link(pages[-1], "next")) is not None:
        pages.append(client.get(following).text)
    back = [pages[-1]]
    while (before := link(back[-1], "prev")) is not None:
        back.append(client.get(before).text)
    assert [texts(page) for page in back[::-1]] == [texts(page) for page in pages]
    return [texts(page) for page in pages]


def flat(pages: list[list[str]]) -> list[str]:
    return [text for page in pages for text in page]


@pytest.mark.lengthy
def test_the_feed(bed: Bed) -> None:
    session = bed.use(Action)
    session.bulk_add(action(n, ("ann", "bob")[n % 2], NAMES[n % 3]) for n in range(22))
    client = client_of(bed.store)
    every = walk(client, "/")
    assert [len(page) for page in every] == [4, 4, 4, 4, 4, 2]
    assert flat(every) == [f"text {n}" for n in range(22)]
    assert flat(walk(client, "/?user=bob")) == [f"text {n}" for n in range(1, 22, 2)]
    assert flat(walk(client, f"/?name={NAMES[1]}")) == [f"text {n}" for n in range(1, 22, 3)]
    assert flat(walk(client, f"/?name={NAMES[2]}&user=ann")) == [f"text {n}" for n in range(2, 22, 6)]
    assert walk(client, "/?user=nobody") == [[]]
    # Newer actions come in front while somebody reads; a deleted user is gone from every feed.
    second = client.get(link(client.get("/").text, "next") or "").text
    session.bulk_add([action(-1)])
    front = client.get(link(second, "prev") or "").text
    assert texts(front) == [f"text {n}" for n in range(4)]
    assert texts(client.get(link(front, "prev") or "").text) == ["text -1"]
    asked = client.get("/users/ann/delete")
    assert "12 actions will be deleted" in asked.text
    gone = client.post("/users/ann/delete")
    assert "12 actions were deleted" in gone.text
    assert flat(walk(client, "/")) == [f"text {n}" for n in range(1, 22, 2)]
    assert flat(walk(client, f"/?name={NAMES[1]}")) == [f"text {n}" for n in range(1, 22, 6)]


@pytest.mark.lengthy
def test_nothing_that_users_write_is_markup() -> None:
    with fresh(Action) as store:
        session = hb.Session(store)
        session.bulk_add(action(n, HOSTILE, text=HOSTILE) for n in range(6))
        client = client_of(store)
        page = client.get("/")
        assert "<script" not in page.text
        assert texts(page.text) == [HOSTILE] * 4
        own = search(r'</time>\s*<a href="(.*?)">', page.text)
        assert own is not None
        mine = client.get(unescape(own[1]))
        assert "<script" not in mine.text
        assert flat(walk(client, unescape(own[1]))) == [HOSTILE] * 6
        path = search(r'href="(/users/.*?/delete)"', mine.text)
        assert path is not None
        asked = client.get(unescape(path[1]))
        assert "6 actions will be deleted" in asked.text
        assert "<script" not in asked.text
        assert "6 actions were deleted" in client.post(unescape(path[1])).text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script" not in client.get("/", params={"name": HOSTILE, "deleted": HOSTILE, "note": HOSTILE}).text


@pytest.mark.lengthy
def test_urls_that_lead_nowhere() -> None:
    with fresh(Action) as store:
        hb.Session(store).bulk_add(action(n) for n in range(9))
        client = client_of(store)
        token = (link(client.get("/").text, "next") or "").partition("after=")[2]
        for wrong in ("after=x", f"before={token}", f"user=ann&after={token}"):
            page = client.get(f"/?{wrong}")
            assert page.status_code == 200
            assert "this is the first one" in page.text
            assert texts(page.text) == ["text 0", "text 1", "text 2", "text 3"]
        for odd in (
            "after=",
            "before=",
            "after=%C3%A9",
            "user=%00",
            "user=%FF",
            "name=%ED%A0%80",
            f"user={'x' * 40_000}",
            f"name={'x' * 40_000}",
        ):
            assert client.get(f"/?{odd}").status_code == 200
        assert client.get(f"/users/{'x' * 40_000}/delete").status_code == 200
        both = client.get(f"/?after={token}&before={token}")
        assert both.status_code == 400
        assert "not both" in both.text
        assert client.get("/users/ann").status_code == 404


def test_other_sites_delete_nothing() -> None:
    with fresh(Action) as store:
        hb.Session(store).bulk_add(action(n) for n in range(3))
        client = client_of(store)
        refused = client.post("/users/ann/delete", headers={"Sec-Fetch-Site": "cross-site"})
        assert refused.status_code == 403
        assert client.get("/users/ann/delete").status_code == 200
        assert len(walk(client, "/")[0]) == 3


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture
def browser() -> Iterator[Any]:
    """A headless Chromium of the system's packages."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        if os.environ.get("HBMODEL_REQUIRE_BROWSER"):
            pytest.fail("there is no Chromium here")
        pytest.skip("there is no Chromium here: install the system's package `chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def served() -> Iterator[str]:
    """The address of the feed, served in a thread."""
    with fresh(Action) as store, closing(socket.create_server(("127.0.0.1", 0))) as listening:
        hb.Session(store).bulk_add(samples(45))
        server = uvicorn.Server(uvicorn.Config(create_app(store), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(30)


@pytest.mark.lengthy
def test_the_feed_in_a_browser_by_keyboard(browser: Any, served: str, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("HBMODEL_SCREENSHOTS", tmp_path))
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    page.goto(served)
    first = page.locator(".feed span").all_text_contents()
    assert len(first) == 10
    page.locator("[rel=next]").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**after=**")
    assert page.locator(".feed span").all_text_contents() != first
    page.locator("[rel=prev]").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**before=**")
    assert page.locator(".feed span").all_text_contents() == first
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "wider than a phone"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.screenshot(path=pictures / "feed-dark.png")
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.screenshot(path=pictures / "feed-light.png")
    page.locator("select").focus()
    page.keyboard.type("order")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**name=order**")
    assert set(page.locator(".feed strong").all_text_contents()) == {"order"}
    page.get_by_role("link", name="user 3").first.click()
    page.get_by_role("link", name="Delete this user").click()
    page.screenshot(path=pictures / "feed-delete.png")
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**deleted=9**")
    assert page.get_by_role("status").inner_text() == "9 actions were deleted."
    assert page.get_by_role("link", name="user 3").count() == 0
    assert [text for text in refused if "favicon" not in text] == []

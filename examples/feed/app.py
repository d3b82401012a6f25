"""The web application: each request opens a session on one store, and only the URL determines what a page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

from attrs import frozen
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import hbmodel as hb

from .model import NAMES, Action

HERE = Path(__file__).parent
SIZE = 10
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'",
    "Referrer-Policy": "same-origin",
}

templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)


@frozen
class Asked:
    """The part of a URL that selects actions.

    Attributes:
        user: the user whose actions are shown; empty for all users.
        name: the name of the actions that are shown; empty for all names.
    """

    user: str = ""
    name: str = ""

    @classmethod
    def of(cls, request: Request) -> Asked:
        """Reads the user and the name from the parameters of a request."""
        return cls(request.query_params.get("user", "").strip(), request.query_params.get("name", "").strip())

    def query(self, session: hb.Session) -> hb.Query[Action]:
        """Returns the query for the actions, newest first. It reads the table if a user is given. Otherwise it reads
        one index for a name, and another index for all actions.
        """
        query = session.query(Action).order_by(Action.at.desc())
        if self.user:
            query = query.where(Action.user == self.user).use_index("primary")
        if self.name:
            query = query.where(Action.name == self.name)
        return query if self.user or self.name else query.use_index(Action.by_time).allow_full_scan()

    def url(self, **more: str | None) -> str:
        """Returns the URL of a page, with `more` as additional parameters."""
        parameters = {name: value for name, value in {"user": self.user, "name": self.name, **more}.items() if value}
        return f"/?{urlencode(parameters)}" if parameters else "/"


def page_of(template: str, status: int = 200, **values: object) -> Response:
    """Renders a page, in which every value is escaped."""
    return HTMLResponse(templates.get_template(template).render(values), status, HEADERS)


def create_app(store: hb.Store, size: int = SIZE) -> Starlette:
    """Returns the application, which uses the given store and creates its tables there.

    Args:
        store: an open store, which the caller closes.
        size: the number of actions on a page.
    """
    hb.create_tables(store, Action)
    sessions = hb.SessionFactory(store)

    def feed(request: Request) -> Response:
        asked = Asked.of(request)
        after, before = request.query_params.get("after"), request.query_params.get("before")
        with sessions() as session:
            try:
                page = asked.query(session).page(size, after=after, before=before)
            except hb.TokenError:  # an old bookmark, or an edited URL
                return RedirectResponse(asked.url(note="restarted"), 303, HEADERS)
            except hb.QueryError as error:
                return page_of("message.html", 400, title="This page cannot be shown", message=error.message)
        return page_of(
            "feed.html",
            page=page,
            asked=asked,
            names=NAMES,
            url=asked.url,
            user_url=lambda user: Asked(user=user).url(),
            delete_url=f"/users/{quote(asked.user, safe='')}/delete" if asked.user else None,
            note=request.query_params.get("note", ""),
            deleted=request.query_params.get("deleted", ""),
        )

    def ask_delete(request: Request) -> Response:
        user = request.path_params["user"]
        with sessions() as session:
            count = Asked(user=user).query(session).count()
        return page_of("delete.html", user=user, count=count, back=Asked(user=user).url())

    def delete(request: Request) -> Response:
        if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return page_of("message.html", 403, title="Not deleted", message="The request came from another site.")
        with sessions() as session:
            deleted = Asked(user=request.path_params["user"]).query(session).delete()
        return RedirectResponse(Asked().url(deleted=str(deleted)), 303, HEADERS)

    def route(path: str, endpoint: Callable[[Request], Response], *methods: str) -> Route:
        return Route(path, endpoint, methods=methods)

    return Starlette(
        routes=[
            route("/", feed, "GET"),
            route("/users/{user:path}/delete", ask_delete, "GET"),
            route("/users/{user:path}/delete", delete, "POST"),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]
    )

"""Serves the feed on this machine: `PYTHONPATH=examples python -m feed`."""

from __future__ import annotations

import click
import uvicorn

import hbmodel as hb

from .app import create_app
from .model import Action, samples


@click.command()
@click.option("--store", default="memory:", show_default=True, help="URL of the store, as for hb.connect.")
@click.option("--port", default=8000, show_default=True, help="Port on this machine; 0 takes a free one.")
@click.option("--rows", default=300, show_default=True, help="Actions to begin with, where the table is empty.")
def main(store: str, port: int, rows: int) -> None:
    """Serves the feed until it is interrupted."""
    with hb.connect(store) as opened:
        app = create_app(opened)
        with hb.Session(opened) as session:
            if not session.query(Action).allow_full_scan().exists():
                session.bulk_add(samples(rows))
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()

"""Alembic asks this file how to reach the database: by the connection that the service hands over."""

from __future__ import annotations

from alembic import context

from isonomy.service.tables import METADATA


def run() -> None:
    """Run the steps inside the transaction of the connection."""
    context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
    context.run_migrations()


run()

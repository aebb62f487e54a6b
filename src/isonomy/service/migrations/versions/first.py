"""Requests, predictions, and evaluations of the monitor."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "requests",
        sa.Column("request", sa.String(32), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("caller", sa.String(64), nullable=False),
        sa.Column("certificate", sa.String(64), nullable=False),
        sa.Column("people", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "predictions",
        sa.Column("request", sa.String(32), nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("prediction", sa.Text, nullable=False),
        sa.Column("outputs", sa.Text, nullable=False),
        sa.Column("upper", sa.Float(53), nullable=False),
        sa.Column("lower", sa.Float(53), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("decision", sa.String(16), nullable=False),
        sa.Column("tier", sa.String(16), nullable=False),
        sa.Column("features", sa.Text),
        sa.PrimaryKeyConstraint("request", "place"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "evaluations",
        sa.Column("certificate", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("certificate", "number"),
    )


def downgrade() -> None:
    """Remove them, with all that they hold."""
    for table in ("evaluations", "predictions", "requests"):
        op.drop_table(table)

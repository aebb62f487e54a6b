"""The chain of hashes over the log; what is there already is linked first, as it stands now."""

from __future__ import annotations

from itertools import islice

import sqlalchemy as sa
from alembic import op

from isonomy.service.chain import START, linked, records_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the chain, over all that is there."""
    table = op.create_table(
        "chain",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("content", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sqlite_with_rowid=False,
    )
    names = [column.name for column in table.columns]
    links = linked(0, START, records_of(op.get_bind()))
    while rows := list(islice(links, 1000)):
        op.bulk_insert(table, [dict(zip(names, row, strict=True)) for row in rows])


def downgrade() -> None:
    """Remove it; the log stays."""
    op.drop_table("chain")

"""What every member of a family must keep: a new one inherits the suite of its contract."""

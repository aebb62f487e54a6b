"""Predictions with their local certificates, and a watch over the population, as a web service."""

from isonomy.service.app import create_app, run, serve
from isonomy.service.keys import Key, new_key, read_keys
from isonomy.service.served import Served
from isonomy.service.settings import Settings

__all__ = ["Key", "Served", "Settings", "create_app", "new_key", "read_keys", "run", "serve"]

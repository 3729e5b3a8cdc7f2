"""One machine on loopback, as `make run` starts it: static files straight from the tree, no TLS."""

from __future__ import annotations

from console.settings import env
from console.settings.base import *  # noqa: F403 - settings are layered by import
from console.settings.base import ALLOWED_HOSTS

DEBUG = env.env_bool("ACE_DEBUG", default=False)
ALLOWED_HOSTS = [*ALLOWED_HOSTS, "localhost", "127.0.0.1", "[::1]"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

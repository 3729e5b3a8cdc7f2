"""A deployment behind TLS: hashed static names, strict transport."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

from console.settings.base import *  # noqa: F403 - settings are layered by import
from console.settings.base import ACE_CONSOLE_URL

if not ACE_CONSOLE_URL.startswith("https://"):
    raise ImproperlyConfigured("ACE_CONSOLE_URL must be the public https:// address in production.")

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = True
SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True

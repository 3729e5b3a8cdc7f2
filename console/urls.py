"""Every address of the console. API first: its errors are problem documents, those of pages are pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/", include("console.api")),
    path("", include("console.accounts.urls")),
]

handler400 = "console.rest.fallback.bad_request"
handler403 = "console.rest.fallback.forbidden"
handler404 = "console.rest.fallback.not_found"
handler500 = "console.rest.fallback.server_error"

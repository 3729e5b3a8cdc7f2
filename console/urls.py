"""Every address of the console. API first: its errors are problem documents, those of pages are pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/", include("console.api")),
    path("", include("console.overview.urls")),
    path("", include("console.accounts.urls")),
    path("shell/", include("console.shell.urls")),
    path("live/", include("console.fleet.urls")),
    path("tenants/", include("console.tenants.urls")),
    path("keys/", include("console.keys.urls")),
    path("providers/", include("console.providers.urls")),
    path("budgets/", include("console.budgets.urls")),
    path("", include("console.studio.urls")),
    path("spend/", include("console.spend.urls")),
    path("requests/", include("console.requests.urls")),
    path("docs/", include("console.docs.urls")),
]

handler400 = "console.shell.errors.bad_request"
handler403 = "console.shell.errors.not_permitted"
handler404 = "console.shell.errors.not_found"
handler500 = "console.shell.errors.server_error"

"""Addresses of API keys."""

from __future__ import annotations

from django.urls import path

from console.keys import views

app_name = "keys"
urlpatterns = [
    path("", views.list_view, name="list"),
    path("new/", views.create_view, name="create"),
    path("<str:key_id>/", views.detail_view, name="detail"),
    path("<str:key_id>/edit/", views.edit_view, name="edit"),
    path("<str:key_id>/rotate/", views.rotate_view, name="rotate"),
    path("<str:key_id>/revoke/", views.revoke_view, name="revoke"),
]

"""Addresses of pools."""

from __future__ import annotations

from django.urls import path

from console.providers import views

app_name = "providers"
urlpatterns = [
    path("", views.list_view, name="list"),
    path("new/", views.create_view, name="create"),
    path("test/", views.trial_view, name="test"),
    path("endpoint-line/", views.line_view, name="line"),
    path("<str:pool_id>/", views.detail_view, name="detail"),
    path("<str:pool_id>/edit/", views.edit_view, name="edit"),
    path("<str:pool_id>/test/", views.trial_view, name="test-saved"),
    path("<str:pool_id>/price/", views.price_view, name="price"),
]

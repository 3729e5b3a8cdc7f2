"""Addresses of requests."""

from __future__ import annotations

from django.urls import path

from console.requests import views

app_name = "requests"
urlpatterns = [
    path("", views.list_view, name="list"),
    path("<path:request_id>/", views.detail_view, name="detail"),
]

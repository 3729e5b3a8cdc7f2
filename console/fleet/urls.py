"""Addresses of the fleet."""

from __future__ import annotations

from django.urls import path

from console.fleet import views

app_name = "fleet"
urlpatterns = [path("", views.live_view, name="live")]

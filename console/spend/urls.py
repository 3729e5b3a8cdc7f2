"""Addresses of spend."""

from __future__ import annotations

from django.urls import path

from console.spend import views

app_name = "spend"
urlpatterns = [
    path("", views.home_view, name="home"),
    path("ledger/", views.ledger_view, name="ledger"),
    path("ledger.csv", views.export_view, name="export"),
]

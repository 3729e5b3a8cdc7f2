"""Addresses of the documentation."""

from __future__ import annotations

from django.urls import path

from console.docs import views

app_name = "docs"
urlpatterns = [
    path("", views.home_view, name="home"),
    path("errors/<slug:code>", views.error_view, name="error"),
    path("<slug:section>/<slug:slug>/", views.page_view, name="page"),
]

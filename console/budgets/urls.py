"""Addresses of budgets."""

from __future__ import annotations

from django.urls import path

from console.budgets import views

app_name = "budgets"
urlpatterns = [
    path("", views.list_view, name="list"),
    path("new/", views.create_view, name="create"),
    path("<str:budget_id>/edit/", views.edit_view, name="edit"),
    path("<str:budget_id>/archive/", views.archive_view, name="archive"),
]

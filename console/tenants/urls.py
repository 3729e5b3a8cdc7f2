"""Addresses of tenants."""

from __future__ import annotations

from django.urls import path

from console.tenants import views

app_name = "tenants"
urlpatterns = [
    path("", views.list_view, name="list"),
    path("new/", views.create_view, name="create"),
    path("<str:tenant_id>/", views.detail_view, name="detail"),
    path("<str:tenant_id>/edit/", views.edit_view, name="edit"),
    path("<str:tenant_id>/fence/", views.fence_view, name="fence"),
    path("<str:tenant_id>/suspend/", views.suspend_view, name="suspend"),
    path("<str:tenant_id>/resume/", views.resume_view, name="resume"),
]

"""Addresses of the shell's fragments."""

from __future__ import annotations

from django.urls import path

from console.shell import views

app_name = "shell"
urlpatterns = [path("policy-chip/", views.policy_chip_view, name="policy-chip")]

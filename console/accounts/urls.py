"""Addresses of accounts."""

from __future__ import annotations

from django.urls import path

from console.accounts import views

app_name = "accounts"
urlpatterns = [
    path("sign-in/", views.sign_in_view, name="sign-in"),
    path("sign-out/", views.sign_out_view, name="sign-out"),
    path("set-up/", views.set_up_view, name="set-up"),
    path("account/", views.account_view, name="account"),
    path("theme/", views.theme_view, name="theme"),
]

"""Addresses of the policy studio."""

from __future__ import annotations

from django.urls import path

from console.studio import version_views, views

app_name = "studio"
urlpatterns = [
    path("studio/", views.home_view, name="home"),
    path("studio/skills/<slug:slug>/", views.skill_view, name="skill"),
    path("studio/skills/<slug:slug>/check/", views.check_view, name="check"),
    path("studio/skills/<slug:slug>/yaml/", views.yaml_view, name="yaml"),
    path("studio/skills/<slug:slug>/discard/", views.discard_view, name="discard"),
    path("studio/review/", version_views.review_view, name="review"),
    path("versions/", version_views.versions_view, name="versions"),
    path("versions/workers/", version_views.workers_view, name="workers"),
    path("versions/<int:number>/", version_views.revision_view, name="revision"),
    path("versions/<int:number>/rollback/", version_views.rollback_view, name="rollback"),
]

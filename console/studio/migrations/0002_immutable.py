from __future__ import annotations

from django.db import migrations

from console.immutable import forbid


class Migration(migrations.Migration):
    dependencies = [("studio", "0001_initial")]
    operations = [forbid("studio_policyrevision"), forbid("studio_snapshotrecord", ("UPDATE",))]

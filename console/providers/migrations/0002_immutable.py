from __future__ import annotations

from django.db import migrations

from console.immutable import forbid


class Migration(migrations.Migration):
    dependencies = [("providers", "0001_initial")]
    operations = [forbid("providers_priceversion")]

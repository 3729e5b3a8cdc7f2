"""Pools of equal endpoints, their prices and the provider keys that open them."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from console.ids import IdField


class Engine(models.TextChoices):
    VLLM = "vllm", "vLLM"
    SGLANG = "sglang", "SGLang"
    TRTLLM = "trtllm", "TensorRT-LLM"
    OPENAI = "openai", "OpenAI compatible"
    ANTHROPIC = "anthropic", "Anthropic compatible"


class Pool(models.Model):
    """Equal replicas that serve one public model."""

    id = IdField("pool")
    name = models.CharField(max_length=120, unique=True)
    model = models.CharField(max_length=120, db_index=True)
    upstream_model = models.CharField(max_length=120, blank=True)
    """Name the engine knows; empty: the public name."""
    engine = models.CharField(max_length=20, choices=Engine.choices)
    max_output_tokens = models.PositiveIntegerField(default=4096)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(engine__in=Engine.values), name="pool_engine"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Endpoint(models.Model):
    """One replica. Without a region no fenced tenant is ever sent there."""

    id = IdField("ep")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="endpoints")
    base_url = models.CharField(max_length=300)
    """Scheme, host, port and optional path prefix, without `/v1`."""
    region = models.CharField(max_length=40, blank=True)
    """Empty: unknown."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool", "base_url"], name="endpoint_in_pool"),
        ]

    def __str__(self) -> str:
        return self.base_url


class PriceVersion(models.Model):
    """A price never changes: a new one is a new row, so that every ledger row can name what it was billed by."""

    id = IdField("price")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="prices")
    input_microusd_per_mtok = models.PositiveBigIntegerField()
    output_microusd_per_mtok = models.PositiveBigIntegerField()
    cached_input_microusd_per_mtok = models.PositiveBigIntegerField(null=True, blank=True)
    """None: cached input costs what input costs."""
    effective_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=200)

    class Meta:
        indexes = [models.Index(fields=["pool", "-effective_at"], name="price_newest")]

    def __str__(self) -> str:
        return str(self.id)


class ProviderCredential(models.Model):
    """A provider key under envelope encryption: its own data key, wrapped by the installation's.

    Write only: nothing hands the plain text out but the snapshot, where it is sealed again for the workers.
    """

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="credential")
    wrapped_key = models.BinaryField()
    ciphertext = models.BinaryField()
    fingerprint = models.CharField(max_length=8)
    """First half of a keyed hash; tells two keys apart without showing either."""
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.fingerprint

"""Tables of what happened. Ids of tenants, keys and pools are text: their tables are not ours.

Money is integer micro-dollars, times are UTC. No row of the ledger changes: a trigger refuses it.
"""

from __future__ import annotations

from typing import Final

from django.db import models
from django.utils import timezone

ID_LENGTH: Final = 64
REQUEST_ID_LENGTH: Final = 128
MODEL_LENGTH: Final = 120
CODE_LENGTH: Final = 120
SUBJECT_LENGTH: Final = 200


def _id() -> models.CharField[str, str]:
    return models.CharField(max_length=ID_LENGTH)


class LedgerEntry(models.Model):
    """One billed fact. Append-only, and unique, so that a redelivery changes nothing."""

    tenant_id = _id()
    request_id = models.CharField(max_length=REQUEST_ID_LENGTH)
    attempt = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=16)
    key_id = _id()
    model = models.CharField(max_length=MODEL_LENGTH)
    pool_id = _id()
    endpoint_id = _id()
    engine = models.CharField(max_length=16)
    region = models.CharField(max_length=40, blank=True)
    """Empty: unknown."""
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    """Part of `input_tokens`."""
    output_tokens = models.BigIntegerField()
    billed_microusd = models.BigIntegerField()
    price_id = _id()
    input_microusd_per_mtok = models.BigIntegerField()
    output_microusd_per_mtok = models.BigIntegerField()
    cached_input_microusd_per_mtok = models.BigIntegerField()
    usage_source = models.CharField(max_length=16)
    outcome = models.CharField(max_length=20)
    status = models.PositiveSmallIntegerField()
    bucket_start = models.DateTimeField()
    """The quarter of an hour (UTC) of `occurred_at`: it fits the days of every time zone."""
    occurred_at = models.DateTimeField()
    snapshot_version = models.BigIntegerField()
    policy_revision = models.BigIntegerField()
    spool_id = models.CharField(max_length=REQUEST_ID_LENGTH)
    spool_seq = models.BigIntegerField()
    recorded_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "request_id", "attempt", "kind"], name="ledger_once"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "occurred_at"], name="ledger_tenant_time"),
            models.Index(fields=["occurred_at"], name="ledger_time"),
            models.Index(fields=["request_id"], name="ledger_request"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id}#{self.attempt} {self.billed_microusd} micro-dollars"


class RequestRecord(models.Model):
    """What the explainer and the live page show of a request. Kept for a bounded time.

    The ledger is the account; tokens and money stand here again so that one read shows a request.
    """

    tenant_id = _id()
    request_id = models.CharField(max_length=REQUEST_ID_LENGTH)
    attempt = models.PositiveSmallIntegerField(default=0)
    key_id = _id()
    model = models.CharField(max_length=MODEL_LENGTH)
    pool_id = models.CharField(max_length=ID_LENGTH, blank=True)
    endpoint_id = models.CharField(max_length=ID_LENGTH, blank=True)
    opened_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField()
    outcome = models.CharField(max_length=20)
    """An `events.Outcome`, or `refused` when it was turned away before dispatch."""
    code = models.CharField(max_length=CODE_LENGTH, blank=True)
    message = models.TextField(blank=True)
    stream = models.BooleanField(default=False)
    input_tokens = models.BigIntegerField(default=0)
    cached_input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    usage_source = models.CharField(max_length=16, default="none")
    hold_microusd = models.BigIntegerField(default=0)
    billed_microusd = models.BigIntegerField(default=0)
    latency_us = models.BigIntegerField(default=0)
    first_token_us = models.BigIntegerField(default=0)
    """0: no token came."""
    snapshot_version = models.BigIntegerField()
    policy_revision = models.BigIntegerField()
    decisions = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "request_id", "attempt"], name="request_record_once"
            ),
        ]
        indexes = [
            models.Index(fields=["-finished_at"], name="request_record_newest"),
            models.Index(fields=["tenant_id", "-finished_at"], name="request_record_tenant"),
            models.Index(fields=["request_id"], name="request_record_request"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.outcome}"


class UsageRollup(models.Model):
    """Sums of the ledger for a quarter of an hour, written in the transaction that writes it."""

    bucket_start = models.DateTimeField()
    tenant_id = _id()
    key_id = _id()
    model = models.CharField(max_length=MODEL_LENGTH)
    pool_id = _id()
    requests = models.BigIntegerField()
    failed_requests = models.BigIntegerField()
    """Outcome other than `ok`."""
    estimated_requests = models.BigIntegerField()
    """Usage was a bound, not a report."""
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    billed_microusd = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["bucket_start", "tenant_id", "key_id", "model", "pool_id"],
                name="usage_rollup_once",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "bucket_start"], name="usage_rollup_tenant"),
            models.Index(fields=["key_id", "bucket_start"], name="usage_rollup_key"),
        ]

    def __str__(self) -> str:
        return f"{self.bucket_start:%Y-%m-%d %H:%M} {self.tenant_id} {self.model}"


class IngestWatermark(models.Model):
    """How far one worker's spool is in the ledger.

    `ranges` are sequences above a gap that are in it as well.
    """

    spool_id = models.CharField(max_length=REQUEST_ID_LENGTH, primary_key=True)
    sequence = models.BigIntegerField()
    """Everything up to and including it is in the ledger."""
    ranges = models.JSONField(default=list)
    updated_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.spool_id} {self.sequence}"


class StreamPosition(models.Model):
    """How far one Redis stream was read, stored with what was read from it."""

    stream = models.CharField(max_length=CODE_LENGTH, primary_key=True)
    last_id = models.CharField(max_length=42, default="0-0")
    as_of = models.DateTimeField()
    """Everything that reached the stream before it has been read."""

    def __str__(self) -> str:
        return f"{self.stream} {self.last_id}"


class DeadLetter(models.Model):
    """An event that could not be stored, kept whole with the reason. It blocks nothing behind it."""

    origin = models.CharField(max_length=200, unique=True)
    """Spool and sequence, or the stream entry when those could not be read."""
    reason = models.CharField(max_length=CODE_LENGTH)
    detail = models.TextField(blank=True)
    payload = models.BinaryField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["-at"], name="dead_letter_newest")]

    def __str__(self) -> str:
        return f"{self.origin}: {self.reason}"


class FindingRecord(models.Model):
    """Something a person should see. Said again, it counts up; it does not pile up."""

    skill = models.CharField(max_length=CODE_LENGTH)
    code = models.CharField(max_length=CODE_LENGTH)
    subject = models.CharField(max_length=SUBJECT_LENGTH)
    severity = models.CharField(max_length=10)
    message = models.TextField()
    count = models.BigIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["skill", "code", "subject"], name="finding_once"),
        ]
        indexes = [models.Index(fields=["-last_at"], name="finding_newest")]

    def __str__(self) -> str:
        return f"{self.severity} {self.skill}.{self.code} {self.subject}"


class GpuSampleRollup(models.Model):
    """One reading of one GPU over a minute. What did not come has no row: absent is not zero."""

    minute = models.DateTimeField()
    node = models.CharField(max_length=CODE_LENGTH)
    uuid = models.CharField(max_length=96)
    field = models.CharField(max_length=40)
    low = models.FloatField()
    high = models.FloatField()
    total = models.FloatField()
    samples = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["minute", "uuid", "field"], name="gpu_sample_once"),
        ]

    def __str__(self) -> str:
        return f"{self.uuid} {self.field} {self.minute:%H:%M}"

    @property
    def mean(self) -> float:
        return self.total / self.samples

"""People and management tokens, what they tried, and the answers kept for repeated requests."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.utils import timezone

from console.ids import IdField


class Role(models.TextChoices):
    ADMIN = "admin", "Admin"
    FINANCE = "finance", "Finance"
    DEVELOPER = "developer", "Developer"


class UserManager(BaseUserManager["User"]):
    def create_user(self, username: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(username=username, **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, username: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(username, password, role=Role.ADMIN, **fields)


class User(AbstractBaseUser):
    """One person. A developer sees the tenants listed; the other roles see all."""

    id = IdField("usr")
    username = models.CharField(max_length=150, unique=True)
    role = models.CharField(max_length=20, choices=Role.choices, default=Role.DEVELOPER)
    tenants = models.ManyToManyField("tenants.Tenant", blank=True, related_name="developers")
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()
    USERNAME_FIELD = "username"

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role"),
        ]

    def __str__(self) -> str:
        return self.username


class ManagementToken(models.Model):
    """Opens the management API and nothing else. Only the HMAC digest is kept; the token was shown once."""

    id = IdField("tok")
    name = models.CharField(max_length=120)
    digest = models.CharField(max_length=64, unique=True)
    prefix = models.CharField(max_length=12)
    last4 = models.CharField(max_length=4)
    role = models.CharField(max_length=20, choices=Role.choices, default=Role.ADMIN)
    tenants = models.ManyToManyField("tenants.Tenant", blank=True, related_name="+")
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="token_role"),
        ]

    def __str__(self) -> str:
        return f"{self.name} (…{self.last4})"


class LoginAttempt(models.Model):
    """A failed sign-in. Counted per account and address; in the database, so that nothing opens when Redis is down."""

    account = models.CharField(max_length=150)
    ip = models.CharField(max_length=45)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["account", "ip", "-at"], name="login_attempt_recent")]

    def __str__(self) -> str:
        return f"{self.account} from {self.ip}"


class StoredAnswer(models.Model):
    """The answer to a POST that carried an Idempotency-Key, kept for 24 hours.

    The body is sealed under a key made from the Idempotency-Key itself, which is not kept: an answer may hold an API
    key that is revealed once, and only who repeats the request may read it again.
    """

    digest = models.CharField(max_length=64, primary_key=True)
    """HMAC of token, method, path and Idempotency-Key."""
    request_sha256 = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.BinaryField()
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    def __str__(self) -> str:
        return self.digest

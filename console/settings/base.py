"""Settings that every process shares. `dev` is one machine, `prod` a deployment, `test` the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONE, SELF

from console.settings import env
from console.settings.operator import load_operator
from telemetry.schedule import BEAT_SCHEDULE as TELEMETRY_SCHEDULE

BASE_DIR = Path(__file__).resolve().parents[2]
ACE_HOME = env.env_path("ACE_HOME", "./var")
_SECRETS = ACE_HOME / "secrets"

SECRET_KEY = env.secret_text("DJANGO_SECRET_KEY", _SECRETS / "django_secret_key")
ACE_KEY_PEPPER = env.secret_bytes("ACE_KEY_PEPPER", _SECRETS / "key_pepper")
ACE_SNAPSHOT_SECRET = env.secret_bytes("ACE_SNAPSHOT_SECRET", _SECRETS / "snapshot_secret")

ACE_CONSOLE_PORT = env.env_port("ACE_CONSOLE_PORT", 8000)
ACE_GATEWAY_PORT = env.env_port("ACE_GATEWAY_PORT", 8080)
ACE_CONSOLE_URL = env.env_text("ACE_CONSOLE_URL", f"http://127.0.0.1:{ACE_CONSOLE_PORT}")
"""Public address of the console: decides cookies, allowed origins and links."""
ACE_GATEWAY_URL = env.env_text("ACE_GATEWAY_URL", f"http://127.0.0.1:{ACE_GATEWAY_PORT}")
"""Address that applications use; shown in snippets."""
ACE_OPERATOR = load_operator(env.env_text("ACE_OPERATOR_FILE", ""))
REDIS_URL = env.env_text("REDIS_URL")

_public = urlsplit(ACE_CONSOLE_URL)
_secure = _public.scheme == "https"
DEBUG = False
ALLOWED_HOSTS = [_public.hostname or "127.0.0.1", *ACE_OPERATOR.allowed_hosts]
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "template_partials",
    "csp",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "telemetry",
    "console.audit",
    "console.accounts",
    "console.tenants",
    "console.budgets",
    "console.keys",
    "console.providers",
    "console.studio",
    "console.spend",
    "console.fleet",
    "console.ui",
]

MIDDLEWARE = [
    "console.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.middleware.PrivateCacheMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.shell.context.shell",
            ],
        },
    },
]

DATABASES: dict[str, dict[str, Any]] = {"default": env.database(env.env_text("DATABASE_URL"))}
DATABASES["default"]["ATOMIC_REQUESTS"] = False
_pool_size = env.env_int("ACE_DB_POOL_SIZE", 8)
"""Connections a process keeps; 0: one per thread, closed after each request."""
if _pool_size:
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 0, "max_size": _pool_size, "timeout": 5}

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
}
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "ace:channels"},
    },
}

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"

_HOST_PREFIX = "__Host-" if _secure else ""
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_NAME = f"{_HOST_PREFIX}ace_session"
SESSION_COOKIE_SECURE = _secure
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_NAME = f"{_HOST_PREFIX}ace_csrf"
CSRF_COOKIE_SECURE = _secure
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "console.shell.errors.csrf_refused"
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    },
}

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = ACE_HOME / "staticfiles"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["console.rest.authentication.ManagementTokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["console.rest.permissions.ActionPermission"],
    "DEFAULT_RENDERER_CLASSES": ["console.rest.rendering.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["console.rest.parsing.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "console.rest.rendering.JSONOnly",
    "EXCEPTION_HANDLER": "console.rest.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "ACE Gateway management API",
    "DESCRIPTION": "Tenants, keys, pools, budgets, policies and usage. Errors are RFC 9457 problem documents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

CELERY_BROKER_URL = env.celery_broker(REDIS_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TIME_LIMIT = 300
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600, "global_keyprefix": "ace:celery:"}
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE_FILENAME = str(ACE_HOME / "celerybeat-schedule")
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    **TELEMETRY_SCHEDULE,
    "studio-snapshot-reannounce": {
        "task": "console.studio.tasks.snapshot_reannounce",
        "schedule": 2.0,
        "options": {"expires": 4.0},
    },
    "studio-snapshots-prune": {
        "task": "console.studio.tasks.snapshots_prune",
        "schedule": 300.0,
    },
    "accounts-sweep": {"task": "console.accounts.tasks.sweep", "schedule": 900.0},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        # A traceback each second while Redis is away; the live hub says it once, in a line.
        "channels_redis.pubsub": {"level": "CRITICAL"},
        **{
            name: {"level": "WARNING"}
            for name in ("celery.app.trace", "celery.worker.strategy", "celery.beat", "httpx")
        },
        # A wrong Host header is a scanner's, not a fault of ours: a trace for each would fill the log.
        "django.security.DisallowedHost": {"handlers": [], "propagate": False},
    },
    "root": {"handlers": ["stderr"], "level": env.env_text("ACE_LOG_LEVEL", "INFO")},
}

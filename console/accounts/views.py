"""Sign-in, first-run set-up, the own account and the theme."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.messages import success
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.accounts.forms import PasswordForm, SetUpForm, SignInForm
from console.accounts.http import user_of
from console.accounts.permissions import PERMISSIONS, actor_of, reach
from console.accounts.selectors import first_run_needed
from console.accounts.services import TooManyTries, password_set, sign_in
from console.accounts.set_up import set_up
from console.errors import Conflict, InputError
from console.ui import theme
from console.ui.http import UNPROCESSABLE, go_to, render_page, safe_next
from console.ui.service_errors import add_problems

BACKEND = "django.contrib.auth.backends.ModelBackend"


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_view(request: HttpRequest) -> HttpResponse:
    """A fragment asked for after the session ended sends the whole browser here, not a form into a table."""
    if request.method == "POST":
        return _sign_in(request)
    if request.headers.get("HX-Request") == "true":
        return go_to(request, _sign_in_url(request.headers.get("HX-Current-URL", "")))
    if request.user.is_authenticated:
        return HttpResponseRedirect(safe_next(request, "/"))
    if first_run_needed():
        return HttpResponseRedirect(reverse("accounts:set-up"))
    return _sign_in_page(request, SignInForm())


def _sign_in_url(current: str) -> str:
    parts = urlsplit(current)
    query = urlencode({"next": f"{parts.path}?{parts.query}" if parts.query else parts.path or "/"})
    return f"{reverse('accounts:sign-in')}?{query}"


def _sign_in(request: HttpRequest) -> HttpResponse:
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _sign_in_page(request, form, "Enter your user name and password.")
    data = form.cleaned_data
    try:
        user = sign_in(data["username"], data["password"], request.META.get("REMOTE_ADDR", ""))
    except (InputError, TooManyTries) as error:
        return _sign_in_page(request, form, error.detail)
    login(request, user)
    return HttpResponseRedirect(safe_next(request, "/"))


def _sign_in_page(request: HttpRequest, form: SignInForm, refused: str = "") -> HttpResponse:
    context = {"form": form, "refused": refused, "next": safe_next(request, "/")}
    status = UNPROCESSABLE if refused else 200
    return render_page(request, "console/accounts/sign_in.html", context, status=status)


@require_POST
def sign_out_view(request: HttpRequest) -> HttpResponse:
    logout(request)
    success(request, "Signed out")
    return HttpResponseRedirect(reverse("accounts:sign-in"))


@require_http_methods(["GET", "HEAD", "POST"])
def set_up_view(request: HttpRequest) -> HttpResponse:
    """Open until the first account exists; after that the page does not exist."""
    if not first_run_needed():
        raise Http404
    form = SetUpForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and (done := _set_up(request, form)):
        return done
    status = UNPROCESSABLE if request.method == "POST" else 200
    return render_page(request, "console/accounts/set_up.html", {"form": form}, status=status)


def _set_up(request: HttpRequest, form: SetUpForm) -> HttpResponse | None:
    data = form.cleaned_data
    try:
        user = set_up(data["token"], data["username"], data["password"])
    except InputError as error:
        add_problems(form, error)
        return None
    except Conflict:
        return HttpResponseRedirect(reverse("accounts:sign-in"))
    login(request, user, backend=BACKEND)
    success(request, "Admin created. This page is closed for ever")
    return HttpResponseRedirect("/")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def account_view(request: HttpRequest) -> HttpResponse:
    form = PasswordForm(request.POST or None)
    if request.method == "POST":
        if form.is_valid() and _change_password(request, form):
            success(request, "Password changed. Your other sessions are signed out")
            return go_to(request, reverse("accounts:account"))
        return _account_page(request, form, UNPROCESSABLE)
    return _account_page(request, form, 200)


def _change_password(request: HttpRequest, form: PasswordForm) -> bool:
    data, me = form.cleaned_data, user_of(request)
    try:
        # The throttled door: a stolen session must not become a way to guess the password.
        sign_in(me.username, data["current"], request.META.get("REMOTE_ADDR", ""))
    except (InputError, TooManyTries) as error:
        wrong = isinstance(error, InputError)
        form.add_error("current", "This is not your password." if wrong else error.detail)
        return False
    try:
        user = password_set(actor_of(request), me.id, data["password"])
    except InputError as error:
        add_problems(form, error)
        return False
    update_session_auth_hash(request, user)
    return True


def _account_page(request: HttpRequest, form: PasswordForm, status: int) -> HttpResponse:
    context = {"form": form, "grants": _grants(request)}
    template = "console/accounts/account.html"
    return render_page(request, template, context, part="password-form", status=status)


def _grants(request: HttpRequest) -> list[str]:
    """The permission table, read for this person."""
    role = actor_of(request).role
    found = ((action.replace(".", ": "), reach(role, action)) for action in PERMISSIONS)
    return [f"{name}{', own tenants' if far == 'own' else ''}" for name, far in found if far]


@require_POST
def theme_view(request: HttpRequest) -> HttpResponse:
    response = HttpResponseRedirect(safe_next(request, "/"))
    theme.remember(response, request.POST.get("theme", ""), secure=request.is_secure())
    return response

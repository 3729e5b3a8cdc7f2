"""Server-side paging. A list is never loaded whole, whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.paginator import EmptyPage, PageNotAnInteger, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

Row = TypeVar("Row")

PAGE_SIZES = (25, 10, 50, 100)
"""The first is what a list shows by itself."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """One page of a list, as the pager draws it."""

    rows: Sequence[Row]
    number: int
    size: int
    total: int
    pages: int

    @property
    def first(self) -> int:
        return (self.number - 1) * self.size + 1 if self.total else 0

    @property
    def last(self) -> int:
        return min(self.number * self.size, self.total)

    @property
    def previous(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        return self.number + 1 if self.number < self.pages else None


def page_of(request: HttpRequest, items: QuerySet[Any, Row] | Sequence[Row]) -> Page[Row]:
    """The page named by `?page=` and `?rows=`; a page that does not exist becomes the nearest one that does."""
    size = _size(request.GET.get("rows", ""))
    paginator: Paginator[Row] = Paginator(items, size)
    try:
        found = paginator.page(request.GET.get("page", "1"))
    except PageNotAnInteger:
        found = paginator.page(1)
    except EmptyPage:
        found = paginator.page(paginator.num_pages)
    return Page(list(found.object_list), found.number, size, paginator.count, paginator.num_pages)


def _size(asked: str) -> int:
    return int(asked) if asked in {str(size) for size in PAGE_SIZES} else PAGE_SIZES[0]

"""What a browser would send from a page: the successful controls of one form, read from its HTML."""

from __future__ import annotations

from html.parser import HTMLParser


class FormReader(HTMLParser):
    """Collects the controls of the form with `form_id`, as HTML's form submission does."""

    def __init__(self, form_id: str) -> None:
        super().__init__()
        self.form_id = form_id
        self.values: dict[str, list[str]] = {}
        self._inside = False
        self._area = ""
        self._text = ""
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = found.get("id") == self.form_id
        if not self._inside:
            return
        if tag == "input":
            self._input(found)
        elif tag == "textarea":
            self._area, self._text = found["name"], ""
        elif tag == "select":
            self._select = found["name"]
        elif tag == "option" and "selected" in found:
            self._add(self._select, found["value"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "textarea" and self._area:
            # A browser drops the first line break and sends the others as CRLF.
            text = self._text.removeprefix("\n")
            self._add(self._area, text.replace("\n", "\r\n"))
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self._text += data

    def _input(self, found: dict[str, str]) -> None:
        ticks = found.get("type") in ("checkbox", "radio")
        if "name" in found and (not ticks or "checked" in found):
            self._add(found["name"], found.get("value", "on"))

    def _add(self, name: str, value: str) -> None:
        self.values.setdefault(name, []).append(value)


def read_form(html: str, form_id: str) -> dict[str, list[str]]:
    reader = FormReader(form_id)
    reader.feed(html)
    return reader.values

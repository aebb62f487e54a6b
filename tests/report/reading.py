"""A strict reader of HTML that shares nothing with what wrote the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "source", "wbr", "base"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self):  # type: ignore[no-untyped-def]
        """This element and everything inside, in reading order."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    @property
    def text(self) -> str:
        """What a person reads, without style and script."""
        if self.name in ("style", "script"):
            return ""
        return " ".join("".join(c if isinstance(c, str) else f" {c.text} " for c in self.children).split())

    def all(self, *names: str) -> list[Element]:
        return [element for element in self if element.name in names]

    def by_id(self, identifier: str) -> Element:
        (found,) = [element for element in self if element.attributes.get("id") == identifier]
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[Element] = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    """The page as a tree; every element must be closed, in order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].name}> is not closed"
    return reader.open[0]


def table(page: Element, identifier: str) -> list[list[str]]:
    """The cells of a table's body."""
    return [
        [cell.text for cell in row.all("td", "th")]
        for body in page.by_id(identifier).all("tbody")
        for row in body.all("tr")
    ]

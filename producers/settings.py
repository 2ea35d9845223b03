"""What the settings of all sources share: pydantic parses them once, and a bad one is named in a sentence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, NoReturn, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.wire import check_source

STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True)
_WRONG: Final = {
    "string_type": "is no text",
    "string_too_short": "is empty",
    "float_type": "is no number",
    "bool_type": "is neither true nor false",
    "tuple_type": "is no list of texts",
    "path_type": "is no name of a file or folder",
    "model_type": "is no table of settings",
}
"""Pydantic's type of an error → what a value is that causes it."""


def _name(name: str) -> str:
    try:
        return check_source(name)
    except Refused as refused:
        raise ValueError(refused.detail) from refused


def _several(value: object) -> object:
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
"""A text that is not empty."""
SEVERAL: Final = BeforeValidator(_several)
"""For a tuple: takes a list, and one text as the list of it."""
Texts = Annotated[tuple[str, ...], SEVERAL]
"""A list of texts; one text is the list of it."""


def within(low: float, high: float, *, zero: bool = False) -> AfterValidator:
    """A number's bounds, both included; with `zero` it may also be 0."""

    def check(value: float) -> float:
        if not low <= value <= high and not (zero and value == 0):
            raise ValueError(f"{value} is not within {low:,} to {high:,}{', nor 0' * zero}.")
        return value

    return AfterValidator(check)


class SourceSettings(BaseModel):
    """One source. Raises BadSetting, named `GROUP.NAME.OPTION`, when it is built of bad values."""

    model_config = STRICT

    group: ClassVar[str]
    """The table of the configuration that its kind of sources is in."""
    secret: ClassVar[str] = ""
    """The option whose value no message shows."""

    name: Annotated[str, AfterValidator(_name), Field(exclude=True)]
    """What its entries name as their source: letters, digits and ``. _ : -``."""
    max_delete: Annotated[float, within(0, 1)] = 0.2
    """The share of the source's URLs, 0 to 1, that a comparison may delete if it is over 100 of them."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            # A misspelt option before what is missing for it.
            first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
            self._refuse(first, options)

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any]) -> Self:
        """The source of that name, as a table of the configuration has it. Raises BadSetting."""
        if "name" in options:
            raise BadSetting(setting=f"{cls.group}.{name}.name", detail="is no setting of sitemapd.")
        return cls(**options, name=name)

    def replace(self, **changes: Any) -> Self:
        """The same source with other values, which are checked too."""
        return type(self)(
            **{**{option: getattr(self, option) for option in type(self).model_fields}, **changes}
        )

    def bad(self, option: str, detail: str, hint: str = "") -> NoReturn:
        """Raise BadSetting for one option."""
        raise BadSetting(setting=f"{self.group}.{self.name}.{option}", detail=detail, hint=hint)

    @classmethod
    def place(cls, loc: tuple[int | str, ...], options: Mapping[str, Any]) -> tuple[str, type[BaseModel]]:
        """The dotted name of what an error is about, and the model that has it as a field."""
        return str(loc[0]), cls

    @classmethod
    def _refuse(cls, error: ErrorDetails, options: Mapping[str, Any]) -> NoReturn:
        place, model = cls.place(error["loc"], options)
        setting = f"{cls.group}.{options.get('name')}"
        if place != "name":
            setting = f"{setting}.{place}"
        detail, hint = f"is wrong: {error['msg']}.", ""
        value = "" if place == cls.secret else f"{error['input']!r} "
        if error["type"] == "missing":
            detail = "is missing."
        elif error["type"] == "extra_forbidden":
            detail, hint = "is no setting of sitemapd.", _near(place.rpartition(".")[2], model)
        elif error["type"] == "value_error":
            detail = str(error["ctx"]["error"])
        elif error["type"] == "literal_error":
            choices = error["ctx"]["expected"].replace("'", "").lstrip(", ")
            detail = f"{value}is none of {choices}."
        elif error["type"] in _WRONG:
            detail = f"{value[:80]}{_WRONG[error['type']]}."
        raise BadSetting(setting=setting, detail=detail, hint=hint) from None


def _near(option: str, model: type[BaseModel]) -> str:
    known = [name for name, field in model.model_fields.items() if not field.exclude]
    found = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
    return f"Did you mean {found[0]}?" if found else f"Known here: {', '.join(known)}."

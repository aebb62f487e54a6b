"""What is known about each table: where it comes from, whose it is, and what to be careful about."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Encoding = Literal["default", "paper"]


@dataclass(frozen=True)
class CatalogueEntry:
    """What does not depend on this machine."""

    summary: str
    source: str
    licence: str
    size: str
    caveats: tuple[str, ...] = ()
    encodings: tuple[Encoding, ...] = ("default",)


@dataclass(frozen=True, kw_only=True)
class Description(CatalogueEntry):
    """A table of the catalogue; ``str`` gives it as a few lines of text.

    ``protected`` names the protected features of the default encoding. ``here`` says what can be loaded without the
    network: ``"bundled"``, a file, or for a survey its states and years (``"CA 2018"``); empty when nothing can.
    """

    name: str
    protected: tuple[str, ...]
    proxies: tuple[str, ...]
    here: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.summary}",
            f"  source     {self.source}",
            f"  licence    {self.licence}",
            f"  size       {self.size}",
            f"  protected  {', '.join(self.protected)}",
            f"  proxies    {', '.join(self.proxies) or 'none declared'}",
            f"  encodings  {', '.join(self.encodings)}",
            f"  here       {', '.join(self.here) or 'nothing on this machine'}",
        ]
        return "\n".join([*lines, *(f"  caveat     {caveat}" for caveat in self.caveats)])


_PUMS = "US Census Bureau, American Community Survey, 1-year public use microdata (PUMS), person records"
_PUMS_LICENCE = "public domain (work of the US Government); task definitions: Folktables, Ding et al. 2021"
_PUMS_CAVEATS = (
    'Blank codes ("not applicable") are 0, a category of their own.',
    "Weights are the person weights PWGTP.",
    "Dollars are those of the survey year: ADJINC is not applied, as in Folktables.",
    "From 2019 on RELP is made from RELSHIPP, which no longer tells roomers and boarders apart.",
    "Train and test rows (70 to 30) are told apart by a hash of state, year and place in the survey.",
)

ENTRIES: MappingProxyType[str, CatalogueEntry] = MappingProxyType(
    {
        "acs-coverage": CatalogueEntry(
            "people under 65 with an income of at most 30,000 dollars: do they have public health coverage?",
            _PUMS,
            _PUMS_LICENCE,
            "1,138,289 people in 50 states and Puerto Rico in 2018",
            (
                *_PUMS_CAVEATS,
                "Folktables' feature ST (the state) is left out.",
            ),
            ("default", "paper"),
        ),
        "acs-employment": CatalogueEntry(
            "everybody, children included: is a person employed and at work?",
            _PUMS,
            _PUMS_LICENCE,
            "about 3.2 million people in 50 states and Puerto Rico a year",
            (
                *_PUMS_CAVEATS,
                "All persons, as in Folktables' ACSEmployment (its ACSEmploymentFiltered keeps ages 17 to 89).",
                "The paper's columns are scaled by Massachusetts 2018.",
            ),
            ("default", "paper"),
        ),
        "acs-income": CatalogueEntry(
            "people over 16 who worked and earned more than 100 dollars: is the income above 50,000 (or 'threshold')?",
            _PUMS,
            _PUMS_LICENCE,
            "1,664,500 people in 50 states and Puerto Rico in 2018",
            (
                *_PUMS_CAVEATS,
                "Occupations follow the census list of 2010 in surveys up to 2017, that of 2018 after; major groups "
                "bridge the two, single occupations moved.",
                "The paper's text says 50,000 dollars, its published code 25,000.",
            ),
            ("default", "paper"),
        ),
        "adult": CatalogueEntry(
            "people of the US census of 1994: is the income above 50,000 dollars?",
            "UCI Machine Learning Repository, Becker and Kohavi 1996, https://doi.org/10.24432/C5XW20",
            "CC BY 4.0",
            "48,842 people",
            ("Columns fnlwgt and education are left out.", '"?" is a category of its own (3,620 people have one).'),
        ),
        "credit": CatalogueEntry(
            "clients of a bank in Taiwan in 2005: does a client default on the next payment?",
            "UCI Machine Learning Repository, Yeh 2009, https://doi.org/10.24432/C55S3H",
            "CC BY 4.0",
            "30,000 people",
            (
                "EDUCATION 0, 5, 6 and MARRIAGE 0 are undocumented codes, kept as categories.",
                "A copy in the layout of the data folder may come from a third party's repository: SEX and ID were "
                "restored there, all else was compared with a second copy row by row.",
                "Train and test rows are told apart by a hash of the row's place (70 to 30).",
            ),
            ("default", "paper"),
        ),
        "german": CatalogueEntry(
            "applicants for a loan: a good or a bad risk?",
            "UCI Machine Learning Repository, Hofmann 1994, https://doi.org/10.24432/C5NC77",
            "CC BY 4.0",
            "1,000 people",
            ("Sex is recorded only together with the marital status, in personal_status.",),
        ),
        "moons": CatalogueEntry(
            "two interleaved half circles, the smallest population on which everything can be drawn",
            "generated",
            "none needed",
            "1,000 individuals",
        ),
    }
)

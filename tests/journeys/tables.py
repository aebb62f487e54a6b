"""Three tables as the public has them: ids, dates, missing values, categories, and an outcome."""

from __future__ import annotations

import numpy as np
import pandas as pd


def loans(n: int = 160, gaps: bool = True) -> pd.DataFrame:
    """Applications for a loan, with a gap in some incomes and some employments; ``approved`` is yes or no."""
    rng = np.random.default_rng(34)
    frame = pd.DataFrame(
        {
            "application_id": [f"A-{1000 + i}" for i in range(n)],
            "applied_on": days(rng, n, "2024-01-02"),
            "age": rng.integers(19, 76, n),
            "sex": rng.choice(["female", "male"], n, p=[0.45, 0.55]),
            "income": np.round(rng.gamma(4, 9000, n), -1),
            "amount": rng.integers(5, 250, n) * 100,
            "years_employed": rng.integers(0, 25, n).astype(float),
            "housing": rng.choice(["rent", "own", "free"], n, p=[0.5, 0.4, 0.1]),
            "purpose": rng.choice(["car", "furniture", "education", "business"], n),
        }
    )
    score = frame["income"] / 18000 - frame["amount"] / 9000 + frame["years_employed"] / 14
    score += 0.7 * (frame["sex"] == "male") + 0.4 * (frame["housing"] == "own") + frame["age"] / 60
    frame["approved"] = np.where(score + rng.normal(0, 0.5, n) > 2.9, "yes", "no")
    if gaps:
        frame.loc[rng.random(n) < 0.06, "income"] = np.nan
        frame.loc[rng.random(n) < 0.05, "years_employed"] = np.nan
    return frame


def recidivism(n: int = 160) -> pd.DataFrame:
    """Defendants, as in the tables of courts: counts, a charge, dates as dd/mm/yyyy, and two years later 0 or 1."""
    rng = np.random.default_rng(20)
    frame = pd.DataFrame(
        {
            "id": rng.permutation(np.arange(7001, 7001 + n)),
            "screening_date": days(rng, n, "2013-01-01", "%d/%m/%Y"),
            "sex": rng.choice(["Female", "Male"], n, p=[0.25, 0.75]),
            "race": rng.choice(["African-American", "Caucasian", "Hispanic", "Other"], n, p=[0.45, 0.35, 0.12, 0.08]),
            "age": rng.integers(18, 70, n),
            "priors_count": rng.poisson(2.5, n),
            "juv_fel_count": rng.poisson(0.2, n),
            "c_charge_degree": rng.choice(["F", "M"], n, p=[0.65, 0.35]),
        }
    )
    score = 0.45 * frame["priors_count"] - (frame["age"] - 30) / 14 + 0.5 * (frame["race"] == "African-American")
    score += 0.4 * (frame["sex"] == "Male") + 0.3 * (frame["c_charge_degree"] == "F")
    frame["two_year_recid"] = (score + rng.normal(0, 0.8, n) > 1.1).astype(int)
    return frame


def salaries(n: int = 160) -> pd.DataFrame:
    """Employees of a city: grade, department, years of service, and what they are paid."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "employee_number": [f"E{i:05d}" for i in rng.permutation(n) + 200],
            "hired": days(rng, n, "1995-03-01", spread=9000),
            "gender": rng.choice(["F", "M"], n),
            "department": rng.choice(["Police", "Parks", "Finance", "Library"], n, p=[0.4, 0.25, 0.2, 0.15]),
            "grade": rng.integers(5, 33, n),
            "years_of_service": rng.integers(0, 35, n),
            "full_time": rng.random(n) < 0.8,
        }
    )
    pay = 28000 + 2100 * frame["grade"] + 450 * frame["years_of_service"] + 2500 * (frame["gender"] == "M")
    pay += 6000 * (frame["department"] == "Police") - 9000 * ~frame["full_time"]
    frame["salary"] = np.round(pay + rng.normal(0, 2500, n), 2)
    return frame


def days(rng: np.random.Generator, n: int, first: str, form: str = "%Y-%m-%d", spread: int = 700) -> list[str]:
    """Dates as text."""
    dates = pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, spread, n), unit="D")
    return list(pd.DatetimeIndex(dates).strftime(form))

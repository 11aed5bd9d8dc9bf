"""Fixtures that several test files share."""

from minis import config, mini, plan, verl

__all__ = ["config", "mini", "plan", "verl"]

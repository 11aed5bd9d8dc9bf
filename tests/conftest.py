"""Fixtures that several test files share."""

from minis import config, mini, verl

__all__ = ["config", "mini", "verl"]

"""Fixtures that several test files share."""

from minis import config, mini, plan, verl
from repos import repo

__all__ = ["config", "mini", "plan", "repo", "verl"]

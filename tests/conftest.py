"""Fixtures that several test files share."""

from launch_minis import job
from minis import config, mini, plan, verl
from repos import repo

__all__ = ["config", "job", "mini", "plan", "repo", "verl"]

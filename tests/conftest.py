"""Fixtures that several test files share."""

from forks import done
from launch_minis import job
from minis import config, mini, patched, plan, verl
from repos import repo

__all__ = ["config", "done", "job", "mini", "patched", "plan", "repo", "verl"]

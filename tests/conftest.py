"""Fixtures that several test files share."""

from forks import done
from launch_minis import job
from minis import config, mini, patched, plan, verl
from repos import repo
from yaml_settings import loader

__all__ = ["config", "done", "job", "loader", "mini", "patched", "plan", "repo", "verl"]

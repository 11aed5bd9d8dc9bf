"""Fixtures that several test files share."""

import signal

from forks import done
from launch_minis import job
from machines import doctor, machine
from minis import config, mini, patched, plan, verl
from repos import repo
from yaml_settings import loader

# A shell ignores Ctrl-C for what it starts in the background, nohup a hangup, and every child inherits that: tests of
# an interrupt then wait for ever. What has a handler here counts again in children, and still does nothing here.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

__all__ = ["config", "doctor", "done", "job", "loader", "machine", "mini", "patched", "plan", "repo", "verl"]

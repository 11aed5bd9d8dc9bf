"""Turns every Python that has this folder on PYTHONPATH into one on a machine with an emulated Tesla P40.

torchrun's children, Ray's workers and DataLoader workers all import ``sitecustomize`` when they start, so no file of
the checkout under test is touched. Two parts, kept apart because only one of them says something about the GPU:

* ``cpu_harness``: makes verl run on a CPU at all (gloo, one pretended GPU for Ray, ...). Part of the harness.
* ``legacy_gpu``: what compute capability 6.1 refuses. Switched by the environment variable LEGACY_GPU.

Nothing happens before the process itself imports torch, ray or verl.
"""

import cpu_harness
import legacy_gpu
from import_hooks import install

install([cpu_harness.HOOKS, legacy_gpu.HOOKS], watched=legacy_gpu.WATCHED)

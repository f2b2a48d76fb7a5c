"""DPCML, the paper's model: several vectors per user; and CML, the same with one."""

from tastespace.models.dpcml.model import CML, DPCML

__all__ = ["CML", "DPCML"]

"""Looking into captured graphs: as data, as text and as a picture."""

from __future__ import annotations

from lowgraph.debug.dot import dot
from lowgraph.debug.files import as_dict, from_dict, load
from lowgraph.debug.form import Argument, Body, Form, Memory, Node
from lowgraph.debug.read import read, read_handle
from lowgraph.debug.text import lines

__all__ = ["Argument", "Body", "Form", "Memory", "Node", "as_dict", "dot", "from_dict", "lines",
           "load", "read", "read_handle"]  # fmt: skip

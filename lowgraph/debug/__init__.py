"""Looking into captured graphs: as data, as text, as a picture and a page; audits; comparisons."""

from __future__ import annotations

from lowgraph.debug.audit import Audit
from lowgraph.debug.audit_report import AuditReport, report_of
from lowgraph.debug.changes import Change, Verdict
from lowgraph.debug.comparison import Diff, NodeDiff, diff
from lowgraph.debug.explain import Explanation, explain
from lowgraph.debug.files import as_dict, from_dict, load
from lowgraph.debug.form import Argument, Body, Form, Memory, Node
from lowgraph.debug.page import diff_html, html
from lowgraph.debug.picture import dot
from lowgraph.debug.race_search import Race, races
from lowgraph.debug.reading import read, read_handle
from lowgraph.debug.scalars import Frozen, frozen
from lowgraph.debug.stale import Stale
from lowgraph.debug.text import lines

__all__ = [
    "Argument",
    "Audit",
    "AuditReport",
    "Body",
    "Change",
    "Diff",
    "Explanation",
    "Form",
    "Frozen",
    "Memory",
    "Node",
    "NodeDiff",
    "Race",
    "Stale",
    "Verdict",
    "as_dict",
    "diff",
    "diff_html",
    "dot",
    "explain",
    "from_dict",
    "frozen",
    "html",
    "lines",
    "load",
    "races",
    "read",
    "read_handle",
    "report_of",
]

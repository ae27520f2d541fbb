"""Tables, figures and reports of a run, each from one declaration in `report.toml`."""

from nandlab.present.charts import Chart, chart
from nandlab.present.headline import headline
from nandlab.present.page import Presented, present, write_report
from nandlab.present.spec import ReportSpec, load_report
from nandlab.present.tables import ShownTable, claims_table, table

__all__ = [
    "Chart",
    "Presented",
    "ReportSpec",
    "ShownTable",
    "chart",
    "claims_table",
    "headline",
    "load_report",
    "present",
    "table",
    "write_report",
]

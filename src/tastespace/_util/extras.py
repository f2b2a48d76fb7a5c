"""The optional packages: what each extra is for, what it needs, and the command that installs it."""

from __future__ import annotations

from dataclasses import dataclass

from tastespace.errors import ParameterError


@dataclass(frozen=True)
class Extra:
    """A group of optional packages, as in pyproject.toml."""

    packages: tuple[str, ...]
    """Their requirements."""
    purpose: str

    @property
    def command(self) -> str:
        """The command that installs it, from a clone as well as from an index, and without building the kernels again.

        >>> EXTRAS["neural"].command
        'pip install "torch>=2.2"'
        """
        return "pip install " + " ".join(f'"{one}"' for one in self.packages)


EXTRAS = {
    "frames": Extra(("pandas>=2.1", "pyarrow>=15"), "pandas and pyarrow frames as input and output"),
    "plots": Extra(("matplotlib>=3.8",), "pictures: taste map, shelves, trade-off curve"),
    "ann": Extra(("faiss-cpu>=1.8",), "approximate search in large catalogs (index='ann'), export as a faiss index"),
    "neural": Extra(("torch>=2.2",), "models that learn with torch"),
    "tune": Extra(("optuna>=4",), "search for parameters of the paper's methods"),
    "paper": Extra(("jinja2>=3.1", "matplotlib>=3.8"), "the report of the paper's tables and figures"),
    "serve": Extra(
        ("starlette>=0.40", "uvicorn>=0.30", "httptools>=0.6", "uvloop>=0.19", "msgspec>=0.18", "httpx>=0.27"),
        "the HTTP server and its client",
    ),
    "postgresql": Extra(
        ("psycopg[binary]>=3.1",), "PostgreSQL: feedback of the server, tables from a query, lists written there"
    ),
    "cloud": Extra(
        ("fsspec>=2024.6", "s3fs>=2024.6", "gcsfs>=2024.6"), "tables in object stores: s3:// and gs:// addresses"
    ),
    "sql": Extra(
        ("sqlalchemy>=2", "duckdb>=1.1", "pyarrow>=15"),
        "tables from a query to DuckDB or a database of SQLAlchemy; PostgreSQL needs the postgresql extra",
    ),
    "redis": Extra(("redis>=5",), "lists written to Redis"),
    "notebook": Extra(("anywidget>=0.9",), "the page as a widget in notebooks"),
    "cluster": Extra(("dask>=2024.8", "distributed>=2024.8"), "training and lists on a Dask cluster"),
    "spark": Extra(("pyspark>=3.5",), "lists of a saved model in Spark"),
    "export": Extra(
        (
            "qdrant-client>=1.10",
            "lancedb>=0.20",
            "duckdb>=1.1",
            "sqlite-vec>=0.1.6",
            "pysqlite3>=0.6; sys_platform == 'linux'",
            "usearch>=2.16",
            "pyarrow>=15",
        ),
        "vectors in Qdrant, LanceDB, DuckDB, SQLite and usearch; pgvector needs the postgresql extra",
    ),
    "sklearn": Extra(("scikit-learn>=1.6",), "GridSearchCV and other searches of scikit-learn"),
    "mlflow": Extra(("mlflow-skinny>=3", "pandas>=2.1"), "models as MLflow models"),
    "surprise": Extra(("scikit-surprise>=1.1.4", "pandas>=2.1"), "data of scikit-surprise"),
    "lenskit": Extra(("lenskit>=2025.6",), "models as LensKit components"),
    "rectools": Extra(("rectools>=0.13",), "models as RecTools models"),
    "docs": Extra(
        (
            "sphinx>=8.1",
            "myst-parser>=4",
            "furo>=2024.8",
            "sphinx-copybutton>=0.5",
            "matplotlib>=3.8",
            "pytest>=8",
        ),
        "the documentation site (make docs)",
    ),
    "bench": Extra(("implicit>=0.7.2", "torch>=2.2"), "the other libraries that benchmarks compare with"),
    "check": Extra(("pytest>=8", "hypothesis>=6.100"), "the tests of the core (make check)"),
}


def missing(extra: str, what: str, advice: str = "") -> ParameterError:
    """The error for an optional package that is not installed; ``what`` says who needs which package.

    >>> print(missing("plots", "pictures need matplotlib"))
    pictures need matplotlib, which is not installed: pip install "matplotlib>=3.8" (the plots extra).
    """
    command = EXTRAS[extra].command
    return ParameterError(f"{what}, which is not installed: {command} (the {extra} extra).{advice and ' ' + advice}")

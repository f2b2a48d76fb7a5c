"""All figures: which tables' cells each one needs, and what draws it."""

from __future__ import annotations

from dataclasses import replace

from tastespace.errors import ParameterError, nearest
from tastespace.paper.ablations import BOTH, STEAM
from tastespace.paper.figures import ablation, genres, people, strangers, surfaces, theory, timing, trade, worlds
from tastespace.paper.figures.declaration import Picture
from tastespace.paper.runs import TOWN
from tastespace.paper.tables import EXPERIMENTS as TABLES

_WITH_GENRES = ("ml-1m", "ml-10m")
_OVERALL = replace(TABLES["results1"], datasets=(*BOTH, "ml-10m"))
"""The overall table for every data set with a figure of it."""

FIGURES = {
    picture.name: picture
    for picture in (
        Picture(
            "motivation",
            "One person, two interests, one vector against several",
            (TOWN,),
            worlds.draw_motivation,
            caption="One vector must stand between two interests and offers what lies there; two vectors need not. "
            "The person is the one for whom that matters most; the shares below are of everybody.",
        ),
        Picture(
            "preferences",
            "Preference diversity of people, and imbalance of categories",
            _WITH_GENRES,
            people.draw_diversity,
            caption="Most people choose items of several kinds; some kinds have few interactions.",
        ),
        Picture(
            "history",
            "Diversity against length of history",
            _WITH_GENRES,
            people.draw_history,
            caption="APA's premise: who has chosen more has more interests.",
        ),
        Picture(
            "diversity-accuracy",
            "Diversity against accuracy",
            BOTH,
            trade.draw_diversity_accuracy,
            (TABLES["diversity"],),
            "Up is more accurate, to the right is more diverse.",
        ),
        Picture(
            "sampling",
            "U of UniS, S of HarS, U of HarS at S = 40 and 50",
            STEAM,
            ablation.draw_sampling,
            (TABLES["u-unis"], TABLES["s-hars"], TABLES["u-hars"]),
            "The paper: several vectors do better than one whatever the number of negatives.",
        ),
        Picture(
            "hard-sampling",
            "DiHarS, NDiHarS and HarS for CML and DPCML",
            TABLES["hard-sampling"].datasets,
            ablation.draw_hard_sampling,
            (TABLES["hard-sampling"],),
            "The paper: DiHarS does better than NDiHarS, and NDiHarS better than HarS.",
        ),
        Picture(
            "genres",
            "MAP by genre, minority genres marked",
            ("ml-1m", "steam-200k", "ml-10m"),
            genres.draw_genres,
            (_OVERALL,),
            "The paper, on MovieLens-10M: several vectors help the minority genres too.",
        ),
        Picture(
            "vectors",
            "Train loss, validation and test against C",
            STEAM,
            theory.draw_vectors,
            (TABLES["vectors"],),
            "Corollary 1: with more vectors the training loss falls, and what is new is ranked better as well.",
        ),
        *(
            Picture(
                f"delta-{sampler}",
                f"Bounds of DCRS for BPA+{title}",
                STEAM,
                surfaces.surface(f"delta-{sampler}"),
                (TABLES[f"delta-{sampler}"],),
                "Where the lower bound exceeds the upper one there is no DCRS; (0, 0) is one vector. Five vectors and "
                "a weight of 10, as in the paper; no DCRS and one vector have the stored parameters otherwise.",
            )
            for sampler, title in (("unis", "UniS"), ("hars", "HarS"))
        ),
        Picture(
            "eta",
            "Weight of DCRS",
            STEAM,
            ablation.draw_weights,
            (TABLES["eta-unis"], TABLES["eta-hars"]),
            "The paper: a weight of about 10 does best.",
        ),
        Picture(
            "dcrs",
            "DCRS and its halves",
            STEAM,
            ablation.draw_forms,
            (TABLES["dcrs-unis"], TABLES["dcrs-hars"]),
            "The paper: each half helps, both together most.",
        ),
        Picture(
            "training-time",
            "Training time of the CML-based methods",
            BOTH,
            timing.draw_training,
            (TABLES["results1"],),
            "Seconds per epoch on one thread. Other work on the machine lengthens them: trust factors, no close calls.",
        ),
        Picture(
            "inference-time",
            "Inference time",
            BOTH,
            timing.draw_inference,
            (TABLES["inference"],),
            "Seconds for lists of everybody on one thread. Other work on the machine lengthens them: trust factors, "
            "no close calls.",
        ),
        Picture(
            "cold",
            "Cold start",
            TABLES["cold"].datasets,
            strangers.draw_cold,
            (TABLES["cold"],),
            "The paper: DPCML serves new people and new items better than CML and MGMF.",
        ),
        Picture(
            "taste-map",
            "The taste map of one person",
            ("ml-1m", "steam-200k"),
            worlds.draw_taste_map,
            caption="Items in the plane, a person's interests drawn in, recommendations lit. The model has the "
            "library's defaults; of the hundred people with the most diverse history it is the one whose interests "
            "weigh most alike.",
        ),
        Picture(
            "accuracy-time",
            "Accuracy against training seconds, all methods",
            BOTH,
            trade.draw_accuracy_time,
            (_OVERALL, TABLES["competitors"]),
            "The picture a practitioner wants: what is gained by waiting.",
        ),
    )
}


def find_figure(name: str) -> Picture:
    """A figure by name.

    >>> find_figure("vectors").datasets
    ('steam-200k',)
    """
    if name not in FIGURES:
        raise ParameterError(f"no figure {name!r}; there are {', '.join(FIGURES)}.{nearest(name, FIGURES)}")
    return FIGURES[name]

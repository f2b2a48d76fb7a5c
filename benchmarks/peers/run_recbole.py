"""RecBole: EASE, BPR and LightGCN. Training by gradients stops after SECONDS of processor time, as noted in the log."""

import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.utils import get_model, get_trainer, init_seed
from runner import SEED, main, padded, top_k

SECONDS = 120
MODELS = {"ease": "EASE", "bpr": "BPR", "lightgcn": "LightGCN"}
DEFAULTS = {"ease": {}, "bpr": {}, "lightgcn": {}}
GRID = [
    ("ease", {"reg_weight": 200.0}),
    ("ease", {"reg_weight": 100.0}),
    ("bpr", {"learning_rate": 0.005, "seconds": 40}),
    ("ease", {"reg_weight": 500.0}),
    ("ease", {"reg_weight": 50.0}),
    ("ease", {"reg_weight": 1000.0}),
]


def prepare(table):
    """The folder of an atomic file: a data set of RecBole belongs to one model's configuration."""
    folder = Path(tempfile.mkdtemp()) / "data"
    folder.mkdir()
    lines = ["user_id:token\titem_id:token"]
    lines += [f"{user}\t{item}" for user, item in zip(table.users, table.items, strict=True)]
    (folder / "data.inter").write_text("\n".join(lines) + "\n")
    return folder


class Fitted:
    def __init__(self, model, dataset, users, notes):
        self.model, self.users, self.notes = model, users, notes
        self.rows = dataset.token2id("user_id", users.astype(str))
        self.row_of = dict(zip(users.tolist(), self.rows.tolist(), strict=True))
        tokens = dataset.field2id_token["item_id"]
        self.items = np.array([-1, *(int(token) for token in tokens[1:])])  # row 0 is padding
        self.seen = dataset.inter_matrix(form="csr")

    @torch.no_grad()
    def lists(self, rows):
        asked = Interaction({"user_id": torch.as_tensor(rows)})
        scores = self.model.full_sort_predict(asked).view(len(rows), -1).numpy().copy()
        scores[self.seen[rows].nonzero()] = -np.inf
        scores[:, 0] = -np.inf
        found, values = top_k(scores)
        return self.items[found], values

    def all_lists(self):
        self.model.eval()
        parts = [self.lists(self.rows[at : at + 1024]) for at in range(0, len(self.rows), 1024)]
        return padded(self.users, [row for part in parts for row in zip(*part, strict=True)])

    def one_list(self, user):
        return self.lists(np.array([self.row_of[user]]))


def fit(method, parameters, folder, table):
    parameters = dict(parameters)
    seconds = parameters.pop("seconds", SECONDS)
    logging.disable(logging.INFO)
    settings = {
        "data_path": str(folder.parent), "load_col": {"inter": ["user_id", "item_id"]}, "seed": SEED,
        "eval_args": {"split": {"RS": [1.0, 0.0, 0.0]}, "group_by": "user", "order": "RO", "mode": "full"},
        "use_gpu": False, "show_progress": False, "checkpoint_dir": str(folder.parent / "saved"), **parameters,
    }  # fmt: skip
    config = Config(model=MODELS[method], dataset="data", config_dict=settings)
    init_seed(config["seed"], config["reproducibility"])
    dataset = create_dataset(config)
    train, _, _ = data_preparation(config, dataset)
    model = get_model(config["model"])(config, train.dataset)
    notes = []
    if method != "ease":  # EASE is solved by its constructor
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        started, epoch = time.process_time(), 0
        while epoch < config["epochs"] and time.process_time() - started < seconds:
            trainer._train_epoch(train, epoch, show_progress=False)
            epoch += 1
        notes.append(f"{epoch} of {config['epochs']} epochs within {seconds} s of processor time")
    return Fitted(model, dataset, table.people, notes)


if __name__ == "__main__":
    main("recbole", ["recbole", "torch", "numpy", "scipy"], DEFAULTS, GRID, prepare, fit)

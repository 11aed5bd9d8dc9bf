"""Makes sums as training data: ``python data.py FOLDER``, in the environment of a release.

Prompts and answers differ in length, so that every batch needs padding.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pandas as pd


def samples(count: int, generate: random.Random) -> list[tuple[str, str, int]]:
    """Return questions, answers and results; every other answer repeats the numbers first."""
    found = []
    for index in range(count):
        terms = [generate.randint(0, 59) for _ in range(generate.choice([2, 2, 3, 5, 8]))]
        question = "What is " + " plus ".join(map(str, terms)) + "?"
        answer = f"The answer is {sum(terms)}."
        if index % 2 == 0:
            answer = f"{' '.join(map(str, terms))}. {answer}"
        found.append((question, answer, sum(terms)))
    return found


def main(folder: Path) -> None:
    """Write ``sft_*.parquet`` and ``rl_*.parquet`` in the columns that verl's data sets read."""
    folder.mkdir(parents=True, exist_ok=True)
    generate = random.Random(0)
    for split, count in (("train", 64), ("val", 8)):
        sft, rl = [], []
        for index, (question, answer, result) in enumerate(samples(count, generate)):
            user = {"role": "user", "content": question}
            sft.append(
                {
                    "question": question,
                    "answer": answer,
                    "messages": [user, {"role": "assistant", "content": answer}],
                }
            )
            rl.append(
                {
                    "data_source": "toy/sums",
                    "ability": "math",
                    "prompt": [user],
                    "reward_model": {"style": "rule", "ground_truth": str(result)},
                    "extra_info": {"split": split, "index": index},
                }
            )
        pd.DataFrame(sft).to_parquet(folder / f"sft_{split}.parquet")
        pd.DataFrame(rl).to_parquet(folder / f"rl_{split}.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

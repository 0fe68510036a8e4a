# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify compare`` against this host's last certificate."""

import pathlib

from sriov_rt.cmd import verify
from sriov_rt.cmd.command import Result
from sriov_rt.host.root import Root
from sriov_rt.verify import collection
from sriov_rt.verify import figures
from sriov_rt.verify import regression
from sriov_rt.verify.regression import Regression
from sriov_rt.verify.regression import Verdict

COLUMNS = ("What", "Before", "After", "Difference", "Chance", "Verdict")

#: Exit code for too few samples.
EXIT_TOO_FEW = 3

_CODES = {
    Verdict.NO_WORSE: 0,
    Verdict.WORSE: verify.EXIT_NO_CERTIFICATE,
    Verdict.TOO_FEW: EXIT_TOO_FEW,
}


def judged(directory: pathlib.Path) -> Result:
    """Return the verdict on a measurement, and its figures.

    :raises NothingMeasured: if the directory has no measurement.
    :raises SriovRtError: if this host has no earlier certificate.
    :raises NotComparable: if it was measured in another way.
    """
    (after,) = collection.read([directory])
    before = figures.last(Root("/").path, after)
    found = regression.judge(before, after)
    emulated = before.emulated or after.emulated
    return Result(
        columns=COLUMNS,
        rows=[
            (
                each.what,
                f"{each.before_us:.0f} µs",
                f"{each.after_us:.0f} µs",
                f"{each.change_us:+.0f} µs",
                _chance(each.chance),
                "worse" if each.is_worse else "no worse",
            )
            for each in found.figures
        ],
        document={
            "verdict": str(found.verdict),
            "worse_by_us": found.worst and found.worst.change_us,
            "worst": found.worst and found.worst.what,
            "lacking": list(found.lacking),
            "certificate": before.label,
            "figures": [
                {
                    "what": each.what,
                    "before_us": each.before_us,
                    "after_us": each.after_us,
                    "chance": each.chance,
                    "is_worse": each.is_worse,
                }
                for each in found.figures
            ],
            "emulated": emulated,
        },
        before=[_sentence(found, before.label)],
        after=[
            *(f"too few: {each}" for each in found.lacking),
            *([f"note: {verify.EMULATED}"] if emulated else ()),
        ],
        code=_CODES[found.verdict],
    )


def _chance(found: float) -> str:
    return f"{found:.2g}" if found >= 1e-6 else "< 1e-6"


def _sentence(found: Regression, label: str) -> str:
    against = f"the certificate of {label}"
    worst = found.worst
    if worst is not None:
        return (
            f"worse than {against} by {worst.change_us:.0f} µs: {worst.what}"
        )
    if found.lacking:
        return (
            "not enough samples to say that the host is no worse than at "
            f"{against}; measure it as long and with the same tools"
        )
    return f"no worse than {against}"

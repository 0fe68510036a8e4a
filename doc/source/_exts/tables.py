# SPDX-License-Identifier: Apache-2.0

"""Tables of the pages, from the rows that the code reads.

It imports nothing of Sphinx: the unit tests read the same tables.
"""

import ast
import dataclasses
import importlib
import itertools
import pathlib
import re
import tomllib
import types
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import sriov_rt
from sriov_rt import reason
from sriov_rt.guest import sentences
from sriov_rt.host import fix_plan
from sriov_rt.nic import families
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import Support
from sriov_rt.onload import sentences as onload_sentences
from sriov_rt.parse import duration
from sriov_rt.pods import sentences as kubernetes_sentences
from sriov_rt.tuning.settings import RULES
from sriov_rt.tuning.settings import Reach
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.profiles import DEFAULT
from sriov_rt.verify.profiles import PROFILES
from sriov_rt.verify.tools import TOOLS


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a page.

    :param head: the names of its columns.
    :param rows: makes its rows, cells in reStructuredText.
    :param widths: of the columns, in percent.
    """

    head: Sequence[str]
    rows: Callable[[], Iterator[Sequence[str]]]
    widths: Sequence[int]


def _latency_tools() -> Iterator[Sequence[str]]:
    for name, tool in TOOLS.items():
        roles = [
            *(["a certificate needs it"] if tool.certifies else []),
            *(["runs in guests and pods too"] if tool.in_guests else []),
        ]
        package = f"``{tool.package}``" if tool.package else "the kernel"
        yield f"``{name}``", tool.measures, package, "; ".join(roles) or "–"


def _latency_profiles() -> Iterator[Sequence[str]]:
    for name, profile in PROFILES.items():
        default = " (default)" if name == DEFAULT else ""
        steps = ", ".join(_step(each) for each in profile.steps)
        yield f"``{name}``{default}", profile.source, steps


def _step(step: Step) -> str:
    """Return a step of a profile: its tool, duration and parameters."""
    parameters = [
        *([f"every {step.interval_us} µs"] if step.interval_us else []),
        *([f"above {step.threshold_us} µs"] if step.threshold_us else []),
        *([f"workload {' '.join(step.workload)}"] if step.workload else []),
    ]
    time = duration.format_duration(step.duration_s)
    return " ".join([step.tool, time, *parameters])


def _apply_rules() -> Iterator[Sequence[str]]:
    """Yield the files that 'host apply' writes in a running kernel."""
    reach = {
        Reach.NONE: "no guest",
        Reach.OWN: "guests on its CPUs",
        Reach.ALL: "every realtime guest",
    }
    for rule in RULES:
        path = rule.pattern.replace(r"\d+", "N").replace(".*", "SLICE")
        path = path.replace("\\", "")
        yield f"``{path}``", reach[rule.change], reach[rule.undo], rule.why


def reasons() -> Iterator[tuple[str, Table]]:
    """Yield a title and a table of Reasons for each thing that can change."""
    every = {
        **reason.SENTENCES,
        **sentences.SENTENCES,
        **onload_sentences.SENTENCES,
        **kubernetes_sentences.SENTENCES,
    }
    planned = fix_plan.PLANNED - reason.REQUEST_FAULTS
    parts = {
        "The host, by ``sriov-rt host check --fix-plan``": planned,
        "The host": every.keys() - planned - reason.REQUEST_FAULTS,
        "The flavor, the image or the domain": (
            every.keys() & reason.REQUEST_FAULTS
        ),
    }
    for title, codes in parts.items():
        rows = [_reason(code, every[code]) for code in sorted(codes)]
        yield title, Table(("Reason", "What to do"), rows.__iter__, (60, 40))


def _reason(code: str, sentence: str) -> Sequence[str]:
    problem, _, remedy = sentence.partition(reason.REMEDY)
    # The code on a line of its own, so that it fits a narrow screen.
    return f"``{code}``\n\n{_escaped(problem)}", _escaped(remedy) or "–"


def _escaped(text: str) -> str:
    """Return a text that reStructuredText takes as it is."""
    return re.sub(r"([\\`*_|])", r"\\\1", text)


#: How a family has an attribute, for people.
_SUPPORT = {
    Support.YES: "yes",
    Support.NO: "none",
    Support.PROBE: "by firmware or kernel",
}

#: Attributes of the table, and their names in it.
_ATTRIBUTES = {
    Attribute.MIN_TX_RATE: "min_tx_rate",
    Attribute.TRUST: "trust",
    Attribute.SPOOFCHK: "spoofchk",
    Attribute.VLAN: "VLAN",
    Attribute.QOS: "VLAN priority",
    Attribute.VLAN_PROTOCOL: "802.1ad",
    Attribute.LINK_STATE: "link_state",
    Attribute.QUERY_RSS: "query_rss",
}


def _nic_families() -> Iterator[Sequence[str]]:
    """Yield each attribute, and the families by what they have of it."""
    yield "Models", _by_family(lambda x: x.models)
    yield "Known by", _by_family(lambda x: x.evidence.value)
    yield (
        "PCI ids",
        _by_family(lambda x: ", ".join(sorted(map(str, x.products)))),
    )
    yield "eswitch mode", _by_family(lambda x: str(x.eswitch))
    yield "max_tx_rate", _by_family(_rate)
    for attribute, name in _ATTRIBUTES.items():
        yield (
            name,
            _by_family(lambda x, each=attribute: _attribute(x, each)),
        )
    yield "The VF has its MAC", _by_family(lambda x: x.mac_effect.value)
    yield "VFs of a PF", _by_family(_vfs)
    yield "MAC filters of a VF", _by_family(_filters)
    yield (
        "Filters are released when",
        _by_family(lambda x: x.filter_release.value),
    )
    yield (
        "A fresh reset has an FLR",
        _by_family(lambda x: "yes" if x.resets_function else "no"),
    )


def _by_family(cell: Callable[[Family], str]) -> str:
    """Return a line for each value, after the families that have it."""
    found: dict[str, list[str]] = {}
    for row in families.BUILT_IN:
        found.setdefault(cell(row), []).append(f"**{row.name}**")
    return "\n".join(
        f"| {', '.join(names)}: {value}" for value, names in found.items()
    )


def _hardware() -> Iterator[Sequence[str]]:
    """Yield the maker and models of each family, and how it is known."""
    for row in families.BUILT_IN:
        makers = sorted(
            {
                _MAKERS.get(each.vendor, f"PCI vendor {each.vendor:04x}")
                for each in row.products
            }
        )
        drivers = ", ".join(f"``{each}``" for each in sorted(row.drivers))
        mode, known = str(row.eswitch), row.evidence.value
        yield ", ".join(makers), row.models, f"{drivers}, {mode}", known


#: Makers of families, by their PCI vendor id; another one has its id.
_MAKERS = {
    0x8086: "Intel",
    0x1924: "Solarflare (AMD)",
    0x15B3: "NVIDIA (Mellanox)",
    0x14E4: "Broadcom",
}


def _rate(family: Family) -> str:
    if family.supports(Attribute.MAX_TX_RATE) is Support.NO:
        return "none"
    rate = family.rate
    most = "the link's speed" if rate.to_link else rate.maximum
    words = [f"{rate.minimum} to {most}" if most else f"from {rate.minimum}"]
    if rate.quantum > 1:
        words.append(f"in steps of {rate.quantum}")
    if rate.raised:
        words.append(f"less becomes {rate.minimum}")
    if rate.link_mbps:
        words.append(f"with a link of {rate.link_mbps} Mb/s only")
    elif rate.needs_carrier:
        words.append("with a carrier only")
    return ", ".join(words)


def _attribute(family: Family, attribute: Attribute) -> str:
    support = family.supports(attribute)
    if support is Support.NO:
        return f"none: {family.why_not[attribute]}"
    found = _SUPPORT[support]
    if attribute is Attribute.LINK_STATE and len(family.link_states) < 3:
        found = f"{', '.join(sorted(family.link_states))}; {found}"
    if effect := family.effects.get(attribute):
        found = f"{found}; {effect}"
    return found


def _vfs(family: Family) -> str:
    return str(family.max_vfs or "``sriov_totalvfs``")


def _filters(family: Family) -> str:
    found = family.mac_filters
    words = [] if found.each is None else [str(found.each)]
    if found.shared is not None:
        taken = "" if found.taken == 1 else f"{found.taken} times "
        words.append(f"a part of {found.shared} less {taken}the VFs")
    return ", and ".join(words) or "no number"


def _modules(room: str) -> Callable[[], Iterator[Sequence[str]]]:
    """Return what yields the modules of a package and their first lines."""
    directory = pathlib.Path(sriov_rt.__file__).parent / room

    def rows() -> Iterator[Sequence[str]]:
        for path in sorted(directory.glob("*.py")):
            if path.stem != "__init__":
                yield f"``{path.name}``", _first_line(path)

    return rows


#: A path below the root, as a fact source has it.
_PATH = re.compile(r"(sys|proc|dev|etc|run|var|usr|lib)/[^ ]+")


def _fact_files() -> Iterator[Sequence[str]]:
    """Yield the paths that each fact source has as constants."""
    project = pathlib.Path(__file__).parents[3] / "pyproject.toml"
    points = tomllib.loads(project.read_text())["project"]["entry-points"]
    for part, target in points["sriov_rt.fact_sources"].items():
        module = importlib.import_module(target.partition(":")[0])
        beside = [
            each
            for each in vars(module).values()
            if isinstance(each, types.ModuleType)
            and each.__name__.startswith("sriov_rt.host.")
        ]
        paths = {path for each in (module, *beside) for path in _paths(each)}
        found = sorted(paths)
        listed = ", ".join(f"``/{each}``" for each in found)
        yield f"``{part}``", f"``{module.__name__}``", listed or "–"


def _paths(module: types.ModuleType) -> Iterator[str]:
    for value in vars(module).values():
        found: Iterable[object] = (value,)
        if isinstance(value, tuple):
            found = value
        elif isinstance(value, dict):
            found = value.values()
        for each in found:
            if isinstance(each, str) and _PATH.fullmatch(each):
                yield each


#: A path of ours on a host, as a store has it.
_STATE = re.compile(r"/?((?:run|var/lib|etc)/sriov[-_]rt[\w./-]*)")

#: A module of options to the store that its default is of.
_STORES = {"vif/options.py": "vif/records.py"}


def _stores() -> Iterator[Sequence[str]]:
    """Yield each file and directory on a host, and the module that has it.

    A new store is here as soon as it has its path; what it is says the ``#:``
    comment above that, or else the module. A path that sentences repeat is its
    store's.
    """
    package = pathlib.Path(sriov_rt.__file__).parent
    found: dict[str, Sequence[str]] = {}
    for path in sorted(package.rglob("*.py")):
        room = path.parent.name
        if path.stem in ("errors", "sentences"):
            continue
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Constant):
                continue
            match = _STATE.fullmatch(str(node.value))
            if match is not None:
                store = package / _STORES.get(f"{room}/{path.name}", path)
                said = _comment(text, node.lineno) or _first_line(store)
                module = store.relative_to(package.parent)
                row = (f"``/{match[1]}``", said, f"``{module}``")
                found.setdefault(match[1], row)
    for _, row in sorted(found.items()):
        yield row


def _comment(text: str, line: int) -> str:
    """Return the ``#:`` comment above a line of a module; empty for none."""
    above = text.splitlines()[: line - 1]
    said = itertools.takewhile(
        lambda each: each.startswith("#:"),
        (each.lstrip() for each in reversed(above)),
    )
    return " ".join(each[2:].strip() for each in reversed([*said]))


def _first_line(path: pathlib.Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.partition("\n")[0]


#: The tables by the name of their directive.
TABLES: Mapping[str, Table] = {
    "nic-families": Table(("Attribute", "Families"), _nic_families, (24, 76)),
    "nic-hardware": Table(
        ("Maker", "Models", "Driver of the PF, eswitch mode", "Known by"),
        _hardware,
        (23, 25, 26, 26),
    ),
    **{
        f"modules-of-{room}": Table(("Module", ""), _modules(room), (25, 75))
        for room in ("nic", "verify", "vif")
    },
    "apply-rules": Table(
        ("File", "Setting it disturbs", "Undoing it disturbs", "How"),
        _apply_rules,
        (40, 17, 17, 26),
    ),
    "fact-files": Table(
        ("Part", "Source", "Files and directories"),
        _fact_files,
        (12, 33, 55),
    ),
    "state-on-disk": Table(
        ("File or directory", "", "Module"), _stores, (35, 40, 25)
    ),
    "latency-tools": Table(
        ("Tool", "It measures", "Package", "Role"),
        _latency_tools,
        (15, 40, 15, 30),
    ),
    "latency-profiles": Table(
        ("``--profile``", "Source", "Tools"),
        _latency_profiles,
        (20, 35, 45),
    ),
}


def lines(table: Table) -> Iterator[str]:
    """Yield a table as the lines of a ``list-table``."""
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield f"   :widths: {' '.join(map(str, table.widths))}"
    yield ""
    for row in (table.head, *table.rows()):
        if len(row) != len(table.widths):
            raise ValueError(f"{len(row)} cells: {row}")
        for number, cell in enumerate(row):
            first, *others = cell.splitlines() or [""]
            yield f"   {' ' if number else '*'} - {first}"
            yield from (f"       {each}".rstrip() for each in others)

# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""``sriov-rt onload``: profiles, what is injected, and is it in effect."""

import argparse
import json

from sriov_rt.cmd import onload_inject
from sriov_rt.cmd import onload_status
from sriov_rt.host.root import Root
from sriov_rt.host.table import printable
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.profiles import Profile
from sriov_rt.onload.settings import Settings

#: Exit code of a list with a profile that can't be used.
EXIT_REJECTED = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``sriov-rt onload`` and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    profile = actions.add_parser("profile", help="the profiles that there are")
    _configure_profile(profile)
    for name, text, add in (
        (
            "status",
            "which processes have Onload, and is it in effect",
            onload_status.configure,
        ),
        (
            "lxc-config",
            "the lines for a container's configuration",
            onload_inject.configure_lxc_config,
        ),
        (
            "lxc-hook",
            "refuse to start a container into which nothing would be "
            "preloaded; lxc.hook.pre-start",
            onload_inject.configure_lxc_hook,
        ),
        (
            "pod-patch",
            "read a pod (JSON) and write the JSON patch that gives it Onload",
            onload_inject.configure_pod_patch,
        ),
    ):
        add(actions.add_parser(name, help=text, description=text))


def _configure_profile(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="the profiles that flavors may ask for; exit 1 if one of them "
        "can't be used",
    )
    _add_common(listing)
    listing.set_defaults(run=_list)
    show = actions.add_parser("show", help="what a profile sets")
    show.add_argument("name", metavar="NAME", help="of an allowed profile")
    _add_common(show)
    show.set_defaults(run=_show)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="read the host whose / is DIR (default: this one)",
    )
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="instead of sriov-rt.conf; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _list(args: argparse.Namespace) -> int:
    settings = onload_settings.load(args.config_file)
    rows = [_row(each, settings, args) for each in sorted(settings.profiles)]
    if args.json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print("no profile is allowed; name some in [onload] profiles")
    else:
        width = max(len(str(each["name"])) for each in rows)
        for each in rows:
            problem = each.get("problem")
            usable = f"usable  {str(each.get('sha256'))[:16]}"
            said = f"refused {printable(str(problem))}" if problem else usable
            print(f"{each['name']:{width}}  {said}")
    return EXIT_REJECTED if any("problem" in each for each in rows) else 0


def _row(
    name: str, settings: Settings, args: argparse.Namespace
) -> dict[str, object]:
    row: dict[str, object] = {
        "name": name,
        "default": name == settings.default_profile,
    }
    try:
        found = settings.profile(name, Root(args.root))
    except OnloadError as error:
        return {**row, "problem": str(error)}
    assert found is not None
    return {**row, "sha256": found.sha256}


def _show(args: argparse.Namespace) -> int:
    settings = onload_settings.load(args.config_file)
    found = settings.profile(args.name, Root(args.root))
    assert found is not None
    if args.json:
        print(json.dumps(found.to_plain(), indent=2))
    else:
        print("\n".join(_lines(found)))
    return 0


def _lines(profile: Profile) -> list[str]:
    width = max(map(len, profile.variables), default=0)
    return [
        f"profile {profile.name}",
        f"sha256  {profile.sha256}",
        *(f"file    {each.path}" for each in profile.files),
        *(
            f"  {name:{width}}  {value}"
            for name, value in profile.variables.items()
        ),
    ]

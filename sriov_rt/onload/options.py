# SPDX-License-Identifier: Apache-2.0

"""The options of Onload, ``[onload]``."""

from oslo_config import cfg

GROUP = "onload"

#: Directory where Onload's own installer puts its profiles.
PROFILE_DIRECTORY = "/usr/libexec/onload/profiles"

#: Directory where the library is mounted in containers.
INSIDE = "/opt/sriov-rt/onload"

#: Values of ``second_endpoint``.
REFUSE = "refuse"
UNACCELERATED = "unaccelerated"

ONLOAD_OPTS = [
    cfg.ListOpt(
        "profile_directories",
        default=[PROFILE_DIRECTORY],
        help="""
The directories of Onload profiles, in the order in which they are searched.

The first that has ``NAME.opf`` counts, so put your own before Onload's.
Absolute paths; only root should be able to write there, for what a profile
sets is in the environment of every accelerated container.
""",
    ),
    cfg.ListOpt(
        "profiles",
        default=[],
        help="""
The names of the profiles that flavors may ask for.

``sriov_rt:onload_profile`` with any other name is refused and nothing is
read. Profiles are read as data: one that needs a shell is refused, whether it
is named here or not; ``sriov-rt onload profile list`` shows which those are.
""",
    ),
    cfg.StrOpt(
        "default_profile",
        help="""
The profile of flavors that ask for Onload and name no profile.

It has to be one of ``profiles``. Without it they run with Onload's own
defaults.
""",
    ),
    cfg.ListOpt(
        "also_allow",
        default=[],
        help="""
Variables that profiles may set although they open memory to others.

``EF_PACKET_BUFFER_MODE`` and ``EF_SHARE_WITH``: the first lets a program
reach all of the host's memory by the NIC's DMA, the second lets the programs
of other users into its stacks. Leave it empty unless all tenants of the host
are one.
""",
    ),
    cfg.StrOpt(
        "library",
        help="""
The path of ``libonload.so`` on the host, which containers get preloaded.

Its directory is mounted read-only into containers: give Onload's libraries a
directory of their own rather than ``/usr/lib64``, or containers see all that
is there. Nothing is injected while it is not set.
""",
    ),
    cfg.StrOpt(
        "inside",
        default=INSIDE,
        help="""
The directory in containers at which the library's directory is mounted.

Change it if images have something of their own there. An absolute path.
""",
    ),
    cfg.ListOpt(
        "devices",
        default=["/dev/onload", "/dev/onload_epoll", "/dev/sfc_char"],
        help="""
Onload's device nodes that containers get.

Older releases have ``/dev/sfc_affinity`` too. A node that is missing on the
host is a Reason for not starting the container.
""",
    ),
    cfg.StrOpt(
        "second_endpoint",
        default=REFUSE,
        choices=[
            (REFUSE, "it goes to another host or NIC, or nowhere"),
            (UNACCELERATED, "it runs over the kernel"),
        ],
        help="""
What becomes of a second accelerated instance on one network and NIC.

Onload sends past the kernel's macvlan, so two accelerated instances of one
host whose ports are on one network and one NIC don't reach each other. Set
it to the same for nova-scheduler and the compute hosts. With ``unaccelerated``
the instance's metadata says that it is not accelerated.
""",
    ),
    cfg.StrOpt(
        "resource",
        default="amd.com/onload",
        help="""
The extended resource by which pods get Onload from its device plugin.

It is ``amd.com/onload`` with the Onload operator 3, ``solarflare.com/sfc``
with the Cloud Onload operator before it.
""",
    ),
    cfg.StrOpt(
        "guest_library",
        default="libonload.so",
        help="""
What virtual machines preload: their own ``libonload.so``, by name or path.

Nothing can be preloaded into a VM from outside. The vendordata service gives
this name to cloud-init, and the image has to have Onload installed.
""",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_opts(ONLOAD_OPTS, group=GROUP)

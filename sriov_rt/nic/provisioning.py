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

"""Provisioning of all configured PFs: first all plans, then the writes."""

from collections.abc import Callable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.nic import amounts
from sriov_rt.nic import errors
from sriov_rt.nic import options
from sriov_rt.nic import provision
from sriov_rt.nic import waiting
from sriov_rt.nic.amounts import Amount
from sriov_rt.nic.amounts import Mode
from sriov_rt.nic.model import Pf
from sriov_rt.nic.provision import Holder
from sriov_rt.nic.provision import Provision
from sriov_rt.nic.vfs import Users
from sriov_rt.nic.vfs import Vfs


class ConfigurationUnreadable(exceptions.SriovRtError):
    """A configuration file cannot be read.

    :param problem: what is wrong.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"{problem}; correct it or name another by --config-file"
        )


def configured(
    files: Sequence[str] | None,
) -> tuple[tuple[Amount, ...], float]:
    """Return what ``[nic]`` says: the amounts, and the time for PFs.

    :param files: None for those of sriov-rt.
    :raises ConfigurationUnreadable: if one cannot be read.
    :raises ParseError: if ``vfs`` is not in its grammar.
    """
    try:
        conf = config.load(files)
        conf.register_opts(options.NIC_OPTS, group=options.GROUP)
        group = conf[options.GROUP]
        words, mode, timeout = group.vfs, group.vf_mode, group.pf_timeout
    except cfg.Error as error:
        raise ConfigurationUnreadable(str(error)) from error
    return amounts.parse(words, Mode(mode)), timeout


class Provisioning:
    """The work over all PFs.

    :param holder: who holds a VF that is bound to vfio-pci.
    :param users: who uses VFs, in any network namespace.
    :param tell: told what takes long.
    """

    def __init__(
        self,
        vfs: Vfs,
        holder: Holder,
        users: Users,
        tell: Callable[[str], None],
    ) -> None:
        self._vfs = vfs
        self._holder = holder
        self._users = users
        self._tell = tell

    def plan(
        self, wanted: Sequence[Amount], timeout: float
    ) -> tuple[Provision, ...]:
        """Return what is to be done to each PF; nothing is done yet.

        :param timeout: how long a PF may take to appear, seconds.
        :raises NicError: if it cannot be done to one of them.
        """
        return tuple(self._plan(each, timeout) for each in wanted)

    def apply(self, plans: Sequence[Provision]) -> None:
        """Do it.

        :raises NicError: for the first PF that fails.
        """
        for each in plans:
            if not each.is_empty:
                self._tell(
                    f"making {each.amount.number} VFs of {each.pf.name}"
                )
            provision.apply(
                self._vfs.kernel,
                self._vfs.families.of(each.pf),
                each,
                self._vfs.clock,
            )

    def _plan(self, amount: Amount, timeout: float) -> Provision:
        kernel = self._vfs.kernel

        def there() -> Pf | None:
            try:
                return kernel.pf(amount.pf)
            except errors.NoSuchDevice:
                return None

        pf = waiting.until(self._vfs.clock, timeout, there)
        if pf is None:
            # Once more, for its error.
            pf = kernel.pf(amount.pf)
        return provision.make(
            self._vfs.families.of(pf),
            pf,
            amount,
            provision.users(
                kernel,
                pf,
                self._holder,
                self._users(self._vfs.list(pf.name)) if pf.vfs else {},
            ),
        )

# SPDX-License-Identifier: Apache-2.0

import errno
import os
import unittest
from unittest import mock

from sriov_rt.exceptions import SriovRtError
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.vif import errors

PORT = "b3f2e1d0-1111-4222-8333-444455556666"


def _named() -> list[type[kernel_errors.LinkError]]:
    found = {
        *kernel_errors.LinkError.__subclasses__(),
        *errors.VifError.__subclasses__(),
    }
    return sorted(found - {errors.VifError}, key=lambda each: each.__name__)


class SentenceTest(unittest.TestCase):
    def test_each_error_says_device_port_and_next_action(self):
        for named in _named():
            with self.subTest(named=named.__name__):
                error = named("enp1s0v0", port=PORT, detail="mode vepa")
                self.assertIsInstance(error, SriovRtError)
                text = str(error)
                self.assertTrue(text.startswith(f"port={PORT} enp1s0v0: "))
                self.assertIn("mode vepa", text)
                self.assertTrue(text.endswith(named.advice))

    def test_who_may_not_read_the_records_is_told_to_be_root(self):
        denied = PermissionError(errno.EACCES, "Permission denied")
        broken = errors.RecordsBroken("/run", detail="Permission denied")
        broken.__cause__ = denied
        for user, advice in (
            (65534, "run as root"),
            (0, errors.RecordsBroken.advice),
        ):
            with mock.patch.object(os, "geteuid", return_value=user):
                self.assertTrue(str(broken).endswith(f"; {advice}"))
        broken.__cause__ = OSError(errno.EROFS, "Read-only file system")
        with mock.patch.object(os, "geteuid", return_value=65534):
            self.assertTrue(str(broken).endswith(broken.advice))

    def test_an_error_without_a_port_names_none(self):
        self.assertEqual(
            "enp1s0v0: the kernel was not ready for it; wait until the VF has"
            " finished its reset, then try again",
            str(kernel_errors.TryAgain("enp1s0v0")),
        )

    def test_no_error_inherits_anothers_words(self):
        texts = {(each.problem, each.advice) for each in _named()}
        self.assertEqual(len(_named()), len(texts))


class FromErrnoTest(unittest.TestCase):
    def test_known_errnos_have_names(self):
        for code, named in (
            (errno.EPERM, kernel_errors.NotPermitted),
            (errno.EBUSY, kernel_errors.ParentTaken),
            (errno.EAGAIN, kernel_errors.TryAgain),
            (errno.EEXIST, kernel_errors.NameTaken),
            (errno.ENODEV, kernel_errors.NoSuchLink),
            (errno.EOPNOTSUPP, kernel_errors.Unsupported),
            (kernel_errors.ENOTSUPP, kernel_errors.Unsupported),
        ):
            with self.subTest(code=code):
                error = kernel_errors.from_errno(
                    code, "veth0", detail="create"
                )
                self.assertIs(named, type(error))
                self.assertEqual("veth0", error.device)
                self.assertEqual("create", error.detail)

    def test_others_are_refusals_that_keep_the_errno(self):
        error = kernel_errors.from_errno(errno.EINVAL, "veth0", port=PORT)
        self.assertIsInstance(error, kernel_errors.LinkRefused)
        self.assertEqual(errno.EINVAL, error.code)
        self.assertIn("EINVAL: Invalid argument", str(error))

    def test_a_number_that_is_no_errno_is_shown(self):
        self.assertIn("4095", str(kernel_errors.from_errno(4095, "veth0")))

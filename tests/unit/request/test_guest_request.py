# SPDX-License-Identifier: Apache-2.0

"""A request outside Nova: a line of text, or attributes."""

import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.parse import errors
from sriov_rt.request import guest_request
from sriov_rt.request.guest_request import GuestRequest


class TextTest(unittest.TestCase):
    def test_extra_specs_and_a_pinning(self):
        self.assertEqual(
            GuestRequest(
                {"sriov_rt:realtime": "required", "sriov_rt:guest": "lean"},
                "0#6_1#7",
            ),
            guest_request.from_text(
                "realtime=required & sriov_rt:guest=lean&pinning=0#6_1#7"
            ),
        )

    def test_a_selector_has_commas_spaces_and_equals_signs(self):
        selector = "a in (x, y),b!=c"
        self.assertEqual(
            {"sriov_rt:node_selector": selector},
            guest_request.from_text(f"node_selector={selector}").extra_specs,
        )

    def test_an_empty_one_is_a_request_too(self):
        self.assertEqual(GuestRequest({}), guest_request.from_text(" "))

    def test_what_is_no_request(self):
        for text in (
            "realtime",
            "=required",
            "realtime=required &",
            "guest=lean&guest=bare",
            "LD_PRELOAD=/tmp/x.so",
            "hw:cpu_policy=dedicated",
            "guest=lean&" + "x" * 100_000,
        ):
            with (
                self.subTest(text[:40]),
                self.assertRaises(errors.ParseError) as raised,
            ):
                guest_request.from_text(text)
            self.assertLess(len(str(raised.exception)), 600)

    @hypothesis.given(strategies.text())
    def test_any_text_is_a_request_or_refused(self, text):
        try:
            guest_request.from_text(text)
        except errors.ParseError as error:
            self.assertTrue(str(error).isprintable())

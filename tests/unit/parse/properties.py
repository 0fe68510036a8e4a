# SPDX-License-Identifier: Apache-2.0

"""What the tests of all parsers share."""

import time
import tracemalloc
import unittest
from collections.abc import Callable
from typing import Any

import hypothesis

from sriov_rt.parse import errors

#: The same examples in each run, and no time limit on a busy machine.
deterministic = hypothesis.settings(derandomize=True, deadline=None)

#: What one hostile text may take. Seconds of CPU: the parsers need less
#: than 0.05, a quadratic one more than 10. Bytes: twice a full CPU set.
MAX_SECONDS = 1.0
MAX_BYTES = 4 * 1024 * 1024


class ParserTestCase(unittest.TestCase):
    def refusal(
        self, parse: Callable[..., Any], text: str, **kwargs: Any
    ) -> errors.ParseError:
        """Return the ParseError that a text is refused with."""
        with self.assertRaises(errors.ParseError) as caught:
            parse(text, **kwargs)
        return caught.exception

    def outcome(
        self, parse: Callable[..., Any], text: str, **kwargs: Any
    ) -> Any:
        """Return the value of a text, or None if it is properly refused.

        Anything but a value or a sound ParseError fails the test.
        """
        try:
            return parse(text, **kwargs)
        except errors.ParseError as error:
            self.assertLessEqual(len(error.text), errors.MAX_TEXT)
            if error.position is not None:
                self.assertGreaterEqual(error.position, 0)
                self.assertLessEqual(error.position, len(text))
            self.assertTrue(error.problem)
            return None

    def assert_bounded(
        self,
        parse: Callable[..., Any],
        text: str,
        max_bytes: int = MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        """Fail if a text costs more time or memory than a parser may take."""
        started = time.process_time()
        self.outcome(parse, text, **kwargs)
        self.assertLess(time.process_time() - started, MAX_SECONDS)
        tracemalloc.start()
        try:
            self.outcome(parse, text, **kwargs)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.assertLess(peak, max_bytes)

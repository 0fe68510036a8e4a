# SPDX-License-Identifier: Apache-2.0

"""How fast the outer machine's time stamp counter runs."""

import ctypes
import mmap
import time

#: rdtsc; shl rdx, 32; or rax, rdx; ret
_READ = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_SECONDS = 0.25
_TRIES = 9


def frequency_khz() -> int:
    """Measure the counter against the monotonic clock.

    QEMU without KVM gives its guests the counter as it is, but not its
    frequency. A kernel that measures it while the outer machine is busy is
    wrong by a factor of up to ten, and so are its clocks from then on.
    """
    with mmap.mmap(
        -1,
        mmap.PAGESIZE,
        prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
    ) as page:
        page.write(_READ)
        code = ctypes.c_char.from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(code))
        begin_ns, begin = _sample(read)
        time.sleep(_SECONDS)
        end_ns, end = _sample(read)
        # The page can't be unmapped while something points into it.
        del code
    return round((end - begin) / (end_ns - begin_ns) * 1e6)


def _sample(read: "ctypes._FuncPointer") -> tuple[float, int]:
    """Return a time in ns and the counter then.

    The pair that took least is the one that nothing came between.
    """
    tries = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        counter = read()
        after = time.monotonic_ns()
        tries.append((after - before, (before + after) / 2, counter))
    _, moment, counter = min(tries)
    return moment, counter

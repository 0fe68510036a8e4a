# SPDX-License-Identifier: Apache-2.0

"""Changes in a QEMU that cannot be made from outside otherwise.

``python -m tests.cloud.inject PID VERB`` as root, on x86-64. System calls are
made in the process, as a debugger makes them: ``unlock`` is munlockall(),
``shrink`` puts small pages in place of its last huge one. ``interrupt`` gives
its VF an interrupt by QEMU's own file descriptor, as when a guest's driver
starts: the guest's kernel in the test cloud has no driver for that VF.
"""

import ctypes
import fcntl
import os
import pathlib
import re
import struct
import sys
import time

#: include/uapi/linux/ptrace.h
_PEEK, _GET, _SET, _STEP, _ATTACH, _DETACH = 1, 12, 13, 9, 16, 17
#: struct user_regs_struct of arch/x86/include/asm/user_64.h
_NAMES = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8"),
    *("rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags"),
    *("rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_SYSCALL = 0x050F
_MMAP, _MUNLOCKALL = 9, 152
_MINUS_ONE = 2**64 - 1
_HUGE = 2 * 1024 * 1024
#: pidfd_getfd(2)
_GETFD = 438
#: VFIO_DEVICE_SET_IRQS of include/uapi/linux/vfio.h; VFIO_IRQ_SET_DATA_EVENTFD
#: | VFIO_IRQ_SET_ACTION_TRIGGER; VFIO_PCI_MSIX_IRQ_INDEX
_SET_IRQS, _EVENTFD_TRIGGERS, _MSIX = 0x3B6E, 0x24, 2
_VFIO = "anon_inode:[vfio-device]"
#: PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
_PROTECTION, _FLAGS = 3, 0x32


class _Registers(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in _NAMES)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (
    *(ctypes.c_long, ctypes.c_long),
    *(ctypes.c_void_p, ctypes.c_void_p),
)


def _ptrace(
    verb: int, pid: int, address: int = 0, data: _Registers | None = None
) -> int:
    ctypes.set_errno(0)
    place = None if data is None else ctypes.addressof(data)
    found: int = _libc.ptrace(verb, pid, address, place)
    if found == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def call(pid: int, number: int, *arguments: int) -> int:
    """Make a system call in the first thread of a process.

    It has to wait in one of its own, whose instruction is used again.

    :raises OSError: if it fails there, or cannot be made.
    """
    _ptrace(_ATTACH, pid)
    try:
        os.waitpid(pid, 0)
        before = _Registers()
        _ptrace(_GET, pid, 0, before)
        here = before.rip - 2
        if _ptrace(_PEEK, pid, here) & 0xFFFF != _SYSCALL:
            raise BlockingIOError("it is not in a system call")
        changed = _Registers.from_buffer_copy(before)
        changed.rip, changed.rax = here, number
        # Its own is not gone on with meanwhile.
        changed.orig_rax = _MINUS_ONE
        for name, value in zip(_ARGUMENTS, arguments, strict=False):
            setattr(changed, name, value)
        _ptrace(_SET, pid, 0, changed)
        _ptrace(_STEP, pid)
        os.waitpid(pid, 0)
        after = _Registers()
        _ptrace(_GET, pid, 0, after)
        _ptrace(_SET, pid, 0, before)
    finally:
        _ptrace(_DETACH, pid)
    result = ctypes.c_int64(after.rax).value
    if -4096 < result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def last_huge_page(pid: int) -> int:
    """Return the address of the last huge page of the largest mapping."""
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    found = []
    start = end = 0
    for line in text.splitlines():
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            start, end = int(match[1], 16), int(match[2], 16)
        elif re.match(r"KernelPageSize: +2048 kB", line):
            found.append((end - start, end - _HUGE))
    return max(found)[1]


def interrupt(pid: int) -> None:
    """Let a VF of a QEMU have its first MSI-X vector.

    :raises OSError: if the kernel refuses it.
    """
    (number,) = (
        int(each.name)
        for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()
        if str(each.readlink()) == _VFIO
    )
    device = _libc.syscall(_GETFD, os.pidfd_open(pid), number, 0)
    if device == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # struct vfio_irq_set: its size, flags, index, start, count, data.
    head = (24, _EVENTFD_TRIGGERS, _MSIX, 0, 1)
    fcntl.ioctl(device, _SET_IRQS, struct.pack("=5Ii", *head, os.eventfd(0)))


def main() -> None:
    """Make the change that the command line names."""
    pid, verb = int(sys.argv[1]), sys.argv[2]
    if verb == "interrupt":
        interrupt(pid)
        return
    for _ in range(100):
        try:
            call(pid, *_call(pid, verb))
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return
    sys.exit(f"{pid} does not wait")


def _call(pid: int, verb: str) -> tuple[int, ...]:
    """Return the number of a system call, and its arguments."""
    if verb == "unlock":
        return (_MUNLOCKALL,)
    place = last_huge_page(pid)
    return (_MMAP, place, _HUGE, _PROTECTION, _FLAGS, _MINUS_ONE, 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0

"""The variables of Onload that a profile may set, and their values.

Names and bounds are those of Onload 9.2's own tables
(``src/include/ci/internal/opts_citp_def.h`` and ``opts_netif_def.h``). Other
variables can't be set. ``EF_LD_PRELOAD``, ``EF_LOG_FILE`` and
``EF_CONFIG_DUMP`` are excluded because they name libraries and files.
"""

import dataclasses
import re
import types
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.parse import numbers

#: Values that are text: interface lists, filter strings, names of stacks.
#: No character in them has a meaning to a shell, lxc.conf or XML.
_TEXT = re.compile(r"[A-Za-z0-9_.:=,+*-]{1,64}", re.ASCII)
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}", re.ASCII)

_FLAG = """
    EF_ACCEPT_INHERIT_NONBLOCK EF_AF_XDP_ZEROCOPY EF_BINDTODEVICE_HANDOVER
    EF_CLUSTER_HOT_RESTART EF_CLUSTER_IGNORE EF_CLUSTER_RESTART
    EF_CTPIO_SWITCH_BYPASS EF_DONT_ACCELERATE EF_DUMP_STACK_ON_EXIT
    EF_ENABLE_TX_ERROR_RECOVERY EF_EPOLL_CTL_FAST EF_EPOLL_CTL_HANDOFF
    EF_EPOLL_MT_SAFE EF_EPOLL_SPIN EF_FDS_MT_SAFE EF_FDTABLE_STRICT
    EF_FORCE_SEND_MULTICAST EF_HIGH_THROUGHPUT_MODE EF_INT_DRIVEN
    EF_INT_REPRIME EF_LOAD_ENV EF_LOG_TIMESTAMPS EF_LOG_VIA_IOCTL
    EF_MCAST_JOIN_BINDTODEVICE EF_MCAST_RECV EF_MCAST_RECV_HW_LOOP
    EF_MULTICAST_LOOP_OFF EF_NO_FAIL EF_NO_HW EF_PIPE_RECV_SPIN
    EF_PIPE_SEND_SPIN EF_PKT_WAIT_SPIN EF_POLL_FAST EF_POLL_IN_KERNEL
    EF_POLL_ON_DEMAND EF_POLL_SPIN EF_PREALLOC_PACKETS EF_PROBE
    EF_SA_ONSTACK_INTERCEPT EF_SCALABLE_ACTIVE_WILDS_NEED_FILTER
    EF_SCALABLE_LISTEN_MODE EF_SELECT_FAST EF_SELECT_SPIN EF_SHRUB_DEBUG
    EF_SHRUB_UNICAST EF_SHRUB_USE_INTERRUPTS EF_SOCK_LOCK_BUZZ
    EF_SO_BUSY_POLL_SPIN EF_STACK_LOCK_BUZZ EF_STACK_PER_THREAD
    EF_TAIL_DROP_PROBE EF_TCP EF_TCP_ACCEPT_SPIN EF_TCP_COMBINE_SENDS_MODE
    EF_TCP_CONNECT_HANDOVER EF_TCP_CONNECT_SPIN EF_TCP_EARLY_RETRANSMIT
    EF_TCP_ISN_INCLUDE_PASSIVE EF_TCP_ISN_MODE EF_TCP_LISTEN_HANDOVER
    EF_TCP_RCVBUF_MODE EF_TCP_RCVBUF_STRICT EF_TCP_RECV_SPIN
    EF_TCP_RST_DELAYED_CONN EF_TCP_RX_CHECKS
    EF_TCP_SEND_NONBLOCK_NO_PACKETS_MODE EF_TCP_SEND_SPIN
    EF_TCP_SHARED_LOCAL_PORTS_NO_FALLBACK EF_TCP_SHARED_LOCAL_PORTS_PER_IP
    EF_TCP_SHARED_LOCAL_PORTS_REUSE_FAST EF_TCP_SYNCOOKIES
    EF_TCP_TIME_WAIT_ASSASSINATION EF_TCP_URG_MODE EF_TIMESTAMPING_REPORTING
    EF_TX_PUSH EF_UDP EF_UDP_RECV_SPIN EF_UDP_SEND_NONBLOCK_NO_PACKETS_MODE
    EF_UDP_SEND_SPIN EF_UDP_SEND_UNLOCKED EF_UL_POLL EF_UL_SELECT
    EF_UNCONFINE_SYN EF_URG_RFC EF_USE_DSACK EF_VALIDATE_ENV
    EF_WODA_SINGLE_INTERFACE
"""

_TO2 = """
    EF_COMPOUND_PAGES_MODE EF_CTPIO EF_FORCE_TCP_NODELAY EF_MCAST_JOIN_HANDOVER
    EF_NETIF_DTOR EF_PIO EF_POISON_RX_BUF EF_RX_TIMESTAMPING_ORDERING
    EF_RX_TIMESTAMPING_TRAILER_FORMAT EF_SCALABLE_FILTERS_ENABLE
    EF_SYNC_CPLANE_AT_CREATE EF_TCP_SNDBUF_MODE EF_TCP_TSOPT_MODE EF_TPH_MODE
    EF_TX_DATAPATH EF_UDP_CONNECT_HANDOVER EF_USE_HUGE_PAGES EF_VFORK_MODE
"""

_TO3 = """
    EF_AUTO_FLOWLABELS EF_MCAST_SEND EF_RX_DATAPATH EF_RX_TIMESTAMPING
    EF_TX_TIMESTAMPING EF_UL_EPOLL
"""

_COUNT = """
    EF_ACCEPTQ_MAX_BACKLOG EF_ACCEPTQ_MIN_BACKLOG EF_BURST_CONTROL_LIMIT
    EF_BUZZ_USEC EF_CLUSTER_SIZE EF_CONG_AVOID_SCALE_BACK EF_CONG_NOTIFY_THRESH
    EF_CTPIO_CT_THRESH EF_CTPIO_MAX_FRAME_LEN EF_DEFER_ARP_MAX
    EF_DEFER_ARP_TIMEOUT EF_DEFER_WORK_LIMIT EF_DELACK_THRESH
    EF_DYNAMIC_ACK_THRESH EF_ENDPOINT_PACKET_RESERVE EF_EVS_PER_POLL
    EF_FDTABLE_SIZE EF_FORK_NETIF EF_FREE_PACKETS_LOW_WATERMARK
    EF_HELPER_PRIME_USEC EF_HELPER_USEC EF_ICMP_PKTS EF_INVALID_ACK_RATELIMIT
    EF_KEEPALIVE_INTVL EF_KEEPALIVE_PROBES EF_KEEPALIVE_TIME
    EF_KERNEL_PACKETS_BATCH_SIZE EF_KERNEL_PACKETS_TIMER_USEC EF_MAX_ENDPOINTS
    EF_MAX_PACKETS EF_MAX_RX_PACKETS EF_MAX_TX_PACKETS EF_MIN_FREE_PACKETS
    EF_NONAGLE_INFLIGHT_MAX EF_PIO_THRESHOLD EF_PIPE EF_PIPE_SIZE
    EF_POLL_FAST_USEC EF_POLL_NONBLOCK_FAST_USEC EF_POLL_USEC
    EF_PREFAULT_PACKETS EF_RETRANSMIT_THRESHOLD EF_RETRANSMIT_THRESHOLD_ORPHAN
    EF_RETRANSMIT_THRESHOLD_SYN EF_RETRANSMIT_THRESHOLD_SYNACK
    EF_RFC_RTO_INITIAL EF_RFC_RTO_MAX EF_RFC_RTO_MIN EF_RXQ_LIMIT EF_RXQ_MIN
    EF_RX_DROP_RATE EF_SCALABLE_FILTERS_IFINDEX_ACTIVE
    EF_SCALABLE_FILTERS_IFINDEX_PASSIVE EF_SELECT_FAST_USEC
    EF_SELECT_NONBLOCK_FAST_USEC EF_SEND_POLL_MAX_EVS EF_SEND_POLL_THRESH
    EF_SHRUB_BUFFER_COUNT EF_SHRUB_MAX_CLIENT_BUFFERS EF_SLEEP_SPIN_USEC
    EF_SOCKET_CACHE_MAX EF_SPIN_USEC EF_STRIPE_DUPACK_THRESHOLD
    EF_TCP_ADV_WIN_SCALE_MAX EF_TCP_BACKLOG_MAX EF_TCP_CLIENT_LOOPBACK
    EF_TCP_FASTSTART_IDLE EF_TCP_FASTSTART_INIT EF_TCP_FASTSTART_LOSS
    EF_TCP_FIN_TIMEOUT EF_TCP_INITIAL_CWND EF_TCP_ISN_2MSL
    EF_TCP_ISN_CACHE_SIZE EF_TCP_ISN_OFFSET EF_TCP_LOSS_MIN_CWND
    EF_TCP_MIN_CWND EF_TCP_RCVBUF EF_TCP_RCVBUF_ESTABLISHED_DEFAULT
    EF_TCP_RST_COOLDOWN EF_TCP_SERVER_LOOPBACK EF_TCP_SHARED_LOCAL_PORTS
    EF_TCP_SHARED_LOCAL_PORTS_MAX EF_TCP_SHARED_LOCAL_PORTS_PER_IP_MAX
    EF_TCP_SHARED_LOCAL_PORTS_STEP EF_TCP_SNDBUF
    EF_TCP_SNDBUF_ESTABLISHED_DEFAULT EF_TCP_SOCKBUF_MAX_FRACTION
    EF_TCP_SYNRECV_MAX EF_TCP_TCONST_MSL EF_TX_PUSH_THRESHOLD
    EF_UDP_PORT_HANDOVER2_MAX EF_UDP_PORT_HANDOVER2_MIN
    EF_UDP_PORT_HANDOVER3_MAX EF_UDP_PORT_HANDOVER3_MIN
    EF_UDP_PORT_HANDOVER_MAX EF_UDP_PORT_HANDOVER_MIN EF_UDP_RCVBUF
    EF_UDP_SEND_UNLOCK_THRESH EF_UDP_SNDBUF EF_XDP_MODE
"""

_SIGNED = """
    EF_IRQ_CHANNEL EF_IRQ_CORE EF_PERIODIC_TIMER_CPU EF_PER_SOCKET_CACHE_MAX
    EF_RXQ_SIZE EF_SCALABLE_FILTERS_MODE EF_SHARED_RXQ_NUM
    EF_SHRUB_AUTO_CLOSE_DELAY EF_SHRUB_CONTROLLER EF_TCP_MAX_SEQERR_MSGS
    EF_TXQ_SIZE
"""

_BITS = """
    EF_ONLOAD_FD_BASE EF_SIGNALS_NOPOSTPONE EF_STRIPE_TCP_OPT
    EF_TCP_RX_LOG_FLAGS EF_TCP_SYN_OPTS EF_UNIX_LOG
"""

_WORDS = """
    EF_CLUSTER_NAME EF_CTPIO_MODE EF_INTERFACE_BLACKLIST EF_INTERFACE_WHITELIST
    EF_LOG EF_NAME EF_ONLOAD_IRQ_CORES EF_SCALABLE_FILTERS
    EF_SOCKET_CACHE_PORTS EF_STRIPE_NETMASK EF_TCP_FORCE_REUSEPORT
    EF_UDP_FORCE_REUSEPORT
"""

#: Allowed only if the operator names them. With physical addressing, a program
#: can read and write all memory by the NIC's DMA; a shared stack is open to
#: other users' programs.
_WITHHELD = "EF_PACKET_BUFFER_MODE EF_SHARE_WITH"


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A variable and its valid values.

    :param minimum: the least number; None if its values are text.
    :param is_bits: whether hexadecimal is accepted too.
    :param is_withheld: whether it is allowed only if the operator names it.
    """

    minimum: int | None
    maximum: int = 0
    is_bits: bool = False
    is_withheld: bool = False

    def check(self, name: str, value: str) -> None:
        """Refuse an invalid value of the variable.

        :raises ParseError: if the value is invalid.
        """
        if self.minimum is None:
            if not _TEXT.fullmatch(value):
                raise errors.ParseError(
                    f"value of {name}",
                    value,
                    "1 to 64 of A-Z a-z 0-9 _ . : = , + * - expected",
                )
        elif not (self.is_bits and _HEX.fullmatch(value)):
            numbers.parse_int(
                value, f"value of {name}", self.minimum, self.maximum
            )


def _table() -> Mapping[str, Variable]:
    rows = (
        (_FLAG, Variable(0, 1)),
        (_TO2, Variable(0, 2)),
        (_TO3, Variable(0, 3)),
        (_COUNT, Variable(0, 2**32 - 1)),
        (_SIGNED, Variable(-1, 2**31 - 1)),
        (_BITS, Variable(0, 2**64 - 1, is_bits=True)),
        (_WORDS, Variable(None)),
        (_WITHHELD, Variable(-1, 2**31 - 1, is_withheld=True)),
    )
    return types.MappingProxyType(
        {name: row for names, row in rows for name in names.split()}
    )


#: Name of each variable to its valid values.
VARIABLES: Mapping[str, Variable] = _table()


def check(name: str, value: str, also: frozenset[str] = frozenset()) -> None:
    """Refuse a variable that may not be set, or not to this value.

    :param also: names of withheld variables that the operator allows.
    :raises ParseError: if the variable or its value is not allowed.
    """
    row = VARIABLES.get(name)
    if row is None:
        raise errors.ParseError(
            "variable", name, "no variable of Onload that a profile may set"
        )
    if row.is_withheld and name not in also:
        raise errors.ParseError(
            "variable",
            name,
            "it opens memory to other programs; name it in [onload] "
            "also_allow if you mean it",
        )
    row.check(name, value)

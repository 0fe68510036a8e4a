# SPDX-License-Identifier: Apache-2.0

"""Protocol Buffers messages built from a table of their fields."""

import types
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

#: Types of fields (FieldDescriptorProto.Type of descriptor.proto).
STRING = 9
BYTES = 12
_MESSAGE = 11
_OPTIONAL = 1
_REPEATED = 3

#: Name, number, and type or message of a field; the name of a repeated field
#: starts with ``[]``.
Field = tuple[str, int, int | str]


def build(
    package: str, table: Mapping[str, Sequence[Field]]
) -> Mapping[str, Any]:
    """Return the name of each message to its class.

    :param package: package of all messages.
    :param table: message to its fields; a message follows those it uses.
    """
    # Imported here because these are an extra of the package.
    from google.protobuf import descriptor_pb2
    from google.protobuf import descriptor_pool
    from google.protobuf import message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name=f"sriov_rt/{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            one = field.removeprefix("[]")
            added = message.field.add(
                name=one,
                number=number,
                label=_OPTIONAL if one == field else _REPEATED,
            )
            if isinstance(kind, str):
                added.type = _MESSAGE
                added.type_name = f".{package}.{kind}"
            else:
                added.type = kind
    # Its own pool: the whole process shares the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return types.MappingProxyType(
        {
            name: message_factory.GetMessageClass(
                pool.FindMessageTypeByName(f"{package}.{name}")
            )
            for name in table
        }
    )

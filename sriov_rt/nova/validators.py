# SPDX-License-Identifier: Apache-2.0

"""Validators of our extra specs, for ``nova.api.extra_spec_validators``."""

from nova import exception
from nova.api.validation.extra_specs import base

from sriov_rt.parse import errors
from sriov_rt.request import grammar

#: Characters that may follow the namespace; Nova's API accepts no others.
_ANY_NAME = r"[a-zA-Z0-9-_:. ]*"


class Validator(base.ExtraSpecValidator):  # type: ignore[misc]
    """One extra spec, checked by the grammar that is used everywhere else.

    The base class supports a regular expression or a list of values; neither
    says what is wrong with a label selector, and where.
    """

    def validate(self, name: str, value: str) -> None:
        """Check a value.

        :raises nova.exception.ValidationError: which the API turns into a
            400 with the sentence.
        """
        _, _, key = name.partition(":")
        try:
            grammar.parse_value(key, value)
        except errors.ParseError as error:
            raise exception.ValidationError(
                f"Validation failed; {name}: {error}"
            ) from error


def register() -> list[Validator]:
    """Return a validator for each of our extra specs, and one for the rest.

    The last one refuses every other name in our namespace: its sentence lists
    our extra specs, which Nova's does not.
    """
    known = [
        Validator(
            name=f"{grammar.NAMESPACE}:{name}",
            description=key.help,
            value={"type": str, "description": key.values},
        )
        for name, key in grammar.KEYS.items()
    ]
    unknown = Validator(
        name=f"{grammar.NAMESPACE}:{{name}}",
        description="Refused: an extra spec that does not exist.",
        value={"type": str},
        parameters=[{"name": "name", "pattern": _ANY_NAME}],
    )
    return [*known, unknown]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# The process that runs commands for the outer machine.

. "${0%/*}/common.sh"
exec "$RTVM_PYTHON" -I "${0%/*}/agent.py" "$RTVM_EXEC"

# SPDX-License-Identifier: Apache-2.0

"""What services are made of: threads, signals, retries, messages."""

# SPDX-License-Identifier: Apache-2.0
"""The whole suite. Worlds take tests in this order: what takes long comes first, so that they end together."""
import sys

import runner

# Each registers its tests.
import corpus_test  # noqa: F401
import line_test  # noqa: F401
import job_test  # noqa: F401
import secret_test  # noqa: F401
import crash_test  # noqa: F401
import restore_test  # noqa: F401
import network_test  # noqa: F401
import input_test  # noqa: F401

if __name__ == "__main__":
    sys.exit(runner.main())
